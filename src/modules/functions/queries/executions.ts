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

export interface ExecutionFilter {
  readonly functionId?: string | undefined;
  readonly success?: boolean | undefined;
  readonly trigger?: string | undefined;
  /** A part of a line of the log or of the message of the error. */
  readonly search?: string | undefined;
  readonly skip: number;
  readonly limit: number;
  readonly newestFirst: boolean;
}

/** `%` and `_` as they are. */
const containing = (text: string | undefined): string | null =>
  text === undefined ? null : `%${text.replace(/[\\%_]/g, '\\$&')}%`;

/** $1 to $4; what is null does not narrow. */
const conditions = `
  ($1::uuid is null or function_id = $1) and ($2::boolean is null or success = $2) and ($3::text is null or trigger = $3)
  and ($4::text is null or error->>'message' ilike $4 or function_name ilike $4
    or exists (select 1 from jsonb_array_elements(logs) line where line->>'text' ilike $4))`;

/** Ids that a run in the queue can have; others are not looked for. */
const runId = `case when request_id ~ '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$' then request_id::uuid end`;

/** Its input was kept, or it was a try of a run that is still known to the queue. */
const retryable = `not success and (input is not null or exists (
  select from penstock.queue_items i where i.queue = 'functions' and i.id = ${runId}
    and i.target = function_executions.function_id::text and i.state in ('done', 'dead')))`;

const columns = `
  id, function_id as "functionId", function_name as "functionName", version, trigger, success, outcome,
  status_code as "statusCode", duration_ms as "durationMs", cpu_ms as "cpuMs", memory_peak as "memoryPeak", attempt,
  request_id as "requestId", user_id as "userId", error, logs, ${retryable} as retryable, created_at as "createdAt"`;

/** Rows that are counted; beyond, the count says so many. */
const MOST_COUNTED = 10_000;

export async function listExecutions(
  database: Queryable,
  filter: ExecutionFilter,
): Promise<{ readonly rows: readonly ExecutionRow[]; readonly count: number }> {
  const { functionId = null, success = null, trigger = null, search, skip, limit } = filter;
  const direction = filter.newestFirst ? 'desc' : 'asc';
  const values = [functionId, success, trigger, containing(search)];
  const { rows } = await database.query<ExecutionRow>({
    text: `select ${columns} from penstock.function_executions where ${conditions}
      order by created_at ${direction}, id offset $5 limit $6`,
    values: [...values, skip, limit],
  });
  const counted = await database.query<{ count: number }>({
    text: `select count(*)::integer as count from (
      select 1 from penstock.function_executions where ${conditions} limit ${MOST_COUNTED}) counted`,
    values,
  });
  return { rows, count: counted.rows[0]?.count ?? 0 };
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

/** Deletes at most `most` records from before a time; answers how many. */
export async function deleteExecutionsBefore(
  database: Queryable,
  before: Date,
  most: number,
): Promise<number> {
  const { count } = await database.query(sql`
    delete from penstock.function_executions where id in (
      select id from penstock.function_executions where created_at < ${before} order by created_at limit ${most})`);
  return count;
}

interface Retention {
  readonly executionsDays: number;
  readonly failuresDays: number;
  readonly most: number;
}

/** What is older than it is kept. */
export async function deleteExpired(
  database: Queryable,
  { executionsDays, failuresDays, most }: Retention,
): Promise<number> {
  const { count } = await database.query(sql`
    delete from penstock.function_executions where id in (
      select id from penstock.function_executions
      where (success and created_at < now() - make_interval(days => ${executionsDays}::integer))
        or (not success and created_at < now() - make_interval(days => ${failuresDays}::integer))
      order by created_at limit ${most})`);
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
  { id, keep, most }: { readonly id: string; readonly keep: number; readonly most: number },
): Promise<number> {
  const { count } = await database.query(sql`
    delete from penstock.function_executions where id in (
      select id from penstock.function_executions where function_id = ${id}::uuid
      order by created_at desc, id offset ${keep} limit ${most})`);
  return count;
}
