/** API tokens (`cdt_...`): long-lived credentials for automation, of an admin or of the master key. */
import { hash, timingSafeEqual } from 'node:crypto';
import { LRUCache } from 'lru-cache';
import { requireAuthority } from '../../../kernel/authority.ts';
import type { Caches } from '../../../kernel/cache.ts';
import type { AdminCaller } from '../../../kernel/caller.ts';
import type { Database, Queryable } from '../../../kernel/database/database.ts';
import { errors, invalid } from '../../../kernel/errors.ts';
import type { Identity } from '../../../kernel/identity.ts';
import { newId } from '../../../kernel/ids.ts';
import type { SecretBox } from '../../../kernel/security/secret-box.ts';
import { randomToken } from '../../../kernel/security/tokens.ts';
import type { Logger } from '../../../kernel/telemetry/logger.ts';
import { coreErrors } from '../errors.ts';
import * as queries from '../queries/api-tokens.ts';
import { masterPrincipal } from './accounts.ts';
import { holdCredential } from './held-credentials.ts';

/** Of every API token; tells it from an admin JWT. */
export const apiTokenStart = 'cdt_';
/** `cdt_` and 8 characters: shown in lists, unique, how a token is found. */
const PREFIX_LENGTH = 12;
const tokenForm = /^cdt_[A-Za-z0-9_-]{43}$/;
/** How long a node answers from memory; a revocation empties it at once. */
const CACHE_MS = 30_000;
/** The last use is written down at most this often per token. */
const TOUCH_MS = 60_000;
const MS_PER_DAY = 86_400_000;
/** A collision of prefixes has a chance of 1 in 2.8e14 per pair of tokens. */
const PREFIX_ATTEMPTS = 5;

/** What a new token should be. */
export interface NewApiToken {
  readonly name: string;
  readonly expiresInDays?: number | undefined;
  /** `read`, `write`, names of modules; everything that the caller may do unless given. */
  readonly scopes?: readonly string[] | undefined;
}

export interface MintedToken {
  readonly id: string;
  readonly name: string;
  readonly token: string;
  readonly scopes: readonly string[] | null;
  readonly expiresAt: Date | null;
  readonly createdAt: Date;
}

/** A token that was found and is in force. */
export interface LiveApiToken {
  readonly id: string;
  /** `null`: of the master key. */
  readonly adminId: string | null;
  readonly tokenPrefix: string;
  /** `null`: everything. */
  readonly scopes: readonly string[] | null;
}

export interface ApiTokens {
  /** The token is in the answer and nowhere else. */
  create(caller: AdminCaller, input: NewApiToken): Promise<MintedToken>;
  /** The caller's own tokens; with `all` (master key only) everybody's. */
  list(caller: AdminCaller, all: boolean): Promise<readonly queries.ApiTokenRow[]>;
  /** Ends what its operator does as users, too. A narrow token takes back itself, and no others. */
  revoke(caller: AdminCaller, id: string, all: boolean): Promise<void>;
  /** A new token in place of one of the caller's own: the same name and scopes, and no later end. Throws 403, 404. */
  renew(caller: AdminCaller, id: string): Promise<MintedToken>;
  /** The token behind a credential; without a promise when it is cached. Throws 401. */
  find(token: string): LiveApiToken | Promise<LiveApiToken>;
}

export interface ApiTokensOptions {
  readonly database: Database;
  readonly caches: Caches;
  readonly secrets: SecretBox;
  readonly log: Logger;
  /** Of the client surface; none while nobody signs in there. */
  readonly identity: Pick<Identity, 'client'>;
}

export function createApiTokens({
  database,
  caches,
  secrets,
  log,
  identity,
}: ApiTokensOptions): ApiTokens {
  const cache = caches.create<queries.StoredApiToken>({
    name: 'core.api-tokens',
    maxEntries: 5_000,
    ttlMs: CACHE_MS,
  });
  const digestOf = (token: string): string => secrets.digest(token, 'core:api-token');

  const touch = createUseNotes({ database, log });
  const prove = createProver(digestOf);
  const inForce = (found: queries.StoredApiToken): LiveApiToken => {
    if (found.expiresAt !== null && found.expiresAt.getTime() <= Date.now())
      throw coreErrors.ADMIN_TOKEN_EXPIRED();
    touch(found.id);
    return found;
  };

  const revoke = (id: string, owner: queries.TokenOwner): Promise<void> =>
    database.transaction(async (transaction) => {
      const gone = await queries.deleteApiToken(transaction, id, owner);
      if (!gone) throw coreErrors.API_TOKEN_NOT_FOUND();
      // A session does not know with which credential it was opened: all of this operator end.
      const operator = gone.adminId ?? masterPrincipal.adminId;
      await identity.client?.endImpersonations?.(transaction, operator);
      transaction.afterCommit(() => cache.invalidate([gone.tokenPrefix]), { alsoInDoubt: true });
    });

  return {
    create: async (caller, input) => {
      requireAuthority(caller, { kind: 'credentials' });
      return mint(database, digestOf, caller, input);
    },
    list: (caller, all) => queries.listApiTokens(database, ownerOf(caller, all)),
    revoke: async (caller, id, all) => revoke(id, revocableOf(caller, id, all)),
    renew: (caller, id) =>
      database.transaction(async (transaction) => {
        requireAuthority(caller, { kind: 'credentials' });
        // A token that renews itself is taken back below, by one of those who try.
        const { tokenId, ...others } = caller;
        await holdCredential(transaction, tokenId === id ? others : caller);
        const known = (await queries.listApiTokens(database, ownerOf(caller, false))).find(
          (row) => row.id === id,
        );
        if (!known) throw coreErrors.API_TOKEN_NOT_FOUND();
        await revoke(id, known.adminId);
        const expiresAt = earlier(known.expiresAt, await expiryOf(database, caller, undefined));
        return insert(database, digestOf, { ...known, expiresAt });
      }),
    find(token) {
      if (!tokenForm.test(token)) throw coreErrors.ADMIN_TOKEN_INVALID();
      const prefix = token.slice(0, PREFIX_LENGTH);
      const known = cache.get(prefix);
      if (known) return inForce(prove(token, known));
      return cache
        .load(prefix, () => queries.findApiToken(database, prefix))
        .then((stored) => inForce(prove(token, stored)));
    },
  };
}

