/** Writing one record: checked, then one statement for the record, its event and the answer. */
import { callerKey } from '../caller.ts';
import type { Queryable } from '../database/database.ts';
import { errors, type Problem } from '../errors.ts';
import { newId } from '../ids.ts';
import { type LinkSource, requireLinks } from './links.ts';
import { storedNested } from './nested.ts';
import { isRestricted, populateShape } from './populate.ts';
import type { RecordRow } from './reads.ts';
import { insertText, updateText } from './statements.ts';
import type { RecordInput, RecordText } from './store.ts';
import { type ColumnValues, encoded, mergeNested, namesOf, requireValid, validatorOf } from './validate.ts';
import { announceEvents, missError, requireId, runWrite, type WriteContext } from './write-context.ts';

export async function createRecord(context: WriteContext, input: RecordInput): Promise<RecordText> {
  const { schema, caller, dependencies, populate, ownership } = context;
  const problems: Problem[] = [];
  const whole = validatorOf(schema).whole(input, '', problems);
  requireValid(problems);
  const links = requireLinks(context, [sourceOf(whole)]);
  if (links) await links;
  const values = [callerKey(caller), newId(), ...encoded(whole)];
  const shape = `create|${ownership !== undefined}|${populateShape(populate)}`;
  const dynamic = ownership !== undefined || isRestricted(populate);
  const statement = dependencies.plans.statement({ schema, shape, values, dynamic }, (parameters) =>
    insertText(schema, { columns: namesOf(whole), populate, ownership }, parameters),
  );
  const [row] = await runWrite<RecordRow>(context, statement);
  if (!row) throw errors.INTERNAL_SERVER_ERROR();
  announceEvents(dependencies);
  return row;
}

const sourceOf = ({ columns, values }: ColumnValues): LinkSource => ({
  place: '',
  value: (field) => values[columns.findIndex(({ name }) => name === field)],
});

/** Changes the fields that the input names. */
export async function updateRecord(context: WriteContext, id: string, input: RecordInput): Promise<RecordText> {
  const { schema, dependencies } = context;
  requireId(id, 'id');
  const validator = validatorOf(schema);
  const problems: Problem[] = [];
  const partial = validator.partial(input, '', problems);
  const nested = validator.nested(input);
  if (nested.length === 0) {
    requireValid(problems);
    return changeRecord(context, id, partial);
  }
  // What is stored decides whether a part of a nested object makes a valid whole.
  return dependencies.database.transaction(async (transaction) => {
    const [stored] = await storedNested(context, { ids: [id], names: nested.map(({ name }) => name) }, transaction);
    if (!stored) throw await missError(context, id);
    const merged = nested.map(({ name, field, given }) => mergeNested(field, stored.values[name], { given, place: name, problems }));
    requireValid(problems);
    const columns = nested.map(({ name, field }) => ({ name, field, type: 'jsonb', check: (value: unknown) => value }) as const);
    return changeRecord(context, id, { columns: [...partial.columns, ...columns], values: [...partial.values, ...merged] }, transaction);
  });
}

/** Replaces the record: what is left out takes its default or becomes null. */
export async function replaceRecord(context: WriteContext, id: string, input: RecordInput): Promise<RecordText> {
  requireId(id, 'id');
  const problems: Problem[] = [];
  const whole = validatorOf(context.schema).whole(input, '', problems);
  requireValid(problems);
  return changeRecord(context, id, whole);
}

async function changeRecord(context: WriteContext, id: string, change: ColumnValues, database?: Queryable): Promise<RecordText> {
  const { schema, caller, dependencies, predicate, populate, options } = context;
  const links = requireLinks(context, [sourceOf(change)], database);
  if (links) await links;
  const versioned = options.expectedVersion !== undefined;
  const columns = namesOf(change);
  const values = [callerKey(caller), id, ...(versioned ? [options.expectedVersion] : []), ...encoded(change)];
  const shape = `update|${versioned}|${columns.join()}|${predicate?.shape ?? ''}|${populateShape(populate)}`;
  const dynamic = predicate !== undefined || isRestricted(populate);
  const statement = dependencies.plans.statement({ schema, shape, values, dynamic }, (parameters) =>
    updateText(schema, { columns, versioned, predicate, populate }, parameters),
  );
  const [row] = await runWrite<RecordRow>(context, statement, database);
  if (!row) throw await missError(context, id, database);
  announceEvents(dependencies);
  return row;
}
