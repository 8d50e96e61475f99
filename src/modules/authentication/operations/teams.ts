/** Teams as their members use them. */
import Type from 'typebox';
import { defineOperation, type Operation, Reply, standardLimit, TextResult } from '../../../kernel/operation.ts';
import { authErrors } from '../errors.ts';
import { requireSudo } from '../services/sudo.ts';
import type { OwnTeams } from '../services/teams/own-teams.ts';
import { userOf } from './shapes.ts';
import { canonicalId, populate, Team, TeamId, TeamName, Teams, teamPage } from './team-shapes.ts';

export interface TeamServices {
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
        parentTeam: Type.Optional(Type.String({ format: 'uuid', description: 'A team that the caller may run' })),
        addCreatorToTeam: Type.Optional(Type.Boolean({ description: 'Of a sub-team: whether the caller owns it himself as well' })),
      }),
    },
    output: Team,
    errors: [authErrors.TEAM_REFUSED, authErrors.TEAM_NOT_FOUND, authErrors.TEAM_EXISTS],
    summary: 'Create a team',
    description:
      'The caller owns a team without a parent. A sub-team is owned by its parent. Names are unique under one parent, and among the own teams without one.',
    handler: async (context, { body: { parentTeam, ...team } }) =>
      Reply.json(
        await teams.create(userOf(context), { ...team, ...(parentTeam === undefined ? {} : { parentTeam: canonicalId(parentTeam) }) }),
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
    summary: 'List the own teams',
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
    description: 'For everybody who has a role in it, and for those who may read it through a team above it.',
    handler: async (context, { params, query }) =>
      Reply.json(await teams.get(userOf(context), canonicalId(params.teamId), query.populate !== undefined)),
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
    handler: async (context, { params, body }) => Reply.json(await teams.rename(userOf(context), canonicalId(params.teamId), body.name)),
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
    errors: [authErrors.SUDO_REQUIRED, authErrors.TEAM_REFUSED, authErrors.TEAM_NOT_FOUND, authErrors.TEAM_EXISTS, authErrors.DEFAULT_TEAM],
    summary: 'Delete a team',
    description: 'Needs a fresh login. Memberships and invitations go with it; sub-teams become teams of their own.',
    async handler(context, { params }) {
      const caller = userOf(context);
      requireSudo(caller, sudoMaxAge());
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
      Reply.json(await teams.listBelow(userOf(context), canonicalId(params.teamId), { ...page, sort })),
  });
