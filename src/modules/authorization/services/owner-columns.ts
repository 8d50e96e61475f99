/**
 * Records say themselves who owns them: tables of schemas with row authorization get two columns and an index, and the
 * owners that are stored as tuples move there. Until a table has both, owners of its records are stored tuples; what is
 * still stored counts beside what records say, so that every state on the way is right.
 */
import Type from 'typebox';
import type { CompiledSchema } from '../../../data/schema/compile/compiled.ts';
import { deletedColumn, type IndexLayout } from '../../../data/schema/compile/layout.ts';
import { isLarge } from '../../../data/schema/plan/index-steps.ts';
import type { SchemaGuard, SchemaRegistry } from '../../../data/schema/registry/registry.ts';
import { callerKey, system } from '../../../kernel/caller.ts';
import type { Database, Queryable, Statement } from '../../../kernel/database/database.ts';
import { literalOf } from '../../../kernel/database/literal.ts';
import { identifier, sql } from '../../../kernel/database/sql.ts';
import { defineJob, type JobDefinition } from '../../../kernel/jobs/jobs.ts';
import type { Logger } from '../../../kernel/telemetry/logger.ts';
import {
  addColumnsText,
  addIndexText,
  addSortIndexText,
  indexName,
  moveOwners,
  sortIndexes,
  sortIndexName,
} from '../owner-columns.ts';
import { definitionsLock, type Models } from './definitions/models.ts';
import { repeatVersion } from './definitions/queries.ts';
import { trackedTable, trackWithin } from './row-tracking.ts';

export interface OwnerColumns {
  /**
   * Gives tracked tables their columns. Large ones get them, and an index beside running writes, by the job. Never fails,
   * because stored tuples serve as well.
   */
  add(schemas: readonly CompiledSchema[]): Promise<void>;
  readonly job: JobDefinition;
}

interface Dependencies {
  readonly database: Database;
  readonly schemas: Pick<SchemaRegistry, 'get'>;
  readonly models: Pick<Models, 'change'>;
  readonly log: Logger;
}

interface OwnedTable {
  readonly type: string;
  /** A quoted name. */
  readonly table: string;
}

const actor = callerKey(system('owner-columns'));
const lockTimeout = `set local lock_timeout = '3s'`;
const nothing = async (): Promise<void> => undefined;

export function createOwnerColumns(dependencies: Dependencies): OwnerColumns {
  const { database, schemas, log } = dependencies;
  return {
    async add(found) {
      for (const schema of found) {
        const { name: type } = schema;
        const table = trackedTable(schema);
        if (table === undefined) continue;
        try {
          const owned = await isOwned(database, type);
          if (owned === undefined || (await isLarge(database, type))) continue;
          if (!owned) await beginOwning(dependencies, { type, table });
          await database.transaction(async (transaction) => {
            await transaction.query({ text: lockTimeout });
            await matchSortIndexes(transaction, { type, table }, schema);
          });
        } catch (error) {
          const message = 'Owners of these records are stored as relations for now';
          log.warn({ err: error, schema: type }, message);
        }
      }
    },
    job: defineJob({
      name: 'authorization.owner-columns',
      data: Type.Object({}),
      schedule: '*/5 * * * *',
      async handler(_data, { signal }) {
        const { rows } = await database.query<{ type: string; whole: boolean }>(
          sql`select type, owned and moved as whole from penstock.tuple_tables order by type`,
        );
        for (const { type, whole } of rows) {
          const schema = schemas.get(type);
          const table = trackedTable(schema);
          if (!schema || table === undefined || signal.aborted) continue;
          if (!whole) await finish(dependencies, { type, table }, signal);
          await matchSortIndexes(database, { type, table }, schema, true);
        }
      },
    }),
  };
}

/** More orders would make every record dear. */
const MAX_ORDERS = 8;

/**
 * Fields in whose order lists of own records can be read from an index: those that have an index of their own, then those
 * that begin one with others, which are mostly compared. Nobody pages by flags, or by what they do not see.
 */
function ordersOf({ layout, relations, tree }: CompiledSchema): readonly string[] {
  const isOrder = (column: string): boolean => {
    const field = tree.fields.get(column);
    const isNamed = column === '_id' || column === deletedColumn || relations.has(column);
    return !isNamed && !field?.hidden && field?.kind !== 'boolean';
  };
  const ordered = Object.values(layout.indexes).filter(
    ({ method, text }) => method === 'btree' && !text,
  );
  const isAlone = ({ columns: [, ...others] }: IndexLayout): boolean =>
    others.every((column) => column === '_id');
  const firstOf = (indexes: readonly IndexLayout[]): readonly string[] =>
    indexes
      .flatMap(({ columns: [first] }) => first ?? [])
      .filter(isOrder)
      .sort();
  const columns = new Set([...firstOf(ordered.filter(isAlone)), ...firstOf(ordered)]);
  return [...columns].slice(0, MAX_ORDERS);
}

/** Makes the indexes for orders that are missing, and takes away those whose order has no index any more. */
async function matchSortIndexes(
  database: Queryable,
  { type, table }: OwnedTable,
  schema: CompiledSchema,
  concurrently = false,
): Promise<void> {
  const there = await sortIndexes(database, table);
  const requested = new Map(
    ordersOf(schema).map((column) => [sortIndexName(type, column), column]),
  );
  const beside = concurrently ? 'concurrently ' : '';
  for (const [name, valid] of there)
    if (!valid || !requested.has(name))
      await database.query({ text: `drop index ${beside}if exists "app".${identifier(name)}` });
  for (const [name, column] of requested)
    if (there.get(name) !== true)
      await database.query({ text: addSortIndexText({ type, table, column }, concurrently) });
}

