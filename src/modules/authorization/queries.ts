/** SQL that reads stored tuples. What adds them stands in tuple-writes.ts, what deletes them in tuple-removals.ts. */
import type { Queryable } from '../../kernel/database/database.ts';
import { sql } from '../../kernel/database/sql.ts';
import type { Tuple } from './model/tuple.ts';
import { liveTuple, resourceText, subjectText } from './tuple-sql.ts';

/** A tuple with the time until which it counts (ISO 8601). */
export interface TimedTuple extends Tuple {
  readonly expiresAt?: string | undefined;
}

/** A tuple as it is stored. */
export interface StoredTuple extends TimedTuple {
  readonly id: string;
  readonly createdAt: Date;
  readonly updatedAt: Date;
  /** It is a field of the record: `id` says which (services/relation-list.ts). */
  readonly source?: 'record';
}

/** A row of the table, as far as anybody reads it. */
export interface TupleRow {
  readonly id: string;
  readonly subject_type: string;
  readonly subject_id: string;
  readonly subject_relation: string;
  readonly relation: string;
  readonly resource_type: string;
  readonly resource_id: string;
  readonly condition: string | null;
  readonly attributes: Record<string, unknown> | null;
  readonly expires_at: Date | null;
  readonly created_at: Date;
  readonly updated_at: Date;
}

export const tupleColumns =
  'id, subject_type, subject_id, subject_relation, relation, resource_type, resource_id, condition, attributes, expires_at, created_at, updated_at';

/** What makes a tuple unique, in the order of its index. */
export const tupleKey =
  'resource_type, resource_id, relation, subject_type, subject_id, subject_relation';

export const storedTuple = (row: TupleRow): StoredTuple => ({
  id: row.id,
  subject: { type: row.subject_type, id: row.subject_id, relation: row.subject_relation },
  relation: row.relation,
  resource: { type: row.resource_type, id: row.resource_id },
  condition: row.condition ?? undefined,
  attributes: row.attributes ?? undefined,
  expiresAt: row.expires_at?.toISOString(),
  createdAt: row.created_at,
  updatedAt: row.updated_at,
});

export async function findTuple(database: Queryable, id: string): Promise<StoredTuple | undefined> {
  const { rows } = await database.query<TupleRow>(
    sql`select * from penstock.tuples where id = ${id}`,
  );
  return rows[0] && storedTuple(rows[0]);
}

/** A page in the order of the ids. */
export async function tuplesAfter(
  database: Queryable,
  id: string,
  limit: number,
): Promise<readonly StoredTuple[]> {
  const { rows } = await database.query<TupleRow>(
    sql`select * from penstock.tuples where id > ${id} order by id limit ${limit}`,
  );
  return rows.map(storedTuple);
}

/** Which tuples: all given parts must match. */
export interface TupleFilter {
  readonly subject?: Tuple['subject'] | undefined;
  readonly relation?: string | undefined;
  readonly resource?: Tuple['resource'] | undefined;
  readonly subjectType?: string | undefined;
  readonly resourceType?: string | undefined;
  /** Part of the written form `subject#relation@resource`; case does not matter. */
  readonly search?: string | undefined;
}

/** Relations between objects, direct grants of actions, or both. */
export type TupleKind = 'relation' | 'permission' | 'any';

const kindText = {
  relation: "t.relation not like 'can:%'",
  permission: "t.relation like 'can:%'",
  any: 'true',
};

export const tupleOrders = [
  '_id',
  'createdAt',
  'updatedAt',
  'relation',
  'subject',
  'resource',
] as const;
const orderColumns: ReadonlyMap<string, string> = new Map([
  ['_id', 'id'],
  ['createdAt', 'created_at'],
  ['updatedAt', 'updated_at'],
  ['relation', 'relation'],
  ['subject', '(subject_type, subject_id, subject_relation)'],
  ['resource', '(resource_type, resource_id)'],
]);

export interface TuplePage {
  readonly skip: number;
  readonly limit: number;
  /** A name of `tupleOrders`, `-` in front for descending. */
  readonly sort: string;
}

export interface FoundTuples {
  readonly tuples: readonly StoredTuple[];
  readonly count: number;
}

