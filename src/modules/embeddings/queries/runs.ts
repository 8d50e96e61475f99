/** The SQL of backfills, and of what providers were sent. */
import type { Queryable } from '../../../kernel/database/database.ts';
import { shortSql, sql, statementName } from '../../../kernel/database/sql.ts';

export const runStates = ['queued', 'running', 'completed', 'failed', 'canceled'] as const;
export type RunState = (typeof runStates)[number];

export interface RunRow {
  readonly id: string;
  readonly schemaName: string;
  readonly configId: string;
  readonly generationId: string;
  readonly state: RunState;
  /** Where the next page begins. */
  readonly position: string | null;
  readonly scanned: boolean;
  readonly batchSize: number;
  readonly onlyMissing: boolean;
  readonly filter: unknown;
  readonly scannedCount: number;
  readonly queuedCount: number;
  /** Of those that are queued: still to be looked at, and given up. */
  readonly waitingCount: number;
  readonly failedCount: number;
  readonly error: string | null;
  readonly startedAt: Date | null;
  readonly finishedAt: Date | null;
  readonly createdAt: Date;
  readonly updatedAt: Date;
}

const columns = `r.id, r.schema_name as "schemaName", r.config_id as "configId", r.generation_id as "generationId",
  r.state, r.position, r.scanned, r.batch_size as "batchSize", r.only_missing as "onlyMissing", r.filter,
  r.scanned_count::double precision as "scannedCount", r.queued_count::double precision as "queuedCount",
  (select count(*) from penstock.embeddings_pending p where p.run_id = r.id and p.state = 'waiting')::integer as "waitingCount",
  (select count(*) from penstock.embeddings_pending p where p.run_id = r.id and p.state = 'failed')::integer as "failedCount",
  r.error, r.started_at as "startedAt", r.finished_at as "finishedAt", r.created_at as "createdAt", r.updated_at as "updatedAt"`;

export interface NewRun {
  readonly id: string;
  readonly schemaName: string;
  readonly configId: string;
  readonly generationId: string;
  readonly batchSize: number;
  readonly onlyMissing: boolean;
  readonly filter: unknown;
}

/** False when a run of the configuration goes on already. */
export async function insertRun(database: Queryable, run: NewRun): Promise<boolean> {
  const { count } = await database.query(shortSql`
    insert into penstock.embeddings_runs (id, schema_name, config_id, generation_id, state, batch_size, only_missing, filter)
    values (${run.id}::uuid, ${run.schemaName}, ${run.configId}::uuid, ${run.generationId}::uuid, 'queued', ${run.batchSize},
      ${run.onlyMissing}, ${run.filter === undefined ? null : JSON.stringify(run.filter)}::jsonb)
    on conflict do nothing`);
  return count === 1;
}

export async function runById(database: Queryable, id: string): Promise<RunRow | undefined> {
  const text = `select ${columns} from penstock.embeddings_runs r where r.id = $1::uuid`;
  const { rows } = await database.query<RunRow>({ text, values: [id], name: statementName(text) });
  return rows[0];
}

export interface RunFilter {
  readonly schemaName?: string | undefined;
  readonly state?: RunState | undefined;
  readonly configId?: string | undefined;
  readonly skip?: number | undefined;
  readonly limit?: number | undefined;
}

/** The youngest first. */
export async function listRuns(
  database: Queryable,
  { schemaName, state, configId, skip = 0, limit = 25 }: RunFilter,
): Promise<{ readonly rows: readonly RunRow[]; readonly count: number }> {
  const where = `($1::text is null or r.schema_name = $1) and ($2::text is null or r.state = $2) and ($3::uuid is null or r.config_id = $3::uuid)`;
  const values = [schemaName ?? null, state ?? null, configId ?? null];
  const { rows } = await database.query<RunRow>({
    text: `select ${columns} from penstock.embeddings_runs r where ${where} order by r.created_at desc, r.id desc offset $4 limit $5`,
    values: [...values, skip, limit],
  });
  const counted = await database.query<{ count: number }>({
    text: `select count(*)::integer as count from penstock.embeddings_runs r where ${where}`,
    values,
  });
  return { rows, count: counted.rows[0]?.count ?? 0 };
}

/** How many are in which state; states of none are left out. */
export async function runCounts(
  database: Queryable,
  schemaName?: string,
): Promise<ReadonlyMap<RunState, number>> {
  const { rows } = await database.query<{ state: RunState; count: number }>(sql`
    select state, count(*)::integer as count from penstock.embeddings_runs
    where ${schemaName ?? null}::text is null or schema_name = ${schemaName ?? null} group by state`);
  return new Map(rows.map(({ state, count }) => [state, count]));
}

interface RunStep {
  /** Where the page began, and where the next one does. */
  readonly from: string | null;
  readonly position: string | null;
  readonly scanned: boolean;
  /** Records of the page, and how many of them are to be looked at. */
  readonly found: number;
  readonly queued: number;
}

/** A page is done. False when the run was ended meanwhile, or somebody else has done the page. */
export async function noteStep(database: Queryable, id: string, step: RunStep): Promise<boolean> {
  const { count } = await database.query(shortSql`
    update penstock.embeddings_runs set position = ${step.position}, scanned = ${step.scanned}, state = 'running',
      scanned_count = scanned_count + ${step.found}, queued_count = queued_count + ${step.queued},
      started_at = coalesce(started_at, now()), updated_at = now()
    where id = ${id}::uuid and state in ('queued', 'running') and position is not distinct from ${step.from}`);
  return count === 1;
}

