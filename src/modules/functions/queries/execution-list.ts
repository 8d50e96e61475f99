/** Lists of what became of runs: page by page, and what is looked for in their logs, window by window. */

import {
  createParameters,
  type Parameters,
} from '../../../data/records/sql/prepared-statements.ts';
import type { Queryable } from '../../../kernel/database/database.ts';
import type { ExecutionRow } from './executions.ts';

/** Where a list ended: it goes on behind this run. */
export interface ExecutionPlace {
  readonly createdAt: Date;
  readonly id: string;
}

export interface ExecutionFilter {
  readonly functionId?: string | undefined;
  readonly success?: boolean | undefined;
  readonly trigger?: string | undefined;
  /** A part of a line of the log, of the message of the error, or of the name of the function. */
  readonly search?: string | undefined;
  readonly after?: ExecutionPlace | undefined;
  readonly skip: number;
  readonly limit: number;
  readonly newestFirst: boolean;
}

export interface ExecutionPage {
  readonly rows: readonly ExecutionRow[];
  /** Of those that fit, `MAX_COUNTED` at most; with `search` or `trigger` among those that were looked at. */
  readonly count: number;
  /** Undefined: there is nothing behind it. */
  readonly next: ExecutionPlace | undefined;
}

/** Rows that are counted; beyond, the count says so many. */
const MAX_COUNTED = 10_000;
/** Runs whose logs one answer looks through. A log has tens of kilobytes. */
export const MAX_SEARCHED = 2_000;
/** Runs that are looked at for what started them. */
const MAX_COMPARED = 10_000;

/** `%` and `_` as they are. */
const containing = (text: string): string => `%${text.replace(/[\\%_]/g, '\\$&')}%`;

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

/** Only what narrows stands in the text, so that the indexes by function, result and time serve it. */
function indexed({ functionId, success, after, newestFirst }: ExecutionFilter, to: Parameters) {
  const tests: string[] = [];
  if (functionId !== undefined) tests.push(`function_id = ${to.next(functionId)}::uuid`);
  if (success !== undefined) tests.push(`success = ${to.next(success)}::boolean`);
  if (after) {
    const at = `${to.next(after.createdAt)}::timestamptz`;
    const sign = newestFirst ? '<' : '>';
    const isBehind = `created_at ${sign} ${at} or id > ${to.next(after.id)}::uuid`;
    tests.push(`created_at ${sign}= ${at} and (${isBehind})`);
  }
  return tests.length > 0 ? `where ${tests.join(' and ')}` : '';
}

/** What no index knows. */
function sought({ trigger, search }: ExecutionFilter, to: Parameters): string | undefined {
  const tests: string[] = [];
  if (trigger !== undefined) tests.push(`trigger = ${to.next(trigger)}::text`);
  if (search !== undefined) {
    const like = `ilike ${to.next(containing(search))}::text`;
    tests.push(
      `(error->>'message' ${like} or function_name ${like} or exists (select from jsonb_array_elements(logs) line where line->>'text' ${like}))`,
    );
  }
  return tests.length > 0 ? tests.join(' and ') : undefined;
}

const orderOf = ({ newestFirst }: ExecutionFilter): string =>
  `created_at ${newestFirst ? 'desc' : 'asc'}, id`;

export const listExecutions = (
  database: Queryable,
  filter: ExecutionFilter,
): Promise<ExecutionPage> =>
  filter.search === undefined && filter.trigger === undefined
    ? listAll(database, filter)
    : listSought(database, filter);

async function listAll(database: Queryable, filter: ExecutionFilter): Promise<ExecutionPage> {
  const { skip, limit } = filter;
  const of = createParameters();
  const text = `select ${columns} from penstock.function_executions ${indexed(filter, of)}
    order by ${orderOf(filter)} offset ${of.next(skip)} limit ${of.next(limit)}`;
  const { rows } = await database.query<ExecutionRow>({ text, values: of.values });
  const all = createParameters();
  const counted = await database.query<{ count: number }>({
    text: `select count(*)::integer as count from (
      select 1 from penstock.function_executions ${indexed(filter, all)} limit ${MAX_COUNTED}) counted`,
    values: all.values,
  });
  const next = rows.length === limit ? rows.at(-1) : undefined;
  return { rows, count: counted.rows[0]?.count ?? 0, next };
}

interface Looked {
  readonly count: number;
  readonly looked: number;
  readonly ids: readonly string[];
  readonly lastId: string;
  readonly lastAt: Date;
}

async function listSought(database: Queryable, filter: ExecutionFilter): Promise<ExecutionPage> {
  const { skip, limit, newestFirst, search } = filter;
  const max = search === undefined ? MAX_COMPARED : MAX_SEARCHED;
  const order = orderOf(filter);
  const of = createParameters();
  const found = await database.query<Looked>({
    text: `with looked as materialized (
        select id, created_at, ${sought(filter, of)} as fits from (
          select * from penstock.function_executions ${indexed(filter, of)} order by ${order} limit ${max}) window_of
      )
      select count(*) filter (where fits)::integer as count, count(*)::integer as looked,
        array(select id::text from looked where fits order by ${order} offset ${of.next(skip)} limit ${of.next(limit)}) as ids,
        (array_agg(id::text order by created_at ${newestFirst ? 'asc' : 'desc'}, id desc))[1] as "lastId",
        ${newestFirst ? 'min' : 'max'}(created_at) as "lastAt" from looked`,
    values: of.values,
  });
  const [looked] = found.rows;
  if (!looked) return { rows: [], count: 0, next: undefined };
  const { count, ids } = looked;
  const { rows } = await database.query<ExecutionRow>({
    text: `select ${columns} from penstock.function_executions where id = any($1::uuid[]) order by ${order}`,
    values: [ids],
  });
  const isCut = skip + ids.length < count;
  const end = { createdAt: looked.lastAt, id: looked.lastId };
  return { rows, count, next: isCut ? rows.at(-1) : looked.looked === max ? end : undefined };
}
