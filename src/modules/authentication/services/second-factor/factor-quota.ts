/**
 * The quota of wrong codes. Who tries codes has proven the first factor already, so it belongs to the account alone: no
 * number of addresses gives more guesses.
 */
import type { DurableLimits } from '../../../../kernel/limits/durable-limits.ts';
import type { LimitBucket } from '../../../../kernel/limits/limits.ts';
import {
  type AttemptQuota,
  createAttemptQuota,
  secondsOf,
} from '../../../../kernel/security/attempt-quota.ts';
import { authErrors } from '../../errors.ts';

export interface FactorQuota extends AttemptQuota {
  /** Pays for one text message; throws 429. Each brings a few tries of its own. */
  sendCode(userId: string): Promise<void>;
}

const tries: readonly LimitBucket[] = [
  { name: 'authentication.second-factor.quarter', requests: 10, seconds: 15 * 60 },
  { name: 'authentication.second-factor.day', requests: 50, seconds: 24 * 60 * 60 },
];
const messages: LimitBucket = {
  name: 'authentication.second-factor.messages',
  requests: 5,
  seconds: 60 * 60,
};

export const createFactorQuota = (limits: DurableLimits): FactorQuota => ({
  ...createAttemptQuota(limits, () => tries),
  async sendCode(userId) {
    const { allowed, resetMs } = await limits.consume(messages, userId);
    if (!allowed)
      throw authErrors.MESSAGE_TOO_SOON({
        message: 'Too many codes were sent: wait before you ask again',
        retryAfter: secondsOf(resetMs),
      });
  },
});
