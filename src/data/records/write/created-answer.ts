/**
 * What a write answers where fields depend on the record (`owner`, `relation:`, `action:`). The statement that writes a
 * record does not see yet who stands in which relation to it: its answer would lack what the creator has just sent, and
 * tell by the rights of before where a change gives or takes some.
 */
import type { Queryable } from '../../../kernel/database/database.ts';
import { PenstockError } from '../../../kernel/errors.ts';
import { isRowAuthorised, isTrusted, mayChangeUnread } from '../access/operation-access.ts';
import { conditionsOf } from '../read/projection.ts';
import { classOf, type RecordRow } from '../read/record-view.ts';
import type { RecordText } from '../store.ts';
import { seenAmong } from './missed-records.ts';
import { createdText } from './statements.ts';
import { answerShape, rulesOf, runWrite, type WriteContext } from './write-context.ts';

/** The records as their writer sees them now. Those that are gone again, or changed once more, stay as they were answered. */
export async function asSeen<R extends RecordText>(
  context: WriteContext,
  written: readonly R[],
): Promise<readonly RecordText[]> {
  if (context.options.idsOnly || written.length === 0) return written;
  const rows = context.conditions ? await withConditions(context, written) : written;
  return context.operation === 'update' ? asChanged(context, rows) : rows;
}

/** Changed records, as far as their changer may read them now. */
async function asChanged<R extends RecordText>(
  context: WriteContext,
  rows: readonly R[],
): Promise<readonly R[]> {
  const { caller, schema, dependencies, options } = context;
  const asked = options.action === undefined ? {} : { asked: options.action };
  return (await mayChangeUnread(dependencies.permissions, { caller, schema, ...asked }))
    ? asReadable(context, rows, dependencies.database)
    : rows;
}

/**
 * Records that were given to another owner, as far as who gave or took them may read them now. The right to give one away
 * is gone with it, so that it says nothing.
 */
export async function asMoved(
  context: WriteContext,
  rows: readonly RecordText[],
  database: Queryable,
): Promise<readonly RecordText[]> {
  const seen = context.conditions ? await withConditions(context, rows) : rows;
  return asReadable(context, seen, database);
}

async function withConditions<R extends RecordText>(
  context: WriteContext,
  written: readonly R[],
): Promise<readonly RecordText[]> {
  const { schema, caller, dependencies, populate, options } = context;
  const conditions = await conditionsOf(dependencies.permissions, {
    ...{ caller, schema, populate, scope: options.scope },
    rules: rulesOf(context),
  });
  const request = {
    schema,
    shape: `created|${answerShape({ ...context, conditions })}`,
    values: [written.map(({ id }) => id)],
    dynamic: true,
    class: classOf({ predicate: undefined, populate, conditions }),
  };
  const statement = dependencies.plans.statement(request, (parameters) =>
    createdText(schema, { populate, conditions }, parameters),
  );
  const seen = await runWrite<RecordRow>(context, statement);
  const byId = new Map(seen.map((row) => [row.id, row]));
  return written.map((row) => {
    const now = byId.get(row.id);
    return now?.version === row.version ? now : row;
  });
}

/**
 * Who changes a record, brings it back or gives it to somebody has the action for that, which need not be `read`: of a
 * record that they may not read they are answered the id alone.
 */
export async function asReadable<R extends RecordText>(
  context: WriteContext,
  rows: readonly R[],
  database: Queryable,
): Promise<readonly R[]> {
  const { caller, schema } = context;
  if (isTrusted(caller) || !isRowAuthorised(caller, schema, 'read')) return rows;
  const seen = await seenAmong(context, rows, database).catch(noneWhereRefused);
  return rows.map((row) =>
    seen.has(row.id) ? row : { ...row, json: JSON.stringify({ _id: row.id }) },
  );
}

/** Who may not read anything, or not for the scope for which they write. */
function noneWhereRefused(error: unknown): ReadonlySet<string> {
  if (error instanceof PenstockError && [401, 403].includes(error.status)) return new Set();
  throw error;
}
