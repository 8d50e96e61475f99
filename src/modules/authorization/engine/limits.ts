/** Bounds of one question. Beyond each stands an explicit error, never a guess. */
export const limits = {
  /** Most steps from one object to another between a question and what it rests on. */
  depth: 25,
  /** Most tuples that one check may touch. */
  tuples: 10_000,
  /** Most objects that a subject may reach on the way to a list. */
  reached: 100_000,
  /** Most questions in one batch. */
  batch: 50,
  /** Most tuples that count for one question only. */
  contextual: 100,
  /** Largest page of a list. */
  page: 1_000,
} as const;
