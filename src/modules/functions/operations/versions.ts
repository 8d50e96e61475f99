/** Versions and secrets of functions. */
import Type from 'typebox';
import { defineOperation, type Operation } from '../../../kernel/operations/operation.ts';
import { functionErrors } from '../errors.ts';
import type { Functions } from '../services/functions.ts';
import { adminFacts, FunctionParams, IdParam } from './shapes.ts';

export const versionOperations = (functions: Functions): readonly Operation[] => [
  versions(functions),
  rollback(functions),
  secretList(functions),
  secretGet(functions),
  secretPut(functions),
  secretDelete(functions),
];

const Time = Type.String({ format: 'date-time' });

const versions = (functions: Functions): Operation =>
  defineOperation({
    ...adminFacts,
    id: 'functions.versions.list',
    method: 'GET',
    path: '/functions/:id/versions',
    input: { params: FunctionParams },
    output: Type.Object({
      versions: Type.Array(
        Type.Object({
          version: Type.Integer(),
          current: Type.Boolean(),
          createdAt: Time,
          createdBy: Type.String(),
          bytes: Type.Integer(),
        }),
      ),
      count: Type.Integer(),
    }),
    errors: [functionErrors.FUNCTION_NOT_FOUND],
    summary: 'List versions of a function',
    description: 'The newest 50 are kept.',
    async handler(_context, { params }) {
      const current = functions.get(params.id).version;
      const rows = await functions.versions(params.id);
      const list = rows.map((row) => ({
        ...row,
        current: row.version === current,
        createdAt: row.createdAt.toISOString(),
      }));
      return { versions: list, count: list.length };
    },
  });

const rollback = (functions: Functions): Operation =>
  defineOperation({
    ...adminFacts,
    id: 'functions.versions.rollback',
    method: 'POST',
    path: '/functions/:id/rollback',
    input: {
      params: FunctionParams,
      body: Type.Object({
        version: Type.Integer({
          minimum: 1,
          maximum: 1_000_000_000,
          description: 'The version to go back to',
        }),
      }),
    },
    output: Type.Object({ updated: Type.Literal(true), version: Type.Integer() }),
    errors: [
      functionErrors.FUNCTION_NOT_FOUND,
      functionErrors.FUNCTION_VERSION_NOT_FOUND,
      functionErrors.FUNCTION_INVALID,
      functionErrors.FUNCTION_CODE_INVALID,
    ],
    summary: 'Take a function back to an earlier version',
    description: 'That becomes a new version, so that nothing is lost.',
    async handler({ caller }, { params, body }) {
      const { version } = await functions.rollback(caller, params.id, body.version);
      return { updated: true as const, version };
    },
  });

const SecretParams = Type.Object({
  id: IdParam,
  key: Type.String({ pattern: '^[A-Za-z_][A-Za-z0-9_]{0,63}$', description: 'Name of the secret' }),
});

const Secret = Type.Object({ key: Type.String(), updatedAt: Time });

const secretList = (functions: Functions): Operation =>
  defineOperation({
    ...adminFacts,
    id: 'functions.secrets.list',
    method: 'GET',
    path: '/functions/:id/secrets',
    input: { params: FunctionParams },
    output: Type.Object({ secrets: Type.Array(Secret) }),
    errors: [functionErrors.FUNCTION_NOT_FOUND],
    summary: 'List the names of secrets of a function',
    async handler(_context, { params }) {
      const rows = await functions.secrets.keys(params.id);
      return {
        secrets: rows.map(({ key, updatedAt }) => ({ key, updatedAt: updatedAt.toISOString() })),
      };
    },
  });

const secretGet = (functions: Functions): Operation =>
  defineOperation({
    ...adminFacts,
    id: 'functions.secrets.get',
    method: 'GET',
    path: '/functions/:id/secrets/:key',
    input: { params: SecretParams },
    output: Secret,
    errors: [functionErrors.FUNCTION_NOT_FOUND, functionErrors.FUNCTION_SECRET_NOT_FOUND],
    summary: 'See when a secret of a function was last written',
    description: 'Never its value: that is for the code of the function alone.',
    async handler(_context, { params }) {
      const rows = await functions.secrets.keys(params.id);
      const found = rows.find(({ key }) => key === params.key);
      if (!found) throw functionErrors.FUNCTION_SECRET_NOT_FOUND();
      return { key: found.key, updatedAt: found.updatedAt.toISOString() };
    },
  });

const secretPut = (functions: Functions): Operation =>
  defineOperation({
    ...adminFacts,
    id: 'functions.secrets.put',
    method: 'PUT',
    path: '/functions/:id/secrets/:key',
    idempotency: false,
    input: {
      params: SecretParams,
      body: Type.Object({
        value: Type.String({ minLength: 1, maxLength: 16_384, description: 'Never shown again' }),
      }),
    },
    output: Type.Object({ updated: Type.Literal(true) }),
    errors: [functionErrors.FUNCTION_NOT_FOUND],
    summary: 'Keep a secret for a function',
    auditChanges: ({ params }) => ({ key: params.key }),
    async handler({ caller }, { params, body }) {
      await functions.secrets.put(caller, params.id, params.key, body.value);
      return { updated: true as const };
    },
  });

const secretDelete = (functions: Functions): Operation =>
  defineOperation({
    ...adminFacts,
    id: 'functions.secrets.delete',
    method: 'DELETE',
    path: '/functions/:id/secrets/:key',
    input: { params: SecretParams },
    output: Type.Object({ result: Type.Literal('Deleted') }),
    errors: [functionErrors.FUNCTION_NOT_FOUND, functionErrors.FUNCTION_SECRET_NOT_FOUND],
    summary: 'Forget a secret of a function',
    async handler({ caller }, { params }) {
      await functions.secrets.remove(caller, params.id, params.key);
      return { result: 'Deleted' as const };
    },
  });
