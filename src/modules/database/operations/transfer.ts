/** Rows out of a schema and into it, in any number (spec/database.md 9, row 20). */
import { join } from 'node:path';
import Type from 'typebox';
import { recordErrors } from '../../../data/records/errors.ts';
import type { RecordStore } from '../../../data/records/store.ts';
import type { CompiledSchema } from '../../../data/schema/compile/compiled.ts';
import { schemaErrors } from '../../../data/schema/errors.ts';
import type { SchemaRegistry } from '../../../data/schema/registry/registry.ts';
import type { Caller } from '../../../kernel/caller.ts';
import type { Database } from '../../../kernel/database/database.ts';
import { errors, invalid } from '../../../kernel/errors.ts';
import {
  defineOperation,
  type Operation,
  Reply,
  standardLimit,
} from '../../../kernel/operations/operation.ts';
import type { BodyStream } from '../../../kernel/operations/operation-input.ts';
import { maxReferenceLength } from '../../../kernel/permissions.ts';
import { databaseErrors } from '../errors.ts';
import type { Documents } from '../services/documents.ts';
import { exportRows } from '../services/transfer/export.ts';
import { type ImportRequest, importRows } from '../services/transfer/import.ts';
import { createReportBuilder, progressLines } from '../services/transfer/report.ts';
import {
  contentTypes,
  delimiters,
  type Format,
  formats,
  uploadTypes,
} from '../services/transfer/rows.ts';

export interface TransferParts {
  readonly records: RecordStore;
  readonly schemas: SchemaRegistry;
  readonly database: Database;
  readonly documents: Documents;
  readonly settings: { readonly dataDir: string };
}

export const transferOperations = (parts: TransferParts): readonly Operation[] => [
  exportOperation(parts),
  importOperation(parts),
];

const facts = {
  surface: 'admin',
  access: 'admin',
  limit: standardLimit,
  mcp: false,
  idempotency: false,
} as const;
/** Bounded by their own counts of rows and bytes, and done in pieces. */
const unbounded = {
  statements: Number.POSITIVE_INFINITY,
  lockedRows: Number.POSITIVE_INFINITY,
  bytesOut: Number.POSITIVE_INFINITY,
};
const minute = 60_000;
/** Bytes. */
const UPLOAD_LIMIT = 4 * 1_024 ** 3;

const params = Type.Object({
  schemaName: Type.String({ maxLength: 64, description: 'Name of the schema' }),
});
const delimiter = Type.Optional(
  Type.Enum(Object.keys(delimiters) as (keyof typeof delimiters)[], {
    default: 'comma',
    description: 'What stands between the cells of a CSV file',
  }),
);

const ExportQuery = Type.Object({
  format: Type.Optional(Type.Enum(formats, { default: 'jsonl' })),
  query: Type.Optional(
    Type.Record(Type.String(), Type.Unknown(), {
      description: 'Conditions in the operator language, as JSON text',
    }),
  ),
  select: Type.Optional(
    Type.Array(Type.String({ maxLength: 64 }), {
      minItems: 1,
      maxItems: 1_000,
      description: 'Fields; all unless given',
    }),
  ),
  sort: Type.Optional(
    Type.Array(Type.String({ maxLength: 64 }), {
      maxItems: 8,
      description: 'Fields; - in front: descending',
    }),
  ),
  delimiter,
  safe: Type.Optional(
    Type.Literal('spreadsheet', {
      description: 'CSV: the same as escapeFormulas, for files that people open in a spreadsheet',
    }),
  ),
  escapeFormulas: Type.Optional(
    Type.Boolean({
      default: false,
      description: "CSV: put ' in front of text that a spreadsheet would run (=, +, -, @)",
    }),
  ),
});

const exportOperation = ({ records, schemas }: TransferParts): Operation =>
  defineOperation({
    ...facts,
    id: 'database.documents.export',
    about: { schemaName: 'schema' },
    method: 'GET',
    path: '/database/schemas/:schemaName/docs/export',
    deadlineMs: 30 * minute,
    heavy: true,
    account: unbounded,
    input: {
      params,
      query: ExportQuery,
    },
    output: Type.String({ contentMediaType: 'application/jsonl' }),
    streams: { 'text/csv': 'RFC 4180, with the names of the fields in the first line' },
    errors: [schemaErrors.SCHEMA_NOT_FOUND, recordErrors.RECORD_INVALID],
    summary: 'Export records of any schema',
    description:
      'Made while it is sent, from one moment. Hidden fields are left out. Ends early only with the connection.',
    handler(
      { caller, signal },
      { params: { schemaName }, query: { format = 'jsonl', query = {}, ...options } },
    ) {
      const schema = schemas.get(schemaName);
      if (!schema) throw schemaErrors.SCHEMA_NOT_FOUND();
      const {
        delimiter: between = 'comma',
        safe,
        escapeFormulas: escaping = false,
        select,
        sort,
      } = options;
      const escapeFormulas = escaping || safe === 'spreadsheet';
      const rows = exportRows(records, {
        caller,
        schema,
        format,
        query,
        delimiter: between,
        escapeFormulas,
        select,
        sort,
        signal,
      });
      return Reply.stream(contentTypes[format], rows, {
        'content-disposition': `attachment; filename="${schema.name}.${format}"`,
      });
    },
  });

const count = Type.Integer({ minimum: 0 });

