/**
 * Columns in which records say who owns them: what is written in them and taken out of them. A change writes its
 * events in the same statement, as with stored tuples.
 */
import { createHash } from 'node:crypto';
import { tableName } from '../../data/schema/compile/layout.ts';
import type { Queryable } from '../../kernel/database/database.ts';
import { literalOf } from '../../kernel/database/literal.ts';
import { identifier } from '../../kernel/database/sql.ts';
import { outboxTable } from '../../kernel/events/events.ts';
import { withoutEnd } from '../../kernel/text.ts';
import { ownerColumn, ownerRelation } from './model/grammar.ts';
import { type TupleEvent, uuidOf } from './tuple-sql.ts';

const owner = identifier(ownerColumn.field);
const ownerType = identifier(ownerColumn.typeColumn);

/** Makes the columns. `table` is a quoted name. */
export const addColumnsText = (table: string): string =>
  `alter table ${table} add column if not exists ${owner} uuid, add column if not exists ${ownerType} text collate "C"`;

/** The index that finds what somebody owns, in the order of the ids. `name` is that of the type. */
export const indexName = (type: string): string =>
  // Half of a character at the cut reads as the replacement character.
  `${withoutEnd(Buffer.from(type).subarray(0, 48).toString(), '\ufffd')}@owner`;

export const addIndexText = (type: string, table: string, concurrently = false): string =>
  `create index ${concurrently ? 'concurrently ' : ''}if not exists ${identifier(indexName(type))} on ${table} (${owner}, "_id") include (${ownerType})`;

/* Indexes beside those that operators declare, for lists of what somebody owns in the order of a field. */

const sortIndexMark = '@owner-';

/** The index for the order of a field. `name` is that of the type. */
export const sortIndexName = (type: string, column: string): string => {
  const mark = createHash('sha256').update(`${type}\n${column}`).digest('hex').slice(0, 12);
  return `${withoutEnd(Buffer.from(type).subarray(0, 40).toString(), '\ufffd')}${sortIndexMark}${mark}`;
};

export const addSortIndexText = (
  {
    type,
    table,
    column,
  }: { readonly type: string; readonly table: string; readonly column: string },
  concurrently = false,
): string =>
  `create index ${concurrently ? 'concurrently ' : ''}if not exists ${identifier(sortIndexName(type, column))} on ${table} (${owner}, ${identifier(column)}, "_id") include (${ownerType})`;

/** Those that a table has, and whether they are whole. `table` is a quoted name. */
export async function sortIndexes(
  database: Queryable,
  table: string,
): Promise<ReadonlyMap<string, boolean>> {
  const { rows } = await database.query<{ name: string; valid: boolean }>({
    text: `select c.relname as name, i.indisvalid as valid from pg_index i join pg_class c on c.oid = i.indexrelid
      where i.indrelid = ${literalOf(table, 'regclass')} and strpos(c.relname, '${sortIndexMark}') > 0`,
  });
  return new Map(rows.map(({ name, valid }) => [name, valid]));
}

/** One event for each row of `rows` (`id` of the record, `subject_type`, `subject_id`). `actor` is a placeholder. */
const ownerEvents = (what: TupleEvent, type: string, rows: string, actor: string): string => `
  insert into ${outboxTable} (topic, ids, payload, actor)
  select 'authorization:${what}:relation', array[c.id::text], jsonb_build_object(
    'subject', c.subject_type || ':' || c.subject_id, 'relation', '${ownerRelation}',
    'resource', ${literalOf(`${type}:`, 'text')} || c.id::text, 'source', 'record'), ${actor}::text
  from ${rows} c`;

/**
 * Takes out what these tuples of records (a query with the columns of stored ones and `id`, that of the record) say, as
 * long as the record still says it; answers how many. Without an actor no event tells it.
 */
export async function clearOwners(
  database: Queryable,
  type: string,
  found: string,
  { values, actor }: { readonly values: readonly unknown[]; readonly actor?: string },
): Promise<number> {
  const cleared = `update ${tableName(type)} d set ${owner} = null, ${ownerType} = null from found f
    where d."_id" = f.id and d.${owner} = ${uuidOf('f.subject_id')} and coalesce(d.${ownerType}, '${ownerColumn.type}') = f.subject_type
    returning f.id, f.subject_type, f.subject_id`;
  const told =
    actor === undefined
      ? ''
      : `, events as (${ownerEvents('delete', type, 'cleared', `$${values.length + 1}`)})`;
  const text = `with found as materialized (${found}), cleared as (${cleared})${told} select count(*)::int as count from cleared`;
  const { rows } = await database.query<{ count: number }>({
    text,
    values: actor === undefined ? [...values] : [...values, actor],
  });
  return rows[0]?.count ?? 0;
}

/** A record and who shall own it. */
export interface RecordOwner {
  readonly record: string;
  readonly type: string;
  readonly id: string;
}

/**
 * Lets records that name no owner yet name these, one for each record; those that are not there, and owners that are
 * stored already, are left as they are.
 */
