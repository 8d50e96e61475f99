/** Reading of published events. */
import type { Queryable } from '../database/database.ts';
import { sql } from '../database/sql.ts';
import type { PublishedEvent } from './events.ts';

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

/** Bytes of ids and payloads, as they are stored, after which a read ends: an event may name a thousand records. */
const readBytes = 1_000_000;

/** Events after `position`, oldest first, at most `limit`, and fewer when they are large; none only when there are none. */
export async function readAfter(database: Queryable, position: number, limit: number): Promise<Stretch> {
  const { rows } = await database.query<StoredEvent & { last: string; purged: string }>(
    sql`
    select s.last_position as last, s.purged_position as purged, e.*
    from penstock.outbox_state s
    cross join lateral (select greatest(${position}::bigint, s.purged_position) as position) a
    left join lateral (
      select sequence, topic, schema, ids, operation, payload, actor, occurred_at as "occurredAt"
      from (
        select p.first_position + o.n - 1 as sequence, o.*,
          sum(o.bytes) over (order by p.first_position, o.n) - o.bytes as bytes_before
        from (select * from penstock.outbox_pages where last_position > a.position order by last_position limit ${limit}) p
        cross join lateral (
          select r.*, row_number() over (order by r.xid, r.seq) as n,
            coalesce(pg_column_size(r.ids), 0) + coalesce(pg_column_size(r.payload), 0) as bytes
          from penstock.outbox r
          where r.xid >= p.from_xid and r.xid <= p.to_xid
            and (r.xid, r.seq) >= (p.from_xid, p.from_seq) and (r.xid, r.seq) <= (p.to_xid, p.to_seq)
            and pg_visible_in_snapshot(r.xid, p.after) and not pg_visible_in_snapshot(r.xid, p.before)
        ) o
        where p.first_position <= a.position + ${limit}::bigint and p.first_position + o.n - 1 > a.position
      ) found
      where bytes_before < ${readBytes} order by sequence limit ${limit}
    ) e on true
    order by e.sequence`,
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
