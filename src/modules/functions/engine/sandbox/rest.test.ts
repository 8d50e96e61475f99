/** What the platform is told of runs at rest: where it would think otherwise, after a moment. */
import { expect, it } from 'vitest';
import { Rest } from './rest.ts';

function told(
  looks: readonly (readonly [rests: boolean, openCalls: number])[],
): readonly boolean[] {
  const all: boolean[] = [];
  const rest = new Rest((rests) => void all.push(rests));
  for (const [rests, openCalls] of looks) rest.look(rests, openCalls);
  return all;
}

const times = <T>(count: number, value: T): readonly T[] => Array<T>(count).fill(value);

it('is told nothing of who waits for calls, or computes between them', () => {
  expect(told([...times(9, [true, 1] as const), ...times(9, [false, 0] as const)])).toEqual([]);
});

it('is told of who waits without a call, once', () => {
  expect(told(times(4, [true, 0]))).toEqual([]);
  expect(told(times(20, [true, 0]))).toEqual([true]);
});

it('is told of who computes while a call is open, and when that is over', () => {
  const computes = times(9, [false, 1] as const);
  expect(told(computes)).toEqual([false]);
  expect(told([...computes, ...times(9, [true, 1] as const)])).toEqual([false, true]);
});

it('is not told of moments', () => {
  const moment = [...times(2, [false, 1] as const), ...times(2, [true, 1] as const)];
  expect(told([...moment, ...moment, ...moment])).toEqual([]);
});
