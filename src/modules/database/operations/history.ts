/** Earlier versions of records: client routes of the schemas that keep them, and the admin's for all of these. */
import Type, { type TSchema } from 'typebox';
import { recordErrors } from '../../../data/records/errors.ts';
import type { RecordStore } from '../../../data/records/store.ts';
import type { CompiledSchema } from '../../../data/schema/compile/compiled.ts';
import { schemaErrors } from '../../../data/schema/errors.ts';
import { errors } from '../../../kernel/errors.ts';
import { expectedVersion, ifMatch } from '../../../kernel/operations/if-match.ts';
import {
  defineOperation,
  type Operation,
  Reply,
  standardLimit,
} from '../../../kernel/operations/operation.ts';
import { optionalPagingQuery } from '../../../kernel/operations/paging.ts';
import { databaseErrors } from '../errors.ts';
import type { Documents } from '../services/documents.ts';
import {
  idParams,
  type RecordOperation,
  recordFacts,
  recordReply,
  scopeQuery,
} from './record-facts.ts';

const {
  RECORD_NOT_FOUND,
  RECORD_INVALID,
  RECORD_NOT_UNIQUE,
  WRITE_CONFLICT,
  HISTORY_DISABLED,
  VERSION_NOT_FOUND,
  FIELD_FORBIDDEN,
} = recordErrors;
const readErrors = [RECORD_NOT_FOUND, HISTORY_DISABLED];
const restoreErrors = [
  RECORD_NOT_FOUND,
  RECORD_INVALID,
  RECORD_NOT_UNIQUE,
  WRITE_CONFLICT,
  HISTORY_DISABLED,
  VERSION_NOT_FOUND,
  FIELD_FORBIDDEN,
];

const versionText = Type.Integer({
  minimum: 0,
  maximum: 2_147_483_647,
  description: 'Version (`__v`) of the record',
});
const pageQuery = {
  ...optionalPagingQuery({ maxSkip: 1_000_000_000_000 }),
};
const compare = Type.Optional(
  Type.Enum(['next', 'current'], {
    default: 'next',
    description: 'What `changes` leads to: the next version, or the record as it is now',
  }),
);

const versionFacts = {
  version: versionText,
  operation: Type.Enum(['update', 'delete', 'restore'], { description: 'What ended this version' }),
  at: Type.String({ format: 'date-time', description: 'When' }),
  by: Type.String({ description: 'Who: user:<id>, admin or system' }),
};
const versionList = Type.Object({
  versions: Type.Array(Type.Object(versionFacts)),
  count: Type.Integer({ minimum: 0 }),
});
const versionOf = (document: TSchema) =>
  Type.Object({
    ...versionFacts,
    document,
    changes: Type.Union(
      [
        Type.Array(Type.Object({ field: Type.String(), from: Type.Unknown(), to: Type.Unknown() })),
        Type.Null(),
      ],
      {
        description: 'Fields that differ; null when there is nothing to compare with',
      },
    ),
  });

/** The client routes of one schema; none while it keeps no history. */
export const clientHistoryOperations = (
  records: RecordStore,
  schema: CompiledSchema,
): readonly RecordOperation[] =>
  schema.history
    ? [clientList(records, schema), clientGet(records, schema), clientRestore(records, schema)]
    : [];

function clientList(records: RecordStore, schema: CompiledSchema): RecordOperation {
  const { name } = schema;
  const facts = recordFacts(schema, 'read');
  const operation = defineOperation({
    ...facts,
    id: `database.records.${name}.history`,
    method: 'GET',
    path: `/database/${name}/:id/history`,
    errors: [...facts.errors, ...readErrors],
    input: {
      params: idParams,
      query: Type.Object({ ...scopeQuery(schema).properties, ...pageQuery }),
    },
    output: versionList,
    summary: `List the earlier versions of a ${name} record`,
    description: 'For everybody who may read the record as it is now.',
    handler: async ({ caller }, { params, query }) =>
      Reply.json(await records.history.list(caller, name, params.id, query)),
  });
  return { crud: 'read', operation };
}

const versionParams = Type.Object({ ...idParams.properties, version: versionText });

