/** The admins behind credentials, read through a cache that every change empties on every node before it answers. */
import type { Kernel } from '../../../host/kernel.ts';
import type { AdminCaller } from '../../../kernel/caller.ts';
import type { Transaction } from '../../../kernel/database/database.ts';
import { invalid } from '../../../kernel/errors.ts';
import type { Identity } from '../../../kernel/identity.ts';
import { isCommonPassword } from '../../../kernel/security/password-hasher.ts';
import { type AdminRow, findAdmin } from '../queries/admins.ts';

/* User names and passwords of admins: one canonical form, and what is refused. */

/** Characters. ASVS 6.2.1 asks for at least 8. */
export const minPasswordLength = 8;
/** Characters. Enough for any passphrase, and a bound on the work of hashing. */
export const maxPasswordLength = 1_024;
/** Characters. */
export const maxUsernameLength = 128;

/** The name that the master key acts under; nobody can be created with it. */
const masterPrincipalName = 'masterkey';

/** How a name is stored. */
export const canonicalUsername = (username: string): string => username.normalize('NFKC').trim();

/** How names are compared: without case, and look-alike forms as one. */
export const usernameKey = (username: string): string => canonicalUsername(username).toLowerCase();

/** Throws 400 when nobody may have this name. */
export function checkUsername(username: string): void {
  const name = canonicalUsername(username);
  if (name === '') throw invalid('username', 'minLength', 'must not be empty');
  if (name.length > maxUsernameLength)
    throw invalid('username', 'maxLength', `must have at most ${maxUsernameLength} characters`);
  if (/[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/u.test(name))
    throw invalid('username', 'characters', 'must not hold control characters');
  if (usernameKey(name) === masterPrincipalName)
    throw invalid('username', 'reserved', 'is reserved for the master key');
}

/** Throws 400 when this is no password for that admin. `path` names the input field. */
export function checkPassword(path: string, password: string, username: string): void {
  const characters = [...password].length;
  if (characters < minPasswordLength)
    throw invalid(path, 'minLength', `must have at least ${minPasswordLength} characters`);
  if (characters > maxPasswordLength)
    throw invalid(path, 'maxLength', `must have at most ${maxPasswordLength} characters`);
  if (usernameKey(password) === usernameKey(username))
    throw invalid(path, 'username', 'must not be the user name');
  if (isCommonPassword(password))
    throw invalid(path, 'common', 'is one of the most used passwords: choose another one');
}

export interface Accounts {
  /** The admin with this id; without a promise when it is cached. */
  get(id: string): AdminRow | undefined | Promise<AdminRow | undefined>;
  /**
   * Runs a change of one admin that ends their sessions or takes rights from them; afterwards no node answers with what
   * was before, and they act as no user any more.
   */
  change<T>(id: string, work: (transaction: Transaction) => Promise<T>): Promise<T>;
}

/** An upper bound for how long a node that lost its peers unnoticed may be wrong. */
const TTL_MS = 30_000;

interface Dependencies extends Pick<Kernel, 'database' | 'caches'> {
  /** Of the client surface; none while nobody signs in there. */
  readonly identity: Pick<Identity, 'client'>;
}

export function createAccounts({ database, caches, identity }: Dependencies): Accounts {
  const cache = caches.create<AdminRow>({ name: 'core.admins', maxEntries: 1_000, ttlMs: TTL_MS });
  return {
    get: (id) => cache.get(id) ?? cache.load(id, () => findAdmin(database, id)),
    change: (id, work) =>
      database.transaction(async (transaction) => {
        const result = await work(transaction);
        await identity.client?.endImpersonations?.(transaction, id);
        transaction.afterCommit(() => cache.invalidate([id]), { alsoInDoubt: true });
        return result;
      }),
  };
}

/** The master key as a caller: an operator without an account. */
export const masterPrincipal: AdminCaller = Object.freeze({
  kind: 'admin',
  via: 'masterkey',
  adminId: masterPrincipalName,
  username: masterPrincipalName,
  isSuperAdmin: true,
});

/** What the caller of a stored admin is made from, beside the admin. */
export interface Proof {
  readonly via: 'jwt' | 'token';
  readonly tokenId?: string;
  readonly tokenPrefix?: string;
  /** `null`: everything. */
  readonly scopes?: readonly string[] | null;
  /** The first password must go before anything else; only outside of development. */
  readonly enforcePasswordChange: boolean;
}

export const callerOf = (
  admin: AdminRow,
  { via, tokenId, tokenPrefix, scopes, enforcePasswordChange }: Proof,
): AdminCaller => ({
  kind: 'admin',
  via,
  adminId: admin.id,
  username: admin.username,
  isSuperAdmin: admin.isSuperAdmin,
  ...(via === 'jwt' ? { sessionVersion: admin.sessionVersion } : {}),
  ...(tokenId === undefined ? {} : { tokenId }),
  ...(tokenPrefix === undefined ? {} : { tokenPrefix }),
  ...(scopes ? { scopes } : {}),
  ...(admin.mustChangePassword && enforcePasswordChange ? { mustChangePassword: true } : {}),
});
