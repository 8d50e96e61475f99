/** When vectors are read into memory, and what searches are told meanwhile. The database is one that answers when it is told to. */
import { afterEach, beforeEach, expect, it } from 'vitest';
import { waitFor } from '../../../../test/support/wait-for.ts';
import type { Database, Statement } from '../../../kernel/database/database.ts';
import type { EmbeddingsConfig } from '../config.ts';
import type { GenerationRow } from '../queries/configs.ts';
import { createMemoryIndex, type VectorIndex } from './vector-index.ts';

const generation = {
  id: crypto.randomUUID(),
  version: 1,
  dimensions: 2,
  similarity: 'cosine',
} as GenerationRow;
const query = Float32Array.of(1, 0);

/** Passages that there are; pages that were asked for; what the next ones wait for, and whether they fail. */
let passages = 0;
let pages = 0;
let gate = Promise.resolve();
let isBroken = false;
let readMs = 60_000;
const settings = { index: 'auto', exactUpTo: 1_000_000, maxIndexMegabytes: 100, idleMs: 0 };
let index: VectorIndex;

const vectorAt = (at: number): Buffer => {
  const angle = at / 1_000;
  return Buffer.from(Float32Array.of(Math.cos(angle), Math.sin(angle)).buffer);
};

async function pageOf(values: readonly unknown[]): Promise<object> {
  pages += 1;
  await gate;
  if (isBroken) throw new Error('The database is away');
  const after = values.map(String).findLast((value) => /^r\d+$/.test(value));
  const first = after === undefined ? 0 : Number(after.slice(1)) + 1;
  const limit = Number(values.at(-1));
  const at = Array.from({ length: Math.min(limit, passages - first) }, (_, i) => first + i);
  const same = at.map(() => 0);
  return {
    ids: at.map((one) => `r${one}`),
    ordinals: same,
    starts: same,
    ends: same,
    present: at.map(() => true),
    version: at.length === 0 ? null : 1,
    vectors: Buffer.concat(at.map(vectorAt)).toString('hex'),
  };
}

const database = {
  query: async ({ text, values = [] }: Statement) => ({
    rows: text.includes('json_agg') ? [await pageOf(values)] : [{ count: passages }],
    count: 1,
  }),
} as unknown as Database;

const open = (): void => {
  [passages, pages, gate, isBroken] = [3, 0, Promise.resolve(), false];
  index = createMemoryIndex({
    database,
    config: () => ({ search: settings }) as EmbeddingsConfig,
    measures: { indexes: { read: () => [] } },
    readMs,
  });
};
beforeEach(() => {
  readMs = 60_000;
  open();
});
afterEach(() => index.close());

const search = async (): Promise<readonly string[]> =>
  (await index.nearest(generation, query, { k: 2 })).ids;

it('tells a search to come again while vectors are read, and reads them once', async () => {
  readMs = 30;
  open();
  const opened = Promise.withResolvers<void>();
  gate = opened.promise;
  const told = { code: 'INDEX_PENDING', status: 503, retryAfter: 3 };
  const searches = await Promise.allSettled([search(), search(), search()]);
  for (const one of searches) expect(one).toMatchObject({ status: 'rejected', reason: told });
  expect(await index.facts(generation)).toMatchObject({ state: 'loading' });
  await expect(search()).rejects.toMatchObject(told);
  opened.resolve();
  await waitFor(async () => (await index.facts(generation)).state === 'ready');
  expect(await search()).toEqual(['r0', 'r1']);
  expect(pages).toBe(1);
});

it('reads many vectors before anybody searches, and few with the first search', async () => {
  await index.prepare(generation);
  expect(pages).toBe(0);
  passages = 5_000;
  await index.prepare(generation);
  expect(await index.facts(generation)).toMatchObject({ state: 'ready', passages: 5_000 });
  // 2,000 at a time.
  expect(pages).toBe(3);
  expect(await search()).toEqual(['r0', 'r1']);
  expect(pages).toBe(3);
});

it('reads no more before anybody searches than there is room for', async () => {
  passages = 10_000_000;
  await index.prepare(generation);
  expect(pages).toBe(0);
  await expect(search()).rejects.toMatchObject({ code: 'INDEX_NOT_QUERYABLE', status: 412 });
});

it('says what went wrong, and reads anew for the next search', async () => {
  isBroken = true;
  await expect(search()).rejects.toThrow('The database is away');
  isBroken = false;
  expect(await search()).toEqual(['r0', 'r1']);
  expect(pages).toBe(2);
});
