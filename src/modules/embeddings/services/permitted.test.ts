import { expect, it } from 'vitest';
import { bestReadable, createDepthHints } from './permitted.ts';

/** An order of so many records, of which those that fit may be shown; counts what it is asked. */
function world(records: number, fits: (number: number) => boolean) {
  const asked = { depths: [] as number[], all: 0 };
  const ids = Array.from({ length: records }, (_, i) => ({ id: `r${i}` }));
  const isShown = (id: string): boolean => fits(Number(id.slice(1)));
  const ranking = {
    size: () => records,
    async best(k: number, within?: readonly string[]) {
      if (!within) asked.depths.push(k);
      const own = within && new Set(within);
      return ids.filter(({ id }) => !own || own.has(id)).slice(0, k);
    },
  };
  const readable = {
    keep: async (given: readonly string[], limit: number) => given.filter(isShown).slice(0, limit),
    async some(limit: number) {
      asked.all += 1;
      return ids
        .map(({ id }) => id)
        .filter(isShown)
        .slice(0, limit);
    },
  };
  const search = async (limit: number, hint = createDepthHints()('somebody')) => {
    const found = await bestReadable(ranking, readable, { limit, hint });
    return found.map(({ id }) => id);
  };
  return { asked, search };
}

it('begins with those that may be shown when they are few among many', async () => {
  const hint = createDepthHints()('somebody');
  const { asked, search } = world(30_000, (number) => number % 3_000 === 2_999);
  for (let i = 0; i < 10; i += 1)
    expect(await search(3, hint)).toEqual(['r2999', 'r5999', 'r8999']);
  expect(asked).toEqual({ depths: [100], all: 10 });
});

it('looks as deep as searches like it had to, when not so few may be shown', async () => {
  const hint = createDepthHints()('somebody');
  const { asked, search } = world(30_000, (number) => number % 30 === 29);
  for (let i = 0; i < 10; i += 1)
    expect(await search(5, hint)).toEqual(['r29', 'r59', 'r89', 'r119', 'r149']);
  expect(asked.all).toBe(0);
  expect(asked.depths.length).toBe(11);
  expect(Math.max(...asked.depths)).toBeLessThan(500);
});

it('asks for the few again when what was learned does not hold for a search', async () => {
  const hint = createDepthHints()('somebody');
  const even = world(30_000, (number) => number % 30 === 29);
  for (let i = 0; i < 2; i += 1) await even.search(5, hint);
  // As many, but all of them at the end of the order.
  const last = world(30_000, (number) => number >= 29_700);
  for (let i = 0; i < 5; i += 1) expect(await last.search(2, hint)).toEqual(['r29700', 'r29701']);
  expect(last.asked.all).toBe(5);
  expect(last.asked.depths.length).toBeLessThanOrEqual(2);
});

it('goes deeper when those that may be shown are many, and all of them far away', async () => {
  const hint = createDepthHints()('somebody');
  const { asked, search } = world(30_000, (number) => number >= 20_000);
  for (let i = 0; i < 3; i += 1) expect(await search(2, hint)).toEqual(['r20000', 'r20001']);
  expect(asked.all).toBeLessThanOrEqual(3);
});

it('answers the same when the few have become many', async () => {
  const hint = createDepthHints()('somebody');
  const before = world(20_000, (number) => number % 2_000 === 999);
  for (let i = 0; i < 3; i += 1) await before.search(2, hint);
  expect(hint.begin(2)).toBe('few');
  const { search } = world(20_000, (number) => number % 2 === 1);
  for (let i = 0; i < 3; i += 1) expect(await search(2, hint)).toEqual(['r1', 'r3']);
  expect(hint.begin(2)).toBeTypeOf('number');
});
