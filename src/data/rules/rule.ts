/**
 * Rules over values, written in CEL. A rule is read and typed once, when it is declared; what cannot be typed, or
 * could not be part of a query where it is about a record, is refused there. It is asked in two ways that agree:
 * of given values (`evaluate`), and of the rows of a table (`predicate`).
 */
import { LRUCache } from 'lru-cache';
import { errors, type Problem } from '../../kernel/errors.ts';
import { checkRule } from './check.ts';
import { isKnown } from './choice.ts';
import type { RuleEnvironment } from './environment.ts';
import { type Expression, isError, isTrue } from './expression.ts';
import { foreignValues } from './foreign-values.ts';
import { type Known, reduceRule, triedRule } from './reduce.ts';
import { condition, sqlContext } from './sql.ts';
import { isStoredValue } from './sql-storage.ts';
import { placeOf, RuleError } from './syntax.ts';
import { valueless } from './valueless.ts';
import type { RuleValue } from './values.ts';

export interface RuleAnswer {
  /** True whatever the missing values are. */
  readonly holds: boolean;
  /** False where it is false whatever they are. Neither: it hangs on them, or nothing can be said of these values. */
  readonly possible: boolean;
  /** Values that `holds` hangs on and that nobody gave; empty when it is certain. */
  readonly missing: readonly string[];
}

/** Values from outside by their names: `now`, `caller.id`, parameters. `error`: there can't be one. */
export type Inputs = Known['input'];

export interface RowTest {
  /** A condition, true for rows for which the rule holds. Null means false, and so does a missing value. */
  readonly sql: string;
  /** Values that the answer of some row may hang on. */
  readonly missing: readonly string[];
}

export interface RowTarget {
  /** How the row is called in the statement. */
  readonly alias: string;
  /** Adds a value and answers its placeholder. */
  next(value: unknown): string;
}

/** A place within a field: a path of SQL/JSON. */
export interface StoredPlace {
  readonly field: string;
  readonly path: string;
}

export interface Compared {
  readonly places: readonly StoredPlace[];
  /** Texts that stand in the rule, among which it may have to be. */
  readonly texts: readonly string[];
  /** It is used in no other way. */
  readonly only: boolean;
}

export interface CompiledRule {
  readonly text: string;
  /** True when the answer depends on the record. */
  readonly aboutRecord: boolean;
  /** Top-level fields of the record that the rule reads. */
  readonly fields: ReadonlySet<string>;
  /** Inputs that the rule reads. */
  readonly inputs: ReadonlySet<string>;
  /** False when it holds for no record and nobody. */
  mayHold(): boolean;
  /** What is likely a slip, with line and column. */
  slips(): readonly string[];
  /** What never has a value, and is refused where a rule is declared. Rules that were stored before hold as they are. */
  valueless(): readonly RuleError[];
  /** With which values of the record, and of the rule itself, an input is compared for equality. */
  comparedWith(input: string): Compared;
  /** The answer for given values and a record as it is on the wire. */
  evaluate(input: Inputs, record?: Readonly<Record<string, unknown>>): RuleAnswer;
  /** The same as a condition on rows. */
  predicate(input: Inputs, target: RowTarget): RowTest;
  /** What is left of the rule when inputs and the record are known as far as they are given. */
  rest(input: Inputs, record?: Readonly<Record<string, unknown>>): Expression;
}

/** Typed rules that are kept for each environment. */
const kept = new WeakMap<RuleEnvironment, LRUCache<string, CompiledRule>>();

/** Throws `RuleError`. */
export function compileRule(text: string, environment: RuleEnvironment): CompiledRule {
  let rules = kept.get(environment);
  if (!rules) {
    rules = new LRUCache({ max: 200 });
    kept.set(environment, rules);
  }
  const known = rules.get(text);
  if (known) return known;
  const rule = createRule(text, checkRule(text, environment));
  rules.set(text, rule);
  return rule;
}

function createRule(text: string, expression: Expression): CompiledRule {
  if (expression.row) tryAsQuery(expression);
  const parts = [...partsOf(expression)];
  return {
    text,
    aboutRecord: expression.row,
    fields: new Set(parts.flatMap((part) => (part.kind === 'field' ? [part.name] : []))),
    inputs: new Set(parts.flatMap((part) => (part.kind === 'input' ? [part.name] : []))),
    mayHold: () => mayBeTrue(reduceRule(expression, { input: () => undefined, enums: true })),
    slips: () =>
      parts.flatMap(foreignValues).map(({ at, message }) => `${placeOf(text, at)}: ${message}`),
    valueless: () => parts.flatMap((part) => valueless(part) ?? []),
    comparedWith: (input) => comparedWith(parts, input),
    evaluate: (input, record = {}) => answerOf(reduceRule(expression, { input, record })),
    predicate(input, { alias, next }) {
      const reduced = reduceRule(expression, { input });
      const context = sqlContext({ alias, next, trial: false });
      return { sql: refusedAs400(() => condition(reduced, context)), missing: missingOf(reduced) };
    },
    rest: (input, record) => reduceRule(expression, { input, ...(record && { record }) }),
  };
}

/** Throws `RuleError` for what can't be part of a query whatever the values are. */
function tryAsQuery(expression: Expression): void {
  condition(triedRule(expression), sqlContext(trial));
}

