/** Writing records into tables of others: the same checks, events and answers as everywhere, and statements of their own (rows.ts). */

import type { Queryable } from '../../../kernel/database/database.ts';
import { errors, type Problem } from '../../../kernel/errors.ts';
import { actorOf } from '../../../kernel/hooks/hooks.ts';
import type { CompiledSchema } from '../../schema/compile/compiled.ts';
import { canonicalId, isRecordId, keyHint } from '../../schema/language/record-key.ts';
import type { TableMapping } from '../../schema/mapping/table-mapping.ts';
import { recordErrors } from '../errors.ts';
import type { RecordRow } from '../read/record-view.ts';
import { changedExternalRow, insertedRow } from '../sql/changed-rows.ts';
import { restriction } from '../sql/prepared-statements.ts';
import { idTest } from '../sql/row-id.ts';
import type { RecordInput, RecordText } from '../store.ts';
import { asSeen } from './created-answer.ts';
import {
  changedRow,
  newRow,
  placed,
  replacedRow,
  requireSameKey,
  valuesShape,
} from './external-values.ts';
import { missError } from './missed-records.ts';
import { createAdmitted } from './placement.ts';
import { withInvalidField } from './refused-values.ts';
import { withAnswer } from './statements.ts';
import { type ColumnValues, namesOf, requireValid } from './validate.ts';
import {
  announceEvents,
  answerShape,
  isDynamicAnswer,
  runWrite,
  type WriteContext,
} from './write-context.ts';
import { ownedInput, requireSettable, settableRows, untouched } from './write-rights.ts';

export type ExternalSchema = CompiledSchema & { readonly mapping: TableMapping };
/** A write whose schema is laid over a table of others. */
export type ExternalContext = WriteContext & { readonly schema: ExternalSchema };

export const isExternal = (context: WriteContext): context is ExternalContext =>
  context.schema.mapping !== undefined;

export async function createExternal(
  context: ExternalContext,
  inputs: readonly RecordInput[],
  places: readonly string[],
): Promise<readonly RecordText[]> {
  requireSettable(
    context,
    inputs.map((input, i) => ({ input, place: places[i] ?? '' })),
  );
  const problems: Problem[] = [];
  const rows = inputs.map((input, i) =>
    newRow(context.schema, { input: ownedInput(context, input), place: places[i] ?? '', problems }),
  );
  requireValid(problems);
  // Fields of such tables are no relations: only who owns the records matters.
  const created = await createAdmitted(context, {
    records: rows.map(() => ({})),
    insert: () => together(context, rows, (row, database) => insertOne(context, row, database)),
    idsOf: (records) => records.map(({ id }) => id),
  });
  return asSeen(context, created);
}

/** A change of one record, checked. */
interface ExternalChange {
  readonly id: string;
  readonly place: string;
  readonly row: ColumnValues;
}

export type ExternalInput = {
  readonly id: unknown;
  readonly input: RecordInput;
  readonly place: string;
};

/** Changes (`patch`) or replaces records. With several of them all are there, or none is changed. */
export async function updateExternal(
  context: ExternalContext,
  inputs: readonly ExternalInput[],
  kind: 'patch' | 'replace',
): Promise<readonly RecordText[]> {
  const { schema } = context;
  requireSettable(context, inputs);
  const problems: Problem[] = [];
  const changes = inputs.map(({ id, input, place }): ExternalChange => {
    const written = { input, place, problems };
    const checked = checkedId(schema, id, { place, problems });
    requireSameKey(schema, checked, written);
    const row =
      kind === 'patch'
        ? changedRow(schema, written)
        : replacedRow(schema, written, untouched(context, input));
    return { id: checked, place, row };
  });
  refuseTwins(changes, problems);
  requireValid(problems);
  const changed = await together(context, changes, (change, database) =>
    updateOne(context, change, database),
  );
  return asSeen(context, changed);
}

