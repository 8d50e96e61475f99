/** Sign-in in a browser: out to the provider, and back with its answer. */
import { anonymous } from '../../../../kernel/caller.ts';
import { PenstockError } from '../../../../kernel/errors.ts';
import { type Cookie, Reply } from '../../../../kernel/operations/operation.ts';
import type { AuthenticationConfig } from '../../config.ts';
import { externalErrors } from '../../credential-errors.ts';
import { withQuery } from '../../redirects.ts';
import type { Origin } from '../origin.ts';
import type { SignIn } from '../sessions/sign-in.ts';
import type { TokenDelivery } from '../sessions/token-cookies.ts';
import type { Owners } from './account-owners.ts';
import {
  type Asker,
  type Attempt,
  type Attempts,
  attemptOf,
  type StartRequest,
} from './attempts.ts';
import type { Linking } from './linking.ts';
import type { Proof, Provider } from './provider.ts';
import { type ExternalProfile, withName } from './provider-contract.ts';
import type { AskProvider, Proving } from './providers.ts';

/* The cookie that marks the browser in which a sign-in began. It opens nothing: it only has to come back. */

/** As long as an attempt lives; ms. */
const maxAge = 10 * 60_000;

interface BrowserCookie {
  /** One per provider, so that an answer meant for one cannot end at another. */
  readonly name: string;
  read(cookies: Readonly<Record<string, string>>): string | undefined;
  write(value: string): Cookie;
}

/**
 * A provider that answers by form post comes across sites, where browsers send only cookies that allow it.
 * Without TLS (development) neither that nor the `__Host-` prefix can be had.
 */
function browserCookie({ settings, preset }: Provider, publicUrl: string): BrowserCookie {
  const secure = publicUrl.startsWith('https:');
  const name = `${secure ? '__Host-' : ''}sign-in-${settings.name}`;
  const sameSite = preset.formPost && secure ? 'none' : 'lax';
  return {
    name,
    read: (cookies) => (Object.hasOwn(cookies, name) ? cookies[name] : undefined),
    write: (value) => ({ name, value, maxAge, secure, sameSite, httpOnly: true }),
  };
}

/** The browser, as far as it can be seen. */
export interface Browser {
  readonly cookies: Readonly<Record<string, string>>;
  /** The page that asks, when a page does. */
  readonly origin: string | undefined;
  /** How that page stands to us (`Sec-Fetch-Site`). */
  readonly fetchSite: string | undefined;
}

/** What the provider sent back with the browser. */
interface CallbackAnswer {
  readonly state: string;
  readonly code?: string | undefined;
  readonly error?: string | undefined;
  readonly iss?: string | undefined;
  /** Only at Apple, only the first time: JSON with the name. */
  readonly user?: string | undefined;
}

interface WebSignIn {
  /** `{"result": <address>}`, and the cookie. */
  start(provider: Provider, request: StartRequest, browser: Browser, asker: Asker): Promise<Reply>;
  /** The page behind that address for browsers that could not take the cookie before: sends them on with it. */
  resume(provider: Provider, ticket: string, browser: Browser): Promise<Reply>;
  /** The end: tokens as the app wants them, or why not. */
  finish(
    provider: Provider,
    answer: CallbackAnswer,
    browser: Browser,
    origin: Origin,
  ): Promise<Reply>;
}

interface Dependencies {
  readonly attempts: Attempts;
  readonly owners: Owners;
  readonly linking: Linking;
  readonly signIn: SignIn;
  readonly delivery: TokenDelivery;
  readonly publicUrl: () => string;
  readonly config: () => AuthenticationConfig;
  readonly ask: AskProvider;
  readonly proving: Proving;
}

