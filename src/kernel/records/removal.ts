/** Deleting a record, and with it what its relations say: dependants go too (cascade) or lose the link (setNull), each with its event. */
import { callerKey } from '../caller.ts';
import type { Transaction } from '../database/database.ts';
import { identifier } from '../database/sql.ts';
import type { CompiledSchema } from '../schema/compiled.ts';
import type { ForeignKeyLayout } from '../schema/layout.ts';
import { deleteText, eventRows, forgetTuples } from './statements.ts';
import { announceEvents, missError, requireId, runWrite, type WriteContext } from './write-context.ts';

interface Dependant {
  readonly schema: CompiledSchema;
  readonly key: ForeignKeyLayout;
}

/** Foreign keys that change other records when one of `target` goes. */
function dependantsOf(schemas: readonly CompiledSchema[], target: string): readonly Dependant[] {
  return schemas.flatMap((schema) =>
    Object.values(schema.layout.foreignKeys)
      .filter((key) => key.target === target && key.onDelete !== 'restrict')
      .map((key) => ({ schema, key })),
  );
}

export async function removeRecord(context: WriteContext, id: string): Promise<void> {
  const { dependencies } = context;
  requireId(id, 'id');
  if (!hasDependants(context)) await removeRow(context, id);
  else await dependencies.database.transaction((transaction) => removeWithDependants(context, id, transaction));
  announceEvents(dependencies);
}

/** True when relations to this schema change other records as its own go. */
export const hasDependants = ({ schema, dependencies }: WriteContext): boolean =>
  dependantsOf(dependencies.schemas.all(), schema.name).length > 0;

/** Settles what refers to records that are about to go. They must be locked. */
export async function settleBefore(context: WriteContext, ids: readonly string[], transaction: Transaction): Promise<void> {
  const { schema } = context;
  await settleDependants({ context, transaction, seen: new Set(ids.map((id) => `${schema.name}:${id}`)) }, schema, ids);
}

async function removeRow(context: WriteContext, id: string, transaction?: Transaction): Promise<void> {
  const { schema, caller, dependencies, predicate, options } = context;
  const versioned = options.expectedVersion !== undefined;
  const values = [callerKey(caller), id, ...(versioned ? [options.expectedVersion] : [])];
  const shape = `delete|${versioned}|${predicate?.shape ?? ''}`;
  const statement = dependencies.plans.statement({ schema, shape, values, dynamic: predicate !== undefined }, (parameters) =>
    deleteText(schema, { versioned, predicate, tuples: dependencies.permissions.tuples }, parameters),
  );
  const rows = await runWrite(context, statement, transaction);
  if (rows.length === 0) throw await missError(context, id, transaction);
}

async function removeWithDependants(context: WriteContext, id: string, transaction: Transaction): Promise<void> {
  const { schema } = context;
  // Locked like this, nothing new can begin to refer to the record.
  const text = `select 1 from ${schema.table} where "_id" = $1 for update`;
  await runWrite(context, { text, values: [id] }, transaction);
  await settleBefore(context, [id], transaction);
  await removeRow(context, id, transaction);
}

interface Removal {
  readonly context: WriteContext;
  readonly transaction: Transaction;
  /** Records that go already: relations can run in circles. */
  readonly seen: Set<string>;
}

/** Events for everything that the foreign keys are about to change, level by level. */
async function settleDependants(removal: Removal, target: CompiledSchema, ids: readonly string[]): Promise<void> {
  for (const dependant of dependantsOf(removal.context.dependencies.schemas.all(), target.name)) {
    if (dependant.key.onDelete === 'setNull') await unlink(removal, dependant, ids);
    else await cascade(removal, dependant, ids);
  }
}

async function unlink({ context, transaction, seen }: Removal, { schema, key }: Dependant, ids: readonly string[]): Promise<void> {
  const column = identifier(key.column);
  const leaving = [...seen].filter((entry) => entry.startsWith(`${schema.name}:`)).map((entry) => entry.slice(schema.name.length + 1));
  const change =
    `update ${schema.table} t0 set ${column} = null, "updatedAt" = now(), "__v" = t0."__v" + 1 ` +
    `where t0.${column} = any($2::uuid[]) and t0."_id" <> all($3::uuid[]) returning t0."_id"`;
  const text = `with r as (${change}) ${eventRows(schema, 'update', 'r', '$1')}`;
  await runWrite(context, { text, values: [callerKey(context.caller), ids, leaving] }, transaction);
}

async function cascade(removal: Removal, { schema, key }: Dependant, ids: readonly string[]): Promise<void> {
  const { context, transaction, seen } = removal;
  const text = `select "_id" as id from ${schema.table} where ${identifier(key.column)} = any($1::uuid[]) order by "_id" for update`;
  const rows = await runWrite<{ id: string }>(context, { text, values: [ids] }, transaction);
  const fresh = rows.map(({ id }) => id).filter((id) => !seen.has(`${schema.name}:${id}`));
  if (fresh.length === 0) return;
  for (const id of fresh) seen.add(`${schema.name}:${id}`);
  const forgotten = forgetTuples(context.dependencies.permissions.tuples, schema, 'r');
  const going = `with r as (select unnest($2::uuid[]) as "_id")${forgotten} ${eventRows(schema, 'delete', 'r', '$1')}`;
  await runWrite(context, { text: going, values: [callerKey(context.caller), fresh] }, transaction);
  await settleDependants(removal, schema, fresh);
}
