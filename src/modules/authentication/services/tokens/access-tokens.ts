/**
 * Access tokens: signed statements about a session (RFC 9068 type `at+jwt`). They are believed only
 * together with the session's present state, which `identity.ts` adds. Algorithm and issuer belong to
 * the key, and are never read from the token.
 */
import { createSigner, createVerifier } from 'fast-jwt';
import type { UserCaller } from '../../../../kernel/caller.ts';
import { createLru } from '../../../../kernel/lru.ts';
import type { SigningKeys, VerifyingKey } from './signing-keys.ts';

/** What a token says. Times are in ms since the epoch, whole seconds in the token itself. */
export interface AccessGrant {
  readonly tokenId: string;
  readonly userId: string;
  readonly sessionId: string;
  readonly clientId: string;
  readonly authenticatedAt: number;
  /** False while a second factor is pending. */
  readonly complete: boolean;
  readonly issuedAt: number;
  readonly expiresAt: number;
  /** Id of the admin who acts as the user. */
  readonly impersonatedBy?: string | null;
  /** What hooks say, under one claim of their own. */
  readonly claims?: Readonly<Record<string, unknown>> | null;
}

export interface VerifiedToken {
  readonly caller: UserCaller;
  /** Ms since the epoch. */
  readonly expiresAt: number;
}

export interface AccessTokens {
  /** Signs. The same grant gives the same text, but for ES256, whose signatures differ each time. */
  issue(grant: AccessGrant, sudoMaxAgeMs: number): string;
  /**
   * What the token proves, or nothing when it proves nothing. `unknownKey` when it names a key that
   * is not known here and might be known after a refresh.
   */
  verify(token: string): VerifiedToken | 'unknownKey' | undefined;
}

const audience = 'client';
const type = 'at+jwt';
/** Longer texts are none of ours and are not even decoded. */
const maxTokenLength = 3072;
const keyIdShape = /^[A-Za-z0-9_-]{43}$/;
/** Tokens whose signature was checked; each is kept whole and compared, so no two can be confused. */
const maxVerified = 20_000;
/** Characters of a token, from its end, that it is found by. They belong to the signature. */
const KEY_LENGTH = 32;

interface SeenToken {
  readonly token: string;
  readonly result: VerifiedToken;
}

interface Payload {
  readonly sub: string;
  readonly sid: string;
  readonly client_id: string;
  readonly authorized: boolean;
  readonly auth_time: number;
  readonly exp: number;
  readonly act?: { readonly sub: string };
}

export function createAccessTokens(keys: SigningKeys): AccessTokens {
  /** By the ends of the tokens: looking one up by its whole text would read all of it, on each request. */
  const verified = createLru<string, SeenToken>(maxVerified);
  const verifiers = new Map<string, (token: string) => Payload>();
  let signer:
    | { readonly kid: string; readonly sign: (payload: Record<string, unknown>) => string }
    | undefined;

  keys.onChange(() => {
    verified.clear();
    verifiers.clear();
    signer = undefined;
  });

  const sign = (payload: Record<string, unknown>): string => {
    const { kid, privatePem, algorithm, issuer } = keys.signing();
    if (signer?.kid !== kid)
      signer = {
        kid,
        sign: createSigner({
          key: privatePem,
          algorithm,
          kid,
          iss: issuer,
          header: { alg: algorithm, typ: type },
        }),
      };
    return signer.sign(payload);
  };

  const verifierOf = (kid: string): ((token: string) => Payload) | undefined => {
    const made = verifiers.get(kid);
    const key = made ? undefined : keys.verifying(kid);
    if (made || key === undefined) return made;
    const verifier = verifierFor(key);
    verifiers.set(kid, verifier);
    return verifier;
  };

  return {
    issue: (grant, sudoMaxAgeMs) => sign(payloadOf(grant, sudoMaxAgeMs)),
    verify(token) {
      const end = token.slice(-KEY_LENGTH);
      const seen = verified.get(end);
      if (seen && seen.token === token) {
        if (seen.result.expiresAt > Date.now()) return seen.result;
        verified.delete(end);
        return undefined;
      }
      const kid = keyIdOf(token);
      if (kid === undefined) return undefined;
      const verifier = verifierOf(kid);
      if (!verifier) return 'unknownKey';
      const result = attempt(() => grantOf(verifier(token)));
      if (result) verified.set(end, { token, result });
      return result;
    },
  };
}

const requiredClaims = [
  'iss',
  'aud',
  'sub',
  'sid',
  'jti',
  'iat',
  'exp',
  'auth_time',
  'authorized',
  'client_id',
];

const verifierFor = ({ pem, algorithm, issuer }: VerifyingKey): ((token: string) => Payload) =>
  createVerifier({
    key: pem,
    algorithms: [algorithm],
    allowedIss: issuer,
    allowedAud: audience,
    checkTyp: type,
    requiredClaims,
  });

function payloadOf(grant: AccessGrant, sudoMaxAgeMs: number): Record<string, unknown> {
  return {
    aud: audience,
    sub: grant.userId,
    // Existing clients read the user from `id`, and may show what `authorized` and `sudo` say.
    id: grant.userId,
    sid: grant.sessionId,
    jti: grant.tokenId,
    client_id: grant.clientId,
    authorized: grant.complete,
    sudo: grant.complete && grant.issuedAt - grant.authenticatedAt < sudoMaxAgeMs,
    auth_time: seconds(grant.authenticatedAt),
    iat: seconds(grant.issuedAt),
    exp: seconds(grant.expiresAt),
    // Apart from ours, so that neither they nor a later version of the platform can take the other's place.
    ...(grant.claims ? { claims: grant.claims } : {}),
    // RFC 8693 4.1: who really acts.
    ...(grant.impersonatedBy
      ? { act: { sub: grant.impersonatedBy }, impersonatedBy: grant.impersonatedBy }
      : {}),
  };
}

const seconds = (ms: number): number => Math.floor(ms / 1000);

const grantOf = (payload: Payload): VerifiedToken => ({
  caller: Object.freeze({
    kind: 'user',
    userId: payload.sub,
    sessionId: payload.sid,
    authenticatedAt: payload.auth_time * 1000,
    complete: payload.authorized === true,
    clientId: payload.client_id,
    ...(payload.act ? { impersonatedBy: payload.act.sub } : {}),
  }),
  expiresAt: payload.exp * 1000,
});

/** The key id of a token that has our form. It only selects among keys that we hold; it is never a path or an address. */
function keyIdOf(token: string): string | undefined {
  if (token.length > maxTokenLength) return undefined;
  const end = token.indexOf('.');
  if (end < 1) return undefined;
  const header = attempt<unknown>(() =>
    JSON.parse(Buffer.from(token.slice(0, end), 'base64url').toString('utf8')),
  );
  if (typeof header !== 'object' || header === null || !('kid' in header)) return undefined;
  return typeof header.kid === 'string' && keyIdShape.test(header.kid) ? header.kid : undefined;
}

function attempt<T>(work: () => T): T | undefined {
  try {
    return work();
  } catch {
    return undefined;
  }
}
