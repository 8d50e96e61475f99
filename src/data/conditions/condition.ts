/**
 * Conditions on records: one closed language for admin queries, custom endpoints, client queries and
 * modules. Values are data and never operators. A condition is true or false for every record: what
 * is missing is equal to null and to nothing else, and `not` turns the answer round.
 */
export type Comparison = 'equal' | 'greater' | 'greaterOrEqual' | 'less' | 'lessOrEqual';

/** What is asked of one value. On a list, one element that fits is enough. */
export type Test =
  | { readonly kind: Comparison; readonly value: unknown }
  | { readonly kind: 'in'; readonly values: readonly unknown[] }
  /** Is there, and not null. */
  | { readonly kind: 'exists' }
  /** The pieces one after the other, with anything between them. */
  | { readonly kind: 'like'; readonly pieces: readonly string[]; readonly ignoreCase: boolean }
  /** The pattern language of `schema/pattern`. */
  | { readonly kind: 'matches'; readonly pattern: string; readonly ignoreCase: boolean }
  /** Words of a text, in any order: `-word` must not occur, `"two words"` stand together. */
  | { readonly kind: 'search'; readonly words: string }
  /** Another field of the same record. */
  | { readonly kind: 'field'; readonly comparison: Comparison; readonly other: string };

/** `path`: dots lead into nested fields, list elements, free JSON and related records. */
export interface Leaf {
  readonly kind: 'test';
  readonly path: string;
  readonly test: Test;
  /** Where it stands in the input of whoever wrote it; faults are reported there. */
  readonly place: string;
}

/** No condition at all in `all` is true, in `any` false. */
export type Condition =
  | Leaf
  | { readonly kind: 'all' | 'any'; readonly of: readonly Condition[] }
  | { readonly kind: 'not'; readonly of: Condition };

export const all = (...of: readonly Condition[]): Condition => ({ kind: 'all', of });
export const any = (...of: readonly Condition[]): Condition => ({ kind: 'any', of });
export const not = (of: Condition): Condition => ({ kind: 'not', of });

/** The tests of a condition, in the order in which they stand. */
export function* leavesOf(condition: Condition): Generator<Leaf> {
  if (condition.kind === 'test') yield condition;
  else if (condition.kind === 'not') yield* leavesOf(condition.of);
  else for (const part of condition.of) yield* leavesOf(part);
}

/** Tests and groups of one filter (spec/database.md section 3). */
export const MAX_NODES = 64;
