/** Indexes of schemas (spec/database.md 5.13). */
import Type from 'typebox';
import { schemaErrors } from '../../../data/schema/errors.ts';
import type { IndexDefinition } from '../../../data/schema/language/definition.ts';
import {
  defineOperation,
  type Operation,
  standardLimit,
} from '../../../kernel/operations/operation.ts';
import { optionalPagingQuery } from '../../../kernel/operations/paging.ts';
import { given, type IndexAdmin, IndexView, Transferred } from '../services/indexes.ts';
import { dryRun, PlanView, planView } from '../services/schema-views.ts';

export const schemaIndexOperations = (indexes: IndexAdmin): readonly Operation[] => [
  list(indexes),
  create(indexes),
  remove(indexes),
  exportAll(indexes),
  importAll(indexes),
];

const { SCHEMA_NOT_FOUND, SCHEMA_BUSY, SCHEMA_DATA_CONFLICT, SCHEMA_INVALID } = schemaErrors;
const { INDEX_EXISTS, INDEX_NOT_FOUND, INDEX_OWNED, INDEX_BUILT_IN } = schemaErrors;
const facts = { surface: 'admin', access: 'admin', limit: standardLimit } as const;
const params = Type.Object({ id: Type.String({ maxLength: 64, description: 'Its id' }) });
const text = Type.Object({ result: Type.String() });

const list = (indexes: IndexAdmin): Operation =>
  defineOperation({
    ...facts,
    id: 'database.schemas.indexes.list',
    method: 'GET',
    path: '/database/schemas/:id/indexes',
    input: { params },
    output: Type.Object({ indexes: Type.Array(IndexView) }),
    errors: [SCHEMA_NOT_FOUND],
    summary: 'List the indexes of a schema',
    description:
      'Also those that fields bring. A large table gets its indexes beside running writes: `building` until it is there.',
    handler: async (_, { params: { id } }) => ({ indexes: [...(await indexes.list(id))] }),
  });

const create = (indexes: IndexAdmin): Operation =>
  defineOperation({
    ...facts,
    id: 'database.schemas.indexes.create',
    method: 'POST',
    path: '/database/schemas/:id/indexes',
    // A word that is not known could be one that would have meant "unique".
    strict: true,
    input: {
      params,
      query: Type.Object({ dryRun }),
      body: Type.Object({
        indexes: Type.Array(given, {
          minItems: 1,
          maxItems: 32,
          description: 'Fields with the type of each, and options',
        }),
      }),
    },
    output: Type.Union([text, PlanView]),
    errors: [
      SCHEMA_NOT_FOUND,
      SCHEMA_INVALID,
      SCHEMA_DATA_CONFLICT,
      SCHEMA_BUSY,
      INDEX_EXISTS,
      INDEX_OWNED,
    ],
    summary: 'Add indexes to a schema',
    description: 'One that is there already is not made twice; one that failed is tried again.',
    async handler({ caller }, { params: { id }, query: { dryRun: dry = false }, body }) {
      const change = { id, add: body.indexes as readonly IndexDefinition[], remove: [] };
      if (dry) return planView(await indexes.plan(caller, [change]));
      await indexes.change(caller, [change]);
      return 'Indexes created!';
    },
  });

const remove = (indexes: IndexAdmin): Operation =>
  defineOperation({
    ...facts,
    id: 'database.schemas.indexes.delete',
    method: 'DELETE',
    path: '/database/schemas/:id/indexes',
    input: {
      params,
      query: Type.Object({
        indexNames: Type.Array(Type.String({ maxLength: 64 }), {
          minItems: 1,
          maxItems: 32,
          description: 'Names of indexes',
        }),
        dryRun,
      }),
    },
    output: Type.Union([text, PlanView]),
    errors: [SCHEMA_NOT_FOUND, SCHEMA_BUSY, INDEX_NOT_FOUND, INDEX_OWNED, INDEX_BUILT_IN],
    summary: 'Remove indexes of a schema',
    async handler({ caller }, { params: { id }, query: { indexNames, dryRun: dry = false } }) {
      const change = { id, add: [], remove: indexNames };
      if (dry) return planView(await indexes.plan(caller, [change]));
      await indexes.change(caller, [change]);
      return 'Indexes deleted';
    },
  });

const exportAll = (indexes: IndexAdmin): Operation =>
  defineOperation({
    ...facts,
    id: 'database.indexes.export',
    method: 'GET',
    path: '/database/indexes/export',
    input: {
      query: Type.Object({
        ...optionalPagingQuery({ defaultLimit: 1_000 }),
      }),
    },
    output: Type.Object({ indexes: Type.Array(Transferred), count: Type.Integer() }),
    summary: 'Export the indexes that admins have added',
    description:
      'By schema. Indexes that fields bring go with the schemas. The import takes the answer as it is.',
    handler(_, { query: { skip = 0, limit = 1_000 } }) {
      const all = indexes.exported();
      return { indexes: all.slice(skip, skip + limit), count: all.length };
    },
  });

const importAll = (indexes: IndexAdmin): Operation =>
  defineOperation({
    ...facts,
    id: 'database.indexes.import',
    method: 'POST',
    path: '/database/indexes/import',
    mcp: false,
    input: {
      body: Type.Object({
        indexes: Type.Array(Transferred, {
          maxItems: 1_000,
          description: 'Fields with the type of each, and options',
        }),
      }),
    },
    output: text,
    errors: [
      SCHEMA_NOT_FOUND,
      SCHEMA_INVALID,
      SCHEMA_DATA_CONFLICT,
      SCHEMA_BUSY,
      INDEX_EXISTS,
      INDEX_OWNED,
    ],
    summary: 'Import indexes',
    description:
      'Adds what is not there; all of it happens, or nothing. Types of other engines are left out, and the answer says so.',
    async handler({ caller }, { body }) {
      const skipped = await indexes.import(caller, body.indexes);
      return skipped === 0
        ? 'Indexes imported successfully'
        : `Indexes imported successfully; ${skipped} of other engines were left out`;
    },
  });
