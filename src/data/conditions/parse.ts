/**
 * From the operator language of spec/database.md 5.6 (`{"age": {"$gt": 3}}`) to a condition. The list
 * of operators is closed: anything else that starts with `$` is 400 with its place.
 */
import { invalid } from '../../kernel/errors.ts';
import { shortened } from '../../kernel/text.ts';
import {
  type Comparison,
  type Condition,
  equals,
  fieldTest,
  literal,
  MAX_NODES,
  type Test,
} from './condition.ts';

/** Levels of `$and`, `$or`, `$nor` and `$not`. */
const MAX_DEPTH = 16;
/** What one query may be written with, groups around single conditions included. The binder counts what becomes of them. */
const MAX_PARTS = 4 * MAX_NODES;

const shortName = (name: string): string => shortened(name, 64);

interface ParseState {
  parts: number;
}

interface Place {
  readonly path: string;
  readonly depth: number;
}

/** Throws 400. `place` names the query within the request. */
export function parseFilter(query: unknown, place = 'query'): Condition {
  return parseQuery({ parts: 0 }, query, { path: place, depth: 0 });
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

const inner = (place: Place, key: string | number): Place => ({
  path: `${place.path}.${shortName(String(key))}`,
  depth: place.depth + 1,
});

function enter(state: ParseState, { path, depth }: Place): void {
  if (depth > MAX_DEPTH)
    throw invalid(path, 'depth', `conditions are nested at most ${MAX_DEPTH} levels deep`);
  if (++state.parts > MAX_PARTS)
    throw invalid(path, 'count', `a filter has at most ${MAX_NODES} conditions`);
}

function parseQuery(state: ParseState, query: unknown, place: Place): Condition {
  enter(state, place);
  if (!isObject(query)) throw invalid(place.path, 'type', 'must be an object of conditions');
  const parts = Object.entries(query).map(([key, value]) => {
    const at = inner(place, key);
    return key.startsWith('$')
      ? parseLogic(state, { operator: key, value }, at)
      : parseField(state, { path: key, value }, at);
  });
  const [only] = parts;
  return only && parts.length === 1 ? only : { kind: 'all', of: parts };
}

function parseLogic(
  state: ParseState,
  { operator, value }: { operator: string; value: unknown },
  place: Place,
): Condition {
  switch (operator) {
    case '$and':
      return { kind: 'all', of: parseList(state, value, place) };
    case '$or':
      return { kind: 'any', of: parseList(state, value, place) };
    case '$nor':
      return { kind: 'not', of: { kind: 'any', of: parseList(state, value, place) } };
    case '$not':
      return { kind: 'not', of: parseQuery(state, value, place) };
    default:
      throw invalid(
        place.path,
        'operator',
        `${shortName(operator)} is not an operator here; there are $and, $or, $nor and $not`,
      );
  }
}

function parseList(state: ParseState, value: unknown, place: Place): readonly Condition[] {
  if (!Array.isArray(value) || value.length === 0)
    throw invalid(place.path, 'type', 'must be a list of at least one query');
  return value.map((item, index) => parseQuery(state, item, inner(place, index)));
}

interface FieldQuery {
  readonly path: string;
  readonly value: unknown;
}

/** `{"$gt": 1, "$lt": 5}`, or a value to be equal to. */
function parseField(state: ParseState, { path, value }: FieldQuery, place: Place): Condition {
  enter(state, place);
  if (!isObject(value) || !Object.keys(value).some((key) => key.startsWith('$'))) {
    return equals(path, value, place.path);
  }
  const parts = Object.entries(value)
    .filter(([operator]) => operator !== '$options' || !Object.hasOwn(value, '$regex'))
    .map(([operator, operand]) =>
      parseOperator(state, { path, operator, operand, beside: value }, inner(place, operator)),
    );
  const [only] = parts;
  return only && parts.length === 1 ? only : { kind: 'all', of: parts };
}

interface OperatorUse {
  readonly path: string;
  readonly operator: string;
  readonly operand: unknown;
  /** The object it stands in: `$options` belongs to `$regex`. */
  readonly beside: Record<string, unknown>;
}

type ReadTest = (operand: unknown, place: Place, beside: Record<string, unknown>) => Test;

const comparison =
  (kind: Comparison): ReadTest =>
  (value) => ({ kind, right: literal(value) });

const oneOf: ReadTest = (operand, { path }) => {
  if (!Array.isArray(operand)) throw invalid(path, 'type', 'must be a list of values');
  return { kind: 'in', right: literal(operand) };
};

const like =
  (ignoreCase: boolean): ReadTest =>
  (operand, { path }) => {
    if (typeof operand !== 'string')
      throw invalid(path, 'type', 'must be text, with % where anything may stand');
    return { kind: 'like', right: literal(operand), wildcards: true, ignoreCase };
  };

const regex: ReadTest = (operand, { path }, beside) => {
  if (typeof operand !== 'string') throw invalid(path, 'type', 'must be the text of a pattern');
  const options = Object.hasOwn(beside, '$options') ? beside.$options : '';
  if (options !== '' && options !== 'i')
    throw invalid(path, 'options', 'takes only the option i (case does not matter)');
  return { kind: 'matches', pattern: operand, ignoreCase: options === 'i' };
};

const search: ReadTest = (operand, { path }) => {
  if (typeof operand !== 'string') throw invalid(path, 'type', 'must be words');
  return { kind: 'search', right: literal(operand) };
};

/** Operators that are one test of a value. */
const tests: ReadonlyMap<string, ReadTest> = new Map<string, ReadTest>([
  ['$eq', comparison('equal')],
  ['$gt', comparison('greater')],
  ['$gte', comparison('greaterOrEqual')],
  ['$lt', comparison('less')],
  ['$lte', comparison('lessOrEqual')],
  ['$in', oneOf],
  ['$like', like(false)],
  ['$ilike', like(true)],
  ['$regex', regex],
  ['$search', search],
]);

/** Operators that are the opposite of another one. */
const opposites: ReadonlyMap<string, ReadTest> = new Map<string, ReadTest>([
  ['$ne', comparison('equal')],
  ['$nin', oneOf],
]);

const operatorNames = [...tests.keys(), ...opposites.keys(), '$exists', '$not'].join(', ');

function parseOperator(
  state: ParseState,
  { path, operator, operand, beside }: OperatorUse,
  place: Place,
): Condition {
  const leaf = (test: Test): Condition => fieldTest(path, test, place.path);
  const test = tests.get(operator);
  if (test) return leaf(test(operand, place, beside));
  const opposite = opposites.get(operator);
  if (opposite) return { kind: 'not', of: leaf(opposite(operand, place, beside)) };
  if (operator === '$not')
    return { kind: 'not', of: parseField(state, { path, value: operand }, place) };
  if (operator === '$exists') return parseExists(leaf({ kind: 'exists' }), operand, place);
  const known = operator.startsWith('$')
    ? `the operators are ${operatorNames}`
    : 'operators and plain values cannot be mixed';
  throw invalid(place.path, 'operator', `${shortName(operator)} is not an operator: ${known}`);
}

function parseExists(leaf: Condition, operand: unknown, { path }: Place): Condition {
  if (typeof operand !== 'boolean') throw invalid(path, 'type', 'must be true or false');
  return operand ? leaf : { kind: 'not', of: leaf };
}
