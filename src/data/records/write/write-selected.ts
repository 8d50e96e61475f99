/** Changing every record that fits a condition, as one statement with an event for each. */

import type { Transaction } from '../../../kernel/database/database.ts';
import { actorOf } from '../../../kernel/hooks/hooks.ts';
import { currentAccount } from '../../../kernel/request-account/request-account.ts';
import type { Condition } from '../../conditions/condition.ts';
import { invalidRecord, recordErrors } from '../errors.ts';
import { type RecordFilter, resolveFilter } from '../filter/record-filter.ts';
import { filteredStatement } from '../read/selection.ts';
import { updatedRows, withKeptParts } from '../sql/changed-rows.ts';
import { type Parameters, restriction } from '../sql/prepared-statements.ts';
import { allRows, idsTest, live } from '../sql/row-id.ts';
import type { Assignment, MeantOptions, MeantRecord } from '../store.ts';
import {
  assignmentTexts,
  type BoundAssignment,
  bindAssignments,
  referenceSources,
  resultRules,
  runAssigned,
} from './assignments.ts';
import { WRITE_LIMIT } from './cascade.ts';
import { placedChange, requirePlacement } from './placement.ts';
import {
  comparedFields,
  eventFieldsOf,
  eventText,
  type MovedRows,
  movedColumn,
} from './placement-text.ts';
import { requireReferences } from './references.ts';
import { cascadeBeforeRemoval, hasDependants, mayGainRelations } from './removal.ts';
import { removedRows } from './removal-text.ts';
import { eventRows } from './statements.ts';
import { announceEvents, runWrite, type WriteContext } from './write-context.ts';
import { requireSettable, settableRows } from './write-rights.ts';

interface Outcome extends MovedRows {
  readonly touched: number;
  /** For each rule about results whether some row breaks it. */
  readonly broken: readonly (boolean | null)[];
}

export async function updateSelected(
  context: WriteContext,
  condition: Condition,
  changes: readonly Assignment[],
): Promise<number> {
  const { schema, caller, dependencies, options } = context;
  const given = Object.fromEntries(changes.map(({ field, value }) => [field, value]));
  requireSettable(context, [{ input: given, place: '' }]);
  const assignments = bindAssignments(schema, changes);
  const predicate = settableRows(
    context,
    changes.map(({ field }) => field),
  );
  const { scope, granted } = options;
  const filter = await resolveFilter(dependencies, { caller, schema, condition, scope, granted });
  const rules = resultRules(assignments);
  const placed = await placedChange(context, Object.keys(given));
  const compare = placed?.compared;
  const eventFields = eventFieldsOf(schema, dependencies.permissions, Object.keys(given));
  const statement = filteredStatement(
    dependencies.plans,
    { schema, values: [actorOf(caller)] },
    (parameters) => {
      const texts = [...assignmentTexts(assignments, parameters)];
      const values = texts.map(
        ([name, text]) => [name, withKeptParts(schema, name, text)] as const,
      );
      const where = `${filter.compile('t0', parameters)}${live(schema, 't0')}${restriction(predicate, 't0', parameters)}`;
      const change = updatedRows(schema, values, {
        where,
        operation: 'update',
        many: true,
        compare: comparedFields(compare, eventFields),
      });
      const broken = rules.map((rule) => `bool_or(${rule.broken(parameters)})`).join(', ');
      return (
        `with ${change}, e as (${eventRows(schema, 'update')})${eventText(schema, eventFields, 'changed')} ` +
        `select count(*)::integer as touched, array[${broken}]::boolean[] as broken${compare ? `, ${movedColumn(schema, compare)}` : ''} from r`
      );
    },
  );
  const outcome = await dependencies.database.transaction(async (transaction) => {
    await requireKnownLinks(context, assignments);
    const [row] = await runAssigned(assignments, () =>
      runWrite<Outcome>(context, statement, transaction),
    );
    requireAllowed(row?.touched ?? 0);
    const problems = rules
      .filter((_, i) => row?.broken[i])
      .map(({ place, rule, message }) => ({ path: place, rule, message }));
    if (problems.length > 0) throw invalidRecord(problems);
    if (placed && row) await requirePlacement(context, placed, [row], { database: transaction });
    return row?.touched ?? 0;
  });
  announceEvents(dependencies);
  return outcome;
}

