/** The SQL that changes files. Values are always parameters. */
import type { Queryable } from '../../../kernel/database/database.ts';
import { levelsOf } from '../names.ts';
import {
  type FilePath,
  type FileRow,
  fileColumns,
  type ScanState,
  type StoredContent,
} from './files.ts';
import { firstOf, statement } from './statement.ts';

/** Ids of the container and of the folder with those above it, by which rights on them reach a file. Expressions. */
export const containerId = (name: string): string =>
  `(select c."_id" from "app"."_StorageContainer" c where c."name" = ${name})`;
export const folderIds = (container: string, levels: string): string =>
  `array(select d."_id" from "app"."_StorageFolder" d where d."container" = ${container} and d."name" = any(${levels}::text[]) order by d."name")`;

/** Counts up the number that the next content of a file gets. */
export const nextGeneration = async (
  database: Queryable,
  id: string,
  pendingUpload: string | undefined,
): Promise<number | undefined> =>
  (
    await firstOf(
      database.query<{ generation: number }>(
        statement(
          `update "app"."File" set "lastGeneration" = "lastGeneration" + 1,
             "pendingUpload" = coalesce($2, "pendingUpload"),
             "state" = case when $2::text is not null and "state" = 'failed' then 'pending' else "state" end
           where "_id" = $1::uuid returning "lastGeneration" as generation`,
          [id, pendingUpload ?? null],
        ),
      ),
    )
  )?.generation;

/** Makes bytes the content of a file. */
export const setContent = (
  database: Queryable,
  id: string,
  content: StoredContent & { readonly generation: number },
): Promise<FileRow | undefined> =>
  firstOf(
    database.query<FileRow>(
      statement(
        `update "app"."File" as f set "state" = 'ready', "failure" = null, "bucket" = $2, "objectKey" = $3, "size" = $4::bigint,
           "mimeType" = $5, "checksum" = $6, "etag" = $7, "generation" = $8::integer, "scan" = $9,
           "lastGeneration" = greatest(f."lastGeneration", $8::integer), "pendingUpload" = null, "updatedAt" = now(), "__v" = f."__v" + 1
         where f."_id" = $1::uuid returning ${fileColumns}`,
        [
          id,
          content.bucket,
          content.objectKey,
          content.size,
          content.mimeType,
          content.checksum ?? null,
          content.etag,
          content.generation,
          content.scan,
        ],
      ),
    ),
  );

/** Says why an expected content was refused. A file that has an earlier one keeps it. */
export const setFailure = (
  database: Queryable,
  id: string,
  upload: string,
  code: string,
): Promise<unknown> =>
  database.query(
    statement(
      `update "app"."File" set "pendingUpload" = null, "updatedAt" = now(), "__v" = "__v" + 1, "failure" = $3,
         "state" = case when "generation" = 0 then 'failed' else "state" end
       where "_id" = $1::uuid and "pendingUpload" = $2`,
      [id, upload, code],
    ),
  );

/** What of a file may change without its bytes. */
export interface FileChange extends FilePath {
  readonly alias: string | null;
  readonly mimeType: string | null;
  readonly isPublic: boolean;
  readonly metadata: unknown;
  readonly expiresAt: Date | null;
}

/** Throws a unique violation when the place is taken. */
export const updateFile = (
  database: Queryable,
  id: string,
  change: FileChange,
): Promise<FileRow | undefined> =>
  firstOf(
    database.query<FileRow>(
      statement(
        `update "app"."File" as f set "container" = $2, "folder" = $3, "name" = $4, "alias" = $5, "mimeType" = $6, "isPublic" = $7::boolean,
           "metadata" = $8::jsonb, "expiresAt" = $9::timestamptz, "containerId" = ${containerId('$2')}, "folderIds" = ${folderIds('$2', '$10')}, "updatedAt" = now(), "__v" = f."__v" + 1
         where f."_id" = $1::uuid returning ${fileColumns}`,
        [
          id,
          change.container,
          change.folder,
          change.name,
          change.alias,
          change.mimeType,
          change.isPublic,
          change.metadata === null || change.metadata === undefined
            ? null
            : JSON.stringify(change.metadata),
          change.expiresAt,
          levelsOf(change.folder),
        ],
      ),
    ),
  );

/** What a content is, as long as it is still that of the file. */
export const setChecksum = (
  database: Queryable,
  {
    id,
    objectKey,
    checksum,
  }: { readonly id: string; readonly objectKey: string; readonly checksum: string },
): Promise<unknown> =>
  database.query(
    statement(
      `update "app"."File" set "checksum" = $3 where "_id" = $1::uuid and "objectKey" = $2 and "checksum" is null`,
      [id, objectKey, checksum],
    ),
  );

/** What the scanner has said of a content, as long as it is still that of the file. */
export const setScan = (
  database: Queryable,
  {
    id,
    objectKey,
    scan,
  }: { readonly id: string; readonly objectKey: string; readonly scan: ScanState },
): Promise<FileRow | undefined> =>
  firstOf(
    database.query<FileRow>(
      statement(
        `update "app"."File" as f set "scan" = $3, "updatedAt" = now(), "__v" = f."__v" + 1
         where f."_id" = $1::uuid and f."objectKey" = $2 returning ${fileColumns}`,
        [id, objectKey, scan],
      ),
    ),
  );
