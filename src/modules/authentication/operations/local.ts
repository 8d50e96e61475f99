/** Registration, login and change of password with e-mail and password. */
import Type from 'typebox';
import { defineOperation, type Operation, Reply, TextResult } from '../../../kernel/operation.ts';
import { recordErrors } from '../../../kernel/records/errors.ts';
import { authErrors } from '../errors.ts';
import type { Accounts } from '../services/accounts.ts';
import type { LocalLogin } from '../services/local-login.ts';
import { Email, originOf, Password, User, UserData, userOf } from './shapes.ts';

/** What these operations call. */
export interface LocalServices {
  readonly local: LocalLogin;
  readonly accounts: Accounts;
}

const credentialLimit = { requests: 30, seconds: 900, account: 'email' } as const;

export const localOperations = (services: LocalServices): readonly Operation[] => [
  registerOperation(services),
  loginOperation(services),
  changePasswordOperation(services),
];

const registerOperation = ({ local }: LocalServices): Operation =>
  defineOperation({
    id: 'authentication.local.register',
    surface: 'client',
    method: 'POST',
    path: '/authentication/local/new',
    access: 'public',
    limit: credentialLimit,
    input: { body: Type.Object({ email: Email, password: Password, userData: Type.Optional(UserData) }) },
    output: Type.Object({ user: User }),
    errors: [
      authErrors.INVALID_EMAIL,
      authErrors.WEAK_PASSWORD,
      authErrors.UNKNOWN_USER_DATA,
      authErrors.USER_EXISTS,
      recordErrors.RECORD_NOT_UNIQUE,
    ],
    summary: 'Register with e-mail and password',
    description: 'Creates the account and answers it. It opens no session: log in next.',
    handler: async (context, { body }) => {
      const { json } = await local.register(context.caller, body);
      return Reply.json(`{"user":${json}}`);
    },
  });

const loginOperation = ({ local }: LocalServices): Operation =>
  defineOperation({
    id: 'authentication.local.login',
    surface: 'client',
    method: 'POST',
    path: '/authentication/local',
    access: 'public',
    limit: credentialLimit,
    idempotency: false,
    input: { body: Type.Object({ email: Email, password: Password }) },
    output: Type.Object({
      userId: Type.String({ format: 'uuid' }),
      accessToken: Type.String({ description: 'Bearer token of requests; a JWT' }),
      refreshToken: Type.Optional(Type.String({ description: 'Bearer token of POST /authentication/renew; works once' })),
      twoFaRequired: Type.Optional(Type.Literal(true, { description: 'The access token opens only the second step' })),
      twoFaMethod: Type.Optional(Type.String()),
    }),
    errors: [authErrors.INVALID_EMAIL, authErrors.WRONG_CREDENTIALS, authErrors.USER_BLOCKED, authErrors.TOO_MANY_FAILURES],
    summary: 'Log in with e-mail and password',
    handler: (context, { body }) => local.login(body, originOf(context)),
  });

const changePasswordOperation = ({ accounts }: LocalServices): Operation =>
  defineOperation({
    id: 'authentication.local.changePassword',
    surface: 'client',
    method: 'POST',
    path: '/authentication/local/change-password',
    access: 'user',
    limit: { requests: 30, seconds: 900 },
    idempotency: false,
    input: {
      body: Type.Object({
        oldPassword: Type.Optional(Type.String({ maxLength: 1024, description: 'Required unless the account has no password yet' })),
        newPassword: Password,
      }),
    },
    output: TextResult,
    errors: [authErrors.WRONG_PASSWORD, authErrors.WEAK_PASSWORD, authErrors.SUDO_REQUIRED, authErrors.TOO_MANY_FAILURES],
    summary: 'Change the password',
    description:
      'Ends all other sessions of the user; this one goes on. An account without a password needs a fresh login instead of the old one.',
    handler: async (context, { body }) => {
      await accounts.changePassword(userOf(context), body, originOf(context));
      return 'Password changed successfully';
    },
  });
