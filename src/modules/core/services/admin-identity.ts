/** Who calls the admin surface: any one of three credentials (spec/core.md 2.2). Decided here and nowhere else. */

import { createHash, timingSafeEqual } from 'node:crypto';
import { createSigner, createVerifier, TokenError } from 'fast-jwt';
import { type AdminCaller, addressKey } from '../../../kernel/caller.ts';
import type { AdminIdentity, PresentedCredentials } from '../../../kernel/identity.ts';
import { attemptsExhausted } from '../../../kernel/limits/durable-limits.ts';
import { createLru } from '../../../kernel/lru.ts';
import type { SecretBox } from '../../../kernel/security/secret-box.ts';
import { randomToken } from '../../../kernel/security/tokens.ts';
import { coreErrors } from '../errors.ts';
import type { AdminRow } from '../queries/admins.ts';
import { type Accounts, callerOf, masterPrincipal } from './accounts.ts';
import { type ApiTokens, apiTokenStart, type LiveApiToken } from './api-tokens.ts';
import type { FailureQuotas } from './failure-quotas.ts';
import { holdCredential } from './held-credentials.ts';

/* The master key: compared by digest in constant time, guesses limited per address. */

/** Nothing when the key is right; otherwise throws, or rejects with, 401 or 429. */
export type MasterKeyCheck = (presented: string, address: string) => undefined | Promise<never>;

const digest = (text: string): Buffer => createHash('sha256').update(text).digest();

/**
 * `keys`: the key in force and, during a rotation, the one before. An address that used up its
 * quota is refused without a look at the key; that it did is remembered on this node, so that a
 * right key costs no question to the limits.
 */
export function createMasterKeyCheck(
  keys: readonly string[],
  quotas: FailureQuotas,
): MasterKeyCheck {
  const digests = keys.map(digest);
  /** Address to the time, on the clock of `performance.now()`, until which it is refused. */
  const refusedUntil = createLru<string, number>(10_000);

  const matches = (presented: string): boolean => {
    const given = digest(presented);
    return digests.reduce((found, key) => timingSafeEqual(key, given) || found, false);
  };
  const fail = async (address: string): Promise<never> => {
    const state = await quotas.masterKeyFailed(address);
    if (state.allowed) throw coreErrors.MASTER_KEY_INVALID();
    refusedUntil.set(addressKey(address), performance.now() + state.resetMs);
    throw attemptsExhausted(state.resetMs);
  };

  return (presented, address) => {
    const wait =
      refusedUntil.size === 0
        ? 0
        : (refusedUntil.get(addressKey(address)) ?? 0) - performance.now();
    if (wait > 0) throw attemptsExhausted(wait);
    return matches(presented) ? undefined : fail(address);
  };
}

/*
 * The tokens of an admin login: JWT, HS256, claims `id`, `sv`, `iat`, `exp`. The
 * key is derived from the platform's data key: every node has it, no
 * configuration shows it, nobody can set it.
 */

/** Seconds within which the second factor must follow the password. */
export const secondFactorSeconds = 60;

export interface TokenClaims {
  readonly id: string;
  /** Session version of the admin at the time of the login. */
  readonly sv: number;
  /** Set while the second factor is pending; such a token opens `/verify-twofa` only. */
  readonly twoFaRequired?: true;
}

export interface AdminTokens {
  session(id: string, sessionVersion: number, lifetimeSeconds: number): string;
  secondFactor(id: string, sessionVersion: number): string;
  /** Signature, algorithm, expiry and shape. Throws 401. */
  verify(token: string): TokenClaims;
}

export function createAdminTokens(secrets: SecretBox): AdminTokens {
  const key = secrets.digest('HS256', 'core:admin-token-key');
  const sign = createSigner({ key, algorithm: 'HS256' });
  const verify = createVerifier({ key, algorithms: ['HS256'], cache: 1_000 });
  const issue = (claims: object, lifetimeSeconds: number): string => {
    const iat = Math.floor(Date.now() / 1000);
    return sign({ ...claims, iat, exp: iat + lifetimeSeconds });
  };
  return {
    session: (id, sv, lifetimeSeconds) => issue({ id, sv }, lifetimeSeconds),
    // Wrong codes count per token, so no two logins may share one.
    secondFactor: (id, sv) =>
      issue({ id, sv, twoFaRequired: true, jti: randomToken(12) }, secondFactorSeconds),
    verify(token) {
      let claims: unknown;
      try {
        claims = verify(token);
      } catch (error) {
        const expired = error instanceof TokenError && error.code === TokenError.codes.expired;
        throw expired ? coreErrors.ADMIN_TOKEN_EXPIRED() : coreErrors.ADMIN_TOKEN_INVALID();
      }
      if (!isClaims(claims)) throw coreErrors.ADMIN_TOKEN_INVALID();
      return claims;
    },
  };
}

