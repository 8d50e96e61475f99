/**
 * Tokens in cookies. Browsers send a cookie with every request to its host, whichever page caused it; so a
 * cookie counts for a request that changes something only when the browser says that the page is one of this
 * host, or when the page knows a token that only pages which may read our answers can know (CWE-352).
 */
import type { Cookie } from '../../../kernel/cookie.ts';
import type { CookieSender, CookieTokens, PresentedCredentials } from '../../../kernel/identity.ts';
import { operationErrors } from '../../../kernel/operations/errors.ts';
import type { SecretBox } from '../../../kernel/security/secret-box.ts';
import { sameSecret } from '../../../kernel/security/tokens.ts';
import type { CookieConfig } from '../config/cookies.ts';
import type { AuthenticationConfig } from '../config.ts';
import type { AccessTokens } from './access-tokens.ts';
import type { TokenPair } from './token-pairs.ts';

/** An answer with the tokens that have not gone into cookies. */
export type Delivered<T extends Partial<TokenPair>> = Omit<T, 'accessToken' | 'refreshToken'> &
  Partial<TokenPair> & { readonly csrfToken?: string };

export interface TokenCookies extends CookieTokens {
  /** Whether any token goes into a cookie. */
  enabled(): boolean;
  /** The refresh token of a request that was admitted with it. */
  admittedRefreshToken(cookies: PresentedCredentials['cookies']): string | undefined;
  /** Moves tokens of an answer into cookies, as far as configured. A new session takes the refresh token of an earlier one away. */
  take<T extends TokenPair>(answer: T): { readonly rest: Delivered<T>; readonly cookies: readonly Cookie[] };
  /** Whether an answer with these `Set-Cookie` headers gives the browser a token. */
  areGiven(lines: readonly string[]): boolean;
  /** Takes the cookies away, or the one; nothing while tokens are in bodies. */
  cleared(only?: TokenName): readonly Cookie[];
  /** What a page of another host sends along in `X-CSRF-Token` while this session lasts. */
  csrfToken(sessionId: string): string;
  /** Throws CSRF_REFUSED. Without a session any token of ours will do: no page can send the header that may not read our answers. */
  requireOwnPage(sender: CookieSender | undefined, sessionId?: string): void;
}

interface Dependencies {
  readonly secrets: SecretBox;
  readonly accessTokens: AccessTokens;
  readonly publicUrl: () => string;
  readonly config: () => AuthenticationConfig;
}

type TokenName = keyof TokenPair;

export function createTokenCookies({ secrets, accessTokens, publicUrl, config }: Dependencies): TokenCookies {
  const settings = (name: TokenName) => (name === 'accessToken' ? config().accessTokens : config().refreshTokens);

  const read = (name: TokenName, cookies: PresentedCredentials['cookies']): string | undefined => {
    const options = settings(name);
    return options.setCookie ? cookies[cookieName(name, options)] : undefined;
  };

  const cookie = (name: TokenName, value: string, maxAge: number): Cookie => {
    const options = settings(name);
    const { httpOnly, secure, domain, path, sameSite } = options.cookieOptions;
    return {
      name: cookieName(name, options),
      value,
      maxAge,
      httpOnly,
      secure,
      sameSite: sameSite.toLowerCase() as 'lax' | 'strict' | 'none',
      ...(domain === '' ? {} : { domain }),
      ...(path === '' ? {} : { path }),
    };
  };

  const inCookies = (): readonly TokenName[] => names.filter((name) => settings(name).setCookie);

  const csrfToken = (sessionId: string): string => `${sessionId}.${secrets.digest(sessionId, 'authentication:csrf')}`;

  const isOurs = (token: string | undefined, sessionId: string | undefined): boolean => {
    const named = token?.split('.', 1)[0];
    if (token === undefined || named === undefined || (sessionId !== undefined && named !== sessionId)) return false;
    return sameSecret(token, csrfToken(named));
  };

  const requireOwnPage: TokenCookies['requireOwnPage'] = (sender, sessionId) => {
    if (sender && (isSafe(sender.method) || isOwnPage(sender, publicUrl()) || isOurs(sender.csrfToken, sessionId))) return;
    throw operationErrors.CSRF_REFUSED();
  };

  return {
    enabled: () => inCookies().length > 0,
    accessToken: (cookies) => read('accessToken', cookies),
    admittedRefreshToken: (cookies) => read('refreshToken', cookies),
    refreshToken({ cookies, sender }) {
      const token = read('refreshToken', cookies);
      if (token !== undefined) requireOwnPage(sender);
      return token;
    },
    take(answer) {
      const moved = inCookies();
      const rest: Partial<TokenPair> & { csrfToken?: string } = { ...answer };
      if (moved.length === 0) return { rest: rest as Delivered<typeof answer>, cookies: [] };
      const cookies = moved.flatMap((name) => {
        const token = answer[name];
        Reflect.deleteProperty(rest, name);
        if (token !== undefined) return [cookie(name, token, settings(name).expiryPeriod)];
        return 'userId' in answer ? [cookie(name, '', 0)] : [];
      });
      const session = accessTokens.verify(answer.accessToken);
      if (typeof session === 'object') rest.csrfToken = csrfToken(session.caller.sessionId);
      return { rest: rest as Delivered<typeof answer>, cookies };
    },
    areGiven: (lines) =>
      inCookies().some((name) => {
        const start = `${cookieName(name, settings(name))}=`;
        return lines.some((line) => line.startsWith(start) && !line.startsWith(`${start};`));
      }),
    cleared: (only) =>
      inCookies()
        .filter((name) => only === undefined || name === only)
        .map((name) => cookie(name, '', 0)),
    csrfToken,
    requireOwnPage,
  };
}

const names: readonly TokenName[] = ['accessToken', 'refreshToken'];

/** With the prefix, browsers take the cookie from this host alone (RFC 6265bis 4.1.3.2). Only this one name is ever read. */
function cookieName(name: TokenName, { cookieOptions: { secure, domain, path } }: CookieConfig): string {
  return secure && domain === '' && (path === '' || path === '/') ? `__Host-${name}` : name;
}

const isSafe = (method: string): boolean => method === 'GET' || method === 'HEAD';

function isOwnPage({ origin, host, fetchSite }: CookieSender, publicUrl: string): boolean {
  if (fetchSite !== undefined) return fetchSite === 'same-origin' || fetchSite === 'none';
  if (origin === undefined || !URL.canParse(origin)) return false;
  const page = new URL(origin);
  return page.host === host || (URL.canParse(publicUrl) && page.origin === new URL(publicUrl).origin);
}
