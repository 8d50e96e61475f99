/**
 * A user may be deleted between the check of the credential and the statement that writes something of theirs.
 * PostgreSQL then refuses the row, whichever service wrote it. To the caller this is what it would be a moment
 * later: a credential that opens nothing, or, for an operator, a user who is not there.
 */
import type { Caller } from '../caller.ts';
import { codeOf } from '../database/failures.ts';
import { errors } from '../errors.ts';

/** Foreign keys of the platform's own tables to users, as PostgreSQL names them. */
const userKeys = /_(?:user_id|invited_by)_fkey$/;

interface ForeignKeyError {
  readonly schema?: unknown;
  readonly constraint?: unknown;
}

/** Throws what the caller is told of an error; any other as it is. */
export const refusalOf =
  (caller: Caller) =>
  (error: unknown): never => {
    throw userDeletedMeanwhile(error, caller);
  };

function userDeletedMeanwhile(error: unknown, caller: Caller): unknown {
  if (codeOf(error) !== '23503') return error;
  const { schema, constraint } = error as ForeignKeyError;
  if (schema !== 'penstock' || typeof constraint !== 'string' || !userKeys.test(constraint)) return error;
  if (caller.kind === 'admin') return errors.NOT_FOUND({ message: 'There is no such user any more', cause: error });
  return caller.kind === 'system' ? error : errors.UNAUTHORIZED({ cause: error });
}
