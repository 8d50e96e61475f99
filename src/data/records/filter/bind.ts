/** Checks a condition against a schema: every path leads somewhere, every value fits its field. All problems come at once. */

import type { Problem } from '../../../kernel/errors.ts';
import { isStorable } from '../../../kernel/text.ts';
import {
  type Comparison,
  type Condition,
  type FieldOperand,
  type Leaf,
  type LiteralOperand,
  MAX_NODES,
  type Test,
  type Tree,
} from '../../conditions/condition.ts';
import type { CompiledSchema } from '../../schema/compile/compiled.ts';
import type { Field } from '../../schema/language/field.ts';
import { PatternError } from '../../schema/language/pattern/syntax.ts';
import { checkerOf } from '../../schema/language/values.ts';
import { invalidRecord } from '../errors.ts';
import { postgresPattern } from './postgres-pattern.ts';
import { PathError, resolveTarget, type Target, type TargetAccess } from './target.ts';

/** Values of one `in`. */
const MAX_VALUES = 1_000;
/** UTF-16 units of one text to look for. */
const MAX_TEXT = 10_000;

export type BoundTest =
  | { readonly kind: Comparison; readonly value: unknown }
  /** `null` is not among the values: `orNull` says that it was. */
  | { readonly kind: 'in'; readonly values: readonly unknown[]; readonly orNull: boolean }
  | { readonly kind: 'exists' }
  | { readonly kind: 'like'; readonly pieces: readonly string[]; readonly ignoreCase: boolean }
  /** A pattern of PostgreSQL. */
  | { readonly kind: 'matches'; readonly pattern: string; readonly ignoreCase: boolean }
  | { readonly kind: 'search'; readonly words: string }
  | { readonly kind: 'field'; readonly comparison: Comparison; readonly other: Target };

export interface BoundLeaf {
  readonly kind: 'test';
  readonly target: Target;
  readonly test: BoundTest;
  /** Where it stands in the input. */
  readonly place: string;
}

/** A condition that can be compiled. */
export type BoundCondition = Tree<BoundLeaf>;

interface BindState {
  readonly schema: CompiledSchema;
  readonly access: TargetAccess;
  readonly problems: Problem[];
  nodes: number;
}

/** Throws one 400 with all problems. */
export function bindCondition(
  schema: CompiledSchema,
  condition: Condition,
  access: TargetAccess,
): BoundCondition {
  const state: BindState = { schema, access, problems: [], nodes: 0 };
  const bound = bind(state, condition);
  if (state.nodes > MAX_NODES) {
    state.problems.push({
      path: 'query',
      rule: 'count',
      message: `a filter has at most ${MAX_NODES} conditions`,
    });
  }
  if (state.problems.length > 0) throw invalidRecord(state.problems);
  return bound;
}

function bind(state: BindState, condition: Condition): BoundCondition {
  // Counted to the end, so that a filter that is too large costs no more than its size.
  if (++state.nodes > MAX_NODES) return { kind: 'any', of: [] };
  if (condition.kind === 'test') return bindLeaf(state, condition) ?? { kind: 'any', of: [] };
  if (condition.kind === 'not') return { kind: 'not', of: bind(state, condition.of) };
  return { kind: condition.kind, of: condition.of.map((part) => bind(state, part)) };
}

function bindLeaf(state: BindState, { left, test, place }: Leaf): BoundLeaf | undefined {
  const report = (rule: string, message: string): undefined => {
    state.problems.push({ path: place, rule, message });
  };
  try {
    const target = resolveTarget(state.schema, left.path, state.access);
    const bound = bindTest({ state, target, place, report }, test);
    return bound && { kind: 'test', target, test: bound, place };
  } catch (error) {
    if (error instanceof PathError) return report('field', error.message);
    if (error instanceof PatternError) return report('pattern', error.message);
    throw error;
  }
}

interface TestContext {
  readonly state: BindState;
  readonly target: Target;
  readonly place: string;
  readonly report: (rule: string, message: string) => undefined;
}

function bindTest(context: TestContext, test: Test): BoundTest | undefined {
  const { report } = context;
  switch (test.kind) {
    case 'exists':
      return test;
    case 'in':
      return bindIn(context, listOf(test.right));
    case 'like':
      return bindLike(context, test);
    case 'matches':
      return isText(context)
        ? { kind: 'matches', pattern: postgresPattern(test.pattern), ignoreCase: test.ignoreCase }
        : report('operator', 'only text can match a pattern');
    case 'search':
      return bindSearch(context, literalValue(test.right));
    default:
      return bindComparison(context, test);
  }
}

type RightOperand = FieldOperand | LiteralOperand;

/** Lists of values and texts to look for are never fields: no reader makes such a test. */
const literalValue = (right: RightOperand): unknown =>
  right.kind === 'literal' ? right.value : undefined;

const listOf = (right: RightOperand): readonly unknown[] => {
  const value = literalValue(right);
  return Array.isArray(value) ? value : [value];
};

function bindComparison(
  context: TestContext,
  { kind, right }: { readonly kind: Comparison; readonly right: RightOperand },
): BoundTest | undefined {
  if (right.kind === 'field') return bindFieldTest(context, kind, right.path);
  if (kind === 'equal') return bindEqual(context, right.value);
  if (!hasOrder(context.target.field))
    return context.report('operator', 'values of this field have no order');
  return bindValue(context, right.value, (value) => ({ kind, value }));
}

