/** The SQL of files. Values are always parameters. */
import type { Queryable } from '../../../kernel/database/database.ts';
import type { FileState } from '../schemas.ts';
import { firstOf, statement } from './statement.ts';

/** A file as the module sees it. */
export interface FileRow {
  readonly _id: string;
  readonly name: string;
  readonly alias: string | null;
  readonly folder: string;
  readonly container: string;
  /** Bytes of the current content; what was announced while there is none. */
  readonly size: number;
  readonly isPublic: boolean;
  readonly mimeType: string | null;
  readonly state: FileState;
  readonly failure: string | null;
  readonly generation: number;
  readonly checksum: string | null;
  readonly etag: string | null;
  readonly owner: string | null;
  readonly createdBy: string | null;
  readonly metadata: unknown;
  readonly expiresAt: Date | null;
  readonly createdAt: Date;
  readonly updatedAt: Date;
  readonly bucket: string | null;
  readonly objectKey: string | null;
  readonly pendingUpload: string | null;
}

const columns = [
  '_id',
  'name',
  'alias',
  'folder',
  'container',
  'size',
  'isPublic',
  'mimeType',
  'state',
  'failure',
  'generation',
  'checksum',
  'etag',
  'owner',
  'createdBy',
  'metadata',
  'expiresAt',
  'createdAt',
  'updatedAt',
  'bucket',
  'objectKey',
  'pendingUpload',
]
  .map((name) => `f."${name}"`)
  .join(', ');

export const fileById = (database: Queryable, id: string): Promise<FileRow | undefined> =>
  firstOf(
    database.query<FileRow>(
      statement(`select ${columns} from "app"."File" f where f."_id" = $1::uuid`, [id]),
    ),
  );

/** Those of these files that have a content. */
export const readyFiles = async (
  database: Queryable,
  ids: readonly string[],
): Promise<readonly FileRow[]> =>
  (
    await database.query<FileRow>(
      statement(
        `select ${columns} from "app"."File" f where f."_id" = any($1::uuid[]) and f."state" = 'ready'`,
        [ids],
      ),
    )
  ).rows;

/** The same, locked until the transaction ends. */
export const lockFile = (database: Queryable, id: string): Promise<FileRow | undefined> =>
  firstOf(
    database.query<FileRow>(
      statement(`select ${columns} from "app"."File" f where f."_id" = $1::uuid for update`, [id]),
    ),
  );

/** Files by their names in the root of a container, locked in one order for everybody. */
export const lockFilesNamed = async (
  database: Queryable,
  container: string,
  names: readonly string[],
): Promise<readonly FileRow[]> =>
  (
    await database.query<FileRow>(
      statement(
        `select ${columns} from "app"."File" f where f."container" = $1 and f."folder" = '/' and f."name" = any($2::text[]) order by f."_id" for update`,
        [container, names],
      ),
    )
  ).rows;

/** Where a file stands for people. */
export interface FilePath {
  readonly container: string;
  readonly folder: string;
  readonly name: string;
}

/** `lock`: until the transaction ends. */
export const fileAt = (
  database: Queryable,
  { container, folder, name }: FilePath,
  lock = false,
): Promise<FileRow | undefined> =>
  firstOf(
    database.query<FileRow>(
      statement(
        `select ${columns} from "app"."File" f where f."container" = $1 and f."folder" = $2 and f."name" = $3${lock ? ' for update' : ''}`,
        [container, folder, name],
      ),
    ),
  );

export interface NewFile extends FilePath {
  readonly id: string;
  readonly alias: string | undefined;
  readonly size: number;
  readonly isPublic: boolean;
  readonly mimeType: string | undefined;
  readonly metadata?: unknown;
  readonly expiresAt?: Date | undefined;
  readonly owner: string | null;
  readonly createdBy: string;
  /** Absent: its bytes are expected. */
  readonly content?: StoredContent | undefined;
  /** The signed upload that will bring its bytes. */
  readonly pendingUpload?: string | undefined;
}

/** Bytes that are on the store. */
export interface StoredContent {
  readonly bucket: string;
  readonly objectKey: string;
  readonly size: number;
  readonly mimeType: string;
  /** SHA-256 in hex; nothing where the bytes did not come by us. */
  readonly checksum: string | undefined;
  readonly etag: string;
}