/** What a trial admits can only be too large with the values of a request. */
function refusedAs400<T>(work: () => T): T {
  try {
    return work();
  } catch (error) {
    if (!(error instanceof RuleError)) throw error;
    throw errors.INVALID_ARGUMENTS({
      message: `A rule can't be asked with these values: ${error.message}`,
    });
  }
}

function comparedWith(parts: readonly Expression[], input: string): Compared {
  const isInput = (one: Expression): boolean => one.kind === 'input' && one.name === input;
  const isStored = (one: Expression): boolean => isStoredValue(one) && !isKnown(one);
  const against = parts.flatMap((part): readonly Expression[] => {
    if (part.kind === 'equal' && [part.left, part.right].some(isInput))
      return [isInput(part.left) ? part.right : part.left];
    return part.kind === 'in' && isInput(part.item) ? [part.list] : [];
  });
  const places = against
    .filter(isStored)
    .map((side) =>
      side.type.kind === 'list' ? placesOf(side, parts).map(itemsOf) : placesOf(side, parts),
    );
  const written = against
    .filter((side) => !isStored(side))
    .flatMap((side) => {
      const texts = side.type.kind === 'map' ? undefined : writtenTexts(side);
      return texts ? [texts] : [];
    });
  const found = new Map(places.flat().map((place) => [`${place.field} ${place.path}`, place]));
  return {
    places: [...found.values()],
    texts: [...new Set(written.flat())],
    only: places.length + written.length === parts.filter(isInput).length,
  };
}

/** The texts in a value that is written in the rule, whichever of them the record chooses; nothing for any other value. */
function writtenTexts(side: Expression): readonly string[] | undefined {
  switch (side.kind) {
    case 'constant':
      return typeof side.value === 'string' ? [side.value] : undefined;
    case 'list':
      return textsOf(side.items);
    case 'map':
      return textsOf(side.entries.map(([, value]) => value));
    case 'index':
    case 'member':
      return writtenTexts(side.of);
    default:
      return undefined;
  }
}

function textsOf(values: readonly Expression[]): readonly string[] | undefined {
  const texts = values.map(writtenTexts);
  return texts.every((one) => one !== undefined) ? texts.flat() : undefined;
}

const itemsOf = ({ field, path }: StoredPlace): StoredPlace => ({ field, path: `${path}[*]` });

/** Where a stored value stands; of an element, wherever the lists are that are gone through by its name. */
function placesOf(stored: Expression, parts: readonly Expression[]): readonly StoredPlace[] {
  switch (stored.kind) {
    case 'field':
      return [{ field: stored.name, path: '$' }];
    case 'narrow':
      return placesOf(stored.of, parts);
    case 'member':
      return placesOf(stored.of, parts).map(({ field, path }) => ({
        field,
        path: `${path}.${JSON.stringify(stored.key)}`,
      }));
    case 'index':
      return placesOf(stored.of, parts).flatMap(({ field, path }) => [
        { field, path: `${path}[*]` },
        { field, path: `${path}.*` },
      ]);
    case 'variable':
      return parts.flatMap((part) =>
        part.kind === 'each' && part.variable === stored.name
          ? placesOf(part.list, parts).map(itemsOf)
          : [],
      );
    default:
      return [];
  }
}

/** Nothing of a trial is sent anywhere. */
const trial = { alias: 'r', next: (): string => 'null', trial: true };

function answerOf(reduced: Expression): RuleAnswer {
  if (reduced.kind !== 'open') {
    const holds = reduced.kind === 'constant' && reduced.value === true;
    return { holds, possible: holds, missing: [] };
  }
  const { outcomes, names } = reduced;
  const missing = (outcomes & isTrue) !== 0 ? names : [];
  return { holds: false, possible: (outcomes & (isTrue | isError)) !== 0, missing };
}

function mayBeTrue(reduced: Expression): boolean {
  if (reduced.kind === 'constant') return reduced.value === true;
  return reduced.kind !== 'open' || (reduced.outcomes & isTrue) !== 0;
}

const missingOf = (reduced: Expression): readonly string[] => [
  ...new Set([...partsOf(reduced)].flatMap((part) => (part.kind === 'open' ? part.names : []))),
];

/** The expression and everything in it. */
export function* partsOf(expression: Expression): Generator<Expression> {
  yield expression;
  for (const value of Object.values(expression)) {
    if (isExpression(value)) yield* partsOf(value);
    else if (Array.isArray(value) && expression.kind !== 'constant')
      for (const item of value.flat()) if (isExpression(item)) yield* partsOf(item);
  }
}

const isExpression = (value: unknown): value is Expression =>
  typeof value === 'object' && value !== null && 'kind' in value && 'at' in value;

/** An error of a rule as it is reported: with the line and the column. */
export const ruleProblem = (text: string, ruleError: RuleError, path: string): Problem => ({
  path,
  rule: ruleError.rule,
  message: `${placeOf(text, ruleError.offset)}: ${ruleError.message}`,
});

/** Inputs from what is at hand; what is not in the map is missing. */
export const inputsFrom =
  (values: ReadonlyMap<string, RuleValue>): Inputs =>
  (name) => {
    const value = values.get(name);
    return value === undefined ? undefined : { value };
  };
