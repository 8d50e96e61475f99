/**
 * Reads the sequence of events once for all nodes, durably: what is made of an event is written in the transaction that
 * moves the position on. So every event is handled exactly once, whatever dies, and in order.
 */
import type { Database, Queryable, Transaction } from '../database/database.ts';
import { sql } from '../database/sql.ts';
import { offAccount } from '../request-account/request-account.ts';
import type { Logger } from '../telemetry/logger.ts';
import { readAfter } from './event-reader.ts';
import type { Events, PublishedEvent } from './events.ts';
import { createWakeup } from './relay.ts';

/** Events of one transaction. */
const BATCH = 200;
/** Milliseconds between two looks at most: for what other nodes have left. */
const LOOK_EVERY_MS = 5_000;
const RECOVER_MS = 1_000;
/** Milliseconds for which others that read the same position are given their turn. */
const BUSY_MS = 250;

export interface ConsumerOptions {
  /** Unique; the position is kept under it. */
  readonly name: string;
  readonly database: Database;
  readonly events: Pick<Events, 'onPublished'>;
  readonly log: Logger;
  /**
   * Makes of the events what is to be made, with the transaction. Answers the sequence of the last event that it took;
   * all of them unless it says so.
   */
  handle(transaction: Transaction, events: readonly PublishedEvent[]): Promise<number | undefined>;
  /** After the commit of what `handle` did. */
  onHandled?(): void;
}

export interface EventConsumer {
  /** From now on events are kept for it and handled; nothing when they are already. */
  follow(database: Queryable): Promise<void>;
  /** Nothing is to be made of events any more. */
  leave(database: Queryable): Promise<void>;
  start(): void;
  stop(): Promise<void>;
}

type Turn = 'more' | 'done' | 'busy' | 'idle';

export function createEventConsumer(options: ConsumerOptions): EventConsumer {
  const { name, database, events, log } = options;
  const bell = createWakeup();
  let stopped = false;
  let running: Promise<void> | undefined;
  let stopListening: (() => void) | undefined;
  /** Nobody waits for events, as far as this node knows: new ones do not wake it. */
  let idle = false;

  const turn = async (): Promise<number> => {
    const result = await takeTurn(options);
    idle = result === 'idle';
    return result === 'more' ? 0 : result === 'busy' ? BUSY_MS : LOOK_EVERY_MS;
  };
  const recover = (error: unknown): number => {
    if (!stopped)
      log.error({ err: error, consumer: name }, 'Events could not be handled; trying again');
    return RECOVER_MS;
  };
  const loop = async (): Promise<void> => {
    while (!stopped) {
      const waitMs = await turn().catch(recover);
      if (waitMs > 0 && !stopped) await bell.wait(waitMs);
    }
  };

  return {
    async follow(queryable) {
      await queryable.query(sql`
        insert into penstock.event_consumers (name, position)
        select ${name}, last_position from penstock.outbox_state on conflict (name) do nothing`);
      database.afterCommit(bell.ring);
    },
    async leave(queryable) {
      await queryable.query(sql`delete from penstock.event_consumers where name = ${name}`);
    },
    start() {
      stopListening ??= events.onPublished(() => {
        if (!idle) bell.ring();
      });
      running ??= offAccount(() => loop());
    },
    async stop() {
      stopped = true;
      stopListening?.();
      bell.ring();
      await running;
    },
  };
}

/** One batch, when no other node is at it. */
async function takeTurn({
  database,
  name,
  log,
  handle,
  onHandled,
}: ConsumerOptions): Promise<Turn> {
  const turn = await database.transaction(async (transaction): Promise<Turn> => {
    const { rows } = await transaction.query<{ position: string; busy: boolean }>(sql`
      select position, false as busy from penstock.event_consumers where name = ${name} for update skip locked`);
    const [row] = rows;
    if (!row) return (await exists(transaction, name)) ? 'busy' : 'idle';
    const from = Number(row.position);
    const { events, last, purged } = await readAfter(transaction, from, BATCH);
    if (from < purged)
      log.error(
        { consumer: name, from, to: purged },
        'Events were purged before they were handled',
      );
    const to =
      events.length > 0 ? await handled(handle, transaction, events) : Math.max(from, last);
    await transaction.query(sql`
      update penstock.event_consumers set position = ${to}, seen_at = now()
      where name = ${name} and (position <> ${to} or seen_at < now() - interval '1 minute')`);
    return events.length > 0 && to < last ? 'more' : 'done';
  });
  if (turn === 'more' || turn === 'done') onHandled?.();
  return turn;
}

async function handled(
  handle: ConsumerOptions['handle'],
  transaction: Transaction,
  events: readonly PublishedEvent[],
): Promise<number> {
  const upTo = await handle(transaction, events);
  return typeof upTo === 'number' ? upTo : (events.at(-1)?.sequence ?? 0);
}

async function exists(transaction: Queryable, name: string): Promise<boolean> {
  const { rows } = await transaction.query(
    sql`select from penstock.event_consumers where name = ${name}`,
  );
  return rows.length > 0;
}
