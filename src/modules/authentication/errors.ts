/** What can go wrong here. Messages of sign-in say no more than the caller has proven. */
import { defineErrors } from '../../kernel/errors.ts';

export const authErrors = defineErrors({
  INVALID_EMAIL: [400, 'email: this is not an e-mail address that can be used'],
  INVALID_USERNAME: [400, 'username: use 3 to 64 of the characters a-z, 0-9, dot, dash and underscore'],
  WEAK_PASSWORD: [400, 'password: choose another password'],
  UNKNOWN_USER_DATA: [400, 'userData: only fields that extend the user may be set here'],
  ALREADY_BLOCKED: [400, 'This user is blocked already'],
  NOT_BLOCKED: [400, 'This user is not blocked'],
  INVALID_TOKEN: [401, 'The access token is not valid: renew it or log in'],
  INVALID_REFRESH_TOKEN: [401, 'The refresh token is not valid: log in again'],
  WRONG_CREDENTIALS: [401, 'The e-mail address or the password is not right'],
  WRONG_PASSWORD: [403, 'The old password is not right'],
  USER_BLOCKED: [403, 'This account is blocked: ask the operator'],
  SUDO_REQUIRED: [403, 'Re-login required to enter sudo mode'],
  USER_NOT_FOUND: [404, 'There is no such user'],
  SESSION_NOT_FOUND: [404, 'You have no such session'],
  USER_EXISTS: [409, 'A user with this e-mail address exists already'],
  USERNAME_TAKEN: [409, 'A user with this name exists already'],
  PHONE_NUMBER_TAKEN: [409, 'A user with this phone number exists already'],
  TOO_MANY_FAILURES: [429, 'Too many failed attempts: wait before you try again'],
});
