/** Configuration of sign-in at other providers: 13 that are known, and any number that speak OpenID Connect. */
import { createPrivateKey } from 'node:crypto';
import type { Static, TProperties } from 'typebox';
import Type from 'typebox';
import { harmless, sensitive } from '../../../kernel/config/config-definition.ts';
import { address, parseTarget } from '../redirects.ts';
import { ownStrategies } from '../strategies.ts';

/* Configuration of sign-in with an Ethereum wallet. */

const minute = 60_000;

export const walletConfig = Type.Object({
  enabled: Type.Boolean({
    default: false,
    description:
      'Whether users register and sign in by a signature of their Ethereum wallet (EIP-4361).',
  }),
  origin: Type.String({
    default: '',
    maxLength: 300,
    description:
      'Where your app runs, like `https://app.example.com`: wallets warn when the text that they sign names another place. Empty: the origin of `hostUrl` in the router.',
  }),
  chainId: Type.Integer({
    default: 1,
    minimum: 1,
    maximum: Number.MAX_SAFE_INTEGER,
    description: 'The chain that the text names (EIP-155). 1: the main network.',
  }),
  nonceLifetime: Type.Integer({
    default: 5 * minute,
    minimum: minute,
    maximum: 15 * minute,
    description: 'How long a text to sign works. Milliseconds.',
  }),
});

/** What cannot work, with dotted paths. */
export function walletProblems({ metamask }: { readonly metamask: { readonly origin: string } }) {
  const { origin } = metamask;
  if (origin === '') return [];
  const url = URL.canParse(origin) ? new URL(origin) : undefined;
  const isOrigin = url?.origin === origin && /^https?:$/.test(url.protocol);
  return isOrigin
    ? []
    : [
        {
          path: 'metamask.origin',
          rule: 'origin',
          message: 'write an origin alone, in lower case, like https://app.example.com',
        },
      ];
}

const flag = (value: boolean, description: string) => Type.Boolean({ default: value, description });
const text = (description: string) => Type.String({ default: '', maxLength: 512, description });
const list = (description: string) =>
  Type.Array(Type.String({ minLength: 1, maxLength: 200 }), {
    default: [],
    maxItems: 50,
    description,
  });

/** What every provider can be told. */
const common = {
  enabled: flag(
    false,
    'Whether users sign in with this provider. Its routes are there only while they do.',
  ),
  clientId: text('The id that the provider gave to the app.'),
  clientSecret: sensitive({ description: 'The secret that the provider gave to the app.' }),
  redirect_uri: address(
    'Where the browser goes after the sign-in, when the app names no place. Empty: the answer is JSON.',
  ),
  accountLinking: flag(
    true,
    'Whether a sign-in joins an existing account by itself. Only where the provider vouches for the e-mail address; otherwise users link the provider while they are signed in.',
  ),
  scopes: list('What to ask the provider for, in place of what is usual.'),
  trustEmail: flag(
    false,
    'Take every address that this provider names as verified. Only for a provider that lets nobody enter an address that is not theirs.',
  ),
  authorizationUrl: address('Another address for the sign-in page.'),
  tokenUrl: address('Another address for exchanging codes.'),
  userInfoUrl: address('Another address for the profile.'),
} as const;

const openid = {
  ...common,
  issuer: address(
    'Another issuer. Addresses that are not given are then read from its discovery document.',
  ),
  jwksUrl: address('Another address for the keys that sign ID tokens.'),
  audiences: list(
    'Further client ids, such as those of mobile apps, whose ID tokens are accepted.',
  ),
} as const;

/** The 13 providers of the interface, with what only they have. */
const providersConfig = {
  google: Type.Object({ ...openid }),
  github: Type.Object({ ...common }),
  facebook: Type.Object({ ...common }),
  apple: Type.Object({
    ...openid,
    privateKey: sensitive({
      description:
        'The key for "Sign in with Apple" (the text of the .p8 file). The client secret is made from it.',
    }),
    teamId: text('The id of the developer team.'),
    keyId: text('The id of that key.'),
  }),
  microsoft: Type.Object({
    ...openid,
    tenantId: text(
      'The tenant whose users may sign in: an id, or `common`, `organizations`, `consumers`. Empty: `common`.',
    ),
  }),
  twitter: Type.Object({ ...common }),
  linkedin: Type.Object({ ...openid }),
  slack: Type.Object({ ...openid }),
  twitch: Type.Object({ ...openid }),
  gitlab: Type.Object({
    ...common,
    baseUrl: address('The address of your own GitLab. Empty: gitlab.com.'),
  }),
  bitbucket: Type.Object({ ...common }),
  reddit: Type.Object({ ...common }),
  figma: Type.Object({ ...common }),
} as const;

/** Everything may be left out; the defaults above hold. */
const optional = (properties: TProperties) => Type.Partial(Type.Object(properties));

const anyOpenid = optional({
  ...openid,
  issuer: address('The issuer: addresses that are not given are read from its discovery document.'),
  clientAuthentication: Type.Union([Type.Literal('post'), Type.Literal('basic')], {
    default: 'post',
    description: 'How the secret is sent: in the form, or as HTTP Basic.',
  }),
  pkce: flag(true, 'Whether codes are protected by PKCE. Off only for a provider that refuses it.'),
});

const oidcConfig = Type.Record(Type.String({ pattern: '^[a-z][a-z0-9-]{1,31}$' }), anyOpenid, {
  default: {},
  description:
    'Further providers that speak OpenID Connect, by a name of your choice: `/authentication/init/<name>`.',
});

