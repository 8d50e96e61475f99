/** Six digits by text message, for the second step and for proving the number that they will go to. */
import type { Kernel } from '../../../../host/kernel.ts';
import type { Queryable } from '../../../../kernel/database/database.ts';
import {
  type AttemptQuota,
  createAttemptQuota,
  type DurableLimits,
  secondsOf,
} from '../../../../kernel/limits/durable-limits.ts';
import type { LimitBucket } from '../../../../kernel/limits/limits.ts';
import { sha256 } from '../../../../kernel/security/tokens.ts';
import type { Messages } from '../../../communications/index.ts';
import type { AuthenticationConfig } from '../../config.ts';
import { factorErrors } from '../../credential-errors.ts';
import { authErrors } from '../../errors.ts';
import { type OneTimeGrant, type OneTimeTokens, sixDigits } from '../tokens/one-time-tokens.ts';

/*
 * The quota of wrong codes. Who tries codes has proven the first factor already, so it belongs to the account alone: no
 * number of addresses gives more guesses.
 */

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

/*
 * How many text messages go to numbers that nobody has proven yet, to sign in or as a second factor. Somebody earns on
 * each message: who owns a range of numbers asks for many of them, from as many accounts as they like.
 */

/** Whether one more message may go to a number. Beyond the range's quota it throws 429: that says nothing about a number. */
export type SmsQuota = (phone: string) => Promise<boolean>;

interface QuotaDependencies extends Pick<Kernel, 'durableLimits'> {
  readonly config: () => AuthenticationConfig;
}

/** Numbers that differ in these last digits only count as one range. */
const rangeDigits = 4;

/** Each code may be guessed five times: what a number gets in a day bounds the guesses (NIST SP 800-63B-4, 3.2.2). */
const numberBuckets = (perHour: number): readonly LimitBucket[] => [
  { name: 'authentication.phone.number', requests: perHour, seconds: 60 * 60 },
  { name: 'authentication.phone.number.day', requests: 4 * perHour, seconds: 24 * 60 * 60 },
];

export function createSmsQuota({ durableLimits, config }: QuotaDependencies): SmsQuota {
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
      throw authErrors.MESSAGE_TOO_SOON({
        message,
        retryAfter: Math.max(1, Math.ceil((ofRange?.resetMs ?? 0) / 1000)),
      });
    }
    return states.every(({ allowed }) => allowed);
  };
}

/* Phone numbers in the one form in which they are stored and compared: E.164. */

const shape = /^\+[1-9]\d{6,14}$/;

/**
 * The number without spaces, dashes and brackets. Throws PHONE_INVALID for one that no phone of
 * its country has by its length, and for countries that are not among `countries` (two letters; none: all). `path` names the input field.
 */
export async function usablePhoneNumber(
  text: string,
  countries: readonly string[],
  path = 'phone',
): Promise<string> {
  // The tables of all countries are loaded when the first number comes.
  const { parsePhoneNumberFromString } = await import('libphonenumber-js/min');
  const parsed = parsePhoneNumberFromString(text);
  // Not `isValid`: what countries give out changes faster than such tables do.
  const isUsable =
    parsed?.isPossible() === true && parsed.ext === undefined && shape.test(parsed.number);
  if (!isUsable)
    throw refused(path, 'format', 'write the number with its country, like +306900000000');
  const isAllowed =
    countries.length === 0 || (parsed.country !== undefined && countries.includes(parsed.country));
  if (!isAllowed) throw refused(path, 'country', 'numbers of this country cannot be used here');
  return parsed.number;
}

const refused = (path: string, rule: string, message: string) =>
  factorErrors.PHONE_INVALID({
    message: `${path}: ${message}`,
    errors: [{ path, rule, message }],
  });

/** The number with all but its first and last two digits hidden. */
export const maskedPhoneNumber = (number: string): string =>
  `${number.slice(0, 3)}${'*'.repeat(Math.max(0, number.length - 5))}${number.slice(-2)}`;

/** `two-factor`: the number that is known; `phone-verify`: a number that is to become the second factor. */
type SmsPurpose = 'two-factor' | 'phone-verify';

export interface SmsCodes {
  /** Sends a code that works with this session only. Throws 429 when too many were asked for. */
  send(purpose: SmsPurpose, session: SessionKey, phone: string): Promise<void>;
  /** Uses the code up; nothing when it is wrong, too old, or of another session. Wrong ones count, so do not call it in a transaction that may be taken back. */
  use(purpose: SmsPurpose, session: SessionKey, code: string): Promise<OneTimeGrant | undefined>;
  /** Ends codes that are out. */
  discard(transaction: Queryable, userId: string): Promise<void>;
}

/** Whose code, and of which session: nobody else can use up its tries. */
interface SessionKey {
  readonly userId: string;
  readonly sessionId: string;
}

interface CodeDependencies extends Pick<Kernel, 'database'> {
  readonly tokens: OneTimeTokens;
  readonly messages: Pick<Messages, 'sendSms'>;
  readonly quota: FactorQuota;
  readonly maySend: SmsQuota;
  readonly lifetimeMs: () => number;
}

const subjectOf = ({ userId, sessionId }: SessionKey): string => `${userId}:${sessionId}`;

export const createSmsCodes = ({
  database,
  tokens,
  messages,
  quota,
  maySend,
  lifetimeMs,
}: CodeDependencies): SmsCodes => ({
  async send(purpose, session, phone) {
    const { userId } = session;
    await quota.sendCode(userId);
    if (purpose === 'phone-verify' && !(await maySend(phone))) throw notNow();
    const sent = await database.transaction(async (transaction) => {
      const request = {
        purpose,
        userId,
        subject: subjectOf(session),
        data: { phone },
        code: sixDigits,
        lifetimeMs: lifetimeMs(),
      };
      const { code = '' } = await tokens.issue(transaction, request);
      const sms = { to: phone, text: codeText(code), code, userId };
      return messages.sendSms(transaction, { module: 'authentication', ...sms });
    });
    if (sent === undefined) throw notNow();
  },
  use: (purpose, session, code) =>
    tokens.consumeCode(database, purpose, { subject: subjectOf(session) }, code),
  discard: (transaction, userId) =>
    tokens.discard(transaction, userId, ['two-factor', 'phone-verify']),
});

const notNow = () =>
  authErrors.MESSAGE_TOO_SOON({
    message: 'No code can be sent to this number now: wait before you ask again',
  });

/** What messages with a code say. */
export const codeText = (code: string): string => `Your code is ${code}. Tell it to nobody.`;