/** A page, and the number of all that match. */
export async function listTuples(
  database: Queryable,
  kind: TupleKind,
  filter: TupleFilter,
  page: TuplePage,
): Promise<FoundTuples> {
  const few = filter.search === undefined ? undefined : await findFew(database, kind, filter, page);
  if (few) return few;
  const values: unknown[] = [];
  const where = conditionOf(kind, filter, (value) => `$${values.push(value)}`);
  const counted = {
    text: `select count(*) from penstock.tuples t where ${where}`,
    values: [...values],
  };
  const text = `select * from penstock.tuples t where ${where} order by ${orderOf(page)} offset $${values.push(page.skip)} limit $${values.push(page.limit)}`;
  const [count, { rows }] = await Promise.all([
    database.query<{ count: string }>(counted),
    database.query<TupleRow>({ text, values }),
  ]);
  return { tuples: rows.map(storedTuple), count: Number(count.rows[0]?.count ?? 0) };
}

/** Matches of a search that are gathered before they are put in order. */
const MAX_GATHERED = 10_000;

/**
 * A search that matches few; `undefined` when it matches many. No index knows parts of texts: all tuples are looked at,
 * once, in whatever order they lie. In the order of the page, as the planner would have it, that takes five times as long.
 */
async function findFew(
  database: Queryable,
  kind: TupleKind,
  filter: TupleFilter,
  page: TuplePage,
): Promise<FoundTuples | undefined> {
  const values: unknown[] = [];
  const where = conditionOf(kind, filter, (value) => `$${values.push(value)}`);
  const order = orderOf(page);
  const text = `with found as materialized (select * from penstock.tuples t where ${where} limit ${MAX_GATHERED + 1})
    select f.*, c.count from (select count(*)::int as count from found) c
      left join lateral (select * from found order by ${order} offset $${values.push(page.skip)} limit $${values.push(page.limit)}) f on true
    order by ${order}`;
  const { rows } = await database.query<
    (TupleRow | { readonly id: null }) & { readonly count: number }
  >({ text, values });
  const count = rows[0]?.count ?? 0;
  if (count > MAX_GATHERED) return undefined;
  return { tuples: rows.flatMap((row) => (row.id === null ? [] : [storedTuple(row)])), count };
}

/** SQL of an order of tuples. */
export function orderOf({ sort }: TuplePage): string {
  const column = orderColumns.get(sort.replace(/^-/, '')) ?? 'id';
  const direction = sort.startsWith('-') ? ' desc' : '';
  return column === 'id' ? `id${direction}` : `${column}${direction}, id`;
}

export type Next = (value: unknown) => string;

/** SQL of a filter, about the tuples `t`. */
export function conditionOf(
  kind: TupleKind,
  { subject, relation, resource, subjectType, resourceType, search }: TupleFilter,
  next: Next,
): string {
  const all: string[] = [kindText[kind]];
  if (subject) {
    all.push(
      `t.subject_type = ${next(subject.type)} and t.subject_id = ${next(subject.id)} and t.subject_relation = ${next(subject.relation)}`,
    );
  }
  if (resource)
    all.push(`t.resource_type = ${next(resource.type)} and t.resource_id = ${next(resource.id)}`);
  if (relation !== undefined) all.push(`t.relation = ${next(relation)}`);
  if (subjectType !== undefined) all.push(`t.subject_type = ${next(subjectType)}`);
  if (resourceType !== undefined) all.push(`t.resource_type = ${next(resourceType)}`);
  if (search !== undefined)
    all.push(
      `${subjectText('t')} || '#' || t.relation || '@' || ${resourceText('t')} ilike ${next(likeText(search))}`,
    );
  return all.join(' and ');
}

/** A pattern that matches the text itself anywhere: its own wildcards mean nothing. */
const likeText = (text: string): string => `%${text.replace(/[\\%_]/g, '\\$&')}%`;

/** Whether some tuple matches; the one that was found stays until the transaction ends. */
export async function holdMatching(
  transaction: Queryable,
  kind: TupleKind,
  filter: TupleFilter,
): Promise<boolean> {
  const values: unknown[] = [];
  const where = conditionOf(kind, filter, (value) => `$${values.push(value)}`);
  const text = `select 1 from penstock.tuples t where ${where} and ${liveTuple('t')} limit 1 for key share`;
  return (await transaction.query({ text, values })).count > 0;
}

/** Keeps others who lock the same objects out until the transaction ends. Give them in one order. */
export async function lockObjects(
  transaction: Queryable,
  objects: readonly string[],
): Promise<void> {
  await transaction.query(sql`
    select pg_advisory_xact_lock(hashtextextended('penstock.relations ' || o.name, 0))
    from unnest(${objects}::text[]) with ordinality o(name, n) order by o.n`);
}
