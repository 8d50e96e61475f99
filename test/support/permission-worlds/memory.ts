/** Memories of an engine for tests: what the size of things decides is given instead of measured. */
import type { Memory } from '../../../src/modules/authorization/engine/predicate.ts';
import type { Size } from '../../../src/modules/authorization/engine/size-hints.ts';

export const memoryOf = (size: Size): Memory => ({
  sizes: { get: () => size, set: () => undefined },
  reach: undefined,
  scope: '',
  plans: new WeakMap(),
});
