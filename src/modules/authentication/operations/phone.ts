/** Registration and sign-in with a phone number, and users without a name. */
import Type from 'typebox';
import { recordErrors } from '../../../data/records/errors.ts';
import { defineOperation, type Operation } from '../../../kernel/operations/operation.ts';
import { factorErrors } from '../credential-errors.ts';
import { authErrors } from '../errors.ts';
import type { Factors } from '../services/sign-in-methods.ts';
import { LinkToken, Login, originOf, UserData } from './shapes.ts';

const newAccountErrors = [
  authErrors.USER_DATA_UNKNOWN,
  recordErrors.RECORD_NOT_UNIQUE,
  authErrors.INVITATION_REQUIRED,
  authErrors.INVALID_INVITATION,
] as const;

/** Exist only while phone sign-in is switched on and text messages are sent. */
export const phoneOperations = (services: Pick<Factors, 'phone'>): readonly Operation[] => [
  requestOperation(services),
  verifyOperation(services),
];

const requestOperation = ({ phone }: Pick<Factors, 'phone'>): Operation =>
  defineOperation({
    surface: 'client',
    id: 'authentication.phone.request',
    method: 'POST',
    path: '/authentication/phone',
    access: 'public',
    limit: { requests: 8, seconds: 900, account: 'phone' },
    idempotency: false,
    input: {
      body: Type.Object({
        phone: Type.String({
          minLength: 5,
          maxLength: 32,
          description: 'With its country, like +306900000000',
        }),
        invitationToken: Type.Optional(Type.String({ minLength: 1, maxLength: 200 })),
      }),
    },
    output: Type.Object({
      token: Type.String({
        description: 'Goes with the code to POST /authentication/phone/verify',
      }),
    }),
    errors: [factorErrors.PHONE_INVALID, authErrors.MESSAGE_TOO_SOON],
    openWorld: true,
    summary: 'Ask for a code by text message',
    description: 'The same for every number, whether there is an account or not.',
    handler: async (context, { body }) => ({
      token: await phone.request(body.phone, body.invitationToken, originOf(context)),
    }),
  });

const verifyOperation = ({ phone }: Pick<Factors, 'phone'>): Operation =>
  defineOperation({
    surface: 'client',
    id: 'authentication.phone.verify',
    method: 'POST',
    path: '/authentication/phone/verify',
    access: 'optionalUser',
    limit: { requests: 25, seconds: 900 },
    idempotency: false,
    input: {
      body: Type.Object({
        token: LinkToken,
        code: Type.String({ minLength: 1, maxLength: 20 }),
        userData: Type.Optional(UserData),
      }),
    },
    output: Login,
    errors: [
      authErrors.CREDENTIALS_INVALID,
      authErrors.SUDO_REQUIRED,
      authErrors.USER_BLOCKED,
      factorErrors.PHONE_IN_USE,
      authErrors.USER_NOT_ANONYMOUS,
      authErrors.PHONE_NUMBER_EXISTS,
      ...newAccountErrors,
    ],
    summary: 'Register or sign in with a phone number',
    description:
      'Signs in whoever has the number, else makes an account; with the token of an anonymous user, that user becomes the account. With the token of a registered user the number becomes theirs: that needs a fresh login, and ends their other sessions. A number that is the second factor of an account with another way in does not sign in to it.',
    handler: (context, { body }) => phone.verify(context.caller, body, originOf(context)),
  });

/** Exists only while anonymous users are switched on and nobody needs an invitation. */
export const anonymousOperation = ({
  anonymousUsers,
}: Pick<Factors, 'anonymousUsers'>): Operation =>
  defineOperation({
    surface: 'client',
    id: 'authentication.local.registerAnonymous',
    method: 'POST',
    path: '/authentication/local/new/anonymous',
    access: 'public',
    limit: { requests: 30, seconds: 900 },
    idempotency: false,
    input: { body: Type.Optional(Type.Object({ userData: Type.Optional(UserData) })) },
    output: Login,
    errors: [authErrors.USER_DATA_UNKNOWN, recordErrors.RECORD_NOT_UNIQUE],
    summary: 'Make an anonymous user and sign in as it',
    description:
      'It becomes a registered user in place, by registration, phone or another provider, when its token comes along.',
    handler: (context, { body }) =>
      anonymousUsers.create(context.caller, body?.userData ?? {}, originOf(context)),
  });
