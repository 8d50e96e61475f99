/** API tokens. */
import Type from 'typebox';
import type { ModuleDirectory } from '../../../host/kernel.ts';
import { effectScopes } from '../../../kernel/authority.ts';
import { invalid } from '../../../kernel/errors.ts';
import { operationErrors } from '../../../kernel/operations/errors.ts';
import {
  defineOperation,
  type Operation,
  standardLimit,
} from '../../../kernel/operations/operation.ts';
import { coreErrors } from '../errors.ts';
import type { ApiTokenRow } from '../queries/api-tokens.ts';
import type { ApiTokens } from '../services/api-tokens.ts';
import { adminOf, idOf, iso, Message, NullableTimestamp, Timestamp } from './shapes.ts';

/*
 * Service accounts as an existing panel knows them (admin-panel-calls.md, section 2): the caller's own API tokens,
 * seen through the routes that made and renewed service accounts before API tokens took their place.
 */

export const serviceAccountOperations = (tokens: ApiTokens): readonly Operation[] => [
  listServiceAccounts(tokens),
  createServiceAccount(tokens),
  renewServiceAccount(tokens),
  removeServiceAccount(tokens),
];

/** Agents have the API tokens themselves. */
const serviceAccountFacts = {
  surface: 'admin',
  access: 'admin',
  limit: standardLimit,
  mcp: false,
  legacy: true,
} as const;
const path = '/authentication/services';

const NamedToken = Type.Object({
  name: Type.String(),
  token: Type.String({ description: 'Shown here only' }),
});
const IdParam = Type.Object({ id: Type.String() });

const listServiceAccounts = (tokens: ApiTokens): Operation =>
  defineOperation({
    ...serviceAccountFacts,
    id: 'core.serviceAccounts.list',
    method: 'GET',
    path,
    input: {},
    output: Type.Object({
      services: Type.Array(
        Type.Object({
          _id: Type.String(),
          name: Type.String(),
          active: Type.Boolean(),
          createdAt: Timestamp,
        }),
      ),
    }),
    summary: 'List your API tokens as service accounts',
    async handler({ caller }) {
      const rows = await tokens.list(adminOf(caller), false);
      const services = rows.map(({ id, name, expiresAt, createdAt }) => ({
        _id: id,
        name,
        active: expiresAt === null || expiresAt.getTime() > Date.now(),
        createdAt: createdAt.toISOString(),
      }));
      return { services };
    },
  });

const createServiceAccount = (tokens: ApiTokens): Operation =>
  defineOperation({
    ...serviceAccountFacts,
    id: 'core.serviceAccounts.create',
    unscoped: true,
    method: 'POST',
    path,
    idempotency: false,
    answersSecret: true,
    input: {
      body: Type.Object({
        name: Type.String({ minLength: 1, maxLength: 128, description: 'What it is for' }),
      }),
    },
    output: NamedToken,
    summary: 'Make an API token for a service account',
    async handler({ caller }, { body }) {
      const { name, token } = await tokens.create(adminOf(caller), body);
      return { name, token };
    },
  });

const renewServiceAccount = (tokens: ApiTokens): Operation =>
  defineOperation({
    ...serviceAccountFacts,
    id: 'core.serviceAccounts.renew',
    unscoped: true,
    method: 'GET',
    path: `${path}/:id/token`,
    // The method is the panel's; it takes the old token away.
    changes: true,
    answersSecret: true,
    idempotency: false,
    input: { params: IdParam },
    output: NamedToken,
    errors: [coreErrors.API_TOKEN_NOT_FOUND],
    summary: 'Give a service account a new token; the old one ends',
    async handler({ caller }, { params }) {
      const { name, token } = await tokens.renew(adminOf(caller), idOf('id', params.id));
      return { name, token };
    },
  });

const removeServiceAccount = (tokens: ApiTokens): Operation =>
  defineOperation({
    ...serviceAccountFacts,
    id: 'core.serviceAccounts.delete',
    method: 'DELETE',
    path: `${path}/:id`,
    input: { params: IdParam },
    output: Message,
    errors: [coreErrors.API_TOKEN_NOT_FOUND, operationErrors.SCOPE_EXCEEDED],
    summary: 'Revoke the API token of a service account',
    async handler({ caller }, { params }) {
      await tokens.revoke(adminOf(caller), idOf('id', params.id), false);
      return { message: 'Service account deleted' };
    },
  });

export const apiTokenOperations = (
  tokens: ApiTokens,
  modules: ModuleDirectory,
): readonly Operation[] => [create(tokens, modules), list(tokens), revoke(tokens)];

const NullableScopes = Type.Union([Type.Array(Type.String()), Type.Null()], {
  description: 'null: everything',
});

