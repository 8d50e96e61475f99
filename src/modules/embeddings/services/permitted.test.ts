import { expect, it } from 'vitest';
import { bestReadable, createFewHints } from './permitted.ts';

/** An order of so many records, of which those that fit may be shown; counts what it is asked. */
function world(records: number, fits: (number: number) => boolean) {
  const asked = { looks: 0, all: 0 };
  const ids = Array.from({ length: records }, (_, i) => ({ id: `r${i}` }));
  const isShown = (id: string): boolean => fits(Number(id.slice(1)));
  const ranking = {
    async best(k: number, within?: readonly string[]) {
      if (!within) asked.looks += 1;
      return ids.filter(({ id }) => !within || within.includes(id)).slice(0, k);
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
  return { asked, ranking, readable };
}

it('begins with the few when looks found too little, and looks again after a while', async () => {
  const { asked, ranking, readable } = world(3_000, (number) => number % 300 === 299);
  const hint = createFewHints()('somebody');
  const counts: number[] = [];
  for (let i = 0; i < 24; i += 1) {
    const found = await bestReadable(ranking, readable, { limit: 3, hint });
    expect(found.map(({ id }) => id)).toEqual(['r299', 'r599', 'r899']);
    counts.push(asked.looks);
  }
  // Two look, twenty rely on them, one looks again, and so on.
  expect(counts.slice(0, 3)).toEqual([1, 2, 2]);
  expect(counts.slice(-3)).toEqual([2, 3, 3]);
  expect(asked.all).toBe(24);
});

it('answers the same when the few have become many, and forgets what it learned', async () => {
  const hint = createFewHints()('somebody');
  const before = world(20_000, (number) => number % 1_000 === 999);
  for (let i = 0; i < 2; i += 1)
    await bestReadable(before.ranking, before.readable, { limit: 2, hint });
  expect(hint.isLikely()).toBe(true);
  const { asked, ranking, readable } = world(20_000, (number) => number % 2 === 1);
  for (let i = 0; i < 2; i += 1)
    expect(await bestReadable(ranking, readable, { limit: 2, hint })).toEqual([
      { id: 'r1' },
      { id: 'r3' },
    ]);
  expect([asked, hint.isLikely()]).toEqual([{ looks: 2, all: 1 }, false]);
});
