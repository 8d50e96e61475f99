/** A new password by way of the mailbox. */
import Type from 'typebox';
import { defineOperation, type Operation, TextResult } from '../../../kernel/operation.ts';
import { authErrors } from '../errors.ts';
import type { PasswordRecovery } from '../services/password-recovery.ts';
import { Email, originOf, Password, RedirectUri } from './shapes.ts';

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
    errors: [authErrors.INVALID_EMAIL, authErrors.INVALID_REDIRECT, authErrors.REDIRECT_NOT_ALLOWED, authErrors.TOO_SOON],
    summary: 'Ask for the mail that sets a new password',
    description: 'The answer is the same for every address. A new mail replaces the one before; it works once, for half an hour.',
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
    input: { body: Type.Object({ passwordResetToken: Type.String({ minLength: 1, maxLength: 200 }), password: Password }) },
    output: TextResult,
    errors: [authErrors.INVALID_CODE, authErrors.WEAK_PASSWORD, authErrors.SAME_PASSWORD, authErrors.BREACH_CHECK_UNAVAILABLE],
    summary: 'Set a new password with the token of the mail',
    description: 'Ends all sessions. A password that is refused leaves the token as it is.',
    handler: async (context, { body }) => {
      await recovery.reset(body.passwordResetToken, body.password, originOf(context));
      return 'Password reset successfully';
    },
  });
