/** The lists that operators set, as they are stored. */
import { type Caller, callerKey } from '../caller.ts';
import type { Database, Queryable } from '../database/database.ts';
import { sql } from '../database/sql.ts';
import type { MiddlewareLists } from './apply.ts';

export async function readLists(database: Database): Promise<MiddlewareLists> {
  const { rows } = await database.query<{ route: string; middlewares: string[] }>(
    sql`select route, middlewares from penstock.route_middlewares order by route`,
  );
  return new Map(rows.map(({ route, middlewares }) => [route, middlewares]));
}

export async function storeList(transaction: Queryable, caller: Caller, route: string, names: readonly string[]): Promise<void> {
  await transaction.query(sql`
    insert into penstock.route_middlewares (route, middlewares, updated_by) values (${route}, ${names}, ${callerKey(caller)})
    on conflict (route) do update set middlewares = excluded.middlewares, version = route_middlewares.version + 1,
      updated_at = now(), updated_by = excluded.updated_by`);
}

export async function removeLists(transaction: Queryable, routes: readonly string[]): Promise<void> {
  await transaction.query(sql`delete from penstock.route_middlewares where route = any(${routes})`);
}
