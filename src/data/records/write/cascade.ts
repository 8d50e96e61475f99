/**
 * What hangs on records that go into the trash or come out of it. Nothing is lost on the way:
 * - `restrict`: while a record that is alive refers to them they cannot go
 * - `cascade`: dependants that have a trash go with them, and come back with them; others stay until they are purged
 * - `setNull`: the link stays until they are purged, so that it is there again when they come back
 */
import type { Caller } from '../../../kernel/caller.ts';
import type { Transaction } from '../../../kernel/database/database.ts';
import { identifier } from '../../../kernel/database/sql.ts';
import { actorOf } from '../../../kernel/hooks/hooks.ts';
import type { CompiledSchema } from '../../schema/compile/compiled.ts';
import { deletedColumn, type ForeignKeyLayout } from '../../schema/compile/layout.ts';
import { recordErrors } from '../errors.ts';
import { changedRows, touched } from '../sql/changed-rows.ts';
import { eventRows } from './statements.ts';
import { askGate, runWrite, type WriteContext } from './write-context.ts';

/* How many records one request may change or delete: locks, memory and the time of those who wait have an end. */

export const WRITE_LIMIT = 50_000;

/** What a request may still touch beside the records that it is about. Counts down. */
export interface Budget {
  left: number;
}

/** The platform's own work is not cut short: nobody could ask for the rest of it. */
export const budgetOf = ({ kind }: Caller): Budget => ({
  left: kind === 'system' ? Number.POSITIVE_INFINITY : WRITE_LIMIT,
});

/** Ends a query as soon as it is known that there are too many. */
export const probe = ({ left }: Budget): string =>
  Number.isFinite(left) ? ` limit ${left + 1}` : '';

/** Throws 409 when there is more than the budget holds. `schema`: of the records. */
export function spend(budget: Budget, count: number, schema: string): void {
  if (count > budget.left) {
    const message = `More than ${WRITE_LIMIT} records depend on what is to be deleted, the last of them in ${schema}: delete those first, step by step`;
    throw recordErrors.DEPENDANT_LIMIT_EXCEEDED({ message });
  }
  budget.left -= count;
}

/* Which records hang on others by their relations (`onDelete`). */

export interface Dependant {
  readonly schema: CompiledSchema;
  readonly key: ForeignKeyLayout;
}

/** Foreign keys that lead to records of `target`. */
export const keysTo = (schemas: readonly CompiledSchema[], target: string): readonly Dependant[] =>
  schemas.flatMap((schema) =>
    Object.values(schema.layout.foreignKeys)
      .filter((key) => key.target === target)
      .map((key) => ({ schema, key })),
  );

/** Records that are being dealt with already, as `schema:id`: relations can run in circles. */
export type Seen = Set<string>;

export const seenOf = ({ name }: CompiledSchema, ids: readonly string[]): Seen =>
  new Set(ids.map((id) => `${name}:${id}`));

/** Ids of a schema among them. */
export const seenIds = (seen: Seen, { name }: CompiledSchema): string[] =>
  [...seen]
    .filter((entry) => entry.startsWith(`${name}:`))
    .map((entry) => entry.slice(name.length + 1));

/** Those that are new, which are noted. */
export function addSeen(
  seen: Seen,
  { name }: CompiledSchema,
  ids: readonly string[],
): readonly string[] {
  const fresh = ids.filter((id) => !seen.has(`${name}:${id}`));
  for (const id of fresh) seen.add(`${name}:${id}`);
  return fresh;
}

interface Cascade {
  readonly context: WriteContext;
  readonly transaction: Transaction;
  readonly seen: Seen;
}

interface Trashing extends Cascade {
  readonly budget: Budget;
}

const holdsBack = ({ key }: Dependant): boolean => key.onDelete === 'restrict';
const goesAlong = ({ schema, key }: Dependant): boolean =>
  key.onDelete === 'cascade' && schema.softDelete !== undefined;

/** True when relations to this schema have to be looked at as its records go into the trash. */
export const concernsTrash = (
  schemas: readonly CompiledSchema[],
  { name }: CompiledSchema,
): boolean =>
  keysTo(schemas, name).some((dependant) => holdsBack(dependant) || goesAlong(dependant));

/** Before records go into the trash; they are locked. Throws 409. */
export async function cascadeToTrash(
  context: WriteContext,
  ids: readonly string[],
  transaction: Transaction,
): Promise<void> {
  const { schema } = context;
  const settling = {
    context,
    transaction,
    seen: seenOf(schema, ids),
    budget: budgetOf(context.caller),
  };
  await trashDependants(settling, schema, ids);
  // Last, when it is known what goes along: that does not hold anything back.
  await requireFree(settling);
}

const dependantsOf = ({ context }: Cascade, target: CompiledSchema): readonly Dependant[] =>
  keysTo(context.dependencies.schemas.all(), target.name);

async function trashDependants(
  settling: Trashing,
  target: CompiledSchema,
  ids: readonly string[],
): Promise<void> {
  const { context, transaction, seen, budget } = settling;
  for (const dependant of dependantsOf(settling, target).filter(goesAlong)) {
    const { schema, key } = dependant;
    await askGoing(settling, dependant, ids);
    const refers = `u.${identifier(key.column)} = any($2::uuid[]) and u."_id" <> all($3::uuid[]) and u."${deletedColumn}" is null`;
    // Twice: a row may go into the trash while it is waited for.
    const where = `t0."_id" in (select u."_id" from ${schema.table} u where ${refers}${probe(budget)}) and t0."${deletedColumn}" is null`;
    const change = {
      set: `"${deletedColumn}" = now(), ${touched}`,
      where,
      operation: 'delete',
      many: true,
      returning: 't0."_id"',
    } as const;
    const text = `with ${changedRows(schema, change)}, e as (${eventRows(schema, 'delete')}) select r."_id" as id from r`;
    const values = [actorOf(context.caller), ids, seenIds(seen, schema)];
    const rows = await runWrite<{ id: string }>(context, { text, values }, transaction);
    spend(budget, rows.length, schema.name);
    const gone = addSeen(
      seen,
      schema,
      rows.map(({ id }) => id),
    );
    if (gone.length > 0) await trashDependants(settling, schema, gone);
  }
}

