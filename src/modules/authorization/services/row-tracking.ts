/**
 * Which tuples are known to lead to a row of a table (`tuples.row_of`): what lets
 * counts be read from an index. The tables of schemas with row authorization get
 * triggers that take the knowledge back when rows go; writes then note it under
 * a lock on the row, and a job notes it for the tuples that were there before.
 * A tuple of which nothing is noted is looked up when it is counted: without
 * any of this answers are the same, and slower.
 */
import Type from 'typebox';
import type { CompiledSchema } from '../../../data/schema/compile/compiled.ts';
import type { SchemaRegistry } from '../../../data/schema/registry/registry.ts';
import type { Database, Queryable } from '../../../kernel/database/database.ts';
import { literalOf } from '../../../kernel/database/literal.ts';
import { sql } from '../../../kernel/database/sql.ts';
import { defineJob, type JobDefinition } from '../../../kernel/jobs/jobs.ts';
import type { Logger } from '../../../kernel/telemetry/logger.ts';
import { trackedOid } from '../tuple-sql.ts';

export interface RowTracking {
  /** Begins to track the rows of those that have row authorization. Never fails, because nothing but speed rests on it. */
  track(schemas: readonly CompiledSchema[]): Promise<void>;
  readonly job: JobDefinition;
}

interface Dependencies {
  readonly database: Database;
  readonly schemas: Pick<SchemaRegistry, 'get'>;
  readonly log: Logger;
}

const pageSize = 2_000;
const lock = 'penstock.row-tracking';

/** Tables of the platform's own making, whose rows tuples can be about. Others are left as they are. */
export const trackedTable = (schema: CompiledSchema | undefined): string | undefined =>
  schema?.modelOptions.conduit.authorization.enabled && schema.mapping === undefined
    ? schema.table
    : undefined;

export function createRowTracking({ database, schemas, log }: Dependencies): RowTracking {
  async function noteAll(type: string, signal: AbortSignal): Promise<void> {
    const table = trackedTable(schemas.get(type));
    if (table === undefined) return;
    let after: string | null = '';
    while (after !== null && !signal.aborted)
      after = await noteRows(database, { type, table }, after);
    if (after === null)
      await database.query(sql`update penstock.tuple_tables set noted = true where type = ${type}`);
  }

  return {
    async track(found) {
      for (const schema of found) {
        const table = trackedTable(schema);
        if (table === undefined) continue;
        try {
          if (!(await isTracked(database, schema.name, table)))
            await beginTracking(database, schema.name, table);
        } catch (error) {
          const message =
            'The rows of this schema cannot be tracked now, so exact counts of what somebody may see are slow';
          log.warn({ err: error, schema: schema.name }, message);
        }
      }
    },
    job: defineJob({
      name: 'authorization.note-rows',
      data: Type.Object({}),
      schedule: '*/5 * * * *',
      async handler(_data, { signal }) {
        const { rows } = await database.query<{ type: string }>(
          sql`select type from penstock.tuple_tables where not noted order by type`,
        );
        for (const { type } of rows) await noteAll(type, signal);
      },
    }),
  };
}

async function isTracked(database: Queryable, type: string, table: string): Promise<boolean> {
  const { rows } = await database.query<{ tracked: boolean }>({
    text: `select ${trackedOid(type, table)} is not null as tracked`,
  });
  return rows[0]?.tracked === true;
}

/** Gives the table its triggers; from its commit on, writes note what they know. `table` is a quoted name. */
export const beginTracking = (database: Database, type: string, table: string): Promise<void> =>
  database.transaction(async (transaction) => {
    // Rather slow counts than writers that wait for long.
    await transaction.query({ text: `set local lock_timeout = '3s'` });
    await trackWithin(transaction, type, table);
  });

/** The same as a part of a transaction. */
export async function trackWithin(
  transaction: Queryable,
  type: string,
  table: string,
): Promise<void> {
  await transaction.query({
    text: `select pg_advisory_xact_lock(hashtextextended('${lock}', 0))`,
  });
  if (await isTracked(transaction, type, table)) return;
  const argument = literalOf(type, 'text').replace(/::text$/, '');
  await transaction.query({
    text: `create or replace trigger penstock_rows_gone after delete on ${table} referencing old table as gone
      for each statement execute function penstock.forget_rows(${argument})`,
  });
  await transaction.query({
    text: `create or replace trigger penstock_all_rows_gone after truncate on ${table}
      for each statement execute function penstock.forget_all_rows(${argument})`,
  });
  await transaction.query({
    text: `insert into penstock.tuple_tables (type, table_oid, noted)
      values ($1, ${literalOf(table, 'regclass')}::oid, not exists (select 1 from penstock.tuples where resource_type = $1))
      on conflict (type) do update set table_oid = excluded.table_oid, noted = excluded.noted, owned = false, moved = false, followed = '{}'`,
    values: [type],
  });
}

/** Notes what is known of the tuples after a resource, in the order of resources; answers where it came to, null at the end. */
export async function noteRows(
  database: Queryable,
  { type, table }: { readonly type: string; readonly table: string },
  after: string,
): Promise<string | null> {
  const text = `with page as (select max(p.resource_id) as last, count(*) as tuples from (
      select t.resource_id from penstock.tuples t where t.resource_type = $1 and t.resource_id > $2 order by t.resource_id limit ${pageSize}) p),
    known as (select ${trackedOid(type, table)} as oid),
    present as (
      select d."_id" from ${table} d where d."_id" in (
        select t.resource_uuid from penstock.tuples t, page p, known k
         where t.resource_type = $1 and t.resource_id > $2 and t.resource_id <= p.last and t.row_of is distinct from k.oid)
      order by d."_id" for key share of d),
    noted as (
      update penstock.tuples t set row_of = k.oid from present d, page p, known k
       where t.resource_type = $1 and t.resource_id > $2 and t.resource_id <= p.last and t.resource_uuid = d."_id"
         and t.row_of is distinct from k.oid)
    select case when p.tuples = ${pageSize} then p.last end as last from page p`;
  const { rows } = await database.query<{ last: string | null }>({ text, values: [type, after] });
  return rows[0]?.last ?? null;
}
