/**
 * Token answers as providers really give them, brought into the form of RFC 6749 before the client library
 * reads them. The ID token is taken out: `id-tokens.ts` verifies it.
 */
import type { OutboundFetch } from '../../../../kernel/outbound/fetch.ts';
import { type Claims, isClaims, textOf } from './profile.ts';

export interface TokenResponse {
  /** In place of the provider's answer. */
  readonly response: Response;
  readonly idToken: string | undefined;
}

/**
 * - failures with status 200 (GitHub: `error`; Slack: `ok: false`) become 400;
 * - a list of scopes (Twitch) becomes text;
 * - a missing token type (older Figma, Facebook) is `bearer`: nothing else is ever given here.
 */
export async function normalTokenResponse(answer: Response): Promise<TokenResponse> {
  const body = await bodyOf(answer);
  if (!body) return { response: plain({ error: 'invalid_response' }, failureStatus(answer.status, 502)), idToken: undefined };
  const error = failureOf(body);
  if (error !== undefined) return { response: plain({ error }, failureStatus(answer.status, 400)), idToken: undefined };
  const { id_token: idToken, scope: _scope, ...rest } = body;
  const tokens = { ...rest, token_type: textOf(rest, 'token_type') ?? 'bearer' };
  return { response: plain(tokens, answer.status), idToken: typeof idToken === 'string' ? idToken : undefined };
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
  const code = textOf(body, 'error') ?? (isClaims(body.error) ? textOf(body.error, 'type') : undefined);
  return (code ?? 'invalid_response').slice(0, 100).replace(/[^\w.-]/g, '_');
}

/** Redirects and empty answers are failures here like any other. */
const failureStatus = (status: number, otherwise: number): number => (status >= 400 ? status : otherwise);

const plain = (body: object, status: number): Response =>
  new Response(JSON.stringify(body), { status, headers: { 'content-type': 'application/json' } });

/** A fetch that answers the token endpoint in normal form, and what ID token came with it. */
export function tokenFetch(fetch: OutboundFetch): { readonly fetch: OutboundFetch; readonly idToken: () => string | undefined } {
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