function isClaims(value: unknown): value is TokenClaims {
  if (typeof value !== 'object' || value === null) return false;
  const { id, sv, exp } = value as Record<string, unknown>;
  return typeof id === 'string' && Number.isInteger(sv) && typeof exp === 'number';
}

export interface IdentityOptions {
  readonly accounts: Accounts;
  readonly tokens: AdminTokens;
  readonly apiTokens: ApiTokens;
  readonly checkMasterKey: MasterKeyCheck;
  /** `gate`: the master key must accompany an admin's token, and opens nothing alone but `/login`. */
  readonly masterKeyMode: () => 'credential' | 'gate';
  readonly enforcePasswordChange: () => boolean;
}

type Answer = AdminCaller | Promise<AdminCaller>;

const then = <A, B>(value: A | Promise<A>, next: (value: A) => B | Promise<B>): B | Promise<B> =>
  value instanceof Promise ? value.then(next) : next(value);

/** Answers without a promise when everything that it needs is cached. */
export function createAdminIdentity(options: IdentityOptions): AdminIdentity {
  const { accounts, tokens, apiTokens, checkMasterKey, enforcePasswordChange } = options;

  const byApiToken = ({ id, adminId, tokenPrefix, scopes }: LiveApiToken): Answer => {
    if (adminId === null)
      return {
        ...masterPrincipal,
        via: 'token',
        tokenId: id,
        tokenPrefix,
        ...(scopes ? { scopes } : {}),
      };
    return then(accounts.get(adminId), (found) =>
      callerOf(usable(found), {
        via: 'token',
        tokenId: id,
        tokenPrefix,
        scopes,
        enforcePasswordChange: enforcePasswordChange(),
      }),
    );
  };
  const byToken = (token: string, masterKeyGiven: boolean): Answer => {
    if (token.startsWith(apiTokenStart)) return then(apiTokens.find(token), byApiToken);
    if (options.masterKeyMode() === 'gate' && !masterKeyGiven)
      throw coreErrors.MASTER_KEY_INVALID();
    return bySession(options, tokens.verify(token));
  };
  const byMasterKey = (): AdminCaller => {
    if (options.masterKeyMode() === 'gate') throw coreErrors.ADMIN_TOKEN_MISSING();
    return masterPrincipal;
  };

  return {
    holdCredential,
    authenticate(credentials) {
      const { masterKey, address } = credentials;
      if (masterKey !== undefined) {
        const refused = checkMasterKey(masterKey, address);
        if (refused) return refused;
      }
      const token = tokenOf(credentials);
      if (token !== undefined) return byToken(token, masterKey !== undefined);
      if (masterKey !== undefined) return byMasterKey();
      throw coreErrors.ADMIN_CREDENTIAL_MISSING({ headers: { 'www-authenticate': 'Bearer' } });
    },
    async masterKey({ masterKey, address }) {
      if (masterKey === undefined)
        throw coreErrors.MASTER_KEY_INVALID({
          message: 'This needs the master key in the masterkey header',
        });
      await checkMasterKey(masterKey, address);
      return masterPrincipal;
    },
  };
}

function bySession(
  { accounts, enforcePasswordChange }: IdentityOptions,
  claims: TokenClaims,
): Answer {
  if (claims.twoFaRequired) throw coreErrors.SECOND_FACTOR_REQUIRED();
  return then(accounts.get(claims.id), (found) => {
    const admin = usable(found);
    if (admin.sessionVersion !== claims.sv)
      throw coreErrors.ADMIN_TOKEN_EXPIRED({ message: 'This session has ended: sign in again' });
    return callerOf(admin, { via: 'jwt', enforcePasswordChange: enforcePasswordChange() });
  });
}

/** The token of the Authorization header, or of `credential`, which carries API tokens only. */
function tokenOf({ bearer, apiToken }: PresentedCredentials): string | undefined {
  if (apiToken === undefined) return bearer;
  if (!apiToken.startsWith(apiTokenStart)) throw coreErrors.ADMIN_TOKEN_INVALID();
  if (bearer !== undefined && bearer !== apiToken) {
    throw coreErrors.ADMIN_TOKEN_INVALID({
      message: 'Send one token: in Authorization or in credential, not two different ones',
    });
  }
  return apiToken;
}

function usable(admin: AdminRow | undefined): AdminRow {
  if (!admin?.active) throw coreErrors.ADMIN_UNKNOWN();
  return admin;
}
