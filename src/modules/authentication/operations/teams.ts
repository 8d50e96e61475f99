/** Teams as their members use them. */
import Type from 'typebox';
import {
  defineOperation,
  type Operation,
  Reply,
  standardLimit,
  TextResult,
} from '../../../kernel/operations/operation.ts';
import { authErrors } from '../errors.ts';
import { requireRecentLogin } from '../services/caller-checks.ts';
import type { OwnMembers } from '../services/teams/members.ts';
import type { OwnTeams } from '../services/teams/own-teams.ts';
import { userOf } from './shapes.ts';
import {
  canonicalId,
  Members,
  memberPage,
  populate,
  Role,
  Team,
  TeamId,
  TeamName,
  Teams,
  teamPage,
  UserIds,
} from './team-shapes.ts';

/* The members of a team, as members manage them. */

const memberFacts = { surface: 'client', access: 'user', limit: standardLimit } as const;
const memberRefusals = [
  authErrors.TEAM_REFUSED,
  authErrors.ROLE_FORBIDDEN,
  authErrors.TEAM_NOT_FOUND,
];

export const memberOperations = (members: OwnMembers): readonly Operation[] => [
  listMembersOperation(members),
  changeOperation(members),
  removeOperation(members),
  leaveOperation(members),
];

const listMembersOperation = (members: OwnMembers): Operation =>
  defineOperation({
    ...memberFacts,
    id: 'authentication.teams.members',
    method: 'GET',
    path: '/authentication/teams/:teamId/members',
    input: { params: TeamId, query: Type.Object(memberPage) },
    output: Members,
    errors: [authErrors.TEAM_REFUSED, authErrors.TEAM_NOT_FOUND],
    summary: 'List the members of a team',
    description:
      'Each user once, with the highest role. Other data of the users than shown here stays theirs. Plain members of the default team, which everybody joins, get 403.',
    handler: async (context, { params, query: { sort = [], ...page } }) =>
      Reply.json(
        await members.list(userOf(context), canonicalId(params.teamId), { ...page, sort }),
      ),
  });

const changeOperation = (members: OwnMembers): Operation =>
  defineOperation({
    ...memberFacts,
    id: 'authentication.teams.changeMembers',
    audit: true,
    auditChanges: ({ body }) => body,
    method: 'PATCH',
    path: '/authentication/teams/:teamId/members',
    input: { params: TeamId, body: Type.Object({ members: UserIds, role: Role }) },
    output: TextResult,
    errors: [authErrors.MEMBER_UNKNOWN, authErrors.OWN_MEMBERSHIP_PROTECTED, ...memberRefusals],
    summary: 'Change the role of members',
    description:
      'All of them or none. Nobody gives or takes a role above their own, and nobody changes their own.',
    async handler(context, { params, body }) {
      await members.changeRole(
        userOf(context),
        canonicalId(params.teamId),
        body.members,
        body.role,
      );
      return 'Roles changed';
    },
  });

const removeOperation = (members: OwnMembers): Operation =>
  defineOperation({
    ...memberFacts,
    id: 'authentication.teams.removeMembers',
    audit: true,
    auditChanges: ({ query }) => query,
    method: 'DELETE',
    path: '/authentication/teams/:teamId/members',
    input: { params: TeamId, query: Type.Object({ members: UserIds }) },
    output: TextResult,
    errors: [authErrors.MEMBER_UNKNOWN, authErrors.OWN_MEMBERSHIP_PROTECTED, ...memberRefusals],
    summary: 'Remove members',
    description:
      'All of them or none. Removing an owner needs the right to do so: being one, here or in a team above.',
    async handler(context, { params, query }) {
      await members.remove(userOf(context), canonicalId(params.teamId), query.members);
      return 'Members removed';
    },
  });

const leaveOperation = (members: OwnMembers): Operation =>
  defineOperation({
    ...memberFacts,
    id: 'authentication.teams.leave',
    audit: true,
    method: 'POST',
    path: '/authentication/teams/:teamId/leave',
    input: { params: TeamId },
    output: TextResult,
    errors: [authErrors.MEMBER_UNKNOWN, authErrors.LAST_OWNER_PROTECTED, authErrors.TEAM_NOT_FOUND],
    summary: 'Leave a team',
    description:
      'Gives up the role that the caller has in it. The last owner of a team without a parent stays.',
    async handler(context, { params }) {
      await members.leave(userOf(context), canonicalId(params.teamId));
      return 'You left the team';
    },
  });

/** Exists only while members may be added who were not asked. */
export const addOperation = (members: OwnMembers): Operation =>
  defineOperation({
    ...memberFacts,
    id: 'authentication.teams.addMember',
    audit: true,
    auditChanges: ({ body }) => body,
    method: 'POST',
    path: '/authentication/teams/:teamId/add',
    input: {
      params: TeamId,
      body: Type.Object({
        userId: Type.String({ format: 'uuid', description: 'Id of the user' }),
        role: Type.Optional(Role),
      }),
    },
    output: TextResult,
    errors: memberRefusals,
    summary: 'Add a member without an invitation',
    description: 'Only while `teams.allowAddWithoutInvite` is on. A user who has a role keeps it.',
    async handler(context, { params, body: { userId, role = 'member' } }) {
      await members.add(userOf(context), canonicalId(params.teamId), userId, role);
      return 'Member added';
    },
  });

