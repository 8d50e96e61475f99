/** Teams as operators manage them: no role limits them. */
import Type from 'typebox';
import {
  defineOperation,
  type Operation,
  Reply,
  standardLimit,
  TextResult,
} from '../../../kernel/operations/operation.ts';
import { authErrors } from '../errors.ts';
import { keyOfToken } from '../services/teams/invite-mail.ts';
import type { Invites } from '../services/teams/invites.ts';
import type { Members as MemberService } from '../services/teams/members.ts';
import type { Teams as TeamService } from '../services/teams/teams.ts';
import {
  canonicalId,
  InvitationToken,
  Invite,
  InviteData,
  inviteOnWire,
  Members,
  memberPage,
  paging,
  populate,
  Role,
  Team,
  TeamId,
  TeamName,
  Teams,
  teamPage,
  UserIds,
} from './team-shapes.ts';

export interface AdminTeamServices {
  readonly teams: TeamService;
  readonly members: MemberService;
  readonly invites: Invites;
}

const facts = { surface: 'admin', access: 'admin', limit: standardLimit } as const;
const conflicts = [authErrors.TEAM_EXISTS, authErrors.DEFAULT_TEAM_EXISTS];
const Id = Type.String({ format: 'uuid' });

export const adminTeamOperations = (services: AdminTeamServices): readonly Operation[] => [
  ...readOperations(services),
  ...changeOperations(services),
  ...memberOperations(services),
  ...inviteOperations(services),
];

/** While teams are switched off: a panel that lists them finds none. */
export const noTeams: Operation = defineOperation({
  ...facts,
  id: 'authentication.adminTeams.list',
  method: 'GET',
  path: '/authentication/teams',
  input: { query: Type.Object({ ...teamPage }) },
  output: Teams,
  summary: 'List teams',
  handler: () => ({ teams: [], count: 0 }),
});

const readOperations = ({ teams }: AdminTeamServices): readonly Operation[] => [
  defineOperation({
    ...facts,
    id: 'authentication.adminTeams.list',
    method: 'GET',
    path: '/authentication/teams',
    input: {
      query: Type.Object({
        ...teamPage,
        ...populate,
        parentTeam: Type.Optional(
          Type.String({
            format: 'uuid',
            description: 'Its sub-teams; otherwise the teams without a parent',
          }),
        ),
      }),
    },
    output: Teams,
    summary: 'List teams',
    handler: async ({ caller }, { query: { parentTeam, populate: paths, sort = [], ...page } }) =>
      Reply.json(
        await teams.list(
          { parent: parentTeam === undefined ? null : canonicalId(parentTeam) },
          { ...page, sort },
          viewOf(caller, paths),
        ),
      ),
  }),
  defineOperation({
    ...facts,
    id: 'authentication.adminTeams.get',
    method: 'GET',
    path: '/authentication/teams/:teamId',
    input: { params: TeamId, query: Type.Object(populate) },
    output: Team,
    errors: [authErrors.TEAM_NOT_FOUND],
    summary: 'Read a team',
    handler: async ({ caller }, { params, query }) =>
      Reply.json(await teams.get(canonicalId(params.teamId), viewOf(caller, query.populate))),
  }),
];

const changeOperations = (services: AdminTeamServices): readonly Operation[] => [
  createOperation(services),
  updateOperation(services),
  deleteOperation(services),
];

const createOperation = ({ teams }: AdminTeamServices): Operation =>
  defineOperation({
    ...facts,
    id: 'authentication.adminTeams.create',
    method: 'POST',
    path: '/authentication/teams',
    input: {
      body: Type.Object({
        name: TeamName,
        parentTeam: Type.Optional(
          Type.String({ format: 'uuid', description: 'Id of the team above it' }),
        ),
        isDefault: Type.Optional(
          Type.Boolean({ description: 'New users become members of it; one team at most' }),
        ),
      }),
    },
    output: Team,
    errors: conflicts,
    summary: 'Create a team',
    description: 'Nobody owns it until a member is made its owner.',
    handler: async ({ caller }, { body: { parentTeam, ...team } }) =>
      Reply.json(
        await teams.create(caller, {
          ...team,
          ...(parentTeam === undefined ? {} : { parentTeam: canonicalId(parentTeam) }),
        }),
      ),
  });

const updateOperation = ({ teams }: AdminTeamServices): Operation =>
  defineOperation({
    ...facts,
    id: 'authentication.adminTeams.update',
    method: 'PATCH',
    path: '/authentication/teams/:teamId',
    input: {
      params: TeamId,
      body: Type.Object({
        name: Type.Optional(TeamName),
        isDefault: Type.Optional(Type.Boolean({ description: 'New users become members of it' })),
        parentTeam: Type.Optional(
          Type.Union([Id, Type.Null()], { description: 'Null: a team of its own' }),
        ),
        origin: Type.Optional(
          Type.Literal('operator', {
            description: "Takes over a user's team: it is state from then on, and its members stay",
          }),
        ),
      }),
    },
    output: Team,
    errors: [authErrors.TEAM_NOT_FOUND, ...conflicts],
    summary: 'Change or move a team',
    handler: async ({ caller }, { params, body: { parentTeam, origin, ...change } }) =>
      Reply.json(
        await teams.change(caller, canonicalId(params.teamId), {
          ...change,
          ...parentOf(parentTeam),
          ...(origin === 'operator' ? { madeBy: null } : {}),
        }),
      ),
  });

