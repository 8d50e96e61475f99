/** The account of a signed-in user, for changes of what signs him in. */
import type { Caller, UserCaller } from '../../../kernel/caller.ts';
import type { Queryable, Transaction } from '../../../kernel/database/database.ts';
import { authErrors } from '../errors.ts';
import { type Credentials, credentialsById, lockCredentials } from '../queries.ts';
import { requireHimself } from './sudo.ts';

/** The account, if there is one still (else 401) and it has a name (else 403). */
export function registeredAccount(account: Credentials | undefined): Credentials {
  if (!account) throw authErrors.INVALID_TOKEN();
  if (account.isAnonymous) throw authErrors.ANONYMOUS_USER();
  return account;
}

/** The same, locked: two changes at once wait for each other. Throws 403 for an operator who acts as the user. */
export async function lockRegistered(transaction: Transaction, caller: UserCaller): Promise<Credentials> {
  requireHimself(caller);
  return registeredAccount(await lockCredentials(transaction, caller.userId));
}

/** The caller, unless he is nobody or an anonymous user. */
export async function registeredCaller(database: Queryable, caller: Caller): Promise<UserCaller | undefined> {
  if (caller.kind !== 'user') return undefined;
  const account = await credentialsById(database, caller.userId);
  return account?.isAnonymous ? undefined : caller;
}