function clientGet(records: RecordStore, schema: CompiledSchema): RecordOperation {
  const { name, shapes } = schema;
  const facts = recordFacts(schema, 'read');
  const operation = defineOperation({
    ...facts,
    id: `database.records.${name}.version`,
    method: 'GET',
    path: `/database/${name}/:id/history/:version`,
    errors: [...facts.errors, ...readErrors, VERSION_NOT_FOUND],
    input: {
      params: versionParams,
      query: Type.Object({ ...scopeQuery(schema).properties, compare }),
    },
    output: versionOf(shapes.record),
    summary: `Read an earlier version of a ${name} record`,
    handler: async ({ caller }, { params, query }) =>
      Reply.json(await records.history.get(caller, name, params.id, params.version, query)),
  });
  return { crud: 'read', operation };
}

function clientRestore(records: RecordStore, schema: CompiledSchema): RecordOperation {
  const { name, shapes } = schema;
  const facts = recordFacts(schema, 'update');
  const operation = defineOperation({
    ...facts,
    id: `database.records.${name}.restoreVersion`,
    method: 'POST',
    path: `/database/${name}/:id/history/:version/restore`,
    errors: [...facts.errors, ...restoreErrors],
    input: { params: versionParams, query: scopeQuery(schema), headers: ifMatch },
    output: shapes.record,
    summary: `Make a ${name} record what it was`,
    description:
      'A new version with the fields of an earlier one. Fields that you may not see or set stay as they are.',
    async handler({ caller }, { params, query, headers }) {
      const options = { ...query, ...expectedVersion(headers['if-match']) };
      return recordReply(
        await records.history.restore(caller, name, params.id, params.version, options),
      );
    },
  });
  return { crud: 'update', operation };
}

const facts = { surface: 'admin', access: 'admin', limit: standardLimit } as const;
const recordParams = Type.Object({
  schemaName: Type.String({ maxLength: 64, description: 'Name of the schema' }),
  id: Type.String({ maxLength: 1_024, description: 'Its id' }),
});
const adminVersionParams = Type.Object({ ...recordParams.properties, version: versionText });
const document = Type.Record(Type.String(), Type.Unknown(), {
  description: 'A record, in the shape of its schema',
});

export const adminHistoryOperations = (
  records: RecordStore,
  documents: Documents,
): readonly Operation[] => [
  adminList(records),
  adminGet(records),
  adminRestore(records, documents),
];

const adminList = (records: RecordStore): Operation =>
  defineOperation({
    ...facts,
    id: 'database.documents.history',
    about: { schemaName: 'schema' },
    method: 'GET',
    path: '/database/schemas/:schemaName/docs/:id/history',
    input: { params: recordParams, query: Type.Object(pageQuery) },
    output: versionList,
    errors: [schemaErrors.SCHEMA_NOT_FOUND, ...readErrors],
    summary: 'List the earlier versions of a record',
    description: 'Also of records that are gone.',
    handler: async ({ caller }, { params, query }) =>
      Reply.json(await records.history.list(caller, params.schemaName, params.id, query)),
  });

const adminGet = (records: RecordStore): Operation =>
  defineOperation({
    ...facts,
    id: 'database.documents.version',
    about: { schemaName: 'schema' },
    method: 'GET',
    path: '/database/schemas/:schemaName/docs/:id/history/:version',
    input: { params: adminVersionParams, query: Type.Object({ compare }) },
    output: versionOf(document),
    errors: [schemaErrors.SCHEMA_NOT_FOUND, ...readErrors, VERSION_NOT_FOUND],
    summary: 'Read an earlier version of a record',
    handler: async ({ caller }, { params, query }) =>
      Reply.json(
        await records.history.get(caller, params.schemaName, params.id, params.version, query),
      ),
  });

const adminRestore = (records: RecordStore, documents: Documents): Operation =>
  defineOperation({
    ...facts,
    id: 'database.documents.restoreVersion',
    about: { schemaName: 'schema' },
    method: 'POST',
    path: '/database/schemas/:schemaName/docs/:id/history/:version/restore',
    destructive: true,
    input: { params: adminVersionParams, headers: ifMatch },
    output: document,
    errors: [...restoreErrors, databaseErrors.DOCUMENTS_READ_ONLY, errors.PRECONDITION_FAILED],
    summary: 'Make a record what it was',
    description:
      'A new version with the fields of an earlier one. A record that is gone for good is made again under its id.',
    async handler({ caller }, { params, headers }) {
      const { name } = documents.writable(params.schemaName, 'modify');
      const options = expectedVersion(headers['if-match']);
      return recordReply(
        await records.history.restore(caller, name, params.id, params.version, options),
      );
    },
  });
