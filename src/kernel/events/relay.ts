/**
 * The relay gives committed events their place in the one sequence. Every node
 * runs one; a lock lets one at a time work. Positions are given under that lock
 * to rows that are visible (publication.ts), so the order never contradicts the
 * order of commits and a position, once read, has no smaller one that could
 * still appear.
 */
import { setTimeout as delay } from 'node:timers/promises';
import type { Database } from '../database/database.ts';
import { sql } from '../database/sql.ts';
import type { Logger } from '../telemetry/logger.ts';
import {
  finishOutboxMove,
  type PublishedTopics,
  publishEvents,
  waitingSince,
} from './publication.ts';

/** A bell for one loop: rung as often as one likes, heard once. */
interface Wakeup {
  ring(): void;
  /** Rings after so many milliseconds, unless it is rung before. */
  ringWithin(milliseconds: number): void;
  /** Resolves true when rung (also if that was before), false after `timeoutMs`. */
  wait(timeoutMs: number): Promise<boolean>;
}

export function createWakeup(): Wakeup {
  let rung = false;
  let answer: ((rung: boolean) => void) | undefined;
  let later: NodeJS.Timeout | undefined;
  const ring = (): void => {
    clearTimeout(later);
    later = undefined;
    rung = true;
    answer?.(true);
  };
  return {
    ring,
    ringWithin(milliseconds) {
      later ??= setTimeout(ring, milliseconds).unref();
    },
    async wait(timeoutMs) {
      if (!rung) {
        const { promise, resolve } = Promise.withResolvers<boolean>();
        const timer = setTimeout(resolve, timeoutMs, false);
        answer = resolve;
        await promise;
        clearTimeout(timer);
        answer = undefined;
      }
      const heard = rung;
      rung = false;
      return heard;
    },
  };
}

/** Milliseconds from the first write to its publication: more writes join in. */
const gatherMs = 2;
/** Milliseconds between two publications under load. */
const paceMs = 20;
/**
 * Milliseconds that events may wait for others when those who wait for them were told already. Publishing one costs
 * as much as publishing many, and reading it back does: at fifty a second that was as much as writing them.
 */
const laterMs = 100;
/** Milliseconds after which the relay looks by itself, for rows of nodes that died or could not wake it. */
const lookEveryMs = 500;
/** Milliseconds to wait after an error. */
const recoverMs = 1_000;

interface RelayOptions {
  readonly database: Database;
  readonly log: Logger;
  /** Called with the highest published position when it may have grown, how many were published here, and which. */
  readonly onPosition: (position: number, published: number, told?: PublishedTopics) => void;
}

interface Relay {
  wake(): void;
  /** For events that nobody waits for. */
  wakeLater(): void;
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
  /** Known to be the server that gave the transaction ids; another may stand behind a connection that was lost. */
  let sameServer = false;

  const turn = async (): Promise<void> => {
    if (!sameServer && (await finishOutboxMove(database))) {
      log.warn(
        {},
        'The database was moved to another server: readers of events must load their data anew',
      );
    }
    sameServer = true;
    const woken = await bell.wait(lookEveryMs);
    if (stopped) return;
    if (woken) await delay(gatherMs);
    else if (!(await lookAround())) return;
    const published = await publishEvents(database);
    if (published === undefined || published.more) bell.ring();
    if (published && published.count > 0)
      onPosition(published.position, published.count, published.told);
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
        sameServer = false;
        log.error({ err: error }, 'Events could not be published; trying again');
        await delay(recoverMs);
        bell.ring();
      }
    }
  };

  return {
    wake: bell.ring,
    wakeLater: () => bell.ringWithin(laterMs),
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
  const { rows } = await database.query<{ position: string }>(
    sql`select last_position as position from penstock.outbox_state`,
  );
  return {
    position: Number(rows[0]?.position ?? 0),
    pending: (await waitingSince(database)) !== undefined,
  };
}
