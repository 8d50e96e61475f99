/**
 * Conditions on tuples: a rule with typed parameters (typed-rule.ts), or a closed set of comparisons over the
 * request's context, the tuple's own attributes and the clock.
 *
 * Written as `{op: [operand, operand]}`, `{all: [...]}`, `{any: [...]}` or
 * `{not: condition}`; an operand is `{context: name}`, `{attribute: name}`,
 * `{now: true}` or a literal.
 */
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

export type Operand =
  | { readonly kind: 'context'; readonly name: string }
  | { readonly kind: 'attribute'; readonly name: string }
  | { readonly kind: 'now' }
  | { readonly kind: 'literal'; readonly value: Literal };

const comparisons = ['eq', 'ne', 'gt', 'gte', 'lt', 'lte', 'in'] as const;
type Comparison = (typeof comparisons)[number];

export type Condition = TypedRule | Comparisons;

/** The form without types. */
type Comparisons =
  | {
      readonly kind: 'compare';
      readonly operator: Comparison;
      readonly left: Operand;
      readonly right: Operand;
    }
  | { readonly kind: 'exists'; readonly operand: Operand }
  | { readonly kind: 'all' | 'any'; readonly of: readonly Comparisons[] }
  | { readonly kind: 'not'; readonly of: Comparisons };

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

const fault = (parsing: Parsing, path: string, rule: string, message: string): undefined => {
  parsing.problems.push({ path, rule, message });
  return undefined;
};

const isPlain = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

function node(input: unknown, path: string, parsing: Parsing): Comparisons | undefined {
  parsing.budget.left -= 1;
  if (parsing.budget.left < 0)
    return fault(parsing, path, 'size', `a condition has at most ${maxNodes} parts`);
  const entry = isPlain(input) ? Object.entries(input) : [];
  const [key, value] = entry[0] ?? [];
  if (entry.length !== 1 || key === undefined)
    return fault(parsing, path, 'condition', 'must be an object with exactly one operator');
  const place = `${path}.${key}`;
  if (key === 'all' || key === 'any') return group(key, value, place, parsing);
  if (key === 'not') {
    const of = node(value, place, parsing);
    return of && { kind: 'not', of };
  }
  if (key === 'exists') {
    const found = operand(value, place, parsing);
    return found && { kind: 'exists', operand: found };
  }
  if (!(comparisons as readonly string[]).includes(key)) {
    return fault(
      parsing,
      place,
      'operator',
      `unknown operator; use one of ${[...comparisons, 'exists', 'all', 'any', 'not'].join(', ')}`,
    );
  }
  if (!Array.isArray(value) || value.length !== 2)
    return fault(parsing, place, 'operands', 'must be a list of two operands');
  const left = operand(value[0], `${place}[0]`, parsing);
  const right = operand(value[1], `${place}[1]`, parsing);
  return left && right && { kind: 'compare', operator: key as Comparison, left, right };
}

function group(
  kind: 'all' | 'any',
  value: unknown,
  path: string,
  parsing: Parsing,
): Comparisons | undefined {
  if (!Array.isArray(value) || value.length === 0)
    return fault(parsing, path, 'operands', 'must be a list with at least one condition');
  const of = value.map((child, i) => node(child, `${path}[${i}]`, parsing));
  return of.every((c) => c !== undefined) ? { kind, of } : undefined;
}

