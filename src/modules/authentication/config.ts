/** Configuration of authentication. All times are in milliseconds. */
import Type, { type Static } from 'typebox';
import { defineConfig } from '../../kernel/config/definition.ts';

const minute = 60_000;
const day = 24 * 60 * minute;

const duration = (value: number, minimum: number, description: string) =>
  Type.Integer({ default: value, minimum, maximum: 3650 * day, description: `${description} Milliseconds.` });

const flag = (value: boolean, description: string) => Type.Boolean({ default: value, description });

export const authenticationConfig = defineConfig({
  schema: Type.Object({
    accessTokens: Type.Object({
      expiryPeriod: duration(60 * minute, 1000, 'How long an access token is valid.'),
      keyRotationPeriod: duration(
        90 * day,
        60 * minute,
        'After how long a new signing key is made. The old one verifies until its tokens end.',
      ),
    }),
    refreshTokens: Type.Object({
      enabled: flag(
        true,
        'Whether logins answer a refresh token. Off: sessions end with their access token and /authentication/renew is gone.',
      ),
      expiryPeriod: duration(7 * day, minute, 'How long a session may rest between two renewals.'),
    }),
    sessions: Type.Object({
      absoluteLifetime: duration(90 * day, minute, 'After how long a session ends, however often it was renewed.'),
      sudoMaxAge: duration(10 * minute, 1000, 'How long after a login the account may be deleted without a new login.'),
    }),
    clients: Type.Object({
      multipleUserSessions: flag(
        true,
        'Whether a user may have several sessions of one client. Off: a login ends the others of that client.',
      ),
      multipleClientLogins: flag(
        true,
        'Whether a user may be signed in with several clients. Off: a login ends the sessions of other clients.',
      ),
    }),
    local: Type.Object({
      enabled: flag(true, 'Whether users register and log in with e-mail and password.'),
    }),
    passwords: Type.Object({
      minLength: Type.Integer({ default: 8, minimum: 8, maximum: 128, description: 'Least number of characters of a new password.' }),
      blockCommon: flag(true, 'Whether well-known passwords are refused.'),
    }),
    lockout: Type.Object({
      failures: Type.Integer({
        default: 10,
        minimum: 3,
        maximum: 100,
        description:
          'Wrong passwords that one address may try on one account in a minute; twice that in 15 minutes, four times that in 6 hours. Others are not locked out.',
      }),
    }),
  }),
});

export type AuthenticationConfig = Static<typeof authenticationConfig.schema>;
