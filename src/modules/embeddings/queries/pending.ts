/** The SQL of what is to be done: records whose texts may have changed. */
import type { Queryable } from '../../../kernel/database/database.ts';
import { shortSql, sql } from '../../../kernel/database/sql.ts';

/**
 * Records that were written go before those of a backfill that are no older than this: somebody has just changed them, and a
 * backfill takes its time anyway. What is older goes first, so that many changes do not hold it up for good.
 */
const AHEAD = "interval '10 minutes'";

/** Records of a schema were written: every generation of it looks at them again. Answers how many rows that are. */
export async function enqueueChanged(
  database: Queryable,
  schemaName: string,
  ids: readonly string[],
): Promise<number> {
  const text = `
    insert into penstock.embeddings_pending (generation_id, record_id, due_at)
    select g.id, r.id, now() - ${AHEAD} from penstock.embeddings_configs c
    join penstock.embeddings_generations g on g.id in (c.generation_id, c.next_generation_id)
    cross join unnest($1::text[]) r(id)
    where c.schema_name = $2 and c.enabled
    order by 1, 2
    on conflict (generation_id, record_id) do update
      set dirty = penstock.embeddings_pending.claim is not null, state = 'waiting', attempts = 0, due_at = excluded.due_at,
        permanent = false, error = null, worded = false`;
  return (await database.query({ text, values: [ids, schemaName] })).count;
}

interface RunPage {
  readonly runId: string;
  readonly generationId: string;
  readonly ids: readonly string[];
  readonly onlyMissing: boolean;
}

/** A page of a backfill. Answers how many records are to be looked at. */
export async function enqueuePage(database: Queryable, page: RunPage): Promise<number> {
  const { count } = await database.query(sql`
    insert into penstock.embeddings_pending (generation_id, record_id, run_id)
    select ${page.generationId}::uuid, r.id, ${page.runId}::uuid from unnest(${page.ids}::text[]) r(id)
    where not ${page.onlyMissing}::boolean or not exists (
      select 1 from penstock.embeddings_vectors v
      where v.generation_id = ${page.generationId}::uuid and v.record_id = r.id and v.hash is not null)
    order by 2
    on conflict (generation_id, record_id) do update
      set run_id = excluded.run_id, dirty = penstock.embeddings_pending.claim is not null, state = 'waiting',
        attempts = 0, due_at = least(penstock.embeddings_pending.due_at, now()), permanent = false, error = null, worded = false`);
  return count;
}

export interface ClaimedRow {
  readonly generationId: string;
  readonly recordId: string;
  readonly attempts: number;
}

/** What is to be made: vectors, and words with them; or words alone, of what waits for a model that is away. */
export type ClaimFor = 'vectors' | 'words';

interface Claim {
  readonly claim: string;
  readonly purpose: ClaimFor;
  readonly generations: readonly string[];
  readonly limit: number;
  /** Seconds after which the claim counts as lost. */
  readonly seconds: number;
}

/** Takes records that nobody works on, of one generation after the other. */
export async function claimPending(
  database: Queryable,
  { claim, purpose, generations, limit, seconds }: Claim,
): Promise<readonly ClaimedRow[]> {
  if (generations.length === 0) return [];
  const text = `
    update penstock.embeddings_pending p
    set claim = $1::uuid, claimed_until = now() + $2::integer * interval '1 second', dirty = false
    from (
      select generation_id, record_id from penstock.embeddings_pending
      where state = 'waiting' and due_at <= now() ${purpose === 'words' ? 'and not worded' : ''}
        and (claimed_until is null or claimed_until < now()) and generation_id = any($3::uuid[])
      order by due_at limit $4::integer for update skip locked) f
    where p.generation_id = f.generation_id and p.record_id = f.record_id
    returning p.generation_id::text as "generationId", p.record_id as "recordId", p.attempts`;
  const values = [claim, seconds, generations, limit];
  return (await database.query<ClaimedRow>({ text, values })).rows;
}

