/** Deleting a record, and with it what its relations say: dependants go too (cascade) or lose the link (setNull), each with its event. */

import type { Transaction } from '../../../kernel/database/database.ts';
import { identifier } from '../../../kernel/database/sql.ts';
import { actorOf } from '../../../kernel/hooks/hooks.ts';
import type { CompiledSchema } from '../../schema/compile/compiled.ts';
import { inTrash } from '../../schema/compile/layout.ts';
import { columnType } from '../../schema/language/field.ts';
import { canonicalId } from '../../schema/language/record-key.ts';
import { changedRows, historyRows, touched } from '../sql/changed-rows.ts';
import { restriction } from '../sql/prepared-statements.ts';
import { allRows, idTest, live } from '../sql/row-id.ts';
import {
  addSeen,
  type Budget,
  budgetOf,
  cascadeToTrash,
  concernsTrash,
  type Dependant,
  keysTo,
  probe,
  type Seen,
  seenIds,
  seenOf,
  spend,
} from './cascade.ts';
import { missError } from './missed-records.ts';
import { eventFieldsOf, eventText } from './placement-text.ts';
import { deleteText, forgetTuples, purgeText } from './removal-text.ts';
import { eventRows } from './statements.ts';
import {
  announceEvents,
  askGate,
  certainly,
  requireId,
  runWrite,
  type WriteContext,
} from './write-context.ts';

/** Foreign keys that change other records when one of `target` goes for good. */
const dependantsOf = (schemas: readonly CompiledSchema[], target: string): readonly Dependant[] =>
  keysTo(schemas, target).filter(({ key }) => key.onDelete !== 'restrict');

export async function removeRecord(context: WriteContext, id: string): Promise<void> {
  const { dependencies } = context;
  requireId(context.schema, id, 'id');
  if (!hasDependants(context) && !(await mayGainRelations(context))) await removeRow(context, id);
  else {
    const certain = await certainly(context);
    await dependencies.database.transaction((transaction) =>
      removeWithDependants(certain, id, transaction),
    );
  }
  announceEvents(dependencies);
}

/** True when users may write relations about the record until it is locked: one statement would not see them, and leave them behind. */
export async function mayGainRelations({ schema, dependencies }: WriteContext): Promise<boolean> {
  const { authorization } = schema.modelOptions.conduit;
  if (!authorization.enabled || schema.softDelete) return false;
  return (await dependencies.permissions.engine?.heldByUsers?.(schema.name)) ?? false;
}

/** True when relations to this schema have to be looked at as records of it go. */
export function hasDependants({ schema, dependencies }: WriteContext): boolean {
  const schemas = dependencies.schemas.all();
  return schema.softDelete
    ? concernsTrash(schemas, schema)
    : dependantsOf(schemas, schema.name).length > 0;
}

/** Settles what refers to records that are about to go. They must be locked. Throws 409 when something is in the way. */
export const cascadeBeforeRemoval = (
  context: WriteContext,
  ids: readonly string[],
  transaction: Transaction,
): Promise<void> =>
  context.schema.softDelete
    ? cascadeToTrash(context, ids, transaction)
    : cascadeDestroyed(context, ids, transaction);

/** The same for records that go for good. */
export async function cascadeDestroyed(
  context: WriteContext,
  ids: readonly string[],
  transaction: Transaction,
): Promise<void> {
  const { schema } = context;
  await cascadeToDependants(
    { context, transaction, seen: seenOf(schema, ids), budget: budgetOf(context.caller) },
    schema,
    ids,
  );
}

