/**
 * Evaluates what is known of a rule. With a record and every value there is one outcome; what a value is
 * missing for stays open, with its name; and without a record the rest is an expression over its fields.
 */
import { errors } from '../../kernel/errors.ts';
import { chosen, isSpread, ofEach, picked } from './choice.ts';
import { computed, partsOf, rest, type Strict, withParts } from './compute.ts';
import { anything, type Expression, isError, isFalse, isTrue, type Of } from './expression.ts';
import { foreignOutcomes } from './foreign-values.ts';
import { RuleError } from './syntax.ts';
import { plain } from './types.ts';
import { type RuleValue, storedValue } from './values.ts';

export interface Known {
  /** The value of an input by its name; nothing where it is missing. `error`: there can't be one. */
  input(name: string): { readonly value: RuleValue } | 'error' | undefined;
  /** The record as it is on the wire; without it, fields stay in the expression. */
  readonly record?: Readonly<Record<string, unknown>>;
  /** Fields hold what their `enum` names: a comparison with anything else is decided without a record. */
  readonly enums?: true;
}

interface Reducing {
  readonly known: Known;
  /** Nothing is known yet: values from outside stay in the expression, as they would stand in a query. */
  readonly trial: boolean;
  readonly bound: ReadonlyMap<string, RuleValue>;
  readonly budget: { left: number };
}

/** Steps of one evaluation: lists of a request multiply the parts of a rule. */
const MAX_STEPS = 50_000;
/** Values of a known list or map among which the record chooses, in the time of one step. */
const ITEMS_PER_STEP = 4;

/** A constant, an open part, or an expression over the record. Throws 400 for values that multiply the rule too often. */
export function reduceRule(expression: Expression, known: Known): Expression {
  return reduce(expression, {
    known,
    trial: false,
    bound: new Map(),
    budget: { left: MAX_STEPS },
  });
}

/** The form in which a rule becomes a query, before any value is known. Throws `RuleError`. */
export function triedRule(expression: Expression): Expression {
  const known: Known = { input: () => undefined };
  return reduce(expression, { known, trial: true, bound: new Map(), budget: { left: MAX_STEPS } });
}

const bool = plain('bool');

const constantOf = ({ type, at }: Expression, value: RuleValue): Of<'constant'> => ({
  kind: 'constant',
  value,
  type,
  nullable: value === null,
  row: false,
  at,
});

const openOf = (
  { type, at }: Expression,
  outcomes: number,
  names: readonly string[] = [],
): Of<'open'> => ({ kind: 'open', outcomes, names, type, nullable: false, row: false, at });

const errorOf = (expression: Expression): Of<'open'> => openOf(expression, isError);

const isResolved = ({ kind }: Expression): boolean => kind === 'constant' || kind === 'open';

function spend({ budget, trial }: Reducing, steps: number): void {
  budget.left -= steps;
  if (budget.left >= 0) return;
  if (trial) throw new RuleError('size', 0, 'the rule becomes too large a query');
  throw errors.INVALID_ARGUMENTS({
    message:
      'A rule with lists and texts of this size is too expensive: give fewer or shorter ones',
  });
}

/** Characters, or items, that are looked at or copied in the time of one step. */
const PER_STEP = 64;

/** What a function costs by the size of one of its values: whole steps, so that small values cost nothing. */
const weightOf = (value: RuleValue | undefined, perCharacter: number): number =>
  Math.floor(sizeOf(value, perCharacter) / PER_STEP);

function sizeOf(value: unknown, perCharacter: number): number {
  if (typeof value === 'string') return value.length * perCharacter;
  if (typeof value !== 'object' || value === null) return 0;
  const items = value instanceof Map ? [...value.values()] : Object.values(value);
  return items.reduce<number>((sum, item) => sum + sizeOf(item, perCharacter), items.length);
}

function reduce(expression: Expression, state: Reducing): Expression {
  spend(state, 1);
  const outcomes = state.known.enums && foreignOutcomes(expression);
  if (outcomes !== undefined) return resolved(expression, outcomes, []);
  switch (expression.kind) {
    case 'constant':
    case 'open':
      return expression;
    case 'input':
      return state.trial ? expression : inputValue(expression, state);
    case 'field':
      return state.known.record
        ? constantOf(expression, storedValue(expression.type, state.known.record[expression.name]))
        : expression;
    case 'variable': {
      const value = state.bound.get(expression.name);
      return value === undefined ? expression : constantOf(expression, value);
    }
    case 'and':
    case 'or':
      return junction(expression, (part) => reduce(part, state));
    case 'choice':
      return choice(expression, state);
    case 'not':
      return negation(expression, reduce(expression.of, state));
    case 'if':
      return conditional(expression, state);
    case 'each':
      return gone(expression, reduce(expression.list, state), state);
    case 'has':
      return presence(expression, state);
    default:
      return strict(expression, state);
  }
}

