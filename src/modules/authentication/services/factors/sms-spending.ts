/**
 * How many text messages go to numbers that nobody has proven yet, to sign in or as a second factor. Somebody earns on
 * each message: who owns a range of numbers asks for many of them, from as many accounts as he likes.
 */
import type { Kernel } from '../../../../kernel/kernel.ts';
import type { LimitBucket } from '../../../../kernel/limits/limits.ts';
import { sha256 } from '../../../../kernel/security/tokens.ts';
import type { AuthenticationConfig } from '../../config.ts';
import { authErrors } from '../../errors.ts';

/** Whether one more message may go to a number. Beyond the range's budget it throws 429: that says nothing about a number. */
export type SmsSpending = (phone: string) => Promise<boolean>;

interface Dependencies extends Pick<Kernel, 'durableLimits'> {
  readonly config: () => AuthenticationConfig;
}

/** Numbers that differ in these last digits only count as one range. */
const rangeDigits = 4;

/** Each code may be guessed five times: what a number gets in a day bounds the guesses (NIST SP 800-63B-4, 3.2.2). */
const numberBuckets = (perHour: number): readonly LimitBucket[] => [
  { name: 'authentication.phone.number', requests: perHour, seconds: 60 * 60 },
  { name: 'authentication.phone.number.day', requests: 4 * perHour, seconds: 24 * 60 * 60 },
];

export function createSmsSpending({ durableLimits, config }: Dependencies): SmsSpending {
  return async (phone) => {
    const { maxPerNumber, maxPerPrefix } = config().phoneAuthentication;
    const range = { name: 'authentication.phone.range', requests: maxPerPrefix, seconds: 3600 };
    const states = await durableLimits.consumeAll([
      { bucket: range, key: sha256(phone.slice(0, -rangeDigits)), stops: true },
      ...numberBuckets(maxPerNumber).map((bucket) => ({ bucket, key: sha256(phone), stops: true })),
    ]);
    const [ofRange] = states;
    if (!ofRange?.allowed) {
      const message = 'Too many codes were sent to numbers like this one: try again later';
      throw authErrors.TOO_SOON({ message, retryAfter: Math.max(1, Math.ceil((ofRange?.resetMs ?? 0) / 1000)) });
    }
    return states.every(({ allowed }) => allowed);
  };
}
