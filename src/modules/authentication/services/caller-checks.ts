/** Changes that could hand an account over need somebody who has just proven who they are. */
import type { Caller, UserCaller } from '../../../kernel/caller.ts';
import type { Queryable, Transaction } from '../../../kernel/database/database.ts';
import { authErrors } from '../errors.ts';
import { type Credentials, credentialsById, lockCredentials } from '../queries.ts';

/** Throws 403 unless the caller proved who they are at most `maxAgeMs` ago. An operator who acts as the user never has. */
export function requireRecentLogin(caller: UserCaller, maxAgeMs: number): void {
  const fresh =
    caller.impersonatedBy === undefined && Date.now() - caller.authenticatedAt <= maxAgeMs;
  if (!fresh) throw authErrors.SUDO_REQUIRED();
}

/** Throws 403 for an operator who acts as the user: what would be proven, chosen or taken away here would be the operator's doing. */
export function forbidImpersonation({ impersonatedBy }: UserCaller): void {
  if (impersonatedBy !== undefined) throw authErrors.SUDO_REQUIRED();
}

/* The account of a signed-in user, for changes of what signs them in. */

/** The account, if there is one still (else 401) and it has a name (else 403). */
export function registeredAccount(account: Credentials | undefined): Credentials {
  if (!account) throw authErrors.TOKEN_INVALID();
  if (account.isAnonymous) throw authErrors.USER_ANONYMOUS();
  return account;
}

/** The same, locked: two changes at once wait for each other. Throws 403 for an operator who acts as the user. */
export async function lockRegistered(
  transaction: Transaction,
  caller: UserCaller,
): Promise<Credentials> {
  forbidImpersonation(caller);
  return registeredAccount(await lockCredentials(transaction, caller.userId));
}

/** The caller, unless they are nobody or an anonymous user. */
export async function registeredCaller(
  database: Queryable,
  caller: Caller,
): Promise<UserCaller | undefined> {
  if (caller.kind !== 'user') return undefined;
  const account = await credentialsById(database, caller.userId);
  return account?.isAnonymous ? undefined : caller;
}
