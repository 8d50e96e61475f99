/** Lists in rules, as SQL: whether they hold an item, and what is true of their elements. */
import { columnType } from '../schema/language/field.ts';
import type { Expression, Of } from './expression.ts';
import {
  canonicalUuid,
  column,
  constants,
  freeJson,
  isList,
  refuse,
  type SqlContext,
} from './sql-storage.ts';
import { constantSql } from './sql-values.ts';
import { plain, typeText } from './types.ts';
import type { RuleValue } from './values.ts';

export function sizeOf(list: Expression, context: SqlContext): string {
  if (!isList(list)) return refuse(list.at, 'the size of this list is not computed');
  const value = context.write.jsonb(list, context);
  return `(case jsonb_typeof(${value}) when 'array' then jsonb_array_length(${value}) end)`;
}

export function membership(expression: Of<'in'>, context: SqlContext): string {
  const { item, list } = expression;
  if (item.kind === 'open') return 'null::boolean';
  if (item.kind !== 'if' || !item.row || !item.nullable) return ofOneItem(expression, context);
  // Which of the two it is may be an error, which is not the same as null.
  const [yes, no] = [item.yes, item.no].map((one) =>
    membership({ ...expression, item: one, row: one.row || list.row }, context),
  );
  return `(case ${context.write.condition(item.condition, context)} when true then ${yes} when false then ${no} end)`;
}

function ofOneItem({ item, list, at }: Of<'in'>, context: SqlContext): string {
  if (list.type.kind === 'map' || list.type.kind === 'json') return keyIn(item, list, at, context);
  if (list.row) return inStoredList(item, list, context);
  const items = list.kind === 'constant' && Array.isArray(list.value) ? list.value : [];
  const types = list.type.kind === 'list' ? list.type.items : plain('null');
  if (
    types.kind === 'json' ||
    types.kind === 'null' ||
    item.type.kind === 'json' ||
    items.includes(null)
  )
    return inJsonList(item, list, context);
  // Against no value at all PostgreSQL would decide what is an error.
  if (items.length === 0 && list.kind === 'constant')
    return item.nullable
      ? 'false'
      : `(case when ${context.write.text(item, context)} is not null then false end)`;
  const found = inKnownList(item, { ...list, kind: 'constant', value: items }, context);
  return item.nullable
    ? `(${found} and ${context.write.text(item, context)} is not null)`
    : `(${found})`;
}

function inKnownList(item: Expression, list: Of<'constant'>, context: SqlContext): string {
  if (item.kind === 'field' && columnType(item.field) === 'uuid') {
    const ids = (list.value as readonly RuleValue[]).filter((id) => canonicalUuid.test(String(id)));
    return `${column(context, item.name)} = any(${context.next(ids)}::uuid[])`;
  }
  const [value, values] = [
    context.write.text(item, context),
    constantSql(list, constants(context)),
  ];
  const isMixed = list.type.kind === 'list' && item.type.kind !== list.type.items.kind;
  return isMixed ? `(${value})::float8 = any((${values})::float8[])` : `${value} = any(${values})`;
}

/** The item among the elements of a list that is known, compared as JSON. */
function inJsonList(item: Expression, list: Expression, context: SqlContext): string {
  const value = freeJson(item, context);
  const found = `coalesce(${value}, 'null'::jsonb) in (select jsonb_array_elements(${context.write.jsonb(list, context)}))`;
  return item.nullable ? `(${found})` : `(case when ${value} is not null then ${found} end)`;
}

function inStoredList(item: Expression, list: Expression, context: SqlContext): string {
  if (!isList(list)) return refuse(list.at, 'this list is not searched');
  const items = list.type.kind === 'list' ? list.type.items : plain('null');
  if (items.kind === 'timestamp' || items.kind === 'list' || items.kind === 'object')
    return refuse(list.at, `a list of ${typeText(items)} is not searched: use exists()`);
  if (list.kind === 'field' && columnType(list.field) === 'uuid[]')
    return inIds(item, list, context);
  const stored = context.write.jsonb(list, context);
  const value = freeJson(item, context);
  const sought = `coalesce(${value}, 'null'::jsonb)`;
  const within = `${stored} @> jsonb_build_array(${sought})`;
  // What is in an object or a list is also "contained" in a larger one: those must be equal.
  const found = isScalar(item)
    ? within
    : `(${within} and ${sought} in (select jsonb_array_elements(${stored})))`;
  const isThere = item.row && !item.nullable ? ` and ${value} is not null` : '';
  return `(case when jsonb_typeof(${stored}) = 'array'${isThere} then ${found} end)`;
}

/** Never an object or a list: they are free JSON. */
const isScalar = (item: Expression): boolean =>
  item.type.kind !== 'json' ||
  (item.kind === 'constant' && (typeof item.value !== 'object' || item.value === null));

function inIds(item: Expression, list: Of<'field'>, context: SqlContext): string {
  const ids = column(context, list.name);
  if (!item.row) {
    const id = item.kind === 'constant' ? String(item.value) : '';
    if (!canonicalUuid.test(id)) return `(case when ${ids} is not null then false end)`;
    return `(${ids} @> array[${context.next(id)}::uuid])`;
  }
  const isThere = item.nullable ? '' : ` and ${context.write.text(item, context)} is not null`;
  return `(case when ${ids} is not null${isThere} then coalesce(${context.write.text(item, context)} = any(${ids}::text[]), false) end)`;
}

function keyIn(item: Expression, map: Expression, at: number, context: SqlContext): string {
  if (map.row) return refuse(at, 'keys of this map are not searched: use has()');
  const value = context.write.text(item, context);
  const keys = map.kind === 'constant' && map.value instanceof Map ? [...map.value.keys()] : [];
  return `(case when ${value} is not null then ${value} = any(${context.next(keys)}::text[]) end)`;
}

/** Elements of a stored list. A body that is an error for one element decides nothing. */
export function iteration(expression: Of<'each'>, context: SqlContext): string {
  const { macro, list, variable, body, at } = expression;
  if (macro === 'filter' || macro === 'map')
    return refuse(at, `${macro}() works only on lists that are known beforehand`);
  if (!list.row) {
    // Only when a rule is tried: known lists are gone through by the evaluator.
    if (macro === 'exists_one')
      return refuse(
        at,
        'exists_one() of a known list looks at the record, as exists() and all() may',
      );
    return context.write.condition(body, context);
  }
  if (!isList(list)) return refuse(list.at, 'this list is not gone through');
  const stored = context.write.jsonb(list, context);
  const alias = `e${context.depth}`;
  const inner = context.write.condition(body, {
    ...context,
    depth: context.depth + 1,
    elements: new Map([...context.elements, [variable, `${alias}.v`]]),
  });
  const answers = `(select ${inner} as b from jsonb_array_elements(case jsonb_typeof(${stored}) when 'array' then ${stored} end) ${alias}(v)) s`;
  const decided = {
    exists: 'case when bool_or(s.b) then true when bool_or(s.b is null) then null else false end',
    all: 'case when bool_and(s.b) is false then false when bool_or(s.b is null) then null else true end',
    exists_one: 'case when bool_or(s.b is null) then null else count(*) filter (where s.b) = 1 end',
  }[macro];
  return `(case jsonb_typeof(${stored}) when 'array' then (select ${decided} from ${answers}) end)`;
}