function inputValue(expression: Of<'input'>, { known }: Reducing): Expression {
  const found = known.input(expression.name);
  if (found === undefined) return openOf(expression, anything, [expression.name]);
  return found === 'error' ? errorOf(expression) : constantOf(expression, found.value);
}

/* What is true, false or open. */

const outcomesOf = (expression: Expression): number => {
  if (expression.kind === 'open') return expression.outcomes;
  if (expression.kind !== 'constant') return anything;
  return expression.value === true ? isTrue : expression.value === false ? isFalse : isError;
};

const namesOf = (expression: Expression): readonly string[] =>
  expression.kind === 'open' ? expression.names : [];

/** One outcome is certain; several stay open. */
function resolved(expression: Expression, outcomes: number, names: readonly string[]): Expression {
  if (outcomes === isTrue) return constantOf(expression, true);
  if (outcomes === isFalse) return constantOf(expression, false);
  if (outcomes === isError) return errorOf(expression);
  return openOf(expression, outcomes, [...new Set(names)]);
}

/** Kleene's "and" and "or": `strong` is the truth that decides alone. */
function combined(a: number, b: number, strong: number): number {
  const weak = isTrue + isFalse - strong;
  let result = (a | b) & strong;
  if (a & weak && b & weak) result |= weak;
  if ((a & isError && b & (isError | weak)) || (b & isError && a & (isError | weak)))
    result |= isError;
  return result;
}

function junction(
  expression: Of<'and' | 'or'>,
  reduced: (part: Expression) => Expression,
): Expression {
  const strong = expression.kind === 'and' ? isFalse : isTrue;
  const parts: Expression[] = [];
  for (const part of expression.of) {
    const found = reduced(part);
    if (isResolved(found) && outcomesOf(found) === strong) return resolved(expression, strong, []);
    parts.push(found);
  }
  const certain = parts.filter(isResolved);
  const weak = isTrue + isFalse - strong;
  const outcomes = certain.map(outcomesOf).reduce((a, b) => combined(a, b, strong), weak);
  const summary = resolved(expression, outcomes, certain.flatMap(namesOf));
  const others = parts.filter((part) => !isResolved(part));
  const of = outcomes === weak ? others : [...others, summary];
  const [only] = of;
  if (!only || others.length === 0) return summary;
  // A part that may be null is an error here, and would be a value elsewhere.
  return of.length === 1 && !only.nullable ? only : rest({ ...expression, of }, of);
}

function negation(expression: Of<'not'>, of: Expression): Expression {
  if (!isResolved(of)) return rest({ ...expression, of }, [of]);
  const outcomes = outcomesOf(of);
  const turned =
    (outcomes & isError) | (outcomes & isTrue ? isFalse : 0) | (outcomes & isFalse ? isTrue : 0);
  return resolved(expression, turned, namesOf(of));
}

function conditional(expression: Of<'if'>, state: Reducing): Expression {
  const condition = reduce(expression.condition, state);
  if (condition.kind === 'constant' && condition.value === true)
    return reduce(expression.yes, state);
  if (condition.kind === 'constant' && condition.value === false)
    return reduce(expression.no, state);
  if (isResolved(condition) && outcomesOf(condition) === isError) return errorOf(expression);
  const [left, right] = [reduce(expression.yes, state), reduce(expression.no, state)];
  const parts = [condition, left, right];
  if (!parts.every(isResolved))
    return rest({ ...expression, condition, yes: left, no: right }, parts);
  const given = outcomesOf(condition);
  const outcomes =
    expression.type.kind === 'bool'
      ? (given & isTrue ? outcomesOf(left) : 0) |
        (given & isFalse ? outcomesOf(right) : 0) |
        (given & isError)
      : anything;
  return resolved(expression, outcomes, parts.flatMap(namesOf));
}

/* Functions and comparisons: all their parts first. */

function strict(expression: Strict, state: Reducing): Expression {
  return answered(
    expression,
    partsOf(expression).map((part) => reduce(part, state)),
    state,
  );
}

function answered(expression: Strict, parts: readonly Expression[], state: Reducing): Expression {
  const open = parts.filter((part) => part.kind === 'open');
  if (open.some(({ outcomes }) => outcomes === isError)) return errorOf(expression);
  if (open.length > 0)
    return openOf(expression, anything, [...new Set(open.flatMap(({ names }) => names))]);
  const spread = parts.findIndex(isSpread);
  const several = parts[spread];
  if (several)
    return ofEach(several, expression.type, (value) => {
      spend(state, 1);
      return answered(expression, parts.with(spread, value), state);
    });
  if (!parts.every((part) => part.kind === 'constant')) return unresolved(expression, parts, state);
  const values = parts.map((part) => part.value);
  // Functions read and copy texts; everything else compares them.
  const perCharacter = expression.kind === 'call' ? 1 : 0;
  for (const given of values) spend(state, weightOf(given, perCharacter));
  const value = computed(expression, values);
  spend(state, weightOf(value, perCharacter));
  return value === undefined ? errorOf(expression) : constantOf(expression, value);
}

