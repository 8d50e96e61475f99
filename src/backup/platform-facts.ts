/** What a backup has to know about the platform whose database it is. */
import type pg from 'pg';

/** Whether the platform's own table of that name is there: before the first start there is none. */
export const isThere = async (client: pg.ClientBase, table: string): Promise<boolean> =>
  (await client.query(`select from pg_tables where schemaname = 'penstock' and tablename = $1`, [table])).rows.length > 0;

/** Keys of the migrations that made its tables what they are. */
export async function migrationsOf(client: pg.ClientBase): Promise<string[]> {
  if (!(await isThere(client, 'migrations'))) return [];
  const { rows } = await client.query<{ key: string }>(`select owner || '/' || id as key from penstock.migrations order by 1`);
  return rows.map(({ key }) => key);
}

/** Tables that are served in place and are not the platform's, such as `public.orders`. Views of the platform are made anew at a start. */
export async function tablesOfOthers(client: pg.ClientBase): Promise<string[]> {
  if (!(await isThere(client, 'declared_schemas')) || !(await isThere(client, 'views'))) return [];
  const { rows } = await client.query<{ name: string }>(
    `select distinct source ->> 'schema' || '.' || (source ->> 'name') as name
     from (select name as declared, layout -> 'mapping' -> 'source' as source from penstock.declared_schemas where removed_at is null) s
     where source is not null and declared not in (select name from penstock.views) order by 1`,
  );
  return rows.map(({ name }) => name);
}