/** Asks about dependants before they go. */
async function askGoing(
  { context, transaction, seen, budget }: Trashing,
  { schema, key }: Dependant,
  ids: readonly string[],
): Promise<void> {
  const change = { schema: schema.name, operation: 'delete' } as const;
  if (!context.dependencies.gate?.asks(change)) return;
  const refers = `t0.${identifier(key.column)} = any($1::uuid[]) and t0."_id" <> all($2::uuid[])`;
  const text = `select t0."_id" as id from ${schema.table} t0 where ${refers} and t0."${deletedColumn}" is null order by t0."_id"${probe(budget)} for update of t0`;
  const values = [ids, seenIds(seen, schema)];
  const rows = await runWrite<{ id: string }>(context, { text, values }, transaction);
  await askGate(context, { ...change, ids: rows.map(({ id }) => id) });
}

async function requireFree(settling: Cascade): Promise<void> {
  const { context, transaction, seen } = settling;
  const { schemas } = context.dependencies;
  const targets = new Set([...seen].map((entry) => entry.slice(0, entry.indexOf(':'))));
  for (const target of [...targets].flatMap((name) => schemas.get(name) ?? [])) {
    for (const { schema, key } of dependantsOf(settling, target).filter(holdsBack)) {
      const link = `t.${identifier(key.column)} = any($1::uuid[]) and t."_id" <> all($2::uuid[])`;
      const text = `select 1 from ${schema.rows} t where ${link} limit 1`;
      const rows = await runWrite(
        context,
        { text, values: [seenIds(seen, target), seenIds(seen, schema)] },
        transaction,
      );
      if (rows.length > 0)
        throw recordErrors.RECORD_IN_USE({
          message: `Records of ${schema.name} refer to this one`,
        });
    }
  }
}

/** After records came out of the trash: what went with them at `deletedAt` comes back, unless something else that it needs is gone. */
export async function restoreDependants(
  context: WriteContext,
  restored: { readonly ids: readonly string[]; readonly deletedAt: unknown },
  transaction: Transaction,
): Promise<void> {
  const { schema } = context;
  await bringBack({ context, transaction, seen: seenOf(schema, restored.ids) }, schema, restored);
}

async function bringBack(
  settling: Cascade,
  target: CompiledSchema,
  { ids, deletedAt }: { readonly ids: readonly string[]; readonly deletedAt: unknown },
): Promise<void> {
  const { context, transaction, seen } = settling;
  for (const { schema, key } of dependantsOf(settling, target).filter(goesAlong)) {
    const gone = `t0.${identifier(key.column)} = any($2::uuid[]) and t0."${deletedColumn}" = $3::timestamptz(3)`;
    const where = gone + missingParents(settling, schema, key.column);
    await askComing(settling, schema, { where, values: [ids, deletedAt] });
    const change = {
      set: `"${deletedColumn}" = null, ${touched}`,
      where,
      operation: 'restore',
      many: true,
      returning: 't0."_id"',
    } as const;
    const text = `with ${changedRows(schema, change)}, e as (${eventRows(schema, 'restore')}) select r."_id" as id from r`;
    const values = [actorOf(context.caller), ids, deletedAt];
    const rows = await runWrite<{ id: string }>(
      { ...context, schema },
      { text, values },
      transaction,
    );
    const back = addSeen(
      seen,
      schema,
      rows.map(({ id }) => id),
    );
    if (back.length > 0) await bringBack(settling, schema, { ids: back, deletedAt });
  }
}

/** Asks about dependants before they come back. */
async function askComing(
  { context, transaction }: Cascade,
  schema: CompiledSchema,
  { where, values }: { readonly where: string; readonly values: readonly unknown[] },
): Promise<void> {
  const change = { schema: schema.name, operation: 'create', deleted: true } as const;
  if (!context.dependencies.gate?.asks(change)) return;
  // `$1` is the actor where they are changed.
  const text = `select t0."_id" as id from ${schema.table} t0 where ${where} and $1::text is null order by t0."_id" for update of t0`;
  const rows = await runWrite<{ id: string }>(
    context,
    { text, values: [null, ...values] },
    transaction,
  );
  await askGate(context, { ...change, ids: rows.map(({ id }) => id) });
}

/** Records of a schema that need another one, beside the one at `except`, which is in the trash. */
const missingParents = ({ context }: Cascade, schema: CompiledSchema, except: string): string =>
  neededParents(schema, context.dependencies.schemas.all())
    .filter(({ column }) => column !== except)
    .map(
      ({ column, parent }) =>
        ` and not exists (select 1 from ${parent.table} p where p."_id" = t0.${identifier(column)} and p."${deletedColumn}" is not null)`,
    )
    .join('');

interface NeededParent {
  readonly column: string;
  readonly parent: CompiledSchema;
}

/** What a record cannot be alive without: what its relations lead to, where that may be in a trash. */
export const neededParents = (
  schema: CompiledSchema,
  schemas: readonly CompiledSchema[],
): readonly NeededParent[] =>
  Object.values(schema.layout.foreignKeys).flatMap(({ column, target, onDelete }) => {
    const parent = onDelete === 'setNull' ? undefined : schemas.find(({ name }) => name === target);
    return parent?.softDelete ? [{ column, parent }] : [];
  });
