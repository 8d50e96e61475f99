/** Makes the event service: outbox in, relay through, subscribers out. */
import type { Database, Queryable, Transaction } from '../database/database.ts';
import { sql } from '../database/sql.ts';
import { actorOf } from '../hooks/hooks.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { Metrics } from '../telemetry/metrics.ts';
import type { Bus } from './bus.ts';
import { createEventReader, readAfter } from './event-reader.ts';
import type { Events } from './events.ts';
import { countWaiting, type PublishedTopics, waitingSince } from './publication.ts';
import { createRelay } from './relay.ts';

export interface EventsOptions {
  readonly database: Database;
  readonly bus: Bus;
  readonly log: Logger;
  readonly metrics: Metrics;
}

export interface RunningEvents extends Events {
  /** Starts the relay and the delivery on this node. Events written before are published now. */
  start(): Promise<void>;
  /** Publishes nothing more; waits for the delivery in progress. What is unpublished stays in the outbox. */
  stop(): Promise<void>;
}

/** Bus topic on which nodes tell each other how far the sequence has grown. */
const publishedTopic = 'events.published';

/** How far the sequence has grown, and by which events, where that is known. */
interface Advance {
  readonly position: number;
  readonly told?: PublishedTopics;
}

export function createEvents(dependencies: EventsOptions): RunningEvents {
  const { database, bus, log, metrics } = dependencies;
  const published = metrics.counter(
    'events_published_total',
    'Events that this node gave their place in the sequence',
  );
  const failures = metrics.counter(
    'event_handler_errors_total',
    'Failures of event subscribers on this node',
  );
  measureWaiting(dependencies);

  const reader = createEventReader({ database, log, onHandlerError: () => failures.inc() });
  const { onPublished, tell } = createListeners();
  const advance = ({ position, told }: Advance): void => {
    reader.advance(position, told);
    tell(position);
  };
  const relay = createRelay({
    database,
    log,
    onPosition(position, count, told) {
      const payload: Advance = { position, ...(told && { told }) };
      advance(payload);
      if (count === 0) return;
      published.inc({}, count);
      bus.publish(publishedTopic, payload).catch(() => undefined);
    },
  });
  bus.subscribe(publishedTopic, (payload) => advance(payload as Advance));

  return {
    async emit(queryable, caller, event) {
      await queryable.query(sql`
        insert into penstock.outbox (topic, schema, ids, operation, payload, actor)
        values (${event.topic}, ${event.schema ?? null}, ${event.ids ?? null}, ${event.operation ?? null},
          ${event.payload === undefined ? null : JSON.stringify(event.payload)}::jsonb, ${actorOf(caller)})`);
      (isTransaction(queryable) ? queryable : database).afterCommit(relay.wake);
    },
    wake: relay.wake,
    wakeLater: relay.wakeLater,
    subscribe: reader.subscribe,
    onPublished,
    async since(sequence, limit) {
      const { events, last, purged } = await readAfter(database, sequence, limit);
      if (sequence < purged || sequence > last) return undefined;
      return { events, more: (events.at(-1)?.sequence ?? last) < last };
    },
    position: () => position(dependencies),
    async start() {
      reader.start(await position(dependencies));
      relay.start();
    },
    async stop() {
      await relay.stop();
      await reader.stop();
    },
  };
}

function measureWaiting({ metrics, database }: EventsOptions): void {
  metrics.gauge('events_unpublished', 'Committed events that wait for publication', () =>
    countWaiting(database),
  );
  metrics.gauge(
    'events_lag_seconds',
    'Age of the oldest committed event that waits for publication',
    async () => (await waitingSince(database)) ?? 0,
  );
}

/** Those who only want to know that the sequence has grown. */
function createListeners() {
  const listeners = new Set<() => void>();
  let highest = 0;
  const onPublished: Events['onPublished'] = (listener) => {
    listeners.add(listener);
    return () => void listeners.delete(listener);
  };
  const tell = (position: number): void => {
    if (position <= highest) return;
    highest = position;
    for (const listener of listeners) listener();
  };
  return { onPublished, tell };
}

async function position({ database }: EventsOptions): Promise<number> {
  const { rows } = await database.query<{ position: string }>(
    sql`select last_position as position from penstock.outbox_state`,
  );
  return Number(rows[0]?.position ?? 0);
}

const isTransaction = (queryable: Queryable): queryable is Transaction =>
  'afterCommit' in queryable;
