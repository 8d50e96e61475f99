/** Registration, login and change of password. */
import Type from 'typebox';
import { recordErrors } from '../../../data/records/errors.ts';
import {
  defineOperation,
  type Operation,
  Reply,
  TextResult,
} from '../../../kernel/operations/operation.ts';
import { authErrors } from '../errors.ts';
import type { Accounts } from '../services/accounts/accounts.ts';
import type { Register } from '../services/accounts/registration.ts';
import type { LocalLogin, PasswordRecovery } from '../services/login/local-login.ts';
import { Email, Login, originOf, Password, RedirectUri, UserData, userOf } from './shapes.ts';

/* A new password by way of the mailbox. */

export const recoveryOperations = (recovery: PasswordRecovery): readonly Operation[] => [
  forgotOperation(recovery),
  resetOperation(recovery),
];

const forgotOperation = (recovery: PasswordRecovery): Operation =>
  defineOperation({
    id: 'authentication.password.forgot',
    surface: 'client',
    method: 'POST',
    path: '/authentication/forgot-password',
    access: 'public',
    limit: { requests: 8, seconds: 900, account: 'email' },
    input: { body: Type.Object({ email: Email, redirectUri: Type.Optional(RedirectUri) }) },
    output: TextResult,
    errors: [
      authErrors.EMAIL_INVALID,
      authErrors.REDIRECT_INVALID,
      authErrors.REDIRECT_NOT_ALLOWED,
      authErrors.MESSAGE_TOO_SOON,
    ],
    summary: 'Ask for the mail that sets a new password',
    description:
      'The answer is the same for every address. A new mail replaces the one before; it works once, for half an hour.',
    handler: async (context, { body }) => {
      await recovery.forgot(body.email, body.redirectUri, originOf(context));
      return 'If there is an account with this address, a mail is on its way';
    },
  });

const resetOperation = (recovery: PasswordRecovery): Operation =>
  defineOperation({
    id: 'authentication.password.reset',
    surface: 'client',
    method: 'POST',
    path: '/authentication/reset-password',
    access: 'public',
    limit: { requests: 25, seconds: 900 },
    idempotency: false,
    input: {
      body: Type.Object({
        passwordResetToken: Type.String({ minLength: 1, maxLength: 200 }),
        password: Password,
      }),
    },
    output: TextResult,
    errors: [
      authErrors.LINK_INVALID,
      authErrors.PASSWORD_WEAK,
      authErrors.PASSWORD_UNCHANGED,
      authErrors.BREACH_CHECK_UNAVAILABLE,
    ],
    summary: 'Set a new password with the token of the mail',
    description: 'Ends all sessions. A password that is refused leaves the token as it is.',
    handler: async (context, { body }) => {
      await recovery.reset(body.passwordResetToken, body.password, originOf(context));
      return 'Password reset successfully';
    },
  });

/** What these operations call. */
interface LocalServices {
  readonly local: LocalLogin;
  readonly register: Register;
  readonly accounts: Accounts;
}

const credentialLimit = { requests: 30, seconds: 900, account: 'email' } as const;
const loginErrors = [
  authErrors.CREDENTIALS_INVALID,
  authErrors.USER_BLOCKED,
  authErrors.EMAIL_NOT_VERIFIED,
  authErrors.ATTEMPTS_EXHAUSTED,
] as const;

/** `User` is the shape of a user as the schema says it now. */
export const localOperations = (
  services: LocalServices,
  User: Type.TObject,
): readonly Operation[] => [
  registerOperation(services, User),
  loginOperation(services),
  changePasswordOperation(services),
];

/** Exist only while user names are switched on. */
export const usernameOperations = (services: LocalServices): readonly Operation[] => [
  usernameLoginOperation(services),
  setPasswordOperation(services),
];

