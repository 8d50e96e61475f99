/**
 * Changes of fields as SQL: each is an expression over what is stored at the moment of the change, so
 * that parallel changes of one record all count. Values are checked before, results in the statement.
 */
import { codeOf } from '../../../kernel/database/failures.ts';
import { identifier } from '../../../kernel/database/sql.ts';
import type { Problem } from '../../../kernel/errors.ts';
import type { CompiledSchema } from '../../schema/compile/compiled.ts';
import {
  type ArrayField,
  columnType,
  type Field,
  type NumberField,
} from '../../schema/language/field.ts';
import { shortName } from '../../schema/language/names.ts';
import { checkerOf, fieldValue, MAX_ITEMS } from '../../schema/language/values.ts';
import { invalidRecord } from '../errors.ts';
import type { Parameters } from '../sql/prepared-statements.ts';
import type { Assignment } from '../store.ts';
import type { ReferenceSource } from './references.ts';

/** Assignments of one change. */
const MAX_ASSIGNMENTS = 256;

/** A checked change. */
export interface BoundAssignment {
  readonly field: Field;
  readonly name: string;
  readonly action: Assignment['action'];
  /** As it is stored; for `append` and `remove` a list of elements. */
  readonly value: unknown;
  readonly place: string;
}

/** Throws one 400 with all problems. */
export function bindAssignments(
  schema: CompiledSchema,
  assignments: readonly Assignment[],
): readonly BoundAssignment[] {
  const problems: Problem[] = [];
  if (assignments.length > MAX_ASSIGNMENTS) {
    problems.push({
      path: 'assignments',
      rule: 'maxItems',
      message: `at most ${MAX_ASSIGNMENTS} fields are changed at once`,
    });
  }
  const bound = assignments
    .slice(0, MAX_ASSIGNMENTS)
    .flatMap((assignment) => bindOne(schema, assignment, problems) ?? []);
  if (problems.length > 0) throw invalidRecord(problems);
  return bound;
}

function bindOne(
  schema: CompiledSchema,
  assignment: Assignment,
  problems: Problem[],
): BoundAssignment | undefined {
  const { field: name, action, value: given, place } = assignment;
  const field = isChangeable(schema, name) ? schema.tree.fields.get(name) : undefined;
  const problem = field
    ? actionProblem(field, assignment)
    : { rule: 'field', message: `"${shortName(name)}" is not a field that can be changed` };
  if (!field || problem) {
    if (problem) problems.push({ path: place, ...problem });
    return undefined;
  }
  const bound = { field, name, action, place };
  if (field.kind === 'number' && typeof given === 'number' && action !== 'set') {
    return { ...bound, value: action === 'increment' ? given : -given };
  }
  if (field.kind === 'array' && action !== 'set')
    return { ...bound, value: elements(field, given, { place, problems }) };
  return {
    ...bound,
    value: fieldValue(field, checkerOf(field), { given: given ?? null, place, problems }),
  };
}

/** A table of others may fill in a column by itself, and its key stays what it is. */
const isChangeable = ({ mapping }: CompiledSchema, name: string): boolean =>
  mapping === undefined ||
  (mapping.columns[name]?.filled !== 'always' && !mapping.key.includes(name));

/** Why this cannot be done to this field at all. */
function actionProblem(
  field: Field,
  { field: name, action, value }: Assignment,
): Omit<Problem, 'path'> | undefined {
  if (action === 'set') return undefined;
  if (action === 'append' || action === 'remove') {
    return field.kind === 'array'
      ? undefined
      : { rule: 'action', message: `"${name}" is not a list` };
  }
  if (field.kind !== 'number') return { rule: 'action', message: `"${name}" is not a number` };
  if (typeof value !== 'number' || !Number.isFinite(value))
    return { rule: 'type', message: 'must be a number' };
  if (field.integer && !Number.isSafeInteger(value))
    return { rule: 'integer', message: 'must be a whole number' };
  return undefined;
}

function elements(
  field: ArrayField,
  value: unknown,
  { place, problems }: { place: string; problems: Problem[] },
): readonly unknown[] {
  const given = Array.isArray(value) && field.items.kind !== 'array' ? value : [value];
  const check = checkerOf(field.items);
  return given.map((item, index) =>
    check(item, given === value ? `${place}.${index}` : place, problems),
  );
}

/** Values that a change sets or appends, for the question whether those that are ids of records lead somewhere. */
export const referenceSources = (
  assignments: readonly BoundAssignment[],
): readonly ReferenceSource[] =>
  assignments
    .filter(({ action }) => action === 'set' || action === 'append')
    .map(({ name, value, place }) => ({
      value: (field) => (field === name ? value : undefined),
      placeOf: () => place,
    }));

