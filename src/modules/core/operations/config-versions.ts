/** The earlier versions of a configuration, and the way back to them. */
import Type from 'typebox';
import type { ConfigService } from '../../../kernel/config/config-service.ts';
import { errors } from '../../../kernel/errors.ts';
import { defineOperation, type Operation } from '../../../kernel/operations/operation.ts';
import { Changed, changed, facts, ModuleParam, noted, write } from './config.ts';
import { Timestamp } from './shapes.ts';

export const configVersionOperations = (config: ConfigService): readonly Operation[] => [
  history(config),
  rollback(config),
];

const Version = Type.Integer({
  minimum: 1,
  maximum: 2_147_483_647,
  description: 'The version to go back to',
});

const history = (config: ConfigService): Operation =>
  defineOperation({
    ...facts,
    id: 'core.config.history',
    method: 'GET',
    path: '/config/:module/history',
    perModule: 'name',
    about: { module: 'config' },
    input: { params: ModuleParam },
    output: Type.Object({
      versions: Type.Array(
        Type.Object({ version: Type.Integer(), updatedAt: Timestamp, updatedBy: Type.String() }),
      ),
    }),
    errors: [errors.NOT_FOUND],
    summary: 'List the versions of a configuration',
    description: 'The last 20, newest first.',
    handler: async ({ caller }, { params }) => ({
      versions: [...(await config.history(caller, params.module))],
    }),
  });

const rollback = (config: ConfigService): Operation =>
  defineOperation({
    ...write,
    id: 'core.config.rollback',
    method: 'POST',
    path: '/config/:module/rollback',
    destructive: true,
    perModule: 'name',
    about: { module: 'config' },
    input: {
      params: ModuleParam,
      body: Type.Object({ version: Version }),
    },
    output: Changed,
    errors: [errors.NOT_FOUND, errors.CONFLICT],
    summary: 'Go back to an earlier version of a configuration',
    description: 'Stores that version again, as the newest one.',
    handler: async (context, { params, body }) =>
      changed(await config.rollback(context.caller, params.module, body.version, noted(context))),
  });
