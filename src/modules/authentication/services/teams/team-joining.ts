/** The way into a team by an invitation, at registration and later: what holds, for whom, and what it gives. */

import type { Kernel } from '../../../../host/kernel.ts';
import type { Caller, UserCaller } from '../../../../kernel/caller.ts';
import type { Queryable, Transaction } from '../../../../kernel/database/database.ts';
import { randomToken } from '../../../../kernel/security/tokens.ts';
import type { TeamsConfig } from '../../config/teams.ts';
import { authErrors } from '../../errors.ts';
import { teamEvent, userEvent } from '../../events.ts';
import { markVerified } from '../../queries.ts';
import { covers } from '../../schemas.ts';
import { decidedByOthers } from '../../strategies.ts';
import type { NewAccount, RegistrationHook } from '../accounts/account-lifecycle.ts';
import { extensionFields, type UserDataConfig, writableFields } from '../accounts/user-data.ts';
import { membership, type TeamAccess } from './access.ts';
import { keyOfToken } from './invite-mail.ts';
import { type FoundInvite, findInvite, type InviteKey, takeInvite } from './invite-queries.ts';
import type { Members } from './members.ts';
import {
  forgetUnasked,
  holdDefaultTeam,
  isRootName,
  lockDefaultTeam,
  lockTeam,
  type Person,
  rolesOf,
} from './queries.ts';
import type { Teams } from './teams.ts';

/** Every refusal is INVALID_INVITATION: whoever guesses learns nothing from the reason. */
interface TeamJoining {
  /** The invitation, if it lives and whoever made it may still give its role. */
  standing(database: Queryable, key: InviteKey | undefined): Promise<FoundInvite>;
  /** Whether it is for an account with this address. */
  fits(invite: FoundInvite, email: string | null | undefined): boolean;
  /** Locks the team and answers the invitation as it is then. */
  approach(transaction: Transaction, invite: FoundInvite, key: InviteKey): Promise<FoundInvite>;
  /** Uses it up, where it is for one, and gives its role, unless the user has that or a higher one. */
  enter(
    transaction: Transaction,
    caller: Caller,
    userId: string,
    invite: FoundInvite,
  ): Promise<void>;
}

interface Dependencies extends Pick<Kernel, 'events'> {
  readonly access: TeamAccess;
  readonly members: Members;
  readonly config: () => TeamsConfig;
}

export function createTeamJoining({ events, access, members, config }: Dependencies): TeamJoining {
  const standing: TeamJoining['standing'] = async (database, key) => {
    const invite = key && (await findInvite(database, key));
    if (!invite?.offered) throw authErrors.INVALID_INVITATION();
    const { invitedBy, teamId, role } = invite;
    if (invitedBy !== null && !covers(await access.reach(invitedBy, teamId), role))
      throw authErrors.INVALID_INVITATION();
    return invite;
  };

  return {
    standing,
    fits: ({ email: invited }, email) =>
      invited === null || invited === email || config().allowEmailMismatchForInvites,
    async approach(transaction, { teamId }, key) {
      if (!(await lockTeam(transaction, teamId))) throw authErrors.INVALID_INVITATION();
      return standing(transaction, key);
    },
    async enter(transaction, caller, userId, { id, email, teamId, role }) {
      if (email !== null && !(await takeInvite(transaction, id)))
        throw authErrors.INVALID_INVITATION();
      await forgetUnasked(transaction, teamId, [userId]);
      const present = (await rolesOf(transaction, teamId, [userId])).get(userId);
      if (covers(present, role)) return;
      if (present === undefined) await members.add(caller, teamId, [userId], role);
      else await members.changeRole(caller, teamId, [userId], role);
      await events.emit(
        transaction,
        caller,
        teamEvent('join', teamId, { userIds: [userId], role }),
      );
    },
  };
}

/* Taking an invitation as a signed-in user: by its token, or by the id of one to their own proven address. */

/** Answers which role in which team was offered. Throws 403 INVALID_INVITATION. */
export type AcceptInvitation = (
  caller: UserCaller,
  invitationToken: string,
) => Promise<Pick<FoundInvite, 'teamId' | 'role'>>;

interface AcceptanceDependencies extends Pick<Kernel, 'database' | 'events'> {
  readonly access: TeamAccess;
  readonly joining: TeamJoining;
}

