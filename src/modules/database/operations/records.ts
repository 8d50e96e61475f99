/** The client routes of one schema for single records and lists (spec/database.md 1.1). */

import type { TObject } from 'typebox';
import Type from 'typebox';
import { all, equals } from '../../../data/conditions/condition.ts';
import { recordErrors } from '../../../data/records/errors.ts';
import type {
  ListOptions,
  RecordInput,
  RecordStore,
  RecordText,
} from '../../../data/records/store.ts';
import type { CompiledSchema } from '../../../data/schema/compile/compiled.ts';
import { noOperators } from '../../../data/schema/compile/shapes.ts';
import { expectedVersion, ifMatch } from '../../../kernel/operations/if-match.ts';
import { defineOperation, Reply } from '../../../kernel/operations/operation.ts';
import type { SelectedFields } from '../../../kernel/operations/operation-input.ts';
import { listAnswer } from '../services/listing.ts';
import {
  idParams,
  listQuery,
  liveQuery,
  type RecordOperation,
  readQuery,
  recordFacts,
  recordReply,
  scopeQuery,
} from './record-facts.ts';

const { COUNT_TIMEOUT, RESTORE_REQUIRED, ID_IN_USE } = recordErrors;

export const recordOperations = (
  records: RecordStore,
  schema: CompiledSchema,
): readonly RecordOperation[] => [
  list(records, schema),
  get(records, schema),
  create(records, schema),
  update(records, schema),
  replace(records, schema),
  remove(records, schema),
];

function list(records: RecordStore, schema: CompiledSchema): RecordOperation {
  const { name } = schema;
  const facts = recordFacts(schema, 'read');
  const operation = defineOperation({
    ...facts,
    errors: [...facts.errors, COUNT_TIMEOUT],
    id: `database.records.${name}.list`,
    method: 'GET',
    path: `/database/${name}`,
    heavy: true,
    input: { query: listQuery(schema) },
    output: listAnswer(schema.shapes.record),
    summary: `List ${name} records`,
    description:
      '`count` is the number of all records that you may see: exact, unless you ask otherwise.',
    live: (caller, { query }) => records.live(caller, name, { ...liveQuery(query), filter: all() }),
    async handler({ caller, requested, requestedExactly = false }, { query }) {
      if (!requested) return Reply.json(await records.list(caller, name, query));
      const requestedText = requestedExactly ? inOrder(query, requested) : undefined;
      const options = { ...withSelection(query, requested), exactly: requestedText !== undefined };
      const json = await records.list(caller, name, options);
      return requestedText ? Reply.requested(requestedText(json)) : Reply.json(json);
    },
  });
  return { crud: 'read', operation };
}

/**
 * Brings a list's answer into the form that is requested, where its members are those of the answer in their order, and
 * `__typename` the first or the last.
 */
function inOrder(
  { count = 'exact', cursor }: ListOptions,
  requested: SelectedFields,
): ((json: string) => string) | undefined {
  const answered = ['documents'];
  if (requested.has('count') && count === 'exact') answered.push('count');
  if (cursor !== undefined) answered.push('nextCursor');
  const names = [...requested.keys()];
  const typeName = `"__typename":${JSON.stringify(requested.typeName)}`;
  const [withoutFirst, withoutLast] = [names.slice(1).join(), names.slice(0, -1).join()];
  const expected = answered.join();
  if (names.join() === expected) return (json) => json;
  if (names[0] === '__typename' && withoutFirst === expected)
    return (json) => `{${typeName},${json.slice(1)}`;
  if (names.at(-1) === '__typename' && withoutLast === expected)
    return (json) => `${json.slice(0, -1)},${typeName}}`;
  return undefined;
}

