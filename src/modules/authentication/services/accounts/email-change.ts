/**
 * Another address for an account. The new address is proven first; the old one is told, with a link that
 * takes the change back, since it may be the only way in that is left to the owner.
 */

import type { Kernel } from '../../../../host/kernel.ts';
import { anonymous, type UserCaller } from '../../../../kernel/caller.ts';
import type { Transaction } from '../../../../kernel/database/database.ts';
import type { Messages } from '../../../communications/index.ts';
import type { AuthenticationConfig } from '../../config.ts';
import { authErrors } from '../../errors.ts';
import { userEvent } from '../../events.ts';
import {
  type Credentials,
  credentialsByEmail,
  credentialsById,
  lockCredentials,
  replaceEmail,
  setPassword,
} from '../../queries.ts';
import { allowedRedirect, type Links } from '../../redirects.ts';
import { requireRecentLogin } from '../caller-checks.ts';
import { dropCredentialsSince } from '../credentials/queries.ts';
import type { MailGuard, MailRequests } from '../mail/mail-requests.ts';
import type { Notices } from '../mail/notices.ts';
import type { Origin } from '../origin.ts';
import type { SecurityLog } from '../security-log.ts';
import { wasRevokedDeliberately } from '../sessions/queries.ts';
import type { Sessions } from '../sessions/sessions.ts';
import { type OneTimeGrant, type OneTimeTokens, toOldAddress } from '../tokens/one-time-tokens.ts';
import { allOrNothing, onUniqueViolation } from '../transactions.ts';
import { canonicalEmail, type EmailGate } from './identifiers.ts';

export interface EmailChange {
  /**
   * `sent`: the new address must be proven first (the answer is the same for a taken one, whose owner is
   * told). `changed`: there is no mail, so it holds at once, unproven. Throws EMAIL_UNCHANGED, EMAIL_NOT_ALLOWED, 403, 429.
   */
  request(
    caller: UserCaller,
    change: { readonly newEmail: string; readonly redirectUri?: string },
    address: string,
  ): Promise<'sent' | 'changed'>;
  /** The new address is proven: it holds. Answers where to go next. Throws LINK_NOT_FOUND, and 409 when it was taken meanwhile. */
  confirm(token: string, origin: Origin): Promise<string | undefined>;
  /** Whether the link that takes a change back works still; uses nothing up. */
  canUndo(token: string): Promise<boolean>;
  /**
   * Puts the old address back, signs everybody out, removes the password and every other way in that was added since
   * the sign-in that asked for the change, and sends the mail for a new password. Throws LINK_NOT_FOUND, 409.
   */
  undo(token: string, origin: Origin): Promise<void>;
}

interface Dependencies extends Pick<Kernel, 'database' | 'events'> {
  readonly tokens: OneTimeTokens;
  readonly messages: Pick<Messages, 'sendEmail' | 'available'>;
  readonly requests: MailRequests;
  readonly guard: MailGuard;
  readonly sessions: Sessions;
  readonly links: Links;
  readonly notices: Notices;
  readonly requireAllowedEmail: EmailGate;
  readonly securityLog: SecurityLog;
  readonly config: () => AuthenticationConfig;
}

export function createEmailChange(dependencies: Dependencies): EmailChange {
  const { database, tokens, messages, requests, guard, requireAllowedEmail, securityLog, config } =
    dependencies;
  const swapper = createSwapper(dependencies);

  requests.handle('accountExists', (transaction, { userId, email: to }) =>
    messages.sendEmail(transaction, {
      ...{ module: 'authentication', template: 'AccountExists' },
      ...{ to, userId, variables: {} },
    }),
  );

  return {
    async request(caller, { newEmail, redirectUri }, address) {
      requireRecentLogin(caller, config().sessions.sudoMaxAge);
      const to = canonicalEmail(newEmail, 'newEmail');
      const page =
        redirectUri === undefined ? undefined : allowedRedirect(redirectUri, config().redirectUris);
      requireAllowedEmail(to, 'newEmail');
      const account = await ownAccount(database, caller);
      if (account.email === to) throw sameEmail();
      await guard.enter('changeEmail', account.userId, address);
      const { sessionId, authenticatedAt: since } = caller;
      if (messages.available('email')) {
        const redirect = page === undefined ? {} : { redirectUri: page };
        await sendLink(dependencies, account, { to, sessionId, since, ...redirect });
        return 'sent';
      }
      const { userId, email: from } = account;
      const change = { userId, from, to, isVerified: false, keep: sessionId, since };
      if (!(await database.transaction((transaction) => swapper.swap(transaction, change))))
        throw authErrors.TOKEN_INVALID();
      return 'changed';
    },
    confirm: (token, origin) =>
      database.transaction(async (transaction) => {
        const grant = await tokens.consume(transaction, 'change-email', token);
        const change = grant && changeOf(grant);
        // A session that was ended as somebody else's must not change the address afterwards.
        const stands = change && !(await wasRevokedDeliberately(transaction, change.keep));
        if (!stands || !(await swapper.swap(transaction, change)))
          throw authErrors.LINK_NOT_FOUND();
        await securityLog.note({ action: 'changeEmail', userId: change.userId, origin });
        return (
          textOf(grant.data.redirectUri) ?? (config().local.verification.redirect_uri || undefined)
        );
      }),
    canUndo: (token) => canUndo(dependencies, token),
    undo: (token, origin) =>
      database.transaction(async (transaction) => {
        const grant = await tokens.consume(transaction, 'undo-change-email', token);
        if (!grant || !(await swapper.undo(transaction, grant))) throw authErrors.LINK_NOT_FOUND();
        // Those of later changes end. Those of earlier ones stay: whoever stole the account may have changed it twice.
        await tokens.discardLater(transaction, 'undo-change-email', token);
        await securityLog.note({ action: 'undoChangeEmail', userId: grant.userId, origin });
      }),
  };
}

