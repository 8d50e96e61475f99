/**
 * Signing in by a link or a code in a mail, for users who have an account. Following a link signs nobody
 * in: mail scanners follow links too. What signs in is the click on the page behind it, or the exchange
 * by the app.
 */

import type { Kernel } from '../../../../host/kernel.ts';
import { anonymous } from '../../../../kernel/caller.ts';
import type { Transaction } from '../../../../kernel/database/database.ts';
import { randomToken } from '../../../../kernel/security/tokens.ts';
import type { Messages } from '../../../communications/index.ts';
import type { AuthenticationConfig } from '../../config.ts';
import { authErrors } from '../../errors.ts';
import { type Credentials, credentialsById, lockCredentials } from '../../queries.ts';
import { allowedRedirect, type Links, withQuery } from '../../redirects.ts';
import { canonicalEmail } from '../accounts/identifiers.ts';
import type { AccountTakeoverGuard } from '../credentials/credentials.ts';
import type { MailGuard, MailRequests } from '../mail/mail-requests.ts';
import { clientOf, type Origin } from '../origin.ts';
import type { LoginAnswer, SignIn } from '../sessions/sign-in.ts';
import { type OneTimeGrant, type OneTimeTokens, sixDigits } from '../tokens/one-time-tokens.ts';

export interface LinkAnswer {
  readonly answer: LoginAnswer;
  /** Where the browser goes with the tokens. */
  readonly redirectUri: string | undefined;
}

export interface MailSignIn {
  /** Sends the link, if there is such an account; the answer is the same in any case. Throws 400, 403 for the redirectUri, 429. */
  requestLink(email: string, redirectUri: string | undefined, origin: Origin): Promise<void>;
  /** Where the browser will go when the link works still; uses nothing up. Throws LINK_NOT_FOUND. */
  look(token: string): Promise<string | undefined>;
  /** Signs in. Throws LINK_NOT_FOUND, 403 for a blocked account. */
  useLink(token: string, origin: Origin): Promise<LinkAnswer>;
  /**
   * Sends the code, if there is such an account; answers in any case the token that it works with. So a
   * code belongs to whoever asked for it: nobody else can use up its tries.
   */
  requestCode(email: string, address: string): Promise<string>;
  /** Signs in. Throws CREDENTIALS_INVALID, the same for a token that stands for nobody and a wrong code. */
  useCode(
    proof: { readonly token: string; readonly code: string },
    origin: Origin,
  ): Promise<LoginAnswer>;
}

interface Dependencies extends Pick<Kernel, 'database'> {
  readonly tokens: OneTimeTokens;
  readonly messages: Pick<Messages, 'sendEmail'>;
  readonly requests: MailRequests;
  readonly guard: MailGuard;
  readonly links: Links;
  readonly takeoverGuard: AccountTakeoverGuard;
  readonly signIn: SignIn;
  readonly config: () => AuthenticationConfig;
}

export function createMailSignIn(dependencies: Dependencies): MailSignIn {
  const { tokens, messages, requests, guard, links, config } = dependencies;

  requests.handle(
    'magicLink',
    async (transaction, { userId, email }, { redirectUri, clientId }) => {
      const { token } = await tokens.issue(transaction, {
        purpose: 'magic-link',
        userId,
        data: {
          email,
          ...(redirectUri === undefined ? {} : { redirectUri }),
          ...(clientId === undefined ? {} : { clientId }),
        },
        lifetimeMs: config().lifetimes.magicLink,
        replaces: true,
      });
      const page = config().magic_link.link_uri;
      const link =
        page === ''
          ? links.to(`/hook/authentication/magic-link/${token}`)
          : withQuery(page, { magicToken: token });
      return messages.sendEmail(transaction, {
        module: 'authentication',
        to: email,
        userId,
        template: 'MagicLink',
        variables: { link },
      });
    },
  );

  requests.handle('emailCode', async (transaction, { userId, email }, { token }) => {
    if (token === undefined || !(await guard.mayIssueCode(email))) return undefined;
    const request = {
      purpose: 'email-code',
      userId,
      data: { email },
      token,
      code: sixDigits,
    } as const;
    const { code } = await tokens.issue(transaction, {
      ...request,
      lifetimeMs: config().lifetimes.magicLink,
    });
    return messages.sendEmail(transaction, {
      module: 'authentication',
      to: email,
      userId,
      template: 'LoginCode',
      variables: { code },
    });
  });

  return {
    requestLink: (email, redirectUri, origin) =>
      requestLink(dependencies, email, redirectUri, origin),
    look: (token) => look(dependencies, token),
    useLink: (token, origin) => useLink(dependencies, token, origin),
    requestCode: (email, address) => requestCode(dependencies, email, address),
    useCode: (proof, origin) => useCode(dependencies, proof, origin),
  };
}

