/** What others need to check tokens of this installation: its keys, and the document that leads to them. */
import Type from 'typebox';
import {
  defineOperation,
  type Operation,
  Reply,
  standardLimit,
} from '../../../kernel/operations/operation.ts';
import type { OperationContext } from '../../../kernel/operations/operation-input.ts';
import type { SigningKeys } from '../services/tokens/signing-keys.ts';

/** Seconds for which others may keep keys and document. */
const kept = { 'cache-control': 'public, max-age=300' } as const;

const common = {
  surface: 'client',
  method: 'GET',
  access: 'public',
  limit: standardLimit,
  graphql: false,
  anyApp: true,
  input: {},
} as const;

const Algorithm = Type.Union([Type.Literal('EdDSA'), Type.Literal('ES256'), Type.Literal('RS256')]);

const PublicKey = Type.Object({
  kty: Type.Union([Type.Literal('OKP'), Type.Literal('EC'), Type.Literal('RSA')]),
  crv: Type.Optional(
    Type.Union([Type.Literal('Ed25519'), Type.Literal('P-256')], {
      description: 'The curve; not of RSA keys.',
    }),
  ),
  x: Type.Optional(Type.String()),
  y: Type.Optional(Type.String()),
  n: Type.Optional(Type.String({ description: 'The modulus of an RSA key.' })),
  e: Type.Optional(Type.String({ description: 'The exponent of an RSA key.' })),
  kid: Type.String({ description: 'The thumbprint of the key (RFC 7638).' }),
  alg: Algorithm,
  use: Type.Literal('sig'),
});

export const keyOperations = (keys: SigningKeys): readonly Operation[] => [
  defineOperation({
    ...common,
    id: 'authentication.keys.list',
    path: '/.well-known/jwks.json',
    output: Type.Object({ keys: Type.Array(PublicKey) }),
    summary: 'Public keys of access tokens',
    description:
      'A JSON Web Key Set: the key that signs, those before it while their tokens last, and ten minutes ahead the one that signs next. A valid signature says who signed in; only this platform knows whether the session still lives.',
    handler: () => Reply.json(JSON.stringify({ keys: keys.jwks() }), kept),
  }),
];

const strings = (description: string) => Type.Array(Type.String(), { description });

/** Exists only while there is an issuer address, which the document has to name. */
export const discoveryOperation = (
  issuer: string,
  whole?: (context: OperationContext) => Promise<Reply>,
): Operation =>
  defineOperation({
    ...common,
    id: 'authentication.keys.discovery',
    path: '/.well-known/openid-configuration',
    aliases: [{ method: 'GET', path: '/.well-known/oauth-authorization-server' }],
    output: Type.Object(
      {
        issuer: Type.String({ description: 'What tokens say under `iss`.' }),
        jwks_uri: Type.String({ description: 'Where the keys are.' }),
        response_types_supported: strings(
          'Empty while the platform is no provider of OpenID Connect.',
        ),
        subject_types_supported: strings('Always `public`: `sub` is the id of the user.'),
        id_token_signing_alg_values_supported: strings('How tokens may be signed.'),
      },
      { additionalProperties: true },
    ),
    summary: 'Where the keys of tokens are',
    description:
      'The document that gateways and libraries read to check access tokens (OpenID Connect Discovery, RFC 8414), and apps to let users sign in, while the platform is a provider.',
    handler: (context) =>
      whole?.(context) ??
      Reply.json(
        JSON.stringify({
          issuer,
          jwks_uri: `${issuer}/.well-known/jwks.json`,
          response_types_supported: [],
          subject_types_supported: ['public'],
          id_token_signing_alg_values_supported: ['EdDSA', 'ES256', 'RS256'],
        }),
        kept,
      ),
  });
