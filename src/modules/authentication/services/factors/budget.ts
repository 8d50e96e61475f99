/**
 * The budget of wrong codes. Who tries codes has proven the first factor already, so it belongs to the
 * account alone: no number of addresses gives more guesses. A try is paid for before the code is looked
 * at, so that parallel guesses cannot exceed it; a right code gives everything back.
 */
import type { DurableLimits } from '../../../../kernel/limits/durable.ts';
import type { LimitBucket } from '../../../../kernel/limits/limits.ts';
import { authErrors } from '../../errors.ts';

export interface FactorBudget {
  /** Pays for one try; throws 429 with `Retry-After` when the budget is spent. */
  enter(userId: string): Promise<void>;
  succeeded(userId: string): Promise<void>;
  /** Pays for one text message; throws 429. Each brings a few tries of its own. */
  sendCode(userId: string): Promise<void>;
}

const tries: readonly LimitBucket[] = [
  { name: 'authentication.second-factor.quarter', requests: 10, seconds: 15 * 60 },
  { name: 'authentication.second-factor.day', requests: 50, seconds: 24 * 60 * 60 },
];
const messages: LimitBucket = { name: 'authentication.second-factor.messages', requests: 5, seconds: 60 * 60 };

const secondsOf = (resetMs: number): number => Math.max(1, Math.ceil(resetMs / 1000));

export const createFactorBudget = (limits: DurableLimits): FactorBudget => ({
  async enter(userId) {
    const states = await limits.consumeAll(tries.map((bucket) => ({ bucket, key: userId, stops: true })));
    const spent = states.find(({ allowed }) => !allowed);
    if (spent) throw authErrors.TOO_MANY_FAILURES({ retryAfter: secondsOf(spent.resetMs) });
  },
  succeeded: (userId) => limits.reset(...tries.map((bucket) => ({ bucket, key: userId }))),
  async sendCode(userId) {
    const { allowed, resetMs } = await limits.consume(messages, userId);
    if (!allowed)
      throw authErrors.TOO_SOON({ message: 'Too many codes were sent: wait before you ask again', retryAfter: secondsOf(resetMs) });
  },
});
