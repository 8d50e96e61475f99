/**
 * Quotas of attempts at a password or a code. An attempt is paid for before it is looked at, so that parallel guesses
 * cannot exceed the quota; a success gives everything back.
 */
import type { PenstockError } from '../errors.ts';
import type { DurableLimits } from '../limits/durable-limits.ts';
import type { LimitBucket, LimitState } from '../limits/limits.ts';
import { identityErrors } from './identity-errors.ts';

export interface AttemptQuota {
  /** Pays for one attempt; throws 429 with `Retry-After` when one of the buckets is empty. */
  enter(key: string): Promise<void>;
  succeeded(key: string): Promise<void>;
}

export const createAttemptQuota = (
  limits: DurableLimits,
  buckets: () => readonly LimitBucket[],
): AttemptQuota => ({
  async enter(key) {
    const claims = buckets().map((bucket) => ({ bucket, key, stops: true }));
    for (const state of await limits.consumeAll(claims)) requireAllowed(state);
  },
  succeeded: (key) => limits.reset(...buckets().map((bucket) => ({ bucket, key }))),
});

/** Throws 429 when the quota is spent. */
export function requireAllowed(state: LimitState): void {
  if (!state.allowed) throw attemptsExhausted(state.resetMs);
}

/** A 429 that says when to come back. */
export const attemptsExhausted = (resetMs: number): PenstockError =>
  identityErrors.ATTEMPTS_EXHAUSTED({ retryAfter: secondsOf(resetMs) });

export const secondsOf = (resetMs: number): number => Math.max(1, Math.ceil(resetMs / 1000));
