/** Tests of a value inside jsonb. What is stored may be of another type than asked for: then the test is false, never an error. */

import { literalOf } from '../../../kernel/database/literal.ts';
import type { RowPredicate } from '../../../kernel/permissions.ts';
import type { Comparison } from '../../conditions/condition.ts';
import { wordsOf } from '../../schema/compile/layout.ts';
import { columnType, type Field } from '../../schema/language/field.ts';
import type { Parameters } from '../sql/prepared-statements.ts';
import type { BoundTest } from './bind.ts';

/** Which related records count, by the path of the relation; without an entry all of them do. */
export type HopPredicates = ReadonlyMap<string, RowPredicate>;

export interface FilterContext {
  readonly parameters: Parameters;
  readonly predicates: HopPredicates;
  /** Makes table aliases unique within the statement. */
  nextAlias(): string;
}
/* What the tests of scalar values look like in SQL, wherever the value stands. */

export const symbolOf: Readonly<Record<Comparison, string>> = {
  equal: '=',
  greater: '>',
  greaterOrEqual: '>=',
  less: '<',
  lessOrEqual: '<=',
};

type TextTest = Extract<BoundTest, { readonly kind: 'like' | 'matches' | 'search' }>;

/** A test of an SQL value of type text. */
function textTest(value: string, test: TextTest, { next }: Parameters): string {
  switch (test.kind) {
    case 'like':
      return `${value} ${test.ignoreCase ? 'ilike' : 'like'} ${next(likePattern(test.pieces))}::text`;
    case 'matches':
      return `${value} ${test.ignoreCase ? '~*' : '~'} ${next(test.pattern)}::text`;
    case 'search':
      return `${wordsOf(value)} @@ websearch_to_tsquery('simple', ${next(test.words)}::text)`;
  }
}

/** Only the gaps between the pieces are wildcards. */
const likePattern = (pieces: readonly string[]): string =>
  pieces.map((piece) => piece.replace(/[\\%_]/g, '\\$&')).join('%');

/* Tests of a value that is a column of its own. */

interface ColumnValue {
  /** Column, with its table. */
  readonly value: string;
  readonly field: Field;
  readonly parameters: Parameters;
}

type ValueTest = Exclude<BoundTest, { readonly kind: 'field' }>;

export function columnTest(column: ColumnValue, test: ValueTest): string {
  const { value, field, parameters } = column;
  switch (test.kind) {
    case 'exists':
      return `${value} is not null`;
    case 'like':
    case 'matches':
    case 'search':
      return textTest(value, test, parameters);
    case 'in':
      return anyOf(column, test.values, test.orNull);
    default:
      if (test.value === null) return `${value} is null`;
      if (field.kind === 'array') return listEqual(column, test.value);
      return `${value} ${symbolOf[test.kind]} ${parameters.next(test.value)}::${castOf(field, [test.value])}`;
  }
}

function anyOf(
  { value, field, parameters }: ColumnValue,
  values: readonly unknown[],
  orNull: boolean,
): string {
  const list = parameters.next(values);
  const text =
    field.kind === 'array'
      ? `${value} && ${list}::uuid[]`
      : `${value} = any(${list}::${castOf(field, values)}[])`;
  return orNull ? `(${text} or ${value} is null)` : text;
}

/** A list of relations: the list itself, or one of its elements. */
const listEqual = ({ value, parameters }: ColumnValue, requested: unknown): string =>
  Array.isArray(requested)
    ? `${value} = ${parameters.next(requested)}::uuid[]`
    : `${value} @> array[${parameters.next(requested)}::uuid]`;

/** The type as which values are compared: one that an index of the column serves, and that can hold them. */
function castOf(field: Field, values: readonly unknown[]): string {
  const type = columnType(field);
  if (type !== 'integer' && type !== 'bigint') return type;
  return values.every((value) => typeof value === 'string' || Number.isSafeInteger(value))
    ? 'bigint'
    : 'numeric';
}

interface JsonValue {
  /** Expression of type jsonb. */
  readonly value: string;
  readonly field: Field;
  readonly context: FilterContext;
}

export function jsonTest(json: JsonValue, test: ValueTest): string {
  const { value, field } = json;
  if (test.kind === 'exists') return `${present(value)} is not null`;
  if (test.kind === 'equal' && test.value === null) return `${present(value)} is null`;
  if (test.kind === 'in' && test.orNull)
    return `(${jsonTest(json, { ...test, orNull: false })} or ${present(value)} is null)`;
  if (field.kind === 'array') return listTest(json, field.items, test);
  if (field.kind === 'json') return freeTest(json, test);
  return scalarTest(json, test);
}

/** A stored null is as good as nothing. */
const present = (value: string): string => `nullif(${value}, 'null'::jsonb)`;

const isPrimitive = (value: unknown): boolean => typeof value !== 'object';