/** What hangs on the record, or on values that are not known yet. */
function unresolved(expression: Strict, parts: readonly Expression[], state: Reducing): Expression {
  const [of, key] = parts;
  if (expression.kind !== 'index' || !of || !key?.row || of.row)
    return withParts(expression, parts);
  const found = chosen(expression, of, key);
  if (found) spend(state, Math.ceil(found.entries.length / ITEMS_PER_STEP));
  return found ?? errorOf(expression);
}

function choice(expression: Of<'choice'>, state: Reducing): Expression {
  const key = reduce(expression.key, state);
  if (key.kind === 'constant') return reduce(picked(expression, key.value), state);
  if (key.kind === 'open') return openOf(expression, key.outcomes, key.names);
  const entries = expression.entries.map(([name, value]) => [name, reduce(value, state)] as const);
  return { ...expression, key, entries };
}

/** `has(map.key)` asks for the key, and everything else for a value that is not null. */
function presence(expression: Of<'has'>, state: Reducing): Expression {
  const { of } = expression;
  return of.kind === 'member' && of.of.type.kind === 'map'
    ? keyPresence(expression, of, reduce(of.of, state))
    : valuePresence(expression, reduce(of, state));
}

function keyPresence(expression: Of<'has'>, member: Of<'member'>, map: Expression): Expression {
  if (isSpread(map)) return ofEach(map, bool, (one) => keyPresence(expression, member, one));
  if (map.kind === 'open') return openOf(expression, map.outcomes, map.names);
  if (map.kind !== 'constant')
    return rest({ ...expression, of: rest({ ...member, of: map }, [map]) }, [map]);
  return map.value instanceof Map
    ? constantOf(expression, map.value.has(member.key))
    : errorOf(expression);
}

function valuePresence(expression: Of<'has'>, of: Expression): Expression {
  if (isSpread(of)) return ofEach(of, bool, (one) => valuePresence(expression, one));
  if (of.kind === 'open') return openOf(expression, of.outcomes, of.names);
  if (of.kind === 'constant') return constantOf(expression, of.value !== null);
  return rest({ ...expression, of }, [of]);
}

/* Macros over lists. */

/** Through a list that is reduced already. */
function gone(expression: Of<'each'>, list: Expression, state: Reducing): Expression {
  if (isSpread(list))
    return ofEach(list, expression.type, (one) => {
      spend(state, 1);
      return gone(expression, one, state);
    });
  if (list.kind === 'open') return { ...list, type: expression.type };
  if (list.kind !== 'constant' || state.trial) {
    const bound = new Map(state.bound);
    bound.delete(expression.variable);
    const body = reduce(expression.body, { ...state, bound });
    return rest({ ...expression, list, body }, [list, body]);
  }
  if (!Array.isArray(list.value)) return errorOf(expression);
  const items: readonly RuleValue[] = list.value;
  const bodies = items.map((value) =>
    reduce(expression.body, {
      ...state,
      bound: new Map([...state.bound, [expression.variable, value]]),
    }),
  );
  const { macro, type, at } = expression;
  if (macro === 'exists' || macro === 'all') {
    const kind = macro === 'all' ? 'and' : 'or';
    const row = bodies.some((body) => body.row);
    const all = { kind, of: bodies, type: bool, nullable: false, row, at } as const;
    return junction(all, (body) => body);
  }
  return collected({ ...expression, type }, items, bodies);
}

/** What only works on bodies that are resolved. */
function collected(
  expression: Of<'each'>,
  items: readonly RuleValue[],
  bodies: readonly Expression[],
): Expression {
  const open = bodies.filter((body) => body.kind === 'open');
  if (open.some(({ outcomes }) => outcomes === isError)) return errorOf(expression);
  if (open.length > 0)
    return openOf(
      expression,
      anything,
      open.flatMap(({ names }) => names),
    );
  const values = bodies.map((body) => (body.kind === 'constant' ? body.value : null));
  if (expression.macro === 'map') return constantOf(expression, values);
  // Neither true nor false: a field that is not there.
  if (values.includes(null)) return errorOf(expression);
  const kept = items.filter((_, i) => values[i] === true);
  if (expression.macro === 'filter') return constantOf(expression, kept);
  return constantOf(expression, kept.length === 1);
}
