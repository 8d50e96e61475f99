/**
 * Gives committed events their positions, without touching them. A snapshot of
 * PostgreSQL says which transactions were committed when it was taken. The events
 * that this snapshot sees and the last one did not are the next ones: what is
 * written down is one row for a thousand of them, and the snapshot.
 */
import type { Database, Queryable, Statement } from '../database/database.ts';
import { sql, statementName } from '../database/sql.ts';

/* What was committed and has no position yet: how much, and since when. */

/** Up to here waiting events are counted; beyond it, the numbers of rows tell how many there are. */
const COUNTED = 10_000;

/** Transactions that the last snapshot did not see: open at that time, or younger. */
const open = 'array(select pg_snapshot_xip(snapshot) from penstock.outbox_state)';
const younger = '(select pg_snapshot_xmax(snapshot) from penstock.outbox_state)';

const countText = `
  select count(*)::int as count, (select last_value from penstock.outbox_seq_seq) - (select last_seq from penstock.outbox_state) as numbers
  from (select from (
    select xid from penstock.outbox where xid = any(${open}) union all
    (select xid from penstock.outbox where xid >= ${younger} order by xid, seq limit ${COUNTED})
  ) waiting limit ${COUNTED}) counted`;

/**
 * Events that wait for their position. Exact while they are few; of more than 10,000, how many numbers were given since
 * the last one that is published, which counts those of writes that were rolled back as well.
 */
export async function countWaiting(database: Queryable): Promise<number> {
  const { rows } = await database.query<{ count: number; numbers: string }>({
    text: countText,
    name: statementName(countText),
  });
  const { count = 0, numbers = '0' } = rows[0] ?? {};
  return count < COUNTED ? count : Math.max(count, Number(numbers));
}

const oldestText = `
  select extract(epoch from now() - min(occurred_at))::float8 as seconds from (
    (select occurred_at from penstock.outbox where xid = any(${open}) order by xid, seq limit 1) union all
    (select occurred_at from penstock.outbox where xid >= ${younger} order by xid, seq limit 1)
  ) oldest`;

/** Seconds that the oldest of them has waited; `undefined` when none waits. */
export async function waitingSince(database: Queryable): Promise<number | undefined> {
  const { rows } = await database.query<{ seconds: number | null }>({
    text: oldestText,
    name: statementName(oldestText),
  });
  const seconds = rows[0]?.seconds ?? undefined;
  return seconds === undefined ? undefined : Math.max(0, seconds);
}

/** ISO 8601: when the event with the highest position happened; `undefined` when it is no longer kept. */
export async function lastPublishedAt(database: Queryable): Promise<string | undefined> {
  const { rows } = await database.query<{ at: Date }>(
    sql`
    select o.occurred_at as at from (select from_xid, to_xid, to_seq from penstock.outbox_pages order by last_position desc limit 1) p
    join penstock.outbox o on o.xid >= p.from_xid and o.xid <= p.to_xid and o.seq = p.to_seq`,
  );
  return rows[0]?.at.toISOString();
}

/** Advisory lock of the relay: an arbitrary constant of this program. */
export const relayLock = 7_203_114_001;
/** Events of one page. */
const PAGE = 1_000;
/** Events that one transaction publishes, unless a single transaction wrote more. */
const MAX_EVENTS = 100_000;
/**
 * A transaction that was open at the last snapshot and is at least so many transactions older gets pages of its own:
 * a page is read as a range of transactions, and what was published before lies between.
 */
const NEAR = 1_000;

/** Which events a stretch of the sequence holds, for who wants to know whether it is worth reading. */
export interface PublishedTopics {
  /** The position before the first of them. */
  readonly from: number;
  readonly topics: readonly string[];
}

/** Topics that are told of; a turn with more of them is read by everybody. */
const TOLD_TOPICS = 20;

interface Published {
  /** The highest position given so far. */
  readonly position: number;
  readonly count: number;
  readonly told: PublishedTopics | undefined;
  /** More waits. */
  readonly more: boolean;
}

const next = (xid: string): string => `(${xid}::text::bigint + 1)::text::xid8`;

/**
 * `late` was open at the last snapshot, `fresh` began after it. Their order is that of their numbers: who has waited for
 * another's commit may have the lower transaction id, but writes what it did then under a higher number. A page is a run
 * of numbers (`n - k` stays the same), so events of `far` transactions lie between pages and not within one. Where too much waits, `cut` is the transaction to stop
 * at: the snapshot to be kept is then the one that sees nothing behind it.
 */
