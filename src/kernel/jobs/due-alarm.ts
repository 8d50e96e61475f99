/**
 * Wakes the workers of a queue when a job of it becomes due by time. The queue itself announces only what is due at
 * once, so that what was put off or failed would wait for the next look. Nothing hangs on it: a wake-up that does not
 * come delays a job until a look finds it.
 */
import { AsyncLocalStorage } from 'node:async_hooks';
import type { Database } from '../database/database.ts';
import { sql } from '../database/sql.ts';

/** Milliseconds between two looks at most, for what other nodes put off. */
const lookEveryMs = 5_000;
/** How far a look sees ahead: the next one comes well before that. Milliseconds. */
const horizonMs = 10_000;
/** Two looks stand so far apart at least. Milliseconds. */
const lookAtMostEveryMs = 100;
/** After a job failed: by the first of these its next attempt is mostly written down, else by the second. Milliseconds. */
const afterFailureMs = [250, 1_000] as const;
/** The clock of the database may be so much behind a timer of ours. Milliseconds. */
const marginMs = 10;

export interface DueAlarm {
  start(): void;
  stop(): void;
  /** A job of this queue is due after so many seconds. */
  expect(queue: string, seconds: number): void;
  /** A job failed: it is due again soon, and the queue decides when. */
  failed(): void;
}

interface AlarmOptions {
  readonly database: Pick<Database, 'query'>;
  /** Queues whose workers are here. */
  queues(): readonly string[];
  wake(queue: string): void;
}

interface Waiting {
  readonly queue: string;
  /** Some are due now. */
  readonly due: boolean;
  /** Milliseconds until the next is, as far as a look sees. */
  readonly nextMs: number | null;
}

/** One timer per key, for the earliest time that was asked for. */
function createTimers() {
  const timers = new Map<string, { readonly at: number; readonly timer: NodeJS.Timeout }>();
  return {
    set(key: string, ms: number, then: () => void): void {
      const at = performance.now() + ms;
      const earlier = timers.get(key);
      if (earlier && earlier.at <= at) return;
      clearTimeout(earlier?.timer);
      const ring = (): void => {
        timers.delete(key);
        then();
      };
      timers.set(key, { at, timer: setTimeout(ring, ms).unref() });
    },
    clear(): void {
      for (const { timer } of timers.values()) clearTimeout(timer);
      timers.clear();
    },
  };
}

export function createDueAlarm({ database, queues, wake }: AlarmOptions): DueAlarm {
  // Whoever puts a job off may stand in a transaction or a request: the alarm belongs to neither.
  const outside = AsyncLocalStorage.snapshot();
  const wakes = createTimers();
  const looks = createTimers();
  let running = false;

  const lookIn = (ms: number): void => {
    if (running) looks.set('look', ms, () => void look());
  };
  const wakeIn = (queue: string, ms: number): void =>
    wakes.set(queue, ms, () => {
      wake(queue);
      lookIn(lookAtMostEveryMs);
    });
  const look = async (): Promise<void> => {
    // The workers complain of a database that is away; the next look comes all the same.
    const all = await waitingJobs(database, queues()).catch(() => []);
    if (!running) return;
    for (const { queue, due, nextMs } of all) {
      if (due) wake(queue);
      if (nextMs !== null) wakeIn(queue, nextMs + marginMs);
    }
    lookIn(lookEveryMs);
  };

  return {
    start() {
      running = true;
      outside(() => lookIn(lookEveryMs));
    },
    stop() {
      running = false;
      wakes.clear();
      looks.clear();
    },
    expect(queue, seconds) {
      const ms = seconds * 1000;
      if (running && ms < horizonMs) outside(() => wakeIn(queue, ms + marginMs));
    },
    failed() {
      if (!running) return;
      outside(() => {
        for (const ms of afterFailureMs) looks.set(`failed ${ms}`, ms, () => lookIn(0));
      });
    },
  };
}

async function waitingJobs(
  database: Pick<Database, 'query'>,
  queues: readonly string[],
): Promise<readonly Waiting[]> {
  const { rows } = await database.query<Waiting>(sql`
    select n.queue, j.due, j.ms as "nextMs"
    from unnest(${queues}::text[]) n(queue) cross join lateral (
      select coalesce(bool_or(start_after <= now()), false) as due,
        (extract(epoch from min(start_after) filter (where start_after > now()) - now()) * 1000)::float8 as ms
      from penstock_jobs.job
      where name = n.queue and state < 'active' and not blocked
        and start_after < now() + ${horizonMs}::float8 * interval '1 millisecond') j
    where j.due or j.ms is not null`);
  return rows;
}
