/** JSON answers of providers: read with suspicion, so that nothing they send can become our failure. */

import {
  createRemoteJWKSet,
  customFetch,
  type JWTPayload,
  errors as joseErrors,
  jwtVerify,
} from 'jose';
import {
  OutboundError,
  type OutboundFetch,
  type OutboundRequest,
} from '../../../../kernel/outbound.ts';
import { type Claims, isClaims, textOf } from './provider-contract.ts';

/*
 * Token answers as providers really give them, brought into the form of RFC 6749 before the client library
 * reads them. The ID token is taken out: `id-tokens.ts` verifies it.
 */

interface TokenResponse {
  /** In place of the provider's answer. */
  readonly response: Response;
  readonly idToken: string | undefined;
}

/**
 * - failures with status 200 (GitHub: `error`; Slack: `ok: false`) become 400;
 * - a list of scopes (Twitch) becomes text;
 * - a missing token type (older Figma, Facebook) is `bearer`: nothing else is ever given here.
 */
async function normalTokenResponse(answer: Response): Promise<TokenResponse> {
  const body = await bodyOf(answer);
  if (!body)
    return {
      response: plain({ error: 'invalid_response' }, failureStatus(answer.status, 502)),
      idToken: undefined,
    };
  const error = failureOf(body);
  if (error !== undefined)
    return { response: plain({ error }, failureStatus(answer.status, 400)), idToken: undefined };
  const { id_token: idToken, scope: _scope, ...rest } = body;
  const tokens = { ...rest, token_type: textOf(rest, 'token_type') ?? 'bearer' };
  return {
    response: plain(tokens, answer.status),
    idToken: typeof idToken === 'string' ? idToken : undefined,
  };
}

async function bodyOf(answer: Response): Promise<Claims | undefined> {
  try {
    const body: unknown = await answer.json();
    return isClaims(body) ? body : undefined;
  } catch {
    return undefined;
  }
}

/** The error code, in a form that may be logged. Facebook nests it: `{"error": {"type", "code"}}`. */
function failureOf(body: Claims): string | undefined {
  if (typeof body.access_token === 'string') return undefined;
  const code =
    textOf(body, 'error') ?? (isClaims(body.error) ? textOf(body.error, 'type') : undefined);
  return (code ?? 'invalid_response').slice(0, 100).replace(/[^\w.-]/g, '_');
}

/** Redirects and empty answers are failures here like any other. */
const failureStatus = (status: number, otherwise: number): number =>
  status >= 400 ? status : otherwise;

const plain = (body: object, status: number): Response =>
  new Response(JSON.stringify(body), { status, headers: { 'content-type': 'application/json' } });

/** A fetch that answers the token endpoint in normal form, and what ID token came with it. */
export function tokenFetch(fetch: OutboundFetch): {
  readonly fetch: OutboundFetch;
  readonly idToken: () => string | undefined;
} {
  let idToken: string | undefined;
  return {
    fetch: async (url, request) => {
      const normal = await normalTokenResponse(await fetch(url, request));
      idToken = normal.idToken;
      return normal.response;
    },
    idToken: () => idToken,
  };
}

/** An answer that is none of what was asked for. The message holds no part of the answer. */
export class ProviderAnswerError extends Error {
  /** HTTP status, when that is what was wrong. */
  readonly status: number | undefined;

  constructor(message: string, status?: number) {
    super(message);
    this.name = 'ProviderAnswerError';
    this.status = status;
  }
}

/** The JSON value of a 200 answer. Throws `ProviderAnswerError` or `OutboundError`. */
export async function readValue(
  fetch: OutboundFetch,
  url: string,
  request: OutboundRequest = {},
): Promise<unknown> {
  const response = await fetch(url, {
    ...request,
    headers: { accept: 'application/json', ...request.headers },
  });
  const { host } = new URL(url);
  if (response.status !== 200)
    throw new ProviderAnswerError(`${host} answered status ${response.status}`, response.status);
  try {
    return (await response.json()) as unknown;
  } catch {
    throw new ProviderAnswerError(`${host} answered something that is not JSON`);
  }
}

/** The same, and it must be an object. */
export async function readJson(
  fetch: OutboundFetch,
  url: string,
  request?: OutboundRequest,
): Promise<Claims> {
  const value = await readValue(fetch, url, request);
  if (!isClaims(value))
    throw new ProviderAnswerError(`${new URL(url).host} answered JSON that is not an object`);
  return value;
}

/*
 * ID tokens (OpenID Connect Core 3.1.3.7), whichever way they come: from a token endpoint, or
 * presented by an app that signed in with the provider's own SDK. One check for both, stricter than
 * that of the client library: the signature is always verified, `iat` must not lie in the future,
 * and issuers of providers with many tenants are compared exactly.
 */

/** The token says something else than it must. The message names the rule, never the content. */
export class IdTokenError extends Error {
  constructor(message: string) {
    super(message);
    this.name = 'IdTokenError';
  }
}

interface IdTokenRules {
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
const algorithms = [
  'RS256',
  'RS384',
  'RS512',
  'PS256',
  'PS384',
  'PS512',
  'ES256',
  'ES384',
  'ES512',
  'EdDSA',
];
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
      [customFetch]: async (url, { signal }) =>
        Response.json(await readJson(fetch, url, { signal })),
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
async function signedClaims(
  token: string,
  keys: KeySet,
  { audiences }: IdTokenRules,
): Promise<JWTPayload> {
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
  if (error instanceof joseErrors.JWTClaimValidationFailed)
    return `its claim "${error.claim}" is missing or not valid`;
  if (error instanceof joseErrors.JOSEAlgNotAllowed) return 'its algorithm is not accepted';
  // Without a key id that decides, the choice must not be the token's.
  if (
    error instanceof joseErrors.JWKSNoMatchingKey ||
    error instanceof joseErrors.JWKSMultipleMatchingKeys
  )
    return 'it is signed by no key of the issuer';
  return 'it is not a token with a valid signature';
}

/** What the library cannot know: tenants, the nonce of the sign-in, the party that a shared token was issued to. */
function requireIssuer(claims: JWTPayload, { issuers, audiences, nonce }: IdTokenRules): void {
  const now = Date.now() / 1000;
  if (typeof claims.iat !== 'number' || claims.iat > now + clockTolerance)
    throw new IdTokenError('it was issued in the future');
  if (claims.iss === undefined || !issuers(claims).includes(claims.iss))
    throw new IdTokenError('another issuer made it');
  if (nonce !== undefined && claims.nonce !== nonce)
    throw new IdTokenError('it belongs to another sign-in (nonce)');
  if (textOf(claims, 'sub') === undefined) throw new IdTokenError('it names no subject');
  const { azp } = claims;
  const shared = Array.isArray(claims.aud) && claims.aud.length > 1;
  if (shared && !(typeof azp === 'string' && audiences.includes(azp)))
    throw new IdTokenError('it was made for another client');
}
