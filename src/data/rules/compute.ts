/** What functions and comparisons of a rule come to once all their parts are known. */
import { compilePattern } from '../schema/language/pattern/compile.ts';
import { isKnown } from './choice.ts';
import type { Expression, Of } from './expression.ts';
import { functionOf } from './functions.ts';
import type { RuleType } from './types.ts';
import { equal, type Json, order, type RuleValue, storedValue } from './values.ts';

/** Needs all of its parts. */
export type Strict = Exclude<
  Expression,
  Of<
    | 'constant'
    | 'open'
    | 'input'
    | 'field'
    | 'variable'
    | 'and'
    | 'or'
    | 'not'
    | 'if'
    | 'each'
    | 'has'
    | 'choice'
  >
>;

/** A copy of `own` with reduced parts. */
export const rest = <E extends Expression>(own: E, parts: readonly Expression[]): E => ({
  ...own,
  row: parts.some(({ row }) => row),
});

export function partsOf(expression: Strict): readonly Expression[] {
  switch (expression.kind) {
    case 'member':
    case 'narrow':
      return [expression.of];
    case 'index':
      return [expression.of, expression.key];
    case 'equal':
    case 'order':
      return [expression.left, expression.right];
    case 'in':
      return [expression.item, expression.list];
    case 'list':
      return expression.items;
    case 'map':
      return expression.entries.map(([, value]) => value);
    case 'call':
      return expression.of;
  }
}

export function withParts(expression: Strict, parts: readonly Expression[]): Expression {
  const [a = expression, b = expression] = parts;
  switch (expression.kind) {
    case 'member':
    case 'narrow':
      return rest({ ...expression, of: a }, parts);
    case 'index':
      return rest({ ...expression, of: a, key: b }, parts);
    case 'equal':
    case 'order':
      return rest({ ...expression, left: a, right: b }, parts);
    case 'in':
      return rest({ ...expression, item: a, list: b }, parts);
    case 'list':
      return rest({ ...expression, items: parts }, parts);
    case 'map':
      return expression;
    case 'call':
      return rest({ ...expression, of: parts }, parts);
  }
}

/** Nothing: an error. */
export function computed(expression: Strict, values: readonly RuleValue[]): RuleValue | undefined {
  const [a = null, b = null] = values;
  switch (expression.kind) {
    case 'member':
      return memberOf(a, expression.key, expression.type);
    case 'index':
      return indexed(a, b, expression);
    case 'narrow':
      return narrowedValue(a, expression.type);
    case 'equal':
      return equal(a, b);
    case 'order':
      return ordered(expression.operator, order(a, b));
    case 'in':
      return includes(b, a);
    case 'list':
      return itemsOf(expression.type, values);
    case 'map': {
      const items = itemsOf(expression.type, values);
      return new Map(expression.entries.map(([key], i) => [key, items[i] ?? null]));
    }
    case 'call':
      return called(expression, values);
  }
}

/** Whole numbers beside others in a list or map are numbers of that kind. */
function itemsOf(type: RuleType, values: readonly RuleValue[]): readonly RuleValue[] {
  const of = type.kind === 'list' ? type.items : type.kind === 'map' ? type.values : type;
  if (of.kind !== 'double') return values;
  return values.map((value) => (typeof value === 'bigint' ? Number(value) : value));
}

function memberOf(of: RuleValue, key: string, type: RuleType): RuleValue | undefined {
  if (of instanceof Map) return of.get(key);
  if (typeof of !== 'object' || of === null || Array.isArray(of)) return null;
  const value = Object.hasOwn(of, key) ? (of as Readonly<Record<string, Json>>)[key] : null;
  return storedValue(type, value);
}

function indexed(of: RuleValue, key: RuleValue, { of: list }: Of<'index'>): RuleValue | undefined {
  if (of instanceof Map) return typeof key === 'string' ? of.get(key) : undefined;
  const isPlace = Array.isArray(of) && typeof key === 'bigint' && key >= 0n;
  const found: RuleValue | undefined = isPlace ? of[Number(key)] : undefined;
  // What is not there in a record is null.
  return found === undefined && !isKnown(list) ? null : found;
}

function narrowedValue(value: RuleValue, { kind }: RuleType): RuleValue | undefined {
  if (kind === 'list') return Array.isArray(value) ? value : undefined;
  const requested = kind === 'bool' ? 'boolean' : kind === 'double' ? 'number' : 'string';
  return typeof value === requested ? value : undefined;
}

function ordered(
  operator: '<' | '<=' | '>' | '>=',
  found: number | undefined,
): boolean | undefined {
  if (found === undefined) return undefined;
  if (operator === '<') return found < 0;
  if (operator === '<=') return found <= 0;
  return operator === '>' ? found > 0 : found >= 0;
}

function includes(container: RuleValue, item: RuleValue): boolean | undefined {
  if (container instanceof Map) return typeof item === 'string' ? container.has(item) : undefined;
  if (!Array.isArray(container)) return undefined;
  return container.some((one: RuleValue) => equal(one, item));
}

function called({ function: id }: Of<'call'>, values: readonly RuleValue[]): RuleValue | undefined {
  if (values.includes(null)) return undefined;
  if (id === 'matches') {
    const [text, pattern] = values as readonly string[];
    return compilePattern(pattern ?? '').matches(text ?? '');
  }
  return functionOf(id)?.evaluate(values as readonly never[]);
}