/** Their words are as their texts are; nobody needs to look for that again until they change. */
export async function noteWords(database: Queryable, part: ClaimedPart): Promise<void> {
  await database.query(sql`
    update penstock.embeddings_pending set worded = not dirty
    where generation_id = ${part.generationId}::uuid and record_id = any(${part.ids}::text[]) and claim = ${part.claim}::uuid`);
}

/** They wait on as they did before. */
export async function releaseClaimed(database: Queryable, part: ClaimedPart): Promise<void> {
  await database.query(sql`
    update penstock.embeddings_pending set claim = null, claimed_until = null, dirty = false
    where generation_id = ${part.generationId}::uuid and record_id = any(${part.ids}::text[]) and claim = ${part.claim}::uuid`);
}

/** Who works on them is still there. */
export async function renewClaim(
  database: Queryable,
  claimed: readonly ClaimedRow[],
  { claim, seconds }: Pick<Claim, 'claim' | 'seconds'>,
): Promise<void> {
  const generations = [...new Set(claimed.map(({ generationId }) => generationId))];
  await database.query(sql`
    update penstock.embeddings_pending set claimed_until = now() + ${seconds}::integer * interval '1 second'
    where generation_id = any(${generations}::uuid[]) and record_id = any(${claimed.map(({ recordId }) => recordId)}::text[])
      and claim = ${claim}::uuid`);
}

interface ClaimedPart {
  readonly claim: string;
  readonly generationId: string;
  readonly ids: readonly string[];
}

/** Those that are still ours: whoever was too slow must not write what they have read. Locks them. */
export async function stillClaimed(
  database: Queryable,
  { claim, generationId, ids }: ClaimedPart,
): Promise<ReadonlySet<string>> {
  const { rows } = await database.query<{ id: string }>(sql`
    select record_id as id from penstock.embeddings_pending
    where generation_id = ${generationId}::uuid and record_id = any(${ids}::text[]) and claim = ${claim}::uuid
    order by record_id for update`);
  return new Set(rows.map(({ id }) => id));
}

/** They are done; those that were changed meanwhile wait again. */
export async function finishClaimed(database: Queryable, part: ClaimedPart): Promise<void> {
  const { claim, generationId, ids } = part;
  await database.query(sql`
    with again as (
      update penstock.embeddings_pending set claim = null, claimed_until = null, dirty = false, due_at = now(), since = now(), attempts = 0
      where generation_id = ${generationId}::uuid and record_id = any(${ids}::text[]) and claim = ${claim}::uuid and dirty
      returning 1)
    delete from penstock.embeddings_pending
    where generation_id = ${generationId}::uuid and record_id = any(${ids}::text[]) and claim = ${claim}::uuid and not dirty`);
}

interface Postponed extends ClaimedPart {
  readonly error: string;
  readonly seconds: number;
  readonly state: 'waiting' | 'failed';
  /** Trying again will not help. */
  readonly permanent: boolean;
  /** Whether this counts as an attempt. */
  readonly tried: boolean;
}

/** They did not succeed. What was changed meanwhile is tried again anyway. Answers which were still ours. */
export async function postponeClaimed(
  database: Queryable,
  part: Postponed,
): Promise<readonly string[]> {
  const { rows } = await database.query<{ id: string }>(sql`
    update penstock.embeddings_pending set claim = null, claimed_until = null, attempts = attempts + ${part.tried ? 1 : 0}::integer, error = ${part.error},
      state = case when dirty then 'waiting' else ${part.state} end,
      permanent = not dirty and ${part.permanent}::boolean,
      due_at = now() + ${part.seconds}::double precision * interval '1 second', dirty = false
    where generation_id = ${part.generationId}::uuid and record_id = any(${part.ids}::text[]) and claim = ${part.claim}::uuid
    returning record_id as id`);
  return rows.map(({ id }) => id);
}

