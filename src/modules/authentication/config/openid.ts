/** Configuration of the platform as an OpenID provider for other apps of the operator. */
import Type, { type Static } from 'typebox';
import { parseTarget } from '../redirects.ts';

const minute = 60_000;
const day = 24 * 60 * minute;

export const openidConfig = Type.Object({
  enabled: Type.Boolean({
    default: false,
    description:
      'Whether users of this platform sign in to other apps by OpenID Connect. Needs `accessTokens.issuer`.',
  }),
  signInPage: Type.String({
    default: '',
    maxLength: 2048,
    description:
      'A page of yours where users sign in and consent, on the same site as the issuer. It gets `interaction` in its query. Empty: pages of the platform.',
  }),
  accessTokenLifetime: Type.Integer({
    default: 60 * minute,
    minimum: minute,
    maximum: day,
    description: 'How long access tokens and ID tokens of apps are valid. Milliseconds.',
  }),
  refreshTokenLifetime: Type.Integer({
    default: 30 * day,
    minimum: minute,
    maximum: 3650 * day,
    description:
      'How long a refresh token of an app may rest. It ends with the session of the user in any case. Milliseconds.',
  }),
  claims: Type.Record(
    Type.String({ pattern: '^[a-z][a-z0-9_]{0,62}$' }),
    Type.String({ minLength: 1, maxLength: 64 }),
    {
      default: {},
      description:
        'Claims of the scope `profile` out of fields that extend `User`, by their names: `{"name": "displayName", "picture": "avatar"}`.',
    },
  ),
});

export type OpenidConfig = Static<typeof openidConfig>;

/** What the platform says of users by itself. */
export const ownClaims = {
  openid: ['sub'],
  profile: ['preferred_username', 'updated_at'],
  email: ['email', 'email_verified'],
  phone: ['phone_number', 'phone_number_verified'],
} as const;

/** Names that mean something in every token. */
const reserved: ReadonlySet<string> = new Set([
  ...Object.values(ownClaims).flat(),
  ...['iss', 'aud', 'exp', 'iat', 'nbf', 'jti', 'sid', 'azp', 'nonce', 'acr', 'amr', 'auth_time'],
  ...['at_hash', 'c_hash', 's_hash', 'act', 'cnf', 'client_id', 'scope'],
]);

/** Rules across keys, with dotted paths. */
export function openidProblems({ enabled, signInPage, claims }: OpenidConfig, issuer: string) {
  return [
    ...(enabled && issuer === ''
      ? [
          {
            path: 'accessTokens.issuer',
            rule: 'required',
            message: 'must be set before openidProvider is enabled',
          },
        ]
      : []),
    ...(signInPage === '' || parseTarget(signInPage)
      ? []
      : [
          {
            path: 'openidProvider.signInPage',
            rule: 'uri',
            message: 'this is not an address that a browser can be sent to',
          },
        ]),
    ...Object.keys(claims)
      .filter((name) => reserved.has(name))
      .map((name) => ({
        path: `openidProvider.claims.${name}`,
        rule: 'name',
        message: 'has a meaning of its own: choose another name',
      })),
  ];
}
