/**
 * ID tokens (OpenID Connect Core 3.1.3.7), whichever way they come: from a token endpoint, or presented by an
 * app that signed in with the provider's own SDK. One check for both, stricter than that of the client
 * library: the signature is always verified, `iat` must not lie in the future, and issuers of
 * providers with many tenants are compared exactly.
 */
import { createDecoder, createVerifier } from 'fast-jwt';
import type { KeySets, VerificationKey } from './key-sets.ts';
import { type Claims, isClaims, textOf } from './profile.ts';

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

/** Asymmetric only: a public key can then never pass as a shared secret. */
const algorithms = ['RS256', 'RS384', 'RS512', 'PS256', 'PS384', 'PS512', 'ES256', 'ES384', 'ES512', 'EdDSA'] as const;
type SigningAlgorithm = (typeof algorithms)[number];

/** What kind of key an algorithm works with (`asymmetricKeyType` of Node, and the curve). */
const keyKinds: Readonly<Record<SigningAlgorithm, readonly [type: string, curve?: string]>> = {
  RS256: ['rsa'],
  RS384: ['rsa'],
  RS512: ['rsa'],
  PS256: ['rsa'],
  PS384: ['rsa'],
  PS512: ['rsa'],
  ES256: ['ec', 'prime256v1'],
  ES384: ['ec', 'secp384r1'],
  ES512: ['ec', 'secp521r1'],
  EdDSA: ['ed25519'],
};

const maxTokenLength = 16_384;
/** Clocks of providers and ours may differ by this much; ms. */
const clockToleranceMs = 60_000;
const decode = createDecoder({ complete: true }) as (token: string) => { readonly header: Claims; readonly payload: unknown };

export interface IdTokens {
  /** The claims of a token that keeps all rules. Throws `IdTokenError`, or what fetching the keys throws. */
  verify(token: string, rules: IdTokenRules): Promise<Claims>;
}

export const createIdTokens = (keySets: KeySets): IdTokens => ({
  async verify(token, rules) {
    const { alg, kid } = headerOf(token);
    const fits = (key: VerificationKey): boolean => isFor(key, alg) && (kid === undefined || key.kid === kid);
    const known = (await keySets.keys(rules.keysUrl)).filter(fits);
    const candidates = known.length > 0 ? known : (await keySets.keys(rules.keysUrl, true)).filter(fits);
    // Without a key id the choice must not be the token's.
    const [candidate, ...more] = candidates;
    if (!candidate || more.length > 0) throw new IdTokenError('it is signed by no key of the issuer');
    const claims = signedClaims(token, alg, candidate);
    requireClaims(claims, rules);
    return claims;
  },
});

function headerOf(token: string): { readonly alg: SigningAlgorithm; readonly kid: string | undefined } {
  if (token.length > maxTokenLength) throw new IdTokenError('it is too long');
  const header = attempt(() => decode(token).header, 'it is not a signed token');
  const alg = algorithms.find((one) => one === header.alg);
  if (!alg) throw new IdTokenError('its algorithm is not accepted');
  if (Object.hasOwn(header, 'crit')) throw new IdTokenError('it needs an extension that is not known');
  return { alg, kid: textOf(header, 'kid') };
}

function isFor({ alg, key }: VerificationKey, wanted: SigningAlgorithm): boolean {
  if (alg !== undefined && alg !== wanted) return false;
  const [type, curve] = keyKinds[wanted];
  return key.asymmetricKeyType === type && (curve === undefined || key.asymmetricKeyDetails?.namedCurve === curve);
}

/** Signature, `exp` and `nbf`. */
function signedClaims(token: string, alg: SigningAlgorithm, { key }: VerificationKey): Claims {
  const pem = key.export({ format: 'pem', type: 'spki' }).toString();
  const verify = createVerifier({ key: pem, algorithms: [alg], clockTolerance: clockToleranceMs, cache: false }) as (
    text: string,
  ) => unknown;
  const claims = attempt(() => verify(token), 'its signature or its time is not valid');
  if (!isClaims(claims)) throw new IdTokenError('it holds no claims');
  return claims;
}

function requireClaims(claims: Claims, { issuers, audiences, nonce }: IdTokenRules): void {
  if (typeof claims.exp !== 'number' || typeof claims.iat !== 'number') throw new IdTokenError('it has no times');
  if (claims.iat * 1000 > Date.now() + clockToleranceMs) throw new IdTokenError('it was issued in the future');
  if (typeof claims.iss !== 'string' || !issuers(claims).includes(claims.iss)) throw new IdTokenError('another issuer made it');
  requireAudience(claims, audiences);
  if (nonce !== undefined && claims.nonce !== nonce) throw new IdTokenError('it belongs to another sign-in (nonce)');
  if (textOf(claims, 'sub') === undefined) throw new IdTokenError('it names no subject');
}

/** One of ours; with further audiences beside it, ours must also be the party that it was issued to (`azp`). */
function requireAudience({ aud, azp }: Claims, audiences: readonly string[]): void {
  const list: readonly unknown[] = Array.isArray(aud) ? aud : [aud];
  const ours = list.filter((one) => typeof one === 'string' && audiences.includes(one));
  const issuedToUs = list.length === 1 || (typeof azp === 'string' && audiences.includes(azp));
  if (ours.length === 0 || !issuedToUs) throw new IdTokenError('it was made for another client');
}

function attempt<T>(work: () => T, failure: string): T {
  try {
    return work();
  } catch {
    throw new IdTokenError(failure);
  }
}
