/** Records on the admin surface (spec/database.md 2.3). */
import Type from 'typebox';
import { recordErrors } from '../../../data/records/errors.ts';
import type { RecordInput, RecordText } from '../../../data/records/store.ts';
import { schemaErrors } from '../../../data/schema/errors.ts';
import { errors } from '../../../kernel/errors.ts';
import { expectedVersion, ifMatch } from '../../../kernel/operations/if-match.ts';
import {
  defineOperation,
  type Operation,
  Reply,
  standardLimit,
} from '../../../kernel/operations/operation.ts';
import type { DecodedInput } from '../../../kernel/operations/operation-input.ts';
import { optionalPagingQuery } from '../../../kernel/operations/paging.ts';
import { databaseErrors } from '../errors.ts';
import type { Documents } from '../services/documents.ts';
import { countQuery, cursorQuery, listFacts } from '../services/listing.ts';
import { docsReply, recordReply } from './record-facts.ts';

/*
 * What the audit log says about records that operators write: which fields, of which records. Never what is in
 * them: that is the app's data, may be encrypted in its table, and is kept by the history of records where it is requested.
 */

type Told = (input: Pick<DecodedInput, 'body'>) => unknown;

/** Of many records, so many are named. */
const MAX_NAMED = 100;

/** For a body that holds one record under `key`. */
const fieldsOf =
  (key: string): Told =>
  ({ body }) => ({ fields: Object.keys(recordsUnder(body, key)[0] ?? {}) });

/** For a body that holds many records under `key`. */
const manyOf =
  (key: string): Told =>
  ({ body }) => {
    const records = recordsUnder(body, key);
    const ids = records.flatMap(({ _id }) => (typeof _id === 'string' ? [_id] : []));
    return {
      documents: records.length,
      ...(ids.length > 0 ? { ids: ids.slice(0, MAX_NAMED) } : {}),
    };
  };

function recordsUnder(body: unknown, key: string): readonly Readonly<Record<string, unknown>>[] {
  const value: unknown =
    typeof body === 'object' && body !== null ? Reflect.get(body, key) : undefined;
  return Array.isArray(value) ? value : [value as Readonly<Record<string, unknown>>];
}

export const documentOperations = (documents: Documents): readonly Operation[] => [
  get(documents),
  query(documents),
  create(documents),
  createMany(documents),
  updateMany(documents),
  update(documents),
  remove(documents),
];

const {
  RECORD_INVALID,
  RECORD_NOT_FOUND,
  RECORD_NOT_UNIQUE,
  RECORD_IN_USE,
  DEPENDANT_LIMIT_EXCEEDED,
  WRITE_CONFLICT,
} = recordErrors;
const facts = { surface: 'admin', access: 'admin', limit: standardLimit } as const;
const BODY_LIMIT = 8 * 1024 * 1024;
const MAX_DOCS = 1_000;

const schemaName = Type.String({ maxLength: 64, description: 'Name of the schema' });
const schemaParams = Type.Object({ schemaName });
const recordParams = Type.Object({
  schemaName,
  id: Type.String({ maxLength: 1_024, description: 'Its id' }),
});
const document = Type.Record(Type.String(), Type.Unknown(), {
  description: 'A record, in the shape of its schema',
});
const documents = Type.Array(document, {
  maxItems: MAX_DOCS,
  description: 'Records in the shape of the schema',
});
const docs = Type.Object({ docs: Type.Array(document) });
const writeErrors = [
  databaseErrors.DOCUMENTS_READ_ONLY,
  RECORD_INVALID,
  RECORD_NOT_UNIQUE,
  WRITE_CONFLICT,
];

const get = (service: Documents): Operation =>
  defineOperation({
    ...facts,
    id: 'database.documents.get',
    about: { schemaName: 'schema' },
    method: 'GET',
    path: '/database/schemas/:schemaName/docs/:id',
    input: {
      params: recordParams,
      query: Type.Object({
        populate: Type.Optional(
          Type.Array(Type.String({ maxLength: 256 }), {
            maxItems: 10,
            description: 'Relations to answer as records instead of ids',
          }),
        ),
      }),
    },
    output: document,
    errors: [schemaErrors.SCHEMA_NOT_FOUND, RECORD_NOT_FOUND],
    summary: 'Read a record of any schema',
    description:
      'Hidden fields are never shown. `result` is the same record once more, unless it has a field of that name.',
    handler: async ({ caller }, { params, query: { populate = [] } }) =>
      recordReply(withResult(await service.get(caller, params.schemaName, params.id, populate))),
  });

/** An existing panel reads `result`. In front, so that a field of that name is what counts. */
const withResult = (record: RecordText): RecordText => ({
  ...record,
  json: `{"result":${record.json},${record.json.slice(1)}`,
});

