/**
 * Whose account a profile of a provider is (W5, and the "nOAuth" and pre-hijacking takeovers). The only
 * key is (provider, subject). An e-mail address joins an existing account only when both sides have
 * proven it; where only the provider has, the person is its owner, and whatever somebody else has
 * prepared on the unproven account goes.
 */

import type { Kernel } from '../../../../host/kernel.ts';
import type { Caller } from '../../../../kernel/caller.ts';
import type { Transaction } from '../../../../kernel/database/database.ts';
import { newId } from '../../../../kernel/ids.ts';
import { externalErrors } from '../../credential-errors.ts';
import { authErrors } from '../../errors.ts';
import { userEvent } from '../../events.ts';
import { type Credentials, credentialsByEmail, lockCredentials } from '../../queries.ts';
import type { AccountCreation } from '../accounts/account-lifecycle.ts';
import { canonicalEmail } from '../accounts/identifiers.ts';
import type { Verification } from '../accounts/verification.ts';
import type { AccountTakeoverGuard } from '../credentials/credentials.ts';
import {
  type IdentityFacts,
  type IdentityKey,
  insertIdentity,
  lockIdentity,
  useIdentity,
} from '../credentials/queries.ts';
import type { Notices } from '../mail/notices.ts';
import type { Origin } from '../origin.ts';
import type { SecurityAction, SecurityLog } from '../security-log.ts';
import type { Sessions } from '../sessions/sessions.ts';
import type { ExternalProfile, ProviderSettings } from './provider-contract.ts';

/** What is known about the attempt beside the profile. */
export interface SignInContext {
  readonly origin: Origin;
  readonly invitationToken?: string | undefined;
  /** The anonymous user who signs in: they become the new account, if there is one to make. */
  readonly anonymousUserId?: string | undefined;
}

/** What is asked about a provider here. */
export type OwnersProvider = Pick<ProviderSettings, 'name' | 'accountLinking'>;

export interface Owners {
  /**
   * The user that this profile signs in: the one it is linked to, the one it joins, or a new one. Throws 409
   * and 403 where it may not join, and what account creation throws.
   */
  ownerOf(
    caller: Caller,
    settings: OwnersProvider,
    profile: ExternalProfile,
    signInContext: SignInContext,
  ): Promise<string>;
  /** Links the profile to that user. Throws IDENTITY_EXISTS when it belongs to somebody else. */
  link(
    caller: Caller,
    settings: OwnersProvider,
    profile: ExternalProfile,
    userId: string,
  ): Promise<void>;
}

interface Dependencies extends Pick<Kernel, 'database' | 'events'> {
  readonly creation: AccountCreation;
  readonly takeoverGuard: AccountTakeoverGuard;
  readonly sessions: Sessions;
  readonly notices: Notices;
  readonly securityLog: SecurityLog;
  readonly verification: Pick<Verification, 'send'>;
  /** Whether new unproven addresses get a mail that proves them. */
  readonly verifies: () => boolean;
}

export function createOwners(dependencies: Dependencies): Owners {
  const { database, notices, securityLog } = dependencies;

  return {
    ownerOf: (caller, settings, profile, signInContext) =>
      database.transaction(async (transaction) => {
        const identity = identityOf(settings, profile);
        await lockIdentity(transaction, identity.key);
        const known = await useIdentity(transaction, identity.key, identity.facts);
        if (known !== undefined) return known;
        const step = { transaction, caller };
        const account = await accountAt(transaction, identity.facts.email);
        const userId = account
          ? await join(dependencies, step, settings, { identity, account })
          : await create(
              dependencies,
              step,
              identity,
              await stillAnonymous(transaction, signInContext),
            );
        const action: SecurityAction =
          account === undefined ? 'register' : account.isVerified ? 'linkIdentity' : 'claim';
        await securityLog.note({
          action,
          userId,
          origin: signInContext.origin,
          facts: { strategy: settings.name },
        });
        return userId;
      }),
    link: (caller, settings, profile, userId) =>
      database.transaction(async (transaction) => {
        const identity = identityOf(settings, profile);
        await lockIdentity(transaction, identity.key);
        const known = await useIdentity(transaction, identity.key, identity.facts);
        if (known === userId) return;
        if (known !== undefined) throw externalErrors.IDENTITY_EXISTS();
        const account = await lockCredentials(transaction, userId);
        if (!account) throw authErrors.TOKEN_INVALID();
        await insert(dependencies, { transaction, caller }, identity, userId);
        await notices.send(transaction, account, 'IdentityLinked', { provider: settings.name });
      }),
  };
}