const externalSignInConfig = Type.Object({
  allowInternalAddresses: flag(
    false,
    'Whether providers may be in the private network or on this machine, and be reached without TLS.',
  ),
  startPage: Type.Union([Type.Literal('auto'), Type.Literal('always')], {
    default: 'auto',
    description:
      'Whether the address that starts a sign-in leads over a page of ours, which gives the browser its cookie. `auto`: unless a page of this origin asks, since the browser of any other would drop the cookie, and that of an app never gets it.',
  }),
  errors: Type.Union([Type.Literal('answer'), Type.Literal('redirect')], {
    ...harmless,
    default: 'answer',
    description:
      'What a browser gets when a sign-in is refused: the error itself, or the app with `error` in the query.',
  }),
});

type ProviderName = keyof typeof providersConfig;
export const providerNames = Object.keys(providersConfig) as readonly ProviderName[];

export const externalConfig = {
  ...providersConfig,
  oidc: oidcConfig,
  externalSignIn: externalSignInConfig,
} as const;

const whole = Type.Object(externalConfig);
type ExternalConfig = Static<typeof whole>;

interface ConfigProblem {
  readonly path: string;
  readonly rule: string;
  readonly message: string;
}

/** Rules across keys, with dotted paths: what is switched on must be able to work. */
export function externalProblems(config: ExternalConfig): ConfigProblem[] {
  const allowHttp = config.externalSignIn.allowInternalAddresses;
  return [
    ...providerNames.flatMap((name) => providerProblems(name, config[name], allowHttp)),
    ...Object.entries(config.oidc).flatMap(([name, settings]) => [
      ...nameProblems(name),
      ...providerProblems(`oidc.${name}`, settings, allowHttp),
      ...(settings.enabled && !settings.issuer ? [missing(`oidc.${name}`, 'issuer')] : []),
    ]),
  ];
}

/** Words that stand in the place of a provider's name in other addresses. */
const words = ['verify-email', 'verify-change-email', 'undo-change-email', 'magic-link'] as const;
/** Linked accounts and sign-ins are known by the name of their provider: what has a meaning already cannot be one. */
const takenNames: readonly string[] = [...providerNames, ...ownStrategies, ...words];

/** A name that goes into addresses and that is free. */
function nameProblems(name: string): ConfigProblem[] {
  const valid = /^[a-z][a-z0-9-]{1,31}$/.test(name) && !takenNames.includes(name);
  const rule =
    'use 2 to 32 of the characters a-z, 0-9 and dash, and no name of a provider or way to sign in that there is already';
  // Stored by an earlier version, it stands in the way of every other change.
  const message = `${rule}; one that is stored already goes with {"config": {"oidc": {${JSON.stringify(name)}: null}}}`;
  return valid ? [] : [{ path: `oidc.${name}`, rule: 'name', message }];
}

const serverAddresses = [
  'issuer',
  'authorizationUrl',
  'tokenUrl',
  'userInfoUrl',
  'jwksUrl',
  'baseUrl',
] as const;

function providerProblems(
  path: string,
  settings: Readonly<Record<string, unknown>>,
  allowHttp: boolean,
): ConfigProblem[] {
  const given = (key: string): string => (typeof settings[key] === 'string' ? settings[key] : '');
  const addresses = serverAddresses
    .filter((key) => given(key) !== '' && !isServerAddress(given(key), allowHttp))
    .map((key) => ({
      path: `${path}.${key}`,
      rule: 'uri',
      message: `must be an ${allowHttp ? 'http(s)' : 'https'} address`,
    }));
  const target = given('redirect_uri');
  const redirect =
    target === '' || parseTarget(target)
      ? []
      : [
          {
            path: `${path}.redirect_uri`,
            rule: 'uri',
            message: 'this is not an address that a browser can be sent to',
          },
        ];
  const needed =
    settings.enabled === true
      ? ['clientId', ...secretsOf(path)].filter((key) => given(key) === '')
      : [];
  const key = isSigningKey(given('privateKey'))
    ? []
    : [
        {
          path: `${path}.privateKey`,
          rule: 'key',
          message: 'this is not the text of a .p8 file (a P-256 key in PEM)',
        },
      ];
  return [...addresses, ...redirect, ...needed.map((name) => missing(path, name)), ...key];
}

/** Keys that come through the environment or a form often have their line ends written out. */
export const withLineEnds = (pem: string): string => pem.replaceAll('\\n', '\n');

/** Nothing, or a key that can make Apple's client secrets. */
function isSigningKey(pem: string): boolean {
  if (pem === '') return true;
  try {
    return createPrivateKey(withLineEnds(pem)).asymmetricKeyDetails?.namedCurve === 'prime256v1';
  } catch {
    return false;
  }
}

/** A generic provider may know the app as a public client, which has no secret but PKCE. */
function secretsOf(path: string): readonly string[] {
  if (path === 'apple') return ['privateKey', 'teamId', 'keyId'];
  return path.startsWith('oidc.') ? [] : ['clientSecret'];
}

const missing = (path: string, key: string): ConfigProblem => ({
  path: `${path}.${key}`,
  rule: 'required',
  message: 'must be set before the provider is enabled',
});

/** `{tenantid}` stands for the tenant in issuers of Microsoft. */
function isServerAddress(text: string, allowHttp: boolean): boolean {
  const url = parseTarget(text.replace('{tenantid}', 'common'));
  return (
    url !== undefined && (url.protocol === 'https:' || (allowHttp && url.protocol === 'http:'))
  );
}
