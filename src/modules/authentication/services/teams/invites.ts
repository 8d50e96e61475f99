/**
 * Invitations. A token is answered once and stored as a hash; lists name invitations by their ids. Of the two
 * tokens of a mailed invitation only the one in the mail proves the mailbox: the inviter knows the other.
 */

import type { Kernel } from '../../../../host/kernel.ts';
import type { Caller, UserCaller } from '../../../../kernel/caller.ts';
import type { Transaction } from '../../../../kernel/database/database.ts';
import { invalid } from '../../../../kernel/errors.ts';
import { newId } from '../../../../kernel/ids.ts';
import { requireAllowed } from '../../../../kernel/limits/durable-limits.ts';
import { readWhile } from '../../../../kernel/read-while.ts';
import { randomToken, sha256 } from '../../../../kernel/security/tokens.ts';
import type { TeamsConfig } from '../../config/teams.ts';
import { authErrors } from '../../errors.ts';
import { teamEvent } from '../../events.ts';
import { covers, type TeamRole } from '../../schemas.ts';
import { canonicalEmail } from '../accounts/identifiers.ts';
import { allowedUserData, type UserDataConfig } from '../accounts/user-data.ts';
import type { TeamAccess, TeamAction } from './access.ts';
import { type InviteMail, keyOfToken } from './invite-mail.ts';
import {
  type InviteRow,
  inviteFacts,
  invitesOfTeam,
  invitesToAddress,
  type NewInvite,
  putInvite,
  type Revocation,
  revokeInvite,
} from './invite-queries.ts';
import { type Person, type TeamRow, teamById } from './queries.ts';
import { requireTeam } from './teams.ts';

const DAY_SECONDS = 86_400;

interface NewInvitation {
  readonly role: TeamRole;
  /** What the account of a new user gets from the start. */
  readonly userData?: Readonly<Record<string, unknown>> | undefined;
}

interface AddressedInvitation extends NewInvitation {
  readonly email: string;
  /** Page that the mail leads to instead of the configured one; one of the allowed. */
  readonly redirectUri?: string | undefined;
}

interface InvitePage {
  readonly skip: number;
  readonly limit: number;
}

export interface Invites {
  /** Living invitations, the newest first. Throws 404. */
  list(
    teamId: string,
    page: InvitePage,
  ): Promise<{ readonly invites: readonly InviteRow[]; readonly count: number }>;
  /** Offers a role to an address, in place of an earlier offer; answers the token, once. Without asking for rights. */
  invite(
    caller: Caller,
    teamId: string,
    invitation: AddressedInvitation,
    inviter: Person,
  ): Promise<string>;
  /** A persistent invitation; answers its token, once. Without asking for rights. */
  offer(caller: Caller, teamId: string, invitation: NewInvitation): Promise<string>;
  /** Throws 404, and 403 for a user who may not give the role themselves. Without asking for further rights. */
  revoke(caller: Caller, teamId: string, which: Revocation): Promise<void>;
  /** What a page can show before anybody has signed in; throws 404. */
  facts(token: string): Promise<{
    readonly email: string | null;
    readonly userData: Readonly<Record<string, unknown>> | null;
  }>;
}

interface Dependencies extends Pick<Kernel, 'database' | 'events' | 'schemas'> {
  readonly access: TeamAccess;
  readonly mail: InviteMail;
  /** Throws 400 for an address that may not have an account. */
  readonly requireAllowedEmail: (email: string) => void;
  readonly config: () => TeamsConfig;
  readonly userDataConfig: () => UserDataConfig;
}

export function createInvites(dependencies: Dependencies): Invites {
  const { database, events, access, mail, requireAllowedEmail, config } = dependencies;

  return {
    async list(teamId, page) {
      if (!(await teamById(database, teamId))) throw authErrors.TEAM_NOT_FOUND();
      return invitesOfTeam(database, teamId, page);
    },
    invite: (caller, teamId, { role, userData, redirectUri, ...invitation }, inviter) =>
      changing(dependencies, teamId, async (transaction, team) => {
        const email = canonicalEmail(invitation.email);
        requireAllowedEmail(email);
        const { expiryPeriod, sendEmail } = config().invites;
        // An address that is not allowed is refused whether or not a mail leads there.
        const asked = sendEmail || redirectUri !== undefined ? mail.pageOf(redirectUri) : undefined;
        const page = sendEmail ? asked : undefined;
        const [token, mailed] = [randomToken(), randomToken()];
        const hashes = {
          hash: sha256(token),
          mailedHash: page === undefined ? null : sha256(mailed),
        };
        await store(dependencies, transaction, caller, {
          teamId,
          email,
          role,
          userData,
          ...hashes,
          lifetimeMs: expiryPeriod,
        });
        if (page !== undefined)
          await mail.send(transaction, { to: email, page, token: mailed, team, inviter });
        return token;
      }),
    offer: (caller, teamId, invitation) => offer(dependencies, caller, teamId, invitation),
    revoke: (caller, teamId, which) =>
      changing(dependencies, teamId, async (transaction) => {
        const role = await revokeInvite(transaction, teamId, which);
        if (role === undefined) throw authErrors.INVITE_NOT_FOUND();
        if (caller.kind === 'user') await access.requireReach(caller.userId, teamId, [role]);
        await events.emit(transaction, caller, teamEvent('revokeInvite', teamId, { role }));
      }),
    async facts(token) {
      const key = keyOfToken(token);
      const facts = key && 'hash' in key ? await inviteFacts(database, key.hash) : undefined;
      if (!facts) throw authErrors.INVITE_NOT_FOUND();
      return facts;
    },
  };
}