export function createAcceptance({
  database,
  events,
  access,
  joining,
}: AcceptanceDependencies): AcceptInvitation {
  /** Whether the invitation, named like this, is for this person. */
  const isFor = (invite: FoundInvite, key: InviteKey, person: Person): boolean =>
    'hash' in key ? joining.fits(invite, person.email) : person.isVerified && isOwn(invite, person);

  return async (caller, invitationToken) => {
    const person = await access.registered(caller);
    const key = keyOfToken(invitationToken);
    const seen = key && (await findInvite(database, key));
    if (!seen) throw authErrors.INVALID_INVITATION();
    return database.transaction(async (transaction) => {
      const invite = await joining.approach(transaction, seen, key);
      if (!isFor(invite, key, person)) throw authErrors.INVALID_INVITATION();
      await joining.enter(transaction, caller, caller.userId, invite);
      const { teamId, role, mailed, email } = invite;
      // Only the mailbox got this token, so whoever has it reads mail to this address.
      const proves = mailed && email !== null && isOwn(invite, person);
      if (proves && (await markVerified(transaction, caller.userId, email))) {
        await events.emit(transaction, caller, userEvent('verified', [caller.userId]));
      }
      return { teamId, role };
    });
  };
}

const isOwn = ({ email }: FoundInvite, person: Person): boolean =>
  email !== null && email === person.email;

/* What registrations of every kind ask of teams, in the transaction that makes the account. */

interface RegistrationDependencies extends Pick<Kernel, 'schemas' | 'events'> {
  readonly access: TeamAccess;
  readonly joining: TeamJoining;
  readonly teams: Teams;
  readonly config: () => TeamsConfig;
  readonly userDataConfig: () => UserDataConfig;
}

const defaultTeamName = 'Default Team';

/** The address that somebody registers with, also where the account is made only for show: the answer must not tell. */
const addressOf = ({ email, presentedEmail }: NewAccount): string | undefined =>
  presentedEmail ?? email;

/** Refuses with 403 INVITATION_REQUIRED and INVALID_INVITATION, and with 503 where it cannot know. */
export function createTeamRegistration(dependencies: RegistrationDependencies): RegistrationHook {
  const { schemas, joining, config, userDataConfig } = dependencies;
  /** The invitation of somebody who registers; nothing where there is none and none is needed. */
  async function presented(
    transaction: Transaction,
    account: NewAccount,
  ): Promise<FoundInvite | undefined> {
    const { invitationToken, strategy } = account;
    if (invitationToken === undefined) {
      if (!config().allowRegistrationWithoutInvite && !decidedByOthers.has(strategy))
        throw authErrors.INVITATION_REQUIRED();
      return undefined;
    }
    const invite = await joining.standing(transaction, keyBeforeAccount(invitationToken));
    if (!joining.fits(invite, addressOf(account))) throw authErrors.INVALID_INVITATION();
    return invite;
  }

  return async (transaction, caller, account) => {
    if (!config().enabled) {
      // There is nothing that such a token could stand for: to go on without it would not be what was asked.
      if (account.invitationToken !== undefined) throw authErrors.INVALID_INVITATION();
      return undefined;
    }
    const invite = await presented(transaction, account);
    // What an operator offers may be the server's; what a user offers may not.
    const known =
      invite?.invitedBy === null
        ? extensionFields(schemas)
        : writableFields(schemas, { config: userDataConfig() });
    return {
      userData: Object.fromEntries(
        Object.entries(invite?.userData ?? {}).filter(([name]) => known.has(name)),
      ),
      isVerified: invite?.mailed === true && invite.email === addressOf(account),
      async registered(userId) {
        if (invite)
          await joining.enter(
            transaction,
            caller,
            userId,
            await joining.approach(transaction, invite, { id: invite.id }),
          );
        if (config().enableDefaultTeam)
          await joinDefault(dependencies, transaction, caller, userId);
      },
    };
  };
}

async function joinDefault(
  dependencies: RegistrationDependencies,
  transaction: Transaction,
  caller: Caller,
  userId: string,
): Promise<void> {
  const { access, events } = dependencies;
  const { id } =
    (await holdDefaultTeam(transaction)) ?? (await makeDefault(dependencies, transaction, caller));
  // An anonymous user who registers is in it already.
  if ((await rolesOf(transaction, id, [userId])).size > 0) return;
  await access.authorization().relate(caller, [membership(userId, 'member', id)]);
  await events.emit(
    transaction,
    caller,
    teamEvent('addMembers', id, { userIds: [userId], role: 'member' }),
  );
}

/** Makes the default team, unless somebody else has done so while this waited. */
async function makeDefault(
  { teams }: RegistrationDependencies,
  transaction: Transaction,
  caller: Caller,
): Promise<{ readonly id: string }> {
  await lockDefaultTeam(transaction);
  const made = await holdDefaultTeam(transaction);
  if (made) return made;
  // Somebody may have taken the name; nobody's registration shall fail for that.
  const name = (await isRootName(transaction, defaultTeamName))
    ? `${defaultTeamName} ${randomToken(6)}`
    : defaultTeamName;
  const { _id } = JSON.parse(await teams.create(caller, { name, isDefault: true })) as {
    readonly _id: string;
  };
  return { id: _id };
}

/** An id is for those who have proven an address; nobody has before they have an account. */
function keyBeforeAccount(invitationToken: string): InviteKey | undefined {
  const key = keyOfToken(invitationToken);
  return key && 'hash' in key ? key : undefined;
}
