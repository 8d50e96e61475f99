/**
 * The SQL that changes files. Values are always parameters. All changes go through `FileWrites`, which tells who keeps
 * files in memory.
 */
import type { Queryable, Transaction } from '../../../kernel/database/database.ts';
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

/** A content, as long as it is still that of the file. */
interface ContentPlace {
  readonly id: string;
  readonly objectKey: string;
}

/** Counts up the number that the next content of a file gets. */
const nextGeneration = async (
  database: Queryable,
  id: string,
  pendingUpload?: string | undefined,
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

/** Makes bytes the content of a file. A younger address for it goes on to be the one that is waited for. */
const setContent = (
  database: Queryable,
  id: string,
  content: StoredContent & { readonly generation: number },
): Promise<FileRow | undefined> =>
  firstOf(
    database.query<FileRow>(
      statement(
        `update "app"."File" as f set "state" = 'ready', "failure" = null, "bucket" = $2, "objectKey" = $3, "size" = $4::bigint,
           "mimeType" = $5, "checksum" = $6, "etag" = $7, "generation" = $8::integer, "scan" = $9,
           "lastGeneration" = greatest(f."lastGeneration", $8::integer), "updatedAt" = now(), "__v" = f."__v" + 1,
           "pendingUpload" = (select u.id::text from penstock.storage_uploads u where u.file_id = f."_id" and u.id::text = f."pendingUpload" and u.generation > $8::integer)
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
const setFailure = (
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
const updateFile = (
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
const setChecksum = (
  database: Queryable,
  { id, objectKey }: ContentPlace,
  checksum: string,
): Promise<unknown> =>
  database.query(
    statement(
      `update "app"."File" set "checksum" = $3 where "_id" = $1::uuid and "objectKey" = $2 and "checksum" is null`,
      [id, objectKey, checksum],
    ),
  );

/** What the scanner has said of a content, as long as it is still that of the file. */
const setScan = (
  database: Queryable,
  { id, objectKey }: ContentPlace,
  scan: ScanState,
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

/** Locked files belong to nobody from now on. */
const clearFileOwners = (database: Queryable, ids: readonly string[]): Promise<unknown> =>
  database.query(
    statement(
      `update "app"."File" set "owner" = null, "updatedAt" = now(), "__v" = "__v" + 1 where "_id" = any($1::uuid[])`,
      [ids],
    ),
  );

/** Says that a content is not on the store, or that it is again, as long as it is the same one. */
const noteMissing = (
  database: Queryable,
  { id, objectKey }: ContentPlace,
  failure: string | null,
): Promise<unknown> =>
  database.query(
    statement(
      `update "app"."File" set "state" = case when $3::text is null then 'ready' else 'failed' end, "failure" = $3, "updatedAt" = now(), "__v" = "__v" + 1
       where "_id" = $1::uuid and "objectKey" = $2`,
      [id, objectKey, failure],
    ),
  );

/** A change of a file in a transaction. */
type Changing<Given extends readonly unknown[], R> = (
  transaction: Transaction,
  ...given: Given
) => Promise<R>;

export interface FileWrites {
  /** Counts up the number that the next content of a file gets. */
  readonly nextGeneration: Changing<[id: string, upload?: string | undefined], number | undefined>;
  /** Makes bytes the content of a file. */
  readonly setContent: Changing<
    [id: string, content: StoredContent & { readonly generation: number }],
    FileRow | undefined
  >;
  /** Says why an expected content was refused. A file that has an earlier one keeps it. */
  readonly setFailure: Changing<[id: string, upload: string, code: string], unknown>;
  /** Throws a unique violation when the place is taken. */
  readonly update: Changing<[id: string, change: FileChange], FileRow | undefined>;
  readonly setChecksum: Changing<[content: ContentPlace, checksum: string], unknown>;
  /** What the scanner has said of a content. */
  readonly setScan: Changing<[content: ContentPlace, scan: ScanState], FileRow | undefined>;
  /** Locked files belong to nobody from now on. */
  readonly clearOwner: Changing<[ids: readonly string[]], unknown>;
  /** Says that a content is not on the store, or that it is again. */
  readonly noteMissing: Changing<[content: ContentPlace, failure: string | null], unknown>;
}

/** `changing`: told of every file that is about to change in a transaction. */
export function createFileWrites(
  changing: (transaction: Transaction, ids: readonly string[]) => void,
): FileWrites {
  const told =
    <Given extends readonly unknown[], R>(
      write: (database: Queryable, ...given: Given) => Promise<R>,
      idsOf: (...given: Given) => readonly string[],
    ): Changing<Given, R> =>
    (transaction, ...given) => {
      changing(transaction, idsOf(...given));
      return write(transaction, ...given);
    };
  const one = (id: string): readonly string[] => [id];
  const its = ({ id }: ContentPlace): readonly string[] => [id];
  return {
    nextGeneration: told(nextGeneration, one),
    setContent: told(setContent, one),
    setFailure: told(setFailure, one),
    update: told(updateFile, one),
    setChecksum: told(setChecksum, its),
    setScan: told(setScan, its),
    clearOwner: told(clearFileOwners, (ids) => ids),
    noteMissing: told(noteMissing, its),
  };
}