/** Runs that have pages to queue, and of which nothing was heard for so many seconds. */
export async function silentRuns(
  database: Queryable,
  seconds: number,
): Promise<readonly { readonly id: string }[]> {
  const { rows } = await database.query<{ id: string }>(shortSql`
    select id from penstock.embeddings_runs
    where state in ('queued', 'running') and not scanned and updated_at < now() - ${seconds}::integer * interval '1 second'`);
  return rows;
}

/** From one of some states into another. False when it is in none of them. */
export async function moveRun(
  database: Queryable,
  id: string,
  {
    from,
    to,
    error = null,
  }: { readonly from: readonly RunState[]; readonly to: RunState; readonly error?: string | null },
): Promise<boolean> {
  const { count } = await database.query(shortSql`
    update penstock.embeddings_runs set state = ${to}, error = ${error}, updated_at = now(),
      finished_at = case when ${to} in ('completed', 'failed', 'canceled') then now() end
    where id = ${id}::uuid and state = any(${from}::text[])`);
  return count === 1;
}

/** Ends what goes on for a configuration, because something else comes in its place. */
export async function cancelRuns(database: Queryable, configId: string): Promise<void> {
  await database.query(sql`
    update penstock.embeddings_runs set state = 'canceled', updated_at = now(), finished_at = now()
    where config_id = ${configId}::uuid and state in ('queued', 'running')`);
}

/** Of a generation that nobody fills any more. */
export async function cancelRunsInto(database: Queryable, generationId: string): Promise<void> {
  await database.query(sql`
    update penstock.embeddings_runs set state = 'canceled', updated_at = now(), finished_at = now()
    where generation_id = ${generationId}::uuid and state in ('queued', 'running')`);
}

/** Whether the generation of a run is one that is searched, or will be. Holds its configuration until the transaction ends. */
export async function hasConfig(
  database: Queryable,
  { configId, generationId }: Pick<RunRow, 'configId' | 'generationId'>,
): Promise<boolean> {
  const { rows } = await database.query(shortSql`
    select from penstock.embeddings_configs
    where id = ${configId}::uuid and ${generationId}::uuid in (generation_id, next_generation_id) for share`);
  return rows.length > 0;
}

/** Runs whose records are all queued, and none of them waits any more. */
export async function completedRuns(database: Queryable): Promise<readonly RunRow[]> {
  const text = `select ${columns} from penstock.embeddings_runs r where r.state in ('queued', 'running') and r.scanned
    and not exists (select 1 from penstock.embeddings_pending p where p.run_id = r.id and p.state = 'waiting')`;
  const { rows } = await database.query<RunRow>({ text, name: statementName(text) });
  return rows;
}

/** Of so many records one may be given up for good in a generation that is to be searched: its words are found all the same. */
const GIVEN_UP = 10;

/**
 * Generations that are made beside those that are searched, and that have what there is to have: a run has seen every
 * record, and those that failed in it have their vectors by now, or are few that no provider takes.
 */
export async function wholeGenerations(
  database: Queryable,
): Promise<readonly { readonly configId: string; readonly generationId: string }[]> {
  const { rows } = await database.query<{ configId: string; generationId: string }>(sql`
    select c.id::text as "configId", c.next_generation_id::text as "generationId"
    from penstock.embeddings_configs c
    join lateral (
      select max(r.queued_count) as records from penstock.embeddings_runs r
      where r.config_id = c.id and r.generation_id = c.next_generation_id and r.state in ('completed', 'failed')
        and r.scanned and not r.only_missing and r.filter is null) r on r.records is not null
    join lateral (
      select count(*) filter (where p.permanent) as refused, count(*) filter (where not p.permanent) as waiting
      from penstock.embeddings_pending p
      where p.generation_id = c.next_generation_id and p.run_id is not null) p on true
    where c.enabled and p.waiting = 0 and p.refused * ${GIVEN_UP}::integer <= r.records`);
  return rows;
}

/* What providers were sent, by day (UTC). */

export async function tokensOfToday(database: Queryable, provider: string): Promise<number> {
  const { rows } = await database.query<{ tokens: string }>(shortSql`
    select tokens from penstock.embeddings_usage
    where day = (now() at time zone 'utc')::date and provider = ${provider}`);
  return Number(rows[0]?.tokens ?? 0);
}

export async function addUsage(
  database: Queryable,
  provider: string,
  { texts, tokens }: { readonly texts: number; readonly tokens: number },
): Promise<void> {
  await database.query(shortSql`
    insert into penstock.embeddings_usage (day, provider, requests, texts, tokens)
    values ((now() at time zone 'utc')::date, ${provider}, 1, ${texts}::bigint, ${tokens}::bigint)
    on conflict (day, provider) do update set requests = penstock.embeddings_usage.requests + 1,
      texts = penstock.embeddings_usage.texts + excluded.texts, tokens = penstock.embeddings_usage.tokens + excluded.tokens`);
}

export interface UsageRow {
  readonly day: string;
  readonly provider: string;
  readonly requests: number;
  readonly texts: number;
  readonly tokens: number;
}

/** Of the last days, the youngest first. */
export async function recentUsage(database: Queryable, days: number): Promise<readonly UsageRow[]> {
  const { rows } = await database.query<UsageRow>(sql`
    select day::text as day, provider, requests::double precision as requests, texts::double precision as texts,
      tokens::double precision as tokens
    from penstock.embeddings_usage where day > (now() at time zone 'utc')::date - ${days}::integer
    order by day desc, provider`);
  return rows;
}