function operand(input: unknown, path: string, parsing: Parsing): Operand | undefined {
  if (!isPlain(input)) {
    return isLiteral(input)
      ? { kind: 'literal', value: input }
      : fault(parsing, path, 'operand', 'must be a literal, {context}, {attribute} or {now}');
  }
  const [key, value] = Object.entries(input)[0] ?? [];
  if (Object.keys(input).length === 1) {
    if ((key === 'context' || key === 'attribute') && typeof value === 'string' && isName(value))
      return { kind: key, name: value };
    if (key === 'now' && value === true) return { kind: 'now' };
  }
  return fault(
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

/*
 * What a condition says about given values. Each part has the outcomes that are
 * still possible: where the request leaves a value out, both truths are, so the
 * caller learns exactly which values it has to give.
 */

interface ConditionResult {
  /** True whatever the missing values are. */
  readonly holds: boolean;
  /** Context values that the answer hangs on and that the request did not give; empty when it is certain. */
  readonly missing: readonly string[];
}

/** Outcomes as bits. A comparison that makes no sense (attribute absent, two kinds) is undecidable: it never counts as true, nor does its negation. */
const isTrue = 1;
const isFalse = 2;
const isUndecidable = 4;
const anything = isTrue | isFalse | isUndecidable;
type Outcomes = number;

export function evaluateCondition(condition: Condition, input: RuleContext): ConditionResult {
  if (condition.kind === 'rule') return condition.rule.evaluate(inputsOf(condition, input));
  const missing = new Set<string>();
  const outcomes = outcomesOf(condition, input, missing);
  const open = (outcomes & isTrue) !== 0 && outcomes !== isTrue;
  return { holds: outcomes === isTrue, missing: open ? [...missing] : [] };
}

function outcomesOf(condition: Comparisons, input: RuleContext, missing: Set<string>): Outcomes {
  switch (condition.kind) {
    case 'all':
      return condition.of
        .map((c) => outcomesOf(c, input, missing))
        .reduce((a, b) => combine(a, b, isFalse));
    case 'any':
      return condition.of
        .map((c) => outcomesOf(c, input, missing))
        .reduce((a, b) => combine(a, b, isTrue));
    case 'not':
      return negate(outcomesOf(condition.of, input, missing));
    case 'exists':
      return outcome(valueFrom(condition.operand, input) !== undefined);
    case 'compare':
      return comparisonOutcomes(condition, input, missing);
  }
}

const outcome = (holds: boolean | undefined): Outcomes =>
  holds === undefined ? isUndecidable : holds ? isTrue : isFalse;

const negate = (outcomes: Outcomes): Outcomes =>
  (outcomes & isUndecidable) |
  (outcomes & isTrue ? isFalse : 0) |
  (outcomes & isFalse ? isTrue : 0);

/** Kleene's "and" and "or": `strong` is the truth that decides alone. */
function combine(a: Outcomes, b: Outcomes, strong: Outcomes): Outcomes {
  const weak = isTrue + isFalse - strong;
  let result = (a | b) & strong;
  if (a & weak && b & weak) result |= weak;
  if (
    (a & isUndecidable && b & (isUndecidable | weak)) ||
    (b & isUndecidable && a & (isUndecidable | weak))
  )
    result |= isUndecidable;
  return result;
}

function comparisonOutcomes(
  { operator, left, right }: Extract<Comparisons, { kind: 'compare' }>,
  input: RuleContext,
  missing: Set<string>,
): Outcomes {
  const absent = [left, right].flatMap((side) =>
    side.kind === 'context' && valueFrom(side, input) === undefined ? [side.name] : [],
  );
  if (absent.length > 0) {
    for (const name of absent) missing.add(name);
    return anything;
  }
  const aboutTime = left.kind === 'now' || right.kind === 'now';
  const [a, b] = [valueFrom(left, input), valueFrom(right, input)];
  return outcome(
    aboutTime && operator !== 'in'
      ? compare(operator, timeOf(a), timeOf(b))
      : compare(operator, a, b),
  );
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
  }
}

const isoDate = /^\d{4}-\d\d-\d\d(T\d\d:\d\d(:\d\d(\.\d{1,9})?)?(Z|[+-]\d\d:\d\d))?$/;

/** Milliseconds of an ISO 8601 text; a date alone means its first moment in UTC. */
function timeOf(value: unknown): number | undefined {
  if (typeof value !== 'string' || !isoDate.test(value)) return undefined;
  const time = Date.parse(value);
  return Number.isNaN(time) ? undefined : time;
}

/** Nothing when the two cannot be compared. */
function compare(operator: Comparison, left: unknown, right: unknown): boolean | undefined {
  if (left === undefined || right === undefined) return undefined;
  if (operator === 'in') return Array.isArray(right) ? right.includes(left) : undefined;
  if (operator === 'eq') return left === right;
  if (operator === 'ne') return left !== right;
  const order = orderOf(left, right);
  return order === undefined ? undefined : ordered(operator, order);
}

/** Negative, zero or positive for two numbers or two texts. */
function orderOf(left: unknown, right: unknown): number | undefined {
  if (typeof left === 'number' && typeof right === 'number') return left - right;
  if (typeof left !== 'string' || typeof right !== 'string') return undefined;
  return left === right ? 0 : left < right ? -1 : 1;
}

function ordered(operator: 'gt' | 'gte' | 'lt' | 'lte', order: number): boolean {
  switch (operator) {
    case 'gt':
      return order > 0;
    case 'gte':
      return order >= 0;
    case 'lt':
      return order < 0;
    case 'lte':
      return order <= 0;
  }
}
