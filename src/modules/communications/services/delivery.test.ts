/** Who works on messages keeps them: an attempt that takes longer than a lost one is no lost one. */
import { afterEach, expect, it, vi } from 'vitest';
import { silentLog } from '../../../../test/support/quiet.ts';
import type { Database } from '../../../kernel/database/database.ts';
import { whileHeld } from './delivery.ts';

afterEach(() => void vi.useRealTimers());

it('says of messages that they are worked on, until they are not, and lives on when that is not heard', async () => {
  vi.useFakeTimers();
  const query = vi.fn().mockRejectedValueOnce(new Error('away')).mockResolvedValue({ rows: [] });
  const over = Promise.withResolvers<string>();
  const database = { query } as unknown as Database;
  const work = whileHeld({ database, log: silentLog }, ['a', 'b'], () => over.promise);
  await vi.advanceTimersByTimeAsync(40_000);
  expect(query).toHaveBeenCalledTimes(4);
  over.resolve('sent');
  expect(await work).toBe('sent');
  await vi.advanceTimersByTimeAsync(40_000);
  expect(query).toHaveBeenCalledTimes(4);
});