function changing<T>(
  { database }: Dependencies,
  teamId: string,
  work: (transaction: Transaction, team: TeamRow) => Promise<T>,
): Promise<T> {
  return database.transaction(async (transaction) => {
    const team = await requireTeam(transaction, teamId);
    return work(transaction, team);
  });
}

async function store(
  { userDataConfig, schemas, events }: Dependencies,
  transaction: Transaction,
  caller: Caller,
  invite: Omit<NewInvite, 'id' | 'invitedBy'>,
): Promise<void> {
  const writer = caller.kind === 'user' ? { config: userDataConfig() } : undefined;
  const userData = invite.userData && allowedUserData(schemas, invite.userData, writer);
  await putInvite(transaction, {
    ...invite,
    userData,
    id: newId(),
    invitedBy: caller.kind === 'user' ? caller.userId : null,
  });
  await events.emit(transaction, caller, teamEvent('invite', invite.teamId, { role: invite.role }));
}

function offer(
  dependencies: Dependencies,
  caller: Caller,
  teamId: string,
  { role, userData }: NewInvitation,
): Promise<string> {
  return changing(dependencies, teamId, async (transaction) => {
    const token = randomToken();
    await store(dependencies, transaction, caller, {
      teamId,
      email: null,
      role,
      userData,
      hash: sha256(token),
      mailedHash: null,
      lifetimeMs: null,
    });
    return token;
  });
}

/* What users do with the invitations of their teams, and with those to themselves. */

export interface OwnInvites {
  list(caller: UserCaller, teamId: string, page: InvitePage): ReturnType<Invites['list']>;
  /** Answers the token, once. */
  invite(caller: UserCaller, teamId: string, invitation: AddressedInvitation): Promise<string>;
  revoke(caller: UserCaller, teamId: string, email: string): Promise<void>;
  /** A persistent invitation; answers its token, once. */
  offer(caller: UserCaller, teamId: string, invitation: NewInvitation): Promise<string>;
  /** By its token or its id. */
  revokeOffer(caller: UserCaller, teamId: string, token: string): Promise<void>;
  /** What was offered to the caller's own address, which they must have proven. */
  mine(caller: UserCaller): Promise<readonly (InviteRow & { readonly teamName: string })[]>;
}

interface OwnDependencies extends Pick<Kernel, 'database' | 'durableLimits'> {
  readonly invites: Invites;
  readonly access: TeamAccess;
  readonly config: () => TeamsConfig;
}

export function createOwnInvites(dependencies: OwnDependencies): OwnInvites {
  const { database, durableLimits, invites, access, config } = dependencies;
  /** Mails to strangers, whatever teams somebody makes and from whichever address they come. Throws 429. */
  const requireBudget = async ({ userId }: UserCaller): Promise<void> => {
    const requests = config().invites.maxPerDay;
    const bucket = { name: 'authentication.team-invites', requests, seconds: DAY_SECONDS };
    requireAllowed(await durableLimits.consume(bucket, userId));
  };
  /** Runs the work with the right to it, alone among all changes of the team. */
  const permitted = <T>(
    caller: UserCaller,
    teamId: string,
    action: TeamAction,
    work: () => Promise<T>,
  ): Promise<T> =>
    database.transaction(async (transaction) => {
      await requireTeam(transaction, teamId);
      await access.require(caller, action, teamId);
      return work();
    });
  const requireSwitchedOn = (): void => {
    if (!config().invites.enabled) throw authErrors.INVITES_DISABLED();
  };

  return {
    async list(caller, teamId, page) {
      await access.registered(caller);
      const ask = () => access.require(caller, 'invite', teamId);
      return readWhile(ask, () => invites.list(teamId, page));
    },
    async invite(caller, teamId, invitation) {
      const person = await access.registered(caller);
      requireSwitchedOn();
      return permitted(caller, teamId, 'invite', async () => {
        await access.requireReach(caller.userId, teamId, [invitation.role]);
        await requireBudget(caller);
        return invites.invite(caller, teamId, invitation, person);
      });
    },
    async revoke(caller, teamId, presented) {
      await access.registered(caller);
      const email = canonicalEmail(presented);
      await permitted(caller, teamId, 'invite', () => invites.revoke(caller, teamId, { email }));
    },
    async offer(caller, teamId, invitation) {
      await access.registered(caller);
      requireSwitchedOn();
      return permitted(caller, teamId, 'deleteOwners', () =>
        invites.offer(caller, teamId, invitation),
      );
    },
    async revokeOffer(caller, teamId, token) {
      await access.registered(caller);
      const persistent = keyOfToken(token);
      if (!persistent)
        throw invalid('invitationToken', 'format', 'give the token or the id of the invitation');
      await permitted(caller, teamId, 'deleteOwners', () =>
        invites.revoke(caller, teamId, { persistent }),
      );
    },
    mine: (caller) => mine(dependencies, caller),
  };
}

async function mine(
  { access, database }: OwnDependencies,
  caller: UserCaller,
): Promise<readonly (InviteRow & { readonly teamName: string })[]> {
  const { email, isVerified } = await access.registered(caller);
  if (email === null || !isVerified) return [];
  const found = await invitesToAddress(database, email);
  // Of operators they hold as they are; of users only as far as these may still give the role.
  const given = found.filter(({ invitedBy }) => invitedBy !== null);
  const reaches = await access.reaches(
    given.map(({ invitedBy, teamId }) => ({ userId: String(invitedBy), teamId })),
  );
  const lapsed = new Set(given.filter(({ role }, n) => !covers(reaches[n], role)));
  return found.filter((invite) => !lapsed.has(invite));
}
