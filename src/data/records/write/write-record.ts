/** Writing one record: checked, then one statement for the record, its event and the answer. */

import type { Queryable } from '../../../kernel/database/database.ts';
import { codeOf } from '../../../kernel/database/failures.ts';
import { errors, type Problem } from '../../../kernel/errors.ts';
import { actorOf } from '../../../kernel/hooks/hooks.ts';
import { newId } from '../../../kernel/ids.ts';
import { classOf, identityOf, type RecordRow } from '../read/record-view.ts';
import type { RecordInput, RecordText } from '../store.ts';
import { asSeen } from './created-answer.ts';
import { patchedRow } from './external-values.ts';
import { createExternal, isExternal, updateExternal } from './external-writes.ts';
import { missError } from './missed-records.ts';
import { changeByOperators, operatorsOf, refuseOperators, touchedInput } from './operators.ts';
import { ownershipShape, ownerValues } from './ownership.ts';
import { createAdmitted, placedChange, requirePlacement } from './placement.ts';
import { eventFieldsOf, type MovedRows, toldShape } from './placement-text.ts';
import { requireReferences, sourceOf, withCheckedReferences } from './references.ts';
import { insertText, updateText } from './statements.ts';
import {
  type ColumnValues,
  encoded,
  mergeNested,
  namesOf,
  type RecordValidator,
  requireValid,
  storedNested,
  validatorOf,
} from './validate.ts';
import {
  announceEvents,
  answerShape,
  certainly,
  isDynamicAnswer,
  requireId,
  runWrite,
  type WriteContext,
  withAskedOwner,
} from './write-context.ts';
import { ownedInput, requireSettable, settableRows, untouched } from './write-rights.ts';

export async function createRecord(context: WriteContext, input: RecordInput): Promise<RecordText> {
  if (isExternal(context)) return only(await createExternal(context, [input], ['']));
  const row = await createWith(context, input, (as, whole) => insertRecord(as, newId(), whole));
  if (!row) throw errors.INTERNAL_SERVER_ERROR();
  return row;
}

/** The same under an id that is given. `undefined` when there is a record of that id. */
export const createUnder = (
  context: WriteContext,
  id: string,
  input: RecordInput,
): Promise<RecordText | undefined> =>
  createWith(context, input, (as, whole) => insertRecord(as, id, whole, 'ifAbsent'));

type Insert = (context: WriteContext, whole: ColumnValues) => Promise<RecordText | undefined>;

/** By the cached definitions; where they are not in force any more, nothing is written, and it is done once more by those that are. */
async function createWith(
  context: WriteContext,
  input: RecordInput,
  insert: Insert,
): Promise<RecordText | undefined> {
  const { ownership } = context;
  try {
    const row = await createChecked(context, input, insert);
    if (row || !ownership?.cached) return row;
  } catch (error) {
    if (!ownership?.cached || !ownership.rule || codeOf(error) !== errors.FORBIDDEN.code)
      throw error;
  }
  return createChecked(await withAskedOwner(context), input, insert);
}

async function createChecked(
  context: WriteContext,
  input: RecordInput,
  insert: Insert,
): Promise<RecordText | undefined> {
  refuseOperators(input, '');
  requireSettable(context, [{ input, place: '' }]);
  const problems: Problem[] = [];
  const whole = validatorOf(context.schema).whole(ownedInput(context, input), '', problems);
  requireValid(problems);
  const sources = [sourceOf(whole)];
  const row = await withCheckedReferences(context, sources, async () => {
    const links = requireReferences(context, sources);
    if (links) await links;
    if (!context.ownership?.rule) return insert(context, whole);
    return createAdmitted(context, {
      records: [namedValues(whole)],
      insert: () => insert(context, whole),
      idsOf: (record) => (record ? [record.id] : []),
    });
  });
  announceEvents(context.dependencies);
  return row && only(await asSeen(context, [row]));
}

