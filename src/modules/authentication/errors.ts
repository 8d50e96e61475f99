/** What can go wrong here. Messages of sign-in say no more than the caller has proven. */
import { defineErrors } from '../../kernel/errors.ts';
import { identityErrors } from '../../kernel/security/identity-errors.ts';

const ownErrors = defineErrors({
  EMAIL_INVALID: [400, 'email: this is not an e-mail address that can be used'],
  USERNAME_INVALID: [
    400,
    'username: use 3 to 64 of the characters a-z, 0-9, dot, dash and underscore',
  ],
  PASSWORD_WEAK: [400, 'password: choose another password'],
  USER_DATA_UNKNOWN: [
    400,
    'userData: only fields that extend the user, and that users may write, may be set here',
  ],
  EMAIL_NOT_ALLOWED: [400, 'email: addresses of this kind cannot be used here'],
  REDIRECT_INVALID: [400, 'redirectUri: this is not a URL that a browser can be redirected to'],
  LINK_INVALID: [400, 'This link or code is not valid, or was used already: ask for a new one'],
  EMAIL_UNCHANGED: [400, 'newEmail: this is the address of the account already'],
  USER_NOT_ANONYMOUS: [400, 'This account is registered already'],
  USER_ALREADY_BLOCKED: [400, 'This user is blocked already'],
  USER_NOT_BLOCKED: [400, 'This user is not blocked'],
  TOKEN_INVALID: [401, 'The access token is not valid: renew it or log in'],
  REFRESH_TOKEN_INVALID: [401, 'The refresh token is not valid: log in again'],
  CREDENTIALS_INVALID: [401, 'The e-mail address or the password is wrong'],
  PASSWORD_INCORRECT: [401, 'The old password is wrong'],
  PASSWORD_UNCHANGED: [403, 'password: choose another password than the one before'],
  REDIRECT_NOT_ALLOWED: [403, 'redirectUri: this address is not on the list of redirectUris'],
  EMAIL_NOT_VERIFIED: [403, 'Verify your e-mail address first: follow the mail that you got'],
  USER_ANONYMOUS: [403, 'An anonymous account cannot do this: register first'],
  USER_BLOCKED: [403, 'This account is blocked: ask the operator'],
  CAPTCHA_REQUIRED: [403, 'captchaToken: solve the captcha first and send its token'],
  CAPTCHA_FAILED: [403, 'captchaToken: the captcha was not accepted: solve another one'],
  SUDO_REQUIRED: [403, 'Re-login required to enter sudo mode'],
  USER_NOT_FOUND: [404, 'There is no such user'],
  LINK_NOT_FOUND: [404, 'This link is not valid, or it was used or has expired: ask for a new one'],
  SESSION_NOT_FOUND: [404, 'You have no such session'],
  USER_EXISTS: [409, 'A user with this e-mail address exists already'],
  USERNAME_EXISTS: [409, 'A user with this name exists already'],
  PHONE_NUMBER_EXISTS: [409, 'A user with this phone number exists already'],
  MEMBER_UNKNOWN: [400, 'These users are not members of the team'],
  OWN_MEMBERSHIP_PROTECTED: [400, 'You cannot change your own role: somebody else must do it'],
  TEAM_REFUSED: [403, 'Your role in this team does not allow this'],
  ROLE_FORBIDDEN: [403, 'You may not assign or remove this role'],
  INVITES_DISABLED: [403, 'Invitations are switched off'],
  INVITATION_REQUIRED: [403, 'Registration needs an invitation'],
  INVALID_INVITATION: [403, 'This invitation is not valid: ask for a new one'],
  TEAM_NOT_FOUND: [404, 'There is no such team'],
  INVITE_NOT_FOUND: [404, 'There is no such invitation'],
  TEAM_EXISTS: [409, 'A team of this name exists already'],
  INVITATION_LIMIT_EXCEEDED: [
    409,
    'Too many of your invitations are open: withdraw some, or wait until they are answered',
  ],
  LAST_OWNER_PROTECTED: [
    409,
    'You are the last owner of this team: make somebody else an owner first, or delete it',
  ],
  DEFAULT_TEAM_EXISTS: [409, 'There is a default team already'],
  DEFAULT_TEAM_PROTECTED: [
    412,
    'The default team cannot be deleted: make another one the default, or none',
  ],
  MESSAGE_TOO_SOON: [429, 'A message was asked for a moment ago: wait before you ask again'],
  BREACH_CHECK_UNAVAILABLE: [503, 'New passwords cannot be checked now: try again in a moment'],
});

export const authErrors = { ...ownErrors, ...identityErrors };
