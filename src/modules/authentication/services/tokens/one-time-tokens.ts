/**
 * Secrets that work once: links in mail, codes, the state of a sign-in at another provider. Each is
 * bound to one purpose, ends by itself, is stored as a hash only, and is consumed by one conditional
 * statement, so that of any number of parallel uses exactly one succeeds.
 */
import { randomInt } from 'node:crypto';
import type { Queryable } from '../../../../kernel/database/database.ts';
import { newId } from '../../../../kernel/ids.ts';
import type { SecretBox } from '../../../../kernel/security/secret-box.ts';
import { randomToken, sha256 } from '../../../../kernel/security/tokens.ts';
import {
  consumeCodeRow,
  consumeTokenRow,
  discardLaterTokenRows,
  discardTokenRows,
  insertTokenRow,
  latestTokenRowOf,
  newestTokenRow,
  type OneTimeRow,
  tokenRow,
  tokenRowById,
} from './queries.ts';

interface PurposeFacts {
  /** Whether what is outstanding ends when somebody else proves to own the address: it leads into the account, or would change it. */
  readonly endsOnClaim: boolean;
}

/** Every purpose, with what must be decided about it. */
const purposes = {
  'verify-email': { endsOnClaim: true },
  'change-email': { endsOnClaim: true },
  'undo-change-email': { endsOnClaim: true },
  'reset-password': { endsOnClaim: true },
  'magic-link': { endsOnClaim: true },
  'email-code': { endsOnClaim: true },
  'login-exchange': { endsOnClaim: true },
  'oauth-state': { endsOnClaim: true },
  'oauth-exchange': { endsOnClaim: true },
  // Belongs to the team, and is for whoever has the address.
  'team-invite': { endsOnClaim: false },
  'phone-login': { endsOnClaim: true },
  'phone-verify': { endsOnClaim: true },
  'webauthn-challenge': { endsOnClaim: true },
  'device-challenge': { endsOnClaim: true },
  'wallet-challenge': { endsOnClaim: true },
  'two-factor': { endsOnClaim: true },
} as const satisfies Readonly<Record<string, PurposeFacts>>;

/** What a secret is for. One of one purpose is worth nothing for another. */
export type Purpose = keyof typeof purposes;

/** Links and codes that whoever claims an account takes away. */
export const endingOnClaim: readonly Purpose[] = (Object.keys(purposes) as Purpose[]).filter(
  (name) => purposes[name].endsOnClaim,
);

/** Those that lead into an account, or to a password for it. */
const signsIn = [
  'reset-password',
  'magic-link',
  'email-code',
  'login-exchange',
] as const satisfies readonly Purpose[];

/**
 * Those that end with the password of before. A change of address may have been begun by somebody who has copied the very
 * session in which the owner now chooses a new password.
 */
export const endWithPassword = [...signsIn, 'change-email'] as const satisfies readonly Purpose[];

/** Those that were sent to an address and mean nothing once it is another. */
export const toOldAddress = [
  ...signsIn,
  'verify-email',
  'change-email',
] as const satisfies readonly Purpose[];

export type TokenData = Readonly<Record<string, unknown>>;

export interface NewOneTimeToken {
  readonly purpose: Purpose;
  /** Whose it is; it goes when the user is deleted. */
  readonly userId?: string;
  /** What the code is looked up by instead of the token, such as an address that the person types. Kept as a hash. */
  readonly subject?: string;
  /** Anything that must be known when it is used; no secrets. */
  readonly data?: TokenData;
  readonly lifetimeMs: number;
  /** Only one of this purpose may be outstanding per user (else per subject): an earlier one ends. */
  readonly replaces?: boolean;
  /** A token from `randomToken`, where the person had to get it beforehand. */
  readonly token?: string;
  /** Adds a code to type, which works only together with the token or the subject. */
  readonly code?: { readonly digits: number; readonly attempts: number };
}

/** Codes that are typed: a million of them, five tries (OWASP ASVS 5.0 6.5). */
export const sixDigits = { digits: 6, attempts: 5 } as const;

export interface IssuedToken {
  readonly id: string;
  /** 43 characters of base64url. With a code: the handle that goes with it. */
  readonly token: string;
  /** Digits, where one was asked for. */
  readonly code?: string;
}

/** What a secret stands for. */
export interface OneTimeGrant {
  readonly userId: string | undefined;
  readonly data: TokenData;
}

export interface PeekedToken extends OneTimeGrant {
  readonly id: string;
  /** When it was consumed; such tokens are still shown for a day after their end, for repeated clicks. */
  readonly usedAt: Date | undefined;
  readonly expired: boolean;
}

/** How a code is found: by the subject that it was issued for, else by the token issued with it. */
export type CodeKey = { readonly token: string } | { readonly subject: string };