export function createWebSignIn(dependencies: Dependencies): WebSignIn {
  const { attempts, publicUrl, config, proving } = dependencies;

  /** The same in this browser, which gets its cookie with the reply. */
  const begin = async (
    provider: Provider,
    attempt: Attempt,
    { cookies }: Browser,
    reply: (url: string) => Reply,
  ): Promise<Reply> => {
    const cookie = browserCookie(provider, publicUrl());
    const browser = attempts.browser(cookie.read(cookies));
    return reply(await addressFor(dependencies, provider, attempt, browser)).withCookies([
      cookie.write(browser),
    ]);
  };

  return {
    async start(provider, request, browser, asker) {
      const attempt = attemptOf('signIn', request, config(), asker);
      // Its verifier binds the end to the app that began; the browser between may be any.
      if (attempt.codeChallenge !== undefined)
        return Reply.value(await addressFor(dependencies, provider, attempt));
      if (config().externalSignIn.startPage === 'always' || !keepsCookie(browser, publicUrl())) {
        const ticket = await attempts.postpone(provider, attempt);
        const page = `${publicUrl()}/hook/authentication/${provider.settings.name}/start`;
        if (!isProgram(browser)) return Reply.value(withQuery(page, { ticket }));
        return begin(provider, attempt, browser, (url) =>
          Reply.value(withQuery(page, { ...queryOf(url), ticket })),
        );
      }
      return begin(provider, attempt, browser, Reply.value);
    },
    async resume(provider, ticket, browser) {
      return begin(provider, await attempts.resume(provider, ticket), browser, Reply.redirect);
    },
    async finish(provider, answer, { cookies }, origin) {
      const browser = browserCookie(provider, publicUrl()).read(cookies);
      const { attempt, proof } = await proving(provider, origin, () =>
        attempts.end(provider, { state: answer.state, browser, modes: ['signIn', 'link'] }),
      );
      try {
        const profile = await proving(provider, origin, () =>
          redeem(dependencies, provider, answer, proof),
        );
        return await complete(dependencies, provider, { attempt, origin, profile });
      } catch (error) {
        return refusal(
          error,
          addressOf(attempt, provider),
          config().externalSignIn.errors === 'redirect',
        );
      }
    },
  };
}

/** Begins the attempt; answers the provider's address. */
async function addressFor(
  { attempts, ask }: Dependencies,
  provider: Provider,
  attempt: Attempt,
  browser?: string,
): Promise<string> {
  const proof = await attempts.begin(provider, attempt, browser);
  return ask(provider, () => provider.authorizationUrl(proof, attempt.scopes));
}

async function redeem(
  { ask }: Dependencies,
  provider: Provider,
  answer: CallbackAnswer,
  proof: Proof,
): Promise<ExternalProfile> {
  if (answer.error !== undefined) throw externalErrors.EXTERNAL_SIGN_IN_DENIED();
  if (answer.code === undefined) throw externalErrors.EXTERNAL_STATE_INVALID();
  const { code, iss: issuer } = answer;
  const profile = await ask(provider, () => provider.redeem({ code, issuer }, proof));
  return withName(profile, provider.preset.formPost ? answer.user : undefined);
}

/** The user, and how they get their tokens. */
async function complete(
  { linking, proving, owners, delivery, signIn }: Dependencies,
  provider: Provider,
  { attempt, profile, origin }: Completion,
): Promise<Reply> {
  const { settings } = provider;
  const address = addressOf(attempt, provider);
  const { invitationToken, userId: anonymousUserId, codeChallenge, clientId } = attempt;
  if (attempt.mode === 'link')
    return linking.offer(provider, profile, attempt.userId ?? '', address);
  const userId = await proving(provider, origin, () =>
    owners.ownerOf(anonymous, settings, profile, { origin, invitationToken, anonymousUserId }),
  );
  const ofApp = clientId === undefined ? origin : { ...origin, clientId };
  return delivery.reply(
    await signIn.openById(userId, ofApp, settings.name),
    address,
    codeChallenge,
  );
}

interface Completion {
  readonly attempt: Attempt;
  readonly profile: ExternalProfile;
  readonly origin: Origin;
}

/** Where the browser goes at the end; empty for nowhere. */
const addressOf = (attempt: Attempt, { settings }: Provider): string =>
  attempt.redirectUri ?? settings.redirectUri;

/**
 * Whether the browser that signs in will have the cookie of this answer: a page of ours asks, and its browser says so.
 * That of another origin drops it, and a program (an app on a device, a server) opens the address in a browser that never saw it.
 */
function keepsCookie({ origin, fetchSite }: Browser, publicUrl: string): boolean {
  if (fetchSite !== undefined) return fetchSite === 'same-origin' || fetchSite === 'none';
  return origin !== undefined && URL.canParse(publicUrl) && origin === new URL(publicUrl).origin;
}

/**
 * No browser asks. A program that opens the address in a browser needs our page; one that plays the browser itself, keeps
 * cookies and reads `state` or `client_id` from the address finds there what the provider's own address would say.
 */
const isProgram = ({ origin, fetchSite }: Browser): boolean =>
  origin === undefined && fetchSite === undefined;

const queryOf = (url: string): Record<string, string> =>
  Object.fromEntries(new URL(url).searchParams);

/** A person who cancels goes back to the app; other refusals are answered, or told to the app, as the configuration says. */
function refusal(error: unknown, address: string, tellsApp: boolean): Reply {
  const cancelled =
    error instanceof PenstockError && error.code === externalErrors.EXTERNAL_SIGN_IN_DENIED.code;
  if (!(error instanceof PenstockError) || address === '' || !(cancelled || tellsApp)) throw error;
  const reason = cancelled ? 'access_denied' : error.code.toLowerCase();
  return Reply.redirect(withQuery(address, { error: reason, error_description: error.message }));
}