interface TeamServices {
  readonly teams: OwnTeams;
  /** Milliseconds. */
  readonly sudoMaxAge: () => number;
}

const facts = { surface: 'client', access: 'user', limit: standardLimit } as const;

export const teamOperations = (services: TeamServices): readonly Operation[] => [
  createOperation(services),
  listOperation(services),
  getOperation(services),
  renameOperation(services),
  deleteOperation(services),
  subTeamsOperation(services),
];

const createOperation = ({ teams }: TeamServices): Operation =>
  defineOperation({
    ...facts,
    id: 'authentication.teams.create',
    method: 'POST',
    path: '/authentication/teams',
    input: {
      body: Type.Object({
        name: TeamName,
        parentTeam: Type.Optional(
          Type.String({ format: 'uuid', description: 'A team that the caller may run' }),
        ),
        addCreatorToTeam: Type.Optional(
          Type.Boolean({
            description: 'Of a sub-team: whether the caller owns it themselves as well',
          }),
        ),
      }),
    },
    output: Team,
    errors: [authErrors.TEAM_REFUSED, authErrors.TEAM_NOT_FOUND, authErrors.TEAM_EXISTS],
    summary: 'Create a team',
    description:
      'The caller owns a team without a parent. A sub-team is owned by its parent. Names are unique under one parent, and among the own teams without one.',
    handler: async (context, { body: { parentTeam, ...team } }) =>
      Reply.json(
        await teams.create(userOf(context), {
          ...team,
          ...(parentTeam === undefined ? {} : { parentTeam: canonicalId(parentTeam) }),
        }),
      ),
  });

const listOperation = ({ teams }: TeamServices): Operation =>
  defineOperation({
    ...facts,
    id: 'authentication.teams.list',
    method: 'GET',
    path: '/authentication/teams',
    input: { query: Type.Object({ ...teamPage, ...populate }) },
    output: Teams,
    summary: 'List your teams',
    description: 'Teams in which the caller has a role directly.',
    handler: async (context, { query: { populate: paths, sort = [], ...page } }) =>
      Reply.json(await teams.list(userOf(context), { ...page, sort }, paths !== undefined)),
  });

const getOperation = ({ teams }: TeamServices): Operation =>
  defineOperation({
    ...facts,
    id: 'authentication.teams.get',
    method: 'GET',
    path: '/authentication/teams/:teamId',
    input: { params: TeamId, query: Type.Object(populate) },
    output: Team,
    errors: [authErrors.TEAM_REFUSED, authErrors.TEAM_NOT_FOUND],
    summary: 'Read a team',
    description:
      'For everybody who has a role in it, and for those who may read it through a team above it.',
    handler: async (context, { params, query }) =>
      Reply.json(
        await teams.get(userOf(context), canonicalId(params.teamId), query.populate !== undefined),
      ),
  });

const renameOperation = ({ teams }: TeamServices): Operation =>
  defineOperation({
    ...facts,
    id: 'authentication.teams.update',
    method: 'PATCH',
    path: '/authentication/teams/:teamId',
    input: { params: TeamId, body: Type.Object({ name: TeamName }) },
    output: Team,
    errors: [authErrors.TEAM_REFUSED, authErrors.TEAM_NOT_FOUND, authErrors.TEAM_EXISTS],
    summary: 'Rename a team',
    handler: async (context, { params, body }) =>
      Reply.json(await teams.rename(userOf(context), canonicalId(params.teamId), body.name)),
  });

const deleteOperation = ({ teams, sudoMaxAge }: TeamServices): Operation =>
  defineOperation({
    ...facts,
    id: 'authentication.teams.delete',
    audit: true,
    method: 'DELETE',
    path: '/authentication/teams/:teamId',
    input: { params: TeamId },
    output: TextResult,
    errors: [
      authErrors.SUDO_REQUIRED,
      authErrors.TEAM_REFUSED,
      authErrors.TEAM_NOT_FOUND,
      authErrors.TEAM_EXISTS,
      authErrors.DEFAULT_TEAM_PROTECTED,
    ],
    summary: 'Delete a team',
    description:
      'Needs a fresh login. Memberships and invitations go with it; sub-teams become teams of their own.',
    async handler(context, { params }) {
      const caller = userOf(context);
      requireRecentLogin(caller, sudoMaxAge());
      await teams.remove(caller, canonicalId(params.teamId));
      return 'Team deleted';
    },
  });

const subTeamsOperation = ({ teams }: TeamServices): Operation =>
  defineOperation({
    ...facts,
    id: 'authentication.teams.subTeams',
    method: 'GET',
    path: '/authentication/teams/:teamId/teams',
    input: { params: TeamId, query: Type.Object(teamPage) },
    output: Teams,
    errors: [authErrors.TEAM_REFUSED, authErrors.TEAM_NOT_FOUND],
    summary: 'List the sub-teams of a team',
    handler: async (context, { params, query: { sort = [], ...page } }) =>
      Reply.json(
        await teams.listBelow(userOf(context), canonicalId(params.teamId), { ...page, sort }),
      ),
  });