const ImportAnswer = Type.Object({
  read: Type.Integer({ minimum: 0, description: 'Rows of the upload' }),
  created: count,
  updated: count,
  failed: Type.Integer({ minimum: 0, description: 'Rows that were not stored' }),
  dryRun: Type.Boolean({ description: 'True: nothing was stored' }),
  errors: Type.Array(
    Type.Object({
      line: Type.Integer({
        minimum: 0,
        description: 'From 1; 0 where the database could not say which',
      }),
      field: Type.String({ description: 'Empty: the row as a whole' }),
      rule: Type.String(),
      message: Type.String(),
    }),
    { description: 'The first 100' },
  ),
  truncated: Type.Boolean({ description: 'True: there are more errors than are listed' }),
});

const ImportQuery = Type.Object({
  format: Type.Optional(
    Type.Enum(formats, { description: 'Unless given, the content type says it' }),
  ),
  mode: Type.Optional(
    Type.Enum(['insert', 'upsert'], {
      default: 'insert',
      description: '`upsert`: a row whose `_id` is there changes that record',
    }),
  ),
  atomic: Type.Optional(
    Type.Boolean({
      default: true,
      description: 'All rows or none. Otherwise what is valid is stored, and the rest reported',
    }),
  ),
  dryRun: Type.Optional(
    Type.Boolean({
      default: false,
      description: 'Says what would happen, and changes nothing',
    }),
  ),
  owner: Type.Optional(
    Type.String({
      minLength: 1,
      maxLength: maxReferenceLength,
      description: 'Who will own the new records, as <Type>:<id>; nobody unless given',
    }),
  ),
  delimiter,
});

/** Uploads at once: each may take as much of the disk as there is of it, and a transaction for as long as its rows take. */
const MAX_IMPORTS = 2;
/** Seconds. */
const RETRY_AFTER = 30;

const NDJSON = 'application/x-ndjson';

/** Refuses with 503 what is one import too many. */
function createImportGuard() {
  let running = 0;
  return async <T>(work: () => Promise<T>): Promise<T> => {
    if (running >= MAX_IMPORTS)
      throw errors.UNAVAILABLE({
        message: `${MAX_IMPORTS} imports are running: wait for one of them`,
        retryAfter: RETRY_AFTER,
      });
    running++;
    try {
      return await work();
    } finally {
      running--;
    }
  };
}

function importOperation(parts: TransferParts): Operation {
  const guarded = createImportGuard();
  return defineOperation({
    ...facts,
    id: 'database.documents.import',
    about: { schemaName: 'schema', owner: 'open' },
    method: 'POST',
    path: '/database/schemas/:schemaName/docs/import',
    bodyLimit: UPLOAD_LIMIT,
    deadlineMs: 60 * minute,
    heavy: true,
    account: unbounded,
    input: {
      params,
      query: ImportQuery,
      headers: Type.Object({ accept: Type.Optional(Type.String({ maxLength: 1_024 })) }),
      stream: {
        contentTypes: [...uploadTypes.keys()],
        description: 'Rows as CSV or JSON lines, in UTF-8.',
      },
    },
    output: ImportAnswer,
    streams: {
      [NDJSON]:
        'With `Accept: application/x-ndjson`: lines `{"progress":{...}}`, then one `{"result":{...}}` or `{"error":{...}}`',
    },
    errors: [
      databaseErrors.DOCUMENTS_READ_ONLY,
      databaseErrors.IMPORT_REFUSED,
      recordErrors.WRITE_CONFLICT,
      recordErrors.PERMISSIONS_UNAVAILABLE,
    ],
    summary: 'Import records into any schema',
    description:
      'Each row passes the validation of every other writer and leaves one event. `_id`, `createdAt` and `updatedAt` are kept where rows have them.',
    async handler({ caller, signal }, { params: { schemaName }, query, headers, stream }) {
      const {
        mode = 'insert',
        atomic = true,
        dryRun = false,
        delimiter: between = 'comma',
        owner,
      } = query;
      const schema = writable(parts, schemaName, mode);
      requireOwnable(schema, owner);
      const builder = createReportBuilder();
      const { records, database, settings } = parts;
      const spoolFolder = join(settings.dataDir, 'uploads');
      const target: Target = { caller, schema, mode, owner, delimiter: between, atomic, dryRun };
      const format = formatOf(query.format, stream);
      const request = { ...target, records, database, signal, chunks: stream, format, spoolFolder };
      const work = () => guarded(() => importRows(request, builder));
      if (!(headers.accept ?? '').includes(NDJSON)) return work();
      return Reply.stream(`${NDJSON}; charset=utf-8`, progressLines(work, builder));
    },
  });
}

type Target = Omit<
  ImportRequest,
  'records' | 'database' | 'signal' | 'chunks' | 'format' | 'spoolFolder'
> & {
  readonly caller: Caller;
};

function writable(
  { documents }: TransferParts,
  name: string,
  mode: 'insert' | 'upsert',
): CompiledSchema {
  const schema = documents.writable(name, 'create');
  return mode === 'upsert' ? documents.writable(schema.name, 'modify') : schema;
}

/** Throws 400 for an owner of records that nobody can own. */
function requireOwnable({ name, modelOptions }: CompiledSchema, owner: string | undefined): void {
  if (owner === undefined || modelOptions.conduit.authorization.enabled) return;
  throw invalid(
    'owner',
    'authorization',
    `${name} has no row authorization, so nobody owns its records`,
  );
}

function formatOf(asked: Format | undefined, { contentType }: BodyStream): Format {
  const format = asked ?? uploadTypes.get(contentType);
  if (format) return format;
  throw invalid(
    'format',
    'required',
    `is required: ${contentType} does not say how the rows are written`,
  );
}