/** The transaction of a sign-in, and who acts in it. */
interface Step {
  readonly transaction: Transaction;
  readonly caller: Caller;
}

async function insert(
  { events }: Dependencies,
  { transaction, caller }: Step,
  { key, facts }: Identity,
  userId: string,
): Promise<void> {
  await insertIdentity(transaction, { id: newId(), userId, ...key, ...facts });
  await events.emit(transaction, caller, userEvent('linkIdentity', [userId]));
}

/** Joins an existing account, or says why not and what to do. */
async function join(
  dependencies: Dependencies,
  step: Step,
  settings: OwnersProvider,
  { identity, account }: Meeting,
): Promise<string> {
  const { takeoverGuard, notices } = dependencies;
  const { transaction, caller } = step;
  if (!identity.facts.emailVerified) throw externalErrors.EXTERNAL_EMAIL_UNVERIFIED();
  // Whoever prepared an account with a second factor would stay in it; its owner can prove themselves and link.
  const isClaimable = account.isVerified || !account.hasTwoFA;
  if (!settings.accountLinking || !isClaimable) throw externalErrors.EXTERNAL_LINKING_DISABLED();
  if (!account.active) throw authErrors.USER_BLOCKED();
  const { userId, email } = account;
  if (!account.isVerified && email !== null)
    await takeoverGuard.claim(transaction, caller, { userId, email });
  await insert(dependencies, step, identity, userId);
  await notices.send(transaction, account, 'IdentityLinked', { provider: settings.name });
  return userId;
}

async function create(
  dependencies: Dependencies,
  step: Step,
  identity: Identity,
  signInContext: SignInContext,
): Promise<string> {
  const { creation, sessions, verification, verifies } = dependencies;
  const { transaction, caller } = step;
  const { email, emailVerified } = identity.facts;
  const { invitationToken, anonymousUserId } = signInContext;
  const { id } = await creation.create(caller, {
    strategy: identity.key.provider,
    isVerified: emailVerified,
    ...(email === null ? {} : { email }),
    ...(invitationToken === undefined ? {} : { invitationToken }),
    ...(anonymousUserId === undefined ? {} : { upgrades: anonymousUserId }),
  });
  // Whoever began as this anonymous user may be somebody else than the person who signed in.
  if (anonymousUserId !== undefined) await sessions.endAll(caller, [id], { reason: 'revoked' });
  if (email !== null && !emailVerified && verifies())
    await verification.send(transaction, { userId: id, email });
  await insert(dependencies, step, identity, id);
  return id;
}

interface Identity {
  readonly key: IdentityKey;
  readonly facts: IdentityFacts;
}

interface Meeting {
  readonly identity: Identity;
  readonly account: Credentials;
}

/** What is stored of a profile. An address that is none of ours counts as no address. */
function identityOf({ name: provider }: OwnersProvider, profile: ExternalProfile): Identity {
  const { subject, emailVerified, name, username, picture } = profile;
  const email = profile.email === undefined ? null : usableEmail(profile.email);
  const parts = Object.entries({ name, username, picture }).filter(
    (part): part is [string, string] => part[1] !== undefined,
  );
  return {
    key: { provider, subject },
    facts: {
      email,
      emailVerified: email !== null && emailVerified,
      data: Object.fromEntries(parts),
    },
  };
}

function usableEmail(text: string): string | null {
  try {
    return canonicalEmail(text);
  } catch {
    return null;
  }
}

/** The account with that address, locked: its password and its proof stay as they are until we are done. */
async function accountAt(
  transaction: Transaction,
  email: string | null,
): Promise<Credentials | undefined> {
  const found = email === null ? undefined : await credentialsByEmail(transaction, email);
  const locked = found && (await lockCredentials(transaction, found.userId));
  return locked?.email === email ? locked : undefined;
}

/** An anonymous user who was registered or deleted meanwhile is not upgraded any more. */
async function stillAnonymous(
  transaction: Transaction,
  signInContext: SignInContext,
): Promise<SignInContext> {
  const { anonymousUserId } = signInContext;
  if (anonymousUserId === undefined) return signInContext;
  const account = await lockCredentials(transaction, anonymousUserId);
  return account?.isAnonymous ? signInContext : { ...signInContext, anonymousUserId: undefined };
}
