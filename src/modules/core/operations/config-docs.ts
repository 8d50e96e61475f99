/** What every configuration key means, from the definitions themselves. */
import Type, { type Static } from 'typebox';
import type { ConfigService } from '../../../kernel/config/config-service.ts';
import { configKeys } from '../../../kernel/config/keys.ts';
import { errors } from '../../../kernel/errors.ts';
import {
  defineOperation,
  type Operation,
  standardLimit,
} from '../../../kernel/operations/operation.ts';

export const configDocsOperations = (config: ConfigService): readonly Operation[] => [
  docsOfAll(config),
  docsOfOne(config),
];

const facts = { surface: 'admin', method: 'GET', access: 'admin', limit: standardLimit } as const;

const Key = Type.Object({
  key: Type.String({ description: 'Dotted; `<name>` stands for a name of your choice' }),
  type: Type.String(),
  choices: Type.Optional(
    Type.Array(Type.Unknown(), { description: 'The only values that are taken' }),
  ),
  default: Type.Optional(Type.Unknown()),
  description: Type.String(),
  minimum: Type.Optional(Type.Number()),
  maximum: Type.Optional(Type.Number()),
  sensitive: Type.Optional(
    Type.Boolean({ description: 'Encrypted at rest and masked in answers' }),
  ),
  class: Type.Enum(['guarded', 'harmless'], {
    description: '`guarded`: only super admins may change it; `harmless`: every admin',
  }),
  superAdminOnly: Type.Boolean({ description: 'The class is `guarded`' }),
});
const Keys = Type.Array(Key);

const docsOf = (config: ConfigService, module: string): Static<typeof Keys> => {
  const definition = config.definition(module);
  if (!definition) throw errors.NOT_FOUND({ message: 'There is no module of this name' });
  return configKeys(definition).map(({ choices, ...key }) => ({
    ...key,
    superAdminOnly: key.class === 'guarded',
    ...(choices && { choices: [...choices] }),
  }));
};

const docsOfAll = (config: ConfigService): Operation =>
  defineOperation({
    ...facts,
    id: 'core.config.docsAll',
    path: '/config/docs',
    input: {},
    output: Type.Object({ modules: Type.Record(Type.String(), Keys) }),
    summary: 'Explain every configuration key of all modules',
    handler: () => ({
      modules: Object.fromEntries(
        config.modules().map((module) => [module, docsOf(config, module)]),
      ),
    }),
  });

const docsOfOne = (config: ConfigService): Operation =>
  defineOperation({
    ...facts,
    id: 'core.config.docs',
    path: '/config/:module/docs',
    perModule: 'name',
    about: { module: 'config' },
    input: {
      params: Type.Object({
        module: Type.String({ maxLength: 64, description: 'Name of the module' }),
      }),
    },
    output: Type.Object({ module: Type.String(), keys: Keys }),
    errors: [errors.NOT_FOUND],
    summary: 'Explain every configuration key of a module',
    description:
      'Its meaning, type, default and limits; the same as in docs/reference/configuration.md.',
    handler: (_context, { params: { module } }) => ({ module, keys: docsOf(config, module) }),
  });
