/** How long published events stay readable, and how their disk space comes back: whole partitions are emptied. */
import Type from 'typebox';
import type { Database } from '../database/database.ts';
import { codeOf } from '../database/failures.ts';
import { sql } from '../database/sql.ts';
import { defineJob, type JobDefinition } from '../jobs/jobs.ts';
import type { Logger } from '../telemetry/logger.ts';
import { BUCKETS, bucketTable } from './outbox-partitions.ts';
import { relayLock } from './publication.ts';

export interface OutboxRetention {
  /** Minutes that a published event is kept at least, if there is room. */
  readonly minutes: number;
  /** What the outbox may take on disk before published events go earlier. It is looked at once a minute. */
  readonly megabytes: number;
}

interface Bucket {
  readonly bucket: number;
  /** It takes new rows. */
  readonly current: boolean;
  readonly bytes: number;
  /** Nothing in it has a position. */
  readonly unused: boolean;
  /** The last position in it was given more than the retention ago, and no consumer that lives still waits for it. */
  readonly old: boolean;
  readonly openSeconds: number;
}

/** A partition is closed after this share of the retention, or of the space: what is kept too long is that much. */
const SHARE = 4;
/** Milliseconds to wait for those who use a partition; it is emptied the next time then. */
const LOCK_MS = 2_000;

/**
 * Empties partitions whose events are all published and old enough (or too much), and lets the next one take new rows
 * when the current one has had its share. Answers how many were emptied.
 */
export async function tidyOutbox(
  database: Database,
  retention: OutboxRetention,
  log: Logger,
): Promise<number> {
  const count = await database.tryLock('events.tidy', async () => {
    const buckets = await readBuckets(database, retention);
    const max = retention.megabytes * 1_000_000;
    let bytes = buckets.reduce((sum, bucket) => sum + bucket.bytes, 0);
    let gone = 0;
    for (const bucket of buckets.filter(({ current, unused }) => !current && !unused)) {
      if (!bucket.old && bytes <= max) break;
      if (!(await emptyBucket(database, bucket.bucket, log))) continue;
      bytes -= bucket.bytes;
      gone += 1;
    }
    await openNext(database, retention, buckets, log);
    return gone;
  });
  return count ?? 0;
}

/** True when the partition was emptied; it is not while somebody writes to it or something in it has no position yet. */
async function emptyBucket(database: Database, bucket: number, log: Logger): Promise<boolean> {
  const table = bucketTable(bucket);
  try {
    return await database.transaction(
      async (transaction) => {
        await transaction.query(sql`select set_config('lock_timeout', ${`${LOCK_MS}ms`}, true)`);
        await transaction.query(sql`select pg_advisory_xact_lock(${relayLock})`);
        await transaction.query({ text: `lock table ${table} in access exclusive mode` });
        const waiting = await transaction.query({
          text: `select from ${table} o, penstock.outbox_state s where not pg_visible_in_snapshot(o.xid, s.snapshot) limit 1`,
        });
        if (waiting.rows.length > 0) return false;
        await transaction.query({ text: `truncate ${table}` });
        await transaction.query(sql`
          update penstock.outbox_state s set purged_position = greatest(s.purged_position, b.last_position)
            from penstock.outbox_buckets b where b.bucket = ${bucket} and b.last_position is not null`);
        await transaction.query(sql`
          update penstock.outbox_buckets set last_position = null, published_at = null where bucket = ${bucket}`);
        await transaction.query(sql`
          delete from penstock.outbox_pages where last_position <= (select purged_position from penstock.outbox_state)`);
        return true;
      },
      { attempts: 1 },
    );
  } catch (error) {
    // lock_not_available: a backup reads it, or a long transaction has written to it.
    if (codeOf(error) !== '55P03') throw error;
    log.debug({ table }, 'A partition of the outbox is in use; it is emptied later');
    return false;
  }
}

/** Lets a partition with nothing in it take the new rows, when the current one has had its share. */
async function openNext(
  database: Database,
  retention: OutboxRetention,
  before: readonly Bucket[],
  log: Logger,
): Promise<void> {
  const current = before.find((bucket) => bucket.current);
  if (!current || current.unused) return;
  const seconds = (retention.minutes * 60) / SHARE;
  const bytes = (retention.megabytes * 1_000_000) / SHARE;
  if (current.openSeconds < seconds && current.bytes < bytes) return;
  const { rows } = await database.query<{ bucket: number }>(sql`
    update penstock.outbox_buckets set opened_at = now() where bucket = (
      select bucket from penstock.outbox_buckets where last_position is null and bucket <> ${current.bucket}
      order by (bucket - ${current.bucket} + ${BUCKETS}) % ${BUCKETS} limit 1)
    returning bucket`);
  const [next] = rows;
  if (next) await database.query(sql`select setval('penstock.outbox_bucket', ${next.bucket})`);
  else log.warn({}, 'No partition of the outbox could be emptied: the current one grows on');
}

/** Oldest first. */
async function readBuckets(
  database: Database,
  { minutes }: OutboxRetention,
): Promise<readonly Bucket[]> {
  const { rows } = await database.query<Omit<Bucket, 'bytes'> & { bytes: string }>(sql`
    select bucket, bucket = pg_sequence_last_value('penstock.outbox_bucket') as current, last_position is null as unused,
      pg_total_relation_size(format('penstock.outbox_%s', bucket)::regclass) as bytes,
      coalesce(published_at < now() - make_interval(mins => ${minutes})
        and last_position <= (select coalesce(min(position), last_position) from penstock.event_consumers
          where seen_at > now() - interval '1 day'), false) as old,
      extract(epoch from now() - opened_at)::float8 as "openSeconds"
    from penstock.outbox_buckets order by last_position nulls last, bucket`);
  return rows.map((row) => ({ ...row, bytes: Number(row.bytes) }));
}

/** The job that keeps the outbox small. Events stay readable (`Events.since`) for the retention. */
export const createOutboxJob = (
  database: Database,
  retention: () => OutboxRetention,
): JobDefinition =>
  defineJob({
    name: 'events.purge',
    data: Type.Object({}),
    schedule: '* * * * *',
    retries: 0,
    async handler(_data, { log }) {
      const count = await tidyOutbox(database, retention(), log);
      if (count > 0) log.debug({ count }, 'Partitions of the outbox were emptied');
    },
  });
