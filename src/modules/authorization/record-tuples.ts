/**
 * Keeps tuples in step with records, inside the statement that writes the
 * record: no record without its owner, no tuple about a record that is gone.
 */
import { literalOf } from '../../kernel/database/literal.ts';
import { outboxTable } from '../../kernel/events/events.ts';
import type { RecordTuples, TupleStatement } from '../../kernel/permissions.ts';
import type { Definition } from './model/definition.ts';
import { ownerColumn, ownerRelation } from './model/grammar.ts';
import { trackedOid, tupleEvents } from './tuple-sql.ts';

export const recordTuples: RecordTuples = {
  columns: ({ type, id }) => [
    { name: ownerColumn.field, type: 'uuid', value: id },
    { name: ownerColumn.typeColumn, type: 'text', value: type === ownerColumn.type ? null : type },
  ],

  own({ rows, schema, table }, owner) {
    const type = literalOf(schema, 'text');
    // A new record has one owner: its id can serve as the tuple's id as well.
    const insert = `insert into penstock.tuples (id, subject_type, subject_id, relation, resource_type, resource_id, row_of)
      select x."_id", ${owner.type}::text, ${owner.id}::text, '${ownerRelation}', ${type}, x."_id"::text, ${trackedOid(schema, table)}
        from ${rows} x`;
    return [`owned as (${insert})`];
  },

  tell({ rows, schema, actor, old }) {
    if (!old) return [`told as (${changedFieldEvents({ schema, actor }, 'create', rows)})`];
    const told = (what: 'create' | 'delete', from: string, than: string): string =>
      changedFieldEvents({ schema, actor }, what, from, { than, fields: old.fields });
    return [
      `told_came as (${told('create', rows, old.rows)})`,
      `told_went as (${told('delete', old.rows, rows)})`,
    ];
  },

  forget({ rows, schema, table, actor }) {
    const type = literalOf(schema, 'text');
    // Each side by its own index, whatever the planner believes about how many there are (`offset 0` keeps the sides apart).
    const side = (name: 'resource' | 'subject'): string =>
      `select f.id from ${rows} x cross join lateral (
        select t.id from penstock.tuples t where t.${name}_type = ${type} and t.${name}_id = x."_id"::text offset 0) f`;
    const gone = `delete from penstock.tuples where id in (${side('resource')} union ${side('subject')}) returning *`;
    return [
      `forgotten as (${gone})`,
      `forgotten_events as (${tupleEvents('delete', 'forgotten', actor)})`,
      ...(table === undefined
        ? []
        : [`forgotten_fields as (${fieldEvents({ rows, schema, table, actor })})`]),
    ];
  },
};

/* What a definition must say so that records of its name can be served (spec/authorization.md 5.6). */

const recordActions = ['read', 'edit', 'delete'] as const;

/** True when an object of this type can own records. */
export const takesOwner = (definition: Definition | undefined, type: string): boolean =>
  // Who creates a record owns it: that is written beside the record, not in a field of it.
  definition?.fields.has(ownerRelation) !== true &&
  (definition?.relations.get(ownerRelation) ?? []).some(
    (allowed) =>
      (allowed.type === type || allowed.type === '*') &&
      allowed.relation === '' &&
      !allowed.wildcard &&
      allowed.condition === undefined,
  );

/** True when users can own records of the type, and it says who may read, edit and delete them. */
export const servesRecords = (definition: Definition): boolean =>
  missingForRecords(definition).length === 0;

/** What records need of their type and it does not have, as members of a definition. */
export const missingForRecords = (definition: Definition): readonly string[] => [
  ...(takesOwner(definition, 'User') ? [] : ['relations.owner']),
  ...recordActions
    .filter((action) => !definition.actions.has(action))
    .map((action) => `permissions.${action}`),
];

/** The ids that a field of a row holds, as a list; `row` and `field` are SQL. */
const heldIds = (row: string, field: string): string =>
  `(case jsonb_typeof(to_jsonb(${row}) -> ${field}) when 'array' then to_jsonb(${row}) -> ${field} when 'string' then jsonb_build_array(to_jsonb(${row}) -> ${field}) else '[]' end)`;

interface Compared {
  readonly than: string;
  readonly fields: readonly string[];
}

/** What fields of rows say, where others of the same id do not: as events about relations. Which fields that are, the definition says. */
function changedFieldEvents(
  { schema, actor }: Pick<TupleStatement, 'schema' | 'actor'>,
  what: 'create' | 'delete',
  rows: string,
  compared?: Compared,
): string {
  const type = literalOf(schema, 'text');
  const field = `(f.value ->> 'field')`;
  const beside = compared
    ? ` join ${compared.than} y on y."_id" = x."_id" and ${field} = any(${literalOf(compared.fields, 'text[]')})`
    : '';
  const absent = compared ? ` and not ${heldIds('y', field)} ? s.id` : '';
  return `insert into ${outboxTable} (topic, ids, payload, actor)
    select distinct 'authorization:${what}:relation', array[x."_id"::text], jsonb_build_object(
      'subject', (f.value ->> 'type') || ':' || s.id, 'relation', f.key, 'resource', ${type} || ':' || x."_id"::text, 'source', 'record'), ${actor}::text
    from penstock.resource_definitions w
      cross join lateral jsonb_each(w.fields) f
      cross join ${rows} x${beside}
      cross join lateral jsonb_array_elements_text(${heldIds('x', field)}) s(id)
    where w.name = ${type} and w.fields <> '{}'${absent}`;
}

/**
 * What the fields of rows say that go, as events: whoever could read a record by a field of it may hear that it is gone.
 * Which fields that are is read from the definition, so that the text is the same for all; the statement sees the
 * rows as they were.
 */
const fieldEvents = ({
  rows,
  schema,
  table,
  actor,
}: TupleStatement & { readonly table: string }): string => {
  const type = literalOf(schema, 'text');
  return `insert into ${outboxTable} (topic, ids, payload, actor)
    select 'authorization:delete:relation', array[d."_id"::text], jsonb_build_object(
      'subject', (f.value ->> 'type') || ':' || s.id, 'relation', f.key, 'resource', ${type} || ':' || d."_id"::text, 'source', 'record'), ${actor}::text
    from penstock.resource_definitions w
      cross join lateral jsonb_each(w.fields) f
      cross join ${rows} x join ${table} d on d."_id" = x."_id"
      cross join lateral (select to_jsonb(d) -> (f.value ->> 'field') as held) v
      cross join lateral jsonb_array_elements_text(case jsonb_typeof(v.held) when 'array' then v.held when 'string' then jsonb_build_array(v.held) else '[]' end) s(id)
    where w.name = ${type} and w.fields <> '{}'
    union all
    select 'authorization:delete:relation', array[d."_id"::text], jsonb_build_object(
      'subject', coalesce(v.row ->> '${ownerColumn.typeColumn}', '${ownerColumn.type}') || ':' || (v.row ->> '${ownerColumn.field}'),
      'relation', '${ownerRelation}', 'resource', ${type} || ':' || d."_id"::text, 'source', 'record'), ${actor}::text
    from penstock.tuple_tables c
      cross join ${rows} x join ${table} d on d."_id" = x."_id"
      cross join lateral (select to_jsonb(d) as row) v
    where c.type = ${type} and c.owned and v.row ->> '${ownerColumn.field}' is not null`;
};