async function canUndo({ tokens, database }: Dependencies, token: string): Promise<boolean> {
  const seen = await tokens.peek(database, 'undo-change-email', token);
  return seen !== undefined && !seen.expired && seen.usedAt === undefined;
}

async function ownAccount(database: Kernel['database'], caller: UserCaller): Promise<Credentials> {
  const account = await credentialsById(database, caller.userId);
  if (!account) throw authErrors.TOKEN_INVALID();
  if (account.isAnonymous) throw authErrors.USER_ANONYMOUS();
  return account;
}

interface RequestedAddress {
  readonly to: string;
  readonly sessionId: string;
  readonly since: number;
  readonly redirectUri?: string;
}

/** Sends the link that proves the new address. Whether that is taken is not answered; its owner is told. */
async function sendLink(
  { database, tokens, messages, requests, links, config }: Dependencies,
  account: Credentials,
  requested: RequestedAddress,
): Promise<void> {
  if (await credentialsByEmail(database, requested.to))
    return requests.request('accountExists', requested.to);
  const { userId, email: from } = account;
  const lifetimeMs = config().lifetimes.changeEmail;
  await allOrNothing(database, async (transaction) => {
    const { token } = await tokens.issue(transaction, {
      purpose: 'change-email',
      userId,
      data: { from, ...requested },
      lifetimeMs,
      replaces: true,
    });
    const variables = { link: links.to(`/hook/authentication/verify-change-email/${token}`) };
    return messages.sendEmail(transaction, {
      module: 'authentication',
      to: requested.to,
      userId,
      template: 'ChangeEmailVerification',
      variables,
    });
  });
}

/** The change that a link stands for. */
function changeOf({ userId, data }: OneTimeGrant): Swap | undefined {
  const [to, keep, since] = [textOf(data.to), textOf(data.sessionId), Number(data.since)];
  if (userId === undefined || to === undefined || keep === undefined) return undefined;
  return { userId, from: textOf(data.from) ?? null, to, isVerified: true, keep, since };
}

const textOf = (value: unknown): string | undefined =>
  typeof value === 'string' ? value : undefined;

/** Tells the old address, with the link that takes the change back. */
async function tellOldAddress(
  { tokens, notices, links, config }: Dependencies,
  transaction: Transaction,
  account: Credentials,
  { to: newEmail, since }: Swap,
): Promise<void> {
  const { userId, email, isVerified } = account;
  if (email === null) return;
  const data = { from: newEmail, to: email, isVerified, since };
  const { token } = await tokens.issue(transaction, {
    purpose: 'undo-change-email',
    userId,
    // Nobody else registers the address meanwhile.
    subject: email,
    data,
    lifetimeMs: config().lifetimes.undoChangeEmail,
  });
  await notices.send(transaction, account, 'EmailChanged', {
    newEmail,
    link: links.to(`/hook/authentication/undo-change-email/${token}`),
  });
}

/** The two ways in which an address changes, each within a transaction. */
function createSwapper(dependencies: Dependencies) {
  const { events, tokens, requests, sessions } = dependencies;
  return {
    /** False when the account does not have the address any more that it had when the change was asked for. */
    async swap(transaction: Transaction, change: Swap): Promise<boolean> {
      const { userId, keep } = change;
      const account = await lockCredentials(transaction, userId);
      if (!account || account.email !== change.from) return false;
      await onUniqueViolation(authErrors.USER_EXISTS, () =>
        replaceEmail(transaction, userId, change),
      );
      await tokens.discard(transaction, userId, toOldAddress);
      await sessions.endAll(anonymous, [userId], { reason: 'emailChanged', except: keep });
      await events.emit(transaction, anonymous, userEvent('changeEmail', [userId]));
      await tellOldAddress(dependencies, transaction, account, change);
      return true;
    },
    async undo(transaction: Transaction, { userId = '', data }: OneTimeGrant): Promise<boolean> {
      const to = textOf(data.to);
      const account = await lockCredentials(transaction, userId);
      if (!account || to === undefined) return false;
      const back = { from: account.email, to, isVerified: data.isVerified === true };
      await onUniqueViolation(authErrors.USER_EXISTS, () =>
        replaceEmail(transaction, userId, back),
      );
      // Somebody else may know the password: it goes, and the mailbox leads to a new one.
      await setPassword(transaction, userId, null);
      await dropCredentialsSince(transaction, userId, Number(data.since));
      await tokens.discard(transaction, userId, [...toOldAddress, 'oauth-state', 'oauth-exchange']);
      await sessions.endAll(anonymous, [userId], { reason: 'emailChanged' });
      await events.emit(transaction, anonymous, userEvent('undoChangeEmail', [userId]));
      await requests.request('passwordReset', to);
      return true;
    },
  };
}

const sameEmail = () =>
  authErrors.EMAIL_UNCHANGED({
    errors: [{ path: 'newEmail', rule: 'different', message: 'give another address' }],
  });

interface Swap {
  readonly userId: string;
  readonly from: string | null;
  readonly to: string;
  readonly isVerified: boolean;
  /** The session that asked for it, and goes on. */
  readonly keep: string;
  /** When that session last proved who it is; ms since the epoch. */
  readonly since: number;
}
