import { describe, expect, it } from 'vitest';
import { median, percentile, seededRandom } from './statistics.ts';

describe('statistics', () => {
  it('takes percentiles by nearest rank', () => {
    const sorted = Array.from({ length: 100 }, (_, index) => index + 1);
    expect([0, 0.5, 0.95, 0.99, 1].map((share) => percentile(sorted, share))).toEqual([
      1, 50, 95, 99, 100,
    ]);
    expect(percentile([], 0.5)).toBeNaN();
  });

  it('takes the middle without changing the order of its input', () => {
    const values = [3, 1, 2];
    expect(median(values)).toBe(2);
    expect(values).toEqual([3, 1, 2]);
  });

  it('draws the same numbers from the same seed', () => {
    const [one, other] = [seededRandom(7), seededRandom(7)];
    const drawn = Array.from({ length: 50 }, one);
    expect(drawn).toEqual(Array.from({ length: 50 }, other));
    expect(drawn.every((value) => value >= 0 && value < 1)).toBe(true);
  });
});