/** The records that such a change, or a deletion, would be about now. */
export async function meantRecords(
  context: WriteContext,
  { filter: condition, fields = [], among, limit }: MeantOptions,
): Promise<readonly MeantRecord[]> {
  const { schema, caller, dependencies, options } = context;
  const { scope, granted } = options;
  const filter = await resolveFilter(dependencies, { caller, schema, condition, scope, granted });
  const predicate = settableRows(context, fields);
  const statement = filteredStatement(dependencies.plans, { schema }, (parameters) => {
    const where = rowsText({ schema, predicate }, filter, parameters);
    const ids = among ? ` and ${idsTest(schema, 't0', parameters.next(among))}` : '';
    const version = schema.mapping ? 'null' : 't0."__v"';
    return `select t0."_id"::text as id, ${version} as version from ${allRows(schema)} t0 where ${where}${ids} order by t0."_id" limit ${limit}`;
  });
  const rows = await runWrite<{ id: string; version: number | null }>(context, statement);
  return rows.map(({ id, version }) => ({ id, version: version ?? undefined }));
}

const requireKnownLinks = async (
  context: WriteContext,
  assignments: readonly BoundAssignment[],
): Promise<void> => requireReferences(context, referenceSources(assignments));

/** Thrown inside the transaction, so that nothing of a change that is too large remains. */
function requireAllowed(count: number): void {
  currentAccount()?.charge('lockedRows', count);
  if (count > WRITE_LIMIT) {
    throw recordErrors.RECORD_LIMIT_EXCEEDED({
      message: `More than ${WRITE_LIMIT} records fit: narrow the filter and go step by step`,
    });
  }
}

/* Deleting every record that fits a condition, with what its relations say and an event for each. */

export async function removeSelected(context: WriteContext, condition: Condition): Promise<number> {
  const { schema, caller, dependencies, options } = context;
  const { scope, granted } = options;
  const filter = await resolveFilter(dependencies, { caller, schema, condition, scope, granted });
  const count = await dependencies.database.transaction(async (transaction) => {
    if (!(hasDependants(context) || (await mayGainRelations(context))))
      return removeRows(
        context,
        (parameters) => rowsText(context, filter, parameters),
        transaction,
      );
    const ids = await lockRows(context, filter, transaction);
    requireAllowed(ids.length);
    await cascadeBeforeRemoval(context, ids, transaction);
    return removeRows(context, ({ next }) => idsTest(context.schema, 't0', next(ids)), transaction);
  });
  announceEvents(dependencies);
  return count;
}

const rowsText = (
  { schema, predicate }: Pick<WriteContext, 'schema' | 'predicate'>,
  filter: RecordFilter,
  parameters: Parameters,
): string =>
  `${filter.compile('t0', parameters)}${live(schema, 't0')}${restriction(predicate, 't0', parameters)}`;

/** Locked like this, nothing new can begin to refer to them. */
async function lockRows(
  context: WriteContext,
  filter: RecordFilter,
  transaction: Transaction,
): Promise<readonly string[]> {
  const { schema, dependencies } = context;
  const statement = filteredStatement(dependencies.plans, { schema }, (parameters) => {
    const where = rowsText(context, filter, parameters);
    return `select t0."_id" as id from ${allRows(schema)} t0 where ${where} order by t0."_id" limit ${WRITE_LIMIT + 1} for update of t0`;
  });
  return (await runWrite<{ id: string }>(context, statement, transaction)).map(({ id }) => id);
}

async function removeRows(
  context: WriteContext,
  where: (parameters: Parameters) => string,
  transaction: Transaction,
): Promise<number> {
  const { schema, caller, dependencies } = context;
  const statement = filteredStatement(
    dependencies.plans,
    { schema, values: [actorOf(caller)] },
    (parameters) => {
      const { rows, forgotten } = removedRows(schema, where(parameters), {
        tuples: dependencies.permissions.tuples,
        many: true,
      });
      const events = eventRows(schema, 'delete');
      return `with ${rows}, e as (${events})${forgotten} select count(*)::integer as touched from r`;
    },
  );
  const [row] = await runWrite<{ touched: number }>(context, statement, transaction);
  requireAllowed(row?.touched ?? 0);
  return row?.touched ?? 0;
}
