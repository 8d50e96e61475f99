/** Who belongs to a team, and as what. A membership is a relation; the role is its name. */
import type { Caller } from '../../../../kernel/caller.ts';
import type { Queryable, Transaction } from '../../../../kernel/database/database.ts';
import { errors, invalid } from '../../../../kernel/errors.ts';
import type { Kernel } from '../../../../kernel/kernel.ts';
import type { TimedTuple } from '../../../authorization/index.ts';
import { authErrors } from '../../errors.ts';
import { teamEvent } from '../../events.ts';
import { userSchema } from '../../schemas.ts';
import { existingUsers, listMembers, rolesOf, type TeamPage, teamById } from '../../team-queries.ts';
import { membership, type TeamAccess } from './access.ts';
import { requireTeam } from './hierarchy.ts';
import { type TeamRole, teamRoles } from './roles.ts';

export interface Members {
  /** JSON text `{members, count}`. Throws 404. `whole`: all that is known of the users. */
  list(teamId: string, page: TeamPage, whole: boolean): Promise<string>;
  /** Gives a role to users who have none yet; the others keep theirs. Throws 400 for ids of nobody, 404. Joins the ambient transaction. */
  add(caller: Caller, teamId: string, userIds: readonly string[], role: TeamRole): Promise<void>;
  /** Gives members another role in place of the ones that they have. */
  changeRole(caller: Caller, teamId: string, userIds: readonly string[], role: TeamRole): Promise<void>;
  remove(caller: Caller, teamId: string, userIds: readonly string[]): Promise<void>;
}

interface Dependencies extends Pick<Kernel, 'database' | 'events' | 'schemas'> {
  readonly access: TeamAccess;
}

export function createMembers({ database, events, schemas, access }: Dependencies): Members {
  const changing = (teamId: string, work: (transaction: Transaction) => Promise<void>): Promise<void> =>
    database.transaction(async (transaction) => {
      await requireTeam(transaction, teamId);
      await work(transaction);
    });

  return {
    async list(teamId, page, whole) {
      const schema = schemas.get(userSchema.name);
      if (!schema) throw errors.UNAVAILABLE();
      if (!(await teamById(database, teamId))) throw authErrors.TEAM_NOT_FOUND();
      return listMembers(database, { schema, whole }, teamId, page);
    },
    add: (caller, teamId, given, role) =>
      changing(teamId, async (transaction) => {
        const userIds = unique(given);
        const there = await existingUsers(transaction, userIds);
        const missing = userIds.filter((id) => !there.has(id));
        if (missing.length > 0) throw invalid('members', 'relation', `there are no such users: ${missing.slice(0, 5).join(', ')}`);
        const present = await rolesOf(database, teamId, userIds);
        const fresh = userIds.filter((id) => !present.has(id));
        if (fresh.length === 0) return;
        await access.authorization().relate(
          caller,
          fresh.map((id) => membership(id, role, teamId)),
        );
        await events.emit(transaction, caller, teamEvent('addMembers', teamId, { userIds: fresh, role }));
      }),
    changeRole: (caller, teamId, given, role) =>
      changing(teamId, async (transaction) => {
        const userIds = unique(given);
        await presentRoles(transaction, teamId, userIds);
        const { relate, unrelate } = access.authorization();
        const wanted = userIds.map((id) => membership(id, role, teamId));
        await unrelate(
          caller,
          memberships(teamId, userIds).filter(({ relation }) => relation !== role),
        );
        await relate(caller, wanted);
        await events.emit(transaction, caller, teamEvent('changeRole', teamId, { userIds, role }));
      }),
    remove: (caller, teamId, given) =>
      changing(teamId, async (transaction) => {
        const userIds = unique(given);
        await presentRoles(transaction, teamId, userIds);
        await access.authorization().unrelate(caller, memberships(teamId, userIds));
        await events.emit(transaction, caller, teamEvent('removeMembers', teamId, { userIds }));
      }),
  };
}

/** The roles of these users; throws 400 that names those who have none. */
export async function presentRoles(
  database: Queryable,
  teamId: string,
  userIds: readonly string[],
): Promise<ReadonlyMap<string, TeamRole>> {
  const roles = await rolesOf(database, teamId, userIds);
  const strangers = userIds.filter((id) => !roles.has(id));
  if (strangers.length === 0) return roles;
  throw authErrors.NOT_A_MEMBER({ message: `Not members of the team: ${strangers.slice(0, 5).join(', ')}` });
}

/** Each once, in the one spelling that relations have. */
export const unique = (ids: readonly string[]): readonly string[] => [...new Set(ids.map((id) => id.toLowerCase()))];

/** Every membership that these users can have in a team. */
const memberships = (teamId: string, userIds: readonly string[]): readonly TimedTuple[] =>
  userIds.flatMap((id) => teamRoles.map((role) => membership(id, role, teamId)));
