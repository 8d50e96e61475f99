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

export const containerByName = (
  database: Queryable,
  name: string,
): Promise<ContainerRow | undefined> =>
  firstOf(
    database.query<ContainerRow>(
      statement(`select ${containerColumns} from ${containers} c where c."name" = $1`, [name]),
    ),
  );

/** A container, and what an upload into it meets. */
export interface SeenContainer extends ContainerRow {
  /** Another one once anything but its counters has changed. */
  readonly version: number;
  /** A file stands at that place. */
  readonly taken: boolean;
  /** Bytes that files of that owner have; null where none was asked for, or there are none. */
  readonly ownerBytes: number | null;
}

/** None is looked for where the name or the owner is null. */
export const containerWith = (
  database: Queryable,
  { container, folder, name }: Omit<FilePath, 'name'> & { readonly name: string | null },
  owner: string | null,
): Promise<SeenContainer | undefined> =>
  firstOf(
    database.query<SeenContainer>(
      statement(
        `select ${containerColumns}, c."__v" as version, exists (select from "app"."File" f where f."container" = c."name" and f."folder" = $2 and f."name" = $3) as taken,
           (select o.bytes from penstock.storage_owners o where o.owner = $4) as "ownerBytes"
         from ${containers} c where c."name" = $1`,
        [container, folder, name, owner],
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

/**
 * Keeps a container from being deleted until the transaction ends; false when it is gone. Others may count on it meanwhile,
 * unless it is held `alone`: by whoever will change its bucket.
 */
export const holdContainer = async (
  database: Queryable,
  name: string,
  alone = false,
): Promise<Pick<ContainerRow, 'isPublic'> | undefined> =>
  firstOf(
    database.query<Pick<ContainerRow, 'isPublic'>>(
      statement(
        `select c."isPublic" from ${containers} c where c."name" = $1 for ${alone ? 'update' : 'key share'}`,
        [name],
      ),
    ),
  );

/** Whether a container has this bucket, and nobody is deleting it. Waits for nobody. */
export const isBucketInUse = async (database: Queryable, bucket: string): Promise<boolean> =>
  (
    await database.query(
      statement(`select 1 from ${containers} c where c."bucket" = $1 for key share skip locked`, [
        bucket,
      ]),
    )
  ).count > 0;

/** Buckets are made, and removed when nothing uses them, one after the other. Until the transaction ends. */
export const lockBucket = (database: Queryable, bucket: string): Promise<unknown> =>
  database.query(statement('select pg_advisory_xact_lock(hashtextextended($1, 7302))', [bucket]));

/** Why a bucket must stay. */
export const usesOfBucket = async (
  database: Queryable,
  bucket: string,
): Promise<readonly ('container' | 'upload' | 'file' | 'trash')[]> =>
  (
    await database.query<{ use: 'container' | 'upload' | 'file' | 'trash' }>(
      statement(
        `(select 'container' as use from ${containers} where "bucket" = $1 limit 1)
         union all (select 'upload' from penstock.storage_uploads where bucket = $1 limit 1)
         union all (select 'file' from "app"."File" where "bucket" = $1 limit 1)
         union all (select 'trash' from penstock.storage_trash where bucket = $1 limit 1)`,
        [bucket],
      ),
    )
  ).rows.map(({ use }) => use);

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

/** What is still to be counted holds for owners alone then. */
export const deleteContainer = (database: Queryable, id: string): Promise<unknown> =>
  database.query(
    statement(
      `with gone as (delete from ${containers} where "_id" = $1::uuid returning "name")
       update penstock.storage_growth set container = null where container in (select "name" from gone)`,
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