/** The values by their fields. */
const namedValues = (whole: ColumnValues): Record<string, unknown> =>
  Object.fromEntries(whole.columns.map(({ name }, i) => [name, whole.values[i]]));

function only(records: readonly RecordText[]): RecordText {
  const [record] = records;
  if (!record) throw errors.INTERNAL_SERVER_ERROR();
  return record;
}

/**
 * - `create`: under a new id
 * - `ifAbsent`: under a given id; nothing happens when it is taken
 * - `revive`: with automatic fields among its columns
 */
type InsertKind = 'create' | 'ifAbsent' | 'revive';

/** Puts a checked record there, without asking about its links. */
export async function insertRecord(
  context: WriteContext,
  id: string,
  whole: ColumnValues,
  kind: InsertKind = 'create',
): Promise<RecordText | undefined> {
  const { schema, caller, dependencies, populate, ownership, conditions } = context;
  const values = [actorOf(caller), id, ...encoded(whole), ...ownerValues(ownership)];
  // By definitions that hold no field is a relation: there is nothing to tell.
  const eventFields =
    ownership?.cached?.tells === false
      ? undefined
      : eventFieldsOf(schema, dependencies.permissions, namesOf(whole));
  const shape = `${kind}|${toldShape(eventFields)}|${ownershipShape(ownership)}|${answerShape(context)}`;
  const dynamic = ownershipShape(ownership) === 'tuple' || isDynamicAnswer(context);
  const runsAs = classOf({ predicate: undefined, populate, conditions });
  const statement = dependencies.plans.statement(
    { schema, shape, values, dynamic, class: runsAs, changes: '' },
    (parameters) =>
      insertText(
        schema,
        {
          columns: namesOf(whole),
          populate,
          ownership,
          conditions,
          ifAbsent: kind === 'ifAbsent',
          eventFields,
        },
        parameters,
      ),
  );
  const [row] = await runWrite<RecordRow>(context, statement);
  return row;
}

/** Changes the fields that the input names. */
export async function updateRecord(
  context: WriteContext,
  id: string,
  input: RecordInput,
): Promise<RecordText> {
  const { schema, dependencies } = context;
  const assignments = operatorsOf(context, input);
  if (isExternal(context) && assignments.length === 0)
    return only(await updateExternal(context, [{ id, input, place: '' }], 'patch'));
  requireId(schema, id, 'id');
  requireSettable(context, [{ input: { ...input, ...touchedInput(assignments) }, place: '' }]);
  const validator = validatorOf(schema);
  const problems: Problem[] = [];
  const written = { input, place: '', problems };
  const partial = isExternal(context)
    ? patchedRow(context.schema, id, written)
    : validator.partial(input, '', problems);
  const nested = validator.nested(input);
  if (nested.length === 0 && assignments.length === 0) {
    requireValid(problems);
    return changeRecord(context, id, partial);
  }
  // What is stored decides whether a part of a nested object makes a valid whole.
  const certain = await certainly(context);
  return dependencies.database.transaction(async (transaction) => {
    const merged =
      nested.length === 0 ? [] : await mergedNested(certain, id, { nested, problems, transaction });
    requireValid(problems);
    const columns = nested.map(
      ({ name, field }) =>
        ({ name, field, type: 'jsonb', check: (value: unknown) => value }) as const,
    );
    const change = {
      columns: [...partial.columns, ...columns],
      values: [...partial.values, ...merged],
    };
    if (assignments.length > 0)
      return changeByOperators(certain, id, { plain: change, assignments });
    return changeRecord(certain, id, change, { database: transaction });
  });
}

interface MergeRequest {
  readonly nested: ReturnType<RecordValidator['nested']>;
  readonly problems: Problem[];
  readonly transaction: Queryable;
}

/** Nested objects as they will be; problems are added. Throws when the record may not be changed. */
async function mergedNested(
  context: WriteContext,
  id: string,
  { nested, problems, transaction }: MergeRequest,
): Promise<unknown[]> {
  const [stored] = await storedNested(
    context,
    { ids: [id], names: nested.map(({ name }) => name) },
    transaction,
  );
  if (!stored) throw await missError(context, id);
  return nested.map(({ name, field, given }) =>
    mergeNested(field, stored.values[name], { given, place: name, problems }),
  );
}

