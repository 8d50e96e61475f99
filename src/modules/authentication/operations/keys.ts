/** The public keys with which third parties check access tokens. */
import Type from 'typebox';
import { defineOperation, type Operation, Reply, standardLimit } from '../../../kernel/operation.ts';
import type { SigningKeys } from '../services/signing-keys.ts';

export const keyOperations = (keys: SigningKeys): readonly Operation[] => [
  defineOperation({
    id: 'authentication.keys.list',
    surface: 'client',
    method: 'GET',
    path: '/.well-known/jwks.json',
    access: 'public',
    limit: standardLimit,
    graphql: false,
    anyApp: true,
    input: {},
    output: Type.Object({
      keys: Type.Array(
        Type.Object({
          kty: Type.Literal('OKP'),
          crv: Type.Literal('Ed25519'),
          x: Type.String(),
          kid: Type.String(),
          alg: Type.Literal('EdDSA'),
          use: Type.Literal('sig'),
        }),
      ),
    }),
    summary: 'Public keys of access tokens',
    description: 'A JSON Web Key Set. A valid signature says who signed in; only this platform knows whether the session still lives.',
    handler: () => Reply.json(JSON.stringify({ keys: keys.jwks() }), { 'cache-control': 'public, max-age=300' }),
  }),
];
