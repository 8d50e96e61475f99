/** The SQL of containers and folders. Values are always parameters. */
import type { Queryable } from '../../../kernel/database/database.ts';
import { newId } from '../../../kernel/ids.ts';
import type { FilePath } from './files.ts';
import { firstOf, statement } from './statement.ts';

export interface ContainerRow {
  readonly _id: string;
  readonly name: string;
  readonly isPublic: boolean;
  /** Its name on the store. */
  readonly bucket: string;
  /** Bytes. */
  readonly maxFileSize: number | null;
  readonly allowedMimeTypes: readonly string[] | null;
  /** Bytes. */
  readonly quota: number | null;
  readonly lifecycle: unknown;
  readonly usedBytes: number;
  readonly fileCount: number;
  readonly createdBy: string | null;
  readonly createdAt: Date;
  readonly updatedAt: Date;
}

const containerColumns = [
  '_id',
  'name',
  'isPublic',
  'bucket',
  'maxFileSize',
  'allowedMimeTypes',
  'quota',
  'lifecycle',
  'usedBytes',
  'fileCount',
  'createdBy',
  'createdAt',
  'updatedAt',
]
  .map((name) => `c."${name}"`)
  .join(', ');
const containers = '"app"."_StorageContainer"';
const growth = 'penstock.storage_growth';

export const containerByName = (
  database: Queryable,
  name: string,
): Promise<ContainerRow | undefined> =>
  firstOf(
    database.query<ContainerRow>(
      statement(`select ${containerColumns} from ${containers} c where c."name" = $1`, [name]),
    ),
  );

/** The same, and whether a file stands at a place in it; none is asked for where the name is null. */
export const containerWith = (
  database: Queryable,
  { container, folder, name }: Omit<FilePath, 'name'> & { readonly name: string | null },
): Promise<(ContainerRow & { readonly taken: boolean }) | undefined> =>
  firstOf(
    database.query<ContainerRow & { readonly taken: boolean }>(
      statement(
        `select ${containerColumns}, exists (select from "app"."File" f where f."container" = c."name" and f."folder" = $2 and f."name" = $3) as taken
         from ${containers} c where c."name" = $1`,
        [container, folder, name],
      ),
    ),
  );

export const containerById = (
  database: Queryable,
  id: string,
  lock = false,
): Promise<ContainerRow | undefined> =>
  firstOf(
    database.query<ContainerRow>(
      statement(
        `select ${containerColumns} from ${containers} c where c."_id" = $1::uuid${lock ? ' for update' : ''}`,
        [id],
      ),
    ),
  );

/** All but those of other modules. */
export const operatorContainers = async (database: Queryable): Promise<readonly ContainerRow[]> =>
  (
    await database.query<ContainerRow>(
      statement(
        `select ${containerColumns} from ${containers} c where not starts_with(c."name", 'module-') order by c."name"`,
        [],
      ),
    )
  ).rows;

/** Keeps a container from being deleted until the transaction ends; false when it is gone. Others may count on it meanwhile. */
export const holdContainer = async (database: Queryable, name: string): Promise<boolean> =>
  (
    await database.query(
      statement(`select 1 from ${containers} c where c."name" = $1 for key share`, [name]),
    )
  ).count > 0;

/** Nothing when there is one of that name. */
export const insertContainer = (
  database: Queryable,
  container: Pick<ContainerRow, 'name' | 'isPublic' | 'bucket' | 'createdBy'>,
): Promise<ContainerRow | undefined> =>
  firstOf(
    database.query<ContainerRow>(
      statement(
        `insert into ${containers} as c ("_id", "name", "isPublic", "bucket", "usedBytes", "fileCount", "createdBy", "createdAt", "updatedAt", "__v")
         values ($1::uuid, $2, $3::boolean, $4, 0, 0, $5, now(), now(), 0) on conflict do nothing returning ${containerColumns}`,
        [newId(), container.name, container.isPublic, container.bucket, container.createdBy],
      ),
    ),
  );

export interface ContainerChange {
  readonly isPublic: boolean;
  readonly maxFileSize: number | null;
  readonly allowedMimeTypes: readonly string[] | null;
  readonly quota: number | null;
  readonly lifecycle: unknown;
}

export const updateContainer = (
  database: Queryable,
  id: string,
  change: ContainerChange,
): Promise<ContainerRow | undefined> =>
  firstOf(
    database.query<ContainerRow>(
      statement(
        `update ${containers} as c set "isPublic" = $2::boolean, "maxFileSize" = $3::bigint, "allowedMimeTypes" = $4::jsonb, "quota" = $5::bigint,
           "lifecycle" = $6::jsonb, "updatedAt" = now(), "__v" = c."__v" + 1
         where c."_id" = $1::uuid returning ${containerColumns}`,
        [
          id,
          change.isPublic,
          change.maxFileSize,
          jsonOrNull(change.allowedMimeTypes),
          change.quota,
          jsonOrNull(change.lifecycle),
        ],
      ),
    ),
  );

