/**
 * Service accounts as an existing panel knows them (admin-panel-calls.md, section 2): the caller's own API tokens,
 * seen through the routes that made and renewed service accounts before API tokens took their place.
 */
import Type from 'typebox';
import { defineOperation, type Operation, standardLimit } from '../../../kernel/operation.ts';
import { coreErrors } from '../errors.ts';
import type { ApiTokens } from '../services/api-tokens.ts';
import { adminOf, idOf, Message, Timestamp } from './shapes.ts';

export const serviceAccountOperations = (tokens: ApiTokens): readonly Operation[] => [
  list(tokens),
  create(tokens),
  renew(tokens),
  remove(tokens),
];

/** Agents have the API tokens themselves. */
const facts = { surface: 'admin', access: 'admin', limit: standardLimit, mcp: false, legacy: true } as const;
const path = '/authentication/services';

const NamedToken = Type.Object({ name: Type.String(), token: Type.String({ description: 'Shown here only' }) });
const IdParam = Type.Object({ id: Type.String() });

const list = (tokens: ApiTokens): Operation =>
  defineOperation({
    ...facts,
    id: 'core.serviceAccounts.list',
    method: 'GET',
    path,
    input: {},
    output: Type.Object({
      services: Type.Array(Type.Object({ _id: Type.String(), name: Type.String(), active: Type.Boolean(), createdAt: Timestamp })),
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

const create = (tokens: ApiTokens): Operation =>
  defineOperation({
    ...facts,
    id: 'core.serviceAccounts.create',
    unscoped: true,
    method: 'POST',
    path,
    idempotency: false,
    answersSecret: true,
    input: { body: Type.Object({ name: Type.String({ minLength: 1, maxLength: 128 }) }) },
    output: NamedToken,
    summary: 'Make an API token for a service account',
    async handler({ caller }, { body }) {
      const { name, token } = await tokens.create(adminOf(caller), body);
      return { name, token };
    },
  });

const renew = (tokens: ApiTokens): Operation =>
  defineOperation({
    ...facts,
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

const remove = (tokens: ApiTokens): Operation =>
  defineOperation({
    ...facts,
    id: 'core.serviceAccounts.delete',
    method: 'DELETE',
    path: `${path}/:id`,
    input: { params: IdParam },
    output: Message,
    errors: [coreErrors.API_TOKEN_NOT_FOUND],
    summary: 'Revoke the API token of a service account',
    async handler({ caller }, { params }) {
      await tokens.revoke(adminOf(caller), idOf('id', params.id), false);
      return { message: 'Service account deleted' };
    },
  });
