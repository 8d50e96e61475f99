/** Tests of a value inside jsonb. What is stored may be of another type than asked for: then the test is false, never an error. */
import type { Field } from '../../schema/field.ts';
import { literalOf } from '../../schema/literal.ts';
import type { ValueTest } from './column-test.ts';
import type { FilterContext } from './compile.ts';
import { symbolOf, textTest } from './operators.ts';

export interface JsonValue {
  /** Expression of type jsonb. */
  readonly value: string;
  readonly field: Field;
  readonly context: FilterContext;
}

export function jsonTest(json: JsonValue, test: ValueTest): string {
  const { value, field } = json;
  if (test.kind === 'exists') return `${present(value)} is not null`;
  if (test.kind === 'equal' && test.value === null) return `${present(value)} is null`;
  if (test.kind === 'in' && test.orNull) return `(${jsonTest(json, { ...test, orNull: false })} or ${present(value)} is null)`;
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
  if (test.kind === 'equal' && Array.isArray(test.value)) return `${value} = ${next(JSON.stringify(test.value))}::jsonb`;
  // An index over the whole list can answer this form.
  if (test.kind === 'equal' && isPrimitive(test.value) && !isWide(items)) return `${value} @> ${next(JSON.stringify([test.value]))}::jsonb`;
  return anyElement(json, (element) => scalarOrFree({ ...json, value: element, field: items }, test));
}

const scalarOrFree = (json: JsonValue, test: ValueTest): string =>
  json.field.kind === 'json' ? freeTest(json, test) : scalarTest(json, test);

/** `$[*]` gives the elements of a list, and a value that is no list as it is. */
function anyElement({ value, context }: JsonValue, test: (element: string) => string): string {
  const element = context.nextAlias();
  return `exists (select 1 from jsonb_path_query(${value}, '$[*]') ${element}(v) where ${test(`${element}.v`)})`;
}

/** Free JSON is what it is: the type of the wanted value decides. */
function freeTest(json: JsonValue, test: ValueTest): string {
  const { value, context } = json;
  const { next } = context.parameters;
  switch (test.kind) {
    case 'equal': {
      const same = `${value} = ${next(JSON.stringify(test.value))}::jsonb`;
      return isPrimitive(test.value) ? `(${same} or ${value} @> ${next(JSON.stringify([test.value]))}::jsonb)` : same;
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
      return anyElement(json, (element) => ordered(typeof test.value === 'number' ? 'number' : 'string', element, test, json));
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
      if (isWide(field)) return `${wideNumber(value)} ${symbolOf[test.kind]} ${next(test.value)}::numeric`;
      return ordered(field.kind, value, test, json);
  }
}

/** Numbers beyond what JSON numbers hold exactly are stored as text. */
const isWide = (field: Field): boolean => field.kind === 'number' && (field.storage === 'bigint' || field.storage === 'numeric');

/** The value when it has this JSON type, else null: a cast never meets what it cannot take. */
const guarded = (value: string, type: string, cast: string): string =>
  `case jsonb_typeof(${value}) when ${literalOf(type, 'text')} then ${cast} end`;

export const textOf = (value: string): string => `(${guarded(value, 'string', `${value} #>> '{}'`)})`;
export const numberOf = (value: string): string => `(${guarded(value, 'number', `(${value} #>> '{}')::numeric`)})`;
export const wideNumber = (value: string): string =>
  `(case when jsonb_typeof(${value}) in ('number', 'string') then (${value} #>> '{}')::numeric end)`;
export const booleanOf = (value: string): string => `(${guarded(value, 'boolean', `(${value})::boolean`)})`;

type OrderTest = Extract<ValueTest, { readonly value: unknown }>;

/** Dates and ids are stored in one canonical form, whose order is that of their characters. */
function ordered(kind: Field['kind'], value: string, test: OrderTest, { context }: JsonValue): string {
  const { next } = context.parameters;
  const symbol = symbolOf[test.kind];
  if (kind === 'number') return `${numberOf(value)} ${symbol} ${next(test.value)}::numeric`;
  const collation = kind === 'string' ? '' : ' collate "C"';
  return `${textOf(value)}${collation} ${symbol} ${next(test.value)}::text`;
}