/** Whether records of the type say who owns them; `undefined` for tables that are not tracked. */
async function isOwned(database: Queryable, type: string): Promise<boolean | undefined> {
  const { rows } = await database.query<{ owned: boolean }>(
    sql`select owned from penstock.tuple_tables where type = ${type}`,
  );
  return rows[0]?.owned;
}

/** Columns and index at once, and their use. */
async function beginOwning(
  { models }: Pick<Dependencies, 'models'>,
  { type, table }: OwnedTable,
): Promise<void> {
  await models.change(async (transaction) => {
    // Rather stored owners than writers that wait for long.
    await transaction.query({ text: lockTimeout });
    await transaction.query({ text: addColumnsText(table) });
    await transaction.query({ text: addIndexText(type, table) });
    await use(transaction, type);
  }, nothing);
}

/** From its commit on, new records say who owns them: the definition counts as changed. */
async function use(transaction: Queryable, type: string): Promise<void> {
  await transaction.query(markOwned(type));
  await repeatVersion(transaction, type, actor);
}

const markOwned = (type: string): Statement => sql`
  update penstock.tuple_tables set owned = true,
    moved = not exists (select 1 from penstock.tuples where resource_type = ${type} and relation = 'owner')
  where type = ${type}`;

/** What is left to do for a table, in steps that can be done again. */
async function finish(
  { database, models }: Pick<Dependencies, 'database' | 'models'>,
  one: OwnedTable,
  signal: AbortSignal,
): Promise<void> {
  const { type, table } = one;
  if ((await isOwned(database, type)) === false) {
    await database.transaction(async (transaction) => {
      await transaction.query({ text: lockTimeout });
      await transaction.query({ text: addColumnsText(table) });
    });
    await makeIndex(database, one);
    await models.change((transaction) => use(transaction, type), nothing);
  }
  if (await moveAll(database, one, signal))
    await database.query(sql`update penstock.tuple_tables set moved = true where type = ${type}`);
}

/** Beside writes of the table. What an earlier try left half done is made anew. */
async function makeIndex(database: Database, { type, table }: OwnedTable): Promise<void> {
  const name = `"app".${identifier(indexName(type))}`;
  const { rows } = await database.query<{ valid: boolean }>(
    sql`select indisvalid as valid from pg_index where indexrelid = to_regclass(${name})`,
  );
  if (rows[0]?.valid === false) await database.query({ text: `drop index concurrently ${name}` });
  await database.query({ text: addIndexText(type, table, true) });
}

/** Whether nothing was left behind. */
async function moveAll(database: Database, one: OwnedTable, signal: AbortSignal): Promise<boolean> {
  let after: string | null = '';
  let left = false;
  while (after !== null && !signal.aborted) {
    const { last, held } = await moveOwners(database, one, after);
    left ||= held;
    after = last;
  }
  return after === null && !left;
}

/**
 * A table that is made, or empty, gets everything in the transaction that declares it, so that its first record costs
 * what any other does. With a table, what its records say goes.
 */
export const guardOwnerColumns: SchemaGuard = async (transaction, schemas) => {
  const gone = [...schemas].flatMap(([name, schema]) => (schema === undefined ? [name] : []));
  const begun = await beginEmpty(transaction, [...schemas.values()]);
  const { rows } =
    gone.length === 0
      ? { rows: [] }
      : await transaction.query<{ type: string }>(
          sql`delete from penstock.tuple_tables where type = any(${gone}) and (owned or followed <> '{}') returning type`,
        );
  const types = [...begun, ...rows.map(({ type }) => type)];
  if (types.length === 0) return;
  // One after the other, as every change of definitions: revisions appear in their order.
  await transaction.query({ text: `select pg_advisory_xact_lock(${definitionsLock})` });
  for (const type of types) await repeatVersion(transaction, type, actor);
};

/** Gives columns and index to those of the tables that hold nothing yet; answers their types. */
async function beginEmpty(
  transaction: Queryable,
  schemas: readonly (CompiledSchema | undefined)[],
): Promise<readonly string[]> {
  const begun: string[] = [];
  for (const schema of schemas) {
    const table = trackedTable(schema);
    if (!schema || table === undefined || !(await isEmptyTable(transaction, schema.name, table)))
      continue;
    const { name: type } = schema;
    await trackWithin(transaction, type, table);
    await transaction.query({ text: addColumnsText(table) });
    await transaction.query({ text: addIndexText(type, table) });
    await matchSortIndexes(transaction, { type, table }, schema);
    await transaction.query(markOwned(type));
    begun.push(type);
  }
  return begun;
}

/** Whether the table holds nothing, and its records do not say yet who owns them. */
async function isEmptyTable(database: Queryable, type: string, table: string): Promise<boolean> {
  const text = `select not exists (select 1 from ${table}) and not exists (select 1 from penstock.tuple_tables
    where type = $1 and owned and table_oid = ${literalOf(table, 'regclass')}::oid) as empty`;
  const { rows } = await database.query<{ empty: boolean }>({ text, values: [type] });
  return rows[0]?.empty === true;
}
