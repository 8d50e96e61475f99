/** Who belongs to a team, and as what. A membership is a relation; the role is its name. */

import type { Kernel } from '../../../../host/kernel.ts';
import type { Caller, UserCaller } from '../../../../kernel/caller.ts';
import type { Database, Queryable, Transaction } from '../../../../kernel/database/database.ts';
import { errors, invalid } from '../../../../kernel/errors.ts';
import { readWhile } from '../../../../kernel/read-while.ts';
import type { TimedTuple } from '../../../authorization/index.ts';
import { authErrors } from '../../errors.ts';
import { teamEvent } from '../../events.ts';
import { type TeamRole, teamRoles, userSchema } from '../../schemas.ts';
import { membership, type TeamAccess } from './access.ts';
import { listMembers, type TeamPage } from './list-queries.ts';
import {
  countOwners,
  existingUsers,
  forgetUnasked,
  noteUnasked,
  rolesOf,
  type TeamRow,
  teamById,
} from './queries.ts';
import { requireTeam } from './teams.ts';

export interface Members {
  /** JSON text `{members, count}`. Throws 404. `whole`: all that is known of the users. */
  list(teamId: string, page: TeamPage, whole: boolean): Promise<string>;
  /** Gives a role to users who have none yet, and answers them; the others keep theirs. Throws 400 for ids of nobody, 404. Joins the ambient transaction. */
  add(
    caller: Caller,
    teamId: string,
    userIds: readonly string[],
    role: TeamRole,
  ): Promise<readonly string[]>;
  /** Gives members another role in place of the ones that they have. */
  changeRole(
    caller: Caller,
    teamId: string,
    userIds: readonly string[],
    role: TeamRole,
  ): Promise<void>;
  remove(caller: Caller, teamId: string, userIds: readonly string[]): Promise<void>;
}

interface Dependencies extends Pick<Kernel, 'database' | 'events' | 'schemas'> {
  readonly access: TeamAccess;
}

export function createMembers(dependencies: Dependencies): Members {
  const { database, events, schemas, access } = dependencies;

  return {
    async list(teamId, page, whole) {
      const schema = schemas.get(userSchema.name);
      if (!schema) throw errors.UNAVAILABLE();
      if (!(await teamById(database, teamId))) throw authErrors.TEAM_NOT_FOUND();
      const profile = schemas.publicViews.get(userSchema.name)?.fields ?? new Set<string>();
      return listMembers(database, { schema, whole, profile }, teamId, page);
    },
    add: (caller, teamId, given, role) =>
      changing(dependencies, teamId, async (transaction) => {
        const userIds = unique(given);
        const there = await existingUsers(transaction, userIds);
        const missing = userIds.filter((id) => !there.has(id));
        if (missing.length > 0)
          throw invalid(
            'members',
            'relation',
            `there are no such users: ${missing.slice(0, 5).join(', ')}`,
          );
        const present = await rolesOf(database, teamId, userIds);
        const fresh = userIds.filter((id) => !present.has(id));
        if (fresh.length === 0) return fresh;
        await access.authorization().relate(
          caller,
          fresh.map((id) => membership(id, role, teamId)),
        );
        await events.emit(
          transaction,
          caller,
          teamEvent('addMembers', teamId, { userIds: fresh, role }),
        );
        return fresh;
      }),
    changeRole: (caller, teamId, given, role) =>
      changing(dependencies, teamId, async (transaction) => {
        const userIds = unique(given);
        await presentRoles(transaction, teamId, userIds);
        const { relate, unrelate } = access.authorization();
        const requested = userIds.map((id) => membership(id, role, teamId));
        await unrelate(
          caller,
          memberships(teamId, userIds).filter(({ relation }) => relation !== role),
        );
        await relate(caller, requested);
        await events.emit(transaction, caller, teamEvent('changeRole', teamId, { userIds, role }));
      }),
    remove: (caller, teamId, given) =>
      changing(dependencies, teamId, async (transaction) => {
        const userIds = unique(given);
        await presentRoles(transaction, teamId, userIds);
        await access.authorization().unrelate(caller, memberships(teamId, userIds));
        await forgetUnasked(transaction, teamId, userIds);
        await events.emit(transaction, caller, teamEvent('removeMembers', teamId, { userIds }));
      }),
  };
}

