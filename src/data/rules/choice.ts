/**
 * Known values of which the record chooses one: `limits[record.region]`, `record.open ? first : second`. What is
 * asked of lists, maps and free JSON is asked of each value before a statement is made: so it has the answer of
 * JavaScript, and never that of a form in which the values would stand in a table.
 */
import { type Expression, isError, type Of } from './expression.ts';
import { isScalar, plain, type RuleType } from './types.ts';
import type { RuleValue } from './values.ts';

/** Whether no value of the record is in it: the record says at most which one of several is meant. */
export function isKnown(expression: Expression): boolean {
  if (!expression.row) return true;
  switch (expression.kind) {
    case 'choice':
      return expression.entries.every(([, value]) => isKnown(value));
    case 'index':
    case 'member':
    case 'narrow':
      return isKnown(expression.of);
    case 'if':
      return isKnown(expression.yes) && isKnown(expression.no);
    case 'call':
      return !isScalar(expression.type) && expression.of.every(isKnown);
    case 'each':
      return !isScalar(expression.type) && isKnown(expression.list) && !expression.body.row;
    default:
      return false;
  }
}

/** Whether what is asked of the expression is asked of each of its values instead. */
export const isSpread = (expression: Expression): boolean =>
  (expression.kind === 'choice' || (expression.kind === 'if' && isKnown(expression))) &&
  expression.row &&
  (!isScalar(expression.type) || (expression.kind === 'choice' && expression.nullable));

/** `ask` of each value, in place of the value. */
export function ofEach(
  expression: Expression,
  type: RuleType,
  ask: (value: Expression) => Expression,
): Expression {
  if (expression.kind === 'choice')
    return choiceOf(
      expression,
      type,
      expression.entries.map(([key, value]) => [key, ask(value)]),
    );
  if (expression.kind !== 'if') return ask(expression);
  const [yes, no] = [ask(expression.yes), ask(expression.no)];
  return { ...expression, yes, no, type, nullable: yes.nullable || no.nullable };
}

type Entries = Of<'choice'>['entries'];

const choiceOf = (
  { key, at }: Pick<Of<'choice'>, 'key' | 'at'>,
  type: RuleType,
  entries: Entries,
): Of<'choice'> => ({
  kind: 'choice',
  key,
  entries,
  type,
  nullable: entries.some(([, value]) => value.nullable),
  row: true,
  at,
});

/** An item of a known list or map, by a key of the record. Nothing where there can be none. */
export function chosen(
  { type, at }: Of<'index'>,
  of: Expression,
  key: Expression,
): Of<'choice'> | undefined {
  const values = of.kind === 'constant' ? itemsOf(of.value) : [['', undefined] as const];
  const entries = values.map(([name, value]): readonly [string, Expression] => [
    name,
    itemOf(type, at, value),
  ]);
  return entries.length === 0 ? undefined : choiceOf({ key: asText(key), at }, type, entries);
}

function itemsOf(value: RuleValue): readonly (readonly [string, RuleValue])[] {
  if (value instanceof Map) return [...value];
  return Array.isArray(value) ? value.map((item: RuleValue, i) => [String(i), item]) : [];
}

/** Without a value: one that is not known yet, because the rule is only tried. */
const itemOf = (type: RuleType, at: number, value: RuleValue | undefined): Expression =>
  value === undefined
    ? { kind: 'input', name: '', type, nullable: type.kind === 'json', row: false, at }
    : { kind: 'constant', value, type, nullable: value === null, row: false, at };

const asText = (key: Expression): Expression =>
  key.type.kind === 'string'
    ? key
    : { ...key, kind: 'call', function: 'textOfInt', of: [key], type: plain('string') };

/** The value for a key that is known after all. */
export function picked({ entries, type, at }: Of<'choice'>, key: RuleValue): Expression {
  const found = entries.find(([name]) => name === key)?.[1];
  return (
    found ?? { kind: 'open', outcomes: isError, names: [], type, nullable: false, row: false, at }
  );
}
