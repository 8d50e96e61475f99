/**
 * One attempt to sign in at a provider: it begins with an unguessable state and ends with its first use.
 * The state works once, for ten minutes, for that provider alone and in that browser alone (W7). What
 * else protects the attempt, nonce and PKCE verifier, is derived from state and browser with a key of
 * the platform: nothing of it is stored, and in another browser it is simply another value.
 */

import type { Kernel } from '../../../../host/kernel.ts';
import type { UserCaller } from '../../../../kernel/caller.ts';
import { randomToken, sameSecret, sha256 } from '../../../../kernel/security/tokens.ts';
import type { AuthenticationConfig } from '../../config.ts';
import { externalErrors } from '../../credential-errors.ts';
import { allowedRedirect, type Links } from '../../redirects.ts';
import type { OneTimeTokens } from '../tokens/one-time-tokens.ts';
import type { Proof, Provider } from './provider.ts';

/** What the attempt is for. `link` adds an account to a signed-in user, `native` runs inside an app. */
type AttemptMode = 'signIn' | 'native' | 'link';

/** What must be remembered until the provider answers. */
export interface Attempt {
  readonly mode: AttemptMode;
  /** Where the browser goes at the end; checked already. */
  readonly redirectUri?: string | undefined;
  /** What the app asked for in place of the usual scopes; empty for those. */
  readonly scopes: readonly string[];
  readonly invitationToken?: string | undefined;
  /** The app gets a code instead of tokens, which works only with the verifier of this challenge (S256). */
  readonly codeChallenge?: string | undefined;
  /** `link`: who asked. `signIn`: the anonymous user who becomes registered. */
  readonly userId?: string | undefined;
  /** The registered app that asked: the session will be its. */
  readonly clientId?: string | undefined;
}

/** A state that came back. */
interface StateAnswer {
  readonly state: string;
  /** Of the browser that brought it. */
  readonly browser?: string | undefined;
  /** What may end where it came back. */
  readonly modes: readonly AttemptMode[];
}

export interface Attempts {
  /** A value for the cookie that marks a browser: the one it has, or a new one. */
  browser(presented: string | undefined): string;
  /** Begins an attempt. Without `browser` it is bound to none: something else must then tie it to whoever began it. */
  begin(provider: Provider, attempt: Attempt, browser?: string): Promise<Proof>;
  /** Ends it: of any number of uses one gets it. Throws EXTERNAL_STATE_INVALID for everything that does not fit. */
  end(
    provider: Provider,
    answer: StateAnswer,
  ): Promise<{ readonly attempt: Attempt; readonly proof: Proof }>;
  /** A ticket for the start page, which begins the attempt in the browser that follows it. */
  postpone(provider: Provider, attempt: Attempt): Promise<string>;
  /** The attempt of a ticket, once. Throws EXTERNAL_STATE_INVALID. */
  resume(provider: Provider, ticket: string): Promise<Attempt>;
}

interface Taken {
  readonly attempt: Attempt;
  /** The browser, where the attempt is bound to one. */
  readonly boundTo: string | undefined;
}

interface Dependencies extends Pick<Kernel, 'database' | 'secrets'> {
  readonly tokens: OneTimeTokens;
  readonly links: Links;
}

const lifetimeMs = 10 * 60_000;
const sealContext = 'authentication:external-attempt';
const browserShape = /^[A-Za-z0-9_-]{43}$/;

/** What is stored with a state. */
interface Stored {
  readonly kind: 'state' | 'ticket';
  readonly provider: string;
  /** Hash of the browser's cookie; `null` where it is bound to none. */
  readonly browser: string | null;
  /** The attempt: it may hold an invitation, which is a secret. */
  readonly sealed: string;
}

