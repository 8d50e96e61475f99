/**
 * The relay gives committed events their place in the one sequence. Every node
 * runs one; a lock lets one at a time work. Positions are given under that lock
 * to rows that are visible, so the order never contradicts the order of commits
 * and a position, once read, has no smaller one that could still appear.
 */
import { setTimeout as delay } from 'node:timers/promises';
import type { Database } from '../database/database.ts';
import { sql } from '../database/sql.ts';
import type { Logger } from '../telemetry/logger.ts';
import { planned } from './outbox.ts';
import { createWakeup } from './wakeup.ts';

/** Rows that one transaction publishes. */
const batchSize = 1_000;
/** Milliseconds from the first write to its publication: more writes join in. */
const gatherMs = 2;
/** Milliseconds between two publications under load. */
const paceMs = 20;
/** Milliseconds after which the relay looks by itself, for rows of nodes that died or could not wake it. */
const lookEveryMs = 500;
/** Milliseconds to wait after an error. */
const recoverMs = 1_000;
/** Advisory lock of the relay: an arbitrary constant of this program. */
const relayLock = 7_203_114_001;

export interface RelayOptions {
  readonly database: Database;
  readonly log: Logger;
  /** Called with the highest published position when it may have grown, and how many were published here. */
  readonly onPosition: (position: number, published: number) => void;
}

export interface Relay {
  wake(): void;
  /** Runs until stopped. */
  start(): void;
  stop(): Promise<void>;
}

/** What a look at the outbox found. */
interface Look {
  readonly position: number;
  readonly pending: boolean;
}

export function createRelay({ database, log, onPosition }: RelayOptions): Relay {
  const bell = createWakeup();
  let stopped = false;
  let running: Promise<void> | undefined;

  const turn = async (): Promise<void> => {
    const woken = await bell.wait(lookEveryMs);
    if (stopped) return;
    if (woken) await delay(gatherMs);
    else if (!(await lookAround())) return;
    const published = await publishBatch(database);
    if (published === undefined || published.count === batchSize) bell.ring();
    if (published && published.count > 0) onPosition(published.position, published.count);
    await delay(paceMs);
  };

  const lookAround = async (): Promise<boolean> => {
    const { position, pending } = await look(database);
    onPosition(position, 0);
    return pending;
  };

  const loop = async (): Promise<void> => {
    while (!stopped) {
      try {
        await turn();
      } catch (error) {
        if (stopped) return;
        log.error({ err: error }, 'Events could not be published; trying again');
        await delay(recoverMs);
        bell.ring();
      }
    }
  };

  return {
    wake: bell.ring,
    start() {
      running ??= loop();
    },
    async stop() {
      stopped = true;
      bell.ring();
      await running;
    },
  };
}

async function look(database: Database): Promise<Look> {
  const { rows } = await database.query<{ position: string; pending: boolean }>(
    planned(sql`
    select last_position as position, exists (select from penstock.outbox where position is null) as pending
    from penstock.outbox_state`),
  );
  return { position: Number(rows[0]?.position ?? 0), pending: rows[0]?.pending ?? false };
}

/** Publishes up to one batch; `undefined` when another node is doing so at this moment. */
function publishBatch(database: Database): Promise<{ position: number; count: number } | undefined> {
  return database.transaction(async (transaction) => {
    const lock = await transaction.query<{ held: boolean }>(sql`select pg_try_advisory_xact_lock(${relayLock}) as held`);
    if (lock.rows[0]?.held !== true) return undefined;
    // A statement of its own: its snapshot must be younger than the lock. Nobody else updates these
    // rows, so they stay where they were found: joining by place spares the walk over dead index entries.
    const { rows } = await transaction.query<{ position: string; count: number }>(
      planned(sql`
      with batch as materialized (
        select row, row_number() over (order by seq) as place
        from (select ctid as row, seq from penstock.outbox where position is null order by seq limit ${batchSize}) as unpublished
      ),
      total as (select count(*)::int as count from batch),
      state as (
        update penstock.outbox_state set last_position = last_position + (select count from total)
        where (select count from total) > 0 returning last_position
      ),
      placed as (
        update penstock.outbox o set position = state.last_position - total.count + batch.place
        from batch, state, total where o.ctid = batch.row
      )
      select state.last_position as position, total.count from state, total`),
    );
    return { position: Number(rows[0]?.position ?? 0), count: rows[0]?.count ?? 0 };
  });
}