function checkedId(
  { key }: ExternalSchema,
  id: unknown,
  { place, problems }: { place: string; problems: Problem[] },
): string {
  if (isRecordId(key, id)) return canonicalId(key, id);
  const rule = id === undefined ? 'required' : 'format';
  problems.push({ path: place === '' ? 'id' : `${place}_id`, rule, message: keyHint(key) });
  return '';
}

function refuseTwins(changes: readonly ExternalChange[], problems: Problem[]): void {
  const seen = new Set<string>();
  for (const { id, place } of changes) {
    if (id !== '' && seen.has(id))
      problems.push({ path: `${place}_id`, rule: 'unique', message: 'this record is there twice' });
    seen.add(id);
  }
}

/** One statement each; several are one transaction. */
async function together<T>(
  { dependencies }: ExternalContext,
  items: readonly T[],
  write: (item: T, database?: Queryable) => Promise<RecordText>,
): Promise<readonly RecordText[]> {
  const [only] = items;
  const written =
    items.length === 1 && only !== undefined
      ? [await write(only)]
      : await dependencies.database.transaction(async (transaction) => {
          const done: RecordText[] = [];
          for (const item of items) done.push(await write(item, transaction));
          return done;
        });
  announceEvents(dependencies);
  return written;
}

async function insertOne(
  context: ExternalContext,
  row: ColumnValues,
  database?: Queryable,
): Promise<RecordText> {
  const { schema, caller, dependencies, populate, ownership, conditions } = context;
  const { assigned, values } = placed(row, 1);
  const shape = `create|${ownership !== undefined}|${valuesShape(assigned)}|${answerShape(context)}`;
  const dynamic = ownership !== undefined || isDynamicAnswer(context);
  const statement = dependencies.plans.statement(
    { schema, shape, values: [actorOf(caller), ...values], dynamic },
    (parameters) =>
      withAnswer(
        schema,
        insertedRow(schema, assigned),
        { kind: 'create', many: false, populate, ownership, conditions },
        parameters,
      ),
  );
  const [created] = await answered(context, row, runWrite<RecordRow>(context, statement, database));
  // A trigger of the table may leave the row out.
  if (!created) throw errors.CONFLICT({ message: 'The database did not take the record' });
  return created;
}

async function updateOne(
  context: ExternalContext,
  { id, place, row }: ExternalChange,
  database?: Queryable,
): Promise<RecordText> {
  const { schema, caller, dependencies, populate, conditions, options } = context;
  const versioned = options.expectedVersion !== undefined;
  const columns = namesOf(row);
  const predicate = settableRows(context, columns);
  const first = [actorOf(caller), id, ...(versioned ? [options.expectedVersion] : [])];
  const { assigned, values } = placed(row, first.length);
  const shape = `update|${versioned}|${valuesShape(assigned)}|${predicate?.shape ?? ''}|${answerShape(context)}`;
  const dynamic = predicate !== undefined || isDynamicAnswer(context);
  const statement = dependencies.plans.statement(
    { schema, shape, values: [...first, ...values], dynamic },
    (parameters) => {
      const version = versioned ? ' and t0."__v" = $3::integer' : '';
      const where = `${idTest(schema, 't0', '$2')}${version}${restriction(predicate, 't0', parameters, 'row')}`;
      return withAnswer(
        schema,
        changedExternalRow(schema, assigned, where),
        { kind: 'update', many: false, populate, conditions },
        parameters,
      );
    },
  );
  const [changed] = await answered(context, row, runWrite<RecordRow>(context, statement, database));
  if (changed) return changed;
  const error = await missError(context, id, { database, columns, place });
  if (place === '' || !isMissing(error)) throw error;
  throw recordErrors.RECORD_NOT_FOUND({
    errors: [{ path: `${place}_id`, rule: 'exists', message: 'there is no such record' }],
  });
}

/** What a statement answers; its refusal names the field, where that is known. */
const answered = async <T>(
  { schema }: ExternalContext,
  row: ColumnValues,
  answer: Promise<T>,
): Promise<T> =>
  answer.catch((error: unknown) => {
    throw withInvalidField(schema, row, error);
  });

const isMissing = (error: Error): boolean => 'code' in error && error.code === 'RECORD_NOT_FOUND';
