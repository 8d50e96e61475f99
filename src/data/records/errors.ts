/** What can go wrong with a record, and what PostgreSQL's refusals mean. */
import { codeOf } from '../../kernel/database/failures.ts';
import { defineErrors, errors, type PenstockError, type Problem } from '../../kernel/errors.ts';
import type { CompiledSchema } from '../schema/compile/compiled.ts';
import { refusedAnswer } from './answer-bytes.ts';
import { externalReadError, externalWriteError } from './external-table-errors.ts';

export const recordErrors = defineErrors({
  RECORD_INVALID: [400, 'The record is not valid'],
  RECORD_LIMIT_EXCEEDED: [
    400,
    'More records fit than one request can hold: ask for a page, or narrow the filter',
  ],
  COUNT_TIMEOUT: [
    422,
    'These are too many records to be counted exactly in the time of a list: ask with count=estimated, or count=none',
  ],
  RECORD_NOT_FOUND: [404, 'Document does not exist'],
  RECORD_NOT_UNIQUE: [409, 'Another record has this value already'],
  RECORD_IN_USE: [409, 'Other records refer to this one'],
  DEPENDANT_LIMIT_EXCEEDED: [
    409,
    'More records depend on this one than one request may delete or change: delete those first',
  ],
  TRASH_DISABLED: [404, 'This schema does not keep deleted records'],
  TRASHED_RECORD_NOT_FOUND: [404, 'There is no such record in the trash'],
  RESTORE_REQUIRED: [409, 'A deleted record has this id: restore or purge that first'],
  ID_IN_USE: [409, 'This id was that of a record whose history is kept: choose another one'],
  RESTORE_BLOCKED: [409, 'The record refers to one that is in the trash'],
  HISTORY_DISABLED: [404, 'This schema does not keep earlier versions of its records'],
  VERSION_NOT_FOUND: [404, 'There is no such version of the record'],
  FIELD_FORBIDDEN: [403, 'You may not set this field'],
  WRITE_CONFLICT: [409, 'Somebody else changed the same records; try again'],
  POPULATE_FORBIDDEN: [403, 'You may not read this relation'],
  PERMISSIONS_UNAVAILABLE: [
    503,
    'This schema needs the authorization module, which is not running',
  ],
});

/** All problems of a record as one 400. */
export function invalidRecord(problems: readonly Problem[]): PenstockError {
  const [first] = problems;
  const message = first ? `${first.path}: ${first.message}` : undefined;
  return recordErrors.RECORD_INVALID({ ...(message && { message }), errors: problems });
}

/** One 403 for fields that the caller may not set, by their places. */
export function fieldsForbidden(paths: readonly string[]): PenstockError {
  const message = 'you may not set this field';
  const problems = paths.map((path) => ({ path, rule: 'access', message }));
  return recordErrors.FIELD_FORBIDDEN({
    message: `${paths.join(', ')}: ${message}`,
    errors: problems,
  });
}

/** The statement that was refused. */
export interface RefusedWrite {
  readonly schema: CompiledSchema;
  readonly deleting: boolean;
  /** The caller knows hidden fields: their names may be told. */
  readonly seesHidden: boolean;
  readonly schemas: () => readonly CompiledSchema[];
}

/** Turns the refusal of a statement into an error of the catalogue; anything else comes back as it is. */
export function recordError(error: unknown, refused: RefusedWrite): unknown {
  const { constraint = '' } = error as { constraint?: string };
  switch (codeOf(error)) {
    case '23505':
      return uniqueError(refused, constraint, error);
    case '23503':
    // Tables of others may say RESTRICT.
    case '23001':
      return relationError(refused, constraint, error);
    case '23502':
      return missingError(refused.schema, error);
    case '22003':
    case '54000':
      return recordErrors.RECORD_INVALID({
        message: 'A value is too large for its field',
        cause: error,
      });
    case '22P02':
      return refusedAnswer(error) ?? otherError(error, refused);
    case '40001':
    case '40P01':
      return recordErrors.WRITE_CONFLICT({ retryAfter: 1, cause: error });
    // The table or a column went away between the reading of the schema and the statement.
    case '42P01':
    case '42703':
      return refused.schema.mapping
        ? externalReadError(refused.schema, error)
        : changedMeanwhile(error);
    default:
      return otherError(error, refused);
  }
}

