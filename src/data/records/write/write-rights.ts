/** What a writer may set: fields that are not theirs are refused by name, never dropped silently. */

import type { Problem } from '../../../kernel/errors.ts';
import { isId, newId } from '../../../kernel/ids.ts';
import type { RowPredicate } from '../../../kernel/permissions.ts';
import type { CompiledSchema } from '../../schema/compile/compiled.ts';
import { checkerOf, ownValue } from '../../schema/language/values.ts';
import { bothRules, isTrusted } from '../access/operation-access.ts';
import { fieldsForbidden } from '../errors.ts';
import type { RecordInput } from '../store.ts';
import type { WriteContext } from './write-context.ts';

/* What the platform gives records by itself, taken from the input instead: for operators who bring records back or over. */

export interface RestoredValues {
  /** Columns that all of the records get, beside their id and their fields. */
  readonly columns: readonly string[];
  /** Id and those columns, per record. */
  readonly values: readonly Readonly<Record<string, string>>[];
}

const times = ['createdAt', 'updatedAt'] as const;
const checkTime = checkerOf({
  kind: 'date',
  required: false,
  unique: false,
  hidden: false,
  indexed: false,
});

/** New ids alone: what every other writer gets. */
export const freshValues = (inputs: readonly RecordInput[]): RestoredValues => ({
  columns: [],
  values: inputs.map(() => ({ _id: newId() })),
});

/** Ids and times of the inputs; what they do not say is new. Adds a problem for each that cannot be. */
export function restoredValues(
  { modelOptions }: CompiledSchema,
  inputs: readonly RecordInput[],
  problems: Problem[],
): RestoredValues {
  const given = (input: RecordInput, name: string): unknown => ownValue(input, name) ?? undefined;
  const columns = modelOptions.timestamps
    ? times.filter((name) => inputs.some((input) => given(input, name) !== undefined))
    : [];
  const now = new Date().toISOString();
  const seen = new Set<string>();
  const values = inputs.map((input, i) => {
    const place = `docs.${i}.`;
    const found: Record<string, string> = {
      _id: idOf(given(input, '_id'), { place, seen, problems }),
    };
    for (const name of columns)
      found[name] = timeOf(given(input, name), place + name, problems) ?? now;
    return found;
  });
  return { columns, values };
}

function timeOf(value: unknown, place: string, problems: Problem[]): string | undefined {
  return value === undefined
    ? undefined
    : (checkTime(value, place, problems) as string | undefined);
}

function idOf(
  value: unknown,
  { place, seen, problems }: { place: string; seen: Set<string>; problems: Problem[] },
): string {
  if (value === undefined) return newId();
  const path = `${place}_id`;
  if (!isId(value)) {
    problems.push({ path, rule: 'format', message: 'must be an id (UUID)' });
    return '';
  }
  const id = value.toLowerCase();
  if (seen.has(id)) problems.push({ path, rule: 'unique', message: 'this record is there twice' });
  seen.add(id);
  return id;
}

/** What somebody wants to write. `place` stands in front of the names of fields: empty, or `docs.3.`. */
interface Requested {
  readonly input: RecordInput;
  readonly place: string;
}

/** Throws one 403 with every field that the caller may not set. */
export function requireSettable(
  { schema, operation, caller, rights }: WriteContext,
  requested: readonly Requested[],
): void {
  const { denied, guarded } = rights;
  if (denied.size === 0 && guarded.size === 0) return;
  // Nobody stands in a relation to a record that is not there yet, except the one who is about to own it.
  const early =
    operation === 'create'
      ? [...guarded].filter(([, { kind }]) => kind !== 'owner').map(([name]) => name)
      : [];
  const ownerField = schema.modelOptions.conduit.owner?.field;
  const own = operation === 'create' && caller.kind === 'user' ? caller.userId : undefined;
  const paths = requested.flatMap(({ input, place }) =>
    [...denied, ...early].flatMap((name) => {
      const value = ownValue(input, name);
      if (value === undefined || (name === ownerField && value === own)) return [];
      return [place + name];
    }),
  );
  if (paths.length > 0) throw fieldsForbidden(paths);
}

/** The input of a create, with the caller as the owner of the record. */
export function ownedInput({ schema, caller }: WriteContext, input: RecordInput): RecordInput {
  const { owner } = schema.modelOptions.conduit;
  return owner && caller.kind === 'user' ? { ...input, [owner.field]: caller.userId } : input;
}

/** Fields that a replacement leaves as they are: those that the caller may not set, or that they could, but did not give. */
export function untouched(
  { rights, caller }: WriteContext,
  input: RecordInput,
): ReadonlySet<string> | undefined {
  const { denied, guarded } = rights;
  if (isTrusted(caller) || (denied.size === 0 && guarded.size === 0)) return undefined;
  return new Set([
    ...denied,
    ...[...guarded.keys()].filter((name) => ownValue(input, name) === undefined),
  ]);
}

/** The rows in which the caller may set these fields, in addition to those that they may change at all. */
export function settableRows(
  context: WriteContext,
  fields: readonly string[],
): RowPredicate | undefined {
  const { predicate } = context;
  const guard = guardOf(context, fields);
  return guard && predicate ? bothRules(predicate, guard) : (guard ?? predicate);
}

/** Rows in which every rule of these fields holds. */
function guardOf(
  { schema, rights, conditions }: WriteContext,
  fields: readonly string[],
): RowPredicate | undefined {
  const rules = fields.flatMap((name) => rights.guarded.get(name) ?? []);
  if (rules.length === 0 || !conditions) return undefined;
  return {
    shape: `guard:${fields.filter((name) => rights.guarded.has(name)).join()}:${conditions.shape}`,
    compile: (_id, next, _use, alias = 't0') =>
      rules
        .map(
          (rule) =>
            `(${conditions.test(schema, rule, { alias, parameters: { values: [], next } })})`,
        )
        .join(' and '),
  };
}
