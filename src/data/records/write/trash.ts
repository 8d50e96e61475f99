/** Bringing records back from the trash, and destroying what is in it. */

import type { Transaction } from '../../../kernel/database/database.ts';
import { identifier } from '../../../kernel/database/sql.ts';
import { errors, PenstockError } from '../../../kernel/errors.ts';
import { actorOf } from '../../../kernel/hooks/hooks.ts';
import { deletedColumn, inTrash } from '../../schema/compile/layout.ts';
import { recordErrors } from '../errors.ts';
import type { RecordRow } from '../read/record-view.ts';
import { changedRows, touched } from '../sql/changed-rows.ts';
import { restriction } from '../sql/prepared-statements.ts';
import { requireTrash } from '../sql/row-id.ts';
import type { RecordText } from '../store.ts';
import { neededParents, restoreDependants } from './cascade.ts';
import { asReadable } from './created-answer.ts';
import { cascadeDestroyed } from './removal.ts';
import { purgeText } from './removal-text.ts';
import { withAnswer } from './statements.ts';
import {
  announceEvents,
  answerShape,
  askGate,
  isDynamicAnswer,
  requireId,
  runWrite,
  type WriteContext,
} from './write-context.ts';

/** Makes a deleted record alive again, with what went into the trash because of it. Throws 404, 409 or 412. */
export async function restoreRecord(context: WriteContext, id: string): Promise<RecordText> {
  const { schema, dependencies } = context;
  requireTrash(schema);
  requireId(context.schema, id, 'id');
  const row = await dependencies.database.transaction(async (transaction) => {
    const deletedAt = await lockTrashed(context, id, transaction);
    const change = { schema: schema.name, operation: 'create', deleted: true } as const;
    await askGate(context, { ...change, ids: [id] });
    const restored = await bringBack(context, id, transaction);
    await restoreDependants(context, { ids: [id], deletedAt }, transaction);
    // Last: relations can run in circles, and what it needs may have come back with it.
    await requireParents(context, id, transaction);
    const [answer = restored] = await asReadable(context, [restored], transaction);
    return answer;
  });
  announceEvents(dependencies);
  return row;
}

async function lockTrashed(
  context: WriteContext,
  id: string,
  transaction: Transaction,
): Promise<Date> {
  const { schema, dependencies, predicate, options } = context;
  const request = {
    schema,
    shape: `trashed|${predicate?.shape ?? ''}`,
    values: [id],
    dynamic: predicate !== undefined,
  };
  const statement = dependencies.plans.statement(request, (parameters) => {
    const where = `t0."_id" = $1 and t0.${inTrash}${restriction(predicate, 't0', parameters)}`;
    return `select t0."${deletedColumn}" as at, t0."__v" as version from ${schema.table} t0 where ${where} for update of t0`;
  });
  const [row] = await runWrite<{ at: Date; version: number }>(context, statement, transaction);
  if (!row) throw recordErrors.TRASHED_RECORD_NOT_FOUND();
  if (options.expectedVersion !== undefined && options.expectedVersion !== row.version)
    throw errors.PRECONDITION_FAILED();
  return row.at;
}

/** A record that is alive never hangs on one that is not. The share lock keeps the other one where it is. */
async function requireParents(
  context: WriteContext,
  id: string,
  transaction: Transaction,
): Promise<void> {
  const { schema, dependencies } = context;
  for (const { column, parent } of neededParents(schema, dependencies.schemas.all())) {
    const link = `(select t.${identifier(column)} from ${schema.table} t where t."_id" = $1)`;
    const text = `select p.${inTrash} as gone from ${parent.table} p where p."_id" = ${link} for share of p`;
    const [row] = await runWrite<{ gone: boolean }>(context, { text, values: [id] }, transaction);
    if (!row?.gone) continue;
    const message = `the ${parent.name} that it refers to is in the trash: restore that first`;
    throw recordErrors.RESTORE_BLOCKED({
      message: `${column}: ${message}`,
      errors: [{ path: column, rule: 'trash', message }],
    });
  }
}

async function bringBack(
  context: WriteContext,
  id: string,
  transaction: Transaction,
): Promise<RecordRow> {
  const { schema, caller, dependencies, populate, conditions } = context;
  const values = [actorOf(caller), id];
  const request = {
    schema,
    shape: `restore|${answerShape(context)}`,
    values,
    dynamic: isDynamicAnswer(context),
  };
  const statement = dependencies.plans.statement(request, (parameters) => {
    const set = `"${deletedColumn}" = null, ${touched}`;
    const change = changedRows(schema, { set, where: 't0."_id" = $2', operation: 'restore' });
    return withAnswer(
      schema,
      change,
      { kind: 'restore', populate, conditions, many: false },
      parameters,
    );
  });
  const [row] = await runWrite<RecordRow>(context, statement, transaction);
  if (!row) throw recordErrors.TRASHED_RECORD_NOT_FOUND();
  return row;
}

/** Destroys those of the records that are in the trash, with their tuples and their history. Answers how many. Throws 409. */
export async function purgeRecords(context: WriteContext, ids: readonly string[]): Promise<number> {
  const { schema, caller, dependencies } = context;
  requireTrash(schema);
  const count = await dependencies.database.transaction(async (transaction) => {
    const text = `select t."_id" as id from ${schema.table} t where t."_id" = any($1::uuid[]) and t.${inTrash} order by t."_id" for update`;
    const rows = await runWrite<{ id: string }>(context, { text, values: [ids] }, transaction);
    const going = rows.map(({ id }) => id);
    if (going.length === 0) return 0;
    await cascadeDestroyed(context, going, transaction);
    await runWrite(
      context,
      {
        text: purgeText(schema, dependencies.permissions.tuples),
        values: [actorOf(caller), going],
      },
      transaction,
    );
    return going.length;
  });
  announceEvents(dependencies);
  return count;
}

/** Records of one page of the purge. */
const PAGE = 500;

/** Purges what was deleted more than `days` ago, page by page. What other records or hooks still hold is left for the next time. */
export async function purgeExpired(
  context: WriteContext,
  days: number,
  signal: AbortSignal,
): Promise<number> {
  const { schema } = context;
  let after = '00000000-0000-0000-0000-000000000000';
  let purged = 0;
  for (;;) {
    signal.throwIfAborted();
    const old = `t.${inTrash} and t."${deletedColumn}" < now() - make_interval(days => $2::integer)`;
    const text = `select t."_id" as id from ${schema.table} t where t."_id" > $1 and ${old} order by t."_id" limit ${PAGE}`;
    const rows = await runWrite<{ id: string }>(context, { text, values: [after, days] });
    purged += await purgePage(
      context,
      rows.map(({ id }) => id),
    );
    if (rows.length < PAGE) return purged;
    after = rows.at(-1)?.id ?? after;
  }
}

async function purgePage(context: WriteContext, ids: readonly string[]): Promise<number> {
  if (ids.length === 0) return 0;
  try {
    return await purgeRecords(context, ids);
  } catch (error) {
    if (!(error instanceof PenstockError) || error.status >= 500) throw error;
    if (ids.length === 1) return 0;
  }
  let purged = 0;
  for (const id of ids) purged += await purgePage(context, [id]);
  return purged;
}
