/** The members of a team, as members manage them. */
import Type from 'typebox';
import { defineOperation, type Operation, Reply, standardLimit, TextResult } from '../../../kernel/operation.ts';
import { authErrors } from '../errors.ts';
import type { OwnMembers } from '../services/teams/own-members.ts';
import { userOf } from './shapes.ts';
import { canonicalId, Members, memberPage, Role, TeamId, UserIds } from './team-shapes.ts';

const facts = { surface: 'client', access: 'user', limit: standardLimit } as const;
const refusals = [authErrors.TEAM_REFUSED, authErrors.ROLE_ABOVE_OWN, authErrors.TEAM_NOT_FOUND];

export const memberOperations = (members: OwnMembers): readonly Operation[] => [
  listOperation(members),
  changeOperation(members),
  removeOperation(members),
  leaveOperation(members),
];

const listOperation = (members: OwnMembers): Operation =>
  defineOperation({
    ...facts,
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
      Reply.json(await members.list(userOf(context), canonicalId(params.teamId), { ...page, sort })),
  });

const changeOperation = (members: OwnMembers): Operation =>
  defineOperation({
    ...facts,
    id: 'authentication.teams.changeMembers',
    audit: true,
    auditChanges: ({ body }) => body,
    method: 'PATCH',
    path: '/authentication/teams/:teamId/members',
    input: { params: TeamId, body: Type.Object({ members: UserIds, role: Role }) },
    output: TextResult,
    errors: [authErrors.NOT_A_MEMBER, authErrors.OWN_MEMBERSHIP, ...refusals],
    summary: 'Change the role of members',
    description: 'All of them or none. Nobody gives or takes a role above his own, and nobody changes his own.',
    async handler(context, { params, body }) {
      await members.changeRole(userOf(context), canonicalId(params.teamId), body.members, body.role);
      return 'Roles changed';
    },
  });

const removeOperation = (members: OwnMembers): Operation =>
  defineOperation({
    ...facts,
    id: 'authentication.teams.removeMembers',
    audit: true,
    auditChanges: ({ query }) => query,
    method: 'DELETE',
    path: '/authentication/teams/:teamId/members',
    input: { params: TeamId, query: Type.Object({ members: UserIds }) },
    output: TextResult,
    errors: [authErrors.NOT_A_MEMBER, authErrors.OWN_MEMBERSHIP, ...refusals],
    summary: 'Remove members',
    description: 'All of them or none. Removing an owner needs the right to do so: being one, here or in a team above.',
    async handler(context, { params, query }) {
      await members.remove(userOf(context), canonicalId(params.teamId), query.members);
      return 'Members removed';
    },
  });

const leaveOperation = (members: OwnMembers): Operation =>
  defineOperation({
    ...facts,
    id: 'authentication.teams.leave',
    audit: true,
    method: 'POST',
    path: '/authentication/teams/:teamId/leave',
    input: { params: TeamId },
    output: TextResult,
    errors: [authErrors.NOT_A_MEMBER, authErrors.LAST_OWNER, authErrors.TEAM_NOT_FOUND],
    summary: 'Leave a team',
    description: 'Gives up the role that the caller has in it. The last owner of a team without a parent stays.',
    async handler(context, { params }) {
      await members.leave(userOf(context), canonicalId(params.teamId));
      return 'You left the team';
    },
  });

/** Exists only while members may be added who were not asked. */
export const addOperation = (members: OwnMembers): Operation =>
  defineOperation({
    ...facts,
    id: 'authentication.teams.addMember',
    audit: true,
    auditChanges: ({ body }) => body,
    method: 'POST',
    path: '/authentication/teams/:teamId/add',
    input: { params: TeamId, body: Type.Object({ userId: Type.String({ format: 'uuid' }), role: Type.Optional(Role) }) },
    output: TextResult,
    errors: refusals,
    summary: 'Add a member without an invitation',
    description: 'Only while `teams.allowAddWithoutInvite` is on. A user who has a role keeps it.',
    async handler(context, { params, body: { userId, role = 'member' } }) {
      await members.add(userOf(context), canonicalId(params.teamId), userId, role);
      return 'Member added';
    },
  });