const jsonOrNull = (value: unknown): string | null =>
  value === null || value === undefined ? null : JSON.stringify(value);

/** With what was still to be counted. Nobody adds to that while it is locked. */
export const deleteContainer = (database: Queryable, id: string): Promise<unknown> =>
  database.query(
    statement(
      `with gone as (delete from ${containers} where "_id" = $1::uuid returning "name")
       delete from ${growth} where container in (select "name" from gone)`,
      [id],
    ),
  );

/** Whether any private file is in it. */
export const hasPrivateFiles = async (database: Queryable, container: string): Promise<boolean> =>
  (
    await database.query(
      statement('select 1 from "app"."File" where "container" = $1 and not "isPublic" limit 1', [
        container,
      ]),
    )
  ).count > 0;

/** Whether a file is in it, or has its bytes there. */
export const hasFiles = async (
  database: Queryable,
  { name, bucket }: Pick<ContainerRow, 'name' | 'bucket'>,
): Promise<boolean> =>
  (
    await database.query(
      statement(
        `(select 1 from "app"."File" where "container" = $1 limit 1) union all (select 1 from "app"."File" where "bucket" = $2 limit 1)`,
        [name, bucket],
      ),
    )
  ).count > 0;

/** What a container grows by; negative where something goes. */
export interface Growth {
  readonly container: string;
  readonly bytes: number;
  readonly files: number;
}

/** Adds to the counters of a container; false when it would grow beyond its quota, and then nothing is added. */
export const count = async (
  database: Queryable,
  { container, bytes, files }: Growth,
): Promise<boolean> =>
  (
    await firstOf(
      database.query<{ counted: boolean }>(
        statement(
          `with ${counting('$1', '$2', '$3')} select exists (select from noted union all select from counted) as counted`,
          [container, bytes, files],
        ),
      ),
    )
  )?.counted ?? false;

/**
 * Parts `noted` and `counted` of a statement, of which one has a row when what was asked for is counted (decision 179).
 * Without a quota the growth is written down beside those of others; a container with one is locked, and touched only where
 * it does not grow beyond that. Expressions.
 */
export const counting = (name: string, bytes: string, files: string, condition = 'true'): string =>
  `noted as (insert into ${growth} (container, bytes, files)
     select ${name}, ${bytes}::bigint, ${files}::integer from ${containers} c where c."name" = ${name} and c."quota" is null and ${condition} returning 1),
   counted as (update ${containers} set "usedBytes" = greatest(0, "usedBytes" + ${bytes}::bigint), "fileCount" = greatest(0, "fileCount" + ${files}::integer)
     where "name" = ${name} and "quota" is not null and ${condition}
       and (${bytes}::bigint <= 0 or "usedBytes" + ${bytes}::bigint + coalesce((select sum(g.bytes) from ${growth} g where g.container = ${name}), 0) <= "quota") returning 1)`;

/** Adds what was written down to the counters of its containers: one of them, or all. Before anybody is told them. */
export const addGrowth = (database: Queryable, container?: string): Promise<unknown> =>
  database.query(
    statement(
      `with gone as (delete from ${growth} where $1::text is null or container = $1 returning container, bytes, files),
         sums as (select container, sum(bytes)::bigint as bytes, sum(files)::integer as files from gone group by container)
       update ${containers} c set "usedBytes" = greatest(0, c."usedBytes" + s.bytes), "fileCount" = greatest(0, c."fileCount" + s.files)
       from sums s where c."name" = s.container`,
      [container ?? null],
    ),
  );

export interface StorageTotals {
  readonly containers: number;
  readonly folders: number;
  readonly files: number;
  readonly totalSize: number;
  readonly publicFiles: number;
  readonly privateFiles: number;
  readonly perContainer: readonly {
    readonly name: string;
    readonly files: number;
    readonly size: number;
  }[];
}

/** Sums of the counters, and two counts of rows: for operators, not for every scrape. */
export async function storageTotals(database: Queryable): Promise<StorageTotals> {
  await addGrowth(database);
  const { rows } = await database.query<{ name: string; files: number; size: number }>({
    text: `select "name", "fileCount"::bigint as files, "usedBytes"::bigint as size from ${containers} order by "name"`,
  });
  const { rows: counted } = await database.query<{ folders: number; publicFiles: number }>({
    text: `select (select count(*) from "app"."_StorageFolder") as folders, (select count(*) from "app"."File" where "isPublic" and "generation" > 0) as "publicFiles"`,
  });
  const files = rows.reduce((sum, { files: some }) => sum + some, 0);
  const publicFiles = counted[0]?.publicFiles ?? 0;
  return {
    containers: rows.length,
    folders: counted[0]?.folders ?? 0,
    files,
    totalSize: rows.reduce((sum, { size }) => sum + size, 0),
    publicFiles,
    privateFiles: files - publicFiles,
    perContainer: rows,
  };
}
