/** Operations on configurations: what of which schema is searched. */
import Type from 'typebox';
import { schemaErrors } from '../../../data/schema/errors.ts';
import { defineOperation, type Operation } from '../../../kernel/operations/operation.ts';
import { embeddingErrors } from '../errors.ts';
import type { Configs } from '../services/configs.ts';
import type { ConfigInput } from '../services/recipe.ts';
import {
  adminFacts,
  ConfigDocument,
  configDocument,
  Id,
  languages,
  Provider,
  SchemaName,
  similarities,
  TargetField,
} from './shapes.ts';

export const configOperations = (configs: Configs): readonly Operation[] => [
  list(configs),
  save(configs),
  get(configs),
  remove(configs),
];

const list = (configs: Configs): Operation =>
  defineOperation({
    ...adminFacts,
    id: 'embeddings.configs.list',
    about: { schemaName: 'open' },
    method: 'GET',
    path: '/embeddings/configs',
    input: { query: Type.Object({ schemaName: Type.Optional(SchemaName) }) },
    output: Type.Object({ configs: Type.Array(ConfigDocument) }),
    summary: 'List what is searched in schemas',
    handler: async (_, { query: { schemaName } }) => ({
      configs: (await configs.list(schemaName)).map(configDocument),
    }),
  });

const FieldOptions = Type.Record(
  Type.String({ minLength: 1, maxLength: 200 }),
  Type.Object({
    weight: Type.Optional(
      Type.Number({
        minimum: 0.01,
        maximum: 100,
        description: 'How much its words count beside those of other fields; 1 unless set',
      }),
    ),
    language: Type.Optional(Type.Enum([...languages])),
  }),
  {
    maxProperties: 32,
    description: 'Source fields with a weight or language of their own',
  },
);

export const ConfigShape = Type.Object({
  schemaName: SchemaName,
  sourceFields: Type.Array(Type.String({ minLength: 1, maxLength: 200 }), {
    minItems: 1,
    maxItems: 32,
    description:
      'Texts that are searched, in this order; dots lead into nested fields. Of the schema File, `content` is what stands in the files',
  }),
  targetField: { ...TargetField, description: 'A name for it; no field of the schema' },
  provider: Type.Optional(Provider),
  model: Type.Optional(
    Type.String({ minLength: 1, maxLength: 200, description: 'Name of the model at the provider' }),
  ),
  dimensions: Type.Optional(
    Type.Integer({ minimum: 1, maximum: 4_096, description: 'Numbers of a vector' }),
  ),
  similarity: Type.Optional(Type.Enum(similarities, { description: 'cosine unless set' })),
  language: Type.Optional(
    Type.Enum([...languages], {
      description: 'How words are searched: with the forms of a language; simple unless set',
    }),
  ),
  fieldOptions: Type.Optional(FieldOptions),
  sourceFieldAllowlist: Type.Optional(
    Type.Array(Type.String({ minLength: 1, maxLength: 200 }), {
      maxItems: 32,
      description: 'Sources that are taken although they sound like secrets',
    }),
  ),
  enabled: Type.Optional(Type.Boolean({ description: 'Whether new texts are taken in' })),
  backfill: Type.Optional(
    Type.Enum(['auto', 'none'], {
      description:
        'auto, unless set: what is there already is embedded too. A provider over HTTP is not asked for more than 10,000 records without a backfill that says so',
    }),
  ),
});

const save = (configs: Configs): Operation =>
  defineOperation({
    ...adminFacts,
    id: 'embeddings.configs.save',
    about: { schemaName: 'schema' },
    method: 'POST',
    path: '/embeddings/configs',
    input: {
      body: ConfigShape,
    },
    output: Type.Object({ config: ConfigDocument, warnings: Type.Array(Type.String()) }),
    errors: [
      schemaErrors.SCHEMA_NOT_FOUND,
      embeddingErrors.SCHEMA_NOT_EXTENDABLE,
      embeddingErrors.CONFIG_EXISTS,
    ],
    summary: 'Make texts of a schema searchable, or change how',
    description:
      'The same schema and target again is a change. Another model, or other fields, are made ready beside what is there: searches use the old vectors until the new ones are complete.',
    async handler({ caller }, { body }) {
      const { config, warnings } = await configs.save(caller, body as ConfigInput);
      return { config: configDocument(config), warnings: [...warnings] };
    },
  });

const get = (configs: Configs): Operation =>
  defineOperation({
    ...adminFacts,
    id: 'embeddings.configs.get',
    method: 'GET',
    path: '/embeddings/configs/:id',
    input: { params: Id },
    output: Type.Object({ config: ConfigDocument }),
    errors: [embeddingErrors.CONFIG_NOT_FOUND],
    summary: 'Read one of them',
    handler: async (_, { params: { id } }) => ({ config: configDocument(await configs.find(id)) }),
  });

const remove = (configs: Configs): Operation =>
  defineOperation({
    ...adminFacts,
    id: 'embeddings.configs.delete',
    method: 'DELETE',
    path: '/embeddings/configs/:id',
    input: {
      params: Id,
      query: Type.Object({
        purge: Type.Optional(
          Type.Boolean({ description: 'Its vectors and words are removed now, by a job' }),
        ),
      }),
    },
    output: Type.Object({ config: ConfigDocument }),
    errors: [embeddingErrors.CONFIG_NOT_FOUND],
    summary: 'Search these texts no longer',
    description:
      'Its vectors and words are removed in the background within some minutes, or at once with `purge`. The records stay as they are.',
    handler: async ({ caller }, { params: { id }, query: { purge = false } }) => ({
      config: configDocument(await configs.remove(caller, id, purge)),
    }),
  });
