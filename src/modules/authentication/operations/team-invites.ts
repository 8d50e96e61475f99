/** Invitations to teams. */
import Type from 'typebox';
import { operationErrors } from '../../../kernel/operations/errors.ts';
import {
  defineOperation,
  type Operation,
  standardLimit,
  TextResult,
} from '../../../kernel/operations/operation.ts';
import type { OperationContext } from '../../../kernel/operations/operation-input.ts';
import { authErrors } from '../errors.ts';
import type { Invites, OwnInvites } from '../services/teams/invites.ts';
import type { AcceptInvitation } from '../services/teams/team-joining.ts';
import { Email, userOf } from './shapes.ts';
import {
  canonicalId,
  InvitationToken,
  Invite,
  InviteData,
  inviteOnWire,
  paging,
  Role,
  TeamId,
} from './team-shapes.ts';

export interface InviteServices {
  readonly own: OwnInvites;
  readonly invites: Pick<Invites, 'facts'>;
  readonly accept: AcceptInvitation;
}

const facts = { surface: 'client', access: 'user', limit: standardLimit } as const;
const refusals = [authErrors.TEAM_REFUSED, authErrors.ROLE_FORBIDDEN, authErrors.TEAM_NOT_FOUND];

export const inviteOperations = (services: InviteServices): readonly Operation[] => [
  mineOperation(services),
  inviteOperation(services),
  revokeOperation(services),
  listOperation(services),
  offerOperation(services),
  revokeOfferOperation(services),
  acceptOperation(services),
  acceptByLinkOperation(services),
  factsOperation(services),
];

/** Who may become what; the rest of an invitation is about the person. */
function invitedTo(body: unknown): object {
  const { email, role } = body as { readonly email?: string; readonly role?: string };
  return { email, role };
}

const mineOperation = ({ own }: InviteServices): Operation =>
  defineOperation({
    ...facts,
    id: 'authentication.teams.myInvites',
    method: 'GET',
    path: '/authentication/teams/invites',
    input: {},
    output: Type.Object({
      invites: Type.Array(
        Type.Object({
          teamId: Type.String({ format: 'uuid' }),
          teamName: Type.String(),
          role: Role,
          invitationToken: Type.String({
            description: 'Accepts the invitation for this user; worth nothing to anybody else',
          }),
          createdAt: Type.String({ format: 'date-time' }),
          expiresAt: Type.Union([Type.String({ format: 'date-time' }), Type.Null()]),
        }),
      ),
    }),
    summary: 'List the invitations to your address',
    description: 'Those to the address of the account, once it is verified; at most 200.',
    handler: async (context) => ({
      invites: (await own.mine(userOf(context))).map(
        ({ id, teamId, teamName, role, createdAt, expiresAt }) => ({
          teamId,
          teamName,
          role,
          invitationToken: id,
          createdAt: createdAt.toISOString(),
          expiresAt: expiresAt?.toISOString() ?? null,
        }),
      ),
    }),
  });

const inviteOperation = ({ own }: InviteServices): Operation =>
  defineOperation({
    ...facts,
    id: 'authentication.teams.invite',
    audit: true,
    auditChanges: ({ body }) => invitedTo(body),
    method: 'POST',
    path: '/authentication/teams/:teamId/invite',
    limit: { requests: 8, seconds: 900, account: 'email' },
    idempotency: false,
    input: {
      params: TeamId,
      body: Type.Object({
        email: Email,
        role: Role,
        redirectUri: Type.Optional(
          Type.String({
            maxLength: 2048,
            description: 'Page that the mail leads to; one of redirectUris',
          }),
        ),
        userData: Type.Optional(InviteData),
      }),
    },
    output: TextResult,
    errors: [
      authErrors.EMAIL_INVALID,
      authErrors.EMAIL_NOT_ALLOWED,
      authErrors.REDIRECT_INVALID,
      authErrors.REDIRECT_NOT_ALLOWED,
      authErrors.USER_DATA_UNKNOWN,
      authErrors.INVITES_DISABLED,
      authErrors.ATTEMPTS_EXHAUSTED,
      ...refusals,
    ],
    summary: 'Invite somebody to a team',
    description:
      'Answers the token of the invitation, this once. It replaces an earlier invitation of the same address, works once, and ends after `teams.invites.expiryPeriod`. A user makes up to `teams.invites.maxPerDay` in 24 hours (429).',
    handler: (context, { params, body }) =>
      own.invite(userOf(context), canonicalId(params.teamId), body),
  });

const revokeOperation = ({ own }: InviteServices): Operation =>
  defineOperation({
    ...facts,
    id: 'authentication.teams.revokeInvite',
    audit: true,
    auditChanges: ({ query }) => query,
    method: 'DELETE',
    path: '/authentication/teams/:teamId/invite',
    input: { params: TeamId, query: Type.Object({ email: Email }) },
    output: TextResult,
    errors: [authErrors.EMAIL_INVALID, authErrors.INVITE_NOT_FOUND, ...refusals],
    summary: 'Revoke an invitation',
    async handler(context, { params, query }) {
      await own.revoke(userOf(context), canonicalId(params.teamId), query.email);
      return 'Invitation revoked';
    },
  });

