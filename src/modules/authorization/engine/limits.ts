import { defineErrors } from '../../../kernel/errors.ts';

/** Bounds of one question. Beyond each stands an explicit error, never a guess. */
export const limits = {
  /** Most tuples below an object that one check loads. */
  tuples: 10_000,
  /** Most objects that a subject may reach on the way to a list. */
  reached: 100_000,
  /** Most objects above a subject that are named to decide a few rows: of more, the rows are decided one by one. */
  reachedForFew: 1_000,
  /** Most objects that several subjects may reach whose ways up are followed by one statement. */
  reachedTogether: 20_000,
  /** Most different sets of attributes with which conditions are evaluated for one statement. */
  conditionValues: 100_000,
  /** Most ids of which a statement that tests few rows makes a hash table. */
  packedFrom: 500,
  /** Rows that are taken away in front of all others: of so many it is remembered where the others begin. */
  leading: 500,
  /** So many rows are few. */
  fewRows: 50,
  /** Most questions in one batch. */
  batch: 50,
  /** Most tuples that count for one question only. */
  contextual: 100,
  /** The same in questions about what is gone: relations that went with a record. */
  goneTuples: 1_000,
  /** Largest page of a list. */
  page: 1_000,
} as const;

/** How much of something is named before another way is taken. Answers do not hang on it. */
export type SizeLimits = {
  readonly [K in
    | 'tuples'
    | 'reached'
    | 'reachedForFew'
    | 'reachedTogether'
    | 'conditionValues'
    | 'packedFrom'
    | 'leading']: number;
};

/** Those of a scope: tests make them small. */
export const sizesOf = ({ sizes = limits }: { readonly sizes?: SizeLimits }): SizeLimits => sizes;

/* Why a question has no answer. None of these is ever turned into "allowed". */

export const engineErrors = defineErrors({
  BREADTH_EXCEEDED: [
    400,
    `More than ${limits.tuples} relations lead to the resource, and the subject reaches too many objects as well: grant the permission closer to the resource`,
  ],
  CONTEXT_MISSING: [400, 'The answer depends on context values that the request did not give'],
  PERMISSION_SET_TOO_LARGE: [
    400,
    `This subject reaches more than ${limits.reached} objects, and this action needs all of them: check single objects, or simplify the definition of the action`,
  ],
  CURSOR_INVALID: [
    400,
    'cursor: send the cursor of the previous page unchanged, with the same query',
  ],
});
