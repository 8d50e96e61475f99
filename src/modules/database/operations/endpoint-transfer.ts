/** Custom endpoints as a whole: export, import, and what their design needs to know about schemas. */
import Type from 'typebox';
import { schemaErrors } from '../../../data/schema/errors.ts';
import {
  defineOperation,
  type Operation,
  standardLimit,
} from '../../../kernel/operations/operation.ts';
import { optionalPagingQuery } from '../../../kernel/operations/paging.ts';
import { databaseErrors } from '../errors.ts';
import type { EndpointBody } from '../services/endpoints/admin.ts';
import { usableFields } from '../services/endpoints/definition.ts';
import { ExportedEndpoint, exportedEndpoint } from '../services/endpoints/endpoint-view.ts';
import { type EndpointParts, newEndpoint } from './endpoints.ts';

export const endpointTransferOperations = (parts: EndpointParts): readonly Operation[] => [
  schemasInUse(parts),
  exportAll(parts),
  importAll(parts),
  operationDetails(parts),
];

const facts = { surface: 'admin', access: 'admin', limit: standardLimit } as const;

const schemasInUse = ({ store, schemas }: EndpointParts): Operation =>
  defineOperation({
    ...facts,
    id: 'database.endpoints.schemas',
    method: 'GET',
    path: '/database/customEndpoints/schemas',
    input: {
      query: Type.Object({
        ...optionalPagingQuery(),
      }),
    },
    output: Type.Object({
      schemas: Type.Array(Type.Object({ id: Type.String(), name: Type.String() })),
      schemaNames: Type.Array(Type.String()),
      schemaIds: Type.Array(Type.String()),
      count: Type.Integer(),
    }),
    summary: 'List the schemas that custom endpoints use',
    handler(_, { query: { skip = 0, limit = 25 } }) {
      const names = [
        ...new Set(store.all().map(({ selectedSchemaName }) => selectedSchemaName)),
      ].sort();
      const known = names.flatMap((name) => schemas.get(name) ?? []);
      const page = known.slice(skip, skip + limit).map(({ _id, name }) => ({ id: _id, name }));
      return {
        schemas: page,
        schemaNames: page.map(({ name }) => name),
        schemaIds: page.map(({ id }) => id),
        count: known.length,
      };
    },
  });

const exportAll = ({ store, schemas }: EndpointParts): Operation =>
  defineOperation({
    ...facts,
    id: 'database.endpoints.export',
    method: 'GET',
    path: '/database/customEndpoints/export',
    input: {},
    output: Type.Object({ endpoints: Type.Array(ExportedEndpoint) }),
    summary: 'Export all custom endpoints',
    description:
      'Ordered by name, so that two exports of the same endpoints are the same. The import takes the answer as it is.',
    handler: () => ({
      endpoints: store
        .all()
        .map((endpoint) => exportedEndpoint(endpoint, schemas.get(endpoint.selectedSchemaName))),
    }),
  });

const importAll = ({ admin }: EndpointParts): Operation =>
  defineOperation({
    ...facts,
    id: 'database.endpoints.import',
    about: { endpoints: 'inside' },
    method: 'POST',
    path: '/database/customEndpoints/import',
    mcp: false,
    bodyLimit: 8 * 1024 * 1024,
    input: { body: Type.Object({ endpoints: Type.Array(newEndpoint, { maxItems: 1_000 }) }) },
    output: Type.Object({ result: Type.String() }),
    errors: [
      databaseErrors.ENDPOINT_INVALID,
      databaseErrors.ENDPOINT_EXISTS,
      schemaErrors.SCHEMA_NOT_FOUND,
    ],
    summary: 'Import custom endpoints',
    description:
      'All of it happens, or nothing. An endpoint changes the one with the same name, which keeps its id; what is not listed stays.',
    async handler({ caller }, { body }) {
      await admin.import(caller, body.endpoints as readonly EndpointBody[]);
      return 'Custom endpoints imported successfully';
    },
  });

const operationDetails = ({ schemas }: EndpointParts): Operation =>
  defineOperation({
    ...facts,
    id: 'database.schemas.operationDetails',
    about: { schemaId: 'open' },
    method: 'GET',
    path: '/database/schemas/:schemaId/cms/operation/:operation/details',
    input: {
      params: Type.Object({
        schemaId: Type.String({ maxLength: 64, description: 'Id of the schema' }),
        operation: Type.Integer({
          minimum: 0,
          maximum: 5,
          description: '0 GET, 1 POST, 2 PUT, 3 DELETE, 4 PATCH, 5 aggregate (GET)',
        }),
      }),
    },
    output: Type.Object({
      schemaId: Type.String(),
      schemaName: Type.String(),
      accessibleFields: Type.Array(Type.String()),
    }),
    errors: [schemaErrors.SCHEMA_NOT_FOUND],
    summary: 'List the fields that a custom endpoint of an operation can use',
    handler(_, { params: { schemaId, operation } }) {
      const schema = schemas.byId(schemaId);
      if (!schema) throw schemaErrors.SCHEMA_NOT_FOUND();
      return {
        schemaId: schema._id,
        schemaName: schema.name,
        accessibleFields: [...usableFields(schema, operation)],
      };
    },
  });
