/** Custom endpoints on the admin surface (spec/database.md 2.4). */

import Type from 'typebox';
import { schemaErrors } from '../../../data/schema/errors.ts';
import type { SchemaRegistry } from '../../../data/schema/registry/registry.ts';
import { invalid } from '../../../kernel/errors.ts';
import {
  defineOperation,
  type Operation,
  standardLimit,
} from '../../../kernel/operations/operation.ts';
import { cutText } from '../../../kernel/text.ts';
import { databaseErrors } from '../errors.ts';
import type { EndpointAdmin, EndpointBody } from '../services/endpoints/admin.ts';
import {
  AggregateShape,
  AssignmentShape,
  InputShape,
  RequiresShape,
  type StoredEndpoint,
} from '../services/endpoints/definition.ts';
import { EndpointView, endpointView } from '../services/endpoints/endpoint-view.ts';
import type { EndpointServing } from '../services/endpoints/serving.ts';
import type { EndpointStore } from '../services/endpoints/store.ts';
import { unseenFields } from '../services/endpoints/unseen-fields.ts';
import { listRange } from '../services/listing.ts';

export interface EndpointParts {
  readonly admin: EndpointAdmin;
  readonly store: EndpointStore;
  readonly serving: EndpointServing;
  readonly schemas: SchemaRegistry;
}

export const endpointOperations = (parts: EndpointParts): readonly Operation[] => [
  list(parts),
  get(parts),
  create(parts),
  update(parts),
  remove(parts),
];

const facts = { surface: 'admin', access: 'admin', limit: standardLimit } as const;
const { ENDPOINT_INVALID, ENDPOINT_NOT_FOUND, ENDPOINT_EXISTS } = databaseErrors;
const { SCHEMA_NOT_FOUND } = schemaErrors;
const params = Type.Object({ id: Type.String({ maxLength: 64, description: 'Its id' }) });
const flag = (description: string) => Type.Optional(Type.Boolean({ description }));

const OperationNumber = Type.Integer({
  minimum: 0,
  maximum: 5,
  description: '0 GET, 1 POST, 2 PUT, 3 DELETE, 4 PATCH, 5 aggregate (GET)',
});

/** Fields that a change may have too. */
export const changeFields = {
  selectedSchema: Type.Optional(Type.String({ maxLength: 64, description: 'Id of the schema' })),
  selectedSchemaName: Type.Optional(Type.String({ maxLength: 64, description: 'Or its name' })),
  endpointDescription: Type.Optional(
    Type.String({ maxLength: 4_096, description: 'For people who read the API' }),
  ),
  inputs: Type.Optional(Type.Array(InputShape, { maxItems: 64, description: 'What callers give' })),
  query: Type.Optional(
    Type.Unknown({ description: '{"AND": [...]}, {"OR": [...]} or one comparison' }),
  ),
  assignments: Type.Optional(
    Type.Array(AssignmentShape, {
      maxItems: 256,
      description: 'Of changes: what the fields become',
    }),
  ),
  authentication: flag('Only signed-in users may call it'),
  paginated: flag('The caller gives skip and limit, and gets {documents, count}'),
  sorted: flag('The caller may give sort'),
  matchAllWhenEmpty: flag('An OR whose inputs are all absent means everything instead of nothing'),
  aggregate: Type.Optional(
    Type.Union([AggregateShape, Type.Null()], { description: 'Of operation 5: groups and values' }),
  ),
  requires: Type.Optional(Type.Union([RequiresShape, Type.Null()])),
};

export const newEndpoint = Type.Object({
  name: Type.String({
    maxLength: 256,
    description: 'Last part of its path: /database/function/<name>',
  }),
  operation: OperationNumber,
  ...changeFields,
});

function viewOf({ schemas, serving }: EndpointParts, endpoint: StoredEndpoint) {
  const schema = schemas.get(endpoint.selectedSchemaName);
  const problems = serving.problems(endpoint);
  const told =
    schema && problems.length === 0 ? unseenFields({ endpoint, schema, schemas }) : problems;
  const warnings = told.map(({ path, message }) => `${path}: ${message}`);
  return endpointView(endpoint, schema, warnings);
}

const sortable = ['name', 'operation', 'selectedSchemaName', 'createdAt', 'updatedAt'] as const;

