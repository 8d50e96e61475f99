/** What an operator does for a user who cannot get in, or whom somebody else has got in as. */

import type { Kernel } from '../../../../host/kernel.ts';
import { requireAuthority } from '../../../../kernel/authority.ts';
import type { AdminCaller, Caller } from '../../../../kernel/caller.ts';
import type { Transaction } from '../../../../kernel/database/database.ts';
import { errors, invalid } from '../../../../kernel/errors.ts';
import { newId } from '../../../../kernel/ids.ts';
import type { BuiltInTemplate, Messages } from '../../../communications/index.ts';
import type { AuthenticationConfig } from '../../config.ts';
import { authErrors } from '../../errors.ts';
import { userEvent } from '../../events.ts';
import { type Credentials, credentialsById, lockCredentials, setPassword } from '../../queries.ts';
import { withQuery } from '../../redirects.ts';
import type { SecondFactorReset } from '../credentials/credentials.ts';
import { deleteDeviceKeysOf } from '../credentials/key-queries.ts';
import { clientOf, type Origin, storedUserAgent } from '../origin.ts';
import { insertImpersonation } from '../sessions/queries.ts';
import type { PairMaker } from '../sessions/session-opening.ts';
import type { Sessions } from '../sessions/sessions.ts';
import { endWithPassword, type OneTimeTokens } from '../tokens/one-time-tokens.ts';

/*
 * An operator acts as a user, to see what they see. The session is short, cannot be renewed, passes no check for a
 * fresh login, and its token, its log lines and its events name the operator.
 */

interface ImpersonationToken {
  readonly userId: string;
  readonly accessToken: string;
  /** Ms since the epoch. */
  readonly expiresAt: number;
}

/** Opens the session. Throws 404, and 403 for a blocked user and for tokens that are narrowed to modules. `clientId` of the origin: the app that the token is for. */
export type Impersonation = (
  caller: AdminCaller,
  userId: string,
  origin: Origin,
) => Promise<ImpersonationToken>;

interface ImpersonationDependencies extends Pick<Kernel, 'database' | 'events' | 'identity'> {
  readonly makePair: PairMaker;
  readonly config: () => AuthenticationConfig;
}

export const createImpersonation =
  ({ database, events, identity, makePair, config }: ImpersonationDependencies): Impersonation =>
  (caller, userId, origin) => {
    requireAuthority(caller, anyModule);
    return database.transaction(async (transaction) => {
      // Whoever ends the operator's credential at this moment waits, and ends the session too.
      await identity.admin?.holdCredential?.(transaction, caller);
      const session = await insertImpersonation(transaction, {
        id: newId(),
        userId,
        clientId: clientOf(origin),
        adminId: caller.adminId,
        lifetimeMs: config().impersonation.lifetime,
        address: origin.address,
        userAgent: storedUserAgent(origin.userAgent),
      });
      if (!session)
        throw (await credentialsById(transaction, userId))
          ? authErrors.USER_BLOCKED()
          : authErrors.USER_NOT_FOUND();
      await events.emit(
        transaction,
        caller,
        userEvent('impersonate', [session.userId], session.id),
      );
      const { accessToken } = makePair(session, { tokenId: newId(), refreshToken: undefined });
      return { userId: session.userId, accessToken, expiresAt: session.expiresAt };
    });
  };

/** What users reach belongs to any module. */
const anyModule = { kind: 'everything', what: 'Acting as a user' } as const;

export interface AccountHelp {
  /**
   * The password until now opens nothing any more, all sessions and device keys end, and the user gets a mail with which they
   * chooses another. Throws 404, 400 for a user without an address, 412 while no mail can be sent.
   */
  requirePassword(caller: Caller, userId: string): Promise<void>;
  /** Takes the second factor off and ends all sessions. Throws 404, 400 when there is none. */
  resetSecondFactor(caller: Caller, userId: string): Promise<void>;
}

interface HelpDependencies extends Pick<Kernel, 'database' | 'events'> {
  readonly tokens: OneTimeTokens;
  readonly messages: Pick<Messages, 'sendEmail' | 'available'>;
  readonly sessions: Sessions;
  readonly secondFactor: SecondFactorReset;
  readonly config: () => AuthenticationConfig;
}

export const helpTemplates: readonly BuiltInTemplate[] = [
  {
    name: 'PasswordRequired',
    subject: 'Please choose a new password',
    body: `<p>An operator asks you to choose a new password. The old one does not work any more, and you were signed out everywhere.</p>
{{#if link}}<p><a href="{{link}}">Choose a new password</a></p>{{else}}<p>This is what the app asks you for: <b>{{token}}</b></p>{{/if}}
<p>It works once and for a short time. After that, ask the app for another one as if you had forgotten your password.</p>`,
  },
  {
    name: 'SecondFactorReset',
    subject: 'Your second factor was taken off',
    body: `<p>An operator took the second factor off your account, and you were signed out everywhere.</p>
<p>Sign in and set one up again. If you did not ask for this, tell the operator.</p>`,
  },
];

export function createAccountHelp(dependencies: HelpDependencies): AccountHelp {
  const { database, events, tokens, messages, sessions, secondFactor, config } = dependencies;

  const lock = async (transaction: Transaction, userId: string): Promise<Credentials> => {
    const account = await lockCredentials(transaction, userId);
    if (!account) throw authErrors.USER_NOT_FOUND();
    return account;
  };

  return {
    requirePassword: (caller, userId) =>
      database.transaction(async (transaction) => {
        const { email, isAnonymous } = await lock(transaction, userId);
        if (email === null || isAnonymous)
          throw invalid('id', 'email', 'this user has no e-mail address that the mail could go to');
        if (!messages.available('email'))
          throw errors.PRECONDITION_FAILED({
            message: 'No mail can be sent: switch the channel on first',
          });
        await setPassword(transaction, userId, null);
        await sessions.endAll(caller, [userId], { reason: 'passwordChanged' });
        await tokens.discard(transaction, userId, endWithPassword);
        await deleteDeviceKeysOf(transaction, userId);
        const { token } = await tokens.issue(transaction, {
          purpose: 'reset-password',
          userId,
          data: { email },
          lifetimeMs: config().lifetimes.passwordReset,
          replaces: true,
        });
        const page = config().local.forgot_password_redirect_uri;
        const variables =
          page === '' ? { token } : { token, link: withQuery(page, { reset_token: token }) };
        await messages.sendEmail(transaction, {
          module: 'authentication',
          to: email,
          userId,
          template: 'PasswordRequired',
          variables,
        });
        await events.emit(transaction, caller, userEvent('requirePassword', [userId]));
      }),
    resetSecondFactor: (caller, userId) =>
      database.transaction(async (transaction) => {
        const { email, isAnonymous, hasTwoFA } = await lock(transaction, userId);
        if (!hasTwoFA) throw invalid('id', 'hasTwoFA', 'this user has no second factor');
        await secondFactor.reset(transaction, caller, userId);
        if (email === null || isAnonymous) return;
        await messages.sendEmail(transaction, {
          module: 'authentication',
          to: email,
          userId,
          template: 'SecondFactorReset',
          variables: {},
        });
      }),
  };
}