export interface OneTimeTokens {
  /** Joins the transaction: the secret exists only if it commits. */
  issue(transaction: Queryable, request: NewOneTimeToken): Promise<IssuedToken>;
  /** Uses a token up; nothing when it is unknown, used, expired, of another purpose, or needs a code. */
  consume(
    transaction: Queryable,
    purpose: Purpose,
    token: string,
  ): Promise<OneTimeGrant | undefined>;
  /**
   * Uses a code up. A wrong code counts: after the allowed number the right one is refused too. Do not
   * throw in the same transaction when nothing comes back: that would take the count back.
   */
  consumeCode(
    transaction: Queryable,
    purpose: Purpose,
    key: CodeKey,
    code: string,
  ): Promise<OneTimeGrant | undefined>;
  /** Looks without using up, for GETs that mail scanners follow. Used and expired ones are shown as such. */
  peek(database: Queryable, purpose: Purpose, token: string): Promise<PeekedToken | undefined>;
  /** The same for a token that is known by its id, for its owner's own lists. */
  peekById(database: Queryable, purpose: Purpose, id: string): Promise<PeekedToken | undefined>;
  /** What was issued last for a subject and can be used still; uses nothing up. */
  newest(database: Queryable, purpose: Purpose, subject: string): Promise<OneTimeGrant | undefined>;
  /** What was issued last for a user, also when it was used or has expired; uses nothing up. */
  latestOf(
    database: Queryable,
    purpose: Purpose,
    userId: string,
  ): Promise<OneTimeGrant | undefined>;
  /** Ends what is outstanding of these purposes for a user. */
  discard(transaction: Queryable, userId: string, purposes: readonly Purpose[]): Promise<void>;
  /** Ends what is outstanding of a purpose for the owner of this token, as far as it was issued after it. */
  discardLater(transaction: Queryable, purpose: Purpose, token: string): Promise<void>;
}

const tokenShape = /^[A-Za-z0-9_-]{43}$/;
const codeShape = /^\d{4,10}$/;

export function createOneTimeTokens({ secrets }: { readonly secrets: SecretBox }): OneTimeTokens {
  /** Codes are short: without our key a stolen table must not tell them, so a plain hash would not do. */
  const codeHash = (purpose: Purpose, keyHash: string, code: string): string =>
    secrets.digest(`${purpose}:${keyHash}:${code}`, 'authentication:one-time-code');

  return {
    async issue(transaction, request) {
      const { token = randomToken() } = request;
      const hash = sha256(token);
      const subjectHash =
        request.subject === undefined ? null : subjectKey(request.purpose, request.subject);
      const code = request.code && randomDigits(request.code.digits);
      const id = newId();
      await insertTokenRow(transaction, {
        id,
        purpose: request.purpose,
        hash,
        subjectHash,
        slot: request.replaces ? slotOf(request) : null,
        codeHash: code === undefined ? null : codeHash(request.purpose, subjectHash ?? hash, code),
        maxAttempts: request.code?.attempts ?? 1,
        userId: request.userId ?? null,
        data: request.data ?? {},
        lifetimeMs: request.lifetimeMs,
      });
      return { id, token, ...(code === undefined ? {} : { code }) };
    },
    async consume(transaction, purpose, token) {
      return tokenShape.test(token)
        ? grantOf(await consumeTokenRow(transaction, purpose, sha256(token)))
        : undefined;
    },
    async consumeCode(transaction, purpose, key, code) {
      if (!codeShape.test(code)) return undefined;
      const byToken = 'token' in key;
      if (byToken && !tokenShape.test(key.token)) return undefined;
      const keyHash = byToken ? sha256(key.token) : subjectKey(purpose, key.subject);
      return grantOf(
        await consumeCodeRow(transaction, {
          purpose,
          keyHash,
          byToken,
          codeHash: codeHash(purpose, keyHash, code),
        }),
      );
    },
    async peek(database, purpose, token) {
      return tokenShape.test(token)
        ? peeked(await tokenRow(database, purpose, sha256(token)))
        : undefined;
    },
    peekById: async (database, purpose, id) => peeked(await tokenRowById(database, purpose, id)),
    newest: async (database, purpose, subject) =>
      grantOf(await newestTokenRow(database, purpose, subjectKey(purpose, subject))),
    latestOf: async (database, purpose, userId) =>
      grantOf(await latestTokenRowOf(database, purpose, userId)),
    discard: (transaction, userId, purposes) => discardTokenRows(transaction, userId, purposes),
    discardLater: (transaction, purpose, token) =>
      discardLaterTokenRows(transaction, purpose, sha256(token)),
  };
}

function slotOf({ purpose, userId, subject }: NewOneTimeToken): string {
  if (userId !== undefined) return `${purpose}:user:${userId}`;
  if (subject !== undefined) return `${purpose}:subject:${subjectKey(purpose, subject)}`;
  throw new Error(`A one-time token (${purpose}) that replaces another needs a user or a subject`);
}

const subjectKey = (purpose: Purpose, subject: string): string => sha256(`${purpose}\n${subject}`);

/** Every number of that many digits is as likely as every other. */
const randomDigits = (digits: number): string =>
  Array.from({ length: digits }, () => randomInt(10)).join('');

const grantOf = (row: OneTimeRow | undefined): OneTimeGrant | undefined =>
  row && { userId: row.userId ?? undefined, data: row.data };

const peeked = (row: OneTimeRow | undefined): PeekedToken | undefined =>
  row && {
    id: row.id,
    userId: row.userId ?? undefined,
    data: row.data,
    usedAt: row.usedAt ?? undefined,
    expired: row.expired,
  };
