/**
 * Keeps mail-sending routes from flooding anybody. What is counted here never depends on whether an
 * account exists, so that an answer tells nothing.
 */
import type { DurableLimits } from '../../../kernel/limits/durable.ts';
import type { LimitBucket } from '../../../kernel/limits/limits.ts';
import { addressKey } from '../../../kernel/operations/limits.ts';
import { sha256 } from '../../../kernel/security/tokens.ts';
import { authErrors } from '../errors.ts';

export interface MailGuard {
  /** Lets one request through per account, place and threshold; throws 429 with `Retry-After`. */
  enter(kind: string, email: string, address: string): Promise<void>;
  /**
   * Whether one more code may be made for this address. Each code may be guessed a few times, so the
   * number of codes bounds the number of guesses, from however many places they come.
   */
  mayIssueCode(email: string): Promise<boolean>;
}

/** Five tries with each: no more than a hundred guesses in a day (NIST SP 800-63B-4, 3.2.2). */
const codes: readonly LimitBucket[] = [
  { name: 'authentication.codes', requests: 10, seconds: 60 * 60 },
  { name: 'authentication.codes.day', requests: 20, seconds: 24 * 60 * 60 },
];

export function createMailGuard(limits: DurableLimits, thresholdMs: () => number): MailGuard {
  return {
    async enter(kind, email, address) {
      const bucket = { name: `authentication.resend.${kind}`, requests: 1, seconds: Math.max(1, Math.ceil(thresholdMs() / 1000)) };
      const { allowed, resetMs } = await limits.consume(bucket, sha256(`${email}\n${addressKey(address)}`));
      if (!allowed) throw authErrors.TOO_SOON({ retryAfter: Math.max(1, Math.ceil(resetMs / 1000)) });
    },
    async mayIssueCode(email) {
      const states = await limits.consumeAll(codes.map((bucket) => ({ bucket, key: sha256(email), stops: true })));
      return states.every(({ allowed }) => allowed);
    },
  };
}
