/**
 * Tokens in cookies. Browsers send a cookie with every request to its host, whichever page caused it; so a
 * cookie counts for a request that changes something only when the browser says that the page is one of this
 * host, or when the page knows a token that only pages which may read our answers can know (CWE-352).
 */

import { createHash } from 'node:crypto';
import type { Kernel } from '../../../../host/kernel.ts';
import type { Database } from '../../../../kernel/database/database.ts';
import type {
  CookieSender,
  CookieTokens,
  PresentedCredentials,
} from '../../../../kernel/identity.ts';
import { operationErrors } from '../../../../kernel/operations/errors.ts';
import { Reply } from '../../../../kernel/operations/operation.ts';
import type { Cookie } from '../../../../kernel/operations/reply.ts';
import type { SecretBox } from '../../../../kernel/security/secret-box.ts';
import { sameSecret, sha256 } from '../../../../kernel/security/tokens.ts';
import type { CookieConfig } from '../../config/cookies.ts';
import type { AuthenticationConfig } from '../../config.ts';
import { authErrors } from '../../errors.ts';
import { withFragment, withQuery } from '../../redirects.ts';
import type { AccessTokens } from '../tokens/access-tokens.ts';
import type { OneTimeTokens } from '../tokens/one-time-tokens.ts';
import { sessionOfRefreshToken } from './queries.ts';
import type { TokenPair } from './session-opening.ts';
import type { Sessions } from './sessions.ts';
import type { LoginAnswer } from './sign-in.ts';

/** An answer with the tokens that have not gone into cookies. */
type Delivered<T extends Partial<TokenPair>> = Omit<T, 'accessToken' | 'refreshToken'> &
  Partial<TokenPair> & { readonly csrfToken?: string };

export interface TokenCookies extends CookieTokens {
  /** Whether any token goes into a cookie. */
  enabled(): boolean;
  /** The refresh token of a request that was admitted with it. */
  admittedRefreshToken(cookies: PresentedCredentials['cookies']): string | undefined;
  /** Moves tokens of an answer into cookies, as far as configured. A new session takes the refresh token of an earlier one away. */
  take<T extends TokenPair>(
    answer: T,
  ): { readonly rest: Delivered<T>; readonly cookies: readonly Cookie[] };
  /** Whether an answer with these `Set-Cookie` headers gives the browser a token. */
  areGiven(lines: readonly string[]): boolean;
  /** Takes the cookies away, or the one; nothing while tokens are in bodies. */
  cleared(only?: TokenName): readonly Cookie[];
  /** What a page of another host sends along in `X-CSRF-Token` while this session lasts. */
  csrfToken(sessionId: string): string;
  /** Throws CSRF_REFUSED. Without a session any token of ours will do: no page can send the header that may not read our answers. */
  requireOwnPage(sender: CookieSender | undefined, sessionId?: string): void;
}

interface CookieDependencies {
  readonly secrets: SecretBox;
  readonly accessTokens: AccessTokens;
  readonly publicUrl: () => string;
  readonly config: () => AuthenticationConfig;
}

type TokenName = keyof TokenPair;

