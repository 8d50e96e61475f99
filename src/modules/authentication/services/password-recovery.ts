/** A new password for somebody who cannot sign in, by way of his mailbox. */
import { anonymous } from '../../../kernel/caller.ts';
import type { Kernel } from '../../../kernel/kernel.ts';
import type { Messages } from '../../communications/index.ts';
import type { AuthenticationConfig } from '../config.ts';
import { authErrors } from '../errors.ts';
import { userEvent } from '../events.ts';
import { type Credentials, credentialsById, lockCredentials, setPassword } from '../queries.ts';
import type { Claiming } from './claiming.ts';
import { canonicalEmail } from './email.ts';
import { withQuery } from './links.ts';
import type { MailGuard } from './mail-guard.ts';
import type { MailRequests } from './mail-requests.ts';
import type { NewPassword } from './new-password.ts';
import type { Notices } from './notices.ts';
import { type OneTimeTokens, type Purpose, signsIn } from './one-time-tokens.ts';
import type { Origin } from './origin.ts';
import { allowedRedirect } from './redirects.ts';
import type { SecurityLog } from './security-log.ts';
import type { Sessions } from './sessions.ts';

export interface PasswordRecovery {
  /** Sends the mail, if there is such an account; the answer is the same in any case. Throws 400, 403 for the redirectUri, 429. */
  forgot(email: string, redirectUri: string | undefined, origin: Origin): Promise<void>;
  /**
   * Sets the password, ends all sessions and everything else that was on its way to the account. Throws
   * INVALID_CODE, WEAK_PASSWORD, and SAME_PASSWORD: the token still works after those two.
   */
  reset(token: string, password: string, origin: Origin): Promise<void>;
}

interface Dependencies extends Pick<Kernel, 'database' | 'events' | 'passwords'> {
  readonly tokens: OneTimeTokens;
  readonly messages: Pick<Messages, 'sendEmail'>;
  readonly requests: MailRequests;
  readonly guard: MailGuard;
  readonly sessions: Sessions;
  readonly claiming: Claiming;
  readonly notices: Notices;
  readonly newPassword: NewPassword;
  readonly securityLog: SecurityLog;
  readonly config: () => AuthenticationConfig;
}

/** What whoever had the account before may still have in his hands. */
const outstanding: readonly Purpose[] = [...signsIn, 'change-email'];

export function createPasswordRecovery(dependencies: Dependencies): PasswordRecovery {
  const { database, events, passwords, tokens, messages, requests, guard, sessions, claiming, notices, newPassword, securityLog, config } =
    dependencies;

  requests.handle('passwordReset', async (transaction, { userId, email }, { redirectUri }) => {
    const { token } = await tokens.issue(transaction, {
      purpose: 'reset-password',
      userId,
      data: { email },
      lifetimeMs: config().lifetimes.passwordReset,
      replaces: true,
    });
    const page = redirectUri ?? config().local.forgot_password_redirect_uri;
    const variables = page === '' ? { token } : { link: withQuery(page, { reset_token: token }), token };
    return messages.sendEmail(transaction, { to: email, userId, template: 'ForgotPassword', variables });
  });

  /** The account that the token opens, without using the token up. */
  const accountOf = async (token: string): Promise<Credentials> => {
    const seen = await tokens.peek(database, 'reset-password', token);
    const usable = seen && !seen.expired && seen.usedAt === undefined ? seen.userId : undefined;
    const account = usable === undefined ? undefined : await credentialsById(database, usable);
    if (!account || account.email !== seen?.data.email) throw invalidToken();
    return account;
  };

  return {
    async forgot(presented, redirectUri, origin) {
      const email = canonicalEmail(presented);
      const page = redirectUri === undefined ? undefined : allowedRedirect(redirectUri, config().redirectUris);
      await guard.enter('passwordReset', email, origin.address);
      await requests.request('passwordReset', email, page === undefined ? {} : { redirectUri: page }, origin);
    },
    async reset(token, password, origin) {
      const account = await accountOf(token);
      const same = account.hashedPassword !== null && (await passwords.verify(account.hashedPassword, password));
      if (same) throw authErrors.SAME_PASSWORD({ errors: [{ path: 'password', rule: 'different', message: 'choose another password' }] });
      const hash = await newPassword(password, [account.email, account.username]);
      await database.transaction(async (transaction) => {
        if (!(await tokens.consume(transaction, 'reset-password', token))) throw invalidToken();
        const now = await lockCredentials(transaction, account.userId);
        if (!now?.email || now.email !== account.email) throw invalidToken();
        const { userId, email } = now;
        // Whoever follows the mail owns the mailbox, so the address is proven too.
        if (!now.isVerified) await claiming.claim(transaction, anonymous, { userId, email });
        await setPassword(transaction, userId, hash);
        await sessions.endAll(anonymous, [userId], { reason: 'passwordChanged' });
        await tokens.discard(transaction, userId, outstanding);
        await events.emit(transaction, anonymous, userEvent('resetPassword', [userId]));
        await securityLog.note({ action: 'resetPassword', userId, origin });
        await notices.send(transaction, now, 'PasswordChanged', {});
      });
    },
  };
}

const invalidToken = () => {
  const message = 'this is not valid, or was used already: ask for a new one';
  return authErrors.INVALID_CODE({
    message: `passwordResetToken: ${message}`,
    errors: [{ path: 'passwordResetToken', rule: 'valid', message }],
  });
};
