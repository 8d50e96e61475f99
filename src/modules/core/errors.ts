/** What can go wrong on the admin surface. Sentences that existing clients compare are kept as they know them. */
import { defineErrors } from '../../kernel/errors.ts';
import { identityErrors } from '../../kernel/security/identity-errors.ts';

const ownErrors = defineErrors({
  ADMIN_CREDENTIAL_MISSING: [
    401,
    'This needs a credential: the masterkey header, an admin token, or an API token',
  ],
  MASTER_KEY_INVALID: [401, 'Unauthorized'],
  ADMIN_TOKEN_MISSING: [401, 'No token provided'],
  ADMIN_TOKEN_INVALID: [401, 'Invalid token'],
  ADMIN_TOKEN_EXPIRED: [401, 'Token has expired'],
  SECOND_FACTOR_REQUIRED: [401, 'Two FA required'],
  ADMIN_UNKNOWN: [401, 'No such user exists'],
  ADMIN_LOGIN_INVALID: [401, 'Invalid username/password'],
  SECOND_FACTOR_EXHAUSTED: [401, 'Too many wrong codes: sign in again'],
  ADMIN_NOT_FOUND: [404, 'Admin does not exist'],
  ADMIN_EXISTS: [409, 'Already exists'],
  ADMIN_PASSWORD_CHANGED: [409, 'The password was changed in the meantime: sign in again'],
  SELF_DELETION_FORBIDDEN: [400, 'You cannot delete yourself: another super admin must do it'],
  LAST_SUPER_ADMIN_PROTECTED: [409, 'This is the last active super admin: make another one first'],
  PASSWORD_INCORRECT: [400, 'Incorrect Password'],
  STORED_ADMIN_REQUIRED: [
    400,
    'The master key has no account of its own: sign in as an admin for this',
  ],
  ADMIN_SESSION_REQUIRED: [403, 'This needs the token of a login, not an API token'],
  API_TOKEN_NOT_FOUND: [404, 'Token not found'],
});

export const coreErrors = { ...ownErrors, ...identityErrors };
