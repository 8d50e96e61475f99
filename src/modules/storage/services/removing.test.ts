/** The job that deletes bytes. */
import { expect, it } from 'vitest';
import type { StorageProvider } from '../providers/provider.ts';
import { keyOf, renditionPrefix } from './naming.ts';
import { createRemovalJob } from './removing.ts';

it('takes all renditions of a content along, however many pages the store makes of them', async () => {
  const key = keyOf('01a22715-8512-756d-91b8-5672909115d1', 1);
  const other = keyOf('01a22715-8512-756d-91b8-5672909115d2', 1);
  const renditions = [1, 2, 3, 4, 5].map((n) => `${renditionPrefix(key)}${n}.webp`);
  const there = new Set([key, other, ...renditions]);
  const store = {
    async list(_bucket: string, prefix: string, cursor = '') {
      const found = [...there].filter((one) => one.startsWith(prefix) && one > cursor).sort();
      const objects = found
        .slice(0, 2)
        .map((one) => ({ key: one, size: 1, modifiedAt: new Date() }));
      return { objects, cursor: found.length > 2 ? objects.at(-1)?.key : undefined };
    },
    delete: async (place: { readonly key: string }) => void there.delete(place.key),
  };
  const job = createRemovalJob({
    provider: async () => store as unknown as StorageProvider,
    database: { query: async () => ({ rows: [], count: 0 }) } as never,
  });
  const context = { signal: new AbortController().signal } as never;
  await job.handler({ objects: [{ bucket: 'b', key }] }, context);
  expect([...there]).toEqual([other]);
});
