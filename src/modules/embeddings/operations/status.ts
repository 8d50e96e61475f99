/** What operators look at: what is possible, and how far everything is. */
import Type from 'typebox';
import { schemaErrors } from '../../../data/schema/errors.ts';
import { defineOperation, type Operation } from '../../../kernel/operations/operation.ts';
import { failedRecords } from '../queries/pending.ts';
import type { EmbeddingParts } from '../services/embedding-parts.ts';
import type { IndexParts } from '../services/search-request.ts';
import { capabilitiesOf, statusOf } from '../services/status.ts';
import { adminFacts, Paging, SchemaName } from './shapes.ts';

export const statusOperations = (parts: IndexParts): readonly Operation[] => [
  capabilities(parts),
  status(parts),
  failures(parts),
];

const Capabilities = Type.Object({
  supported: Type.Boolean(),
  storage: Type.Boolean(),
  indexing: Type.Boolean(),
  search: Type.Boolean(),
  provider: Type.String(),
  reason: Type.Optional(Type.String()),
});
const Warnings = Type.Array(Type.String());
const whole = Type.Integer({ minimum: 0 });

const Queue = Type.Object({
  waiting: whole,
  active: whole,
  completed: whole,
  failed: whole,
  delayed: whole,
  paused: whole,
});

const Generation = Type.Object({
  id: Type.String(),
  model: Type.String(),
  records: Type.Integer({ description: 'Records that were looked at' }),
  passages: Type.Integer({ description: 'Passages that have a vector' }),
  waiting: whole,
  failed: whole,
  lagSeconds: Type.Number({ description: 'Age of the oldest change that waits' }),
  index: Type.Object(
    {
      kind: Type.Enum(['memory', 'usearch', 'pgvector'], {
        description: 'memory: every vector is looked at; the others are indexes',
      }),
      state: Type.Enum(['idle', 'loading', 'building', 'ready'], {
        description: 'idle: this node has not been asked for a while, and holds nothing',
      }),
      passages: whole,
      indexed: Type.Integer({ description: 'Passages that the index finds by now' }),
      megabytes: Type.Integer({ description: 'Memory of this node, or size in the database' }),
      recall: Type.Optional(
        Type.Number({ description: 'Of the ten nearest, how many the index finds: 0 to 1' }),
      ),
      reason: Type.Optional(Type.String()),
    },
    { description: 'How the node that answers searches it' },
  ),
});

const capabilities = ({ schemas }: EmbeddingParts): Operation =>
  defineOperation({
    ...adminFacts,
    id: 'embeddings.capabilities',
    about: { schemaName: 'open' },
    method: 'GET',
    path: '/embeddings/capabilities',
    input: { query: Type.Object({ schemaName: SchemaName }) },
    output: Type.Object({ capabilities: Capabilities, warnings: Warnings }),
    errors: [schemaErrors.SCHEMA_NOT_FOUND],
    summary: 'Say whether texts of a schema can be searched',
    handler(_, { query: { schemaName } }) {
      const schema = schemas.get(schemaName);
      if (!schema) throw schemaErrors.SCHEMA_NOT_FOUND();
      return { capabilities: { ...capabilitiesOf(schema) }, warnings: [] };
    },
  });

const status = (parts: IndexParts): Operation =>
  defineOperation({
    ...adminFacts,
    id: 'embeddings.status',
    about: { schemaName: 'open' },
    method: 'GET',
    path: '/embeddings/status',
    input: { query: Type.Object({ schemaName: Type.Optional(SchemaName) }) },
    output: Type.Object({
      enabled: Type.Boolean(),
      ready: Type.Boolean({ description: 'Something can be searched' }),
      capabilities: Capabilities,
      generationQueue: Queue,
      backfillQueue: Queue,
      configs: Type.Array(
        Type.Object({
          configId: Type.String(),
          schemaName: Type.String(),
          targetField: Type.String(),
          enabled: Type.Boolean(),
          current: Generation,
          next: Type.Union([Generation, Type.Null()]),
        }),
      ),
      usage: Type.Array(
        Type.Object({
          day: Type.String(),
          provider: Type.String(),
          requests: Type.Integer(),
          texts: Type.Integer(),
          tokens: Type.Integer(),
        }),
        { description: 'What providers over HTTP were sent, by day' },
      ),
      warnings: Warnings,
    }),
    summary: 'Say how far embeddings are',
    handler: (_, { query: { schemaName } }) => statusOf(parts, schemaName),
  });

const failures = ({ database }: EmbeddingParts): Operation =>
  defineOperation({
    ...adminFacts,
    id: 'embeddings.failures',
    about: { schemaName: 'open' },
    method: 'GET',
    path: '/embeddings/failures',
    input: { query: Type.Object({ schemaName: Type.Optional(SchemaName), ...Paging }) },
    output: Type.Object({
      failures: Type.Array(
        Type.Object({
          schemaName: Type.String(),
          configId: Type.String(),
          recordId: Type.String(),
          attempts: whole,
          reason: Type.String(),
          permanent: Type.Boolean({
            description: 'It waits until its text changes; others are tried again by themselves',
          }),
          failedAt: Type.String({ format: 'date-time' }),
        }),
      ),
      count: whole,
    }),
    summary: 'List records that were given up, the last ones first',
    description: 'A backfill of their schema tries them again at once.',
    async handler(_, { query }) {
      const { rows, count } = await failedRecords(database, query);
      const failed = rows.map((row) => ({ ...row, failedAt: row.failedAt.toISOString() }));
      return { failures: failed, count };
    },
  });
