/** From the arguments of a field to the input of its operation. */
import type { DecodedInput } from '../../kernel/operation.ts';
import type { OperationField } from './fields.ts';
import { settled } from './whole-numbers.ts';

export type Arguments = Readonly<Record<string, unknown>>;

/** Null counts as left out, as it does in JSON bodies; `populate` adds to what the arguments ask for. */
export function operationInput(field: OperationField, given: Arguments, populate: readonly string[]): DecodedInput {
  const input = { params: emptyPlace(), query: emptyPlace(), headers: emptyPlace() };
  for (const { argument, place, key, schema, fallback } of field.arguments) {
    const value = settled(argumentValue(given, argument), schema) ?? structuredClone(fallback);
    if (value !== undefined) input[place][key] = value;
  }
  if (field.populates && populate.length > 0) {
    const asked = Array.isArray(input.query.populate) ? (input.query.populate as unknown[]) : [];
    input.query.populate = [...new Set([...asked, ...populate])];
  }
  return { ...input, body: field.body && (settled(argumentValue(given, field.body.argument), field.body.schema) ?? undefined) };
}

const emptyPlace = (): Record<string, unknown> => Object.create(null) as Record<string, unknown>;

const argumentValue = (given: Arguments, name: string): unknown => (Object.hasOwn(given, name) ? given[name] : undefined);
