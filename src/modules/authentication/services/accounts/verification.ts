/** Proving that an address is one's own: by a link, or by a code that is typed. */

import type { Kernel } from '../../../../host/kernel.ts';
import { anonymous } from '../../../../kernel/caller.ts';
import type { Queryable } from '../../../../kernel/database/database.ts';
import type { Messages } from '../../../communications/index.ts';
import type { AuthenticationConfig } from '../../config.ts';
import { authErrors } from '../../errors.ts';
import { userEvent } from '../../events.ts';
import { markVerified } from '../../queries.ts';
import type { Links } from '../../redirects.ts';
import type { MailGuard, MailRequests } from '../mail/mail-requests.ts';
import type { MailName } from '../mail/notices.ts';
import type { Origin } from '../origin.ts';
import type { SecurityLog } from '../security-log.ts';
import { type OneTimeGrant, type OneTimeTokens, sixDigits } from '../tokens/one-time-tokens.ts';
import { canonicalEmail } from './identifiers.ts';

export interface Verification {
  /** Sends the link or code to a new account; joins the transaction that makes it. Answers the id of the message, if there is one. */
  send(
    transaction: Queryable,
    account: { readonly userId: string; readonly email: string },
    redirectUri?: string,
  ): Promise<string | undefined>;
  /** Sends it again, if there is such an account that needs it; the answer is the same in any case. Throws 429 within the threshold. */
  resend(email: string, address: string): Promise<void>;
  /** Where to go next, or nothing for our own page. A repeated click within ten hours leads there again; throws LINK_NOT_FOUND. */
  byLink(token: string, origin: Origin): Promise<string | undefined>;
  /** Throws LINK_INVALID, the same for an unknown address and a wrong code. */
  byCode(email: string, code: string, origin: Origin): Promise<void>;
}

interface Dependencies extends Pick<Kernel, 'database' | 'events'> {
  readonly tokens: OneTimeTokens;
  readonly messages: Pick<Messages, 'sendEmail'>;
  readonly requests: MailRequests;
  readonly guard: MailGuard;
  readonly links: Links;
  readonly securityLog: SecurityLog;
  readonly config: () => AuthenticationConfig;
}

const repeatedClickMs = 10 * 60 * 60_000;

export function createVerification(dependencies: Dependencies): Verification {
  const { database, tokens, messages, requests, guard, links, config } = dependencies;
  const send: Verification['send'] = async (transaction, { userId, email }, redirectUri) => {
    const byCode = config().local.verification.method === 'code';
    if (byCode && !(await guard.mayIssueCode(email))) return undefined;
    const { token, code } = await tokens.issue(transaction, {
      purpose: 'verify-email',
      userId,
      data: { email, ...(redirectUri === undefined ? {} : { redirectUri }) },
      lifetimeMs: config().lifetimes.verification,
      replaces: true,
      ...(byCode ? { subject: email, code: sixDigits } : {}),
    });
    const template: MailName = byCode ? 'EmailVerificationWithCode' : 'EmailVerification';
    const link = links.to(`/hook/authentication/verify-email/${token}`);
    const variables = byCode ? { code } : { link };
    const mail = { to: email, userId, template, variables };
    return messages.sendEmail(transaction, { module: 'authentication', ...mail });
  };

  requests.handle('verification', async (transaction, account, { redirectUri }) => {
    if (account.isVerified) return undefined;
    const page = redirectUri ?? (await pageBefore(dependencies, transaction, account));
    return send(transaction, account, page);
  });

  return {
    send,
    async resend(presented, address) {
      const email = canonicalEmail(presented);
      await guard.enter('verification', email, address);
      await requests.request('verification', email);
    },
    async byLink(token, origin) {
      const used = await database.transaction(async (transaction) => {
        const grant = await tokens.consume(transaction, 'verify-email', token);
        return verify(dependencies, transaction, grant, origin);
      });
      const seen = used ?? (await recentlyUsed(dependencies, token));
      const { redirectUri } = seen.data;
      return typeof redirectUri === 'string'
        ? redirectUri
        : config().local.verification.redirect_uri || undefined;
    },
    async byCode(presented, code, origin) {
      const email = canonicalEmail(presented);
      const used = await database.transaction(async (transaction) => {
        const proof = { subject: email };
        const grant = await tokens.consumeCode(transaction, 'verify-email', proof, code);
        return verify(dependencies, transaction, grant, origin);
      });
      const problem = { path: 'code', rule: 'valid', message: 'ask for a new code' };
      if (!used) throw authErrors.LINK_INVALID({ errors: [problem] });
    },
  };
}

/** Where the mail before led to: sent again, it leads there too. */
async function pageBefore(
  { tokens }: Dependencies,
  transaction: Queryable,
  { userId, email: now }: { userId: string; email: string },
) {
  const { email, redirectUri } =
    (await tokens.latestOf(transaction, 'verify-email', userId))?.data ?? {};
  return email === now && typeof redirectUri === 'string' ? redirectUri : undefined;
}

async function verify(
  { events, securityLog }: Dependencies,
  transaction: Queryable,
  grant: OneTimeGrant | undefined,
  origin: Origin,
): Promise<OneTimeGrant | undefined> {
  const { userId, data } = grant ?? {};
  if (userId === undefined || typeof data?.email !== 'string') return undefined;
  // False when the account is verified already.
  if (await markVerified(transaction, userId, data.email)) {
    await events.emit(transaction, anonymous, userEvent('verified', [userId]));
    await securityLog.note({ action: 'verify', userId, origin });
  }
  return grant;
}

async function recentlyUsed(
  { tokens, database }: Dependencies,
  token: string,
): Promise<OneTimeGrant> {
  const seen = await tokens.peek(database, 'verify-email', token);
  if (!seen?.usedAt || Date.now() - seen.usedAt.getTime() > repeatedClickMs)
    throw authErrors.LINK_NOT_FOUND();
  return seen;
}
