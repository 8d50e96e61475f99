/** The accounts at other providers with which a user signs in, as they see and remove them. */

import type { Kernel } from '../../../../host/kernel.ts';
import type { Caller, UserCaller } from '../../../../kernel/caller.ts';
import type { Transaction } from '../../../../kernel/database/database.ts';
import type { AuthenticationConfig } from '../../config.ts';
import { externalErrors } from '../../credential-errors.ts';
import { authErrors } from '../../errors.ts';
import { userEvent } from '../../events.ts';
import {
  type Credentials,
  claimUnverified,
  clearSecondFactor,
  lockCredentials,
} from '../../queries.ts';
import { requireRecentLogin } from '../caller-checks.ts';
import type { Notices } from '../mail/notices.ts';
import type { Sessions } from '../sessions/sessions.ts';
import { endingOnClaim, type OneTimeTokens } from '../tokens/one-time-tokens.ts';
import { deleteDeviceKeysOf, deletePasskeysOf, deviceKeysOf, passkeysOf } from './key-queries.ts';
import {
  deleteIdentitiesOf,
  deleteIdentity,
  deleteSecondFactor,
  dropFactors,
  identitiesOf,
  type ListedIdentity,
} from './queries.ts';

/* Every kind of credential beside password and sessions, and how those of a user are deleted. */

/** A new kind is named here, and does not compile until somebody says how it goes. */
type CredentialKind = 'factorFields' | 'secondFactor' | 'identities' | 'passkeys' | 'deviceKeys';

const deletions: Readonly<
  Record<CredentialKind, (transaction: Transaction, userId: string) => Promise<unknown>>
> = {
  factorFields: dropFactors,
  secondFactor: deleteSecondFactor,
  // At other providers, and wallets.
  identities: deleteIdentitiesOf,
  passkeys: deletePasskeysOf,
  deviceKeys: deleteDeviceKeysOf,
};

/** Takes away everything with which somebody could still get into the account. */
async function deleteCredentials(transaction: Transaction, userId: string): Promise<void> {
  for (const remove of Object.values(deletions)) await remove(transaction, userId);
}

/** What a new password does not close, in words for the mail that tells of it; empty where there is nothing. */
export async function waysBesidePassword(
  transaction: Transaction,
  userId: string,
): Promise<string> {
  const counted = (count: number, one: string): string[] =>
    count === 0 ? [] : [count === 1 ? `1 ${one}` : `${count} ${one}s`];
  const providers = (await identitiesOf(transaction, userId)).map(({ provider }) => provider);
  return [
    ...counted((await passkeysOf(transaction, userId)).length, 'passkey'),
    ...counted((await deviceKeysOf(transaction, userId)).length, 'device'),
    ...[...new Set(providers)].map((provider) => `an account at ${provider}`),
  ].join(', ');
}

/*
 * Somebody proves to own the mailbox of an account whose address was never proven. They are its owner; but
 * whoever made the account may have been somebody else, waiting for just this (account pre-hijacking).
 * So everything with which one could still get in goes; the data stays. An account with a second factor is not
 * claimed: whoever has the mailbox must prove that factor too, as at every sign-in.
 */

export interface AccountTakeoverGuard {
  /** For an account that the transaction has locked and that is not verified; nothing while it has a second factor. Ends its sessions on every node when it commits. */
  claim(
    transaction: Transaction,
    caller: Caller,
    account: { readonly userId: string; readonly email: string },
  ): Promise<void>;
}

interface TakeoverDependencies extends Pick<Kernel, 'events'> {
  readonly sessions: Sessions;
  readonly tokens: OneTimeTokens;
}

export const createAccountTakeoverGuard = ({
  events,
  sessions,
  tokens,
}: TakeoverDependencies): AccountTakeoverGuard => ({
  async claim(transaction, caller, { userId, email }) {
    if (!(await claimUnverified(transaction, userId, email))) return;
    await deleteCredentials(transaction, userId);
    await tokens.discard(transaction, userId, endingOnClaim);
    await sessions.endAll(caller, [userId], { reason: 'revoked' });
    await events.emit(transaction, caller, userEvent('verified', [userId]));
  },
});

