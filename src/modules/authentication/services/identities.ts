/** The accounts at other providers with which a user signs in, as he sees and removes them. */
import type { UserCaller } from '../../../kernel/caller.ts';
import type { Transaction } from '../../../kernel/database/database.ts';
import type { Kernel } from '../../../kernel/kernel.ts';
import type { AuthenticationConfig } from '../config.ts';
import { authErrors } from '../errors.ts';
import { userEvent } from '../events.ts';
import { externalErrors } from '../external-errors.ts';
import { deleteIdentity, identitiesOf, type ListedIdentity } from '../identity-queries.ts';
import { type Credentials, lockCredentials } from '../queries.ts';
import type { Notices } from './notices.ts';
import type { Sessions } from './sessions.ts';
import { requireSudo } from './sudo.ts';

/** Whether an account can be entered in one way or another (a passkey, a phone) beside passwords and providers. */
export type WayIn = (transaction: Transaction, account: Credentials) => Promise<boolean>;

export interface Identities {
  list(caller: UserCaller): Promise<readonly ListedIdentity[]>;
  /** Removes one and ends all other sessions; needs a fresh sign-in. Throws 404, and 409 for the last way into the account. */
  unlink(caller: UserCaller, identityId: string): Promise<void>;
  /** Whether the account can be entered in any way; for an account that the transaction has locked. */
  canEnter(transaction: Transaction, account: Credentials): Promise<boolean>;
  /** Adds a way in; answers how to take it away. */
  onWaysIn(way: WayIn): () => void;
}

interface Dependencies extends Pick<Kernel, 'database' | 'events'> {
  readonly sessions: Pick<Sessions, 'endAll'>;
  readonly notices: Notices;
  /** Whether users can sign in with that provider now. */
  readonly serves: (provider: string) => boolean;
  readonly config: () => AuthenticationConfig;
}

export function createIdentities({ database, events, sessions, notices, serves, config }: Dependencies): Identities {
  const ways: WayIn[] = [
    async (_transaction, { hashedPassword }) => hashedPassword !== null && config().local.enabled,
    async (_transaction, { email, isVerified }) =>
      email !== null && isVerified && (config().magic_link.enabled || config().email_code.enabled),
  ];

  const canEnter = async (transaction: Transaction, account: Credentials): Promise<boolean> => {
    for (const way of ways) if (await way(transaction, account)) return true;
    return (await identitiesOf(transaction, account.userId)).some(({ provider }) => serves(provider));
  };

  return {
    list: ({ userId }) => identitiesOf(database, userId),
    async unlink(caller, identityId) {
      requireSudo(caller, config().sessions.sudoMaxAge);
      await database.transaction(async (transaction) => {
        // Two removals at once wait for each other, so that they cannot take the last two ways together.
        const account = await lockCredentials(transaction, caller.userId);
        if (!account) throw authErrors.INVALID_TOKEN();
        const provider = (await identitiesOf(transaction, caller.userId)).find(({ _id }) => _id === identityId)?.provider;
        if (provider === undefined || !(await deleteIdentity(transaction, caller.userId, identityId)))
          throw externalErrors.IDENTITY_NOT_FOUND();
        if (!(await canEnter(transaction, account))) throw externalErrors.LAST_SIGN_IN_METHOD();
        // Whoever has got into that account may have come in by it.
        await sessions.endAll(caller, [caller.userId], { reason: 'factorsChanged', except: caller.sessionId });
        await events.emit(transaction, caller, userEvent('unlinkIdentity', [caller.userId]));
        await notices.send(transaction, account, 'IdentityUnlinked', { provider });
      });
    },
    canEnter,
    onWaysIn(way) {
      ways.push(way);
      return () => void ways.splice(ways.indexOf(way), 1);
    },
  };
}