/** What failed because of the provider gets another chance: after a while, or at once when it works again. */
export async function reviveFailed(
  database: Queryable,
  { generations, afterMs }: { readonly generations: readonly string[]; readonly afterMs: number },
): Promise<number> {
  const { count } = await database.query(sql`
    update penstock.embeddings_pending set state = 'waiting', attempts = 0, due_at = now()
    where state = 'failed' and not permanent and generation_id = any(${generations}::uuid[])
      and due_at < now() - ${afterMs}::double precision * interval '1 millisecond'`);
  return count;
}

/** What failed in a run that goes on: nothing of it is given up any more. */
export async function retryRun(database: Queryable, runId: string): Promise<void> {
  await database.query(sql`
    update penstock.embeddings_pending set state = 'waiting', attempts = 0, due_at = now(), permanent = false, error = null
    where run_id = ${runId}::uuid and state = 'failed'`);
}

export interface FailedRecord {
  readonly schemaName: string;
  readonly configId: string;
  readonly recordId: string;
  readonly attempts: number;
  readonly reason: string;
  /** Trying again will not help: its text must change first. */
  readonly permanent: boolean;
  readonly failedAt: Date;
}

interface FailedFilter {
  readonly schemaName?: string | undefined;
  readonly skip: number;
  readonly limit: number;
}

/** Records that were given up for now, the last ones first. */
export async function failedRecords(
  database: Queryable,
  { schemaName, skip, limit }: FailedFilter,
): Promise<{ readonly rows: readonly FailedRecord[]; readonly count: number }> {
  const failed = `penstock.embeddings_pending p
    join penstock.embeddings_generations g on g.id = p.generation_id
    join penstock.embeddings_configs c on c.id = g.config_id
    where p.state = 'failed' and ($1::text is null or c.schema_name = $1)`;
  const values = [schemaName ?? null];
  const { rows } = await database.query<FailedRecord>({
    text: `select c.schema_name as "schemaName", c.id as "configId", p.record_id as "recordId", p.attempts,
      coalesce(p.error, '') as reason, p.permanent, p.due_at as "failedAt"
      from ${failed} order by p.due_at desc, p.record_id offset $2 limit $3`,
    values: [...values, skip, limit],
  });
  const counted = await database.query<{ count: number }>({
    text: `select count(*)::integer as count from ${failed}`,
    values,
  });
  return { rows, count: counted.rows[0]?.count ?? 0 };
}

export interface QueueFigures {
  readonly generationId: string;
  readonly waiting: number;
  readonly active: number;
  readonly delayed: number;
  readonly failed: number;
  /** Seconds since the oldest change that nobody has worked on. */
  readonly lagSeconds: number;
}

export async function queueFigures(database: Queryable): Promise<readonly QueueFigures[]> {
  const { rows } = await database.query<QueueFigures>(sql`
    select generation_id::text as "generationId",
      count(*) filter (where state = 'waiting' and claim is null and due_at <= now())::integer as waiting,
      count(*) filter (where claim is not null and claimed_until >= now())::integer as active,
      count(*) filter (where state = 'waiting' and claim is null and due_at > now())::integer as delayed,
      count(*) filter (where state = 'failed')::integer as failed,
      coalesce(extract(epoch from now() - min(since) filter (where state = 'waiting')), 0)::double precision as "lagSeconds"
    from penstock.embeddings_pending group by generation_id`);
  return rows;
}

/** Up to where events were looked at. Locks it: one node looks at a time. Nothing: another one does. */
export async function lockPosition(database: Queryable): Promise<number | undefined> {
  const { rows } = await database.query<{ position: string }>(
    shortSql`select position from penstock.embeddings_position for update skip locked`,
  );
  return rows[0] && Number(rows[0].position);
}

export async function movePosition(database: Queryable, position: number): Promise<void> {
  await database.query(
    shortSql`update penstock.embeddings_position set position = ${position}::bigint`,
  );
}

/** Where to begin, when nobody has looked yet. */
export async function beginPosition(database: Queryable, position: number): Promise<void> {
  await database.query(shortSql`
    insert into penstock.embeddings_position (position) values (${position}::bigint) on conflict do nothing`);
}