/** A secret that was used up, with the account as it was then. */
interface Redeemed {
  readonly grant: OneTimeGrant;
  readonly account: Credentials | undefined;
}

/**
 * Uses the secret up. Whoever reads the mailbox owns the account: if its address was never proven, somebody else may have
 * registered it, and what they could get in with ends here. The account is read under the same lock, so that a password that
 * is set right afterwards keeps the session from being opened.
 */
const redeem = (
  { takeoverGuard, database }: Dependencies,
  consume: (transaction: Transaction) => Promise<OneTimeGrant | undefined>,
): Promise<Redeemed | undefined> =>
  database.transaction(async (transaction) => {
    const grant = await consume(transaction);
    if (!grant) return undefined;
    const { userId = '', data } = grant;
    const account = userId === '' ? undefined : await lockCredentials(transaction, userId);
    const { email } = data;
    if (!account || account.isVerified || typeof email !== 'string' || account.email !== email)
      return { grant, account };
    await takeoverGuard.claim(transaction, anonymous, { userId, email });
    return { grant, account: await credentialsById(transaction, userId) };
  });

async function openFor(
  { signIn }: Dependencies,
  { grant: { data }, account }: Redeemed,
  origin: Origin,
  strategy: string,
): Promise<LoginAnswer> {
  if (!account || account.email !== data.email) throw authErrors.LINK_NOT_FOUND();
  const ofApp = typeof data.clientId === 'string' ? { ...origin, clientId: data.clientId } : origin;
  return signIn.open(account, ofApp, strategy);
}

async function requestLink(
  { config, guard, requests }: Dependencies,
  presented: string,
  redirectUri: string | undefined,
  origin: Origin,
): Promise<void> {
  const email = canonicalEmail(presented);
  const page =
    redirectUri === undefined ? undefined : allowedRedirect(redirectUri, config().redirectUris);
  await guard.enter('magicLink', email, origin.address);
  await requests.request('magicLink', email, {
    ...(page === undefined ? {} : { redirectUri: page }),
    clientId: clientOf(origin),
  });
}

async function look(
  { tokens, database, config }: Dependencies,
  token: string,
): Promise<string | undefined> {
  const seen = await tokens.peek(database, 'magic-link', token);
  if (!seen || seen.expired || seen.usedAt !== undefined) throw authErrors.LINK_NOT_FOUND();
  return targetOf(seen, config());
}

async function useLink(
  dependencies: Dependencies,
  token: string,
  origin: Origin,
): Promise<LinkAnswer> {
  const { tokens, signIn, config } = dependencies;
  const redeemed = await redeem(dependencies, (transaction) =>
    tokens.consume(transaction, 'magic-link', token),
  );
  if (!redeemed) {
    await signIn.refused({ strategy: 'magic-link', outcome: 'wrong', origin });
    throw authErrors.LINK_NOT_FOUND();
  }
  return {
    answer: await openFor(dependencies, redeemed, origin, 'magic-link'),
    redirectUri: targetOf(redeemed.grant, config()),
  };
}

async function requestCode(
  { guard, requests }: Dependencies,
  presented: string,
  address: string,
): Promise<string> {
  const email = canonicalEmail(presented);
  await guard.enter('emailCode', email, address);
  const token = randomToken();
  await requests.request('emailCode', email, { token });
  return token;
}

async function useCode(
  dependencies: Dependencies,
  { token, code }: { readonly token: string; readonly code: string },
  origin: Origin,
): Promise<LoginAnswer> {
  const { tokens, signIn } = dependencies;
  const redeemed = await redeem(dependencies, (transaction) =>
    tokens.consumeCode(transaction, 'email-code', { token }, code),
  );
  if (!redeemed) {
    await signIn.refused({ strategy: 'email-code', outcome: 'wrong', origin });
    throw authErrors.CREDENTIALS_INVALID({ message: 'The code is not valid: ask for a new one' });
  }
  return openFor(dependencies, redeemed, origin, 'email-code');
}

const targetOf = (
  { data }: OneTimeGrant,
  { magic_link }: AuthenticationConfig,
): string | undefined =>
  typeof data.redirectUri === 'string' ? data.redirectUri : magic_link.redirect_uri || undefined;
