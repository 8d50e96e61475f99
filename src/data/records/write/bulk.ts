/** Writing many records: all of them or none, set by set, with every problem named by its place. */

import type { Statement, Transaction } from '../../../kernel/database/database.ts';
import { invalid, type Problem } from '../../../kernel/errors.ts';
import { actorOf } from '../../../kernel/hooks/hooks.ts';
import { isId } from '../../../kernel/ids.ts';
import { inPieces } from '../../../kernel/request-account/fair-gate.ts';
import { ownValue } from '../../schema/language/values.ts';
import { historyTable } from '../../schema/migrations.ts';
import { isTrusted } from '../access/operation-access.ts';
import type { RecordRow } from '../read/record-view.ts';
import type { RecordInput, RecordText } from '../store.ts';
import { asSeen } from './created-answer.ts';
import {
  createExternal,
  type ExternalInput,
  isExternal,
  updateExternal,
} from './external-writes.ts';
import { missErrors } from './missed-records.ts';
import { refuseOperators } from './operators.ts';
import { ownershipShape } from './ownership.ts';
import { createAdmitted, placedChange, requirePlacement } from './placement.ts';
import { eventFieldsOf, type MovedRows, toldShape } from './placement-text.ts';
import { type ReferenceSource, requireReferences, withCheckedReferences } from './references.ts';
import { violationAt, type WrittenRecord } from './refused-values.ts';
import { lockInOrder } from './row-locks.ts';
import { insertManyText, updateManyText } from './statements.ts';
import {
  type ColumnValues,
  mergeNested,
  namesOf,
  requireValid,
  storedNested,
  validatorOf,
} from './validate.ts';
import {
  announceEvents,
  answerShape,
  isDynamicAnswer,
  runWrite,
  type WriteContext,
  withAskedOwner,
} from './write-context.ts';
import {
  freshValues,
  ownedInput,
  type RestoredValues,
  requireSettable,
  restoredValues,
  settableRows,
  untouched,
} from './write-rights.ts';

/** Records of one request. */
export const MAX_BULK = 1_000;

export async function createRecords(
  opened: WriteContext,
  inputs: readonly RecordInput[],
): Promise<readonly RecordText[]> {
  const context = await withAskedOwner(opened);
  const { schema, caller, dependencies, options } = context;
  requireCount(inputs);
  if (inputs.length === 0) return [];
  if (isExternal(context)) {
    const places = inputs.map((_, i) => `docs.${i}.`);
    return createExternal(context, inputs, places);
  }
  requireSettable(context, placed(inputs));
  const problems: Problem[] = [];
  const validator = validatorOf(schema);
  const rows = await inPieces(inputs, (input, i) =>
    validator.whole(ownedInput(context, input), `docs.${i}.`, problems),
  );
  const given =
    options.restore && isTrusted(caller)
      ? restoredValues(schema, inputs, problems)
      : freshValues(inputs);
  requireValid(problems);
  const { columns, values } = options.restore ? await continued(context, given) : given;
  // New ids only grow, and the answer is ordered by id: it has the order of the input.
  const records = rows.map((row, i): Record<string, unknown> => ({ ...values[i], ...named(row) }));
  const sources = records.map(
    (record, i): ReferenceSource => ({
      value: (field) => record[field],
      placeOf: (field) => `docs.${i}.${field}`,
    }),
  );
  const [first] = rows;
  const created = await withCheckedReferences(context, sources, async () => {
    await requireReferences(context, sources);
    const names = [...columns, ...(first ? namesOf(first) : [])];
    const statement = insertStatement(context, names, records);
    const places = records.map((values, i) => ({ values, place: `docs.${i}.` }));
    return createAdmitted(context, {
      records,
      insert: () => placing(places, () => runWrite<RecordRow>(context, statement)),
      idsOf,
      placeOf: (index) => `docs.${index}`,
    });
  });
  announceEvents(dependencies);
  return asSeen(context, created);
}

const idsOf = (rows: readonly RecordText[]): readonly string[] => rows.map(({ id }) => id);

