/**
 * How an app gets its tokens when a flow ends in the browser: by redirect, in the form that the
 * configuration asks for, or as JSON where there is no page to go to.
 */
import { createHash } from 'node:crypto';
import type { Database } from '../../../kernel/database/database.ts';
import { Reply } from '../../../kernel/operation.ts';
import type { SecretBox } from '../../../kernel/security/secret-box.ts';
import { sameSecret } from '../../../kernel/security/tokens.ts';
import { authErrors } from '../errors.ts';
import { withFragment, withQuery } from './links.ts';
import type { OneTimeTokens } from './one-time-tokens.ts';
import type { LoginAnswer } from './sign-in.ts';
import type { TokenCookies } from './token-cookies.ts';

export interface TokenDelivery {
  /**
   * The answer of the last request of a flow; without an address the tokens as JSON. With a challenge (RFC
   * 7636, S256) it is always a code, worth nothing without the verifier that only the app knows.
   */
  reply(answer: LoginAnswer, address: string | undefined, codeChallenge?: string): Promise<Reply>;
  /** The tokens for a code, once and within a minute; throws INVALID_CODE. */
  exchange(code: string, codeVerifier?: string): Promise<LoginAnswer>;
}

interface Dependencies {
  readonly database: Database;
  readonly secrets: SecretBox;
  readonly tokens: OneTimeTokens;
  readonly tokenCookies: TokenCookies;
  readonly how: () => 'query' | 'fragment' | 'exchange';
}

const exchangeLifetimeMs = 60_000;
const sealContext = 'authentication:login-exchange';

export function createTokenDelivery({ database, secrets, tokens, tokenCookies, how }: Dependencies): TokenDelivery {
  const exchangeCode = async (answer: LoginAnswer, codeChallenge?: string): Promise<string> => {
    const sealed = secrets.seal(JSON.stringify(answer), sealContext);
    const data = { sealed, ...(codeChallenge === undefined ? {} : { codeChallenge }) };
    return (await tokens.issue(database, { purpose: 'login-exchange', userId: answer.userId, data, lifetimeMs: exchangeLifetimeMs })).token;
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
        Object.entries(rest).flatMap(([name, value]) => (unsaid.has(name) || value === undefined ? [] : [[name, String(value)]])),
      );
      return Reply.redirect((how() === 'fragment' ? withFragment : withQuery)(page, parameters)).withCookies(cookies);
    },
    async exchange(code, codeVerifier) {
      const { sealed, codeChallenge } = (await tokens.consume(database, 'login-exchange', code))?.data ?? {};
      if (typeof sealed !== 'string' || !answers(codeChallenge, codeVerifier)) throw authErrors.INVALID_CODE();
      return JSON.parse(secrets.open(sealed, sealContext)) as LoginAnswer;
    },
  };
}

/** What a page asks for itself once it has its tokens. */
const unsaid: ReadonlySet<string> = new Set(['userId', 'csrfToken']);

const json = (body: object): Reply => Reply.json(JSON.stringify(body), { 'cache-control': 'no-store' });

/** RFC 7636 4.6. A verifier for a code that asked for none is a mix-up too. */
function answers(codeChallenge: unknown, codeVerifier: string | undefined): boolean {
  if (typeof codeChallenge !== 'string' || codeVerifier === undefined) return codeChallenge === codeVerifier;
  return sameSecret(codeChallenge, createHash('sha256').update(codeVerifier).digest('base64url'));
}
