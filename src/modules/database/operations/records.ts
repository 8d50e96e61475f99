/** The client routes of one schema for single records and lists (spec/database.md 1.1). */
import Type from 'typebox';
import { defineOperation, Reply } from '../../../kernel/operation.ts';
import type { RecordInput, RecordStore } from '../../../kernel/records/store.ts';
import type { CompiledSchema } from '../../../kernel/schema/compiled.ts';
import {
  expectedVersion,
  idParams,
  ifMatch,
  listQuery,
  type RecordOperation,
  readQuery,
  recordFacts,
  recordReply,
  scopeQuery,
} from './record-facts.ts';

export const recordOperations = (records: RecordStore, schema: CompiledSchema): readonly RecordOperation[] => [
  list(records, schema),
  get(records, schema),
  create(records, schema),
  update(records, schema),
  replace(records, schema),
  remove(records, schema),
];

const countMode = Type.Optional(
  Type.Enum(['exact', 'estimated', 'none'], {
    default: 'exact',
    description: 'How `count` is made. `estimated` is exact up to 10,000 and says so; `none` leaves it out. Both stay fast on large tables',
  }),
);

function list(records: RecordStore, schema: CompiledSchema): RecordOperation {
  const { name } = schema;
  const operation = defineOperation({
    ...recordFacts(schema, 'read'),
    id: `database.records.${name}.list`,
    method: 'GET',
    path: `/database/${name}`,
    input: { query: Type.Object({ ...listQuery(schema).properties, count: countMode }) },
    output: Type.Object({
      documents: Type.Array(schema.shapes.record),
      count: Type.Optional(Type.Integer({ minimum: 0 })),
      estimated: Type.Optional(Type.Boolean({ description: 'Only with count=estimated: whether `count` is an estimate' })),
    }),
    summary: `List ${name} records`,
    description: '`count` is the number of all records that you may see: exact, unless you ask otherwise.',
    handler: async ({ caller }, { query }) => Reply.json(await records.list(caller, name, query)),
  });
  return { crud: 'read', operation };
}

function get(records: RecordStore, schema: CompiledSchema): RecordOperation {
  const { name } = schema;
  const operation = defineOperation({
    ...recordFacts(schema, 'read'),
    id: `database.records.${name}.get`,
    method: 'GET',
    path: `/database/${name}/:id`,
    input: { params: idParams, query: readQuery(schema) },
    output: schema.shapes.record,
    summary: `Read a ${name} record`,
    description: 'The ETag header has its version.',
    handler: async ({ caller }, { params, query }) => recordReply(await records.get(caller, name, params.id, query)),
  });
  return { crud: 'read', operation };
}

function create(records: RecordStore, schema: CompiledSchema): RecordOperation {
  const { name } = schema;
  const operation = defineOperation({
    ...recordFacts(schema, 'create'),
    id: `database.records.${name}.create`,
    method: 'POST',
    path: `/database/${name}`,
    input: { query: readQuery(schema), body: schema.shapes.create },
    output: schema.shapes.record,
    summary: `Create a ${name} record`,
    handler: async ({ caller }, { query, body }) => recordReply(await records.create(caller, name, body as RecordInput, query)),
  });
  return { crud: 'create', operation };
}

function update(records: RecordStore, schema: CompiledSchema): RecordOperation {
  const { name } = schema;
  const operation = defineOperation({
    ...recordFacts(schema, 'update'),
    id: `database.records.${name}.update`,
    method: 'PATCH',
    path: `/database/${name}/:id`,
    input: { params: idParams, query: readQuery(schema), headers: ifMatch, body: schema.shapes.update },
    output: schema.shapes.record,
    summary: `Change a ${name} record`,
    description: 'Fields that are left out stay; null clears an optional one; nested objects are merged.',
    async handler({ caller }, { params, query, headers, body }) {
      const options = { ...query, ...expectedVersion(headers['if-match']) };
      return recordReply(await records.update(caller, name, params.id, body as RecordInput, options));
    },
  });
  return { crud: 'update', operation };
}

function replace(records: RecordStore, schema: CompiledSchema): RecordOperation {
  const { name } = schema;
  const operation = defineOperation({
    ...recordFacts(schema, 'update'),
    id: `database.records.${name}.replace`,
    method: 'PUT',
    path: `/database/${name}/:id`,
    input: { params: idParams, query: readQuery(schema), headers: ifMatch, body: schema.shapes.create },
    output: schema.shapes.record,
    summary: `Replace a ${name} record`,
    description: 'Fields that are left out take their default or become null.',
    async handler({ caller }, { params, query, headers, body }) {
      const options = { ...query, ...expectedVersion(headers['if-match']) };
      return recordReply(await records.replace(caller, name, params.id, body as RecordInput, options));
    },
  });
  return { crud: 'update', operation };
}

function remove(records: RecordStore, schema: CompiledSchema): RecordOperation {
  const { name } = schema;
  const operation = defineOperation({
    ...recordFacts(schema, 'delete'),
    id: `database.records.${name}.delete`,
    method: 'DELETE',
    path: `/database/${name}/:id`,
    input: { params: idParams, query: scopeQuery(schema), headers: ifMatch },
    output: Type.Object({ result: Type.String() }),
    summary: `Delete a ${name} record`,
    async handler({ caller }, { params, query, headers }) {
      await records.remove(caller, name, params.id, { ...query, ...expectedVersion(headers['if-match']) });
      return 'Ok';
    },
  });
  return { crud: 'delete', operation };
}