/** Nothing when the place is taken. */
export const insertFile = (database: Queryable, file: NewFile): Promise<FileRow | undefined> =>
  firstOf(
    database.query<FileRow>(
      statement(
        `insert into "app"."File" as f ("_id", "name", "alias", "folder", "container", "size", "isPublic", "mimeType", "metadata", "expiresAt", "owner", "createdBy",
          "state", "generation", "lastGeneration", "bucket", "objectKey", "checksum", "etag", "pendingUpload", "createdAt", "updatedAt", "__v")
        values ($1::uuid, $2, $3, $4, $5, $6::bigint, $7::boolean, $8, $9::jsonb, $10::timestamptz, $11, $12,
          $13, $14::integer, 1, $15, $16, $17, $18, $19, now(), now(), 0)
        on conflict ("container", "folder", "name") do nothing returning ${columns}`,
        [
          file.id,
          file.name,
          file.alias ?? null,
          file.folder,
          file.container,
          file.content?.size ?? file.size,
          file.isPublic,
          file.content?.mimeType ?? file.mimeType ?? null,
          file.metadata === undefined ? null : JSON.stringify(file.metadata),
          file.expiresAt ?? null,
          file.owner,
          file.createdBy,
          file.content ? 'ready' : 'pending',
          file.content ? 1 : 0,
          file.content?.bucket ?? null,
          file.content?.objectKey ?? null,
          file.content?.checksum ?? null,
          file.content?.etag ?? null,
          file.pendingUpload ?? null,
        ],
      ),
    ),
  );

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
           "mimeType" = $5, "checksum" = $6, "etag" = $7, "generation" = $8::integer,
           "lastGeneration" = greatest(f."lastGeneration", $8::integer), "pendingUpload" = null, "updatedAt" = now(), "__v" = f."__v" + 1
         where f."_id" = $1::uuid returning ${columns}`,
        [
          id,
          content.bucket,
          content.objectKey,
          content.size,
          content.mimeType,
          content.checksum ?? null,
          content.etag,
          content.generation,
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
           "metadata" = $8::jsonb, "expiresAt" = $9::timestamptz, "updatedAt" = now(), "__v" = f."__v" + 1
         where f."_id" = $1::uuid returning ${columns}`,
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
        ],
      ),
    ),
  );

/** Deletes files; answers them as they were. */
export const deleteFiles = async (
  database: Queryable,
  ids: readonly string[],
): Promise<readonly FileRow[]> =>
  (
    await database.query<FileRow>(
      statement(`delete from "app"."File" f where f."_id" = any($1::uuid[]) returning ${columns}`, [
        ids,
      ]),
    )
  ).rows;

/** The highest n of files `base (n)end` in a folder; 0 where there is none. */
export const highestSuffix = async (
  database: Queryable,
  { container, folder }: Omit<FilePath, 'name'>,
  { base, end }: { readonly base: string; readonly end: string },
): Promise<number> => {
  const found = await firstOf(
    database.query<{ n: number | null }>(
      statement(
        `select max(case when number ~ '^[1-9][0-9]{0,8}$' then number::integer end) as n
         from (
           select substr(f."name", char_length($3::text) + 3, char_length(f."name") - char_length($3::text) - 3 - char_length($4::text)) as number
           from "app"."File" f
           where f."container" = $1 and f."folder" = $2 and char_length(f."name") > char_length($3::text) + char_length($4::text) + 3
             and left(f."name", char_length($3::text) + 2) = $3::text || ' (' and right(f."name", char_length($4::text) + 1) = ')' || $4::text
         ) numbered`,
        [container, folder, base, end],
      ),
    ),
  );
  return found?.n ?? 0;
};

/** Names that follow one pattern are given out one after the other. Until the transaction ends. */
export const lockNames = (database: Queryable, text: string): Promise<unknown> =>
  database.query(statement('select pg_advisory_xact_lock(hashtextextended($1, 7301))', [text]));

/** Files of a container, in batches; `prefix`: those in this folder and below. Locked, so that nobody else deletes them too. */
export const lockFilesUnder = async (
  database: Queryable,
  container: string,
  prefix: string,
  limit: number,
): Promise<readonly FileRow[]> =>
  (
    await database.query<FileRow>(
      statement(
        `select ${columns} from "app"."File" f
         where f."container" = $1 and ($2 = '' or starts_with(f."folder", $2)) order by f."_id" limit $3::integer for update`,
        [container, prefix, limit],
      ),
    )
  ).rows;

/** Which of these places some file has its bytes in. */
export const knownObjects = async (
  database: Queryable,
  bucket: string,
  keys: readonly string[],
): Promise<ReadonlySet<string>> => {
  const { rows } = await database.query<{ key: string }>(
    statement(
      `select "objectKey" as key from "app"."File" where "bucket" = $1 and "objectKey" = any($2::text[])
       union all select object_key from penstock.storage_uploads where bucket = $1 and object_key = any($2::text[])`,
      [bucket, keys],
    ),
  );
  return new Set(rows.map(({ key }) => key));
};
