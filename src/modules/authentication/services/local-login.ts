/** Login with a password, by e-mail or by user name. */
import type { Database } from '../../../kernel/database/database.ts';
import type { PenstockError } from '../../../kernel/errors.ts';
import type { Kernel } from '../../../kernel/kernel.ts';
import { authErrors } from '../errors.ts';
import { type Credentials, credentialsByEmail, credentialsByUsername, replacePassword } from '../queries.ts';
import { canonicalEmail } from './email.ts';
import type { LoginGuard } from './login-guard.ts';
import type { Origin } from './origin.ts';
import type { LoginAnswer, SignIn } from './sign-in.ts';
import type { OwnStrategy } from './strategies.ts';
import { canonicalUsername } from './username.ts';

export interface PasswordLogin {
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

interface Dependencies extends Pick<Kernel, 'database' | 'passwords'> {
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
  wrong: () => authErrors.WRONG_CREDENTIALS(),
  canonical: canonicalEmail,
  find: credentialsByEmail,
};
const byUsername: Lookup = {
  strategy: 'username',
  wrong: () => authErrors.WRONG_CREDENTIALS({ message: 'The user name or the password is not right' }),
  canonical: canonicalUsername,
  find: credentialsByUsername,
};

export function createLocalLogin({ database, passwords, signIn, guard }: Dependencies): LocalLogin {
  const login = async (lookup: Lookup, { name: presented, password }: PasswordLogin, origin: Origin): Promise<LoginAnswer> => {
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
      await signIn.refused({ strategy, outcome: mayEnter ? 'wrong' : 'limited', origin, userId: account?.userId });
      throw lookup.wrong();
    }
    const [answer] = await Promise.all([signIn.open(account, origin, strategy), guard.succeeded(attempt)]);
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
