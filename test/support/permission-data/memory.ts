/** Memories of an engine for tests: what the size of things decides is given instead of measured. */
import {
  createPlansOfNothing,
  type PredicateCache,
} from '../../../src/modules/authorization/engine/rows/row-plans.ts';
import type { Size } from '../../../src/modules/authorization/engine/rows/size-estimate.ts';

/** What of a subject and a goal (`formatSubject`, `keyOf`) is given. */
type GivenSize = (key: string) => Size;

/** With `large`, everything that subjects reach counts as too much to be named. */
export const memoryOf = (size: Size | GivenSize, large = false): PredicateCache => ({
  sizes: { get: typeof size === 'function' ? size : () => size, set: () => undefined },
  reach: undefined,
  scope: '',
  plans: new WeakMap(),
  plansOfNothing: createPlansOfNothing(),
  large: { has: () => large, add: () => undefined },
});
