import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { createBudget } from './operator-session.ts';

beforeEach(() => vi.useFakeTimers());
afterEach(() => vi.useRealTimers());

it('tells so much of each topic in a second, and then how much was left out', () => {
  const dropped = vi.fn();
  const budget = createBudget(dropped);
  const taken = (topic: string, times: number): number =>
    Array.from({ length: times }, () => budget.take(topic)).filter(Boolean).length;
  expect([taken('log', 250), taken('event', 10)]).toEqual([200, 10]);
  vi.advanceTimersByTime(1_000);
  expect(dropped.mock.calls).toEqual([['log', 50]]);
  expect(taken('log', 10)).toBe(10);
  vi.advanceTimersByTime(1_000);
  expect(dropped).toHaveBeenCalledOnce();
  budget.stop();
});