const list = (parts: EndpointParts): Operation =>
  defineOperation({
    ...facts,
    id: 'database.endpoints.list',
    about: { schemaName: 'open' },
    method: 'GET',
    path: '/database/customEndpoints',
    input: {
      query: Type.Object({
        skip: listRange.skip,
        limit: listRange.limit,
        sort: Type.Optional(
          Type.String({
            maxLength: 256,
            description: 'Field names with spaces between them; - in front: descending',
          }),
        ),
        search: Type.Optional(
          Type.String({ maxLength: 256, description: 'Part of the name; case does not matter' }),
        ),
        operation: Type.Optional(OperationNumber),
        schemaName: Type.Optional(
          Type.Array(Type.String({ maxLength: 64 }), {
            maxItems: 64,
            description: 'Names of schemas',
          }),
        ),
      }),
    },
    output: Type.Object({ customEndpoints: Type.Array(EndpointView), count: Type.Integer() }),
    summary: 'List custom endpoints',
    handler(_, { query: { skip = 0, limit = 25, sort, search, operation, schemaName = [] } }) {
      const found = parts.store
        .all()
        .filter(
          ({ name }) => search === undefined || name.toLowerCase().includes(search.toLowerCase()),
        )
        .filter((endpoint) => operation === undefined || endpoint.operation === operation)
        .filter(
          ({ selectedSchemaName }) =>
            schemaName.length === 0 || schemaName.includes(selectedSchemaName),
        );
      const page = ordered(found, sort).slice(skip, skip + limit);
      return {
        customEndpoints: page.map((endpoint) => viewOf(parts, endpoint)),
        count: found.length,
      };
    },
  });

function ordered(endpoints: readonly StoredEndpoint[], sort = ''): readonly StoredEndpoint[] {
  const keys = sort.split(' ').flatMap((term) => {
    if (term === '') return [];
    const name = term.replace(/^-/, '');
    const key = sortable.find((known) => known === name);
    if (!key)
      throw invalid('sort', 'field', `"${cutText(name, 64)}" is not one of ${sortable.join(', ')}`);
    return [{ key, direction: term.startsWith('-') ? -1 : 1 }];
  });
  return endpoints.toSorted((a, b) => {
    for (const { key, direction } of keys)
      if (a[key] !== b[key]) return a[key] < b[key] ? -direction : direction;
    return a.name < b.name ? -1 : 1;
  });
}

const get = (parts: EndpointParts): Operation =>
  defineOperation({
    ...facts,
    id: 'database.endpoints.get',
    method: 'GET',
    path: '/database/customEndpoints/:id',
    input: { params },
    output: EndpointView,
    errors: [ENDPOINT_NOT_FOUND],
    summary: 'Read a custom endpoint',
    handler: (_, { params: { id } }) => viewOf(parts, parts.admin.get(id)),
  });

const create = (parts: EndpointParts): Operation =>
  defineOperation({
    ...facts,
    id: 'database.endpoints.create',
    about: { selectedSchema: 'schema', selectedSchemaName: 'schema' },
    method: 'POST',
    path: '/database/customEndpoints',
    input: { body: newEndpoint },
    output: EndpointView,
    errors: [ENDPOINT_INVALID, ENDPOINT_EXISTS, SCHEMA_NOT_FOUND],
    summary: 'Create a custom endpoint',
    description: 'Its client route is there, on every node, when the answer comes.',
    handler: async ({ caller }, { body }) =>
      viewOf(parts, await parts.admin.create(caller, body as EndpointBody)),
  });

const update = (parts: EndpointParts): Operation =>
  defineOperation({
    ...facts,
    id: 'database.endpoints.update',
    about: { selectedSchema: 'schema', selectedSchemaName: 'schema' },
    method: 'PATCH',
    path: '/database/customEndpoints/:id',
    input: { params, body: Type.Object(changeFields) },
    output: EndpointView,
    errors: [ENDPOINT_INVALID, ENDPOINT_NOT_FOUND, SCHEMA_NOT_FOUND],
    summary: 'Change a custom endpoint',
    description:
      'What is left out stays; the schema must be named. Name and operation never change.',
    handler: async ({ caller }, { params: { id }, body }) =>
      viewOf(parts, await parts.admin.update(caller, id, body as EndpointBody)),
  });

const remove = ({ admin }: EndpointParts): Operation =>
  defineOperation({
    ...facts,
    id: 'database.endpoints.delete',
    method: 'DELETE',
    path: '/database/customEndpoints/:id',
    input: { params },
    output: Type.Object({ result: Type.String() }),
    errors: [ENDPOINT_NOT_FOUND],
    summary: 'Delete a custom endpoint',
    async handler({ caller }, { params: { id } }) {
      await admin.remove(caller, id);
      return 'Custom Endpoint deleted';
    },
  });
