/** Changes as the operator language writes them: plain fields and `$set` set, `$inc`, `$push`, `$pull` and `$unset` build on what is there. */
import { invalid } from '../../../../kernel/errors.ts';
import type { Assignment, RecordInput } from '../../../../kernel/records/store.ts';
import { shown } from '../../../../kernel/schema/names.ts';

const isObject = (value: unknown): value is Record<string, unknown> => typeof value === 'object' && value !== null && !Array.isArray(value);

/** The same with the fields of `$set` as plain ones. Throws 400 when one is set twice. */
export function flatChanges({ $set, ...changes }: RecordInput): RecordInput {
  if ($set === undefined) return changes;
  if (!isObject($set)) throw invalid('$set', 'type', 'must be an object of fields');
  const twice = Object.keys($set).find((name) => Object.hasOwn(changes, name));
  if (twice !== undefined) throw invalid(`$set.${shown(twice)}`, 'conflict', `"${shown(twice)}" is changed twice`);
  return { ...changes, ...$set };
}

const actions = { $inc: 'increment', $push: 'append', $pull: 'remove', $unset: 'set' } as const;

/** What flat changes do to each record. Throws 400 for an operator that is none. */
export function assignmentsOf(changes: RecordInput): readonly Assignment[] {
  return Object.entries(changes).flatMap(([key, value]): readonly Assignment[] => {
    if (!key.startsWith('$')) return [{ field: key, action: 'set', value, place: key }];
    const action = Object.entries(actions).find(([name]) => name === key)?.[1];
    if (!action) throw invalid(shown(key), 'operator', `is not an operator; there are $set, ${Object.keys(actions).join(', ')}`);
    if (!isObject(value)) throw invalid(key, 'type', 'must be an object of fields');
    return Object.entries(value).map(([field, operand]) => ({
      field,
      action,
      value: operandOf(key, operand),
      place: `${key}.${shown(field)}`,
    }));
  });
}

function operandOf(operator: string, operand: unknown): unknown {
  if (operator === '$unset') return null;
  return isObject(operand) && Object.keys(operand).join() === '$each' ? operand.$each : operand;
}

/** The record that flat changes make where there is none yet: a sum begins at nothing, a list is empty. */
export function createdBy(changes: RecordInput): RecordInput {
  const begun = assignmentsOf(changes).flatMap(({ field, action, value }): readonly [string, unknown][] => {
    if (action === 'append') return [[field, Array.isArray(value) ? value : [value]]];
    return action === 'remove' || value === null ? [] : [[field, value]];
  });
  return Object.fromEntries(begun);
}
