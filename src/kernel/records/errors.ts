/** What can go wrong with a record, and what PostgreSQL's refusals mean. */
import { codeOf } from '../database/failures.ts';
import { defineErrors, errors, type PenstockError, type Problem } from '../errors.ts';
import type { CompiledSchema } from '../schema/compiled.ts';
import { schemaErrors } from '../schema/errors.ts';

export const recordErrors = defineErrors({
  RECORD_INVALID: [400, 'The record is not valid'],
  TOO_MANY_RECORDS: [400, 'More records fit than one request can hold: ask for a page, or narrow the filter'],
  RECORD_NOT_FOUND: [404, 'Document does not exist'],
  RECORD_NOT_UNIQUE: [409, 'Another record has this value already'],
  RECORD_IN_USE: [409, 'Other records refer to this one'],
  WRITE_CONFLICT: [409, 'Somebody else changed the same records; try again'],
  POPULATE_FORBIDDEN: [403, 'You may not read this relation'],
  PERMISSIONS_UNAVAILABLE: [503, 'This schema needs the authorization module, which is not running'],
});

/** All faults of a record as one 400. */
export function invalidRecord(problems: readonly Problem[]): PenstockError {
  const [first] = problems;
  const message = first ? `${first.path}: ${first.message}` : undefined;
  return recordErrors.RECORD_INVALID({ ...(message && { message }), errors: problems });
}

/** The statement that was refused. */
export interface RefusedWrite {
  readonly schema: CompiledSchema;
  readonly deleting: boolean;
  readonly schemas: () => readonly CompiledSchema[];
}

/** Turns the refusal of a statement into an error of the catalogue; anything else comes back as it is. */
export function recordError(error: unknown, refused: RefusedWrite): unknown {
  const { constraint = '' } = error as { constraint?: string };
  switch (codeOf(error)) {
    case '23505':
      return uniqueError(refused.schema, constraint, error);
    case '23503':
      return relationError(refused, constraint, error);
    case '23502':
      return recordErrors.RECORD_INVALID({ message: 'A required field is missing', cause: error });
    case '22003':
    case '54000':
      return recordErrors.RECORD_INVALID({ message: 'A value is too large for its field', cause: error });
    case '40001':
    case '40P01':
      return recordErrors.WRITE_CONFLICT({ retryAfter: 1, cause: error });
    // The table or a column went away between the reading of the schema and the statement.
    case '42P01':
    case '42703':
      return schemaErrors.SCHEMA_NOT_FOUND({ message: 'The schema was changed at this moment; try again', cause: error });
    default:
      return error;
  }
}

function uniqueError(schema: CompiledSchema, constraint: string, cause: unknown): PenstockError {
  const columns = schema.layout.indexes[constraint]?.columns ?? ['_id'];
  const message = 'another record has this value already';
  const problems = columns.map((path) => ({ path, rule: 'unique', message }));
  return recordErrors.RECORD_NOT_UNIQUE({ message: `${columns.join(', ')}: ${message}`, errors: problems, cause });
}

/** Deleting: records that point here are in the way. Writing: the record points to nothing. */
function relationError({ schema, deleting, schemas }: RefusedWrite, constraint: string, cause: unknown): PenstockError {
  if (deleting) {
    const holder = schemas().find(({ layout }) => layout.foreignKeys[constraint]);
    const message = holder ? `Records of ${holder.name} refer to this one` : undefined;
    return recordErrors.RECORD_IN_USE({ ...(message && { message }), cause });
  }
  const key = schema.layout.foreignKeys[constraint];
  if (!key) return errors.CONFLICT({ cause });
  const message = `there is no such record of ${key.target}`;
  const problems = [{ path: key.column, rule: 'relation', message }];
  return recordErrors.RECORD_INVALID({ message: `${key.column}: ${message}`, errors: problems, cause });
}
