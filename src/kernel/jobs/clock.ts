/**
 * What a clock that was ahead leaves behind in the database when it is set right: moments that are to come although they
 * have passed. Recurring work would rest, what waits would wait and quotas would stay used up until the clock is there
 * again, hours later.
 */
import type { Database } from '../database/database.ts';
import { sql } from '../database/sql.ts';
import type { Logger } from '../telemetry/logger.ts';

/** Milliseconds between looks. */
const LOOK_MS = 60_000;

/**
 * Recurring work is looked for every half minute by some node, which notes when: that moment cannot be to come. By as much as
 * it is, all moments move that were noted before the step. Answers the seconds; nothing where the clock went on.
 */
async function settleClock(database: Pick<Database, 'query'>): Promise<number | undefined> {
  const { rows } = await database.query<{ seconds: number }>(sql`
    with back as (
      update penstock_jobs.version v set cron_on = null, bam_on = null, flow_on = null, reindex_on = null, monitor_backoff_on = null
      from (select version, cron_on - now() as step from penstock_jobs.version for update) known
      where v.version = known.version and known.step > interval '1 minute' returning known.step),
    queues as (update penstock_jobs.queue set monitor_claim_on = null, maintain_on = null where exists (select from back)),
    jobs as (
      update penstock_jobs.job set created_on = case when created_on > now() then created_on - step else created_on end,
        start_after = start_after - step, started_on = started_on - step, heartbeat_on = heartbeat_on - step
      from back where state <= 'active' and greatest(created_on, started_on) > now()),
    items as (
      update penstock.queue_items set created_at = case when created_at > now() then created_at - step else created_at end,
        due_at = due_at - step, leased_at = leased_at - step
      from back where state = 'waiting' and greatest(created_at, leased_at) > now()),
    quotas as (update penstock.limits set ends_at = ends_at - step from back)
    select extract(epoch from step)::float8 as seconds from back`);
  return rows[0]?.seconds;
}

export interface ClockWatch {
  /** Looks once, and from then on every minute. Never rejects. */
  start(): Promise<void>;
  stop(): void;
}

/** The tables of jobs, of queues and of limits must exist. */
export function watchClock(database: Pick<Database, 'query'>, log: Logger): ClockWatch {
  let timer: NodeJS.Timeout | undefined;
  const look = async (): Promise<void> => {
    try {
      const seconds = await settleClock(database);
      if (seconds !== undefined)
        log.warn(
          { seconds },
          'The clock of the database was set back: what waits was moved with it',
        );
    } catch (error) {
      log.debug({ err: error }, 'The clock of the database could not be looked at');
    }
  };
  return {
    start() {
      timer ??= setInterval(() => void look(), LOOK_MS).unref();
      return look();
    },
    stop() {
      clearInterval(timer);
      timer = undefined;
    },
  };
}
