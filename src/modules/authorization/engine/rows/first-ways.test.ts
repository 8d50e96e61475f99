/** Which ways to first rows are sent behind others: those that look at few rows with few ids. */
import { expect, it } from 'vitest';
import { storedTuples } from '../tuple-source.ts';
import { firstWays } from './first-ways.ts';
import { rowSource } from './row-sources.ts';
import type { Size } from './size-estimate.ts';

const text = (): string => 'true';
const source = rowSource({ type: 'Doc', exact: true, from: storedTuples }, []);

function isBounded(seen: number, principals: number): boolean | undefined {
  const size: Size = {
    ...{ amount: 'many', storedFew: false, known: true, largest: undefined },
    ...{ seen, total: 100_000 },
  };
  const tests = { oneByOne: () => text, together: text, found: text, standsAmong: () => text };
  const plan = {
    exact: true,
    self: undefined,
    taken: undefined,
    principals: { length: principals },
  };
  const parts = { size, takenSize: undefined, start: undefined, isWhole: false, ...tests };
  const way = firstWays(plan, source, parts).way(20, 'indexed');
  expect(way?.key).toMatch(/^walk/);
  expect(way?.otherwise?.isBounded).not.toBe(true);
  return way?.isBounded;
}

it('is bounded where a page is likely to be full after some hundred rows', () => {
  expect(isBounded(50_000, 30)).toBe(true);
  expect(isBounded(25_000, 200)).toBe(true);
  expect(isBounded(2_000, 30)).toBe(false);
});

it('is not where the ids of a statement are very many', () => {
  expect(isBounded(50_000, 201)).toBe(false);
});