/*
 * Takes the second factor off an account, for an operator whose user has lost it. Each kind of factor brings the
 * part that deletes its secrets; what was signed in until then is signed out.
 */

/** Deletes the secrets and codes of one kind of factor, in the transaction that takes it off. */
type FactorHook = (transaction: Transaction, userId: string) => Promise<void>;

export interface SecondFactorReset {
  /** For a user whose row the transaction has locked. */
  reset(transaction: Transaction, caller: Caller, userId: string): Promise<void>;
  /** Adds a hook; answers how to take it away. */
  onReset(hook: FactorHook): () => void;
}

interface ResetDependencies extends Pick<Kernel, 'events'> {
  readonly sessions: Sessions;
}

export function createSecondFactorReset({
  events,
  sessions,
}: ResetDependencies): SecondFactorReset {
  const hooks: FactorHook[] = [];
  return {
    async reset(transaction, caller, userId) {
      for (const hook of hooks) await hook(transaction, userId);
      await clearSecondFactor(transaction, userId);
      await sessions.endAll(caller, [userId], { reason: 'factorsChanged' });
      await events.emit(transaction, caller, userEvent('resetTwofa', [userId]));
    },
    onReset(hook) {
      hooks.push(hook);
      return () => void hooks.splice(hooks.indexOf(hook), 1);
    },
  };
}

/** Whether an account can be entered in one way or another (a passkey, a phone) beside passwords and providers. */
type WayIn = (transaction: Transaction, account: Credentials) => Promise<boolean>;

export interface Identities {
  list(caller: UserCaller): Promise<readonly ListedIdentity[]>;
  /** Removes one and ends all other sessions; needs a fresh sign-in. Throws 404, and 409 for the last way into the account. */
  unlink(caller: UserCaller, identityId: string): Promise<void>;
  /** Whether the account can be entered in any way; for an account that the transaction has locked. */
  canEnter(transaction: Transaction, account: Credentials): Promise<boolean>;
  /** Adds a way in; answers how to take it away. */
  onWaysIn(way: WayIn): () => void;
}

interface IdentityDependencies extends Pick<Kernel, 'database' | 'events'> {
  readonly sessions: Pick<Sessions, 'endAll'>;
  readonly notices: Notices;
  /** Whether users can sign in with that provider now. */
  readonly serves: (provider: string) => boolean;
  readonly config: () => AuthenticationConfig;
}

export function createIdentities({
  database,
  events,
  sessions,
  notices,
  serves,
  config,
}: IdentityDependencies): Identities {
  const ways: WayIn[] = [
    async (_transaction, { hashedPassword }) => hashedPassword !== null && config().local.enabled,
    async (_transaction, { email, isVerified }) =>
      email !== null && isVerified && (config().magic_link.enabled || config().email_code.enabled),
  ];

  const canEnter = async (transaction: Transaction, account: Credentials): Promise<boolean> => {
    for (const way of ways) if (await way(transaction, account)) return true;
    return (await identitiesOf(transaction, account.userId)).some(({ provider }) =>
      serves(provider),
    );
  };

  return {
    list: ({ userId }) => identitiesOf(database, userId),
    async unlink(caller, identityId) {
      requireRecentLogin(caller, config().sessions.sudoMaxAge);
      await database.transaction(async (transaction) => {
        // Two removals at once wait for each other, so that they cannot take the last two ways together.
        const account = await lockCredentials(transaction, caller.userId);
        if (!account) throw authErrors.TOKEN_INVALID();
        const provider = (await identitiesOf(transaction, caller.userId)).find(
          ({ _id }) => _id === identityId,
        )?.provider;
        if (
          provider === undefined ||
          !(await deleteIdentity(transaction, caller.userId, identityId))
        )
          throw externalErrors.IDENTITY_NOT_FOUND();
        if (!(await canEnter(transaction, account)))
          throw externalErrors.LAST_SIGN_IN_METHOD_PROTECTED();
        // Whoever has got into that account may have come in by it.
        await sessions.endAll(caller, [caller.userId], {
          reason: 'factorsChanged',
          except: caller.sessionId,
        });
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