const query = (service: Documents): Operation =>
  defineOperation({
    ...facts,
    id: 'database.documents.query',
    about: { schemaName: 'schema' },
    method: 'POST',
    path: '/database/schemas/:schemaName/query',
    readOnly: true,
    idempotency: false,
    input: {
      params: schemaParams,
      query: Type.Object({
        ...optionalPagingQuery({ maxSkip: 1_000_000_000_000 }),
        cursor: cursorQuery,
        count: countQuery,
        sort: Type.Optional(
          Type.String({
            maxLength: 512,
            description: 'Field names with spaces between them; - in front: descending',
          }),
        ),
      }),
      body: Type.Object({
        query: Type.Unknown({
          description: 'Conditions in the operator language; {} is every record',
        }),
      }),
    },
    output: Type.Object({ documents: Type.Array(document), ...listFacts }),
    errors: [schemaErrors.SCHEMA_NOT_FOUND, RECORD_INVALID],
    summary: 'Find records of any schema',
    async handler({ caller }, { params, query: { sort = '', ...range }, body }) {
      const page = { ...range, sort: sort.split(' ').filter((term) => term !== '') };
      return Reply.json(
        await service.query(caller, params.schemaName, { query: body.query, ...page }),
      );
    },
  });

const create = (service: Documents): Operation =>
  defineOperation({
    ...facts,
    id: 'database.documents.create',
    about: { schemaName: 'schema' },
    method: 'POST',
    path: '/database/schemas/:schemaName/docs',
    auditChanges: fieldsOf('inputDocument'),
    input: { params: schemaParams, body: Type.Object({ inputDocument: document }) },
    output: document,
    errors: writeErrors,
    summary: 'Create a record',
    handler: async ({ caller }, { params, body }) =>
      recordReply(await service.create(caller, params.schemaName, body.inputDocument)),
  });

const createMany = (service: Documents): Operation =>
  defineOperation({
    ...facts,
    id: 'database.documents.createMany',
    about: { schemaName: 'schema' },
    method: 'POST',
    path: '/database/schemas/:schemaName/docs/many',
    bodyLimit: BODY_LIMIT,
    heavy: true,
    auditChanges: manyOf('inputDocuments'),
    input: { params: schemaParams, body: Type.Object({ inputDocuments: documents }) },
    output: docs,
    errors: writeErrors,
    summary: 'Create many records, all or none',
    handler: async ({ caller }, { params, body }) =>
      docsReply(await service.createMany(caller, params.schemaName, body.inputDocuments)),
  });

const updateMany = (service: Documents): Operation =>
  defineOperation({
    ...facts,
    id: 'database.documents.updateMany',
    about: { schemaName: 'schema' },
    method: 'PUT',
    path: '/database/schemas/:schemaName/docs',
    bodyLimit: BODY_LIMIT,
    heavy: true,
    auditChanges: manyOf('changedDocuments'),
    input: { params: schemaParams, body: Type.Object({ changedDocuments: documents }) },
    output: docs,
    errors: [...writeErrors, databaseErrors.WRONG_FIELDS, RECORD_NOT_FOUND],
    summary: 'Change many records, all or none',
    description: 'Each has its `_id`; fields that are left out stay.',
    handler: async ({ caller }, { params, body }) =>
      docsReply(
        await service.updateMany(caller, params.schemaName, body.changedDocuments as RecordInput[]),
      ),
  });

const update = (service: Documents): Operation =>
  defineOperation({
    ...facts,
    id: 'database.documents.update',
    about: { schemaName: 'schema' },
    method: 'PUT',
    path: '/database/schemas/:schemaName/docs/:id',
    auditChanges: fieldsOf('changedDocument'),
    input: {
      params: recordParams,
      headers: ifMatch,
      body: Type.Object({ changedDocument: document }),
    },
    output: document,
    errors: [
      ...writeErrors,
      databaseErrors.WRONG_FIELDS,
      RECORD_NOT_FOUND,
      errors.PRECONDITION_FAILED,
    ],
    summary: 'Change a record',
    description: 'Fields that are left out stay, despite the verb.',
    async handler({ caller }, { params, headers, body }) {
      const options = expectedVersion(headers['if-match']);
      return recordReply(
        await service.update(caller, params.schemaName, params.id, body.changedDocument, options),
      );
    },
  });

const remove = (service: Documents): Operation =>
  defineOperation({
    ...facts,
    id: 'database.documents.delete',
    about: { schemaName: 'schema' },
    method: 'DELETE',
    path: '/database/schemas/:schemaName/docs/:id',
    input: { params: recordParams, headers: ifMatch },
    output: Type.Object({ result: Type.String() }),
    errors: [
      databaseErrors.DOCUMENTS_READ_ONLY,
      RECORD_NOT_FOUND,
      RECORD_IN_USE,
      DEPENDANT_LIMIT_EXCEEDED,
      WRITE_CONFLICT,
      errors.PRECONDITION_FAILED,
    ],
    summary: 'Delete a record',
    async handler({ caller }, { params, headers }) {
      await service.remove(
        caller,
        params.schemaName,
        params.id,
        expectedVersion(headers['if-match']),
      );
      return 'Ok';
    },
  });
