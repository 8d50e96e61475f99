/** Which texts the processes need no more after a change. */
import { expect, it } from 'vitest';
import type { StoredFunction } from '../definition/definition.ts';
import { goneVersions } from './store.ts';

it('names the versions that were replaced, and those of functions that are gone', () => {
  const at = (_id: string, version: number) => ({ _id, version }) as StoredFunction;
  const before = [at('same', 1), at('changed', 3), at('deleted', 2)];
  const now = [at('same', 1), at('changed', 4), at('new', 1)];
  expect(goneVersions(before, now)).toEqual(['changed:3', 'deleted:2']);
});