export function createTokenCookies(dependencies: CookieDependencies): TokenCookies {
  const { accessTokens, publicUrl } = dependencies;

  const read = (name: TokenName, cookies: PresentedCredentials['cookies']): string | undefined => {
    const options = settings(dependencies, name);
    return options.setCookie ? cookies[cookieName(name, options)] : undefined;
  };

  const requireOwnPage: TokenCookies['requireOwnPage'] = (sender, sessionId) => {
    if (
      sender &&
      (isSafe(sender.method) ||
        isOwnPage(sender, publicUrl()) ||
        isOurs(dependencies, sender.csrfToken, sessionId))
    )
      return;
    throw operationErrors.CSRF_REFUSED();
  };

  return {
    enabled: () => inCookies(dependencies).length > 0,
    accessToken: (cookies) => read('accessToken', cookies),
    admittedRefreshToken: (cookies) => read('refreshToken', cookies),
    refreshToken({ cookies, sender }) {
      const token = read('refreshToken', cookies);
      if (token !== undefined) requireOwnPage(sender);
      return token;
    },
    take(answer) {
      const moved = inCookies(dependencies);
      const rest: Partial<TokenPair> & { csrfToken?: string } = { ...answer };
      if (moved.length === 0) return { rest: rest as Delivered<typeof answer>, cookies: [] };
      const cookies = moved.flatMap((name) => {
        const token = answer[name];
        Reflect.deleteProperty(rest, name);
        if (token !== undefined)
          return [cookie(dependencies, name, token, settings(dependencies, name).expiryPeriod)];
        return 'userId' in answer ? [cookie(dependencies, name, '', 0)] : [];
      });
      const session = accessTokens.verify(answer.accessToken);
      if (typeof session === 'object')
        rest.csrfToken = csrfToken(dependencies, session.caller.sessionId);
      return { rest: rest as Delivered<typeof answer>, cookies };
    },
    areGiven: (lines) => areGiven(dependencies, lines),
    cleared: (only) =>
      inCookies(dependencies)
        .filter((name) => only === undefined || name === only)
        .map((name) => cookie(dependencies, name, '', 0)),
    csrfToken: (sessionId) => csrfToken(dependencies, sessionId),
    requireOwnPage,
  };
}

function settings({ config }: CookieDependencies, name: TokenName) {
  return name === 'accessToken' ? config().accessTokens : config().refreshTokens;
}

function cookie(
  dependencies: CookieDependencies,
  name: TokenName,
  value: string,
  maxAge: number,
): Cookie {
  const options = settings(dependencies, name);
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
}

function inCookies(dependencies: CookieDependencies): readonly TokenName[] {
  return names.filter((name) => settings(dependencies, name).setCookie);
}

function csrfToken({ secrets }: CookieDependencies, sessionId: string): string {
  return `${sessionId}.${secrets.digest(sessionId, 'authentication:csrf')}`;
}

function isOurs(
  dependencies: CookieDependencies,
  token: string | undefined,
  sessionId: string | undefined,
): boolean {
  const named = token?.split('.', 1)[0];
  if (
    token === undefined ||
    named === undefined ||
    (sessionId !== undefined && named !== sessionId)
  )
    return false;
  return sameSecret(token, csrfToken(dependencies, named));
}

function areGiven(dependencies: CookieDependencies, lines: readonly string[]): boolean {
  return inCookies(dependencies).some((name) => {
    const start = `${cookieName(name, settings(dependencies, name))}=`;
    return lines.some((line) => line.startsWith(start) && !line.startsWith(`${start};`));
  });
}

const names: readonly TokenName[] = ['accessToken', 'refreshToken'];

/** With the prefix, browsers take the cookie from this host alone (RFC 6265bis 4.1.3.2). Only this one name is ever read. */
function cookieName(
  name: TokenName,
  { cookieOptions: { secure, domain, path } }: CookieConfig,
): string {
  return secure && domain === '' && (path === '' || path === '/') ? `__Host-${name}` : name;
}

const isSafe = (method: string): boolean => method === 'GET' || method === 'HEAD';

function isOwnPage({ origin, host, fetchSite }: CookieSender, publicUrl: string): boolean {
  if (fetchSite !== undefined) return fetchSite === 'same-origin' || fetchSite === 'none';
  if (origin === undefined || !URL.canParse(origin)) return false;
  const page = new URL(origin);
  return (
    page.host === host || (URL.canParse(publicUrl) && page.origin === new URL(publicUrl).origin)
  );
}

/*
 * The session that a browser leaves by signing in again (OWASP ASVS 5.0 7.2.4). Its cookies hold other tokens from
 * then on, so its user could not end it any more, and whoever has copied them could go on.
 */

/** Ends the session that these cookies were of, if they were of any. `nextUserId`: who signs in, as far as that is said. */
export type EndPreviousSession = (
  cookies: Readonly<Record<string, string>>,
  nextUserId: string | undefined,
) => Promise<void>;

interface EndDependencies extends Pick<Kernel, 'database'> {
  readonly accessTokens: AccessTokens;
  readonly tokenCookies: TokenCookies;
  readonly sessions: Pick<Sessions, 'leave'>;
}

