/** Refusals that only tables of others know: their types, rules, triggers and rights. */
import { codeOf } from '../../kernel/database/failures.ts';
import { defineErrors, errors, type PenstockError } from '../../kernel/errors.ts';
import { shortened, storable } from '../../kernel/text.ts';
import type { CompiledSchema } from '../schema/compile/compiled.ts';
import { schemaErrors } from '../schema/errors.ts';
import type { TableMapping } from '../schema/mapping/table-mapping.ts';

export const externalTableErrors = defineErrors({
  TABLE_READ_ONLY: [
    403,
    'This schema shows a view, or a table without a key: its records can only be read',
  ],
  CONSTRAINT_VIOLATED: [400, 'The record breaks a rule of the table'],
  TABLE_ACCESS_DENIED: [403, 'The database does not let the platform do this'],
  TABLE_READ_FAILED: [
    422,
    'The database cannot read this table: its definition or its data is not right',
  ],
});

/**
 * Classes of errors that lie in how a table is made or in what it holds: a subquery of several rows (21), values that
 * are not what they are read as (22), functions (2F, 38, 39, P0), foreign servers (HV).
 */
const classesOfTables: ReadonlySet<string> = new Set(['21', '22', '2F', '38', '39', 'HV', 'P0']);
/** Views and policies that lead to themselves (invalid_object_definition, invalid_recursion, statement_too_complex), and a file that is gone. */
const statesOfTables: ReadonlySet<string> = new Set(['42P17', '42P19', '54001', '58P01']);

const isOfTable = (code: string): boolean =>
  code.length === 5 && (classesOfTables.has(code.slice(0, 2)) || statesOfTables.has(code));

/** What a failed read means: tables of others come and go without asking us. Anything else comes back as it is. */
export function externalReadError(schema: CompiledSchema, error: unknown): unknown {
  const code = codeOf(error) ?? '';
  switch (code) {
    // undefined_table, undefined_column, undefined_function (a type has changed)
    case '42P01':
    case '42703':
    case '42883':
      return schemaErrors.SCHEMA_NOT_FOUND({
        message: 'The table is not what it was: introspect it again, and finalise it',
        cause: error,
      });
    case '42501':
      return externalTableErrors.TABLE_ACCESS_DENIED({ cause: error });
    // object_not_in_prerequisite_state: a materialized view that was never filled
    case '55000':
      // or a foreign table whose server cannot be asked
      return schema.mapping?.kind === 'foreign'
        ? readFailed(schema, error)
        : errors.UNAVAILABLE({ message: 'The view has no data yet', cause: error });
    default:
      return isOfTable(code) ? readFailed(schema, error) : error;
  }
}

/** Operators are told what PostgreSQL says in any case: it may quote values. */
function readFailed(
  { name, mapping, modelOptions }: CompiledSchema,
  cause: unknown,
): PenstockError {
  const kind = mapping?.kind === 'view' || mapping?.kind === 'materialized' ? 'view' : 'table';
  const said = messageOf(cause);
  const message = `${name}: the database cannot read this ${kind}`;
  const source = mapping ? `${mapping.source.schema}.${mapping.source.name}: ` : '';
  return externalTableErrors.TABLE_READ_FAILED({
    message: modelOptions.conduit.triggerMessages && said ? `${message}: ${said}` : message,
    detail: `${source}${said} (${codeOf(cause)})`,
    cause,
  });
}

/** Turns the refusal into an error of the catalogue; anything else comes back as it is. */
export function externalWriteError(
  { rules }: TableMapping,
  error: unknown,
  triggerMessages = false,
): unknown {
  const { constraint = '' } = error as { constraint?: string };
  const code = codeOf(error) ?? '';
  switch (code) {
    // check_violation, exclusion_violation
    case '23514':
    case '23P01': {
      const fields = (Object.hasOwn(rules, constraint) && rules[constraint]) || [];
      const problems = fields.map((path) => ({
        path,
        rule: 'check',
        message: 'breaks a rule of the table',
      }));
      const message =
        fields.length > 0 ? `${fields.join(', ')}: breaks a rule of the table` : undefined;
      return externalTableErrors.CONSTRAINT_VIOLATED({
        ...(message && { message, errors: problems }),
        cause: error,
      });
    }
    // insufficient_privilege
    case '42501':
      return externalTableErrors.TABLE_ACCESS_DENIED({ cause: error });
    // raise_exception: a trigger had something to say; the operator decides whether it is for callers.
    case 'P0001':
      return triggerMessages ? triggerError(error) : refusedByDatabase(error);
    // feature_not_supported: a rule of the table does something else instead, and gives no row back.
    case '0A000':
      return refusedByDatabase(error);
    default:
      // A value that does not fit its type: too long, out of range, no such date.
      if (code.startsWith('22'))
        return externalTableErrors.CONSTRAINT_VIOLATED({
          message: 'A value does not fit its column',
          cause: error,
        });
      if (!isOfTable(code)) return error;
      return triggerMessages ? triggerError(error) : refusedByDatabase(error);
  }
}

const refusedByDatabase = (cause: unknown): PenstockError =>
  errors.CONFLICT({ message: 'The database refused the record', cause });

/** Characters of what a trigger says that callers are told. */
const MAX_TOLD = 1_000;

/** The message of a trigger and its hint (`raise exception '...' using hint = '...'`); details stay in the log. */
function triggerError(cause: unknown): PenstockError {
  const message = messageOf(cause);
  return message ? errors.CONFLICT({ message, cause }) : refusedByDatabase(cause);
}

/** Message and hint of PostgreSQL; empty where there is none. */
function messageOf(cause: unknown): string {
  const { message, hint } = cause as { message?: unknown; hint?: unknown };
  const [said, advice] = [message, hint].map((text) =>
    typeof text === 'string' ? storable(shortened(text, MAX_TOLD)) : '',
  );
  return said && advice ? `${said} (${advice})` : (said ?? '');
}