function changing<T>(
  { database }: Dependencies,
  teamId: string,
  work: (transaction: Transaction) => Promise<T>,
): Promise<T> {
  return database.transaction(async (transaction) => {
    await requireTeam(transaction, teamId);
    return work(transaction);
  });
}

/** The roles of these users; throws 400 that names those who have none. */
async function presentRoles(
  database: Queryable,
  teamId: string,
  userIds: readonly string[],
): Promise<ReadonlyMap<string, TeamRole>> {
  const roles = await rolesOf(database, teamId, userIds);
  const nonMembers = userIds.filter((id) => !roles.has(id));
  if (nonMembers.length === 0) return roles;
  throw authErrors.MEMBER_UNKNOWN({
    message: `Not members of the team: ${nonMembers.slice(0, 5).join(', ')}`,
  });
}

/** Each once, in the one spelling that relations have. */
const unique = (ids: readonly string[]): readonly string[] => [
  ...new Set(ids.map((id) => id.toLowerCase())),
];

/** Every membership that these users can have in a team. */
const memberships = (teamId: string, userIds: readonly string[]): readonly TimedTuple[] =>
  userIds.flatMap((id) => teamRoles.map((role) => membership(id, role, teamId)));

/* What users do with the members of their teams. All of the users that are named, or none. */

export interface OwnMembers {
  list(caller: UserCaller, teamId: string, page: TeamPage): Promise<string>;
  /** Makes somebody a member who was not asked. */
  add(caller: UserCaller, teamId: string, userId: string, role: TeamRole): Promise<void>;
  changeRole(
    caller: UserCaller,
    teamId: string,
    userIds: readonly string[],
    role: TeamRole,
  ): Promise<void>;
  remove(caller: UserCaller, teamId: string, userIds: readonly string[]): Promise<void>;
  /** Gives the own role up. Throws 400 without one, and 409 for the last owner of a team that no other team owns. */
  leave(caller: UserCaller, teamId: string): Promise<void>;
}

interface OwnDependencies {
  readonly database: Database;
  readonly members: Members;
  readonly access: TeamAccess;
}

export function createOwnMembers(dependencies: OwnDependencies): OwnMembers {
  const { database, members, access } = dependencies;
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

  /** Runs the team, is not among them themselves, and reaches up to the roles that they have. */
  const requirePowerOver = async (
    transaction: Transaction,
    caller: UserCaller,
    teamId: string,
    userIds: readonly string[],
  ) => {
    await access.require(caller, 'manageSubTeams', teamId);
    if (userIds.includes(caller.userId)) throw authErrors.OWN_MEMBERSHIP_PROTECTED();
    const present = await presentRoles(transaction, teamId, userIds);
    await access.requireReach(caller.userId, teamId, present.values());
  };

  return {
    list: (caller, teamId, page) => list(dependencies, caller, teamId, page),
    add: (caller, teamId, userId, role) =>
      changing(caller, teamId, async (transaction) => {
        await access.require(caller, 'invite', teamId);
        await access.requireReach(caller.userId, teamId, [role]);
        if ((await existingUsers(transaction, [userId])).size === 0)
          throw invalid('userId', 'relation', 'there is no such user');
        // Else whoever makes a team would read the address of everybody whose id they know.
        await noteUnasked(transaction, teamId, await members.add(caller, teamId, [userId], role));
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
        const isLast =
          role === 'owner' &&
          team.parentTeam === null &&
          (await countOwners(transaction, teamId)) < 2;
        if (isLast) throw authErrors.LAST_OWNER_PROTECTED();
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

/** Everybody who registers is a plain member of the default team: its list would be a directory of all users. */
async function requireMoreThanMember(
  { database, access }: OwnDependencies,
  caller: UserCaller,
  teamId: string,
): Promise<void> {
  const role = (await rolesOf(database, teamId, [caller.userId])).get(caller.userId);
  if (role === 'member' && !(await access.may(caller.userId, 'manageSubTeams', teamId)))
    throw authErrors.TEAM_REFUSED({
      message: 'Plain members of the default team do not see who else is in it',
    });
}

async function list(
  dependencies: OwnDependencies,
  caller: UserCaller,
  teamId: string,
  page: TeamPage,
): Promise<string> {
  const { access, members } = dependencies;
  await access.registered(caller);
  const ask = async () => {
    const team = await access.require(caller, 'viewMembers', teamId);
    if (team.isDefault) await requireMoreThanMember(dependencies, caller, teamId);
  };
  return readWhile(ask, () => members.list(teamId, page, false));
}
