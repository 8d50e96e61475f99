import { expect, test } from 'vitest';
import { createTimeSlices, createTurnGate, createTurnQueue } from './time-slices.ts';

const spend = (ms: number): void => {
  const end = performance.now() + ms;
  while (performance.now() < end);
};

test('lets others have their turn once a slice is over, and begins a new one', async () => {
  const pause = createTimeSlices(10_000);
  expect(pause()).toBeUndefined();
  const short = createTimeSlices(1);
  spend(2);
  let others = 0;
  setImmediate(() => others++);
  await short();
  expect(others).toBe(1);
});

test('work of any length holds up nobody for longer than a slice and a step', async () => {
  const order: string[] = [];
  const work = async (name: string): Promise<void> => {
    const pause = createTimeSlices(1);
    for (let step = 0; step < 3; step++) {
      spend(2);
      order.push(name);
      await pause();
    }
  };
  await Promise.all([work('a'), work('b')]);
  expect(order).toEqual(['a', 'b', 'a', 'b', 'a', 'b']);
});

const turn = () => new Promise((resolve) => setImmediate(resolve));

test('pieces of work that come at once are done in turns of their own, in their order', async () => {
  const inTurn = createTurnQueue();
  const done: string[] = [];
  inTurn(() => {
    done.push('a');
    inTurn(() => done.push('c'));
  });
  inTurn(() => done.push('b'));
  expect(done).toEqual([]);
  await turn();
  expect(done).toEqual(['a']);
  await turn();
  expect(done).toEqual(['a', 'b']);
  await turn();
  expect(done).toEqual(['a', 'b', 'c']);
  inTurn(() => done.push('later'));
  await turn();
  expect(done.at(-1)).toBe('later');
});

test('of those who come at once, one goes on in each turn, in their order, and nobody alone waits', async () => {
  const inTurn = createTurnGate();
  const order: string[] = [];
  const come = async (name: string): Promise<void> => {
    await inTurn();
    order.push(name);
  };
  expect(inTurn()).toBeUndefined();
  const all = [come('a'), come('b')];
  await turn();
  // Whoever comes later does not overtake those who wait.
  all.push(come('c'));
  expect(order).toEqual(['a']);
  await turn();
  expect(order).toEqual(['a', 'b']);
  await Promise.all(all);
  expect(order).toEqual(['a', 'b', 'c']);
  await turn();
  expect(inTurn()).toBeUndefined();
});