async function removeRow(
  context: WriteContext,
  id: string,
  transaction?: Transaction,
): Promise<void> {
  const { schema, caller, dependencies, predicate, options, remembered } = context;
  const guard = remembered?.guard;
  const versioned = options.expectedVersion !== undefined;
  const values = [actorOf(caller), id, ...(versioned ? [options.expectedVersion] : [])];
  const shape = `delete|${versioned}|${predicate?.shape ?? ''}|${guard !== undefined}`;
  const statement = dependencies.plans.statement(
    {
      ...{ schema, shape, values, dynamic: predicate !== undefined, guard },
      identity: predicate?.identity,
      class: predicate === undefined || predicate.isLight ? 'short' : 'pooled',
    },
    (parameters, guardText) =>
      deleteText(
        schema,
        {
          ...{ versioned, predicate, tuples: dependencies.permissions.tuples },
          guardText: guard && guardText,
        },
        parameters,
      ),
  );
  const rows = await runWrite(context, statement, transaction);
  if (rows.length > 0) return;
  if (remembered) await removeRow(await remembered.certain(), id, transaction);
  else throw await missError(context, id, { database: transaction });
}

async function removeWithDependants(
  context: WriteContext,
  id: string,
  transaction: Transaction,
): Promise<void> {
  const { schema, dependencies, predicate } = context;
  const request = {
    schema,
    shape: `going|${predicate?.shape ?? ''}`,
    values: [id],
    dynamic: predicate !== undefined,
  };
  // Locked like this, nothing new can begin to refer to the record. What hangs on it is nobody's business who may not delete it.
  const statement = dependencies.plans.statement(request, (parameters) => {
    const where = `${idTest(schema, 't0', '$1')}${live(schema, 't0')}${restriction(predicate, 't0', parameters, 'row')}`;
    return `select 1 from ${allRows(schema)} t0 where ${where} for update of t0`;
  });
  const rows = await runWrite(context, statement, transaction);
  if (rows.length > 0)
    await cascadeBeforeRemoval(context, [canonicalId(schema.key, id)], transaction);
  await removeRow(context, id, transaction);
}

interface Removal {
  readonly context: WriteContext;
  readonly transaction: Transaction;
  /** Records that go already. */
  readonly seen: Seen;
  readonly budget: Budget;
}

/** Events for everything that the foreign keys are about to change, level by level. */
async function cascadeToDependants(
  removal: Removal,
  target: CompiledSchema,
  ids: readonly string[],
): Promise<void> {
  for (const dependant of dependantsOf(removal.context.dependencies.schemas.all(), target.name)) {
    if (dependant.key.onDelete === 'setNull') await unlink(removal, dependant, ids);
    else await cascade(removal, dependant, ids);
  }
}

async function unlink(
  removal: Removal,
  dependant: Dependant,
  ids: readonly string[],
): Promise<void> {
  const { context } = removal;
  const { schema } = dependant;
  if (schema.mapping) return announceUnlinked(removal, dependant, ids);
  const { gate } = context.dependencies;
  if (gate?.asks({ schema: schema.name, operation: 'update' })) {
    const losing = await lockedReferrers(removal, dependant, ids);
    await askUnlinking(
      removal,
      dependant,
      losing.filter(({ trashed }) => !trashed).map(({ id }) => id),
    );
  }
  await emptyLinks(removal, dependant, ids, 'alive');
  if (schema.softDelete) await emptyLinks(removal, dependant, ids, 'trashed');
}

/** Of records in the trash nothing is told but the relation that the link was: they were told as deleted, and keep what they say. */
async function emptyLinks(
  { context, transaction, seen, budget }: Removal,
  { schema, key }: Dependant,
  ids: readonly string[],
  which: 'alive' | 'trashed',
): Promise<void> {
  const column = identifier(key.column);
  const state = which === 'alive' ? live(schema, 'u') : ` and u.${inTrash}`;
  const losing = `select u."_id" from ${schema.table} u where u.${column} = any($2::uuid[]) and u."_id" <> all($3::uuid[])${state}${probe(budget)}`;
  const eventFields = eventFieldsOf(schema, context.dependencies.permissions, [key.column]);
  const change = {
    set: `${column} = null, ${touched}`,
    where: `t0."_id" in (${losing})`,
    operation: 'update',
    many: true,
    returning: `t0."_id", t0.${column}`,
    compare: eventFields?.fields,
  } as const;
  const eventPart = which === 'alive' ? `, e as (${eventRows(schema, 'update')})` : '';
  const told = eventText(schema, eventFields, 'changed');
  const text = `with ${changedRows(schema, change)}${eventPart}${told} select count(*)::integer as touched, $1::text is null as none from r`;
  const values = [actorOf(context.caller), ids, seenIds(seen, schema)];
  const [row] = await runWrite<{ touched: number }>(context, { text, values }, transaction);
  spend(budget, row?.touched ?? 0, schema.name);
}

