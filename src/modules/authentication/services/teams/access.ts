/** Who may do what with a team: every question goes to the authorization module, and without it nothing is allowed. */

import type { OptionalModule } from '../../../../host/module.ts';
import type { ActionUse } from '../../../../kernel/action-uses.ts';
import type { UserCaller } from '../../../../kernel/caller.ts';
import type { Queryable } from '../../../../kernel/database/database.ts';
import { errors } from '../../../../kernel/errors.ts';
import type { AuthorizationService, SubjectRef, TimedTuple } from '../../../authorization/index.ts';
import { authErrors } from '../../errors.ts';
import { covers, type TeamRole, teamRoles } from '../../schemas.ts';
import { type Person, personById, type TeamRow, teamById } from './queries.ts';

/**
 * What a team route can ask for. `manageSubTeams` stands for running the team: it is the set that the specification
 * calls edit, without the plain members whom `teams.memberAccess` may let edit the team's records.
 */
export type TeamAction = (typeof teamActions)[number];

const teamActions = [
  'read',
  'delete',
  'invite',
  'viewMembers',
  'viewSubTeams',
  'manageSubTeams',
  'deleteOwners',
] as const;

export interface TeamAccess {
  /** The service; throws 503 while the authorization module does not run. */
  authorization(): AuthorizationService;
  /** The user behind a call; throws 401 when they are gone. */
  person(caller: UserCaller): Promise<Person>;
  /** The same, and 403 for anonymous users. */
  registered(caller: UserCaller): Promise<Person>;
  may(userId: string, action: TeamAction, teamId: string): Promise<boolean>;
  /** The team, if the caller may do this with it; throws 404 and 403. */
  require(caller: UserCaller, action: TeamAction, teamId: string): Promise<TeamRow>;
  /** Up to which role the user may give and take roles of this team; nothing when they may not at all. */
  reach(userId: string, teamId: string): Promise<TeamRole | undefined>;
  /** The same for several, in their order. */
  reaches(pairs: readonly UserOfTeam[]): Promise<readonly (TeamRole | undefined)[]>;
  /** Throws 403 unless the user may give and take these roles. */
  requireReach(userId: string, teamId: string, roles: Iterable<TeamRole>): Promise<void>;
}

export interface UserOfTeam {
  readonly userId: string;
  readonly teamId: string;
}

/** Which action shows that somebody has a role, the highest role first. */
const roleActions = [
  ['owner', 'deleteOwners'],
  ['editAll', 'manageSubTeams'],
  ['readAll', 'viewSubTeams'],
  ['member', 'viewMembers'],
] as const;

/** What the routes of teams ask for and write: a definition of `Team` does not lose it while they are there. */
export const teamUses: readonly ActionUse[] = [...teamActions, ...teamRoles].map((action) => ({
  ...{ schema: 'Team', action, module: 'authentication', type: 'config', key: 'authentication' },
  title: 'the module authentication (teams)',
}));

interface Dependencies {
  readonly database: Queryable;
  readonly authorization: OptionalModule<AuthorizationService>;
}

export function createTeamAccess({ database, authorization }: Dependencies): TeamAccess {
  const service = (): AuthorizationService => {
    const running = authorization.current();
    if (!running)
      throw errors.UNAVAILABLE({
        message: 'Teams need the authorization module, which is not running',
        retryAfter: 2,
      });
    return running;
  };
  const may = (userId: string, action: TeamAction, teamId: string): Promise<boolean> =>
    service().can({ subject: userSubject(userId), action, resource: team(teamId) });
  const person = async (caller: UserCaller): Promise<Person> => {
    const found = await personById(database, caller.userId);
    if (!found) throw authErrors.TOKEN_INVALID();
    return found;
  };

  const access: TeamAccess = {
    authorization: service,
    person,
    async registered(caller) {
      const found = await person(caller);
      if (found.isAnonymous)
        throw errors.FORBIDDEN({ message: 'Teams are for registered users: register first' });
      return found;
    },
    may,
    async require(caller, action, teamId) {
      const found = await teamById(database, teamId);
      if (!found) throw authErrors.TEAM_NOT_FOUND();
      if (!(await may(caller.userId, action, teamId))) throw authErrors.TEAM_REFUSED();
      return found;
    },
    async reach(userId, teamId) {
      const [reach] = await access.reaches([{ userId, teamId }]);
      return reach;
    },
    reaches: async (pairs) => reachesOf(service(), pairs),
    async requireReach(userId, teamId, roles) {
      const reach = await access.reach(userId, teamId);
      for (const role of roles) {
        if (!covers(reach, role))
          throw authErrors.ROLE_FORBIDDEN({
            message: `You may not give or take the role "${role}" in this team`,
          });
      }
    },
  };
  return access;
}

/** All in one batch of checks. */
async function reachesOf(
  service: Pick<AuthorizationService, 'canAll'>,
  pairs: readonly UserOfTeam[],
): Promise<readonly (TeamRole | undefined)[]> {
  const questions = pairs.flatMap(({ userId, teamId }) =>
    roleActions.map(([, action]) => ({
      subject: userSubject(userId),
      action,
      resource: team(teamId),
    })),
  );
  const held = await service.canAll(questions);
  return pairs.map(
    (_pair, place) => roleActions.find((_role, n) => held[place * roleActions.length + n])?.[0],
  );
}

export const userSubject = (userId: string): SubjectRef => ({
  type: 'User',
  id: userId,
  relation: '',
});
const team = (teamId: string) => ({ type: 'Team', id: teamId });

/** "This user has this role in this team." */
export const membership = (userId: string, role: TeamRole, teamId: string): TimedTuple => ({
  subject: userSubject(userId),
  relation: role,
  resource: team(teamId),
});

/** "The parent owns the team", through which everything that a parent passes on goes. */
export const parenthood = (parentId: string, teamId: string): TimedTuple => ({
  subject: { type: 'Team', id: parentId, relation: '' },
  relation: 'owner',
  resource: team(teamId),
});
