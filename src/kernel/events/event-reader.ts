/**
 * Reads the sequence on this node and hands each event to the subscribers, in
 * order. While nobody subscribes, or nobody to what was published, it reads nothing
 * and only remembers where the sequence stands.
 */
import { setTimeout as delay } from 'node:timers/promises';
import type { Database, Queryable } from '../database/database.ts';
import { sql } from '../database/sql.ts';
import { partsOfActor } from '../hooks/hooks.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { EventHandler, PublishedEvent } from './events.ts';
import type { PublishedTopics } from './publication.ts';
import { createWakeup } from './relay.ts';

/* Reading of published events. */

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
interface Stretch {
  readonly events: readonly PublishedEvent[];
  /** The highest position given so far. */
  readonly last: number;
  /** Positions up to this one are no longer kept. */
  readonly purged: number;
}

/** Bytes of ids and payloads, as they are stored, after which a read ends: an event may name a thousand records. */
const readBytes = 1_000_000;

/** Events after `position`, oldest first, at most `limit`, and fewer when they are large; none only when there are none. */
export async function readAfter(
  database: Queryable,
  position: number,
  limit: number,
): Promise<Stretch> {
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
          select r.*, row_number() over (order by case when not p.by_seq then r.xid end, r.seq) as n,
            coalesce(pg_column_size(r.ids), 0) + coalesce(pg_column_size(r.payload), 0) as bytes
          from penstock.outbox r
          where r.xid >= p.from_xid and r.xid <= p.to_xid
            and (r.xid, r.seq) >= (p.from_xid, p.from_seq) and (r.xid, r.seq) <= (p.to_xid, p.to_seq)
            and r.seq >= case when p.by_seq then p.from_seq else 0 end
            and r.seq <= case when p.by_seq then p.to_seq else 9223372036854775807 end
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
  ...partsOfActor(row.actor),
  occurredAt: new Date(row.occurredAt).toISOString(),
  ...(row.schema !== null && { schema: row.schema }),
  ...(row.ids !== null && { ids: row.ids }),
  ...(row.operation !== null && { operation: row.operation }),
  ...(row.payload !== null && { payload: row.payload }),
});

/** Events that one read takes. */
const readSize = 500;
/** Milliseconds to wait after an error. */
const recoverMs = 1_000;
/** Nothing wakes the loop by time: positions come from the relay, which looks by itself. */
const longWaitMs = 60_000;

interface EventReaderOptions {
  readonly database: Database;
  readonly log: Logger;
  readonly onHandlerError: () => void;
}

interface EventReader {
  /** Starts at `position`: what was published before is history. */
  start(position: number): void;
  /** The sequence has grown to at least `position`, by events of these topics. */
  advance(position: number, told?: PublishedTopics): void;
  subscribe(pattern: string, handler: EventHandler, onGap?: () => void): () => void;
  stop(): Promise<void>;
}

const PURGED_UNREAD = 'Events were purged before this node had read them';

interface Subscription {
  readonly matches: (topic: string) => boolean;
  readonly handler: EventHandler;
  readonly onGap: (() => void) | undefined;
}

/** Topics whose subscribers are remembered. There are a few for each schema. */
const MAX_TOPICS = 2_000;

/** Who subscribes to what. Subscriptions change seldom, and events are many: who hears of a topic is worked out once. */
function createSubscriptions() {
  const all = new Set<Subscription>();
  const byTopic = new Map<string, readonly Subscription[]>();
  return {
    get size(): number {
      return all.size;
    },
    add(pattern: string, handler: EventHandler, onGap?: () => void): () => void {
      const subscription: Subscription = { matches: matcher(pattern), handler, onGap };
      all.add(subscription);
      byTopic.clear();
      return () => {
        all.delete(subscription);
        byTopic.clear();
      };
    },
    tellOfGap(log: Logger, gap: { readonly from: number; readonly to: number }): void {
      log.error(gap, PURGED_UNREAD);
      for (const { onGap } of [...all]) onGap?.();
    },
    of(topic: string): readonly Subscription[] {
      const known = byTopic.get(topic);
      if (known) return known;
      const found = [...all].filter(({ matches }) => matches(topic));
      if (byTopic.size >= MAX_TOPICS) byTopic.clear();
      byTopic.set(topic, found);
      return found;
    },
  };
}

export function createEventReader(dependencies: EventReaderOptions): EventReader {
  const { database, log } = dependencies;
  const subscriptions = createSubscriptions();
  const bell = createWakeup();
  let known = 0;
  let delivered = 0;
  let stopped = false;
  let running: Promise<void> | undefined;

  const deliver = async (event: PublishedEvent): Promise<void> => {
    const interested = subscriptions.of(event.topic);
    if (interested.length > 0)
      await Promise.all(interested.map((one) => deliverTo(dependencies, one, event)));
    delivered = event.sequence;
  };

  const catchUp = async (): Promise<void> => {
    while (!stopped && delivered < known && subscriptions.size > 0) {
      const { events, last, purged } = await readAfter(database, delivered, readSize);
      if (delivered < purged) subscriptions.tellOfGap(log, { from: delivered, to: purged });
      for (const event of events) await deliver(event);
      if (events.length === 0) delivered = Math.max(delivered, Math.min(known, last));
    }
    if (subscriptions.size === 0) delivered = known;
  };

  const loop = async (): Promise<void> => {
    while (!stopped) {
      try {
        await bell.wait(longWaitMs);
        await catchUp();
      } catch (error) {
        if (stopped) return;
        log.error({ err: error }, 'Events could not be read; trying again');
        await delay(recoverMs);
        bell.ring();
      }
    }
  };

  return {
    start(position) {
      known = Math.max(known, position);
      delivered = Math.max(delivered, position);
      running ??= loop();
    },
    advance(position, told) {
      if (position <= known) return;
      const isNext = told !== undefined && delivered === known && told.from <= known;
      const concernsNobody =
        isNext && told.topics.every((one) => subscriptions.of(one).length === 0);
      known = position;
      if (subscriptions.size === 0 || concernsNobody) delivered = position;
      else bell.ring();
    },
    subscribe: subscriptions.add,
    async stop() {
      stopped = true;
      bell.ring();
      await running;
    },
  };
}

async function deliverTo(
  { onHandlerError, log }: EventReaderOptions,
  subscription: Subscription,
  event: PublishedEvent,
): Promise<void> {
  try {
    await subscription.handler(event);
  } catch (error) {
    onHandlerError();
    log.error(
      { err: error, topic: event.topic, sequence: event.sequence },
      'A subscriber failed on an event',
    );
  }
}

/** `*` at the end matches any rest; without it the topic must be equal. */
function matcher(pattern: string): (topic: string) => boolean {
  if (!pattern.endsWith('*')) return (topic) => topic === pattern;
  const prefix = pattern.slice(0, -1);
  return (topic) => topic.startsWith(prefix);
}
