/** The SQL of files whose owner is gone: who that is, and how files come to belong to nobody. */
import type { CompiledSchema } from '../../../data/schema/compile/compiled.ts';
import type { Queryable } from '../../../kernel/database/database.ts';
import { addGrowth } from './counters.ts';
import { type FileRow, lockFilesIn } from './files.ts';
import { statement } from './statement.ts';

/** Owners of whom anything is counted, after one of them. */
export const ownersAfter = async (
  database: Queryable,
  after: string,
  limit: number,
): Promise<readonly string[]> =>
  (
    await database.query<{ owner: string }>(
      statement(
        'select owner from penstock.storage_owners where owner > $1 and (bytes <> 0 or files <> 0) order by owner limit $2::integer',
        [after, limit],
      ),
    )
  ).rows.map(({ owner }) => owner);

/** Those of these ids that no record of a schema has. */
export const idsWithoutRecord = async (
  database: Queryable,
  { table }: Pick<CompiledSchema, 'table'>,
  ids: readonly string[],
): Promise<readonly string[]> =>
  (
    await database.query<{ id: string }>({
      text: `select given.id from unnest($1::text[]) given(id)
             where not exists (select from ${table} t where t."_id" = given.id::uuid)`,
      values: [ids],
    })
  ).rows.map(({ id }) => id);

/** Files of an owner, locked, but for those. */
export const lockFilesOf = (
  database: Queryable,
  owner: string,
  { limit, except = [] }: { readonly limit: number; readonly except?: readonly string[] },
): Promise<readonly FileRow[]> =>
  lockFilesIn(database, 'f."owner" = $1 and not f."_id" = any($2::uuid[])', [owner, except], limit);

/** The same of files of an owner that lie in the trash; answers their sizes. */
export const clearTrashOwners = async (
  database: Queryable,
  owner: string,
  limit: number,
): Promise<readonly number[]> =>
  (
    await database.query<{ size: number }>(
      statement(
        `update penstock.storage_trash set owner = null
         where id in (select id from penstock.storage_trash where owner = $1 limit $2::integer for update) returning size`,
        [owner, limit],
      ),
    )
  ).rows.map(({ size }) => size);

/** Lets go of counters at which nothing stands any more. */
export async function dropCounters(database: Queryable, owners: readonly string[]): Promise<void> {
  await addGrowth(database);
  await database.query(
    statement(
      'delete from penstock.storage_owners where owner = any($1::text[]) and bytes = 0 and files = 0',
      [owners],
    ),
  );
}
