/**
 * What a condition says about given values, without a database. Each part has the outcomes that are still possible:
 * where the request leaves a value of its context out, both truths are, so the caller learns exactly which values it
 * has to give.
 */
import type { Comparison, Leaf, Operand, Tree, ValueTest } from './condition.ts';

/** A condition that can be evaluated here. */
export type ValueCondition = Tree<Leaf<Operand, ValueTest>>;

export interface ConditionResult {
  /** True whatever the missing values are. */
  readonly holds: boolean;
  /** False where it is false whatever they are. Neither: it hangs on them, or values cannot be compared. */
  readonly possible: boolean;
  /** Context values that `holds` depends on and that the request did not give; empty when it is certain. */
  readonly missing: readonly string[];
}

/** `undefined`: there is no such value. */
export type ReadOperand = (operand: Operand) => unknown;

/** Outcomes as bits. A comparison that makes no sense (attribute absent, two kinds) is undecidable: it never counts as true, nor does its negation. */
const isTrue = 1;
const isFalse = 2;
const isUndecidable = 4;
const anything = isTrue | isFalse | isUndecidable;
type Outcomes = number;

export function evaluateCondition(condition: ValueCondition, read: ReadOperand): ConditionResult {
  const missing = new Set<string>();
  const outcomes = outcomesOf(condition, read, missing);
  const open = (outcomes & isTrue) !== 0 && outcomes !== isTrue;
  return {
    holds: outcomes === isTrue,
    possible: outcomes !== isFalse,
    missing: open ? [...missing] : [],
  };
}

function outcomesOf(condition: ValueCondition, read: ReadOperand, missing: Set<string>): Outcomes {
  switch (condition.kind) {
    case 'all':
      return condition.of
        .map((part) => outcomesOf(part, read, missing))
        .reduce((a, b) => combine(a, b, isFalse), isTrue);
    case 'any':
      return condition.of
        .map((part) => outcomesOf(part, read, missing))
        .reduce((a, b) => combine(a, b, isTrue), isFalse);
    case 'not':
      return negate(outcomesOf(condition.of, read, missing));
    case 'test':
      return testOutcomes(condition, read, missing);
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

function testOutcomes(
  { left, test }: Leaf<Operand, ValueTest>,
  read: ReadOperand,
  missing: Set<string>,
): Outcomes {
  if (test.kind === 'exists') return outcome(read(left) !== undefined);
  const { kind, right } = test;
  const [a, b] = [read(left), read(right)];
  const absent = [
    ...(left.kind === 'context' && a === undefined ? [left.name] : []),
    ...(right.kind === 'context' && b === undefined ? [right.name] : []),
  ];
  if (absent.length > 0) {
    for (const name of absent) missing.add(name);
    return anything;
  }
  const aboutTime = left.kind === 'now' || right.kind === 'now';
  return outcome(
    aboutTime && kind !== 'in' ? compare(kind, timeOf(a), timeOf(b)) : compare(kind, a, b),
  );
}

const isoDate = /^\d{4}-\d\d-\d\d(T\d\d:\d\d(:\d\d(\.\d{1,9})?)?(Z|[+-]\d\d:\d\d))?$/;

/** Milliseconds of an ISO 8601 text; a date alone means its first moment in UTC. */
function timeOf(value: unknown): number | undefined {
  if (typeof value !== 'string' || !isoDate.test(value)) return undefined;
  const time = Date.parse(value);
  return Number.isNaN(time) ? undefined : time;
}

/** Nothing when the two cannot be compared. */
function compare(kind: Comparison | 'in', left: unknown, right: unknown): boolean | undefined {
  if (left === undefined || right === undefined) return undefined;
  if (kind === 'in') return Array.isArray(right) ? right.includes(left) : undefined;
  if (kind === 'equal') return left === right;
  const order = orderOf(left, right);
  return order === undefined ? undefined : ordered(kind, order);
}

/** Negative, zero or positive for two numbers or two texts. */
function orderOf(left: unknown, right: unknown): number | undefined {
  if (typeof left === 'number' && typeof right === 'number') return left - right;
  if (typeof left !== 'string' || typeof right !== 'string') return undefined;
  return left === right ? 0 : left < right ? -1 : 1;
}

function ordered(kind: Exclude<Comparison, 'equal'>, order: number): boolean {
  switch (kind) {
    case 'greater':
      return order > 0;
    case 'greaterOrEqual':
      return order >= 0;
    case 'less':
      return order < 0;
    case 'lessOrEqual':
      return order <= 0;
  }
}
