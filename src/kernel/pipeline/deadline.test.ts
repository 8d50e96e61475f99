import { setTimeout as sleep } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { createDeadlines } from './deadline.ts';

const tooLate = (name: string) => () => new Error(`${name} was too late`);

it('passes results and errors on, and gives up what takes too long, each once', async () => {
  const deadlines = createDeadlines(20);
  const end = performance.now() + 20;
  const never = new Promise<string>(() => undefined);
  const first = deadlines.guard(never, end, tooLate('first'));
  const inTime = deadlines.guard(Promise.resolve('done'), end, tooLate('second'));
  const failing = deadlines.guard(Promise.reject(new Error('its own')), end, tooLate('third'));
  const last = deadlines.guard(never, end, tooLate('last'));
  await expect(inTime).resolves.toBe('done');
  await expect(failing).rejects.toThrow('its own');
  await expect(first).rejects.toThrow('first was too late');
  await expect(last).rejects.toThrow('last was too late');
  deadlines.close();
});

it('keeps its order while work ends at the beginning, in the middle and at the end of the line', async () => {
  const deadlines = createDeadlines(40);
  const end = performance.now() + 40;
  const ends = Array.from({ length: 5 }, () => Promise.withResolvers<number>());
  const guarded = ends.map(({ promise }, i) =>
    deadlines.guard(promise, end, tooLate(`number ${i}`)).catch((error: Error) => error.message),
  );
  for (const i of [2, 0, 4]) ends[i]?.resolve(i);
  await sleep(5);
  const late = deadlines
    .guard(new Promise(() => undefined), end, tooLate('newcomer'))
    .catch((error: Error) => error.message);
  expect(await Promise.all(guarded)).toEqual([
    0,
    'number 1 was too late',
    2,
    'number 3 was too late',
    4,
  ]);
  expect(await late).toBe('newcomer was too late');
  deadlines.close();
});

it('takes deadlines of any length: a short one behind a long one is not kept waiting', async () => {
  const deadlines = createDeadlines(20);
  const never = new Promise<string>(() => undefined);
  const long = deadlines
    .guard(never, performance.now() + 1_500, tooLate('long'))
    .catch((error: Error) => error.message);
  const short = deadlines
    .guard(never, performance.now() + 10, tooLate('short'))
    .catch((error: Error) => error.message);
  const over = deadlines
    .guard(never, performance.now() - 1, tooLate('over'))
    .catch((error: Error) => error.message);
  expect(await Promise.race([long, short])).toBe('short was too late');
  expect(await over).toBe('over was too late');
  expect(await long).toBe('long was too late');
  deadlines.close();
});
