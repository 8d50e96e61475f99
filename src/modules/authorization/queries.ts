/** SQL over stored tuples. Every change writes its events in the same statement. */
import type { Queryable } from '../../kernel/database/database.ts';
import { sql, statementName } from '../../kernel/database/sql.ts';
import type { Tuple } from './engine/tuple.ts';
import { resourceText, subjectText, tupleEvents } from './tuple-sql.ts';

/** A tuple with the time until which it counts (ISO 8601). */
export interface TimedTuple extends Tuple {
  readonly expiresAt?: string | undefined;
}

/** A tuple as it is stored. */
export interface StoredTuple extends TimedTuple {
  readonly id: string;
  readonly createdAt: Date;
  readonly updatedAt: Date;
}

interface TupleRow {
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

const columns =
  'id, subject_type, subject_id, subject_relation, relation, resource_type, resource_id, condition, attributes, expires_at, created_at, updated_at';

const storedTuple = (row: TupleRow): StoredTuple => ({
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

/** A tuple to write, with the id it gets if it is new. */
export interface NewTuple extends TimedTuple {
  readonly id: string;
}

const key = 'resource_type, resource_id, relation, subject_type, subject_id, subject_relation';
const sameKey = key
  .split(', ')
  .map((column) => `t.${column} = i.${column}`)
  .join(' and ');
const inputTypes = ['uuid', 'text', 'text', 'text', 'text', 'text', 'text', 'text', 'jsonb', 'timestamptz'] as const;
const inputColumns =
  'id, subject_type, subject_id, subject_relation, relation, resource_type, resource_id, condition, attributes, expires_at';
const actorPlace = `$${inputTypes.length + 1}`;
const storedColumns = columns
  .split(', ')
  .map((column) => `t.${column}`)
  .join(', ');

interface WriteForm {
  /** Where the rows come from. */
  readonly source: string;
  readonly order: string;
  /** Which written rows make the search for a stored one needless; for a single row any does. */
  readonly unwritten: string;
}

/**
 * Writes what is not there yet, and gives what is there the wanted condition, attributes and expiry.
 * Rows are taken in the order of the index, so that two writers never wait for each other in a ring.
 */
const writeText = ({ source, order, unwritten }: WriteForm): string => `with input as (select * from ${source} x(${inputColumns})),
  written as (
    insert into penstock.tuples as t (${inputColumns}) select ${inputColumns} from input ${order}
    on conflict (${key}) do update
      set condition = excluded.condition, attributes = excluded.attributes, expires_at = excluded.expires_at, updated_at = now()
      where (t.condition, t.attributes, t.expires_at) is distinct from (excluded.condition, excluded.attributes, excluded.expires_at)
    returning t.*),
  events as (${tupleEvents('create', 'written', actorPlace)})
  select ${columns} from written
  union all
  select ${storedColumns} from input i join penstock.tuples t on ${sameKey}
   where not exists (select from written w ${unwritten})`;

const oneText = writeText({
  source: `(values (${inputTypes.map((type, i) => `$${i + 1}::${type}`).join(', ')}))`,
  order: '',
  unwritten: '',
});
const manyText = writeText({
  source: `unnest(${inputTypes.map((type, i) => `$${i + 1}::${type}[]`).join(', ')})`,
  order: `order by ${key}`,
  unwritten: 'where w.id = t.id',
});

const valuesOf = ({ id, subject, relation, resource, condition, attributes, expiresAt }: NewTuple): readonly unknown[] => [
  id,
  subject.type,
  subject.id,
  subject.relation,
  relation,
  resource.type,
  resource.id,
  condition ?? null,
  attributes ? JSON.stringify(attributes) : null,
  expiresAt ?? null,
];

/**
 * Each tuple must be given once. An answer may lack a tuple that somebody else wrote at the same
 * moment; ask again then.
 */
export async function writeTuples(database: Queryable, tuples: readonly NewTuple[], actor: string): Promise<readonly StoredTuple[]> {
  const rows = tuples.map(valuesOf);
  const [first = []] = rows;
  const text = rows.length === 1 ? oneText : manyText;
  const values = rows.length === 1 ? first : inputTypes.map((_, i) => rows.map((row) => row[i]));
  const result = await database.query<TupleRow>({ text, name: statementName(text), values: [...values, actor] });
  return result.rows.map(storedTuple);
}

export async function findTuple(database: Queryable, id: string): Promise<StoredTuple | undefined> {
  const { rows } = await database.query<TupleRow>(sql`select * from penstock.tuples where id = ${id}`);
  return rows[0] && storedTuple(rows[0]);
}

/** A page in the order of the ids. */
export async function tuplesAfter(database: Queryable, id: string, limit: number): Promise<readonly StoredTuple[]> {
  const { rows } = await database.query<TupleRow>(sql`select * from penstock.tuples where id > ${id} order by id limit ${limit}`);
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

/** Relations between objects, or direct grants of actions. */
export type TupleKind = 'relation' | 'permission';

export const tupleOrders = ['_id', 'createdAt', 'updatedAt', 'relation', 'subject', 'resource'] as const;
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

/** A page, and the number of all that match. */
export async function listTuples(
  database: Queryable,
  kind: TupleKind,
  filter: TupleFilter,
  { skip, limit, sort }: TuplePage,
): Promise<{ readonly tuples: readonly StoredTuple[]; readonly count: number }> {
  const values: unknown[] = [];
  const where = conditionOf(kind, filter, (value) => `$${values.push(value)}`);
  const counted = { text: `select count(*) from penstock.tuples t where ${where}`, values: [...values] };
  const column = orderColumns.get(sort.replace(/^-/, '')) ?? 'id';
  const order = column === 'id' ? '' : `${column}${sort.startsWith('-') ? ' desc' : ''}, `;
  const last = column === 'id' && sort.startsWith('-') ? 'id desc' : 'id';
  const text = `select * from penstock.tuples t where ${where} order by ${order}${last} offset $${values.push(skip)} limit $${values.push(limit)}`;
  const [count, { rows }] = await Promise.all([database.query<{ count: string }>(counted), database.query<TupleRow>({ text, values })]);
  return { tuples: rows.map(storedTuple), count: Number(count.rows[0]?.count ?? 0) };
}

type Next = (value: unknown) => string;

function conditionOf(kind: TupleKind, { subject, relation, resource, subjectType, resourceType, search }: TupleFilter, next: Next): string {
  const all = [`t.relation ${kind === 'permission' ? 'like' : 'not like'} 'can:%'`];
  if (subject) {
    all.push(
      `t.subject_type = ${next(subject.type)} and t.subject_id = ${next(subject.id)} and t.subject_relation = ${next(subject.relation)}`,
    );
  }
  if (resource) all.push(`t.resource_type = ${next(resource.type)} and t.resource_id = ${next(resource.id)}`);
  if (relation !== undefined) all.push(`t.relation = ${next(relation)}`);
  if (subjectType !== undefined) all.push(`t.subject_type = ${next(subjectType)}`);
  if (resourceType !== undefined) all.push(`t.resource_type = ${next(resourceType)}`);
  if (search !== undefined)
    all.push(`${subjectText('t')} || '#' || t.relation || '@' || ${resourceText('t')} ilike ${next(likeText(search))}`);
  return all.join(' and ');
}

/** A pattern that matches the text itself anywhere: its own wildcards mean nothing. */
const likeText = (text: string): string => `%${text.replace(/[\\%_]/g, '\\$&')}%`;

/** Deletes by id; answers whether it was there. */
export async function deleteTuple(database: Queryable, kind: TupleKind, id: string, actor: string): Promise<boolean> {
  return (await runDelete(database, (next) => `t.id = ${next(id)} and ${conditionOf(kind, {}, next)}`, actor)) > 0;
}

/** Deletes all that match; answers how many. */
export async function deleteTuples(database: Queryable, kind: TupleKind, filter: TupleFilter, actor: string): Promise<number> {
  return runDelete(database, (next) => conditionOf(kind, filter, next), actor);
}

/** Deletes everything about a type, as subject or resource, grants included. */
export async function deleteTuplesOfType(database: Queryable, type: string, actor: string): Promise<number> {
  return runDelete(database, (next) => `t.resource_type = ${next(type)} or t.subject_type = ${next(type)}`, actor);
}

/** Deletes one object's tuples on both sides. */
export async function deleteTuplesOfObject(database: Queryable, object: Tuple['resource'], actor: string): Promise<number> {
  const either = (next: Next): string => {
    const [type, id] = [next(object.type), next(object.id)];
    return `(t.resource_type = ${type} and t.resource_id = ${id}) or (t.subject_type = ${type} and t.subject_id = ${id})`;
  };
  return runDelete(database, either, actor);
}

/** Deletes up to `limit` tuples that expired; answers how many. */
export async function deleteExpired(database: Queryable, limit: number, actor: string): Promise<number> {
  const expired = (next: Next): string =>
    `t.id in (select id from penstock.tuples where expires_at < now() order by expires_at limit ${next(limit)})`;
  return runDelete(database, expired, actor);
}

/** Deletes with the events; answers how many. They may be millions: none of them comes here. */
async function runDelete(database: Queryable, condition: (next: Next) => string, actor: string): Promise<number> {
  const values: unknown[] = [actor];
  const where = condition((value) => `$${values.push(value)}`);
  const text = `with gone as (delete from penstock.tuples t where ${where} returning *), events as (${tupleEvents('delete', 'gone', '$1')}) select count(*)::int as count from gone`;
  const { rows } = await database.query<{ count: number }>({ text, values });
  return rows[0]?.count ?? 0;
}

/** Tuples that are alike in everything that definitions decide on. */
export interface TupleShape {
  readonly subjectType: string;
  readonly subjectRelation: string;
  readonly wildcard: boolean;
  readonly relation: string;
  readonly resourceType: string;
  readonly condition: string | null;
}

const shapeText = (
  { subjectType, subjectRelation, wildcard, relation, resourceType, condition }: TupleShape,
  next: (value: unknown) => string,
): string =>
  `t.subject_type = ${next(subjectType)} and t.subject_relation = ${next(subjectRelation)} and (t.subject_id = '*') = ${next(wildcard)}::boolean` +
  ` and t.relation = ${next(relation)} and t.resource_type = ${next(resourceType)} and t.condition is not distinct from ${next(condition)}::text`;

/** Deletes all tuples of a shape. */
export const deleteAlike = (database: Queryable, shape: TupleShape, actor: string): Promise<number> =>
  runDelete(database, (next) => shapeText(shape, next), actor);

/** Some tuples of a shape, as they are written. */
export async function examplesOf(database: Queryable, shape: TupleShape, limit: number): Promise<readonly string[]> {
  const values: unknown[] = [];
  const where = shapeText(shape, (value) => `$${values.push(value)}`);
  const text = `select ${subjectText('t')} || '#' || t.relation || '@' || ${resourceText('t')} as text from penstock.tuples t where ${where} limit $${values.push(limit)}`;
  const { rows } = await database.query<{ text: string }>({ text, values });
  return rows.map((row) => row.text);
}
