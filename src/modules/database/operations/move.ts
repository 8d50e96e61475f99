/** Other owners for records: by whoever may move them, and by operators. */
import Type from 'typebox';
import { recordErrors } from '../../../data/records/errors.ts';
import type { RecordStore } from '../../../data/records/store.ts';
import type { CompiledSchema } from '../../../data/schema/compile/compiled.ts';
import { schemaErrors } from '../../../data/schema/errors.ts';
import { errors } from '../../../kernel/errors.ts';
import { expectedVersion, ifMatch } from '../../../kernel/operations/if-match.ts';
import {
  defineOperation,
  type Operation,
  standardLimit,
} from '../../../kernel/operations/operation.ts';
import { maxReferenceLength } from '../../../kernel/permissions.ts';
import { databaseErrors } from '../errors.ts';
import type { Documents } from '../services/documents.ts';
import {
  docsReply,
  idParams,
  type RecordOperation,
  recordFacts,
  recordReply,
  scopeQuery,
} from './record-facts.ts';

const MAX_MOVED = 1_000;

const ownerText = 'The new owner, as `User:<id>`, `Team:<id>` or another type that may own records';
const named = { minLength: 1, maxLength: maxReferenceLength } as const;
const owner = Type.String({ ...named, description: ownerText });
const ownOrGiven = Type.Optional(
  Type.String({ ...named, description: `${ownerText}; you, unless given` }),
);
const ids = Type.Array(Type.String({ format: 'uuid' }), {
  minItems: 1,
  maxItems: MAX_MOVED,
  description: 'Their ids',
});

const description =
  'Needs the action `move` on the record, and for a team or another object what creating a record for it needs. Whoever owned the record before does so no more. Where the type has an action `create`, it must allow the record with its new owner. The answer is the record as you saw it.';

/** None where records have no owner by permission. A misspelt `to` would be a record given to oneself: unknown fields are refused. */
export function clientMoveOperations(
  records: RecordStore,
  schema: CompiledSchema,
): readonly RecordOperation[] {
  const { authorization } = schema.modelOptions.conduit;
  if (!authorization.enabled || schema.mapping) return [];
  return [moveOne(records, schema), moveMany(records, schema)];
}

function moveOne(records: RecordStore, schema: CompiledSchema): RecordOperation {
  const { name } = schema;
  const operation = defineOperation({
    ...recordFacts(schema, 'update'),
    id: `database.records.${name}.move`,
    method: 'POST',
    path: `/database/${name}/:id/move`,
    strict: true,
    input: {
      params: idParams,
      query: scopeQuery(schema),
      headers: ifMatch,
      body: Type.Object({ to: ownOrGiven }),
    },
    output: schema.shapes.record,
    summary: `Give a ${name} record another owner`,
    description,
    async handler({ caller }, { params, query, headers, body }) {
      const options = { ...query, ...body, ...expectedVersion(headers['if-match']) };
      const [record] = await records.move(caller, name, [params.id], options);
      if (!record) throw recordErrors.RECORD_NOT_FOUND();
      return recordReply(record);
    },
  });
  return { crud: 'update', operation };
}

function moveMany(records: RecordStore, schema: CompiledSchema): RecordOperation {
  const { name } = schema;
  const operation = defineOperation({
    ...recordFacts(schema, 'update'),
    id: `database.records.${name}.moveMany`,
    method: 'POST',
    path: `/database/${name}/move`,
    strict: true,
    heavy: true,
    input: {
      query: scopeQuery(schema),
      body: Type.Object({ ids, to: ownOrGiven }),
    },
    output: Type.Object({ docs: Type.Array(schema.shapes.record) }),
    summary: `Give many ${name} records another owner`,
    description: `All of them or none. ${description}`,
    handler: async ({ caller }, { query, body }) =>
      docsReply(await records.move(caller, name, body.ids, { ...query, to: body.to })),
  });
  return { crud: 'update', operation };
}

export const adminMoveOperation = (records: RecordStore, documents: Documents): Operation =>
  defineOperation({
    surface: 'admin',
    access: 'admin',
    limit: standardLimit,
    id: 'database.documents.move',
    about: { schemaName: 'schema' },
    method: 'POST',
    path: '/database/schemas/:schemaName/docs/move',
    strict: true,
    heavy: true,
    input: {
      params: Type.Object({
        schemaName: Type.String({ maxLength: 64, description: 'Name of the schema' }),
      }),
      body: Type.Object({ ids, to: owner }),
    },
    output: Type.Object({ docs: Type.Array(Type.Record(Type.String(), Type.Unknown())) }),
    errors: [
      schemaErrors.SCHEMA_NOT_FOUND,
      databaseErrors.DOCUMENTS_READ_ONLY,
      recordErrors.RECORD_NOT_FOUND,
      recordErrors.PERMISSIONS_UNAVAILABLE,
      errors.FORBIDDEN,
    ],
    summary: 'Give records of any schema another owner',
    description: 'All of them or none. Whoever owned them before does so no more.',
    async handler({ caller }, { params, body }) {
      const { name } = documents.writable(params.schemaName, 'modify');
      return docsReply(await records.move(caller, name, body.ids, { to: body.to }));
    },
  });
