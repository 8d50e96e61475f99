/** What registrations of every kind ask of teams, in the transaction that makes the account. */
import type { Caller } from '../../../../kernel/caller.ts';
import type { Transaction } from '../../../../kernel/database/database.ts';
import type { Kernel } from '../../../../kernel/kernel.ts';
import { randomToken } from '../../../../kernel/security/tokens.ts';
import type { TeamsConfig } from '../../config/teams.ts';
import { authErrors } from '../../errors.ts';
import { teamEvent } from '../../events.ts';
import type { FoundInvite, InviteKey } from '../../invite-queries.ts';
import { holdDefaultTeam, isRootName, lockDefaultTeam, rolesOf } from '../../team-queries.ts';
import type { NewAccount, RegistrationHook } from '../account-creation.ts';
import { decidedByOthers } from '../strategies.ts';
import { extensionFields, type UserDataConfig, writableFields } from '../user-data.ts';
import { membership, type TeamAccess } from './access.ts';
import type { Entrance } from './entrance.ts';
import { keyOfToken } from './invite-mail.ts';
import type { Teams } from './teams.ts';

interface Dependencies extends Pick<Kernel, 'schemas' | 'events'> {
  readonly access: TeamAccess;
  readonly entrance: Entrance;
  readonly teams: Teams;
  readonly config: () => TeamsConfig;
  readonly userDataConfig: () => UserDataConfig;
}

const defaultTeamName = 'Default Team';

/** Refuses with 403 INVITATION_REQUIRED and INVALID_INVITATION, and with 503 where it cannot know. */
export function createTeamRegistration(dependencies: Dependencies): RegistrationHook {
  const { schemas, events, access, entrance, teams, config, userDataConfig } = dependencies;
  /** The invitation of somebody who registers; nothing where there is none and none is needed. */
  async function presented(transaction: Transaction, { invitationToken, email, strategy }: NewAccount): Promise<FoundInvite | undefined> {
    if (invitationToken === undefined) {
      if (!config().allowRegistrationWithoutInvite && !decidedByOthers.has(strategy)) throw authErrors.INVITATION_REQUIRED();
      return undefined;
    }
    const invite = await entrance.standing(transaction, keyBeforeAccount(invitationToken));
    if (!entrance.fits(invite, email)) throw authErrors.INVALID_INVITATION();
    return invite;
  }

  async function joinDefault(transaction: Transaction, caller: Caller, userId: string): Promise<void> {
    const { id } = (await holdDefaultTeam(transaction)) ?? (await makeDefault(transaction, caller));
    // An anonymous user who registers is in it already.
    if ((await rolesOf(transaction, id, [userId])).size > 0) return;
    await access.authorization().relate(caller, [membership(userId, 'member', id)]);
    await events.emit(transaction, caller, teamEvent('addMembers', id, { userIds: [userId], role: 'member' }));
  }

  /** Makes the default team, unless somebody else has done so while this waited. */
  async function makeDefault(transaction: Transaction, caller: Caller): Promise<{ readonly id: string }> {
    await lockDefaultTeam(transaction);
    const made = await holdDefaultTeam(transaction);
    if (made) return made;
    // Somebody may have taken the name; nobody's registration shall fail for that.
    const name = (await isRootName(transaction, defaultTeamName)) ? `${defaultTeamName} ${randomToken(6)}` : defaultTeamName;
    const { _id } = JSON.parse(await teams.create(caller, { name, isDefault: true })) as { readonly _id: string };
    return { id: _id };
  }

  return async (transaction, caller, account) => {
    if (!config().enabled) {
      // There is nothing that such a token could stand for: to go on without it would not be what was asked.
      if (account.invitationToken !== undefined) throw authErrors.INVALID_INVITATION();
      return undefined;
    }
    const invite = await presented(transaction, account);
    // What an operator offers may be the server's; what a user offers may not.
    const known = invite?.invitedBy === null ? extensionFields(schemas) : writableFields(schemas, { config: userDataConfig() });
    return {
      userData: Object.fromEntries(Object.entries(invite?.userData ?? {}).filter(([name]) => known.has(name))),
      isVerified: invite?.mailed === true && invite.email === account.email,
      async registered(userId) {
        if (invite) await entrance.enter(transaction, caller, userId, await entrance.approach(transaction, invite, { id: invite.id }));
        if (config().enableDefaultTeam) await joinDefault(transaction, caller, userId);
      },
    };
  };
}

/** An id is for those who have proven an address; nobody has before he has an account. */
function keyBeforeAccount(invitationToken: string): InviteKey | undefined {
  const key = keyOfToken(invitationToken);
  return key && 'hash' in key ? key : undefined;
}
