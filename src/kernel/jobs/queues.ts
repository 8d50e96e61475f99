/** The queues of pg-boss: how they are made, and brought up to date. */
import type { PgBoss, QueueOptions } from 'pg-boss';
import type { Logger } from '../telemetry/logger.ts';
import type { BossDatabase } from './boss-database.ts';
import type { JobDefinition } from './jobs.ts';

/** PostgreSQL schema of the job tables. */
export const jobSchema = 'penstock_jobs';
/** Where jobs end up that failed for good. They are kept for `keepFailedSeconds`. */
const deadLetterQueue = 'dead-letter';
const keepFailedSeconds = 30 * 24 * 3600;
const keepDoneSeconds = 24 * 3600;
const defaultRetries = 5;
const defaultExpireSeconds = 300;
const longestBackoffSeconds = 3600;
/**
 * Whoever works on a job says so every `touchEverySeconds`. What nobody spoke of for `lostAfterSeconds` belonged to a
 * process that was killed, and somebody else takes it up: one look in `lookEverySeconds`, of all nodes together. Longer
 * than the database may be away without the same being done twice (docs/decisions/456).
 */
export const touchEverySeconds = 10;
const lostAfterSeconds = 60;
const lookEverySeconds = 30;

async function createBoss(db: BossDatabase, log: Logger): Promise<PgBoss> {
  // Loaded when the first job is needed, so that readiness does not wait for it.
  const { PgBoss: Boss } = await import('pg-boss');
  const boss = new Boss({
    db,
    schema: jobSchema,
    useListenNotify: true,
    superviseIntervalSeconds: lookEverySeconds,
    monitorIntervalSeconds: lookEverySeconds,
    // Rebuilding indexes needs a connection outside of our transactions; vacuum suffices for these sizes.
    reindex: false,
  });
  boss.on('error', (error) => log.error({ err: error }, 'The job queue met an error'));
  boss.on('warning', (warning) => log.warn({ warning: warning.data }, warning.message));
  return boss;
}

/** Starts pg-boss and makes the queues of these jobs, or brings them up to date. */
export async function openBoss(
  db: BossDatabase,
  log: Logger,
  definitions: readonly JobDefinition[],
): Promise<PgBoss> {
  const boss = await createBoss(db, log);
  await boss.start();
  const known = new Map((await boss.getQueues()).map((queue) => [queue.name, queue]));
  if (!known.has(deadLetterQueue)) {
    await boss.createQueue(deadLetterQueue, {
      retentionSeconds: keepFailedSeconds,
      deleteAfterSeconds: keepFailedSeconds,
    });
  }
  for (const definition of definitions)
    await bringUpToDate({ boss, db }, definition, known.get(definition.name));
  return boss;
}

interface QueueLink {
  readonly boss: PgBoss;
  readonly db: BossDatabase;
}

/** Makes the queue of a job that comes while others work, or brings it up to date. */
export const prepareQueue = async (link: QueueLink, definition: JobDefinition): Promise<void> =>
  bringUpToDate(link, definition, await link.boss.getQueue(definition.name));

async function bringUpToDate(
  { boss, db }: QueueLink,
  definition: JobDefinition,
  queue: QueueOptions | null | undefined,
): Promise<void> {
  const { name } = definition;
  if (!queue) return makeQueue(boss, definition);
  if (isAsDefined(queue, definition)) return;
  // What waits since an earlier version. Jobs that run there are left alone: nobody speaks of those.
  await db.executeSql(
    `update ${jobSchema}.job set heartbeat_seconds = $2
     where name = $1 and state < 'active' and heartbeat_seconds is null`,
    [name, lostAfterSeconds],
  );
  await boss.updateQueue(name, attempts(definition));
}

const attempts = (definition: JobDefinition) => ({
  retryLimit: definition.retries ?? defaultRetries,
  expireInSeconds: definition.expireInSeconds ?? defaultExpireSeconds,
  heartbeatSeconds: lostAfterSeconds,
});

/** Whether a queue that an earlier version made still fits. */
function isAsDefined(
  queue: Pick<QueueOptions, 'retryLimit' | 'expireInSeconds' | 'heartbeatSeconds'>,
  definition: JobDefinition,
): boolean {
  const { retryLimit, expireInSeconds, heartbeatSeconds } = attempts(definition);
  return (
    queue.retryLimit === retryLimit &&
    queue.expireInSeconds === expireInSeconds &&
    queue.heartbeatSeconds === heartbeatSeconds
  );
}

const makeQueue = (boss: PgBoss, definition: JobDefinition): Promise<void> =>
  boss.createQueue(definition.name, {
    // One waiting job per key; jobs without a key get one of their own.
    policy: 'short',
    notify: true,
    deadLetter: deadLetterQueue,
    ...attempts(definition),
    retryDelay: 1,
    retryBackoff: true,
    retryDelayMax: longestBackoffSeconds,
    deleteAfterSeconds: keepDoneSeconds,
  });
