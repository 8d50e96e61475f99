/** Vectors: what can be done with them here, and the exact search (spec/database.md 2.2, 5.15). */
import Type from 'typebox';
import { parseFilter } from '../../../data/conditions/parse.ts';
import { recordErrors } from '../../../data/records/errors.ts';
import type { RecordStore } from '../../../data/records/store.ts';
import { schemaErrors } from '../../../data/schema/errors.ts';
import type { SchemaRegistry } from '../../../data/schema/registry/registry.ts';
import {
  defineOperation,
  type Operation,
  Reply,
  standardLimit,
} from '../../../kernel/operations/operation.ts';
import { maxReferenceLength } from '../../../kernel/permissions.ts';
import { databaseErrors } from '../errors.ts';
import type { SchemaAdmin } from '../services/schema-admin.ts';

export const vectorOperations = (
  admin: SchemaAdmin,
  records: RecordStore,
  schemas: SchemaRegistry,
): readonly Operation[] => [
  capabilities(schemas),
  listIndexes(admin),
  createIndex(admin),
  removeIndex(admin),
  search(records, schemas),
];

const { SCHEMA_NOT_FOUND } = schemaErrors;
const { VECTOR_UNSUPPORTED, VECTOR_INDEX_NOT_FOUND } = databaseErrors;
const facts = { surface: 'admin', access: 'admin', limit: standardLimit } as const;
const params = Type.Object({ id: Type.String({ maxLength: 64, description: 'Its id' }) });

const capabilities = (schemas: SchemaRegistry): Operation =>
  defineOperation({
    ...facts,
    id: 'database.vector.capabilities',
    about: { schemaName: 'open' },
    method: 'GET',
    path: '/database/vector/capabilities',
    input: {
      query: Type.Object({
        schemaName: Type.Optional(
          Type.String({ maxLength: 64, description: 'Name of the schema' }),
        ),
      }),
    },
    output: Type.Object({
      supported: Type.Boolean(),
      storage: Type.Boolean({ description: 'Fields of type Vector are kept' }),
      indexing: Type.Boolean({ description: 'Vector indexes can be made' }),
      search: Type.Boolean(),
      provider: Type.String(),
      reason: Type.Optional(Type.String({ description: 'Why something is not possible' })),
    }),
    errors: [SCHEMA_NOT_FOUND],
    summary: 'Say what can be done with vectors',
    handler(_, { query: { schemaName } }) {
      if (schemaName !== undefined && !schemas.get(schemaName)) throw SCHEMA_NOT_FOUND();
      return {
        supported: true,
        storage: true,
        indexing: false,
        search: true,
        provider: 'exact',
        reason: VECTOR_UNSUPPORTED.message,
      };
    },
  });

const vectorIndex = Type.Object(
  {
    name: Type.Optional(Type.String({ maxLength: 63 })),
    field: Type.String({ maxLength: 64 }),
    method: Type.Optional(Type.String({ maxLength: 32 })),
    similarity: Type.Optional(Type.Enum(['cosine', 'euclidean', 'dotProduct'])),
    filterFields: Type.Optional(Type.Array(Type.String({ maxLength: 64 }), { maxItems: 32 })),
    options: Type.Optional(Type.Record(Type.String(), Type.Unknown())),
  },
  { description: 'Field, and how the index is made' },
);

const listIndexes = (admin: SchemaAdmin): Operation =>
  defineOperation({
    ...facts,
    id: 'database.vectorIndexes.list',
    method: 'GET',
    path: '/database/schemas/:id/vector-indexes',
    input: { params },
    output: Type.Object({ indexes: Type.Array(vectorIndex) }),
    errors: [SCHEMA_NOT_FOUND],
    summary: 'List the vector indexes of a schema',
    description: 'There are none: searches are exact. See `GET /database/vector/capabilities`.',
    handler(_, { params: { id } }) {
      admin.get(id);
      return { indexes: [] };
    },
  });

