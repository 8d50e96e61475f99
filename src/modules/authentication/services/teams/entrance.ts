/** The way into a team by an invitation, at registration and later: what holds, for whom, and what it gives. */
import type { Caller } from '../../../../kernel/caller.ts';
import type { Queryable, Transaction } from '../../../../kernel/database/database.ts';
import type { Kernel } from '../../../../kernel/kernel.ts';
import type { TeamsConfig } from '../../config/teams.ts';
import { authErrors } from '../../errors.ts';
import { teamEvent } from '../../events.ts';
import { type FoundInvite, findInvite, type InviteKey, takeInvite } from '../../invite-queries.ts';
import { lockTeam, rolesOf } from '../../team-queries.ts';
import type { TeamAccess } from './access.ts';
import type { Members } from './members.ts';
import { covers } from './roles.ts';

/** Every refusal is INVALID_INVITATION: whoever guesses learns nothing from the reason. */
export interface Entrance {
  /** The invitation, if it lives and whoever made it may still give its role. */
  standing(database: Queryable, key: InviteKey | undefined): Promise<FoundInvite>;
  /** Whether it is for an account with this address. */
  fits(invite: FoundInvite, email: string | null | undefined): boolean;
  /** Locks the team and answers the invitation as it is then. */
  approach(transaction: Transaction, invite: FoundInvite, key: InviteKey): Promise<FoundInvite>;
  /** Uses it up, where it is for one, and gives its role, unless the user has that or a higher one. */
  enter(transaction: Transaction, caller: Caller, userId: string, invite: FoundInvite): Promise<void>;
}

interface Dependencies extends Pick<Kernel, 'events'> {
  readonly access: TeamAccess;
  readonly members: Members;
  readonly config: () => TeamsConfig;
}

export function createEntrance({ events, access, members, config }: Dependencies): Entrance {
  const standing: Entrance['standing'] = async (database, key) => {
    const invite = key && (await findInvite(database, key));
    if (!invite?.offered) throw authErrors.INVALID_INVITATION();
    const { invitedBy, teamId, role } = invite;
    if (invitedBy !== null && !covers(await access.reach(invitedBy, teamId), role)) throw authErrors.INVALID_INVITATION();
    return invite;
  };

  return {
    standing,
    fits: ({ email: invited }, email) => invited === null || invited === email || config().allowEmailMismatchForInvites,
    async approach(transaction, { teamId }, key) {
      if (!(await lockTeam(transaction, teamId))) throw authErrors.INVALID_INVITATION();
      return standing(transaction, key);
    },
    async enter(transaction, caller, userId, { id, email, teamId, role }) {
      if (email !== null && !(await takeInvite(transaction, id))) throw authErrors.INVALID_INVITATION();
      const present = (await rolesOf(transaction, teamId, [userId])).get(userId);
      if (covers(present, role)) return;
      if (present === undefined) await members.add(caller, teamId, [userId], role);
      else await members.changeRole(caller, teamId, [userId], role);
      await events.emit(transaction, caller, teamEvent('join', teamId, { userIds: [userId], role }));
    },
  };
}