const facts = { surface: 'admin', access: 'admin', limit: standardLimit } as const;
const ofEverybody = Type.Object({
  all: Type.Optional(
    Type.Boolean({ description: 'Tokens of all admins; for the master key only' }),
  ),
});

const Scopes = Type.Array(Type.String({ minLength: 1, maxLength: 64 }), {
  maxItems: 32,
  description:
    '`read`, `write`, and names of modules. Without `read` and `write`: both; without modules: all.',
});

const create = (tokens: ApiTokens, modules: ModuleDirectory): Operation =>
  defineOperation({
    ...facts,
    id: 'core.apiTokens.create',
    unscoped: true,
    method: 'POST',
    path: '/api-tokens',
    idempotency: false,
    answersSecret: true,
    input: {
      body: Type.Object({
        name: Type.String({ minLength: 1, maxLength: 128, description: 'What it is for' }),
        scopes: Type.Optional(Scopes),
        expiresInDays: Type.Optional(
          Type.Integer({ minimum: 1, maximum: 3_650, description: 'Days after which it ends' }),
        ),
      }),
    },
    output: Type.Object({
      id: Type.String(),
      name: Type.String(),
      token: Type.String({ description: 'Shown here only' }),
      scopes: NullableScopes,
      expiresAt: NullableTimestamp,
      createdAt: Timestamp,
    }),
    errors: [operationErrors.SCOPE_EXCEEDED],
    summary: 'Create an API token',
    description:
      'It acts as the admin who makes it, within its scopes. Only a credential without scopes makes tokens; one that is made with a token does not outlive it.',
    async handler({ caller }, { body }) {
      requireKnown(body.scopes ?? [], modules);
      const { expiresAt, createdAt, scopes, ...minted } = await tokens.create(
        adminOf(caller),
        body,
      );
      return {
        ...minted,
        scopes: scopes && [...scopes],
        expiresAt: iso(expiresAt),
        createdAt: createdAt.toISOString(),
      };
    },
  });

/** A scope that nobody knows would silently allow nothing. */
function requireKnown(scopes: readonly string[], modules: ModuleDirectory): void {
  const known = new Set<string>([...effectScopes, ...modules.list().map(({ name }) => name)]);
  const index = scopes.findIndex((scope) => !known.has(scope));
  if (index >= 0)
    throw invalid(`scopes.${index}`, 'enum', `must be one of ${[...known].join(', ')}`);
}

const ApiToken = Type.Object({
  _id: Type.String(),
  name: Type.String(),
  tokenPrefix: Type.String(),
  scopes: NullableScopes,
  expiresAt: NullableTimestamp,
  lastUsedAt: NullableTimestamp,
  createdAt: Timestamp,
  adminId: Type.Optional(
    Type.Union([Type.String(), Type.Null()], {
      description: 'With `all`: whose token; null: of the master key',
    }),
  ),
});

const show = (row: ApiTokenRow, all: boolean) => ({
  _id: row.id,
  name: row.name,
  tokenPrefix: row.tokenPrefix,
  scopes: row.scopes && [...row.scopes],
  expiresAt: iso(row.expiresAt),
  lastUsedAt: iso(row.lastUsedAt),
  createdAt: row.createdAt.toISOString(),
  ...(all ? { adminId: row.adminId } : {}),
});

const list = (tokens: ApiTokens): Operation =>
  defineOperation({
    ...facts,
    id: 'core.apiTokens.list',
    method: 'GET',
    path: '/api-tokens',
    input: { query: ofEverybody },
    output: Type.Object({ tokens: Type.Array(ApiToken) }),
    summary: 'List your API tokens',
    description: 'Newest first, at most 1,000; never the secret.',
    async handler({ caller }, { query: { all = false } }) {
      const rows = await tokens.list(adminOf(caller), all);
      return { tokens: rows.map((row) => show(row, all)) };
    },
  });

const revoke = (tokens: ApiTokens): Operation =>
  defineOperation({
    ...facts,
    id: 'core.apiTokens.revoke',
    method: 'DELETE',
    path: '/api-tokens/:id',
    input: {
      params: Type.Object({ id: Type.String({ description: 'Its id' }) }),
      query: ofEverybody,
    },
    output: Message,
    errors: [coreErrors.API_TOKEN_NOT_FOUND, operationErrors.SCOPE_EXCEEDED],
    summary: 'Revoke an API token',
    description:
      'It opens nothing any more, on any node, when this answers. A token with scopes revokes itself only.',
    async handler({ caller }, { params, query: { all = false } }) {
      await tokens.revoke(adminOf(caller), idOf('id', params.id), all);
      return { message: 'Token revoked successfully' };
    },
  });
