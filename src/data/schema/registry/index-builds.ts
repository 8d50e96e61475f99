/**
 * Indexes of large tables. Making one in the transaction of the change would keep writers waiting, so it
 * is written down there and made afterwards beside running reads and writes. What is written down
 * survives a crash; a half-made index is dropped and made again; one node works at a time.
 */

import Type from 'typebox';
import type { Database, Queryable } from '../../../kernel/database/database.ts';
import { codeOf } from '../../../kernel/database/failures.ts';
import { identifier, sql } from '../../../kernel/database/sql.ts';
import { defineJob, type JobDefinition, type Jobs } from '../../../kernel/jobs/jobs.ts';
import type { Logger } from '../../../kernel/telemetry/logger.ts';
import { loadDeclarations, treeOf } from '../compile/declaration.ts';
import { createIndexText, duplicates } from '../plan/index-steps.ts';
import type { TableWork } from '../plan/table-work.ts';
import { recordIndexBuild } from './migration-log.ts';

/** Leaves an index for later. */
export async function awaitIndex(
  transaction: Queryable,
  schema: string,
  name: string,
): Promise<void> {
  await transaction.query(sql`
    insert into penstock.schema_index_builds (name, schema) values (${name}, ${schema})
    on conflict (name) do update set state = 'building', reason = null`);
}

/** Forgets what nobody wants any more. */
export async function finishIndexBuilds(
  transaction: Queryable,
  work: readonly TableWork[],
  destroyed: readonly string[],
): Promise<void> {
  for (const { declaration } of work) {
    const requested = Object.keys(declaration.layout.indexes);
    await transaction.query(sql`
      delete from penstock.schema_index_builds where schema = ${declaration.name} and not name = any(${requested}::text[])`);
  }
  if (destroyed.length > 0)
    await transaction.query(
      sql`delete from penstock.schema_index_builds where schema = any(${destroyed}::text[])`,
    );
}

/** How it stands with one index of a table. */
export interface IndexState {
  readonly state: 'building' | 'ready' | 'failed';
  readonly reason: string | null;
}

/** States by physical name. An index that is not mentioned has been lost: somebody removed it by hand. */
export async function indexStates(
  database: Queryable,
  schema: string,
): Promise<ReadonlyMap<string, IndexState>> {
  const { rows } = await database.query<IndexState & { name: string }>(sql`
    select c.relname as name, 'ready' as state, null as reason
    from pg_index i join pg_class c on c.oid = i.indexrelid join pg_class t on t.oid = i.indrelid
      join pg_namespace n on n.oid = t.relnamespace
    where n.nspname = 'app' and t.relname = ${schema} and i.indisvalid
    union all
    select name, state, reason from penstock.schema_index_builds where schema = ${schema}`);
  return new Map(rows.map(({ name, state, reason }) => [name, { state, reason }]));
}

/** Tries failed ones of a schema again. Answers whether there are any. */
export async function retryIndexBuilds(
  database: Queryable,
  schema: string,
  names: readonly string[],
): Promise<boolean> {
  const { count } = await database.query(sql`
    update penstock.schema_index_builds set state = 'building', reason = null
    where schema = ${schema} and name = any(${names}::text[])`);
  return count > 0;
}

interface Builder {
  readonly database: Database;
  readonly log: Logger;
  readonly signal?: AbortSignal;
}

/** Makes every index that waits. Does nothing while another node is at it. */
export async function buildIndexes({ database, log, signal }: Builder): Promise<void> {
  // The usual answer, for which no lock is worth its connection.
  if ((await waiting(database)).length === 0) return;
  await database.tryLock('schemas.index-builds', async () => {
    const failures: unknown[] = [];
    for (const { name, schema } of await waiting(database)) {
      if (signal?.aborted) return;
      await buildOne({ database, log }, schema, name).catch((error: unknown) =>
        failures.push(error),
      );
    }
    // Those are tried again with the next run; one of them does not keep the others waiting.
    if (failures.length > 0)
      throw new AggregateError(failures, `${failures.length} indexes could not be made now`);
  });
}

