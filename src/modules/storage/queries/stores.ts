/** The SQL of stores that files lie on or have lain on (migrations.ts). Their settings are sealed. */
import type { Queryable } from '../../../kernel/database/database.ts';
import { firstOf, statement } from './statement.ts';

export interface StoreRow {
  /** Stands before the names of its buckets; empty for the first one. */
  readonly id: string;
  readonly settings: string;
}

/** The store with that fingerprint, which is made when there is none; its settings are those of now. */
export const knownStore = async (
  database: Queryable,
  fingerprint: string,
  seal: (id: string) => string,
): Promise<string> => {
  await database.query(
    statement(
      `insert into penstock.storage_stores (id, fingerprint, settings)
       select case when count(*) = 0 then '' else 's' || (count(*) + 1) end, $1, '' from penstock.storage_stores on conflict do nothing`,
      [fingerprint],
    ),
  );
  const row = await firstOf(
    database.query<{ id: string }>(
      statement('select id from penstock.storage_stores where fingerprint = $1', [fingerprint]),
    ),
  );
  // Somebody else took the number: the next one is free.
  if (!row) return knownStore(database, fingerprint, seal);
  await database.query(
    statement('update penstock.storage_stores set settings = $2 where id = $1', [
      row.id,
      seal(row.id),
    ]),
  );
  return row.id;
};

export const storeById = (database: Queryable, id: string): Promise<StoreRow | undefined> =>
  firstOf(
    database.query<StoreRow>(
      statement('select id, settings from penstock.storage_stores where id = $1', [id]),
    ),
  );

/** Whether any content is kept, so that it matters where. */
export const hasContents = async (database: Queryable): Promise<boolean> =>
  (
    await database.query(
      statement(
        `(select 1 from "app"."File" where "generation" > 0 limit 1) union all (select 1 from penstock.storage_trash limit 1)`,
        [],
      ),
    )
  ).count > 0;

/** Which of files have their bytes elsewhere than on this store. A condition. */
const elsewhere = (column: string, place: string): string =>
  `case when ${place}::text = '' then position('@' in ${column}) > 0 else not starts_with(${column}, ${place} || '@') end`;

export const filesElsewhere = async (
  database: Queryable,
  {
    store,
    after,
    limit,
  }: { readonly store: string; readonly after: string; readonly limit: number },
): Promise<readonly string[]> =>
  (
    await database.query<{ id: string }>(
      statement(
        `select "_id" as id from "app"."File" where "_id" > $2::uuid and "generation" > 0 and ${elsewhere('"bucket"', '$1')}
         order by "_id" limit $3::integer`,
        [store, after, limit],
      ),
    )
  ).rows.map(({ id }) => id);

export const countElsewhere = async (
  database: Queryable,
  store: string,
): Promise<{ readonly files: number; readonly bytes: number }> =>
  (await firstOf(
    database.query<{ files: number; bytes: number }>({
      text: `select count(*)::integer as files, coalesce(sum("size"), 0)::bigint as bytes from "app"."File" where "generation" > 0 and ${elsewhere('"bucket"', '$1')}`,
      values: [store],
    }),
  )) ?? { files: 0, bytes: 0 };

export interface TrashedPlace {
  readonly id: string;
  readonly bucket: string;
  readonly objectKey: string;
  readonly container: string;
}

export const trashElsewhere = async (
  database: Queryable,
  { store, limit }: { readonly store: string; readonly limit: number },
): Promise<readonly TrashedPlace[]> =>
  (
    await database.query<TrashedPlace>(
      statement(
        `select id, bucket, object_key as "objectKey", container from penstock.storage_trash
         where expires_at > now() and ${elsewhere('bucket', '$1')} order by id limit $2::integer`,
        [store, limit],
      ),
    )
  ).rows;

/** False when it came back, or went for good, meanwhile. */
export const moveTrashed = async (
  database: Queryable,
  { id, bucket, objectKey }: TrashedPlace,
  to: string,
): Promise<boolean> =>
  (
    await database.query(
      statement(
        'update penstock.storage_trash set bucket = $4 where id = $1::uuid and bucket = $2 and object_key = $3 returning id',
        [id, bucket, objectKey, to],
      ),
    )
  ).rows.length > 0;

/** Another bucket for a container's files to come; nothing when somebody else has given it one. */
export const turnBucket = (
  database: Queryable,
  { name, from, to }: { readonly name: string; readonly from: string; readonly to: string },
): Promise<unknown> =>
  database.query(
    statement(
      `update "app"."_StorageContainer" set "bucket" = $3, "updatedAt" = now(), "__v" = "__v" + 1 where "name" = $1 and "bucket" = $2`,
      [name, from, to],
    ),
  );
