/**
 * ID tokens (OpenID Connect Core 3.1.3.7), whichever way they come: from a token endpoint, or
 * presented by an app that signed in with the provider's own SDK. One check for both, stricter than
 * that of the client library: the signature is always verified, `iat` must not lie in the future,
 * and issuers of providers with many tenants are compared exactly.
 */
import { createRemoteJWKSet, customFetch, type JWTPayload, errors as joseErrors, jwtVerify } from 'jose';
import { OutboundError, type OutboundFetch } from '../../../../kernel/outbound/fetch.ts';
import { ProviderAnswerError, readJson } from './json-answer.ts';
import { type Claims, textOf } from './profile.ts';

/** The token says something else than it must. The message names the rule, never the content. */
export class IdTokenError extends Error {
  constructor(message: string) {
    super(message);
    this.name = 'IdTokenError';
  }
}

export interface IdTokenRules {
  /** Addresses of the issuer's keys. */
  readonly keysUrl: string;
  /** Issuers that are accepted, given what the token says about its tenant. */
  readonly issuers: (claims: Claims) => readonly string[];
  /** The token must be meant for one of these clients. */
  readonly audiences: readonly string[];
  /** Present: the token must repeat it. */
  readonly nonce?: string;
}

export interface IdTokens {
  /** The claims of a token that keeps all rules. Throws `IdTokenError`, or what fetching the keys throws. */
  verify(token: string, rules: IdTokenRules): Promise<Claims>;
}

/** Asymmetric only: a public key can then never pass as a shared secret. */
const algorithms = ['RS256', 'RS384', 'RS512', 'PS256', 'PS384', 'PS512', 'ES256', 'ES384', 'ES512', 'EdDSA'];
const maxTokenLength = 16_384;
/** Clocks of providers and ours may differ by this much; seconds. */
const clockTolerance = 60;
/** How long keys are used without asking again, and the least time between two fetches; ms. */
const keyTimes = { cacheMaxAge: 10 * 60_000, cooldownDuration: 60_000 } as const;

type KeySet = ReturnType<typeof createRemoteJWKSet>;

export function createIdTokens(fetch: OutboundFetch): IdTokens {
  /** By address. Addresses come from the configuration, so there are few. */
  const keySets = new Map<string, KeySet>();

  const keySetOf = (address: string): KeySet => {
    const known = keySets.get(address);
    if (known) return known;
    const made = createRemoteJWKSet(new URL(address), {
      ...keyTimes,
      // The fetch has its own limits of time and size.
      timeoutDuration: 60_000,
      [customFetch]: async (url, { signal }) => Response.json(await readJson(fetch, url, { signal })),
    });
    keySets.set(address, made);
    return made;
  };

  return {
    async verify(token, rules) {
      if (token.length > maxTokenLength) throw new IdTokenError('it is too long');
      const claims = await signedClaims(token, keySetOf(rules.keysUrl), rules);
      requireIssuer(claims, rules);
      return claims;
    },
  };
}

/** Signature, times, audience and subject, by the library. */
async function signedClaims(token: string, keys: KeySet, { audiences }: IdTokenRules): Promise<JWTPayload> {
  try {
    const { payload } = await jwtVerify(token, keys, {
      algorithms,
      audience: [...audiences],
      clockTolerance,
      requiredClaims: ['exp', 'iat', 'iss', 'sub'],
    });
    return payload;
  } catch (error) {
    // Keys that cannot be fetched are the provider's failure, not the token's.
    if (error instanceof OutboundError || error instanceof ProviderAnswerError) throw error;
    throw new IdTokenError(ruleOf(error));
  }
}

function ruleOf(error: unknown): string {
  if (error instanceof joseErrors.JWTExpired) return 'it has expired';
  if (error instanceof joseErrors.JWTClaimValidationFailed) return `its claim "${error.claim}" is missing or not valid`;
  if (error instanceof joseErrors.JOSEAlgNotAllowed) return 'its algorithm is not accepted';
  // Without a key id that decides, the choice must not be the token's.
  if (error instanceof joseErrors.JWKSNoMatchingKey || error instanceof joseErrors.JWKSMultipleMatchingKeys)
    return 'it is signed by no key of the issuer';
  return 'it is not a token with a valid signature';
}

/** What the library cannot know: tenants, the nonce of the sign-in, the party that a shared token was issued to. */
function requireIssuer(claims: JWTPayload, { issuers, audiences, nonce }: IdTokenRules): void {
  const now = Date.now() / 1000;
  if (typeof claims.iat !== 'number' || claims.iat > now + clockTolerance) throw new IdTokenError('it was issued in the future');
  if (claims.iss === undefined || !issuers(claims).includes(claims.iss)) throw new IdTokenError('another issuer made it');
  if (nonce !== undefined && claims.nonce !== nonce) throw new IdTokenError('it belongs to another sign-in (nonce)');
  if (textOf(claims, 'sub') === undefined) throw new IdTokenError('it names no subject');
  const { azp } = claims;
  const shared = Array.isArray(claims.aud) && claims.aud.length > 1;
  if (shared && !(typeof azp === 'string' && audiences.includes(azp))) throw new IdTokenError('it was made for another client');
}
