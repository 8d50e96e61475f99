/** Writing many records: all of them or none, set by set, with every problem named by its place. */
import { callerKey } from '../caller.ts';
import type { Transaction } from '../database/database.ts';
import { invalid, type Problem } from '../errors.ts';
import { isId, newId } from '../ids.ts';
import { recordErrors } from './errors.ts';
import { requireLinks } from './links.ts';
import { storedNested } from './nested.ts';
import { isRestricted, populateShape } from './populate.ts';
import type { RecordRow } from './reads.ts';
import { insertManyText, updateManyText } from './statements.ts';
import type { RecordInput, RecordText } from './store.ts';
import { type ColumnValues, mergeNested, namesOf, requireValid, validatorOf } from './validate.ts';
import { announceEvents, runWrite, type WriteContext } from './write-context.ts';

/** Records of one request. */
export const MAX_BULK = 1_000;

export async function createRecords(context: WriteContext, inputs: readonly RecordInput[]): Promise<readonly RecordText[]> {
  const { schema, caller, dependencies, populate, ownership } = context;
  requireCount(inputs);
  if (inputs.length === 0) return [];
  const problems: Problem[] = [];
  const validator = validatorOf(schema);
  const rows = inputs.map((input, i) => validator.whole(input, `docs.${i}.`, problems));
  requireValid(problems);
  // Ids only grow, and the answer is ordered by id: it has the order of the input.
  const records = rows.map((row): Record<string, unknown> => ({ _id: newId(), ...named(row) }));
  await requireLinks(
    context,
    records.map((record, i) => ({ place: `docs.${i}.`, value: (field) => record[field] })),
  );
  const values = [callerKey(caller), JSON.stringify(records)];
  const shape = `createMany|${ownership !== undefined}|${populateShape(populate)}`;
  const [first] = rows;
  const dynamic = ownership !== undefined || isRestricted(populate);
  const statement = dependencies.plans.statement({ schema, shape, values, dynamic }, (parameters) =>
    insertManyText(schema, { columns: first ? namesOf(first) : [], populate, ownership }, parameters),
  );
  const created = await runWrite<RecordRow>(context, statement);
  announceEvents(dependencies);
  return created;
}

const named = ({ columns, values }: ColumnValues): Record<string, unknown> =>
  Object.fromEntries(columns.map(({ name }, i) => [name, values[i]]));

interface Change {
  readonly id: string;
  readonly place: string;
  readonly values: Record<string, unknown>;
}

/** PATCH of many: each changes the fields that it names. */
export async function updateRecords(context: WriteContext, inputs: readonly RecordInput[]): Promise<readonly RecordText[]> {
  const validator = validatorOf(context.schema);
  const problems: Problem[] = [];
  const ids = idsOf(inputs, problems);
  const changes = inputs.map((input, i): Change => {
    const place = `docs.${i}.`;
    return { id: ids[i] ?? '', place, values: named(validator.partial(input, place, problems)) };
  });
  requireValid(problems);
  return changeRecords(context, changes, (transaction) => mergeAll(context, { inputs, changes, transaction }));
}

/** PUT of many: each replaces its record. */
export async function replaceRecords(context: WriteContext, inputs: readonly RecordInput[]): Promise<readonly RecordText[]> {
  const validator = validatorOf(context.schema);
  const problems: Problem[] = [];
  const ids = idsOf(inputs, problems);
  const changes = inputs.map((input, i): Change => {
    const place = `docs.${i}.`;
    return { id: ids[i] ?? '', place, values: named(validator.whole(input, place, problems)) };
  });
  requireValid(problems);
  return changeRecords(context, changes, async () => changes);
}

function requireCount(inputs: readonly RecordInput[]): void {
  if (inputs.length > MAX_BULK) throw invalid('docs', 'maxItems', `at most ${MAX_BULK} records at once`);
}

/** The ids of the inputs: each a UUID, none twice. */
function idsOf(inputs: readonly RecordInput[], problems: Problem[]): readonly string[] {
  requireCount(inputs);
  const seen = new Set<string>();
  return inputs.map((input, i) => {
    const id = Object.hasOwn(input, '_id') ? input._id : undefined;
    const path = `docs.${i}._id`;
    if (!isId(id)) {
      problems.push({ path, rule: id === undefined ? 'required' : 'format', message: 'must be an id (UUID)' });
      return '';
    }
    const canonical = id.toLowerCase();
    if (seen.has(canonical)) problems.push({ path, rule: 'unique', message: 'this record is there twice' });
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
async function mergeAll(context: WriteContext, { inputs, changes, transaction }: MergeRequest): Promise<readonly Change[]> {
  const validator = validatorOf(context.schema);
  const nested = inputs.map((input) => validator.nested(input));
  const names = [...new Set(nested.flat().map(({ name }) => name))];
  if (names.length === 0) return changes;
  const ids = changes.filter((_, i) => nested[i]?.length).map(({ id }) => id);
  const stored = new Map((await storedNested(context, { ids, names }, transaction)).map(({ id, values }) => [id, values]));
  const problems: Problem[] = [];
  const merged = changes.map((change, i): Change => {
    const values = { ...change.values };
    for (const { name, field, given } of nested[i] ?? []) {
      values[name] = mergeNested(field, stored.get(change.id)?.[name], { given, place: change.place + name, problems });
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
    await requireLinks(
      context,
      completed.map(({ place, values }) => ({ place, value: (field) => values[field] })),
      transaction,
    );
    for (const group of Map.groupBy(completed, ({ values }) => Object.keys(values).join()).values()) {
      const rows = await runWrite<RecordRow>(context, groupStatement(context, group), transaction);
      for (const row of rows) found.set(row.id, row);
    }
    const missing = changes.filter(({ id }) => !found.has(id));
    if (missing.length > 0) {
      const problems = missing.map(({ place }) => ({ path: `${place}_id`, rule: 'exists', message: 'there is no such record' }));
      throw recordErrors.RECORD_NOT_FOUND({ errors: problems });
    }
  });
  announceEvents(context.dependencies);
  return changes.flatMap(({ id }) => found.get(id) ?? []);
}

function groupStatement({ dependencies, schema, caller, predicate, populate }: WriteContext, group: readonly Change[]) {
  const columns = Object.keys(group[0]?.values ?? {});
  const records = group.map(({ id, values }) => ({ _id: id, ...values }));
  const shape = `updateMany|${columns.join()}|${predicate?.shape ?? ''}|${populateShape(populate)}`;
  const dynamic = predicate !== undefined || isRestricted(populate);
  return dependencies.plans.statement({ schema, shape, values: [callerKey(caller), JSON.stringify(records)], dynamic }, (parameters) =>
    updateManyText(schema, { columns, predicate, populate }, parameters),
  );
}