/** Replaces the record: what is left out takes its default or becomes null, unless the caller could not set it. */
export async function replaceRecord(
  context: WriteContext,
  id: string,
  input: RecordInput,
): Promise<RecordText> {
  if (isExternal(context))
    return only(await updateExternal(context, [{ id, input, place: '' }], 'replace'));
  requireId(context.schema, id, 'id');
  refuseOperators(input, '');
  requireSettable(context, [{ input, place: '' }]);
  const problems: Problem[] = [];
  const whole = validatorOf(context.schema).whole(input, '', problems, untouched(context, input));
  requireValid(problems);
  return changeRecord(context, id, whole);
}

interface ChangeOptions {
  /** The transaction that has read what the change builds on. */
  readonly database?: Queryable;
  /** For the history; `update` unless set. */
  readonly operation?: 'update' | 'restore';
}

/** Sets columns to values that have been checked. */
export async function changeRecord(
  opened: WriteContext,
  id: string,
  change: ColumnValues,
  options: ChangeOptions = {},
): Promise<RecordText> {
  const { database } = options;
  const leads = change.columns.some(({ name }) => opened.schema.relations.has(name));
  // What a link leads to is looked at in a transaction, which takes no rights from memory.
  const context = leads ? await certainly(opened) : opened;
  const sources = [sourceOf(change, id)];
  const row = await withCheckedReferences(context, sources, async () => {
    const links = requireReferences(context, sources, database);
    if (links) await links;
    const placed = await placedChange(context, namesOf(change));
    if (!placed) return changeColumns(context, id, change, options);
    return context.dependencies.database.transaction(async (transaction) => {
      const compared = { ...options, database: transaction, compare: placed.compared };
      const { moved, ...record } = await changeColumns(context, id, change, compared);
      await requirePlacement(context, placed, [{ moved }], { database: transaction });
      return record;
    });
  });
  announceEvents(context.dependencies);
  return only(await asSeen(context, [row]));
}

interface ComparedChange extends ChangeOptions {
  /** Fields by which the answer tells whether the record is elsewhere now. */
  readonly compare?: readonly string[];
}

async function changeColumns(
  context: WriteContext,
  id: string,
  change: ColumnValues,
  options: ComparedChange,
): Promise<RecordRow & MovedRows> {
  const { schema, caller, dependencies, populate, conditions, remembered } = context;
  const { expectedVersion } = context.options;
  const { database, operation = 'update', compare } = options;
  const guard = remembered?.guard;
  const versioned = expectedVersion !== undefined;
  const columns = namesOf(change);
  const eventFields = eventFieldsOf(schema, dependencies.permissions, columns);
  const predicate = settableRows(context, columns);
  const values = [actorOf(caller), id, ...(versioned ? [expectedVersion] : []), ...encoded(change)];
  const shape = `${operation}|${toldShape(eventFields)}|${versioned}|${columns.join()}|${compare?.join() ?? ''}|${predicate?.shape ?? ''}|${guard !== undefined}|${answerShape(context)}`;
  const dynamic = predicate !== undefined || isDynamicAnswer(context);
  const rows = { predicate, populate, conditions };
  const statement = dependencies.plans.statement(
    {
      ...{ schema, shape, values, dynamic, guard, changes: id },
      identity: identityOf(rows),
      class: classOf(rows),
    },
    (parameters, guardText) =>
      updateText(
        schema,
        {
          ...{ columns, versioned, ...rows, operation, compare, eventFields },
          guardText: guard && guardText,
        },
        parameters,
      ),
  );
  const [row] = await runWrite<RecordRow & MovedRows>(context, statement, database);
  if (row) return row;
  if (remembered) return changeColumns(await remembered.certain(), id, change, options);
  throw await missError(context, id, { database, columns });
}
