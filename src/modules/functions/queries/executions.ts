/** The SQL of what became of runs. */
import type { Queryable, Row } from '../../../kernel/database/database.ts';
import { sql } from '../../../kernel/database/sql.ts';

export interface ExecutionRow extends Row {
  readonly id: string;
  readonly functionId: string;
  readonly functionName: string;
  readonly version: number;
  readonly trigger: string;
  readonly success: boolean;
  readonly outcome: string;
  readonly statusCode: number;
  readonly durationMs: number;
  readonly cpuMs: number;
  readonly memoryPeak: string;
  readonly attempt: number;
  readonly requestId: string;
  readonly userId: string | null;
  readonly error: unknown;
  readonly logs: readonly { readonly level: string; readonly text: string; readonly at: number }[];
  readonly retryable: boolean;
  readonly createdAt: Date;
}

/** A failed run with what it was given, where that was kept. */
export interface RetryableRow extends Row {
  readonly functionId: string;
  readonly attempt: number;
  /** Of what waited in the queue: the id of its run there. */
  readonly requestId: string;
  readonly input: { readonly req: Readonly<Record<string, unknown>> } | null;
}

export async function retryableExecution(
  database: Queryable,
  id: string,
): Promise<RetryableRow | undefined> {
  const { rows } = await database.query<RetryableRow>(sql`
    select function_id as "functionId", attempt, request_id as "requestId", input
    from penstock.function_executions where id = ${id}::uuid and not success`);
  return rows[0];
}

/** Deletes at most `max` records from before a time; answers how many. */
export async function deleteExecutionsBefore(
  database: Queryable,
  before: Date,
  max: number,
): Promise<number> {
  const { count } = await database.query(sql`
    delete from penstock.function_executions where id in (
      select id from penstock.function_executions where created_at < ${before} order by created_at limit ${max})`);
  return count;
}

interface Retention {
  readonly executionsDays: number;
  readonly failuresDays: number;
  readonly max: number;
}

/** What is older than it is kept. */
export async function deleteExpired(
  database: Queryable,
  { executionsDays, failuresDays, max }: Retention,
): Promise<number> {
  const { count } = await database.query(sql`
    delete from penstock.function_executions where id in (
      select id from penstock.function_executions
      where (success and created_at < now() - make_interval(days => ${executionsDays}::integer))
        or (not success and created_at < now() - make_interval(days => ${failuresDays}::integer))
      order by created_at limit ${max})`);
  return count;
}

/** Ids of functions that have more records than they keep. */
export async function crowdedFunctions(
  database: Queryable,
  maxPerFunction: number,
): Promise<readonly string[]> {
  const { rows } = await database.query<{ id: string }>(sql`
    select function_id as id from penstock.function_executions
    group by function_id having count(*) > ${maxPerFunction}::bigint`);
  return rows.map(({ id }) => id);
}

/** What one function has beyond the newest `keep` records. */
export async function deleteBeyond(
  database: Queryable,
  { id, keep, max }: { readonly id: string; readonly keep: number; readonly max: number },
): Promise<number> {
  const { count } = await database.query(sql`
    delete from penstock.function_executions where id in (
      select id from penstock.function_executions where function_id = ${id}::uuid
      order by created_at desc, id offset ${keep} limit ${max})`);
  return count;
}
