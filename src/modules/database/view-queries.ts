/** SQL of views. */
import type { Queryable } from '../../kernel/database/database.ts';
import { identifier, sql } from '../../kernel/database/sql.ts';
import { relationName } from '../../kernel/schema/mapping/mapping.ts';
import { VIEW_SCHEMA, type View, viewName } from './services/views/definition.ts';

export interface StoredView {
  readonly view: View;
  /** The select that it stands for. */
  readonly statement: string;
}

export async function storedViews(database: Queryable): Promise<readonly StoredView[]> {
  const { rows } = await database.query<{ definition: View; statement: string }>(
    sql`select definition, statement from penstock.views order by name collate "C"`,
  );
  return rows.map(({ definition, statement }) => ({ view: definition, statement }));
}

/** Waits for whoever makes views at this moment, on any node, until the transaction ends. */
export const lockViews = (transaction: Queryable): Promise<unknown> =>
  transaction.query({ text: `select pg_advisory_xact_lock(hashtextextended('${VIEW_SCHEMA}', 0))` });

export const saveView = (database: Queryable, { view, statement }: StoredView): Promise<unknown> =>
  database.query(sql`
    insert into penstock.views (name, source, definition, statement)
    values (${view.name}, ${view.schema}, ${JSON.stringify(view)}, ${statement})
    on conflict (name) do update
    set source = excluded.source, definition = excluded.definition, statement = excluded.statement`);

export const forgetView = (database: Queryable, name: string): Promise<unknown> =>
  database.query(sql`delete from penstock.views where name = ${name}`);

/** Makes the view anew. */
export async function makeView(database: Queryable, { view: { name }, statement }: StoredView): Promise<void> {
  await database.query({ text: `create schema if not exists ${identifier(VIEW_SCHEMA)}` });
  await dropView(database, name);
  await database.query({ text: `create view ${relationName(viewName(name))} as ${statement}` });
}

export const dropView = (database: Queryable, name: string): Promise<unknown> =>
  database.query({ text: `drop view if exists ${relationName(viewName(name))}` });

/** Names of the views that are there. */
export async function madeViews(database: Queryable): Promise<ReadonlySet<string>> {
  const { rows } = await database.query<{ name: string }>(sql`select viewname as name from pg_views where schemaname = ${VIEW_SCHEMA}`);
  return new Set(rows.map(({ name }) => name));
}
