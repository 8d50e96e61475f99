/** Who works on something keeps it: an attempt that takes longer than a lost one is no lost one. */
import { afterEach, expect, it, vi } from 'vitest';
import { silentLog } from '../../../test/support/quiet.ts';
import { whileHeld } from './while-held.ts';

afterEach(() => void vi.useRealTimers());

it('says that something is worked on, until it is not, and lives on when that is not heard', async () => {
  vi.useFakeTimers();
  const renew = vi.fn().mockRejectedValueOnce(new Error('away')).mockResolvedValue(undefined);
  const over = Promise.withResolvers<string>();
  const work = whileHeld({ renew, log: silentLog }, () => over.promise);
  await vi.advanceTimersByTimeAsync(40_000);
  expect(renew).toHaveBeenCalledTimes(4);
  over.resolve('sent');
  expect(await work).toBe('sent');
  await vi.advanceTimersByTimeAsync(40_000);
  expect(renew).toHaveBeenCalledTimes(4);
});