const publishText = `
with state as materialized (
  select snapshot, last_position, pg_snapshot_xmax(snapshot) as first,
    greatest(pg_snapshot_xmax(snapshot)::text::bigint - ${NEAR}, 0)::text::xid8 as near
  from penstock.outbox_state
),
here as materialized (select pg_current_snapshot() as snapshot, pg_snapshot_xmax(pg_current_snapshot()) as first),
cut as materialized (
  select o.xid from penstock.outbox o
   where o.xid >= (select first from state) and o.xid < (select first from here)
   order by o.xid, o.seq offset ${MAX_EVENTS - 1} limit 1
),
seen as materialized (
  select case when c.xid is null then h.snapshot else format('%s:%s:%s', least(pg_snapshot_xmin(h.snapshot), c.next), c.next,
    (select string_agg(x::text, ',' order by x) from pg_snapshot_xip(h.snapshot) x where x < c.next))::pg_snapshot end as snapshot
  from here h left join (select xid, ${next('xid')} as next from cut) c on true
),
late as (
  select o.xid, o.seq, o.bucket, o.topic from penstock.outbox o where o.xid = any(array(select pg_snapshot_xip(snapshot) from state))
),
fresh as (
  select o.xid, o.seq, o.bucket, o.topic from penstock.outbox o
   where o.xid >= (select first from state) and o.xid < (select pg_snapshot_xmax(snapshot) from seen)
),
events as materialized (
  select *, row_number() over (order by seq) as n, row_number() over (partition by far order by seq) as k
  from (select *, case when xid < (select near from state) then xid end as far
    from (select * from late union all select * from fresh) waiting) placed
),
pages as (
  insert into penstock.outbox_pages (last_position, first_position, from_xid, from_seq, to_xid, to_seq, before, after, by_seq)
  select (select last_position from state) + max(n), (select last_position from state) + min(n),
    min(xid), min(seq), max(xid), max(seq), (select snapshot from state), (select snapshot from seen), true
  from events group by far, n - k, (k - 1) / ${PAGE}
),
buckets as (
  update penstock.outbox_buckets b set last_position = (select last_position from state) + e.last, published_at = now()
  from (select bucket, max(n) as last from events group by bucket) e where b.bucket = e.bucket
),
total as (select count(*)::int as count, max(seq) as seq,
  array(select topic from events group by topic limit ${TOLD_TOPICS + 1}) as topics from events)
update penstock.outbox_state s
   set last_position = s.last_position + t.count, last_seq = greatest(s.last_seq, t.seq), snapshot = (select snapshot from seen)
  from total t where t.count > 0
returning s.last_position as position, t.count, t.topics, exists (select from cut) as more`;

const publish: Statement = { text: publishText, name: statementName(publishText) };

interface PublishedRow {
  readonly position: string;
  readonly count: number;
  readonly topics: readonly string[];
  readonly more: boolean;
}

/** Publishes what was committed; `undefined` when another node is doing so at this moment. */
export function publishEvents(database: Database): Promise<Published | undefined> {
  return database.transaction(async (transaction) => {
    const lock = await transaction.query<{ held: boolean }>(
      sql`select pg_try_advisory_xact_lock(${relayLock}) as held`,
    );
    if (lock.rows[0]?.held !== true) return undefined;
    // A statement of its own: its snapshot must be younger than the lock.
    const { rows } = await transaction.query<PublishedRow>(publish);
    const [row] = rows;
    if (!row) return { position: 0, count: 0, told: undefined, more: false };
    const { count, topics, more } = row;
    const position = Number(row.position);
    const told = topics.length > TOLD_TOPICS ? undefined : { from: position - count, topics };
    return { position, count, told, more };
  });
}

/**
 * Transaction ids mean nothing on another server: a database that was restored there, from a dump, begins anew with
 * them. What was published stays so, and can no longer be read by position; what waited, and what has been written
 * since, is made to wait under an id of this server. Numbers (`seq`) go on from those of the dump. Answers whether the
 * database had moved.
 */
export function finishOutboxMove(database: Database): Promise<boolean> {
  return database.transaction(async (transaction) => {
    await transaction.query(sql`select pg_advisory_xact_lock(${relayLock})`);
    if (!(await hasMoved(transaction))) return false;
    // Before the first write: later ids, this transaction's own among them, are not in it.
    const { rows } = await transaction.query<{ snapshot: string }>(
      sql`select pg_current_snapshot()::text as snapshot`,
    );
    await transaction.query(sql`
      update penstock.outbox o set xid = pg_current_xact_id() from penstock.outbox_state s
       where o.seq > s.last_seq or not pg_visible_in_snapshot(o.xid, s.snapshot)`);
    await transaction.query(sql`delete from penstock.outbox_pages`);
    await transaction.query(sql`
      update penstock.outbox_state set snapshot = ${rows[0]?.snapshot ?? ''}::pg_snapshot, purged_position = last_position,
        cluster = (select system_identifier::text from pg_control_system())`);
    return true;
  });
}

async function hasMoved(database: Queryable): Promise<boolean> {
  const { rows } = await database.query<{ moved: boolean }>(sql`
    select cluster <> (select system_identifier::text from pg_control_system())
      or pg_snapshot_xmax(snapshot) > pg_snapshot_xmax(pg_current_snapshot()) as moved
    from penstock.outbox_state`);
  return rows[0]?.moved ?? false;
}
