/** What can go wrong with a schema. */
import { defineErrors, type PenstockError, type Problem } from '../errors.ts';

export const schemaErrors = defineErrors({
  SCHEMA_INVALID: [400, 'The schema definition is not valid'],
  SCHEMA_NOT_FOUND: [404, 'Schema does not exist'],
  SCHEMA_EXISTS: [409, 'Schema name is already in use'],
  SCHEMA_OWNED: [403, 'This schema belongs to a module and cannot be changed here'],
  INVALID_SCHEMA_TYPES: [403, 'Invalid schema types'],
  SCHEMA_DATA_CONFLICT: [409, 'The stored records do not fit the new definition'],
  SCHEMA_BUSY: [503, 'The table is in use by a long transaction; try again'],
});

/** All faults of a definition as one 400. */
export function invalidSchema(problems: readonly Problem[]): PenstockError {
  const [first] = problems;
  const message = first ? `${first.path}: ${first.message}` : undefined;
  return schemaErrors.SCHEMA_INVALID({ ...(message && { message }), errors: problems });
}