/** A list without what nobody looks at: fields, and the count, whose cost grows with the table. */
function withSelection(query: ListOptions, requested: SelectedFields): ListOptions {
  const only = requested.get('documents');
  const counted = requested.has('count') || requested.has('estimated');
  return { ...query, ...(only && { only }), ...(!counted && { count: 'none' as const }) };
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
    description: 'The ETag header has its version, and a digest of the answer.',
    live: (caller, { params, query }) =>
      records.live(caller, name, {
        ...liveQuery({ ...query, limit: 1 }),
        filter: equals('_id', params.id),
      }),
    handler({ caller, requested, requestedExactly = false }, { params, query }) {
      if (!requested || !requestedExactly)
        return records.get(caller, name, params.id, query).then(recordReply);
      const options = { ...query, only: requested, exactly: true };
      return records.get(caller, name, params.id, options).then(requestedReply);
    },
  });
  return { crud: 'read', operation };
}

const requestedReply = ({ json }: RecordText): Reply => Reply.requested(json);

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
    handler: async ({ caller }, { query, body }) =>
      recordReply(await records.create(caller, name, body as RecordInput, query)),
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
    input: {
      params: idParams,
      query: readQuery(schema),
      headers: ifMatch,
      body: patchBody(schema),
    },
    output: schema.shapes.record,
    summary: `Change a ${name} record`,
    description: `Fields that are left out stay; null clears an optional one; nested objects are merged.${takesOperators(schema) ? ' Operators change what is stored at that moment, so that changes at the same time all count.' : ''}`,
    async handler({ caller }, { params, query, headers, body }) {
      const options = { ...query, ...expectedVersion(headers['if-match']) };
      return recordReply(
        await records.update(caller, name, params.id, body as RecordInput, options),
      );
    },
  });
  return { crud: 'update', operation };
}

const takesOperators = ({ modelOptions }: CompiledSchema): boolean =>
  modelOptions.conduit.cms.crudOperations.update.operators === true;

const fieldValues = (description: string) =>
  Type.Optional(Type.Record(Type.String(), Type.Unknown(), { description }));
const operatorShapes = {
  $inc: fieldValues('Numbers to add, by field'),
  $push: fieldValues('What is appended to lists, by field: one element, or {"$each": [...]}'),
  $pull: fieldValues('What is taken out of lists, by field: one element, or {"$each": [...]}'),
  $unset: fieldValues('Fields that become null; the values do not matter'),
};

const patchBody = (schema: CompiledSchema): TObject =>
  takesOperators(schema)
    ? Type.Object({ ...schema.shapes.update.properties, ...operatorShapes }, noOperators)
    : schema.shapes.update;

const upsert = Type.Optional(
  Type.Boolean({
    default: false,
    description: 'Create the record under this id when it is not there; needs the right to create',
  }),
);

const allowsUpsert = ({ modelOptions }: CompiledSchema): boolean =>
  modelOptions.conduit.cms.crudOperations.update.upsert === true;

/** `upsert` is declared only where the schema lets clients choose ids. */
function replaceQuery(schema: CompiledSchema) {
  const query = readQuery(schema);
  return allowsUpsert(schema)
    ? Type.Object({ ...query.properties, upsert })
    : (query as TObject<typeof query.properties & { upsert: typeof upsert }>);
}

function replace(records: RecordStore, schema: CompiledSchema): RecordOperation {
  const { name } = schema;
  const facts = recordFacts(schema, 'update');
  const operation = defineOperation({
    ...facts,
    errors: allowsUpsert(schema) ? [...facts.errors, RESTORE_REQUIRED, ID_IN_USE] : facts.errors,
    id: `database.records.${name}.replace`,
    method: 'PUT',
    path: `/database/${name}/:id`,
    input: {
      params: idParams,
      query: replaceQuery(schema),
      headers: ifMatch,
      body: schema.shapes.create,
    },
    output: schema.shapes.record,
    summary: `Replace a ${name} record`,
    description: 'Fields that are left out take their default or become null.',
    async handler({ caller }, { params, query, headers, body }) {
      const mustExist = headers['if-match']?.trim() === '*';
      const options = {
        ...query,
        ...(mustExist && { upsert: false }),
        ...expectedVersion(headers['if-match']),
      };
      return recordReply(
        await records.replace(caller, name, params.id, body as RecordInput, options),
      );
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
      await records.remove(caller, name, params.id, {
        ...query,
        ...expectedVersion(headers['if-match']),
      });
      return 'Ok';
    },
  });
  return { crud: 'delete', operation };
}
