/** Registration and login with e-mail and password. */
import { type Caller, system } from '../../../kernel/caller.ts';
import type { Kernel } from '../../../kernel/kernel.ts';
import type { RecordText } from '../../../kernel/records/store.ts';
import type { AuthenticationConfig } from '../config.ts';
import { authErrors } from '../errors.ts';
import { userEvent } from '../events.ts';
import { type Credentials, credentialsByEmail, replacePassword } from '../queries.ts';
import { userSchema } from '../schemas.ts';
import { canonicalEmail } from './email.ts';
import type { LoginGuard } from './login-guard.ts';
import type { Origin } from './origin.ts';
import { requireStrong } from './password-policy.ts';
import type { SessionOpener } from './session-opening.ts';
import type { TokenPair } from './token-pairs.ts';
import { allowedUserData, writingUser } from './user-data.ts';

export interface Registration {
  readonly email: string;
  readonly password: string;
  readonly userData?: Readonly<Record<string, unknown>>;
}

export interface LoginInput {
  readonly email: string;
  readonly password: string;
}

export interface LoginAnswer extends TokenPair {
  readonly userId: string;
  /** Set while a second factor is owed: the access token then opens only the second step. */
  readonly twoFaRequired?: true;
  readonly twoFaMethod?: string;
}

export interface LocalLogin {
  /** Creates an account with a password; no session. 409 when the address is taken. */
  register(caller: Caller, input: Registration): Promise<RecordText>;
  /** 401 alike for an unknown address and a wrong password; 403 for a blocked account only once the password was right. */
  login(input: LoginInput, origin: Origin): Promise<LoginAnswer>;
}

interface Dependencies extends Pick<Kernel, 'database' | 'events' | 'passwords' | 'records' | 'schemas' | 'metrics'> {
  readonly open: SessionOpener;
  readonly guard: LoginGuard;
  readonly config: () => AuthenticationConfig;
}

type Outcome = 'success' | 'wrong' | 'blocked' | 'limited';

export function createLocalLogin(dependencies: Dependencies): LocalLogin {
  const { database, events, passwords, records, schemas, open, guard, config } = dependencies;
  const logins = dependencies.metrics.counter('login_requests_total', 'Logins by how they ended', ['strategy', 'outcome']);
  const count = (outcome: Outcome): void => logins.inc({ strategy: 'local', outcome });

  return {
    async register(caller, { email: presented, password, userData = {} }) {
      const email = canonicalEmail(presented);
      requireStrong(password, [email], config().passwords);
      const data = allowedUserData(schemas, userData);
      if (await credentialsByEmail(database, email)) throw authErrors.USER_EXISTS();
      const hashedPassword = await passwords.hash(password);
      return writingUser(() =>
        database.transaction(async (transaction) => {
          const user = await records.create(system('authentication'), userSchema.name, { ...data, email, hashedPassword });
          await events.emit(transaction, caller, userEvent('register', [user.id]));
          return user;
        }),
      );
    },

    async login({ email: presented, password }, origin) {
      const email = canonicalEmail(presented);
      await guard.enter(email, origin.address).catch((error: unknown) => {
        count('limited');
        throw error;
      });
      const account = await proven(await credentialsByEmail(database, email), password);
      const pair = account?.active ? await open(account, origin) : undefined;
      if (account === undefined || (account.active && pair === undefined)) {
        count('wrong');
        throw authErrors.WRONG_CREDENTIALS();
      }
      await guard.succeeded(email, origin.address);
      if (pair === undefined) {
        count('blocked');
        throw authErrors.USER_BLOCKED();
      }
      count('success');
      await refreshHash(account, password);
      return { userId: account.userId, ...pair, ...(account.hasTwoFA ? secondFactor(account) : {}) };
    },
  };

  /** The account when the password is right. Unknown accounts and accounts without a password cost the same work. */
  async function proven(account: Credentials | undefined, password: string): Promise<Credentials | undefined> {
    return (await passwords.verify(account?.hashedPassword ?? undefined, password)) ? account : undefined;
  }

  /** Stores the password with today's parameters when the hash was made with others. */
  async function refreshHash(account: Credentials, password: string): Promise<void> {
    const { hashedPassword: from } = account;
    if (from === null || !passwords.outdated(from)) return;
    await replacePassword(database, account.userId, { from, to: await passwords.hash(password) });
  }
}

const secondFactor = (account: Credentials): Pick<LoginAnswer, 'twoFaRequired' | 'twoFaMethod'> => ({
  twoFaRequired: true,
  ...(account.twoFaMethod === null ? {} : { twoFaMethod: account.twoFaMethod }),
});
