/** Reading and tidying of published events. */
import Type from 'typebox';
import type { Database, Statement } from '../database/database.ts';
import { sql } from '../database/sql.ts';
import { defineJob, type JobDefinition } from '../jobs/jobs.ts';
import type { PublishedEvent } from './events.ts';

/**
 * The statement, planned anew each time. The outbox grows from nothing to millions of rows within
 * minutes, and a plan that was kept from its beginning would read all of it.
 */
export const planned = ({ text, values }: Statement): Statement => ({ text, ...(values && { values }) });

interface StoredEvent {
  readonly sequence: string | null;
  readonly topic: string;
  readonly schema: string | null;
  readonly ids: readonly string[] | null;
  readonly operation: 'insert' | 'update' | 'delete' | null;
  readonly payload: Record<string, unknown> | null;
  readonly actor: string;
  readonly occurredAt: Date;
}

/** A stretch of the sequence, with its known ends. */
export interface Stretch {
  readonly events: readonly PublishedEvent[];
  /** The highest position given so far. */
  readonly last: number;
  /** Positions up to this one are no longer kept. */
  readonly purged: number;
}

/** Events after `position`, oldest first, at most `limit`. */
export async function readAfter(database: Database, position: number, limit: number): Promise<Stretch> {
  const { rows } = await database.query<StoredEvent & { last: string; purged: string }>(
    planned(sql`
    select s.last_position as last, s.purged_position as purged, e.*
    from penstock.outbox_state s left join lateral (
      select position as sequence, topic, schema, ids, operation, payload, actor, occurred_at as "occurredAt"
      from penstock.outbox where position > ${position} order by position limit ${limit}
    ) e on true
    order by e.sequence`),
  );
  const events = rows.filter((row) => row.sequence !== null).map(publishedEvent);
  return { events, last: Number(rows[0]?.last ?? 0), purged: Number(rows[0]?.purged ?? 0) };
}

const publishedEvent = (row: StoredEvent): PublishedEvent => ({
  sequence: Number(row.sequence),
  topic: row.topic,
  actor: row.actor,
  occurredAt: new Date(row.occurredAt).toISOString(),
  ...(row.schema !== null && { schema: row.schema }),
  ...(row.ids !== null && { ids: row.ids }),
  ...(row.operation !== null && { operation: row.operation }),
  ...(row.payload !== null && { payload: row.payload }),
});

/** Rows that one statement deletes. */
const purgeBatch = 5_000;

/** Deletes published events that are older than `keepHours`, in batches, from the oldest on. Answers how many. */
export async function purgePublished(database: Database, keepHours: number, signal: AbortSignal): Promise<number> {
  let purged = 0;
  for (;;) {
    signal.throwIfAborted();
    const { rows } = await database.query<{ count: number }>(
      planned(sql`
      with oldest as materialized (
        select position, occurred_at from penstock.outbox where position is not null order by position limit ${purgeBatch}
      ),
      cut as (
        select coalesce(
          min(position) filter (where occurred_at >= now() - make_interval(hours => ${keepHours})) - 1, max(position)
        ) as position from oldest
      ),
      gone as (delete from penstock.outbox where position <= (select position from cut) returning position),
      noted as (
        update penstock.outbox_state set purged_position = (select max(position) from gone) where exists (select from gone)
      )
      select count(*)::int as count from gone`),
    );
    const count = rows[0]?.count ?? 0;
    purged += count;
    if (count < purgeBatch) return purged;
  }
}

/** The hourly job that keeps the outbox small. Events stay readable (`Events.since`) for `keepHours`. */
export const createPurgeJob = (database: Database, keepHours = 24): JobDefinition =>
  defineJob({
    name: 'events.purge',
    data: Type.Object({}),
    schedule: '17 * * * *',
    async handler(_data, { signal, log }) {
      const count = await purgePublished(database, keepHours, signal);
      if (count > 0) log.debug({ count }, 'Old events were removed');
    },
  });
