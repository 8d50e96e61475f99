/**
 * The budget of wrong passwords. It belongs to the pair of account and address, so that nobody can lock
 * out somebody else; three windows of growing length make each further guess wait longer. A try is
 * paid for before the password is checked (parallel guesses cannot exceed the budget) and a success
 * gives everything back.
 */
import type { LimitBucket, Limits } from '../../../kernel/limits/limits.ts';
import { addressKey } from '../../../kernel/operations/limits.ts';
import { sha256 } from '../../../kernel/security/tokens.ts';
import { authErrors } from '../errors.ts';

export interface LoginGuard {
  /** Pays for one try; throws 429 with `Retry-After` when the budget is spent. */
  enter(account: string, address: string): Promise<void>;
  /** The password was right: the budget is whole again. */
  succeeded(account: string, address: string): Promise<void>;
}

/** Each window: how many times the configured number, in how many seconds. */
const windows = [
  { name: 'minute', factor: 1, seconds: 60 },
  { name: 'quarter', factor: 2, seconds: 15 * 60 },
  { name: 'hours', factor: 4, seconds: 6 * 60 * 60 },
] as const;

export function createLoginGuard(limits: Limits, failures: () => number): LoginGuard {
  const buckets = (): readonly LimitBucket[] =>
    windows.map(({ name, factor, seconds }) => ({ name: `authentication.failures.${name}`, requests: failures() * factor, seconds }));

  return {
    async enter(account, address) {
      const key = keyOf(account, address);
      for (const bucket of buckets()) {
        const state = await limits.consume(bucket, key);
        if (!state.allowed) throw authErrors.TOO_MANY_FAILURES({ retryAfter: Math.max(1, Math.ceil(state.resetMs / 1000)) });
      }
    },
    async succeeded(account, address) {
      const key = keyOf(account, address);
      for (const bucket of buckets()) await limits.reset(bucket, key);
    },
  };
}

/** One key per account and network; holds neither of them in clear. */
const keyOf = (account: string, address: string): string => sha256(`${account}\n${addressKey(address)}`);