const registerOperation = ({ register }: LocalServices, User: Type.TObject): Operation =>
  defineOperation({
    id: 'authentication.local.register',
    surface: 'client',
    method: 'POST',
    path: '/authentication/local/new',
    access: 'optionalUser',
    limit: credentialLimit,
    // The address makes a repeated request harmless; a stored answer would outlive the account.
    idempotency: false,
    input: {
      body: Type.Object({
        email: Email,
        password: Password,
        userData: Type.Optional(UserData),
        invitationToken: Type.Optional(Type.String({ minLength: 1, maxLength: 200 })),
        redirectUri: Type.Optional(RedirectUri),
      }),
    },
    output: Type.Object({ user: User }),
    errors: [
      authErrors.EMAIL_INVALID,
      authErrors.EMAIL_NOT_ALLOWED,
      authErrors.PASSWORD_WEAK,
      authErrors.USER_DATA_UNKNOWN,
      authErrors.USER_NOT_ANONYMOUS,
      authErrors.SUDO_REQUIRED,
      authErrors.REDIRECT_INVALID,
      authErrors.REDIRECT_NOT_ALLOWED,
      authErrors.INVITATION_REQUIRED,
      authErrors.INVALID_INVITATION,
      authErrors.USER_EXISTS,
      recordErrors.RECORD_NOT_UNIQUE,
      authErrors.BREACH_CHECK_UNAVAILABLE,
    ],
    summary: 'Register with e-mail and password',
    description:
      'Creates the account and answers it; with the token of an anonymous user, that user becomes the account, and its sessions end where a login would ask for more (a proven address, a second factor). It opens no session: log in next. While addresses must be verified, a taken address is answered like a new one and its owner is told by mail.',
    handler: async (context, { body }) =>
      Reply.json(`{"user":${await register(context.caller, body, originOf(context))}}`),
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
    output: Login,
    errors: [authErrors.EMAIL_INVALID, ...loginErrors],
    summary: 'Log in with e-mail and password',
    handler: (context, { body }) =>
      local.byEmail({ name: body.email, password: body.password }, originOf(context)),
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
        oldPassword: Type.Optional(
          Type.String({
            maxLength: 1024,
            description: 'Required unless the account has no password yet',
          }),
        ),
        newPassword: Password,
      }),
    },
    output: TextResult,
    errors: [
      authErrors.PASSWORD_INCORRECT,
      authErrors.PASSWORD_WEAK,
      authErrors.SUDO_REQUIRED,
      authErrors.USER_ANONYMOUS,
      authErrors.ATTEMPTS_EXHAUSTED,
      authErrors.BREACH_CHECK_UNAVAILABLE,
    ],
    audit: true,
    summary: 'Change the password',
    description:
      'Ends all other sessions of the user; this one goes on, and the owner is told by mail. An account without a password needs a fresh login instead of the old one.',
    handler: async (context, { body }) => {
      await accounts.changePassword(userOf(context), body, originOf(context));
      return 'Password changed successfully';
    },
  });

const usernameLoginOperation = ({ local }: LocalServices): Operation =>
  defineOperation({
    id: 'authentication.username.login',
    surface: 'client',
    method: 'POST',
    path: '/authentication/username',
    access: 'public',
    limit: { requests: 30, seconds: 900, account: 'username' },
    idempotency: false,
    input: {
      body: Type.Object({
        username: Type.String({ minLength: 1, maxLength: 64, description: 'Case does not matter' }),
        password: Password,
      }),
    },
    output: Login,
    errors: [authErrors.USERNAME_INVALID, ...loginErrors],
    summary: 'Log in with user name and password',
    handler: (context, { body }) =>
      local.byUsername({ name: body.username, password: body.password }, originOf(context)),
  });

const setPasswordOperation = ({ accounts }: LocalServices): Operation =>
  defineOperation({
    id: 'authentication.username.changePassword',
    surface: 'client',
    method: 'POST',
    path: '/authentication/username/change-password',
    access: 'user',
    limit: { requests: 30, seconds: 900 },
    idempotency: false,
    input: { body: Type.Object({ newPassword: Password }) },
    output: TextResult,
    errors: [
      authErrors.PASSWORD_WEAK,
      authErrors.SUDO_REQUIRED,
      authErrors.USER_ANONYMOUS,
      authErrors.BREACH_CHECK_UNAVAILABLE,
    ],
    audit: true,
    summary: 'Change the password after a fresh login',
    description:
      'Needs a fresh login (setting sessions.sudoMaxAge) instead of the old password. Ends all other sessions of the user.',
    handler: async (context, { body }) => {
      await accounts.setPassword(userOf(context), body.newPassword);
      return 'Password changed successfully';
    },
  });