/** One element that fits is enough; a list is equal to a list. */
function listTest(json: JsonValue, items: Field, test: ValueTest): string {
  const { value, context } = json;
  const { next } = context.parameters;
  if (test.kind === 'equal' && Array.isArray(test.value))
    return `${value} = ${next(JSON.stringify(test.value))}::jsonb`;
  // An index over the whole list can answer this form.
  if (test.kind === 'equal' && isPrimitive(test.value) && !isWide(items))
    return `${value} @> ${next(JSON.stringify([test.value]))}::jsonb`;
  return anyElement(json, (element) =>
    scalarOrFree({ ...json, value: element, field: items }, test),
  );
}

const scalarOrFree = (json: JsonValue, test: ValueTest): string =>
  json.field.kind === 'json' ? freeTest(json, test) : scalarTest(json, test);

/** `$[*]` gives the elements of a list, and a value that is no list as it is. */
function anyElement({ value, context }: JsonValue, test: (element: string) => string): string {
  const element = context.nextAlias();
  return `exists (select 1 from jsonb_path_query(${value}, '$[*]') ${element}(v) where ${test(`${element}.v`)})`;
}

/** Free JSON is what it is: the type of the requested value decides. */
function freeTest(json: JsonValue, test: ValueTest): string {
  const { value, context } = json;
  const { next } = context.parameters;
  switch (test.kind) {
    case 'equal': {
      const same = `${value} = ${next(JSON.stringify(test.value))}::jsonb`;
      return isPrimitive(test.value)
        ? `(${same} or ${value} @> ${next(JSON.stringify([test.value]))}::jsonb)`
        : same;
    }
    case 'in': {
      const list = next(test.values.map((one) => JSON.stringify(one)));
      return `(${value} = any(${list}::jsonb[]) or ${anyElement(json, (element) => `${element} = any(${list}::jsonb[])`)})`;
    }
    case 'exists':
      return `${present(value)} is not null`;
    case 'like':
    case 'matches':
    case 'search':
      return anyElement(json, (element) => textTest(textOf(element), test, context.parameters));
    default:
      return anyElement(json, (element) =>
        ordered(typeof test.value === 'number' ? 'number' : 'string', element, test, json),
      );
  }
}

function scalarTest(json: JsonValue, test: ValueTest): string {
  const { value, field, context } = json;
  const { next } = context.parameters;
  switch (test.kind) {
    case 'exists':
      return `${present(value)} is not null`;
    case 'equal':
      if (isWide(field)) return `${wideNumber(value)} = ${next(test.value)}::numeric`;
      return `${value} = ${next(JSON.stringify(test.value))}::jsonb`;
    case 'in':
      if (isWide(field)) return `${wideNumber(value)} = any(${next(test.values)}::numeric[])`;
      return `${value} = any(${next(test.values.map((one) => JSON.stringify(one)))}::jsonb[])`;
    case 'like':
    case 'matches':
    case 'search':
      return textTest(textOf(value), test, context.parameters);
    default:
      if (isWide(field))
        return `${wideNumber(value)} ${symbolOf[test.kind]} ${next(test.value)}::numeric`;
      return ordered(field.kind, value, test, json);
  }
}

/** Numbers beyond what JSON numbers hold exactly are stored as text. */
const isWide = (field: Field): boolean =>
  field.kind === 'number' && (field.storage === 'bigint' || field.storage === 'numeric');

/** The value when it has this JSON type, else null: a cast never meets what it cannot take. */
const guarded = (value: string, type: string, cast: string): string =>
  `case jsonb_typeof(${value}) when ${literalOf(type, 'text')} then ${cast} end`;

export const textOf = (value: string): string =>
  `(${guarded(value, 'string', `${value} #>> '{}'`)})`;
export const numberOf = (value: string): string =>
  `(${guarded(value, 'number', `(${value} #>> '{}')::numeric`)})`;
export const wideNumber = (value: string): string =>
  `(case when jsonb_typeof(${value}) in ('number', 'string') then (${value} #>> '{}')::numeric end)`;
export const booleanOf = (value: string): string =>
  `(${guarded(value, 'boolean', `(${value})::boolean`)})`;

type OrderTest = Extract<ValueTest, { readonly value: unknown }>;

/** Dates and ids are stored in one canonical form, whose order is that of their characters. */
function ordered(
  kind: Field['kind'],
  value: string,
  test: OrderTest,
  { context }: JsonValue,
): string {
  const { next } = context.parameters;
  const symbol = symbolOf[test.kind];
  if (kind === 'number') return `${numberOf(value)} ${symbol} ${next(test.value)}::numeric`;
  const collation = kind === 'string' ? '' : ' collate "C"';
  return `${textOf(value)}${collation} ${symbol} ${next(test.value)}::text`;
}