const deleteOperation = ({ teams }: AdminTeamServices): Operation =>
  defineOperation({
    ...facts,
    id: 'authentication.adminTeams.delete',
    method: 'DELETE',
    path: '/authentication/teams/:teamId',
    input: { params: TeamId },
    output: TextResult,
    errors: [authErrors.TEAM_NOT_FOUND, authErrors.TEAM_EXISTS, authErrors.DEFAULT_TEAM_PROTECTED],
    summary: 'Delete a team',
    description: 'Memberships and invitations go with it; sub-teams become teams of their own.',
    async handler({ caller }, { params }) {
      await teams.remove(caller, canonicalId(params.teamId));
      return 'Team deleted';
    },
  });

const memberOperations = ({ members }: AdminTeamServices): readonly Operation[] => [
  defineOperation({
    ...facts,
    id: 'authentication.adminTeams.members',
    method: 'GET',
    path: '/authentication/teams/:teamId/members',
    input: { params: TeamId, query: Type.Object(memberPage) },
    output: Members,
    errors: [authErrors.TEAM_NOT_FOUND],
    summary: 'List the members of a team',
    async handler(_context, { params, query: { sort = [], ...page } }) {
      const teamId = canonicalId(params.teamId);
      return Reply.json(await members.list(teamId, { ...page, sort }, true));
    },
  }),
  defineOperation({
    ...facts,
    id: 'authentication.adminTeams.addMembers',
    method: 'POST',
    path: '/authentication/teams/:teamId/members',
    input: { params: TeamId, body: Type.Object({ members: UserIds, role: Type.Optional(Role) }) },
    output: TextResult,
    errors: [authErrors.TEAM_NOT_FOUND],
    summary: 'Add members',
    description: 'All of them or none. Users who have a role keep it.',
    async handler({ caller }, { params, body: { members: userIds, role = 'member' } }) {
      await members.add(caller, canonicalId(params.teamId), userIds, role);
      return 'Members added';
    },
  }),
  defineOperation({
    ...facts,
    id: 'authentication.adminTeams.changeMembers',
    method: 'PATCH',
    path: '/authentication/teams/:teamId/members',
    input: { params: TeamId, body: Type.Object({ members: UserIds, role: Role }) },
    output: TextResult,
    errors: [authErrors.MEMBER_UNKNOWN, authErrors.TEAM_NOT_FOUND],
    summary: 'Change the role of members',
    async handler({ caller }, { params, body }) {
      await members.changeRole(caller, canonicalId(params.teamId), body.members, body.role);
      return 'Roles changed';
    },
  }),
  defineOperation({
    ...facts,
    id: 'authentication.adminTeams.removeMembers',
    method: 'DELETE',
    path: '/authentication/teams/:teamId/members',
    input: { params: TeamId, query: Type.Object({ members: UserIds }) },
    output: TextResult,
    errors: [authErrors.MEMBER_UNKNOWN, authErrors.TEAM_NOT_FOUND],
    summary: 'Remove members',
    async handler({ caller }, { params, query }) {
      await members.remove(caller, canonicalId(params.teamId), query.members);
      return 'Members removed';
    },
  }),
];

const inviteOperations = ({ invites }: AdminTeamServices): readonly Operation[] => [
  defineOperation({
    ...facts,
    id: 'authentication.adminTeams.invites',
    method: 'GET',
    path: '/authentication/teams/:teamId/invites',
    input: { params: TeamId, query: Type.Object(paging) },
    output: Type.Object({ invites: Type.Array(Invite), count: Type.Integer() }),
    errors: [authErrors.TEAM_NOT_FOUND],
    summary: 'List the invitations of a team',
    async handler(_context, { params, query }) {
      const { invites: rows, count } = await invites.list(canonicalId(params.teamId), query);
      return { invites: rows.map(inviteOnWire), count };
    },
  }),
  defineOperation({
    ...facts,
    id: 'authentication.adminTeams.offer',
    method: 'POST',
    path: '/authentication/teams/:teamId/invite/persistent',
    idempotency: false,
    input: {
      params: TeamId,
      body: Type.Object({ role: Role, userData: Type.Optional(InviteData) }),
    },
    output: TextResult,
    errors: [authErrors.USER_DATA_UNKNOWN, authErrors.TEAM_NOT_FOUND],
    summary: 'Make a persistent invitation',
    description:
      'Answers its token, this once. It works for everybody who has it until it is revoked.',
    handler: ({ caller }, { params, body }) =>
      invites.offer(caller, canonicalId(params.teamId), body),
  }),
  defineOperation({
    ...facts,
    id: 'authentication.adminTeams.revokeOffer',
    method: 'DELETE',
    path: '/authentication/teams/:teamId/invite/persistent',
    input: { params: TeamId, query: Type.Object({ invitationToken: InvitationToken }) },
    output: TextResult,
    errors: [authErrors.INVITE_NOT_FOUND, authErrors.TEAM_NOT_FOUND],
    summary: 'Revoke a persistent invitation',
    async handler({ caller }, { params, query }) {
      const persistent = keyOfToken(query.invitationToken);
      if (!persistent) throw authErrors.INVITE_NOT_FOUND();
      await invites.revoke(caller, canonicalId(params.teamId), { persistent });
      return 'Invitation revoked';
    },
  }),
];

const viewOf = (caller: ViewCaller, populate: readonly string[] | undefined) =>
  populate === undefined ? {} : { populateFor: caller };
type ViewCaller = NonNullable<Parameters<TeamService['get']>[1]['populateFor']>;

const parentOf = (parentTeam: string | null | undefined) =>
  parentTeam === undefined
    ? {}
    : { parentTeam: parentTeam === null ? null : canonicalId(parentTeam) };
