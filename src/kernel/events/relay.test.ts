/** How the relay is woken. */
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { createWakeup } from './relay.ts';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

/** Who waits, and what they heard. */
function listen(bell: ReturnType<typeof createWakeup>): boolean[] {
  const heard: boolean[] = [];
  void bell.wait(500).then((rung) => heard.push(rung));
  return heard;
}

it('is rung once for all that can wait', async () => {
  const bell = createWakeup();
  for (let n = 0; n < 10; n += 1) {
    bell.ringWithin(100);
    await vi.advanceTimersByTimeAsync(9);
  }
  const heard = listen(bell);
  await vi.advanceTimersByTimeAsync(9);
  expect(heard).toEqual([]);
  await vi.advanceTimersByTimeAsync(1);
  expect(heard).toEqual([true]);
  const after = listen(bell);
  await vi.advanceTimersByTimeAsync(499);
  expect(after).toEqual([]);
});

it('is rung at once for what cannot wait, and not again for what went with it', async () => {
  const bell = createWakeup();
  const heard = listen(bell);
  bell.ringWithin(100);
  bell.ring();
  await vi.advanceTimersByTimeAsync(0);
  expect(heard).toEqual([true]);
  const after = listen(bell);
  await vi.advanceTimersByTimeAsync(499);
  expect(after).toEqual([]);
  await vi.advanceTimersByTimeAsync(1);
  expect(after).toEqual([false]);
});
