import { afterEach, expect, it, vi } from 'vitest';
import { createMasterKeyCheck } from './admin-identity.ts';
import type { FailureQuotas } from './failure-quotas.ts';

afterEach(() => vi.useRealTimers());

it('refuses an address for as long as it said, also when the clock is set back meanwhile', async () => {
  vi.useFakeTimers();
  const quotas: Pick<FailureQuotas, 'masterKeyFailed'> = {
    masterKeyFailed: async () => ({ allowed: false, remaining: 0, resetMs: 60_000 }),
  };
  const check = createMasterKeyCheck(['the right key'], quotas as FailureQuotas);
  await expect(check('a wrong key', '192.0.2.1')).rejects.toMatchObject({ status: 429 });
  expect(() => check('the right key', '192.0.2.1')).toThrow();
  expect(check('the right key', '192.0.2.2')).toBeUndefined();
  vi.setSystemTime(Date.now() - 12 * 3_600_000);
  vi.advanceTimersByTime(61_000);
  expect(check('the right key', '192.0.2.1')).toBeUndefined();
});
