/** The accounts at other providers that belong to the signed-in user. */
import Type from 'typebox';
import { errors } from '../../../kernel/errors.ts';
import {
  defineOperation,
  type Operation,
  standardLimit,
  TextResult,
} from '../../../kernel/operations/operation.ts';
import { externalErrors } from '../credential-errors.ts';
import { authErrors } from '../errors.ts';
import type { External } from '../services/sign-in-methods.ts';
import { ProviderName, providerOf, Scopes } from './external-shapes.ts';
import { LinkToken, RedirectUri, userOf } from './shapes.ts';

/** Whatever the accounts are linked by. */
export const identityOperations = (external: External): readonly Operation[] => [
  listOperation(external),
  unlinkOperation(external),
];

/** At providers that browsers are sent to. */
export const linkOperations = (external: External): readonly Operation[] => [
  startLinkOperation(external),
  linkOperation(external),
];

const user = { surface: 'client', access: 'user' } as const;

const Identity = Type.Object({
  _id: Type.String({ format: 'uuid' }),
  provider: Type.String(),
  subject: Type.String({ description: "The provider's own id of the account" }),
  email: Type.Union([Type.String(), Type.Null()]),
  emailVerified: Type.Boolean({ description: 'Whether the provider vouches for the address' }),
  data: Type.Object({
    name: Type.Optional(Type.String()),
    username: Type.Optional(Type.String()),
    picture: Type.Optional(Type.String()),
  }),
  linkedAt: Type.String({ format: 'date-time' }),
  lastUsedAt: Type.String({ format: 'date-time' }),
});

const listOperation = ({ identities }: External): Operation =>
  defineOperation({
    ...user,
    id: 'authentication.identities.list',
    method: 'GET',
    path: '/authentication/identities',
    limit: standardLimit,
    input: {},
    output: Type.Object({ identities: Type.Array(Identity), count: Type.Integer() }),
    summary: 'List your accounts at other providers',
    handler: async (context) => {
      const list = (await identities.list(userOf(context))).map((identity) => ({
        ...identity,
        linkedAt: identity.linkedAt.toISOString(),
        lastUsedAt: identity.lastUsedAt.toISOString(),
      }));
      return { identities: list, count: list.length };
    },
  });

const startLinkOperation = (external: External): Operation =>
  defineOperation({
    ...user,
    id: 'authentication.identities.startLink',
    method: 'POST',
    path: '/authentication/identities/:provider/link',
    limit: { requests: 35, seconds: 900 },
    idempotency: false,
    input: {
      params: ProviderName,
      body: Type.Object({ scopes: Type.Optional(Scopes), redirectUri: Type.Optional(RedirectUri) }),
    },
    output: TextResult,
    errors: [
      errors.NOT_FOUND,
      authErrors.SUDO_REQUIRED,
      authErrors.USER_ANONYMOUS,
      authErrors.REDIRECT_INVALID,
      authErrors.REDIRECT_NOT_ALLOWED,
      externalErrors.EXTERNAL_PROVIDER_UNAVAILABLE,
    ],
    summary: 'Start to link an account at another provider',
    description:
      'Needs a fresh sign-in (setting sessions.sudoMaxAge). Answers the address to send the browser to; it comes back to the app with `linkCode`, which POST /authentication/identities turns into a link.',
    handler: (context, { params, body }) =>
      external.linking.start(providerOf(external, params.provider), userOf(context), body),
  });

const linkOperation = ({ linking }: External): Operation =>
  defineOperation({
    ...user,
    id: 'authentication.identities.link',
    audit: true,
    auditChanges: () => undefined,
    method: 'POST',
    path: '/authentication/identities',
    limit: { requests: 35, seconds: 900 },
    idempotency: false,
    input: { body: Type.Object({ linkCode: LinkToken }) },
    output: TextResult,
    errors: [
      authErrors.SUDO_REQUIRED,
      externalErrors.EXTERNAL_EXCHANGE_INVALID,
      externalErrors.IDENTITY_EXISTS,
    ],
    summary: 'Link an account at another provider',
    description: 'Only the user who started can do this. The code works once, for five minutes.',
    handler: async (context, { body }) =>
      `You can now sign in with ${await linking.finish(userOf(context), body.linkCode)}`,
  });

const unlinkOperation = ({ identities }: External): Operation =>
  defineOperation({
    ...user,
    id: 'authentication.identities.unlink',
    audit: true,
    method: 'DELETE',
    path: '/authentication/identities/:id',
    limit: standardLimit,
    input: { params: Type.Object({ id: Type.String({ format: 'uuid', description: 'Its id' }) }) },
    output: TextResult,
    errors: [
      authErrors.SUDO_REQUIRED,
      externalErrors.IDENTITY_NOT_FOUND,
      externalErrors.LAST_SIGN_IN_METHOD_PROTECTED,
    ],
    summary: 'Remove one of your accounts at other providers',
    description:
      'Needs a fresh sign-in (setting sessions.sudoMaxAge). Ends all other sessions. The last way into the account stays.',
    handler: async (context, { params }) => {
      await identities.unlink(userOf(context), params.id);
      return 'Account removed';
    },
  });
