/** What can go wrong with a schema. */
import { defineErrors, type PenstockError, type Problem } from '../../kernel/errors.ts';

export const schemaErrors = defineErrors({
  SCHEMA_INVALID: [400, 'The schema definition is not valid'],
  SCHEMA_NOT_FOUND: [404, 'Schema does not exist'],
  SCHEMA_EXISTS: [409, 'Schema name is already in use'],
  SCHEMA_OWNED: [403, 'This schema belongs to a module and cannot be changed here'],
  SCHEMA_TYPES_INVALID: [403, 'Invalid schema types'],
  SCHEMA_DATA_CONFLICT: [409, 'The stored records do not fit the new definition'],
  EXTENSION_CONFLICT: [409, 'The schema has such a field already'],
  EXTENSION_TARGET_MISSING: [412, 'The schema that is to be extended does not exist'],
  SCHEMA_NOT_EXTENDABLE: [403, 'This schema does not allow extensions'],
  FIELD_NOT_FOUND: [404, 'There is no such field, and no dropped field of this name'],
  FIELD_IN_USE: [409, 'The field is in use'],
  INDEX_NOT_FOUND: [404, 'There is no such index'],
  INDEX_EXISTS: [409, 'Another index has this name'],
  INDEX_OWNED: [403, 'Only the module that owns this schema can add unique indexes'],
  INDEX_BUILT_IN: [409, 'This index is part of the definition of its field: change the field'],
  TABLE_IMPORTED: [403, 'The table of this schema is your own and stays as it is'],
  SCHEMA_REFERENCED: [409, 'A view is made from this: remove it first'],
  SCHEMA_BUSY: [
    503,
    'The table is in use by a long transaction, or an index of it is being made; try again',
  ],
});

/** All problems of a definition as one 400. */
export function invalidSchema(problems: readonly Problem[]): PenstockError {
  const [first] = problems;
  const message = first ? `${first.path}: ${first.message}` : undefined;
  return schemaErrors.SCHEMA_INVALID({ ...(message && { message }), errors: problems });
}
