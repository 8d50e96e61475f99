/**
 * What a condition says about given values. Each part has the outcomes that are
 * still possible: where the request leaves a value out, both truths are, so the
 * caller learns exactly which values it has to give.
 */
import type { Comparison, Condition, Operand } from './condition.ts';

/** Values that a condition may look at. `now` is ISO 8601. */
export interface ConditionInput {
  readonly context: Readonly<Record<string, unknown>>;
  readonly attributes: Readonly<Record<string, unknown>>;
  readonly now: string;
}

export interface ConditionResult {
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

export function evaluateCondition(condition: Condition, input: ConditionInput): ConditionResult {
  const missing = new Set<string>();
  const outcomes = outcomesOf(condition, input, missing);
  const open = (outcomes & isTrue) !== 0 && outcomes !== isTrue;
  return { holds: outcomes === isTrue, missing: open ? [...missing] : [] };
}

function outcomesOf(condition: Condition, input: ConditionInput, missing: Set<string>): Outcomes {
  switch (condition.kind) {
    case 'all':
      return condition.of.map((c) => outcomesOf(c, input, missing)).reduce((a, b) => combine(a, b, isFalse));
    case 'any':
      return condition.of.map((c) => outcomesOf(c, input, missing)).reduce((a, b) => combine(a, b, isTrue));
    case 'not':
      return negate(outcomesOf(condition.of, input, missing));
    case 'exists':
      return outcome(valueFrom(condition.operand, input) !== undefined);
    case 'compare':
      return comparisonOutcomes(condition, input, missing);
  }
}

const outcome = (holds: boolean | undefined): Outcomes => (holds === undefined ? isUndecidable : holds ? isTrue : isFalse);

const negate = (outcomes: Outcomes): Outcomes =>
  (outcomes & isUndecidable) | (outcomes & isTrue ? isFalse : 0) | (outcomes & isFalse ? isTrue : 0);

/** Kleene's "and" and "or": `strong` is the truth that decides alone. */
function combine(a: Outcomes, b: Outcomes, strong: Outcomes): Outcomes {
  const weak = isTrue + isFalse - strong;
  let result = (a | b) & strong;
  if (a & weak && b & weak) result |= weak;
  if ((a & isUndecidable && b & (isUndecidable | weak)) || (b & isUndecidable && a & (isUndecidable | weak))) result |= isUndecidable;
  return result;
}

function comparisonOutcomes(
  { operator, left, right }: Extract<Condition, { kind: 'compare' }>,
  input: ConditionInput,
  missing: Set<string>,
): Outcomes {
  const absent = [left, right].flatMap((side) => (side.kind === 'context' && valueFrom(side, input) === undefined ? [side.name] : []));
  if (absent.length > 0) {
    for (const name of absent) missing.add(name);
    return anything;
  }
  const aboutTime = left.kind === 'now' || right.kind === 'now';
  const [a, b] = [valueFrom(left, input), valueFrom(right, input)];
  return outcome(aboutTime && operator !== 'in' ? compare(operator, timeOf(a), timeOf(b)) : compare(operator, a, b));
}

function valueFrom(operand: Operand, input: ConditionInput): unknown {
  switch (operand.kind) {
    case 'literal':
      return operand.value;
    case 'now':
      return input.now;
    case 'context':
      return Object.hasOwn(input.context, operand.name) ? input.context[operand.name] : undefined;
    case 'attribute':
      return Object.hasOwn(input.attributes, operand.name) ? input.attributes[operand.name] : undefined;
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
