/** Assignments as hooks are told of them, and what is left of them once hooks have answered. */
import { isDeepStrictEqual } from 'node:util';
import type { CompiledSchema } from '../schema/compile/compiled.ts';
import type { Assignment, RecordInput } from './store.ts';

const operators = {
  increment: '$inc',
  decrement: '$inc',
  append: '$push',
  remove: '$pull',
} as const;

/** The input of an update that means the same. */
export function inputOf(
  about: CompiledSchema | undefined,
  assignments: readonly Assignment[],
): RecordInput {
  const input: Record<string, unknown> = {};
  for (const one of assignments) {
    const { field, action, value } = one;
    if (action === 'set') input[field] = value;
    else {
      const operands = input[operators[action]] as RecordInput | undefined;
      input[operators[action]] = { ...operands, [field]: operandOf(about, one, operands?.[field]) };
    }
  }
  return input;
}

interface Elements {
  readonly $each: readonly unknown[];
}

/** Together with what an earlier assignment does to the same field. */
function operandOf(
  about: CompiledSchema | undefined,
  { field, action, value }: Assignment,
  before: unknown,
): unknown {
  if (action === 'increment' || action === 'decrement')
    return Number(before ?? 0) + (action === 'decrement' ? -1 : 1) * Number(value);
  const kind = about?.tree.fields.get(field);
  const isOfLists = kind?.kind === 'array' && kind.items.kind === 'array';
  const elements = Array.isArray(value) && !isOfLists ? value : [value];
  const each: Elements = {
    $each: [...((before as Elements | undefined)?.$each ?? []), ...elements],
  };
  return each;
}

/** Assignments that a hook has left as they were, and what it says beside them. */
export function leftBy(
  changed: RecordInput,
  told: RecordInput,
  assignments: readonly Assignment[],
): { readonly input: RecordInput; readonly assigned: readonly Assignment[] } {
  const at = (input: RecordInput, { field, action }: Assignment): unknown =>
    action === 'set' ? input[field] : operandsIn(input, operators[action])?.[field];
  const assigned = assignments.filter((one) => isDeepStrictEqual(at(changed, one), at(told, one)));
  const input: Record<string, unknown> = { ...changed };
  for (const { field, action } of assigned) {
    if (action === 'set') delete input[field];
    else {
      const { [field]: _, ...others } = operandsIn(input, operators[action]) ?? {};
      input[operators[action]] = others;
    }
  }
  return { input, assigned };
}

const operandsIn = (input: RecordInput, operator: string): RecordInput | undefined =>
  input[operator] as RecordInput | undefined;
