/**
 * The tokens of an admin login: JWT, HS256, claims `id`, `sv`, `iat`, `exp`. The
 * key is derived from the platform's data key: every node has it, no
 * configuration shows it, nobody can set it.
 */
import { createSigner, createVerifier, TokenError } from 'fast-jwt';
import type { SecretBox } from '../../../kernel/security/secret-box.ts';
import { randomToken } from '../../../kernel/security/tokens.ts';
import { coreErrors } from '../errors.ts';

/** Seconds within which the second factor must follow the password. */
export const secondFactorSeconds = 60;

export interface TokenClaims {
  readonly id: string;
  /** Session version of the admin at the time of the login. */
  readonly sv: number;
  /** Set while the second factor is owed; such a token opens `/verify-twofa` only. */
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
    secondFactor: (id, sv) => issue({ id, sv, twoFaRequired: true, jti: randomToken(12) }, secondFactorSeconds),
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