export function createAttempts({ database, secrets, tokens, links }: Dependencies): Attempts {
  const proofOf = ({ settings }: Provider, state: string, browser = ''): Proof => ({
    state,
    nonce: secrets.digest(`${state}.${browser}`, 'authentication:external-nonce'),
    verifier: secrets.digest(`${state}.${browser}`, 'authentication:external-verifier'),
    callbackUrl: links.to(`/hook/authentication/${settings.name}`),
  });

  const store = async (
    kind: Stored['kind'],
    { settings }: Provider,
    attempt: Attempt,
    browser?: string,
  ): Promise<string> => {
    const data: Stored = {
      kind,
      provider: settings.name,
      browser: browser === undefined ? null : sha256(browser),
      sealed: secrets.seal(JSON.stringify(attempt), sealContext),
    };
    const owner = attempt.userId === undefined ? {} : { userId: attempt.userId };
    const grant = { purpose: 'oauth-state', ...owner, data: { ...data }, lifetimeMs } as const;
    return (await tokens.issue(database, grant)).token;
  };

  /** Used up first and judged afterwards: what did not fit will not fit later either. */
  const take = async (
    kind: Stored['kind'],
    { settings }: Provider,
    token: string,
    browser?: string,
  ): Promise<Taken> => {
    const stored = (await tokens.consume(database, 'oauth-state', token))?.data as
      | Partial<Stored>
      | undefined;
    const fits =
      stored?.kind === kind &&
      stored.provider === settings.name &&
      inBrowser(stored.browser, browser);
    if (!fits || stored.sealed === undefined) throw externalErrors.EXTERNAL_STATE_INVALID();
    const attempt = JSON.parse(secrets.open(stored.sealed, sealContext)) as Attempt;
    return { attempt, boundTo: stored.browser === null ? undefined : browser };
  };

  return {
    browser: (presented) =>
      presented !== undefined && browserShape.test(presented) ? presented : randomToken(),
    async begin(provider, attempt, browser) {
      return proofOf(provider, await store('state', provider, attempt, browser), browser);
    },
    async end(provider, { state, browser, modes }) {
      const { attempt, boundTo } = await take('state', provider, state, browser);
      if (!modes.includes(attempt.mode)) throw externalErrors.EXTERNAL_STATE_INVALID();
      return { attempt, proof: proofOf(provider, state, boundTo) };
    },
    postpone: (provider, attempt) => store('ticket', provider, attempt),
    resume: async (provider, ticket) => (await take('ticket', provider, ticket)).attempt,
  };
}

function inBrowser(expected: string | null | undefined, browser: string | undefined): boolean {
  if (expected === null) return true;
  return expected !== undefined && browser !== undefined && sameSecret(expected, sha256(browser));
}

/* What an app asks for when a sign-in starts. */

export interface StartRequest {
  readonly redirectUri?: string | undefined;
  readonly scopes?: readonly string[] | undefined;
  readonly invitationToken?: string | undefined;
  readonly codeChallenge?: string | undefined;
}

/** Who asks. */
export interface Asker {
  /** `signIn`: an anonymous user, who becomes registered. */
  readonly user?: UserCaller | undefined;
  /** The registered app, where apps are told apart. */
  readonly clientId?: string | undefined;
}

/** The attempt of such a request. Throws for a `redirectUri` that is not on the list. */
export function attemptOf(
  mode: AttemptMode,
  request: StartRequest,
  { redirectUris, accessTokens, openidProvider }: AuthenticationConfig,
  { user, clientId }: Asker,
): Attempt {
  const { redirectUri, scopes = [], invitationToken, codeChallenge } = request;
  return {
    mode,
    scopes,
    invitationToken,
    codeChallenge,
    userId: user?.userId,
    clientId,
    ...(redirectUri === undefined
      ? {}
      : {
          redirectUri: allowedRedirect(redirectUri, {
            ...redirectUris,
            // Our own page, on which users sign in to other apps.
            whitelistedUris: openidProvider.enabled
              ? [...redirectUris.whitelistedUris, `${accessTokens.issuer}/openid/interaction/*`]
              : redirectUris.whitelistedUris,
          }),
        }),
  };
}