const createIndex = (admin: SchemaAdmin): Operation =>
  defineOperation({
    ...facts,
    id: 'database.vectorIndexes.create',
    method: 'POST',
    path: '/database/schemas/:id/vector-indexes',
    input: { params, body: Type.Object({ index: vectorIndex }) },
    output: Type.Object({ index: vectorIndex }),
    errors: [SCHEMA_NOT_FOUND, VECTOR_UNSUPPORTED],
    summary: 'Make a vector index',
    description: 'Answers 412: searches are exact and need no index.',
    handler(_, { params: { id } }) {
      admin.get(id);
      throw VECTOR_UNSUPPORTED();
    },
  });

const removeIndex = (admin: SchemaAdmin): Operation =>
  defineOperation({
    ...facts,
    id: 'database.vectorIndexes.delete',
    method: 'DELETE',
    path: '/database/schemas/:id/vector-indexes/:indexName',
    input: {
      params: Type.Object({
        id: params.properties.id,
        indexName: Type.String({ maxLength: 64, description: 'Name of the index' }),
      }),
    },
    output: Type.Object({ result: Type.String() }),
    errors: [SCHEMA_NOT_FOUND, VECTOR_INDEX_NOT_FOUND],
    summary: 'Remove a vector index',
    handler(_, { params: { id } }) {
      admin.get(id);
      throw VECTOR_INDEX_NOT_FOUND();
    },
  });

const Hit = Type.Object({
  document: Type.Record(Type.String(), Type.Unknown()),
  score: Type.Number({ description: '0 to 1, higher is nearer' }),
  distance: Type.Number(),
  metric: Type.Enum(['cosine', 'euclidean', 'dotProduct']),
  provider: Type.String(),
  raw: Type.Optional(Type.Number({ description: 'The dot product itself' })),
});

const SearchBody = Type.Object({
  field: Type.String({ maxLength: 64, description: 'A field of type Vector' }),
  vector: Type.Array(Type.Number(), {
    minItems: 1,
    maxItems: 16_000,
    description: 'As many numbers as the field has dimensions',
  }),
  indexName: Type.Optional(
    Type.String({ maxLength: 64, description: 'Taken and not used: searches need no index' }),
  ),
  filter: Type.Optional(Type.Unknown({ description: 'Conditions in the operator language' })),
  limit: Type.Optional(
    Type.Integer({
      minimum: 1,
      maximum: 1_000,
      default: 10,
      description: 'How many at most',
    }),
  ),
  numCandidates: Type.Optional(
    Type.Integer({
      minimum: 1,
      maximum: 10_000,
      description: 'Taken and not used: all that fit are candidates',
    }),
  ),
  select: Type.Optional(
    Type.Array(Type.String({ maxLength: 64 }), {
      minItems: 1,
      maxItems: 64,
      description: 'Fields; all unless given',
    }),
  ),
  scope: Type.Optional(
    Type.String({
      maxLength: maxReferenceLength,
      description: 'Act on behalf of this object, as <Type>:<id>',
    }),
  ),
});

const search = (records: RecordStore, schemas: SchemaRegistry): Operation =>
  defineOperation({
    ...facts,
    id: 'database.vectorSearch',
    about: { schemaName: 'schema' },
    method: 'POST',
    path: '/database/schemas/:schemaName/vector-search',
    heavy: true,
    readOnly: true,
    idempotency: false,
    input: {
      params: Type.Object({
        schemaName: Type.String({ maxLength: 64, description: 'Name of the schema' }),
      }),
      body: SearchBody,
    },
    output: Type.Object({ results: Type.Array(Hit) }),
    errors: [SCHEMA_NOT_FOUND, recordErrors.RECORD_INVALID, recordErrors.RECORD_LIMIT_EXCEEDED],
    summary: 'Find the records whose vectors are nearest to one',
    description: 'Exact: every vector that fits the filter is looked at, at most 50,000.',
    async handler({ caller }, { params: { schemaName }, body }) {
      if (!schemas.get(schemaName)) throw SCHEMA_NOT_FOUND();
      const { field, vector, filter = {}, limit = 10, select, scope } = body;
      const results = await records.nearest(caller, schemaName, {
        field,
        vector,
        limit,
        filter: parseFilter(filter, 'filter'),
        ...(select && { select }),
        ...(scope !== undefined && { scope }),
      });
      return Reply.json(`{"results":${results}}`);
    },
  });
