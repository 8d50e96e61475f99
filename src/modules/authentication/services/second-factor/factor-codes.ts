/** Codes of an authenticator app, as a user's second factor. The secret is sealed at rest and shown once. */

import { randomInt } from 'node:crypto';
import type { Kernel } from '../../../../host/kernel.ts';
import type { Queryable, Transaction } from '../../../../kernel/database/database.ts';
import type { DurableLimits } from '../../../../kernel/limits/durable-limits.ts';
import type { LimitBucket } from '../../../../kernel/limits/limits.ts';
import {
  describeTotp,
  newTotpSecret,
  type TotpEnrolment,
  totpStep,
} from '../../../../kernel/security/totp.ts';
import { authErrors } from '../../errors.ts';
import {
  backupCodesLeft,
  confirmTotp,
  pendingTotpSecret,
  replaceBackupCodes,
  storePendingTotp,
  takeBackupCode,
  takeTotpStep,
  totpSecret,
} from '../credentials/queries.ts';

/* Ten codes for the day on which the second factor is lost. Each works once; only keyed digests are kept. */

export interface RecoveryCodes {
  /** A new set, written `dddd dddd`, in the place of the old one; for a user whose row the transaction has locked. */
  make(transaction: Transaction, userId: string): Promise<readonly string[]>;
  /** Uses one up: true for exactly one of all who try it. Spaces and dashes do not matter. */
  use(userId: string, code: string): Promise<boolean>;
  left(userId: string): Promise<number>;
}

const howMany = 10;
const digits = 8;
const shape = /^\d{8}$/;

export function createRecoveryCodes({
  database,
  secrets,
}: Pick<Kernel, 'database' | 'secrets'>): RecoveryCodes {
  const digestOf = (userId: string, code: string): string =>
    secrets.digest(code, `authentication:recovery-code:${userId}`);
  return {
    async make(transaction, userId) {
      const codes = distinctCodes();
      await replaceBackupCodes(
        transaction,
        userId,
        codes.map((code) => digestOf(userId, code)),
      );
      return codes.map((code) => `${code.slice(0, 4)} ${code.slice(4)}`);
    },
    async use(userId, given) {
      const code = given.replace(/[\s-]/g, '');
      return shape.test(code) && takeBackupCode(database, userId, digestOf(userId, code));
    },
    left: (userId) => backupCodesLeft(database, userId),
  };
}

function distinctCodes(): readonly string[] {
  const codes = new Set<string>();
  while (codes.size < howMany) codes.add(String(randomInt(10 ** digits)).padStart(digits, '0'));
  return [...codes];
}

/*
 * The quota of wrong codes. Who tries codes has proven the first factor already, so it belongs to the
 * account alone: no number of addresses gives more guesses. A try is paid for before the code is looked
 * at, so that parallel guesses cannot exceed it; a right code gives everything back.
 */

export interface FactorQuota {
  /** Pays for one try; throws 429 with `Retry-After` when the quota is spent. */
  enter(userId: string): Promise<void>;
  succeeded(userId: string): Promise<void>;
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

const secondsOf = (resetMs: number): number => Math.max(1, Math.ceil(resetMs / 1000));

export const createFactorQuota = (limits: DurableLimits): FactorQuota => ({
  async enter(userId) {
    const states = await limits.consumeAll(
      tries.map((bucket) => ({ bucket, key: userId, stops: true })),
    );
    const spent = states.find(({ allowed }) => !allowed);
    if (spent) throw authErrors.ATTEMPTS_EXHAUSTED({ retryAfter: secondsOf(spent.resetMs) });
  },
  succeeded: (userId) => limits.reset(...tries.map((bucket) => ({ bucket, key: userId }))),
  async sendCode(userId) {
    const { allowed, resetMs } = await limits.consume(messages, userId);
    if (!allowed)
      throw authErrors.MESSAGE_TOO_SOON({
        message: 'Too many codes were sent: wait before you ask again',
        retryAfter: secondsOf(resetMs),
      });
  },
});

export interface Authenticator {
  /** A new secret, in force after `confirm`; nothing when a confirmed one stands. `label` names the entry in the app. */
  enrol(userId: string, label: string): Promise<TotpEnrolment | undefined>;
  isPending(database: Queryable, userId: string): Promise<boolean>;
  /** Proves the pending secret and uses the code up; false when the code is wrong. */
  confirm(transaction: Queryable, userId: string, code: string): Promise<boolean>;
  /** Uses a code up: true for exactly one of all who try it. */
  use(userId: string, code: string): Promise<boolean>;
}

interface Dependencies extends Pick<Kernel, 'database' | 'secrets'> {
  readonly issuer: () => string;
}

const sealContext = (userId: string): string => `authentication:totp:${userId}`;

export function createAuthenticator({ database, secrets, issuer }: Dependencies): Authenticator {
  const stepOf = (sealed: string, userId: string, code: string) =>
    totpStep(secrets.open(sealed, sealContext(userId)), code);

  return {
    async enrol(userId, label) {
      const secret = await newTotpSecret();
      const stored = await storePendingTotp(
        database,
        userId,
        secrets.seal(secret, sealContext(userId)),
      );
      return stored ? describeTotp(secret, { issuer: issuer(), label }) : undefined;
    },
    isPending: async (queryable, userId) =>
      (await pendingTotpSecret(queryable, userId)) !== undefined,
    async confirm(transaction, userId, code) {
      const sealed = await pendingTotpSecret(transaction, userId);
      const step = sealed === undefined ? undefined : await stepOf(sealed, userId, code);
      return (
        sealed !== undefined &&
        step !== undefined &&
        confirmTotp(transaction, userId, { sealed, step })
      );
    },
    async use(userId, code) {
      const sealed = await totpSecret(database, userId);
      const step = sealed === undefined ? undefined : await stepOf(sealed, userId, code);
      return step !== undefined && takeTotpStep(database, userId, step);
    },
  };
}
