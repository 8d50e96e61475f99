import { expect, it } from 'vitest';
import { readPage } from './pages.ts';

it('a list of which little is left looks at more and more candidates at once', async () => {
  const ids = Array.from({ length: 10_000 }, (_, i) => String(i).padStart(5, '0'));
  const asked: number[] = [];
  const source = {
    question: 'sparse',
    async candidates(after: string, limit: number) {
      asked.push(limit);
      return ids.filter((id) => id > after).slice(0, limit);
    },
    keep: async (found: readonly string[]) => found.filter((id) => id > '09997'),
  };
  const first = await readPage(source, { limit: 1 });
  expect(first.items).toEqual(['09998']);
  expect(asked.length).toBeLessThan(10);
  const second = await readPage(source, { limit: 1, cursor: first.cursor });
  expect(second).toEqual({ items: ['09999'] });
});