/** The new values of the columns of `t0`, composed in the order of the assignments. */
export function assignmentTexts(
  assignments: readonly BoundAssignment[],
  parameters: Parameters,
): ReadonlyMap<string, string> {
  const texts = new Map<string, string>();
  for (const assignment of assignments) {
    const { name } = assignment;
    texts.set(name, newValue(assignment, texts.get(name) ?? `t0.${identifier(name)}`, parameters));
  }
  return texts;
}

function newValue(
  { field, action, value }: BoundAssignment,
  current: string,
  { next }: Parameters,
): string {
  const type = columnType(field);
  const json = type === 'jsonb';
  switch (action) {
    case 'set':
      return `${next(json && value !== null ? JSON.stringify(value) : value)}::${type}`;
    case 'increment':
    case 'decrement':
      return `(coalesce(${current}, 0) + ${next(value)}::${amountType(type)})::${type}`;
    case 'append':
      return json
        ? `(coalesce(${current}, '[]'::jsonb) || ${next(JSON.stringify(value))}::jsonb)`
        : `(coalesce(${current}, '{}'::uuid[]) || ${next(value)}::uuid[])`;
    case 'remove':
      return json
        ? withoutJson(current, next((value as unknown[]).map((item) => JSON.stringify(item))))
        : withoutIds(current, next(value));
  }
}

/** Runs a change. Of a sum that does not fit its column the database does not say which one it is. */
export async function runAssigned<R>(
  assignments: readonly BoundAssignment[],
  run: () => Promise<R>,
): Promise<R> {
  try {
    return await run();
  } catch (error) {
    const sums = assignments.filter(
      ({ action }) => action === 'increment' || action === 'decrement',
    );
    if (sums.length === 0 || codeOf((error as { cause?: unknown }).cause) !== '22003') throw error;
    const message =
      sums.length === 1
        ? 'would become too large'
        : 'this one or another one would become too large';
    throw invalidRecord(sums.map(({ place }) => ({ path: place, rule: 'range', message })));
  }
}

/** A sum that is too large for its column must fail as such, not as a parameter of the wrong type. */
const amountType = (type: string): string => (type === 'integer' ? 'bigint' : type);

const withoutJson = (list: string, going: string): string =>
  `(case when ${list} is not null then (select coalesce(jsonb_agg(e.v order by e.n), '[]'::jsonb) ` +
  `from jsonb_array_elements(${list}) with ordinality e(v, n) where e.v <> all(${going}::jsonb[])) end)`;

const withoutIds = (list: string, going: string): string =>
  `(case when ${list} is not null then array(select e.v from unnest(${list}) with ordinality e(v, n) where e.v <> all(${going}::uuid[]) order by e.n) end)`;

/** A rule about the result of a change, which only the statement can know. */
export interface ResultRule {
  readonly place: string;
  readonly rule: string;
  readonly message: string;
  /** True for a row `r` that breaks it. */
  broken(parameters: Parameters): string;
}

export function resultRules(assignments: readonly BoundAssignment[]): readonly ResultRule[] {
  return assignments.flatMap(({ field, name, action, place }) => {
    if (action === 'set') return [];
    const column = `r.${identifier(name)}`;
    const rules =
      field.kind === 'number' ? numberRules(field, column) : listRules(field as ArrayField, column);
    return rules.map((rule) => ({ ...rule, place, message: field.message ?? rule.message }));
  });
}

type Rule = Omit<ResultRule, 'place'>;

function numberRules(
  { min, max, exclusiveMin, exclusiveMax, enum: values }: NumberField,
  column: string,
): Rule[] {
  const bound = (rule: string, limit: number | undefined, symbol: string, words: string): Rule[] =>
    limit === undefined
      ? []
      : [
          {
            rule,
            message: `would become ${words} ${limit}`,
            broken: ({ next }) => `${column} ${symbol} ${next(limit)}::numeric`,
          },
        ];
  return [
    ...bound('min', min, '<', 'less than'),
    ...bound('max', max, '>', 'greater than'),
    ...bound('exclusiveMin', exclusiveMin, '<=', 'no longer greater than'),
    ...bound('exclusiveMax', exclusiveMax, '>=', 'no longer less than'),
    ...(values
      ? [
          {
            rule: 'enum',
            message: 'would become something that is not allowed',
            broken: ({ next }: Parameters) => `${column} <> all(${next(values)}::numeric[])`,
          },
        ]
      : []),
  ];
}

function listRules(field: ArrayField, column: string): Rule[] {
  const { minItems = 0, maxItems = MAX_ITEMS } = field;
  const length =
    columnType(field) === 'jsonb' ? `jsonb_array_length(${column})` : `cardinality(${column})`;
  return [
    {
      rule: 'minItems',
      message: `would have fewer than ${minItems} elements`,
      broken: () => `${length} < ${minItems}`,
    },
    {
      rule: 'maxItems',
      message: `would have more than ${maxItems} elements`,
      broken: () => `${length} > ${maxItems}`,
    },
  ];
}
