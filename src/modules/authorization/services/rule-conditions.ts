/**
 * Conditions of 0.16 rules: a flat map from a field to what it must be. A key is a field of the record, or
 * `caller.<field>` for the user who asks. A value is a literal, or an object of operators (eq, ne, in, nin, gt, lt,
 * exists, also written with a `$`) whose operands are literals, `"$user.<field>"`, `{"caller": field}` or
 * `{"record": field}`. Everything must hold; what is not there makes a comparison false.
 */
import {
  all,
  any,
  type Comparison,
  literal,
  not,
  type Operand,
} from '../../../data/conditions/condition.ts';
import { evaluateCondition, type ValueCondition } from '../../../data/conditions/evaluate.ts';
import type { Problem } from '../../../kernel/errors.ts';
import { cutText } from '../../../kernel/text.ts';

export type RuleConditions = Readonly<Record<string, unknown>>;

/** What conditions look at; `undefined` where there is no record or user. */
export interface RuleFacts {
  readonly record: Readonly<Record<string, unknown>> | undefined;
  readonly caller: Readonly<Record<string, unknown>> | undefined;
}

const maxConditions = 32;
const maxItems = 100;
const fieldName = /^(caller\.)?[A-Za-z_]\w{0,63}$/;
const operators: ReadonlySet<string> = new Set(['eq', 'ne', 'in', 'nin', 'gt', 'lt', 'exists']);

/** Operators may be written as in document databases. */
const plainName = (operator: string): string => operator.replace(/^\$/, '');

const isPlain = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);
const isScalar = (value: unknown): boolean =>
  value === null || ['string', 'number', 'boolean'].includes(typeof value);

/** Problems of conditions as they are written, with dotted places. */
export function conditionProblems(conditions: RuleConditions): readonly Problem[] {
  const entries = Object.entries(conditions);
  if (entries.length > maxConditions)
    return [problem('conditions', 'maxItems', `at most ${maxConditions} conditions`)];
  return entries.flatMap(([key, value]) => {
    const path = `conditions.${cutText(key, 80)}`;
    if (!fieldName.test(key))
      return [problem(path, 'name', 'must be a field of the record, or caller.<field>')];
    if (isScalar(value)) return [];
    if (!isPlain(value))
      return [problem(path, 'type', 'must be a literal or an object of operators')];
    return Object.entries(value).flatMap(([operator, operand]) =>
      operatorProblems(`${path}.${cutText(operator, 32)}`, operator, operand),
    );
  });
}

const problem = (path: string, rule: string, message: string): Problem => ({ path, rule, message });

function operatorProblems(path: string, written: string, operand: unknown): readonly Problem[] {
  const operator = plainName(written);
  if (!operators.has(operator))
    return [problem(path, 'operator', `unknown operator; use one of ${[...operators].join(', ')}`)];
  if (operator === 'exists')
    return typeof operand === 'boolean' ? [] : [problem(path, 'type', 'must be true or false')];
  if (reference(operand)) return [];
  if (operator === 'in' || operator === 'nin') {
    const isList = Array.isArray(operand) && operand.length <= maxItems && operand.every(isScalar);
    return isList ? [] : [problem(path, 'type', `must be a list of at most ${maxItems} literals`)];
  }
  return isScalar(operand)
    ? []
    : [problem(path, 'type', 'must be a literal, {"caller": field} or {"record": field}')];
}

const userField = /^\$user\.([A-Za-z_]\w{0,63})$/;

/** The field that `"$user.field"`, `{caller: field}` or `{record: field}` names. */
function reference(operand: unknown): Operand | undefined {
  if (typeof operand === 'string') {
    const field = userField.exec(operand)?.[1];
    return field === undefined ? undefined : { kind: 'caller', name: field };
  }
  if (!isPlain(operand)) return undefined;
  const [[of, field] = [], ...rest] = Object.entries(operand);
  if (rest.length > 0 || typeof field !== 'string' || (of !== 'caller' && of !== 'record'))
    return undefined;
  if (!fieldName.test(field) || field.startsWith('caller.')) return undefined;
  return of === 'caller' ? { kind: 'caller', name: field } : { kind: 'field', path: field };
}

/** Whether the conditions are about something beyond the mere question. */
export const needsFacts = (conditions: RuleConditions): boolean =>
  Object.keys(conditions).length > 0;

/** True when all conditions hold. */
export const conditionsHold = (conditions: RuleConditions, facts: RuleFacts): boolean =>
  evaluateCondition(conditionOf(conditions), (operand) => factOf(operand, facts)).holds;

/** What a map of conditions means. */
const conditionOf = (conditions: RuleConditions): ValueCondition =>
  all<ValueLeaf>(
    ...Object.entries(conditions).flatMap(([key, asked]) => {
      const left = operandOf(key);
      if (!isPlain(asked)) return [testOf(left, 'eq', asked)];
      return Object.entries(asked).map(([operator, operand]) =>
        testOf(left, plainName(operator), operand),
      );
    }),
  );

const operandOf = (key: string): Operand =>
  key.startsWith('caller.')
    ? { kind: 'caller', name: key.slice('caller.'.length) }
    : { kind: 'field', path: key };

type ValueLeaf = Extract<ValueCondition, { kind: 'test' }>;

const comparisons: ReadonlyMap<string, Comparison | 'in'> = new Map([
  ['eq', 'equal'],
  ['ne', 'equal'],
  ['gt', 'greater'],
  ['lt', 'less'],
  ['in', 'in'],
  ['nin', 'in'],
]);

function testOf(left: Operand, operator: string, operand: unknown): ValueCondition {
  const leaf = (test: ValueLeaf['test']): ValueLeaf => ({ kind: 'test', left, test, place: '' });
  if (operator === 'exists') {
    const isNull = leaf({ kind: 'equal', right: literal(null) });
    const isThere = all<ValueLeaf>(leaf({ kind: 'exists' }), not(isNull));
    return operand ? isThere : not(isThere);
  }
  const kind = comparisons.get(operator);
  if (!kind) return any();
  const test = leaf({ kind, right: reference(operand) ?? literal(operand) });
  return operator === 'ne' || operator === 'nin' ? not(test) : test;
}

function factOf(operand: Operand, { record, caller }: RuleFacts): unknown {
  if (operand.kind === 'literal') return operand.value;
  if (operand.kind === 'caller') return ownValue(caller, operand.name);
  return operand.kind === 'field' ? ownValue(record, operand.path) : undefined;
}

const ownValue = (source: Readonly<Record<string, unknown>> | undefined, name: string): unknown =>
  source && Object.hasOwn(source, name) ? source[name] : undefined;
