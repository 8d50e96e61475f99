/** Login with a password, by e-mail or by user name. */

import type { Kernel } from '../../../../host/kernel.ts';
import { anonymous } from '../../../../kernel/caller.ts';
import type { Database } from '../../../../kernel/database/database.ts';
import type { PenstockError } from '../../../../kernel/errors.ts';
import type { Messages } from '../../../communications/index.ts';
import type { AuthenticationConfig } from '../../config.ts';
import { authErrors } from '../../errors.ts';
import { userEvent } from '../../events.ts';
import {
  type Credentials,
  credentialsByEmail,
  credentialsById,
  credentialsByUsername,
  lockCredentials,
  replacePassword,
  setPassword,
} from '../../queries.ts';
import { allowedRedirect, withQuery } from '../../redirects.ts';
import type { OwnStrategy } from '../../strategies.ts';
import { canonicalEmail, canonicalUsername } from '../accounts/identifiers.ts';
import { type AccountTakeoverGuard, waysBesidePassword } from '../credentials/credentials.ts';
import { deleteDeviceKeysOf } from '../credentials/key-queries.ts';
import type { MailGuard, MailRequests } from '../mail/mail-requests.ts';
import type { Notices } from '../mail/notices.ts';
import type { Origin } from '../origin.ts';
import type { NewPassword } from '../passwords.ts';
import type { SecurityLog } from '../security-log.ts';
import type { LoginGuard } from '../sessions/login-guard.ts';
import type { Sessions } from '../sessions/sessions.ts';
import type { LoginAnswer, SignIn } from '../sessions/sign-in.ts';
import { endWithPassword, type OneTimeTokens } from '../tokens/one-time-tokens.ts';

/* A new password for somebody who cannot sign in, by way of their mailbox. */

export interface PasswordRecovery {
  /** Sends the mail, if there is such an account; the answer is the same in any case. Throws 400, 403 for the redirectUri, 429. */
  forgot(email: string, redirectUri: string | undefined, origin: Origin): Promise<void>;
  /**
   * Sets the password, ends all sessions, device keys and everything else that was on its way to the account. Throws
   * LINK_INVALID, PASSWORD_WEAK, and PASSWORD_UNCHANGED: the token still works after those two.
   */
  reset(token: string, password: string, origin: Origin): Promise<void>;
}

interface RecoveryDependencies extends Pick<Kernel, 'database' | 'events' | 'passwords'> {
  readonly tokens: OneTimeTokens;
  readonly messages: Pick<Messages, 'sendEmail'>;
  readonly requests: MailRequests;
  readonly guard: MailGuard;
  readonly sessions: Sessions;
  readonly takeoverGuard: AccountTakeoverGuard;
  readonly notices: Notices;
  readonly newPassword: NewPassword;
  readonly securityLog: SecurityLog;
  readonly config: () => AuthenticationConfig;
}

export function createPasswordRecovery(dependencies: RecoveryDependencies): PasswordRecovery {
  const { tokens, messages, requests, guard, config } = dependencies;

  requests.handle('passwordReset', async (transaction, { userId, email }, { redirectUri }) => {
    const { token } = await tokens.issue(transaction, {
      purpose: 'reset-password',
      userId,
      data: { email },
      lifetimeMs: config().lifetimes.passwordReset,
      replaces: true,
    });
    const page = redirectUri ?? config().local.forgot_password_redirect_uri;
    const variables =
      page === '' ? { token } : { link: withQuery(page, { reset_token: token }), token };
    return messages.sendEmail(transaction, {
      module: 'authentication',
      to: email,
      userId,
      template: 'ForgotPassword',
      variables,
    });
  });

  return {
    async forgot(presented, redirectUri, origin) {
      const email = canonicalEmail(presented);
      const page =
        redirectUri === undefined ? undefined : allowedRedirect(redirectUri, config().redirectUris);
      await guard.enter('passwordReset', email, origin.address);
      await requests.request(
        'passwordReset',
        email,
        page === undefined ? {} : { redirectUri: page },
        origin,
      );
    },
    reset: (token, password, origin) => reset(dependencies, token, password, origin),
  };
}

/** The account that the token opens, without using the token up. */
async function accountOf(
  { tokens, database }: RecoveryDependencies,
  token: string,
): Promise<Credentials> {
  const seen = await tokens.peek(database, 'reset-password', token);
  const usable = seen && !seen.expired && seen.usedAt === undefined ? seen.userId : undefined;
  const account = usable === undefined ? undefined : await credentialsById(database, usable);
  if (!account || account.email !== seen?.data.email) throw invalidToken();
  return account;
}