async function waiting(
  database: Queryable,
): Promise<readonly { readonly name: string; readonly schema: string }[]> {
  const { rows } = await database.query<{ name: string; schema: string }>(sql`
    select name, schema from penstock.schema_index_builds where state = 'building' order by created_at, name`);
  return rows;
}

async function buildOne({ database, log }: Builder, schema: string, name: string): Promise<void> {
  const declaration = (await loadDeclarations(database)).find((one) => one.name === schema);
  const layout = declaration?.layout.indexes[name];
  const startedAt = new Date();
  if (declaration && layout) {
    const statement = createIndexText(schema, name, layout, true);
    try {
      await makeConcurrently(database, name, statement);
    } catch (error) {
      const reason = await refusal(database, {
        error,
        query: duplicates(schema, layout, treeOf(declaration).fields),
      });
      if (reason === undefined) throw error;
      log.warn({ schema, index: name, reason }, 'An index could not be made');
      await database.query(
        sql`update penstock.schema_index_builds set state = 'failed', reason = ${reason} where name = ${name}`,
      );
      await recordIndexBuild(database, {
        schema,
        version: declaration.version,
        statement,
        startedAt,
        reason,
      });
      return;
    }
    await recordIndexBuild(database, {
      schema,
      version: declaration.version,
      statement,
      startedAt,
      reason: null,
    });
  }
  await database.query(sql`delete from penstock.schema_index_builds where name = ${name}`);
}

/** A valid index of that name is what is requested: names are made from what the index is. */
async function makeConcurrently(
  database: Database,
  name: string,
  statement: string,
): Promise<void> {
  const drop = { text: `drop index concurrently if exists "app".${identifier(name)}` };
  await database.session(async (session) => {
    const { rows } = await session.query<{ valid: boolean }>({
      text: `select i.indisvalid as valid from pg_index i join pg_class c on c.oid = i.indexrelid
        join pg_namespace n on n.oid = c.relnamespace where n.nspname = 'app' and c.relname = $1`,
      values: [name],
    });
    if (rows[0]?.valid) return;
    if (rows[0]) await session.query(drop);
    try {
      await session.query({ text: statement });
    } catch (error) {
      // What is left of it would cost every write, and help no read.
      await session.query(drop).catch(() => undefined);
      throw error;
    }
  });
}

/** Why the records do not allow an index; `undefined` for anything that may go better the next time. */
async function refusal(
  database: Queryable,
  { error, query }: { readonly error: unknown; readonly query: ReturnType<typeof duplicates> },
): Promise<string | undefined> {
  const code = codeOf(error) ?? '';
  if (code === '54000') return 'some records have more text than an index can hold';
  if (code !== '23505') return undefined;
  const { rows } = await database.query({ text: query.query });
  return query.error(rows).message;
}

/* The job that makes the indexes that were left for later. */

const name = 'schemas.build-indexes';
/** An index over hundreds of millions of records takes hours. */
const LONGEST_SECONDS = 12 * 3600;

/** Also runs by the clock, so that what a crash left behind is finished. */
export const createIndexJob = ({
  database,
  log,
}: {
  readonly database: Database;
  readonly log: Logger;
}): JobDefinition =>
  defineJob({
    name,
    data: Type.Object({}),
    schedule: '* * * * *',
    retries: 0,
    expireInSeconds: LONGEST_SECONDS,
    handler: (_, { signal }) => buildIndexes({ database, log, signal }),
  });

/** Starts it soon. A failure costs nothing but time: the schedule starts it too. */
export function enqueueIndexJob(jobs: Jobs, log: Logger): void {
  jobs
    .enqueue(name, {}, { singletonKey: name })
    .catch((error: unknown) => log.warn({ err: error }, 'The making of indexes starts later'));
}
