/**
 * Records say themselves who owns them: tables of schemas with row authorization get two columns and an index, and the
 * owners that are stored as tuples move there. Until a table has both, owners of its records are stored tuples; what is
 * still stored counts beside what records say, so that every state on the way is right.
 */
import Type from 'typebox';
import type { CompiledSchema } from '../../../data/schema/compile/compiled.ts';
import { isLarge } from '../../../data/schema/plan/index-steps.ts';
import type { SchemaGuard, SchemaRegistry } from '../../../data/schema/registry/registry.ts';
import { callerKey, system } from '../../../kernel/caller.ts';
import type { Database, Queryable } from '../../../kernel/database/database.ts';
import { identifier, sql } from '../../../kernel/database/sql.ts';
import { defineJob, type JobDefinition } from '../../../kernel/jobs/jobs.ts';
import type { Logger } from '../../../kernel/telemetry/logger.ts';
import { addColumnsText, addIndexText, indexName, moveOwners } from '../owner-columns.ts';
import type { Models } from './definitions/models.ts';
import { repeatVersion } from './definitions/queries.ts';
import { trackedTable } from './row-tracking.ts';

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
          if ((await isOwned(database, type)) !== false || (await isLarge(database, type)))
            continue;
          await beginOwning(dependencies, { type, table });
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
        const { rows } = await database.query<{ type: string }>(
          sql`select type from penstock.tuple_tables where not (owned and moved) order by type`,
        );
        for (const { type } of rows) {
          const table = trackedTable(schemas.get(type));
          if (table === undefined || signal.aborted) continue;
          await finish(dependencies, { type, table }, signal);
        }
      },
    }),
  };
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
  await transaction.query(sql`
    update penstock.tuple_tables set owned = true,
      moved = not exists (select 1 from penstock.tuples where resource_type = ${type} and relation = 'owner')
    where type = ${type}`);
  await repeatVersion(transaction, type, actor);
}

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

/** With a table, what its records say goes in the same transaction. */
export const guardOwnerColumns: SchemaGuard = async (transaction, schemas) => {
  const gone = [...schemas].flatMap(([name, schema]) => (schema === undefined ? [name] : []));
  if (gone.length === 0) return;
  const { rows } = await transaction.query<{ type: string }>(
    sql`delete from penstock.tuple_tables where type = any(${gone}) and owned returning type`,
  );
  for (const { type } of rows) await repeatVersion(transaction, type, actor);
};