const listOperation = ({ own }: InviteServices): Operation =>
  defineOperation({
    ...facts,
    id: 'authentication.teams.invites',
    method: 'GET',
    path: '/authentication/teams/:teamId/invites',
    input: { params: TeamId, query: Type.Object(paging) },
    output: Type.Object({ invites: Type.Array(Invite), count: Type.Integer() }),
    errors: [authErrors.TEAM_REFUSED, authErrors.TEAM_NOT_FOUND],
    summary: 'List the invitations of a team',
    description: 'Living ones, the newest first. Tokens are never shown again.',
    async handler(context, { params, query }) {
      const { invites: rows, count } = await own.list(
        userOf(context),
        canonicalId(params.teamId),
        query,
      );
      return { invites: rows.map(inviteOnWire), count };
    },
  });

const offerOperation = ({ own }: InviteServices): Operation =>
  defineOperation({
    ...facts,
    id: 'authentication.teams.offer',
    audit: true,
    auditChanges: ({ body }) => invitedTo(body),
    method: 'POST',
    path: '/authentication/teams/:teamId/invite/persistent',
    idempotency: false,
    input: {
      params: TeamId,
      body: Type.Object({ role: Role, userData: Type.Optional(InviteData) }),
    },
    output: TextResult,
    errors: [authErrors.USER_DATA_UNKNOWN, authErrors.INVITES_DISABLED, ...refusals],
    summary: 'Make a persistent invitation',
    description:
      'For owners. Everybody who has the token, which is answered this once, can join with it until it is revoked.',
    handler: (context, { params, body }) =>
      own.offer(userOf(context), canonicalId(params.teamId), body),
  });

const revokeOfferOperation = ({ own }: InviteServices): Operation =>
  defineOperation({
    ...facts,
    id: 'authentication.teams.revokeOffer',
    audit: true,
    method: 'DELETE',
    path: '/authentication/teams/:teamId/invite/persistent',
    input: { params: TeamId, query: Type.Object({ invitationToken: InvitationToken }) },
    output: TextResult,
    errors: [authErrors.INVITE_NOT_FOUND, ...refusals],
    summary: 'Revoke a persistent invitation',
    description: 'For owners; by its token or by its id.',
    async handler(context, { params, query }) {
      await own.revokeOffer(userOf(context), canonicalId(params.teamId), query.invitationToken);
      return 'Invitation revoked';
    },
  });

const acceptance = {
  ...facts,
  output: TextResult,
  limit: { requests: 30, seconds: 900 },
  errors: [authErrors.INVALID_INVITATION],
} as const;

const acceptOperation = ({ accept }: InviteServices): Operation =>
  defineOperation({
    ...acceptance,
    id: 'authentication.teams.accept',
    audit: true,
    method: 'POST',
    path: '/authentication/teams/invite/accept',
    input: { body: Type.Object({ invitationToken: InvitationToken }) },
    summary: 'Join a team by an invitation',
    description:
      'An invitation to an address works once, for the user with that address. Whoever has a higher role keeps it.',
    handler: (context, { body }) => join(accept, context, body.invitationToken),
  });

const acceptByLinkOperation = ({ accept }: InviteServices): Operation =>
  defineOperation({
    ...acceptance,
    id: 'authentication.teams.acceptByLink',
    audit: true,
    method: 'GET',
    path: '/authentication/teams/invite/accept',
    mcp: false,
    graphql: false,
    deprecated: true,
    changes: true,
    input: { query: Type.Object({ invitationToken: InvitationToken }) },
    errors: [...acceptance.errors, operationErrors.CSRF_REFUSED],
    summary: 'Join a team by an invitation (GET)',
    description:
      'For existing clients. It needs the bearer token like its POST, so that a mail scanner or prefetch that follows a link does nothing.',
    handler: (context, { query }) => join(accept, context, query.invitationToken),
  });

/** The token says nothing to whoever reads the audit log: what it led to does. */
async function join(
  accept: AcceptInvitation,
  context: OperationContext,
  invitationToken: string,
): Promise<string> {
  context.audited({ changes: await accept(userOf(context), invitationToken) });
  return 'OK';
}

const factsOperation = ({ invites }: InviteServices): Operation =>
  defineOperation({
    id: 'authentication.teams.inviteFacts',
    surface: 'client',
    access: 'public',
    method: 'GET',
    path: '/authentication/teams/invite/user/data',
    limit: { requests: 50, seconds: 3600 },
    input: { query: Type.Object({ invitationToken: InvitationToken }) },
    output: Type.Object({
      email: Type.Union([Type.String(), Type.Null()]),
      userData: Type.Union([Type.Record(Type.String(), Type.Unknown()), Type.Null()]),
    }),
    errors: [authErrors.INVITE_NOT_FOUND],
    summary: 'Read what an invitation says',
    description:
      'For the page on which the invited person registers. Needs the token; uses nothing up.',
    async handler(_context, { query }) {
      const { email, userData } = await invites.facts(query.invitationToken);
      return { email, userData: userData === null ? null : { ...userData } };
    },
  });
