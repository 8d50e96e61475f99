/** Invitations by mail to what users share. */
import Type from 'typebox';
import { invalid } from '../../../kernel/errors.ts';
import {
  defineOperation,
  type Operation,
  standardLimit,
  TextResult,
} from '../../../kernel/operations/operation.ts';
import { pagingQuery } from '../../../kernel/operations/paging.ts';
import { maxReferenceLength } from '../../../kernel/permissions.ts';
import { authorizationErrors, parseObject } from '../../authorization/index.ts';
import { authErrors } from '../errors.ts';
import type { ShareInvitation } from '../services/shares/invitation-queries.ts';
import type { ShareInvitations } from '../services/shares/invitations.ts';
import { Email, userOf } from './shapes.ts';
import { InvitationToken } from './team-shapes.ts';

export const shareInvitationOperations = (shares: ShareInvitations): readonly Operation[] => [
  invite(shares),
  list(shares),
  received(shares),
  accept(shares),
  withdraw(shares),
];

const facts = { surface: 'client', access: 'user', limit: standardLimit } as const;
const path = '/authentication/invitations';
const instant = Type.String({ format: 'date-time' });
const Id = Type.String({ format: 'uuid' });
const Resource = Type.String({
  minLength: 1,
  maxLength: maxReferenceLength,
  description: '<Type>:<id>',
});

const Invitation = Type.Object({
  _id: Id,
  email: Type.String(),
  resource: Type.String(),
  relation: Type.String(),
  invitedBy: Id,
  createdAt: instant,
  expiresAt: instant,
  shareEndsAt: Type.Optional(Type.String({ format: 'date-time', description: 'Of what is given' })),
});

const onWire = (one: ShareInvitation) => ({
  _id: one.id,
  email: one.email,
  resource: `${one.resourceType}:${one.resourceId}`,
  relation: one.relation,
  invitedBy: one.invitedBy,
  createdAt: one.createdAt.toISOString(),
  expiresAt: one.expiresAt.toISOString(),
  ...(one.shareEndsAt && { shareEndsAt: one.shareEndsAt.toISOString() }),
});

/** Who may do what with what; nothing in it opens anything. */
const audited = ({ email, resourceType, resourceId, relation }: ShareInvitation) => ({
  email,
  resource: `${resourceType}:${resourceId}`,
  relation,
});

const invite = (shares: ShareInvitations): Operation =>
  defineOperation({
    ...facts,
    id: 'authentication.shareInvitations.create',
    audit: true,
    method: 'POST',
    path,
    limit: { requests: 8, seconds: 900, account: 'email' },
    strict: true,
    input: {
      body: Type.Object({
        email: Email,
        resource: Resource,
        relation: Type.String({ minLength: 1, maxLength: 64 }),
        expiresAt: Type.Optional(
          Type.String({ format: 'date-time', description: 'What is given ends then' }),
        ),
        redirectUri: Type.Optional(
          Type.String({
            maxLength: 2048,
            description: 'Page that the mail leads to; one of redirectUris',
          }),
        ),
      }),
    },
    output: Invitation,
    errors: [
      authErrors.EMAIL_INVALID,
      authErrors.EMAIL_NOT_ALLOWED,
      authErrors.REDIRECT_INVALID,
      authErrors.REDIRECT_NOT_ALLOWED,
      authErrors.USER_ANONYMOUS,
      authErrors.INVITATION_LIMIT_EXCEEDED,
      authorizationErrors.SHARING_REFUSED,
    ],
    summary: 'Invite somebody by mail to something that you share',
    description:
      'Needs what sharing it needs (`POST /authorization/shares/:resource`). Goes the same way whether or not the address has an account, replaces an earlier invitation to the same, and works once.',
    async handler(context, { body: { resource, ...rest } }) {
      const made = await shares.invite(userOf(context), {
        ...rest,
        resource: parseObject(resource, 'resource'),
        ...(rest.expiresAt !== undefined && { expiresAt: futureMoment(rest.expiresAt) }),
      });
      context.audited({ changes: audited(made) });
      return onWire(made);
    },
  });

function futureMoment(text: string): string {
  const moment = new Date(text);
  if (moment.getTime() <= Date.now())
    throw invalid('expiresAt', 'range', 'must be a moment to come');
  return moment.toISOString();
}

const list = (shares: ShareInvitations): Operation =>
  defineOperation({
    ...facts,
    id: 'authentication.shareInvitations.list',
    method: 'GET',
    path,
    input: {
      query: Type.Object({
        resource: Resource,
        ...pagingQuery({ maxSkip: 100_000, maxLimit: 100 }),
      }),
    },
    output: Type.Object({ invitations: Type.Array(Invitation), count: Type.Integer() }),
    errors: [authorizationErrors.SHARING_REFUSED],
    summary: 'List the open invitations to something',
    description: 'For those who may share it. The newest first; tokens are in the mails alone.',
    async handler(context, { query: { resource, ...page } }) {
      const object = parseObject(resource, 'resource');
      const { invitations, count } = await shares.list(userOf(context), object, page);
      return { invitations: invitations.map(onWire), count };
    },
  });

const received = (shares: ShareInvitations): Operation =>
  defineOperation({
    ...facts,
    id: 'authentication.shareInvitations.received',
    method: 'GET',
    path: `${path}/received`,
    input: {},
    output: Type.Object({ invitations: Type.Array(Invitation) }),
    errors: [authErrors.USER_ANONYMOUS],
    summary: 'List the invitations to your address',
    description: 'Those to the address of the account, once it is verified; at most 200.',
    handler: async (context) => ({
      invitations: (await shares.received(userOf(context))).map(onWire),
    }),
  });

const accept = (shares: ShareInvitations): Operation =>
  defineOperation({
    ...facts,
    id: 'authentication.shareInvitations.accept',
    audit: true,
    method: 'POST',
    path: `${path}/accept`,
    limit: { requests: 60, seconds: 900 },
    input: { body: Type.Object({ invitationToken: InvitationToken }) },
    output: Type.Object({ resource: Type.String(), relation: Type.String() }),
    errors: [
      authErrors.INVALID_INVITATION,
      authErrors.USER_ANONYMOUS,
      authorizationErrors.SHARES_FULL,
    ],
    summary: 'Accept an invitation to something shared',
    description:
      'By the token of the mail, after signing in or up with the address that it was sent to, or by the id in the list of those received. Works once, and only while the inviter may still share it.',
    async handler(context, { body }) {
      const taken = await shares.accept(userOf(context), body.invitationToken);
      context.audited({ changes: audited(taken) });
      const { resource, relation } = onWire(taken);
      return { resource, relation };
    },
  });

const withdraw = (shares: ShareInvitations): Operation =>
  defineOperation({
    ...facts,
    id: 'authentication.shareInvitations.delete',
    audit: true,
    method: 'DELETE',
    path: `${path}/:id`,
    input: { params: Type.Object({ id: Type.String({ format: 'uuid', description: 'Its id' }) }) },
    output: TextResult,
    errors: [authErrors.INVITE_NOT_FOUND],
    summary: 'Withdraw or decline an invitation',
    description:
      'For who made it, for others who may give the same, and for the verified address that it was sent to.',
    async handler(context, { params }) {
      context.audited({ changes: audited(await shares.withdraw(userOf(context), params.id)) });
      return 'Invitation withdrawn';
    },
  });
