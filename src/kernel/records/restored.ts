/** What the platform gives records by itself, taken from the input instead: for operators who bring records back or over. */
import type { Problem } from '../errors.ts';
import { isId, newId } from '../ids.ts';
import type { CompiledSchema } from '../schema/compiled.ts';
import { checkerOf, ownValue } from '../schema/values.ts';
import type { RecordInput } from './store.ts';

export interface RestoredValues {
  /** Columns that all of the records get, beside their id and their fields. */
  readonly columns: readonly string[];
  /** Id and those columns, per record. */
  readonly values: readonly Readonly<Record<string, string>>[];
}

const times = ['createdAt', 'updatedAt'] as const;
const checkTime = checkerOf({ kind: 'date', required: false, unique: false, hidden: false, indexed: false });

/** New ids alone: what every other writer gets. */
export const freshValues = (inputs: readonly RecordInput[]): RestoredValues => ({
  columns: [],
  values: inputs.map(() => ({ _id: newId() })),
});

/** Ids and times of the inputs; what they do not say is new. Adds a problem for each that cannot be. */
export function restoredValues({ modelOptions }: CompiledSchema, inputs: readonly RecordInput[], problems: Problem[]): RestoredValues {
  const given = (input: RecordInput, name: string): unknown => ownValue(input, name) ?? undefined;
  const columns = modelOptions.timestamps ? times.filter((name) => inputs.some((input) => given(input, name) !== undefined)) : [];
  const now = new Date().toISOString();
  const seen = new Set<string>();
  const values = inputs.map((input, i) => {
    const place = `docs.${i}.`;
    const found: Record<string, string> = { _id: idOf(given(input, '_id'), { place, seen, problems }) };
    for (const name of columns) found[name] = timeOf(given(input, name), place + name, problems) ?? now;
    return found;
  });
  return { columns, values };
}

function timeOf(value: unknown, place: string, problems: Problem[]): string | undefined {
  return value === undefined ? undefined : (checkTime(value, place, problems) as string | undefined);
}

function idOf(value: unknown, { place, seen, problems }: { place: string; seen: Set<string>; problems: Problem[] }): string {
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
