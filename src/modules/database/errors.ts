/** Errors of the database module beyond those of schemas and records. */
import { defineErrors } from '../../kernel/errors.ts';

export const databaseErrors = defineErrors({
  AUTHORIZATION_MISSING: [
    412,
    'Row authorization needs the authorization module, which is not running',
  ],
  ADOPTION_MISSING: [
    400,
    'This schema has records: say in authorization.mode whether they get owners (assignOwner, with ownerField) or are left to operators (leaveUnowned)',
  ],
  VECTOR_UNSUPPORTED: [
    412,
    'Vector indexes are not available here: searches look at every vector that fits the filter, and are exact',
  ],
  VECTOR_INDEX_NOT_FOUND: [404, 'There is no such vector index'],
  SCHEMA_IN_USE: [409, 'Custom endpoints use this schema: remove them first'],
  ENDPOINT_INVALID: [400, 'The custom endpoint is not valid'],
  ENDPOINT_NOT_FOUND: [404, 'Custom endpoint does not exist'],
  ENDPOINT_EXISTS: [409, 'Another custom endpoint has this name'],
  EMPTY_FILTER: [
    400,
    'The filter is empty without its optional inputs: give at least one. A write to all records is not allowed',
  ],
  DOCUMENTS_READ_ONLY: [404, 'Schema does not exist or disallows doc modifications'],
  PENDING_SCHEMA_NOT_FOUND: [404, 'Pending schema does not exist'],
  INTROSPECTION_RUNNING: [409, 'Another introspection is running; try again when it is done'],
  TABLE_LIMIT_EXCEEDED: [
    400,
    'There are more than 2,000 tables: name fewer schemas in introspection.schemas and go step by step',
  ],
  NAME_EXISTS: [409, 'Schemas refer to this table by another name'],
  IMPORT_REFUSED: [400, 'Nothing was stored: some rows are not valid'],
  WRONG_FIELDS: [404, 'Wrong input fields!'],
});
