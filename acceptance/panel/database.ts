/** Schemas, records, indexes, endpoints and introspection (section 4). */
import { expect } from 'vitest';
import { flag, list, number, object, type Row, type Seen, some, text } from './row.ts';

const crud = { enabled: flag, authenticated: flag };
const platformOptions = {
  cms: { enabled: flag, crudOperations: { create: crud, read: crud, update: crud, delete: crud } },
  permissions: { extendable: flag, canCreate: flag, canModify: text, canDelete: flag },
  authorization: { enabled: flag },
};
const schemaFields = {
  _id: text,
  name: text,
  ownerModule: text,
  fields: object,
  compiledFields: object,
  extensions: list,
  createdAt: text,
  updatedAt: text,
  modelOptions: expect.objectContaining({ conduit: expect.objectContaining(platformOptions) }),
};
const schemaOptions = {
  authorization: { enabled: false },
  cms: {
    crudOperations: Object.fromEntries(
      ['create', 'read', 'update', 'delete'].map((name) => [
        name,
        { enabled: true, authenticated: false },
      ]),
    ),
  },
  permissions: { extendable: true, canCreate: true, canModify: 'Everything', canDelete: true },
};

export const database: readonly Row[] = [
  {
    call: 'POST /database/schemas',
    body: {
      name: 'Panel',
      fields: { title: { type: 'String', required: true }, score: 'Number' },
      conduitOptions: schemaOptions,
    },
    reads: schemaFields,
    keep: ({ _id }) => ({ schemaId: _id }),
  },
  {
    call: 'GET /database/schemas?skip=0&limit=50&search=pan&enabled=true&owner[]=database&owner[]=authentication&sort=name',
    reads: { schemas: some({ ...schemaFields, name: 'Panel' }), count: number },
  },
  {
    call: 'GET /database/schemas/?owner=database,authentication&sort=name',
    reads: { schemas: some(schemaFields), count: number },
  },
  {
    call: 'GET /database/schemas?skip=0&limit=1000&sort=name',
    reads: { schemas: some(schemaFields), count: number },
  },
  {
    call: 'GET /database/schemas/{schemaId}',
    reads: schemaFields,
    keep: (schema) => ({ schema: schema }),
  },
  {
    call: 'PATCH /database/schemas/{schemaId}',
    body: {
      fields: { title: { type: 'String', required: true }, score: 'Number', more: 'String' },
      conduitOptions: schemaOptions,
    },
    reads: { ...schemaFields, fields: expect.objectContaining({ more: expect.anything() }) },
  },
  { call: 'POST /database/schemas/{schemaId}/toggle', reads: object },
  {
    call: 'POST /database/schemas/toggle',
    body: ({ schemaId }: Seen) => ({ ids: [schemaId], enabled: true }),
    reads: { updatedSchemas: list },
  },
  { call: 'GET /database/schemas/owners', reads: { modules: list } },
  { call: 'GET /database/schemas/system', reads: { databaseSystemSchemas: list } },
  {
    call: 'GET /database/schemas/{schemaId}/cms/operation/0/details',
    reads: { accessibleFields: list },
  },
  {
    call: 'POST /database/schemas/Panel/docs',
    body: { schemaName: 'Panel', inputDocument: { title: 'one', score: 1 } },
    reads: { _id: text, title: 'one' },
    keep: ({ _id }) => ({ documentId: _id }),
  },
  {
    call: 'POST /database/schemas/Panel/query?skip=0&limit=10',
    body: { query: {} },
    reads: { documents: some({ title: 'one' }), count: 1 },
  },
  {
    call: 'GET /database/schemas/Panel/docs/{documentId}',
    reads: { result: expect.objectContaining({ title: 'one' }) },
  },
  {
    call: 'PUT /database/schemas/Panel/docs/{documentId}',
    body: ({ documentId }: Seen) => ({
      changedDocument: {
        _id: documentId,
        title: 'two',
        score: 2,
        createdAt: '2026-01-01T00:00:00.000Z',
      },
    }),
    reads: { title: 'two' },
  },
  { call: 'DELETE /database/schemas/Panel/docs/{documentId}' },
  { call: 'POST /database/schemas/{schemaId}/extensions/', body: { fields: { extra: 'String' } } },
  {
    call: 'GET /database/schemas/{schemaId}',
    reads: {
      ...schemaFields,
      extensions: some({ fields: object, ownerModule: text, createdAt: text, updatedAt: text }),
    },
  },
  {
    call: 'POST /database/schemas/{schemaId}/indexes',
    body: { indexes: [{ fields: ['title'], types: 'BTREE', options: { name: 'panel_title' } }] },
  },
  { call: 'GET /database/schemas/{schemaId}/indexes', reads: expect.anything() },
  { call: 'DELETE /database/schemas/{schemaId}/indexes?indexNames[]=panel_title' },
  { call: 'GET /database/database-type', reads: { result: 'PostgreSQL' } },
  {
    call: 'GET /database/schemas/export',
    reads: { schemas: list },
    keep: (exported) => ({ schemas: exported }),
  },
  { call: 'POST /database/schemas/import', body: ({ schemas }: Seen) => schemas },
  {
    call: 'POST /database/customEndpoints',
    body: ({ schemaId }: Seen) => ({
      name: 'panelFind',
      operation: 0,
      selectedSchema: schemaId,
      authentication: false,
      paginated: true,
      sorted: false,
      inputs: [{ name: 'title', type: 'String', location: 1, optional: true, array: false }],
      query: {
        AND: [
          {
            schemaField: 'title',
            operation: 0,
            comparisonField: { type: 'Input', value: 'title' },
          },
        ],
      },
      assignments: [],
    }),
    reads: { _id: text, name: 'panelFind', operation: 0 },
    keep: ({ _id }) => ({ endpointId: _id }),
  },
  {
    call: 'GET /database/customEndpoints?skip=0&limit=10&search=panel&schemaName[]=Panel&operation=0&sort=name',
    reads: { customEndpoints: some({ _id: text, name: 'panelFind' }), count: 1 },
    keep: ({ customEndpoints }) => ({ endpoint: customEndpoints[0] }),
  },
  { call: 'PATCH /database/customEndpoints/{endpointId}', body: ({ endpoint }: Seen) => endpoint },
  { call: 'GET /database/customEndpoints/schemas', reads: { schemas: list } },
  { call: 'GET /database/customEndpoints/export', keep: (exported) => ({ endpoints: exported }) },
  { call: 'POST /database/customEndpoints/import', body: ({ endpoints }: Seen) => endpoints },
  { call: 'DELETE /database/customEndpoints/{endpointId}' },
  {
    call: 'GET /database/introspection',
    reads: {
      foreignSchemas: list,
      foreignSchemaCount: number,
      importedSchemas: list,
      importedSchemaCount: number,
    },
  },
  { call: 'POST /database/introspection' },
  {
    call: 'GET /database/introspection/schemas?skip=0&limit=10&search=x&sort=name',
    reads: { schemas: list, count: number },
  },
  { call: 'DELETE /database/schemas?ids[]={schemaId}&deleteData=true' },
];