/** Notes now and then that a token was used. */
function createUseNotes({ database, log }: Pick<ApiTokensOptions, 'database' | 'log'>) {
  const touched = new LRUCache<string, true>({ max: 5_000, ttl: TOUCH_MS });
  return (id: string): void => {
    if (touched.has(id)) return;
    touched.set(id, true);
    queries
      .noteApiTokenUse(database, id)
      .catch((error: unknown) => log.warn({ err: error }, 'the use of an API token was not noted'));
  };
}

/** Throws 401 unless the token is the stored one. The keyed digest is computed once per token and node. */
function createProver(digestOf: (token: string) => string) {
  /** SHA-256 of the token that a stored one was proven with. */
  const proven = new WeakMap<queries.StoredApiToken, Buffer>();
  return (token: string, stored: queries.StoredApiToken | undefined): queries.StoredApiToken => {
    if (!stored) throw coreErrors.ADMIN_TOKEN_INVALID();
    const fingerprint = hash('sha256', token, 'buffer');
    const known = proven.get(stored);
    if (known && timingSafeEqual(known, fingerprint)) return stored;
    if (!timingSafeEqual(Buffer.from(stored.digest), Buffer.from(digestOf(token))))
      throw coreErrors.ADMIN_TOKEN_INVALID();
    proven.set(stored, fingerprint);
    return stored;
  };
}

/** Whose tokens a caller sees. Only the master key may ask for everybody's. */
function ownerOf(caller: AdminCaller, all: boolean): queries.TokenOwner {
  const isMaster = caller.adminId === masterPrincipal.adminId;
  if (all && !isMaster)
    throw errors.FORBIDDEN({ message: 'Only the master key may see the API tokens of all admins' });
  if (all) return 'all';
  return isMaster ? null : caller.adminId;
}

/** Whose tokens a caller may revoke: a narrow token only itself. Throws 403. */
function revocableOf(caller: AdminCaller, id: string, all: boolean): queries.TokenOwner {
  if (id !== caller.tokenId) requireAuthority(caller, { kind: 'credentials' });
  return ownerOf(caller, all);
}

async function mint(
  database: Database,
  digestOf: (token: string) => string,
  caller: AdminCaller,
  input: NewApiToken,
): Promise<MintedToken> {
  const name = input.name.trim();
  if (name === '') throw invalid('name', 'minLength', 'must not be empty');
  const adminId = caller.adminId === masterPrincipal.adminId ? null : caller.adminId;
  const scopes = scopesOf(input.scopes);
  return database.transaction(async (transaction) => {
    await holdCredential(transaction, caller);
    const expiresAt = await expiryOf(transaction, caller, input.expiresInDays);
    return insert(transaction, digestOf, { name, adminId, scopes, expiresAt });
  });
}

async function insert(
  database: Queryable,
  digestOf: (token: string) => string,
  {
    name,
    adminId,
    scopes,
    expiresAt,
  }: Pick<queries.NewApiTokenRow, 'name' | 'adminId' | 'scopes' | 'expiresAt'>,
): Promise<MintedToken> {
  for (let attempt = 1; attempt <= PREFIX_ATTEMPTS; attempt += 1) {
    const token = apiTokenStart + randomToken();
    const row = {
      id: newId(),
      name,
      adminId,
      digest: digestOf(token),
      tokenPrefix: token.slice(0, PREFIX_LENGTH),
      scopes,
      expiresAt,
    };
    const createdAt = await queries.insertApiToken(database, row);
    if (createdAt) return { id: row.id, name, token, scopes, expiresAt, createdAt };
  }
  throw new Error('No free prefix was found for an API token');
}

/** None are all: only callers without scopes make tokens. */
const scopesOf = (requested: readonly string[] | undefined): readonly string[] | null =>
  requested && requested.length > 0 ? [...new Set(requested)] : null;

/** A token that is made with a token does not outlive it. */
async function expiryOf(
  database: Queryable,
  caller: AdminCaller,
  days: number | undefined,
): Promise<Date | null> {
  const requested = days === undefined ? null : new Date(Date.now() + days * MS_PER_DAY);
  const bound =
    caller.tokenId === undefined ? null : await queries.apiTokenExpiry(database, caller.tokenId);
  return earlier(requested, bound);
}

/** `null`: never. */
const earlier = (a: Date | null, b: Date | null): Date | null =>
  a === null || b === null ? (a ?? b) : new Date(Math.min(a.getTime(), b.getTime()));
