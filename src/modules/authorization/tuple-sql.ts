/** Pieces of SQL about tuples that several statements share. */
import { literalOf } from '../../kernel/database/literal.ts';
import { outboxTable } from '../../kernel/events/events.ts';
import { grantRelation } from './model/model.ts';
import type { Tuple } from './model/tuple.ts';

/* How a tuple is read from its table. */

/** Columns of a tuple, without a table in front. */
export const tupleColumns =
  'subject_type, subject_id, subject_relation, relation, resource_type, resource_id, condition, attributes, expires_at';

/** A tuple counts until its time is over, by the clock of the database. `alias` is the table's. */
export const liveTuple = (alias: string): string =>
  `(${alias}.expires_at is null or ${alias}.expires_at > now())`;

export interface TupleRow {
  readonly subject_type: string;
  readonly subject_id: string;
  readonly subject_relation: string;
  readonly relation: string;
  readonly resource_type: string;
  readonly resource_id: string;
  readonly condition: string | null;
  readonly attributes: Record<string, unknown> | null;
  readonly expired: boolean;
}

export const tupleOf = (row: TupleRow): Tuple => ({
  subject: { type: row.subject_type, id: row.subject_id, relation: row.subject_relation },
  relation: row.relation,
  resource: { type: row.resource_type, id: row.resource_id },
  condition: row.condition ?? undefined,
  attributes: row.attributes ?? undefined,
  expired: row.expired,
});

/* Lists as values of statements: the text of a list that is used again is made once. */

const texts = new WeakMap<readonly (string | boolean)[], string>();

/** A list as PostgreSQL reads it. The list must not be changed afterwards. */
export function arrayText(values: readonly (string | boolean)[]): string {
  let text = texts.get(values);
  if (text === undefined) {
    text = listText(values);
    texts.set(values, text);
  }
  return text;
}

/** The same of a list that is used once. */
export const listText = (values: readonly (string | boolean)[]): string =>
  `{${values.map(elementText).join(',')}}`;

const elementText = (value: string | boolean): string =>
  typeof value === 'string' ? `"${value.replace(/["\\]/g, '\\$&')}"` : value ? 't' : 'f';

/* Long lists as bytes: half as much to send and to read as their text, and one statement takes the same bytes once. */

/** Numbers of the types of elements (PostgreSQL manual, `pg_type`). */
const elementTypes = { uuid: 2950, text: 25 } as const;
/** Of fewer, the text is as good, and can be read in a log. */
const LONG_LIST = 32;

/** The value of a placeholder that is cast to `uuid[]` or `text[]`; for `uuid`, all values must be ids. */
export function listValue(
  values: readonly string[],
  type: keyof typeof elementTypes,
): string | Buffer {
  return values.length < LONG_LIST ? arrayText(values) : arrayBytes(values, type);
}

const lists = { uuid: new WeakMap<object, Buffer>(), text: new WeakMap<object, Buffer>() };

/** As PostgreSQL receives an array: dimensions, nulls, type, length and lower bound, then each element with its length. */
function arrayBytes(values: readonly string[], type: keyof typeof elementTypes): Buffer {
  const known = lists[type].get(values);
  if (known) return known;
  const elements = values.map((value) =>
    type === 'uuid' ? Buffer.from(value.replaceAll('-', ''), 'hex') : Buffer.from(value),
  );
  const bytes = Buffer.alloc(20 + elements.reduce((sum, { length }) => sum + 4 + length, 0));
  [1, 0, elementTypes[type], values.length, 1].forEach((word, i) => {
    bytes.writeInt32BE(word, 4 * i);
  });
  let end = 20;
  for (const element of elements) {
    bytes.writeInt32BE(element.length, end);
    end += 4 + element.copy(bytes, end + 4);
  }
  lists[type].set(values, bytes);
  return bytes;
}

const isGrant = `t.relation like ${literalOf(`${grantRelation('')}%`, 'text')}`;

/** What happened to a tuple; the topic is `authorization:<what>:relation`, or `:permission` for a direct grant. */
export type TupleEvent = 'create' | 'delete';

/** `subject`, `resource` and the like as text, from the columns of `alias`. */
export const subjectText = (alias: string): string =>
  `(case ${alias}.subject_type when '*' then '*' else ${alias}.subject_type || ':' || ${alias}.subject_id || case when ${alias}.subject_relation = '' then '' else '#' || ${alias}.subject_relation end end)`;
export const resourceText = (alias: string): string =>
  `${alias}.resource_type || ':' || ${alias}.resource_id`;

/**
 * One event for each row of `rows`, a relation of the statement with the columns of the table. It says all that was written,
 * in the words of the routes, so that a reader who follows the changes has what is stored. `actor` is a placeholder.
 */
export const tupleEvents = (what: TupleEvent, rows: string, actor: string): string => `
  insert into ${outboxTable} (topic, ids, payload, actor)
  select 'authorization:${what}:' || case when ${isGrant} then 'permission' else 'relation' end,
    array[t.id::text],
    jsonb_strip_nulls(jsonb_build_object(
      'subject', ${subjectText('t')},
      'relation', case when not (${isGrant}) then t.relation end,
      'permission', case when ${isGrant} then substr(t.relation, ${grantRelation('').length + 1}) end,
      'resource', ${resourceText('t')}, 'condition', t.condition, 'expiresAt', t.expires_at))
      || case when t.attributes is null then '{}'::jsonb else jsonb_build_object('attributes', t.attributes) end,
    ${actor}::text
  from ${rows} t`;

/** A text as an id of a record; null when it is none. Unlike a cast it never fails, and unlike a cast of the id it can use the index. */
export const uuidOf = (text: string): string =>
  `case when ${text} ~* '^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$' then ${text}::uuid end`;

/**
 * Relations that count now without knowing anything about a request, as a source of rows for statements of other
 * modules that must join, sort and count them: `subject_type, subject_id, relation, resource_type, resource_id`.
 */
export const countingRelations = `(
  select subject_type, subject_id, relation, resource_type, resource_id from penstock.tuples
  where subject_relation = '' and subject_id <> '*' and condition is null and (expires_at is null or expires_at > now()))`;

/** The oid of a table, if what tuples say about its rows is tracked (services/row-tracking.ts); else null. An expression. */
export const trackedOid = (type: string, table: string): string =>
  `(select c.table_oid from penstock.tuple_tables c where c.type = ${literalOf(type, 'text')} and c.table_oid = ${literalOf(table, 'regclass')}::oid)`;
