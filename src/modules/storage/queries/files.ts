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
  /** What the scanner has said of the content: `waiting`, `clean` or `infected`; nothing where none was asked. */
  readonly scan: ScanState | null;
}

export type ScanState = 'waiting' | 'clean' | 'infected';

/** What stands behind `select`, of a row `f`. */
export const fileColumns = [
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
  'scan',
]
  .map((name) => `f."${name}"`)
  .join(', ');

export const fileById = (database: Queryable, id: string): Promise<FileRow | undefined> =>
  firstOf(
    database.query<FileRow>(
      statement(`select ${fileColumns} from "app"."File" f where f."_id" = $1::uuid`, [id]),
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
        `select ${fileColumns} from "app"."File" f where f."_id" = any($1::uuid[]) and f."state" = 'ready'`,
        [ids],
      ),
    )
  ).rows;

/** The same, locked until the transaction ends. */
export const lockFile = (database: Queryable, id: string): Promise<FileRow | undefined> =>
  firstOf(
    database.query<FileRow>(
      statement(`select ${fileColumns} from "app"."File" f where f."_id" = $1::uuid for update`, [
        id,
      ]),
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
        `select ${fileColumns} from "app"."File" f where f."container" = $1 and f."folder" = '/' and f."name" = any($2::text[]) order by f."_id" for update`,
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
        `select ${fileColumns} from "app"."File" f where f."container" = $1 and f."folder" = $2 and f."name" = $3${lock ? ' for update' : ''}`,
        [container, folder, name],
      ),
    ),
  );

/** Bytes that are on the store. */
export interface StoredContent {
  readonly bucket: string;
  readonly objectKey: string;
  readonly size: number;
  readonly mimeType: string;
  /** SHA-256 in hex; nothing where the bytes did not come by us. */
  readonly checksum: string | undefined;
  readonly etag: string;
  readonly scan: ScanState | null;
}

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

/** Which of these places some file has its bytes in. */
export const knownObjects = async (
  database: Queryable,
  bucket: string,
  keys: readonly string[],
): Promise<ReadonlySet<string>> => {
  const { rows } = await database.query<{ key: string }>(
    statement(
      `select "objectKey" as key from "app"."File" where "bucket" = $1 and "objectKey" = any($2::text[])
       union all select object_key from penstock.storage_uploads where bucket = $1 and object_key = any($2::text[])
       union all select object_key from penstock.storage_trash where bucket = $1 and object_key = any($2::text[])`,
      [bucket, keys],
    ),
  );
  return new Set(rows.map(({ key }) => key));
};

/** Files whose time is over: by their own time, or by the rule of their container. Locked; those that somebody else is at are left out. */
export const expiredFiles = async (
  database: Queryable,
  { limit, except }: { readonly limit: number; readonly except: readonly string[] },
): Promise<readonly FileRow[]> =>
  (
    await database.query<FileRow>(
      statement(
        `select ${fileColumns} from "app"."File" f where f."_id" in (
           (select e."_id" from "app"."File" e where e."expiresAt" <= now() and not e."_id" = any($2::uuid[]) limit $1::integer)
           union all
           (select o."_id" from "app"."_StorageContainer" c
              cross join lateral (select f2."_id" from "app"."File" f2 where f2."container" = c."name"
                and f2."createdAt" < now() - (c."lifecycle" ->> 'deleteAfterDays')::integer * interval '1 day'
                and not f2."_id" = any($2::uuid[]) order by f2."createdAt" limit $1::integer) o
            where jsonb_typeof(c."lifecycle" -> 'deleteAfterDays') = 'number' limit $1::integer))
         limit $1::integer for update of f skip locked`,
        [limit, except],
      ),
    )
  ).rows;

/** Name of a container, or id of a folder. */
export type FilesIn =
  | { readonly container: string; readonly folderId?: undefined }
  | { readonly folderId: string; readonly container?: undefined };

/** A condition on files `f`, which an index serves. */
export const filesIn = (where: FilesIn, next: (value: unknown) => string): string =>
  where.folderId === undefined
    ? `f."container" = ${next(where.container)}`
    : `f."folderIds" @> array[${next(where.folderId)}::uuid]`;

/** Locked, so that nobody else deletes or changes them too. `condition`: over files `f`. */
export const lockFilesIn = async (
  database: Queryable,
  condition: string,
  values: readonly unknown[],
  limit: number,
): Promise<readonly FileRow[]> =>
  (
    await database.query<FileRow>({
      text: `select ${fileColumns} from "app"."File" f where ${condition} limit ${limit} for update of f`,
      values,
    })
  ).rows;