/** Records that were destroyed and come back under their ids go on with their history, instead of having each version twice. */
async function continued(context: WriteContext, given: RestoredValues): Promise<RestoredValues> {
  const { history, name } = context.schema;
  if (!history) return given;
  const text = `select h.record_id as id, max(h.version) + 1 as next from ${historyTable} h where h.schema = $1 and h.record_id = any($2) group by 1`;
  const ids = given.values.map(({ _id }) => _id);
  const rows = await runWrite<{ id: string; next: number }>(context, { text, values: [name, ids] });
  if (rows.length === 0) return given;
  const next = new Map(rows.map((row) => [row.id, row.next]));
  const values = given.values.map((row) => ({ ...row, __v: String(next.get(row._id ?? '') ?? 0) }));
  return { columns: [...given.columns, '__v'], values };
}

function insertStatement(
  context: WriteContext,
  columns: readonly string[],
  records: readonly Record<string, unknown>[],
): Statement {
  const { schema, caller, dependencies, populate, ownership, conditions, options } = context;
  const { idsOnly } = options;
  const values = [actorOf(caller), JSON.stringify(records)];
  const eventFields = eventFieldsOf(schema, dependencies.permissions, columns);
  const shape = `createMany|${toldShape(eventFields)}|${idsOnly}|${columns.join()}|${ownershipShape(ownership)}|${answerShape(context)}`;
  const dynamic = ownership !== undefined || isDynamicAnswer(context);
  return dependencies.plans.statement({ schema, shape, values, dynamic }, (parameters) =>
    insertManyText(
      schema,
      { columns, populate, ownership, conditions, eventFields, idsOnly },
      parameters,
    ),
  );
}

const placed = (inputs: readonly RecordInput[]) =>
  inputs.map((input, i) => ({ input, place: `docs.${i}.` }));

const named = ({ columns, values }: ColumnValues): Record<string, unknown> =>
  Object.fromEntries(columns.map(({ name }, i) => [name, values[i]]));

interface Change {
  readonly id: string;
  readonly place: string;
  readonly values: Record<string, unknown>;
}

/** PATCH of many: each changes the fields that it names. */
export async function updateRecords(
  context: WriteContext,
  inputs: readonly RecordInput[],
): Promise<readonly RecordText[]> {
  if (isExternal(context)) return updateExternal(context, mappedInputs(inputs), 'patch');
  const validator = validatorOf(context.schema);
  const problems: Problem[] = [];
  const ids = givenIds(inputs, problems);
  for (const { input, place } of placed(inputs)) refuseOperators(input, place);
  requireSettable(context, placed(inputs));
  const changes = await inPieces(inputs, (input, i): Change => {
    const place = `docs.${i}.`;
    return { id: ids[i] ?? '', place, values: named(validator.partial(input, place, problems)) };
  });
  requireValid(problems);
  return changeRecords(context, changes, (transaction) =>
    mergeAll(context, { inputs, changes, transaction }),
  );
}

/** PUT of many: each replaces its record. */
export async function replaceRecords(
  context: WriteContext,
  inputs: readonly RecordInput[],
): Promise<readonly RecordText[]> {
  if (isExternal(context)) return updateExternal(context, mappedInputs(inputs), 'replace');
  const validator = validatorOf(context.schema);
  const problems: Problem[] = [];
  const ids = givenIds(inputs, problems);
  for (const { input, place } of placed(inputs)) refuseOperators(input, place);
  requireSettable(context, placed(inputs));
  const changes = await inPieces(inputs, (input, i): Change => {
    const place = `docs.${i}.`;
    return {
      id: ids[i] ?? '',
      place,
      values: named(validator.whole(input, place, problems, untouched(context, input))),
    };
  });
  requireValid(problems);
  return changeRecords(context, changes, async () => changes);
}

function mappedInputs(inputs: readonly RecordInput[]): readonly ExternalInput[] {
  requireCount(inputs);
  return inputs.map((input, i) => ({ id: ownValue(input, '_id'), input, place: `docs.${i}.` }));
}

function requireCount(inputs: readonly RecordInput[]): void {
  if (inputs.length > MAX_BULK)
    throw invalid('docs', 'maxItems', `at most ${MAX_BULK} records at once`);
}

/** The ids of the inputs: each a UUID, none twice. */
function givenIds(inputs: readonly RecordInput[], problems: Problem[]): readonly string[] {
  requireCount(inputs);
  const seen = new Set<string>();
  return inputs.map((input, i) => {
    const id = Object.hasOwn(input, '_id') ? input._id : undefined;
    const path = `docs.${i}._id`;
    if (!isId(id)) {
      problems.push({
        path,
        rule: id === undefined ? 'required' : 'format',
        message: 'must be an id (UUID)',
      });
      return '';
    }
    const canonical = id.toLowerCase();
    if (seen.has(canonical))
      problems.push({ path, rule: 'unique', message: 'this record is there twice' });
    seen.add(canonical);
    return canonical;
  });
}