/** What is no text is compared as it is: the check of types says what is wrong with it. */
function bindLike(
  context: TestContext,
  { right, wildcards, ignoreCase }: Extract<Test, { readonly kind: 'like' }>,
): BoundTest | undefined {
  const text = literalValue(right);
  if (typeof text !== 'string') return bindEqual(context, text);
  if (!isText(context)) return context.report('operator', 'only text can be compared like this');
  return { kind: 'like', pieces: wildcards ? text.split('%') : ['', text, ''], ignoreCase };
}

function bindSearch(context: TestContext, words: unknown): BoundTest | undefined {
  if (typeof words !== 'string') return bindEqual(context, words);
  if (!isText(context)) return context.report('operator', 'only text can be searched');
  return isSearchable(words)
    ? { kind: 'search', words }
    : context.report('type', `must be words, at most ${MAX_TEXT} characters in all`);
}

const isSearchable = (words: string): boolean => words.length <= MAX_TEXT && isStorable(words);

/** The element of a list, or the field itself. */
const single = (field: Field): Field => (field.kind === 'array' ? field.items : field);

const isText = ({ target }: TestContext): boolean =>
  ['string', 'json'].includes(single(target.field).kind);

/** Ids grow with time, so even they have an order. */
const hasOrder = (field: Field): boolean =>
  field.kind === 'relation' ||
  ['string', 'number', 'date', 'objectId', 'json'].includes(field.kind) ||
  isOrderedList(field);

const isOrderedList = (field: Field): boolean =>
  field.kind === 'array' &&
  ['string', 'number', 'date', 'objectId', 'json'].includes(field.items.kind);

const plain = { required: false, unique: false, hidden: false, indexed: false } as const;

/** The type of a field without its rules: one may look for what could never be stored. */
function bare(field: Field): Field {
  switch (field.kind) {
    case 'string':
      return { kind: 'string', ...plain };
    case 'number':
      return { kind: 'number', storage: field.storage, integer: false, ...plain };
    case 'array':
      return { kind: 'array', items: bare(field.items), ...plain };
    case 'relation':
    case 'objectId':
      return { kind: 'objectId', ...plain, ...(field.idType && { idType: field.idType }) };
    case 'object':
    case 'vector':
      return field;
    case 'date':
      return { kind: 'date', ...plain, ...(field.exact && { exact: true }) };
    default:
      return { kind: field.kind, ...plain };
  }
}

/** The value as it is stored, or a report. */
function checkedValue(
  { state, place }: TestContext,
  field: Field,
  value: unknown,
): { readonly value: unknown } | undefined {
  const before = state.problems.length;
  const checked = checkerOf(bare(field))(value, place, state.problems);
  return state.problems.length === before ? { value: checked } : undefined;
}

function bindValue(
  context: TestContext,
  value: unknown,
  make: (value: unknown) => BoundTest,
): BoundTest | undefined {
  const { target, report } = context;
  const field = single(target.field);
  if (field.kind === 'json' && typeof value !== 'string' && typeof value !== 'number') {
    return report('type', 'must be text or a number, which have an order');
  }
  const checked = checkedValue(context, field, value);
  return checked && make(checked.value);
}

function bindEqual(context: TestContext, value: unknown): BoundTest | undefined {
  if (value === null) return { kind: 'equal', value };
  const { target, report } = context;
  const { field } = target;
  if (isWhole(field) || (field.kind === 'array' && isWhole(field.items))) {
    return report('operator', 'compare the fields inside it, one by one');
  }
  const checked = checkedValue(context, Array.isArray(value) ? field : single(field), value);
  return checked && { kind: 'equal', value: checked.value };
}

/** What is never compared as a whole. */
const isWhole = (field: Field): boolean => field.kind === 'object' || field.kind === 'vector';

function bindIn(context: TestContext, values: readonly unknown[]): BoundTest | undefined {
  const { target, report } = context;
  const field = single(target.field);
  if (isWhole(field)) return report('operator', 'compare the fields inside it, one by one');
  if (values.length > MAX_VALUES) return report('maxItems', `takes at most ${MAX_VALUES} values`);
  const given = values.filter((value) => value !== null);
  const checked = given.map((value) => checkedValue(context, field, value));
  if (checked.includes(undefined)) return undefined;
  return {
    kind: 'in',
    values: checked.map((one) => one?.value),
    orNull: given.length < values.length,
  };
}

function bindFieldTest(
  { state, target, report }: TestContext,
  comparison: Comparison,
  other: string,
): BoundTest | undefined {
  const right = resolveTarget(state.schema, other, state.access);
  for (const side of [target, right]) {
    if (side.hops.length > 0 || side.steps.some(({ kind }) => kind === 'elements')) {
      return report('operator', 'only fields of the record itself can be compared with each other');
    }
  }
  const kinds = [target.field, right.field].map(comparableKind);
  if (kinds[0] === undefined || kinds[0] !== kinds[1])
    return report('type', `"${other}" is of another type`);
  if (kinds[0] === 'boolean' && comparison !== 'equal')
    return report('operator', 'true and false have no order');
  return { kind: 'field', comparison, other: right };
}

const comparableKind = (field: Field): string | undefined => {
  const { kind } = field;
  if (kind === 'relation' || kind === 'objectId') return `id of type ${field.idType ?? 'uuid'}`;
  return ['string', 'number', 'boolean', 'date'].includes(kind) ? kind : undefined;
};