async function reset(
  dependencies: RecoveryDependencies,
  token: string,
  password: string,
  origin: Origin,
): Promise<void> {
  const {
    passwords,
    newPassword,
    database,
    tokens,
    takeoverGuard,
    sessions,
    events,
    securityLog,
    notices,
  } = dependencies;
  const account = await accountOf(dependencies, token);
  const same =
    account.hashedPassword !== null && (await passwords.verify(account.hashedPassword, password));
  if (same)
    throw authErrors.PASSWORD_UNCHANGED({
      errors: [{ path: 'password', rule: 'different', message: 'choose another password' }],
    });
  const hash = await newPassword(password, [account.email, account.username]);
  await database.transaction(async (transaction) => {
    if (!(await tokens.consume(transaction, 'reset-password', token))) throw invalidToken();
    const now = await lockCredentials(transaction, account.userId);
    if (!now?.email || now.email !== account.email) throw invalidToken();
    const { userId, email } = now;
    // Whoever follows the mail owns the mailbox, so the address is proven too.
    if (!now.isVerified) await takeoverGuard.claim(transaction, anonymous, { userId, email });
    await setPassword(transaction, userId, hash);
    await sessions.endAll(anonymous, [userId], { reason: 'passwordChanged' });
    await tokens.discard(transaction, userId, endWithPassword);
    // Like sessions they open the account by themselves, and are as soon made again.
    const devices = await deleteDeviceKeysOf(transaction, userId);
    await events.emit(transaction, anonymous, userEvent('resetPassword', [userId]));
    if (devices > 0) await events.emit(transaction, anonymous, userEvent('removeDevice', [userId]));
    await securityLog.note({ action: 'resetPassword', userId, origin });
    const ways = await waysBesidePassword(transaction, userId);
    await notices.send(transaction, now, 'PasswordChanged', {
      devices: devices > 0 ? String(devices) : '',
      ways,
    });
  });
}

const invalidToken = () => {
  const message = 'this is not valid, or was used already: ask for a new one';
  return authErrors.LINK_INVALID({
    message: `passwordResetToken: ${message}`,
    errors: [{ path: 'passwordResetToken', rule: 'valid', message }],
  });
};

interface PasswordLogin {
  /** An address or a user name. */
  readonly name: string;
  readonly password: string;
}

export interface LocalLogin {
  /** 401 alike for an unknown address and a wrong password; 403 for a blocked or unverified account only once the password was right. */
  byEmail(input: PasswordLogin, origin: Origin): Promise<LoginAnswer>;
  /** The same by user name. */
  byUsername(input: PasswordLogin, origin: Origin): Promise<LoginAnswer>;
}

interface LoginDependencies extends Pick<Kernel, 'database' | 'passwords'> {
  readonly signIn: SignIn;
  readonly guard: LoginGuard;
}

/** How an account is looked up by what was presented. */
interface Lookup {
  readonly strategy: OwnStrategy;
  /** The answer to what does not fit. */
  wrong(): PenstockError;
  canonical(name: string): string;
  find(database: Database, name: string): Promise<Credentials | undefined>;
}

const byEmail: Lookup = {
  strategy: 'local',
  wrong: () => authErrors.CREDENTIALS_INVALID(),
  canonical: canonicalEmail,
  find: credentialsByEmail,
};
const byUsername: Lookup = {
  strategy: 'username',
  wrong: () =>
    authErrors.CREDENTIALS_INVALID({ message: 'The user name or the password is not right' }),
  canonical: canonicalUsername,
  find: credentialsByUsername,
};

export function createLocalLogin({
  database,
  passwords,
  signIn,
  guard,
}: LoginDependencies): LocalLogin {
  const login = async (
    lookup: Lookup,
    { name: presented, password }: PasswordLogin,
    origin: Origin,
  ): Promise<LoginAnswer> => {
    const name = lookup.canonical(presented);
    const { strategy } = lookup;
    const account = await lookup.find(database, name);
    const attempt = { name, account, address: origin.address };
    const mayEnter = await guard.enter(attempt).catch(async (error: unknown) => {
      await signIn.refused({ strategy, outcome: 'limited', origin });
      throw error;
    });
    // Unknown accounts and accounts without a password cost the same work.
    const isRight = await passwords.verify(account?.hashedPassword ?? undefined, password);
    if (!account || !isRight || !mayEnter) {
      await signIn.refused({
        strategy,
        outcome: mayEnter ? 'wrong' : 'limited',
        origin,
        userId: account?.userId,
      });
      throw lookup.wrong();
    }
    const [answer] = await Promise.all([
      signIn.open(account, origin, strategy),
      guard.succeeded(attempt),
    ]);
    await refreshHash(account, password);
    return answer;
  };

  return {
    byEmail: (input, origin) => login(byEmail, input, origin),
    byUsername: (input, origin) => login(byUsername, input, origin),
  };

  /** Stores the password with today's parameters when the hash was made with others. */
  async function refreshHash(account: Credentials, password: string): Promise<void> {
    const { hashedPassword: from } = account;
    if (from === null || !passwords.outdated(from)) return;
    await replacePassword(database, account.userId, { from, to: await passwords.hash(password) });
  }
}
