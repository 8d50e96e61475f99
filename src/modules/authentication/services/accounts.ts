/** What a signed-in user does with his own account: read it, change data and password, delete it. */
import { system, type UserCaller } from '../../../kernel/caller.ts';
import { invalid, PenstockError } from '../../../kernel/errors.ts';
import type { Kernel } from '../../../kernel/kernel.ts';
import type { RecordText } from '../../../kernel/records/store.ts';
import type { AuthenticationConfig } from '../config.ts';
import { authErrors } from '../errors.ts';
import { userEvent } from '../events.ts';
import { type Credentials, credentialsById, lockUsers, replacePassword } from '../queries.ts';
import { userSchema } from '../schemas.ts';
import type { LoginGuard } from './login-guard.ts';
import type { Origin } from './origin.ts';
import { requireStrong } from './password-policy.ts';
import type { Sessions } from './sessions.ts';
import { allowedUserData, writingUser } from './user-data.ts';

export interface PasswordChange {
  /** Required unless the account has no password. */
  readonly oldPassword?: string;
  readonly newPassword: string;
}

export interface Accounts {
  read(caller: UserCaller): Promise<RecordText>;
  /** Sets fields that extend the user. */
  update(caller: UserCaller, userData: Readonly<Record<string, unknown>>): Promise<RecordText>;
  /** Replaces the password and ends all other sessions. */
  changePassword(caller: UserCaller, change: PasswordChange, origin: Origin): Promise<void>;
  /** Deletes the account with everything that hangs on it; needs a fresh login. */
  remove(caller: UserCaller): Promise<void>;
}

interface Dependencies extends Pick<Kernel, 'database' | 'events' | 'passwords' | 'records' | 'schemas'> {
  readonly sessions: Sessions;
  readonly guard: LoginGuard;
  readonly config: () => AuthenticationConfig;
}

const schema = userSchema.name;
const asModule = system('authentication');

export function createAccounts(dependencies: Dependencies): Accounts {
  const { database, events, passwords, records, schemas, sessions, guard, config } = dependencies;

  return {
    read: (caller) => unlessGone(() => records.get(asModule, schema, caller.userId)),

    async update(caller, userData) {
      const data = allowedUserData(schemas, userData);
      return writingUser(() =>
        database.transaction(async (transaction) => {
          const user = await unlessGone(() => records.update(asModule, schema, caller.userId, data));
          await events.emit(transaction, caller, userEvent('update', [caller.userId]));
          return user;
        }),
      );
    },

    async changePassword(caller, change, origin) {
      const account = await credentialsById(database, caller.userId);
      if (!account) throw authErrors.INVALID_TOKEN();
      await requireOldPassword(caller, account, { oldPassword: change.oldPassword, origin });
      requireStrong(change.newPassword, [account.email, account.username], config().passwords, 'newPassword');
      requireDifferent(change);
      const to = await passwords.hash(change.newPassword);
      await database.transaction(async (transaction) => {
        // Somebody else was faster: what we checked is no longer the password.
        if (!(await replacePassword(transaction, caller.userId, { from: account.hashedPassword, to }))) throw authErrors.WRONG_PASSWORD();
        await sessions.endAll(caller, [caller.userId], { reason: 'passwordChanged', except: caller.sessionId });
        await events.emit(transaction, caller, userEvent('changePassword', [caller.userId], caller.sessionId));
      });
    },

    async remove(caller) {
      requireSudo(caller, config().sessions.sudoMaxAge);
      await database.transaction(async (transaction) => {
        if ((await lockUsers(transaction, [caller.userId])).length === 0) throw authErrors.INVALID_TOKEN();
        await sessions.forget(transaction, [caller.userId]);
        await records.remove(asModule, schema, caller.userId);
        await events.emit(transaction, caller, userEvent('delete', [caller.userId]));
      });
    },
  };

  /** The old password, or for an account that has none a fresh login. Wrong ones count like failed logins. */
  async function requireOldPassword(
    caller: UserCaller,
    account: Credentials,
    { oldPassword, origin }: { oldPassword: string | undefined; origin: Origin },
  ): Promise<void> {
    if (account.hashedPassword === null) return requireSudo(caller, config().sessions.sudoMaxAge);
    if (oldPassword === undefined) throw invalid('oldPassword', 'required', 'give the present password');
    const name = account.email ?? account.userId;
    await guard.enter(name, origin.address);
    if (!(await passwords.verify(account.hashedPassword, oldPassword))) throw authErrors.WRONG_PASSWORD();
    await guard.succeeded(name, origin.address);
  }
}

/** An account that was deleted while its request was on the way: the token is worth nothing any more. */
async function unlessGone<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    throw error instanceof PenstockError && error.status === 404 ? authErrors.INVALID_TOKEN({ cause: error }) : error;
  }
}

function requireDifferent({ oldPassword, newPassword }: PasswordChange): void {
  if (oldPassword?.normalize('NFKC') !== newPassword.normalize('NFKC')) return;
  throw invalid('newPassword', 'different', 'choose a password that differs from the old one');
}

/** Throws 403 unless the caller proved who he is at most `maxAgeMs` ago. */
function requireSudo(caller: UserCaller, maxAgeMs: number): void {
  if (Date.now() - caller.authenticatedAt > maxAgeMs) throw authErrors.SUDO_REQUIRED();
}