const askUnlinking = (
  { context }: Removal,
  { schema, key }: Dependant,
  ids: readonly string[],
): Promise<void> =>
  askGate(context, {
    ...{ schema: schema.name, operation: 'update', ids },
    input: { [key.column]: null },
  });

/** In a table of others the database empties the column itself; only that it does so is to be said. */
async function announceUnlinked(
  removal: Removal,
  dependant: Dependant,
  ids: readonly string[],
): Promise<void> {
  const { context, transaction } = removal;
  const { schema } = dependant;
  const losing = (await lockedReferrers(removal, dependant, ids)).map(({ id }) => id);
  spend(removal.budget, losing.length, schema.name);
  if (losing.length === 0) return;
  await askUnlinking(removal, dependant, losing);
  const text = `with r as (select unnest($2::text[]) as "_id") ${eventRows(schema, 'update')}`;
  await runWrite(context, { text, values: [actorOf(context.caller), losing] }, transaction);
}

interface Referrer {
  readonly id: string;
  /** It is in the trash. */
  readonly trashed: boolean;
}

/** Records that refer to some of these, beside those that go already. */
async function lockedReferrers(
  removal: Removal,
  { schema, key }: Dependant,
  ids: readonly string[],
): Promise<readonly Referrer[]> {
  const { context, transaction, seen, budget } = removal;
  const field = schema.tree.fields.get(key.column);
  const type = field ? columnType(field) : 'uuid';
  const refers = `t0.${identifier(key.column)} = any($1::${type}[]) and ${schema.mapping ? 't0."_id"::text <> all($2::text[])' : 't0."_id" <> all($2::uuid[])'}`;
  const trashed = schema.softDelete ? `t0.${inTrash}` : 'false';
  const text = `select t0."_id" as id, ${trashed} as trashed from ${allRows(schema)} t0 where ${refers} order by t0."_id"${probe(budget)} for update of t0`;
  return runWrite<Referrer>(context, { text, values: [ids, seenIds(seen, schema)] }, transaction);
}

async function cascade(
  removal: Removal,
  { schema, key }: Dependant,
  ids: readonly string[],
): Promise<void> {
  const { context, transaction, seen, budget } = removal;
  const found = await lockedReferrers(removal, { schema, key }, ids);
  spend(budget, found.length, schema.name);
  const trash = new Set(found.filter(({ trashed }) => trashed).map(({ id }) => id));
  const fresh = addSeen(
    seen,
    schema,
    found.map(({ id }) => id),
  );
  if (fresh.length === 0) return;
  const alive = fresh.filter((id) => !trash.has(id));
  if (alive.length > 0) await announceDeleted(removal, schema, alive);
  await cascadeToDependants(removal, schema, fresh);
  const trashed = fresh.filter((id) => trash.has(id));
  if (trashed.length === 0) return;
  const text = purgeText(schema, context.dependencies.permissions.tuples);
  await runWrite(context, { text, values: [actorOf(context.caller), trashed] }, transaction);
}

/** The database deletes them with what they refer to; that it does so is to be asked about and said. */
async function announceDeleted(
  { context, transaction }: Removal,
  schema: CompiledSchema,
  ids: readonly string[],
): Promise<void> {
  await askGate(context, { schema: schema.name, operation: 'delete', ids });
  const forgotten = forgetTuples(context.dependencies.permissions.tuples, schema, 'r');
  const kept = schema.history
    ? `o as (select * from ${schema.table} where "_id" = any($2::uuid[])), `
    : '';
  const old = historyRows(schema, 'delete', 'o');
  const idType = schema.mapping ? 'text' : 'uuid';
  const text = `with ${kept}r as (select unnest($2::${idType}[]) as "_id")${old}${forgotten} ${eventRows(schema, 'delete')}`;
  await runWrite(context, { text, values: [actorOf(context.caller), ids] }, transaction);
}