const otherError = (error: unknown, { schema }: RefusedWrite): unknown =>
  schema.mapping
    ? externalWriteError(schema.mapping, error, schema.modelOptions.conduit.triggerMessages)
    : error;

/** The schema was changed between the reading of it and the statement. */
const changedMeanwhile = (cause: unknown): PenstockError =>
  recordErrors.WRITE_CONFLICT({
    message: 'The schema was changed at this moment; try again',
    retryAfter: 1,
    cause,
  });

function missingError({ mapping, layout }: CompiledSchema, cause: unknown): PenstockError {
  const { column = '' } = cause as { column?: string };
  // What a record is checked for is there: the field has become required since the schema was read.
  if (!mapping && !layout.columns[column]?.notNull) return changedMeanwhile(cause);
  const [path] = mapping
    ? (Object.entries(mapping.columns).find(([, mapped]) => mapped.column === column) ?? [])
    : [column];
  if (path === undefined)
    return recordErrors.RECORD_INVALID({ message: 'A required field is missing', cause });
  const problems = [{ path, rule: 'required', message: 'is required' }];
  return recordErrors.RECORD_INVALID({ message: `${path}: is required`, errors: problems, cause });
}

/** Which hidden field has a value that somebody else has is not told: the answer would say what others keep there. */
function uniqueError(
  { schema, seesHidden }: RefusedWrite,
  constraint: string,
  cause: unknown,
): PenstockError {
  // What is not declared is the key of a table of ours, and may be any expression in a table of others.
  const columns = schema.layout.indexes[constraint]?.columns ?? (schema.mapping ? [] : ['_id']);
  const isHidden = columns.some(
    (column) => schema.tree.fields.get(column.split('.', 1)[0] ?? '')?.hidden === true,
  );
  if (columns.length === 0 || (isHidden && !seesHidden))
    return recordErrors.RECORD_NOT_UNIQUE({ cause });
  const message = 'another record has this value already';
  const problems = columns.map((path) => ({ path, rule: 'unique', message }));
  return recordErrors.RECORD_NOT_UNIQUE({
    message: `${columns.join(', ')}: ${message}`,
    errors: problems,
    cause,
  });
}

/** In tables of others several foreign keys may have one name. */
function holderOf(
  constraint: string,
  schemas: readonly CompiledSchema[],
  cause: unknown,
): CompiledSchema | undefined {
  const { schema, table } = cause as { readonly schema?: string; readonly table?: string };
  const [first, ...others] = schemas.filter(({ layout }) => layout.foreignKeys[constraint]);
  if (others.length === 0) return first;
  return [first, ...others].find(
    (one) => one?.mapping?.source.schema === schema && one?.mapping?.source.name === table,
  );
}

/** Deleting: records that point here are in the way. Writing: the record points to nothing. */
function relationError(
  { schema, deleting, schemas }: RefusedWrite,
  constraint: string,
  cause: unknown,
): PenstockError {
  if (deleting) {
    const holder = holderOf(constraint, schemas(), cause);
    const message = holder ? `Records of ${holder.name} refer to this one` : undefined;
    return recordErrors.RECORD_IN_USE({ ...(message && { message }), cause });
  }
  const key = schema.layout.foreignKeys[constraint];
  // A foreign key of a table of others that is no relation: of several columns, or to something that is not an id.
  const fields = key ? [key.column] : (schema.mapping?.rules[constraint] ?? []);
  if (fields.length === 0) return errors.CONFLICT({ cause });
  const message = key
    ? `there is no such record of ${key.target}`
    : 'there is no row that this refers to';
  const problems = fields.map((path) => ({ path, rule: 'relation', message }));
  return recordErrors.RECORD_INVALID({
    message: `${fields.join(', ')}: ${message}`,
    errors: problems,
    cause,
  });
}
