/** Deleting every record that fits a condition, with what its relations say and an event for each. */
import { callerKey } from '../../caller.ts';
import type { Transaction } from '../../database/database.ts';
import { MAX_AFFECTED } from '../affected.ts';
import type { Condition } from '../filter/condition.ts';
import { type RecordFilter, resolveFilter } from '../filter/resolve.ts';
import { idsTest, lockable } from '../mapped/row-id.ts';
import { type Parameters, restriction } from '../parameters.ts';
import { hasDependants, settleBefore } from '../removal.ts';
import { live } from '../soft-delete.ts';
import { eventRows, removedRows } from '../statements.ts';
import { announceEvents, runWrite, type WriteContext } from '../write-context.ts';
import { filteredStatement } from './selection.ts';
import { requireAllowed } from './update-selected.ts';

export async function removeSelected(context: WriteContext, condition: Condition): Promise<number> {
  const { schema, caller, dependencies, options } = context;
  const { scope, granted } = options;
  const filter = await resolveFilter(dependencies, { caller, schema, condition, scope, granted });
  const count = await dependencies.database.transaction(async (transaction) => {
    if (!hasDependants(context)) return removeRows(context, (parameters) => rowsText(context, filter, parameters), transaction);
    const ids = await lockRows(context, filter, transaction);
    requireAllowed(ids.length);
    await settleBefore(context, ids, transaction);
    return removeRows(context, ({ next }) => idsTest(context.schema, 't0', next(ids)), transaction);
  });
  announceEvents(dependencies);
  return count;
}

const rowsText = ({ schema, predicate }: WriteContext, filter: RecordFilter, parameters: Parameters): string =>
  `${filter.compile('t0', parameters)}${live(schema, 't0')}${restriction(predicate, 't0', parameters)}`;

/** Locked like this, nothing new can begin to refer to them. */
async function lockRows(context: WriteContext, filter: RecordFilter, transaction: Transaction): Promise<readonly string[]> {
  const { schema, dependencies } = context;
  const statement = filteredStatement(dependencies.plans, { schema }, (parameters) => {
    const where = rowsText(context, filter, parameters);
    return `select t0."_id" as id from ${lockable(schema)} t0 where ${where} order by t0."_id" limit ${MAX_AFFECTED + 1} for update of t0`;
  });
  return (await runWrite<{ id: string }>(context, statement, transaction)).map(({ id }) => id);
}

async function removeRows(context: WriteContext, where: (parameters: Parameters) => string, transaction: Transaction): Promise<number> {
  const { schema, caller, dependencies } = context;
  const statement = filteredStatement(dependencies.plans, { schema, values: [callerKey(caller)] }, (parameters) => {
    const { rows, forgotten } = removedRows(schema, where(parameters), { tuples: dependencies.permissions.tuples, many: true });
    const events = eventRows(schema, 'delete');
    return `with ${rows}, e as (${events})${forgotten} select count(*)::integer as touched from r`;
  });
  const [row] = await runWrite<{ touched: number }>(context, statement, transaction);
  requireAllowed(row?.touched ?? 0);
  return row?.touched ?? 0;
}
