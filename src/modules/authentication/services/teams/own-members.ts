/** What users do with the members of their teams. All of the users that are named, or none. */
import type { UserCaller } from '../../../../kernel/caller.ts';
import type { Database, Transaction } from '../../../../kernel/database/database.ts';
import { invalid } from '../../../../kernel/errors.ts';
import { authErrors } from '../../errors.ts';
import { countOwners, existingUsers, rolesOf, type TeamPage, type TeamRow } from '../../team-queries.ts';
import type { TeamAccess } from './access.ts';
import { requireTeam } from './hierarchy.ts';
import { type Members, presentRoles, unique } from './members.ts';
import type { TeamRole } from './roles.ts';

export interface OwnMembers {
  list(caller: UserCaller, teamId: string, page: TeamPage): Promise<string>;
  /** Makes somebody a member who was not asked. */
  add(caller: UserCaller, teamId: string, userId: string, role: TeamRole): Promise<void>;
  changeRole(caller: UserCaller, teamId: string, userIds: readonly string[], role: TeamRole): Promise<void>;
  remove(caller: UserCaller, teamId: string, userIds: readonly string[]): Promise<void>;
  /** Gives the own role up. Throws 400 without one, and 409 for the last owner of a team that no other team owns. */
  leave(caller: UserCaller, teamId: string): Promise<void>;
}

interface Dependencies {
  readonly database: Database;
  readonly members: Members;
  readonly access: TeamAccess;
}

export function createOwnMembers({ database, members, access }: Dependencies): OwnMembers {
  const changing = async (
    caller: UserCaller,
    teamId: string,
    work: (transaction: Transaction, team: TeamRow) => Promise<void>,
  ): Promise<void> => {
    await access.registered(caller);
    await database.transaction(async (transaction) => {
      const team = await requireTeam(transaction, teamId);
      await work(transaction, team);
    });
  };

  /** Runs the team, is not among them himself, and reaches up to the roles that they have. */
  const requirePowerOver = async (transaction: Transaction, caller: UserCaller, teamId: string, userIds: readonly string[]) => {
    await access.require(caller, 'manageSubTeams', teamId);
    if (userIds.includes(caller.userId)) throw authErrors.OWN_MEMBERSHIP();
    const present = await presentRoles(transaction, teamId, userIds);
    await access.requireReach(caller.userId, teamId, present.values());
  };

  /** Everybody who registers is a plain member of the default team: its list would be a directory of all users. */
  const requireMoreThanMember = async (caller: UserCaller, teamId: string): Promise<void> => {
    const role = (await rolesOf(database, teamId, [caller.userId])).get(caller.userId);
    if (role === 'member' && !(await access.may(caller.userId, 'manageSubTeams', teamId)))
      throw authErrors.TEAM_REFUSED({ message: 'Plain members of the default team do not see who else is in it' });
  };

  return {
    async list(caller, teamId, page) {
      await access.registered(caller);
      const team = await access.require(caller, 'viewMembers', teamId);
      if (team.isDefault) await requireMoreThanMember(caller, teamId);
      return members.list(teamId, page, false);
    },
    add: (caller, teamId, userId, role) =>
      changing(caller, teamId, async (transaction) => {
        await access.require(caller, 'invite', teamId);
        await access.requireReach(caller.userId, teamId, [role]);
        if ((await existingUsers(transaction, [userId])).size === 0) throw invalid('userId', 'relation', 'there is no such user');
        await members.add(caller, teamId, [userId], role);
      }),
    changeRole: (caller, teamId, given, role) =>
      changing(caller, teamId, async (transaction) => {
        const userIds = unique(given);
        await requirePowerOver(transaction, caller, teamId, userIds);
        await access.requireReach(caller.userId, teamId, [role]);
        await members.changeRole(caller, teamId, userIds, role);
      }),
    leave: (caller, teamId) =>
      changing(caller, teamId, async (transaction, team) => {
        const role = (await presentRoles(transaction, teamId, [caller.userId])).get(caller.userId);
        const isLast = role === 'owner' && team.parentTeam === null && (await countOwners(transaction, teamId)) < 2;
        if (isLast) throw authErrors.LAST_OWNER();
        await members.remove(caller, teamId, [caller.userId]);
      }),
    remove: (caller, teamId, given) =>
      changing(caller, teamId, async (transaction) => {
        const userIds = unique(given);
        await requirePowerOver(transaction, caller, teamId, userIds);
        await members.remove(caller, teamId, userIds);
      }),
  };
}
