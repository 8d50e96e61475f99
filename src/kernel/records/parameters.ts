/** Values of one statement, in the order of their placeholders. */
import type { RowPredicate, RowUse } from '../permissions.ts';

export interface Parameters {
  readonly values: unknown[];
  /** Adds a value and answers its placeholder. */
  next(value: unknown): string;
}

export function createParameters(values: unknown[] = []): Parameters {
  return { values, next: (value) => `$${values.push(value)}` };
}

/** `and <predicate>` for rows of `alias`, or nothing. */
export const restriction = (predicate: RowPredicate | undefined, alias: string, parameters: Parameters, use: RowUse = 'rows'): string =>
  predicate ? ` and (${predicate.compile(`${alias}."_id"`, parameters.next, use, alias)})` : '';
