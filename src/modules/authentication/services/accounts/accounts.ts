/** What a signed-in user does with their own account: read it, change data and password, delete it. */

import type { Kernel } from '../../../../host/kernel.ts';
import { system, type UserCaller } from '../../../../kernel/caller.ts';
import { invalid, PenstockError } from '../../../../kernel/errors.ts';
import type { AuthenticationConfig } from '../../config.ts';
import { authErrors } from '../../errors.ts';
import { userEvent } from '../../events.ts';
import { type Credentials, credentialsById, lockUsers, replacePassword } from '../../queries.ts';
import { userSchema } from '../../schemas.ts';
import { forbidImpersonation, requireRecentLogin } from '../caller-checks.ts';
import { waysBesidePassword } from '../credentials/credentials.ts';
import type { Notices } from '../mail/notices.ts';
import type { Origin } from '../origin.ts';
import type { NewPassword } from '../passwords.ts';
import { attemptAt, type LoginGuard } from '../sessions/login-guard.ts';
import type { Sessions } from '../sessions/sessions.ts';
import { endWithPassword, type OneTimeTokens } from '../tokens/one-time-tokens.ts';
import type { AccountErasure } from './account-lifecycle.ts';
import { allowedUserData, asksForRoles, userView, writingUser } from './user-data.ts';

export interface PasswordChange {
  /** Required unless the account has no password. */
  readonly oldPassword?: string;
  readonly newPassword: string;
}

export interface Accounts {
  read(caller: UserCaller): Promise<string>;
  /** Sets fields that extend the user and that users may write. Throws 400 with the others. */
  update(caller: UserCaller, userData: Readonly<Record<string, unknown>>): Promise<string>;
  /** Replaces the password and ends all other sessions. Throws 403 for an operator who acts as the user. */
  changePassword(caller: UserCaller, change: PasswordChange, origin: Origin): Promise<void>;
  /** The same after a fresh login instead of the old password. */
  setPassword(caller: UserCaller, newPassword: string): Promise<void>;
  /** Deletes the account with everything that hangs on it; needs a fresh login. */
  remove(caller: UserCaller): Promise<void>;
}

interface Dependencies
  extends Pick<
    Kernel,
    'database' | 'events' | 'passwords' | 'permissions' | 'records' | 'schemas'
  > {
  readonly sessions: Sessions;
  readonly guard: LoginGuard;
  readonly newPassword: NewPassword;
  readonly tokens: Pick<OneTimeTokens, 'discard'>;
  readonly erasure: AccountErasure;
  readonly notices: Notices;
  readonly config: () => AuthenticationConfig;
}

const schema = userSchema.name;
const asModule = system('authentication');

export function createAccounts(dependencies: Dependencies): Accounts {
  const {
    database,
    events,
    permissions,
    records,
    schemas,

    erasure,

    config,
  } = dependencies;

  /** Nothing where no field asks for a role, and while nobody can answer: then nobody holds one. */
  const rolesOf = async (caller: UserCaller): Promise<ReadonlySet<string> | undefined> =>
    asksForRoles(schemas) ? permissions.engine?.roles(caller) : undefined;

  return {
    async read(caller) {
      const { json } = await unlessGone(() => records.get(asModule, schema, caller.userId));
      return userView(schemas, json, await rolesOf(caller));
    },

    async update(caller, userData) {
      const roles = await rolesOf(caller);
      const data = allowedUserData(schemas, userData, {
        config: config().userData,
        ...(roles && { roles }),
      });
      const { json } = await writingUser(() =>
        database.transaction(async (transaction) => {
          const user = await unlessGone(() =>
            records.update(asModule, schema, caller.userId, data),
          );
          await events.emit(transaction, caller, userEvent('update', [caller.userId]));
          return user;
        }),
      );
      return userView(schemas, json, roles);
    },

    async changePassword(caller, change, origin) {
      forbidImpersonation(caller);
      const account = await ownAccount(dependencies, caller);
      await requireOldPassword(dependencies, caller, account, {
        oldPassword: change.oldPassword,
        origin,
      });
      requireDifferent(change);
      await replace(dependencies, caller, account, change.newPassword);
    },
    async setPassword(caller, next) {
      requireRecentLogin(caller, config().sessions.sudoMaxAge);
      await replace(dependencies, caller, await ownAccount(dependencies, caller), next);
    },
    async remove(caller) {
      requireRecentLogin(caller, config().sessions.sudoMaxAge);
      await database.transaction(async (transaction) => {
        if ((await lockUsers(transaction, [caller.userId])).length === 0)
          throw authErrors.TOKEN_INVALID();
        await erasure.erase(transaction, caller, [caller.userId]);
      });
    },
  };
}

async function ownAccount({ database }: Dependencies, caller: UserCaller): Promise<Credentials> {
  const account = await credentialsById(database, caller.userId);
  if (!account) throw authErrors.TOKEN_INVALID();
  if (account.isAnonymous) throw authErrors.USER_ANONYMOUS();
  return account;
}

/** Stores the new password, ends all other sessions and tells the owner. */
async function replace(
  { newPassword, database, sessions, tokens, events, notices }: Dependencies,
  caller: UserCaller,
  account: Credentials,
  next: string,
): Promise<void> {
  const to = await newPassword(next, [account.email, account.username], 'newPassword');
  const { userId } = account;
  await database.transaction(async (transaction) => {
    // Somebody else was faster: what we checked is no longer the password.
    if (!(await replacePassword(transaction, userId, { from: account.hashedPassword, to })))
      throw authErrors.PASSWORD_INCORRECT();
    await sessions.endAll(caller, [userId], {
      reason: 'passwordChanged',
      except: caller.sessionId,
    });
    await tokens.discard(transaction, userId, endWithPassword);
    await events.emit(transaction, caller, userEvent('changePassword', [userId], caller.sessionId));
    const ways = await waysBesidePassword(transaction, userId);
    await notices.send(transaction, account, 'PasswordChanged', { devices: '', ways });
  });
}

/** The old password, or for an account that has none a fresh login. Wrong ones count like failed logins. */
async function requireOldPassword(
  { config, guard, passwords }: Dependencies,
  caller: UserCaller,
  account: Credentials,
  { oldPassword, origin }: { oldPassword: string | undefined; origin: Origin },
): Promise<void> {
  if (account.hashedPassword === null)
    return requireRecentLogin(caller, config().sessions.sudoMaxAge);
  if (oldPassword === undefined)
    throw invalid('oldPassword', 'required', 'give the present password');
  const attempt = attemptAt(account, origin.address);
  const mayTry = await guard.enter(attempt);
  if (!(await passwords.verify(account.hashedPassword, oldPassword)) || !mayTry)
    throw authErrors.PASSWORD_INCORRECT();
  await guard.succeeded(attempt);
}

/** An account that was deleted while its request was on the way: the token is worth nothing any more. */
async function unlessGone<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    throw error instanceof PenstockError && error.status === 404
      ? authErrors.TOKEN_INVALID({ cause: error })
      : error;
  }
}

function requireDifferent({ oldPassword, newPassword }: PasswordChange): void {
  if (oldPassword?.normalize('NFKC') !== newPassword.normalize('NFKC')) return;
  throw invalid('newPassword', 'different', 'choose a password that differs from the old one');
}
