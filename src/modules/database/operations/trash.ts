/** Deleted records of the schemas that keep them: restoring them, and for admins looking at them and destroying them. */
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
  Reply,
  standardLimit,
} from '../../../kernel/operations/operation.ts';
import { optionalPagingQuery } from '../../../kernel/operations/paging.ts';
import { databaseErrors } from '../errors.ts';
import type { Documents } from '../services/documents.ts';
import { countQuery, cursorQuery, listFacts } from '../services/listing.ts';
import {
  idParams,
  type RecordOperation,
  readQuery,
  recordFacts,
  recordReply,
} from './record-facts.ts';

const {
  RECORD_NOT_UNIQUE,
  RECORD_IN_USE,
  DEPENDANT_LIMIT_EXCEEDED,
  WRITE_CONFLICT,
  TRASH_DISABLED,
  TRASHED_RECORD_NOT_FOUND,
  RESTORE_BLOCKED,
} = recordErrors;
const restoreErrors = [
  TRASH_DISABLED,
  TRASHED_RECORD_NOT_FOUND,
  RESTORE_BLOCKED,
  RECORD_NOT_UNIQUE,
  WRITE_CONFLICT,
];

/** The client route of one schema; none while it has no trash. Who may delete a record may bring it back. */
export function clientTrashOperations(
  records: RecordStore,
  schema: CompiledSchema,
): readonly RecordOperation[] {
  const { name, shapes } = schema;
  if (!schema.softDelete) return [];
  const facts = recordFacts(schema, 'delete');
  const operation = defineOperation({
    ...facts,
    id: `database.records.${name}.restore`,
    method: 'POST',
    path: `/database/${name}/:id/restore`,
    errors: [...facts.errors, ...restoreErrors],
    input: { params: idParams, query: readQuery(schema), headers: ifMatch },
    output: shapes.record,
    summary: `Bring a deleted ${name} record back`,
    description: 'With it comes what was deleted because of it.',
    async handler({ caller }, { params, query, headers }) {
      const options = { ...query, ...expectedVersion(headers['if-match']) };
      return recordReply(await records.trash.restore(caller, name, params.id, options));
    },
  });
  return [{ crud: 'delete', operation }];
}

const facts = { surface: 'admin', access: 'admin', limit: standardLimit } as const;
const schemaName = Type.String({ maxLength: 64, description: 'Name of the schema' });
const document = Type.Record(Type.String(), Type.Unknown(), {
  description: 'A record, in the shape of its schema',
});

export const adminTrashOperations = (
  records: RecordStore,
  documents: Documents,
): readonly Operation[] => [list(records), restore(records, documents), purge(records, documents)];

const list = (records: RecordStore): Operation =>
  defineOperation({
    ...facts,
    id: 'database.documents.list',
    about: { schemaName: 'schema' },
    method: 'GET',
    path: '/database/schemas/:schemaName/docs',
    input: {
      params: Type.Object({ schemaName }),
      query: Type.Object({
        deleted: Type.Optional(
          Type.Boolean({
            default: false,
            description: 'Records in the trash instead, with `deletedAt`',
          }),
        ),
        ...optionalPagingQuery({ maxSkip: 1_000_000_000_000 }),
        cursor: cursorQuery,
        count: countQuery,
        sort: Type.Optional(
          Type.String({
            maxLength: 512,
            description: 'Field names with spaces between them; - in front: descending',
          }),
        ),
        populate: Type.Optional(
          Type.Array(Type.String({ maxLength: 256 }), {
            maxItems: 10,
            description: 'Relations to answer as records instead of ids',
          }),
        ),
      }),
    },
    output: Type.Object({ documents: Type.Array(document), ...listFacts }),
    errors: [schemaErrors.SCHEMA_NOT_FOUND, TRASH_DISABLED],
    summary: 'List records of any schema, or what is in its trash',
    async handler({ caller }, { params, query: { sort = '', ...options } }) {
      const order = sort.split(' ').filter((term) => term !== '');
      return Reply.json(await records.list(caller, params.schemaName, { ...options, sort: order }));
    },
  });

const restore = (records: RecordStore, documents: Documents): Operation =>
  defineOperation({
    ...facts,
    id: 'database.documents.restore',
    about: { schemaName: 'schema' },
    method: 'POST',
    path: '/database/schemas/:schemaName/docs/:id/restore',
    input: {
      params: Type.Object({
        schemaName,
        id: Type.String({ maxLength: 64, description: 'Its id' }),
      }),
      headers: ifMatch,
    },
    output: document,
    errors: [databaseErrors.DOCUMENTS_READ_ONLY, ...restoreErrors, errors.PRECONDITION_FAILED],
    summary: 'Bring a deleted record back',
    async handler({ caller }, { params, headers }) {
      const { name } = documents.writable(params.schemaName, 'delete');
      return recordReply(
        await records.trash.restore(caller, name, params.id, expectedVersion(headers['if-match'])),
      );
    },
  });

const purge = (records: RecordStore, documents: Documents): Operation =>
  defineOperation({
    ...facts,
    id: 'database.documents.purge',
    about: { schemaName: 'schema' },
    method: 'POST',
    path: '/database/schemas/:schemaName/docs/purge',
    destructive: true,
    input: {
      params: Type.Object({ schemaName }),
      body: Type.Object({
        ids: Type.Array(Type.String({ format: 'uuid' }), {
          minItems: 1,
          maxItems: 1_000,
          description: 'Their ids',
        }),
      }),
    },
    output: Type.Object({
      purged: Type.Integer({
        minimum: 0,
        description: 'Records that were in the trash and are gone now',
      }),
    }),
    errors: [
      databaseErrors.DOCUMENTS_READ_ONLY,
      TRASH_DISABLED,
      RECORD_IN_USE,
      DEPENDANT_LIMIT_EXCEEDED,
      WRITE_CONFLICT,
    ],
    summary: 'Destroy records that are in the trash, with their earlier versions',
    async handler({ caller }, { params, body }) {
      const { name } = documents.writable(params.schemaName, 'delete');
      return { purged: await records.trash.purge(caller, name, body.ids) };
    },
  });
