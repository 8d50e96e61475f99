import { expect, it } from 'vitest';
import { readWhile } from './read-while.ts';

it('is asked before and after, and shows nothing once the right has gone', async () => {
  let [holds, text] = [true, 'open'];
  const read = readWhile(
    async () => {
      if (!holds) throw new Error('refused');
    },
    async () => {
      [holds, text] = [false, 'secret'];
      return text;
    },
  );
  await expect(read).rejects.toThrow('refused');
});

it('reads nothing for who may not', async () => {
  let reads = 0;
  const read = readWhile(
    () => Promise.reject(new Error('refused')),
    async () => {
      reads += 1;
    },
  );
  await expect(read).rejects.toThrow('refused');
  expect(reads).toBe(0);
});

it('reads again where the right leads to something else, and not for ever', async () => {
  const seen: number[] = [];
  let right = 0;
  const isSame = (before: number, now: number) => before === now;
  const answer = await readWhile(
    async () => Math.min(right++, 2),
    async (held) => void seen.push(held),
    isSame,
  );
  expect([answer, seen]).toEqual([undefined, [0, 1, 2]]);
  right = 0;
  seen.length = 0;
  await readWhile(
    async () => right++,
    async (held) => void seen.push(held),
    isSame,
  );
  expect(seen).toHaveLength(10);
});
