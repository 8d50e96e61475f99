/** Pending schemas in the database: what was inferred, and beside it what an admin made of it. */

import type { QualifiedName } from '../../../../data/schema/mapping/table-mapping.ts';
import type { Queryable } from '../../../../kernel/database/database.ts';
import { sql } from '../../../../kernel/database/sql.ts';
import { newId } from '../../../../kernel/ids.ts';
import type { Edits } from './edits.ts';
import type { InferredTable } from './inferred.ts';

export interface PendingRow {
  readonly id: string;
  /** Without the prefix of imported schemas, unless an admin chose it. */
  readonly name: string;
  readonly sourceSchema: string;
  readonly sourceTable: string;
  readonly inferred: InferredTable;
  readonly edits: Edits;
  readonly createdAt: Date;
  readonly updatedAt: Date;
}

/** A row without its contents. */
export interface PendingName extends QualifiedName {
  readonly id: string;
  /** As of PendingRow. */
  readonly pending: string;
  readonly renamed: boolean;
}

export interface PendingQuery {
  readonly skip: number;
  readonly limit: number;
  readonly search: string | undefined;
  /** Checked columns, `-` in front for descending. */
  readonly sort: readonly string[];
}

const columns =
  'id, name, source_schema as "sourceSchema", source_table as "sourceTable", inferred, edits, created_at as "createdAt", updated_at as "updatedAt"';
const orders: ReadonlyMap<string, string> = new Map([
  ['_id', 'id'],
  ['name', 'name'],
  ['createdAt', 'created_at'],
  ['updatedAt', 'updated_at'],
]);

/** Names to sort pending schemas by. */
export const pendingSorts: readonly string[] = [...orders.keys()];

export async function listPending(
  database: Queryable,
  { skip, limit, search, sort }: PendingQuery,
) {
  const terms = sort.map(
    (term) =>
      `${orders.get(term.replace(/^-/, '')) ?? 'name'}${term.startsWith('-') ? ' desc' : ''}`,
  );
  const order = [...terms, 'name'].join(', ');
  const where = 'where $1::text is null or position(lower($1::text) in lower(name)) > 0';
  const page = `select ${columns} from penstock.pending_schemas ${where} order by ${order} offset $2::bigint limit $3::integer`;
  const { rows } = await database.query<PendingRow>({
    text: page,
    values: [search ?? null, skip, limit],
  });
  const counted = await database.query<{ count: number }>({
    text: `select count(*)::integer as count from penstock.pending_schemas ${where}`,
    values: [search ?? null],
  });
  return { rows, count: counted.rows[0]?.count ?? 0 };
}

export async function pendingNames(database: Queryable): Promise<readonly PendingName[]> {
  const { rows } = await database.query<PendingName>(sql`
    select id, source_schema as schema, source_table as name, name as pending, edits ->> 'name' is not null as renamed
    from penstock.pending_schemas order by source_schema, source_table`);
  return rows;
}

/** Those with one of these ids or names, in no order. */
export async function findPending(
  database: Queryable,
  keys: readonly string[],
): Promise<readonly PendingRow[]> {
  const text = `select ${columns} from penstock.pending_schemas where id::text = any($1::text[]) or name = any($1::text[])`;
  const { rows } = await database.query<PendingRow>({ text, values: [keys] });
  return rows;
}

/** All that are pending but these, by name. There are no more than one introspection finds. */
export async function allPending(
  database: Queryable,
  without: ReadonlySet<string>,
): Promise<readonly PendingRow[]> {
  const text = `select ${columns} from penstock.pending_schemas where id <> all($1::uuid[]) order by name`;
  const { rows } = await database.query<PendingRow>({ text, values: [[...without]] });
  return rows;
}

export interface FoundTable {
  readonly inferred: InferredTable;
  /** What is known about it before anybody edits it. */
  readonly edits: Edits;
}

/** Everything that is pending now: what is gone goes, what is there keeps its id and its edits. */
export async function replacePending(
  database: Queryable,
  tables: readonly FoundTable[],
): Promise<void> {
  const rows = tables.map(({ inferred, edits }) => {
    const { schema, name: table } = inferred.mapping.source;
    return { id: newId(), schema, table, name: inferred.name, inferred, edits };
  });
  const values = [JSON.stringify(rows)];
  const given =
    'json_to_recordset($1::json) as x(id uuid, schema text, "table" text, name text, inferred json, edits json)';
  await database.query({
    text: `delete from penstock.pending_schemas p where not exists (select 1 from ${given} where x.schema = p.source_schema and x."table" = p.source_table)`,
    values,
  });
  await database.query({
    text: `insert into penstock.pending_schemas (id, source_schema, source_table, name, inferred, edits)
      select id, schema, "table", name, inferred, edits from ${given}
      on conflict (source_schema, source_table) do update set inferred = excluded.inferred,
        name = coalesce(penstock.pending_schemas.edits ->> 'name', excluded.name),
        updated_at = case when penstock.pending_schemas.inferred::jsonb = excluded.inferred::jsonb
          then penstock.pending_schemas.updated_at else now() end`,
    values,
  });
}

export async function saveEdits(
  database: Queryable,
  id: string,
  edits: Edits,
  name: string,
): Promise<void> {
  await database.query(sql`
    update penstock.pending_schemas set edits = ${JSON.stringify(edits)}::json, name = ${name}, updated_at = now() where id = ${id}::uuid`);
}

export async function removePending(database: Queryable, ids: readonly string[]): Promise<void> {
  await database.query(sql`delete from penstock.pending_schemas where id = any(${ids}::uuid[])`);
}