interface MergeRequest {
  readonly inputs: readonly RecordInput[];
  readonly changes: readonly Change[];
  readonly transaction: Transaction;
}

/** Adds nested objects, merged with what is stored, to the changes that give a part of one. */
async function mergeAll(
  context: WriteContext,
  { inputs, changes, transaction }: MergeRequest,
): Promise<readonly Change[]> {
  const validator = validatorOf(context.schema);
  const nested = inputs.map((input) => validator.nested(input));
  const names = [...new Set(nested.flat().map(({ name }) => name))];
  if (names.length === 0) return changes;
  const ids = changes.filter((_, i) => nested[i]?.length).map(({ id }) => id);
  const stored = new Map(
    (await storedNested(context, { ids, names }, transaction)).map(({ id, values }) => [
      id,
      values,
    ]),
  );
  const problems: Problem[] = [];
  const merged = changes.map((change, i): Change => {
    const values = { ...change.values };
    for (const { name, field, given } of nested[i] ?? []) {
      values[name] = mergeNested(field, stored.get(change.id)?.[name], {
        given,
        place: change.place + name,
        problems,
      });
    }
    return { ...change, values };
  });
  requireValid(problems);
  return merged;
}

/** One statement for each set of records that change the same columns. */
async function changeRecords(
  context: WriteContext,
  changes: readonly Change[],
  complete: (transaction: Transaction) => Promise<readonly Change[]>,
): Promise<readonly RecordText[]> {
  if (changes.length === 0) return [];
  const found = new Map<string, RecordText>();
  await context.dependencies.database.transaction(async (transaction) => {
    found.clear();
    const completed = await complete(transaction);
    await requireReferences(
      context,
      completed.map(({ id, place, values }) => ({
        value: (field) => values[field],
        placeOf: (field) => place + field,
        record: id,
      })),
      transaction,
    );
    await lockInOrder(context, completed, transaction);
    for (const group of Map.groupBy(completed, ({ values }) =>
      Object.keys(values).join(),
    ).values()) {
      const placed = await placedChange(context, Object.keys(group[0]?.values ?? {}));
      const statement = groupStatement(context, group, placed?.compared);
      const rows = await placing(group, () =>
        runWrite<RecordRow & MovedRows>(context, statement, transaction),
      );
      if (placed)
        await requirePlacement(context, placed, rows.slice(0, 1), {
          database: transaction,
          placeOf: (moved) => `${group.find(({ id }) => id === moved)?.place ?? ''}_id`,
        });
      for (const row of rows) found.set(row.id, row);
    }
    const missed = completed
      .filter(({ id }) => !found.has(id))
      .map(({ id, place, values }) => ({ id, place, columns: Object.keys(values) }));
    if (missed.length > 0) throw await missErrors(context, missed, transaction);
  });
  announceEvents(context.dependencies);
  return asSeen(
    context,
    changes.flatMap(({ id }) => found.get(id) ?? []),
  );
}

async function placing<T>(records: readonly WrittenRecord[], write: () => Promise<T>): Promise<T> {
  try {
    return await write();
  } catch (error) {
    throw violationAt(error, records);
  }
}

function groupStatement(
  context: WriteContext,
  group: readonly Change[],
  compare: readonly string[] | undefined,
): Statement {
  const { dependencies, schema, caller, populate, conditions, options } = context;
  const { idsOnly } = options;
  const columns = Object.keys(group[0]?.values ?? {});
  const predicate = settableRows(context, columns);
  const eventFields = eventFieldsOf(schema, dependencies.permissions, columns);
  const records = group
    .map(({ id, values }) => ({ _id: id, ...values }))
    // As their rows were locked.
    .sort((one, other) => (one._id < other._id ? -1 : 1));
  const shape = `updateMany|${toldShape(eventFields)}|${idsOnly}|${columns.join()}|${compare?.join() ?? ''}|${predicate?.shape ?? ''}|${answerShape(context)}`;
  const dynamic = predicate !== undefined || isDynamicAnswer(context);
  return dependencies.plans.statement(
    { schema, shape, values: [actorOf(caller), JSON.stringify(records)], dynamic },
    (parameters) =>
      updateManyText(
        schema,
        { columns, predicate, populate, conditions, compare, eventFields, idsOnly },
        parameters,
      ),
  );
}
