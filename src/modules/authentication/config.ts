/** Configuration of authentication. All times are in milliseconds. */
import Type, { type Static } from 'typebox';
import { defineConfig, sensitive } from '../../kernel/config/config-definition.ts';
import { cookieConfig, cookieProblems } from './config/cookies.ts';
import {
  externalConfig,
  externalProblems,
  walletConfig,
  walletProblems,
} from './config/external.ts';
import { factorsConfig, factorsProblems } from './config/factors.ts';
import {
  captchaConfig,
  emailCodeConfig,
  emailRestrictionsConfig,
  lifetimesConfig,
  localConfig,
  magicLinkConfig,
  passwordsConfig,
  userDataConfig,
} from './config/local.ts';
import { openidConfig, openidProblems } from './config/openid.ts';
import { profilesConfig, profilesProblems } from './config/profiles.ts';
import { shareInvitationsConfig, shareInvitationsProblems } from './config/share-invitations.ts';
import { teamsConfig, teamsProblems } from './config/teams.ts';
import { addressProblems, redirectsConfig } from './redirects.ts';

const minute = 60_000;
const day = 24 * 60 * minute;

const duration = (value: number, minimum: number, description: string) =>
  Type.Integer({
    default: value,
    minimum,
    maximum: 3650 * day,
    description: `${description} Milliseconds.`,
  });

const flag = (value: boolean, description: string) => Type.Boolean({ default: value, description });

const serviceProblem = {
  path: 'service.enabled',
  rule: 'available',
  message: 'cannot be switched off',
};

/** Others build addresses from the issuer and compare it letter by letter: it has one spelling. */
function issuerProblems(issuer: string) {
  const url = URL.canParse(issuer) ? new URL(issuer) : undefined;
  const plain = url && `${url.origin}${url.pathname === '/' ? '' : url.pathname}`;
  const fits = issuer === plain && !issuer.endsWith('/') && /^https?:$/.test(url?.protocol ?? '');
  return issuer === '' || fits
    ? []
    : [
        {
          path: 'accessTokens.issuer',
          rule: 'uri',
          message:
            'write an address in lower case, without a slash at the end, like https://api.example.com',
        },
      ];
}

export const authenticationConfig = defineConfig({
  schema: Type.Object({
    accessTokens: Type.Object({
      jwtSecret: sensitive({
        description:
          'Without effect, for an existing panel: keys that nobody can read sign the tokens.',
      }),
      expiryPeriod: duration(60 * minute, 1000, 'How long an access token is valid.'),
      algorithm: Type.Union([Type.Literal('EdDSA'), Type.Literal('ES256'), Type.Literal('RS256')], {
        default: 'EdDSA',
        description:
          'How tokens are signed. `ES256` or `RS256` for gateways and libraries that do not know EdDSA. After a change a new key signs; tokens that are out stay valid.',
      }),
      issuer: Type.String({
        default: '',
        maxLength: 256,
        description:
          'The public address of this surface that tokens name as their issuer, like `https://api.example.com`. Others then find the keys by themselves, at `/.well-known/openid-configuration` below it. Empty: tokens name `penstock`, and there is no such document. Tokens that are out stay valid after a change.',
      }),
      keyRotationPeriod: duration(
        90 * day,
        60 * minute,
        'After how long a new signing key is made. It is published ten minutes before it signs, and the old one verifies until its tokens end.',
      ),
      ...cookieConfig('access token'),
    }),
    refreshTokens: Type.Object({
      enabled: flag(
        true,
        'Whether logins answer a refresh token. Off: sessions end with their access token and /authentication/renew is gone.',
      ),
      expiryPeriod: duration(7 * day, minute, 'How long a session may rest between two renewals.'),
      ...cookieConfig('refresh token'),
    }),
    sessions: Type.Object({
      absoluteLifetime: duration(
        90 * day,
        minute,
        'After how long a session ends, however often it was renewed.',
      ),
      sudoMaxAge: duration(
        10 * minute,
        1000,
        'How long after a login the account may be deleted without a new login.',
      ),
      newDeviceNotice: flag(
        true,
        'Whether users are told by mail when somebody signs in from a device or a place that is new for the account.',
      ),
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
    local: localConfig,
    magic_link: magicLinkConfig,
    email_code: emailCodeConfig,
    redirectUris: redirectsConfig,
    emailRestrictions: emailRestrictionsConfig,
    lifetimes: lifetimesConfig,
    passwords: passwordsConfig,
    lockout: Type.Object({
      failures: Type.Integer({
        default: 10,
        minimum: 3,
        maximum: 100,
        description:
          'Wrong passwords that one address may try on one account in a minute; twice that in 15 minutes, four times that in 6 hours. Others are not locked out.',
      }),
      accountFailures: Type.Integer({
        default: 100,
        minimum: 20,
        maximum: 1000,
        description:
          'Wrong passwords in a row on one account from all addresses together, within a day. After that only addresses from which the owner signed in before may go on, and the owner is told by mail.',
      }),
    }),
    captcha: captchaConfig,
    teams: teamsConfig,
    userData: userDataConfig,
    profiles: profilesConfig,
    shareInvitations: shareInvitationsConfig,
    ...factorsConfig,
    ...externalConfig,
    metamask: walletConfig,
    openidProvider: openidConfig,
    service: Type.Object({
      enabled: flag(
        true,
        'Service accounts of operators, for an existing panel, which asks here. They cannot be switched off.',
      ),
    }),
    impersonation: Type.Object({
      lifetime: Type.Integer({
        default: 15 * minute,
        minimum: minute,
        maximum: 60 * minute,
        description:
          'How long an operator may act as a user before they must ask again. Milliseconds.',
      }),
    }),
  }),
  check: ({ teams, profiles, shareInvitations, local, magic_link, ...config }) => [
    ...teamsProblems(teams),
    ...profilesProblems(profiles),
    ...shareInvitationsProblems(shareInvitations),
    ...externalProblems(config),
    ...factorsProblems(config),
    ...walletProblems(config),
    ...cookieProblems(config),
    ...(config.service.enabled ? [] : [serviceProblem]),
    ...issuerProblems(config.accessTokens.issuer),
    ...openidProblems(config.openidProvider, config.accessTokens.issuer),
    ...addressProblems({
      'local.verification.redirect_uri': local.verification.redirect_uri,
      'local.forgot_password_redirect_uri': local.forgot_password_redirect_uri,
      'magic_link.redirect_uri': magic_link.redirect_uri,
      'magic_link.link_uri': magic_link.link_uri,
    }),
  ],
});

export type AuthenticationConfig = Static<typeof authenticationConfig.schema>;
