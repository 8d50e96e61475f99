/**
 * Conditions on tuples: a rule with typed parameters (typed-rule.ts), or a closed set of comparisons over the
 * request's context, the tuple's own attributes and the clock.
 *
 * Written as `{op: [operand, operand]}`, `{all: [...]}`, `{any: [...]}` or
 * `{not: condition}`; an operand is `{context: name}`, `{attribute: name}`,
 * `{now: true}` or a literal.
 */
import { literal, not, type Operand, type ValueTest } from '../../../data/conditions/condition.ts';
import {
  type ConditionResult,
  evaluateCondition as evaluateValues,
  type ValueCondition,
} from '../../../data/conditions/evaluate.ts';
import type { Problem } from '../../../kernel/errors.ts';
import { isName } from './grammar.ts';
import {
  inputsOf,
  isTypedRule,
  parseTypedRule,
  type RuleContext,
  type TypedRule,
} from './typed-rule.ts';

type Literal = string | number | boolean | null | readonly (string | number | boolean)[];

const comparisons: ReadonlyMap<string, Exclude<ValueTest['kind'], 'exists'>> = new Map([
  ['eq', 'equal'],
  ['ne', 'equal'],
  ['gt', 'greater'],
  ['gte', 'greaterOrEqual'],
  ['lt', 'less'],
  ['lte', 'lessOrEqual'],
  ['in', 'in'],
]);

export type Condition = TypedRule | ValueCondition;

const maxNodes = 64;

/** Parses the wire form; problems carry dotted places below `path`. */
export function parseCondition(
  input: unknown,
  path: string,
  problems: Problem[],
): Condition | undefined {
  if (isTypedRule(input)) return parseTypedRule(input, path, problems);
  const before = problems.length;
  const budget = { left: maxNodes };
  const condition = node(input, path, { problems, budget });
  return problems.length === before ? condition : undefined;
}

interface Parsing {
  readonly problems: Problem[];
  readonly budget: { left: number };
}

const report = (parsing: Parsing, path: string, rule: string, message: string): undefined => {
  parsing.problems.push({ path, rule, message });
  return undefined;
};

const isPlain = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

function node(input: unknown, path: string, parsing: Parsing): ValueCondition | undefined {
  parsing.budget.left -= 1;
  if (parsing.budget.left < 0)
    return report(parsing, path, 'size', `a condition has at most ${maxNodes} parts`);
  const entry = isPlain(input) ? Object.entries(input) : [];
  const [key, value] = entry[0] ?? [];
  if (entry.length !== 1 || key === undefined)
    return report(parsing, path, 'condition', 'must be an object with exactly one operator');
  const place = `${path}.${key}`;
  if (key === 'all' || key === 'any') return group(key, value, place, parsing);
  if (key === 'not') {
    const of = node(value, place, parsing);
    return of && not(of);
  }
  if (key === 'exists') {
    const found = operand(value, place, parsing);
    return found && { kind: 'test', left: found, test: { kind: 'exists' }, place };
  }
  return comparison(key, value, place, parsing);
}

function comparison(
  key: string,
  value: unknown,
  place: string,
  parsing: Parsing,
): ValueCondition | undefined {
  const kind = comparisons.get(key);
  if (!kind) {
    return report(
      parsing,
      place,
      'operator',
      `unknown operator; use one of ${[...comparisons.keys(), 'exists', 'all', 'any', 'not'].join(', ')}`,
    );
  }
  if (!Array.isArray(value) || value.length !== 2)
    return report(parsing, place, 'operands', 'must be a list of two operands');
  const left = operand(value[0], `${place}[0]`, parsing);
  const right = operand(value[1], `${place}[1]`, parsing);
  if (!left || !right) return undefined;
  const test: ValueCondition = { kind: 'test', left, test: { kind, right }, place };
  return key === 'ne' ? not(test) : test;
}

function group(
  kind: 'all' | 'any',
  value: unknown,
  path: string,
  parsing: Parsing,
): ValueCondition | undefined {
  if (!Array.isArray(value) || value.length === 0)
    return report(parsing, path, 'operands', 'must be a list with at least one condition');
  const of = value.map((child, i) => node(child, `${path}[${i}]`, parsing));
  return of.every((c) => c !== undefined) ? { kind, of } : undefined;
}

function operand(input: unknown, path: string, parsing: Parsing): Operand | undefined {
  if (!isPlain(input)) {
    return isLiteral(input)
      ? literal(input)
      : report(parsing, path, 'operand', 'must be a literal, {context}, {attribute} or {now}');
  }
  const [key, value] = Object.entries(input)[0] ?? [];
  if (Object.keys(input).length === 1) {
    if ((key === 'context' || key === 'attribute') && typeof value === 'string' && isName(value))
      return { kind: key, name: value };
    if (key === 'now' && value === true) return { kind: 'now' };
  }
  return report(
    parsing,
    path,
    'operand',
    'must be {"context": name}, {"attribute": name} or {"now": true}',
  );
}

function isLiteral(value: unknown): value is Literal {
  if (Array.isArray(value))
    return (
      value.length <= 100 && value.every((v) => isLiteral(v) && v !== null && !Array.isArray(v))
    );
  return (
    value === null ||
    typeof value === 'boolean' ||
    typeof value === 'string' ||
    (typeof value === 'number' && Number.isFinite(value))
  );
}

/** What a condition says about given values. */
export function evaluateCondition(condition: Condition, input: RuleContext): ConditionResult {
  if (condition.kind === 'rule') return condition.rule.evaluate(inputsOf(condition, input));
  return evaluateValues(condition, (operand) => valueFrom(operand, input));
}

function valueFrom(operand: Operand, input: RuleContext): unknown {
  switch (operand.kind) {
    case 'literal':
      return operand.value;
    case 'now':
      return input.now;
    case 'context':
      return Object.hasOwn(input.context, operand.name) ? input.context[operand.name] : undefined;
    case 'attribute':
      return Object.hasOwn(input.attributes, operand.name)
        ? input.attributes[operand.name]
        : undefined;
    default:
      return undefined;
  }
}