export function createEndPreviousSession({
  database,
  accessTokens,
  tokenCookies,
  sessions,
}: EndDependencies): EndPreviousSession {
  return async (cookies, nextUserId) => {
    const accessToken = tokenCookies.accessToken(cookies);
    const verified = accessToken === undefined ? undefined : accessTokens.verify(accessToken);
    if (typeof verified === 'object') return sessions.leave(verified.caller, nextUserId);
    // The access token has ended, as it does long before the session.
    const refreshToken = tokenCookies.admittedRefreshToken(cookies);
    const session =
      refreshToken === undefined
        ? undefined
        : await sessionOfRefreshToken(database, sha256(refreshToken));
    if (session) await sessions.leave(session, nextUserId);
  };
}

/*
 * How an app gets its tokens when a flow ends in the browser: by redirect, in the form that the
 * configuration asks for, or as JSON where there is no page to go to.
 */

export interface TokenDelivery {
  /**
   * The answer of the last request of a flow; without an address the tokens as JSON. With a challenge (RFC
   * 7636, S256) it is always a code, worth nothing without the verifier that only the app knows.
   */
  reply(answer: LoginAnswer, address: string | undefined, codeChallenge?: string): Promise<Reply>;
  /** The tokens for a code, once and within a minute; throws LINK_INVALID. */
  exchange(code: string, codeVerifier?: string): Promise<LoginAnswer>;
}

interface DeliveryDependencies {
  readonly database: Database;
  readonly secrets: SecretBox;
  readonly tokens: OneTimeTokens;
  readonly tokenCookies: TokenCookies;
  readonly how: () => 'query' | 'fragment' | 'exchange';
}

const exchangeLifetimeMs = 60_000;
const sealContext = 'authentication:login-exchange';

export function createTokenDelivery({
  database,
  secrets,
  tokens,
  tokenCookies,
  how,
}: DeliveryDependencies): TokenDelivery {
  const exchangeCode = async (answer: LoginAnswer, codeChallenge?: string): Promise<string> => {
    const sealed = secrets.seal(JSON.stringify(answer), sealContext);
    const data = { sealed, ...(codeChallenge === undefined ? {} : { codeChallenge }) };
    return (
      await tokens.issue(database, {
        purpose: 'login-exchange',
        userId: answer.userId,
        data,
        lifetimeMs: exchangeLifetimeMs,
      })
    ).token;
  };

  return {
    async reply(answer, address, codeChallenge) {
      const page = address === '' ? undefined : address;
      if (codeChallenge !== undefined || (page !== undefined && how() === 'exchange')) {
        const code = await exchangeCode(answer, codeChallenge);
        return page === undefined ? json({ code }) : Reply.redirect(withQuery(page, { code }));
      }
      const { rest, cookies } = tokenCookies.take(answer);
      if (page === undefined) return json(rest).withCookies(cookies);
      const parameters = Object.fromEntries(
        Object.entries(rest).flatMap(([name, value]) =>
          omittedKeys.has(name) || value === undefined ? [] : [[name, String(value)]],
        ),
      );
      return Reply.redirect(
        (how() === 'fragment' ? withFragment : withQuery)(page, parameters),
      ).withCookies(cookies);
    },
    async exchange(code, codeVerifier) {
      const { sealed, codeChallenge } =
        (await tokens.consume(database, 'login-exchange', code))?.data ?? {};
      if (typeof sealed !== 'string' || !answers(codeChallenge, codeVerifier))
        throw authErrors.LINK_INVALID();
      return JSON.parse(secrets.open(sealed, sealContext)) as LoginAnswer;
    },
  };
}

/** What a page asks for itself once it has its tokens. */
const omittedKeys: ReadonlySet<string> = new Set(['userId', 'csrfToken']);

const json = (body: object): Reply =>
  Reply.json(JSON.stringify(body), { 'cache-control': 'no-store' });

/** RFC 7636 4.6. A verifier for a code that asked for none is a mix-up too. */
function answers(codeChallenge: unknown, codeVerifier: string | undefined): boolean {
  if (typeof codeChallenge !== 'string' || codeVerifier === undefined)
    return codeChallenge === codeVerifier;
  return sameSecret(codeChallenge, createHash('sha256').update(codeVerifier).digest('base64url'));
}
