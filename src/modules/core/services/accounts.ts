/** The admins behind credentials, read through a cache that every change empties on every node before it answers. */

import type { Caches } from '../../../kernel/cache/cache.ts';
import type { AdminCaller } from '../../../kernel/caller.ts';
import type { Database, Transaction } from '../../../kernel/database/database.ts';
import { type AdminRow, findAdmin } from '../queries/admins.ts';
import { masterPrincipalName } from './names.ts';

export interface Accounts {
  /** The admin with this id; without a promise when it is cached. */
  get(id: string): AdminRow | undefined | Promise<AdminRow | undefined>;
  /** Runs a change of one admin; afterwards no node answers with what was before. */
  change<T>(id: string, work: (transaction: Transaction) => Promise<T>): Promise<T>;
}

/** An upper bound for how long a node that lost its peers unnoticed may be wrong. */
const TTL_MS = 30_000;

export function createAccounts(database: Database, caches: Caches): Accounts {
  const cache = caches.create<AdminRow>({ name: 'core.admins', maxEntries: 1_000, ttlMs: TTL_MS });
  return {
    get: (id) => cache.get(id) ?? cache.load(id, () => findAdmin(database, id)),
    change: (id, work) =>
      database.transaction(async (transaction) => {
        const result = await work(transaction);
        transaction.afterCommit(() => cache.invalidate([id]));
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

export const callerOf = (admin: AdminRow, { via, tokenId, tokenPrefix, scopes, enforcePasswordChange }: Proof): AdminCaller => ({
  kind: 'admin',
  via,
  adminId: admin.id,
  username: admin.username,
  isSuperAdmin: admin.isSuperAdmin,
  ...(tokenId === undefined ? {} : { tokenId }),
  ...(tokenPrefix === undefined ? {} : { tokenPrefix }),
  ...(scopes ? { scopes } : {}),
  ...(admin.mustChangePassword && enforcePasswordChange ? { mustChangePassword: true } : {}),
});