export async function setOwners(
  database: Queryable,
  type: string,
  owners: readonly RecordOwner[],
  actor: string,
): Promise<void> {
  const text = `with input as (select * from unnest($1::uuid[], $2::text[], $3::uuid[]) i(record, type, id)),
    free as materialized (
      select d."_id" from ${tableName(type)} d where d."_id" in (select record from input) and d.${owner} is null
       order by d."_id" for no key update),
    owned as (
      update ${tableName(type)} d set ${owner} = i.id, ${ownerType} = nullif(i.type, '${ownerColumn.type}')
        from input i, free f where d."_id" = f."_id" and i.record = f."_id" and not exists (
          select 1 from penstock.tuples t where t.resource_type = ${literalOf(type, 'text')} and t.resource_id = i.record::text
             and t.relation = '${ownerRelation}' and t.subject_type = i.type and t.subject_id = i.id::text and t.subject_relation = '')
      returning d."_id" as id, i.type as subject_type, i.id::text as subject_id)
    ${ownerEvents('create', type, 'owned', '$4')}`;
  await database.query({
    text,
    values: [
      owners.map(({ record }) => record),
      owners.map((one) => one.type),
      owners.map(({ id }) => id),
      actor,
    ],
  });
}

/** Types of those who own records, with the number of the records. */
export async function ownerTypes(
  database: Queryable,
  type: string,
): Promise<readonly { readonly subjectType: string; readonly count: number }[]> {
  const text = `select coalesce(d.${ownerType}, '${ownerColumn.type}') as "subjectType", count(*)::int as count
    from ${tableName(type)} d where d.${owner} is not null group by 1`;
  const { rows } = await database.query<{ subjectType: string; count: number }>({ text });
  return rows;
}

/** Stored tuples that one statement moves. */
const PAGE = 1_000;

/**
 * Moves stored owners after a resource into their records, where those say nothing yet: the first of each that is
 * always true. Nothing is told, because nothing changes. What others hold at this moment stays for another time.
 * Answers where it came to, null at the end, and whether something had to stay.
 */
export async function moveOwners(
  database: Queryable,
  { type, table }: { readonly type: string; readonly table: string },
  after: string,
): Promise<{ readonly last: string | null; readonly held: boolean }> {
  const text = `with page as (
      select t.id, t.resource_id from penstock.tuples t
       where t.resource_type = $1 and t.relation = '${ownerRelation}' and t.resource_id > $2
       order by t.resource_id limit ${PAGE}),
    movable as (
      select t.id, t.resource_uuid, t.subject_type, t.subject_id, t.created_at from penstock.tuples t
       where t.id in (select id from page) and t.relation = '${ownerRelation}' and t.condition is null and t.expires_at is null
         and t.subject_relation = '' and t.subject_id = (${uuidOf('t.subject_id')})::text and t.resource_uuid is not null
       for update skip locked),
    chosen as materialized (
      select distinct on (m.resource_uuid) m.* from movable m order by m.resource_uuid, m.created_at, m.id),
    free as materialized (
      select d."_id" from ${table} d where d."_id" in (select resource_uuid from chosen) and d.${owner} is null
       for no key update skip locked),
    moved as (
      update ${table} d set ${owner} = c.subject_id::uuid, ${ownerType} = nullif(c.subject_type, '${ownerColumn.type}')
        from chosen c, free f where d."_id" = c.resource_uuid and f."_id" = d."_id" returning c.id),
    gone as (delete from penstock.tuples t using moved m where t.id = m.id)
    select (select case when count(*) = ${PAGE} then max(resource_id) end from page) as last,
      exists (select 1 from penstock.tuples t join page p on p.id = t.id join ${table} d on d."_id" = t.resource_uuid
        where d.${owner} is null and t.condition is null and t.expires_at is null and t.subject_relation = ''
          and t.subject_id = (${uuidOf('t.subject_id')})::text and t.id not in (select id from moved)) as held`;
  const { rows } = await database.query<{ last: string | null; held: boolean }>({
    text,
    values: [type, after],
  });
  return rows[0] ?? { last: null, held: false };
}

interface NewOwners {
  readonly type: string;
  readonly table: string;
  /** A relation of the statement: records (`_id`) and users who shall own them (`user`). */
  readonly rows: string;
  /** A placeholder. */
  readonly actor: string;
}

/** Parts of a `with`: `owned` are the records that nobody owned until now, in their record or by a stored tuple. */
export const ownText = ({ type, table, rows, actor }: NewOwners): readonly string[] => [
  `owned as (
    update ${table} d set ${owner} = n."user", ${ownerType} = null from ${rows} n
     where d."_id" = n."_id" and d.${owner} is null and not exists (select 1 from penstock.tuples t
       where t.resource_type = ${literalOf(type, 'text')} and t.resource_id = d."_id"::text and t.relation = '${ownerRelation}')
    returning d."_id" as id, '${ownerColumn.type}' as subject_type, n."user"::text as subject_id)`,
  `events as (${ownerEvents('create', type, 'owned', actor)})`,
];
