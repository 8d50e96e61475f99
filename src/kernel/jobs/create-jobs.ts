/** Makes the job service: pg-boss over the platform's own database. */
import { randomUUID } from 'node:crypto';
import type { PgBoss } from 'pg-boss';
import type { TSchema } from 'typebox';
import { Compile } from 'typebox/compile';
import type { Database, Queryable } from '../database/database.ts';
import { sql } from '../database/sql.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { Metrics } from '../telemetry/metrics.ts';
import { version as ownVersion } from '../version.ts';
import { type BossLink, callerDatabase, createBossLink } from './boss-database.ts';
import { watchClock } from './clock.ts';
import { createDueAlarm, type DueAlarm } from './due-alarm.ts';
import { withCauses } from './job-causes.ts';
import type { EnqueueOptions, JobDefinition, JobStatus, Jobs, NewJob } from './jobs.ts';
import { openBoss, prepareQueue, touchEverySeconds } from './queues.ts';
import { createRunner, type Runner } from './runner.ts';
import { declareSchedules } from './schedules.ts';

interface JobsOptions {
  readonly database: Database;
  readonly log: Logger;
  readonly metrics: Metrics;
  /** Of the platform; that of this program unless a test says so. */
  readonly version?: string;
}

export interface RunningJobs extends Jobs {
  /** Prepares the queues and starts to work. Call it once the surfaces listen: readiness does not wait for it. */
  start(): Promise<void>;
  /** Takes no more jobs and waits for running ones, at most `timeoutMs` (10,000); what still runs then is retried later. */
  stop(timeoutMs?: number): Promise<void>;
}

/** Fetchers per job name and node, and jobs that each runs at a time. */
const fetchers = 2;
const batchSize = 8;
/** Seconds between looks that nothing asked for: new jobs are announced, and an alarm tells when others become due. */
const lookEverySeconds = 30;
const uuid = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

interface Registration {
  readonly definition: JobDefinition;
  readonly runner: Runner;
  readonly valid: (data: unknown) => boolean;
}

export function createJobs(dependencies: JobsOptions): RunningJobs {
  const { database, log, version = ownVersion } = dependencies;
  const registrations = new Map<string, Registration>();
  const link = createBossLink(database);
  const queues = (): string[] => [...registrations.keys()];
  const alarm = createDueAlarm({ database, queues, wake: link.wake });
  const clock = watchClock(database, log);
  let opened: Promise<PgBoss> | undefined;
  let starting: Promise<void> | undefined;
  let working = false;

  /** Starts pg-boss and makes the queues of everything registered so far. Tried again after a failure. */
  const open = (): Promise<PgBoss> => {
    opened ??= openBoss(link.db, log, definitionsOf(registrations)).catch((error: unknown) => {
      opened = undefined;
      throw error;
    });
    return opened;
  };

  const startWork = async (): Promise<void> => {
    working = true;
    const boss = await open();
    if (working) await Promise.all([alarm.start(), clock.start()]);
    await declareSchedules(database, definitionsOf(registrations), { version, all: true });
    await workAll({ boss, alarm, link }, registrations, () => working);
  };
  const stopWork = async (timeoutMs: number): Promise<void> => {
    working = false;
    alarm.stop();
    clock.stop();
    await starting?.catch(() => undefined);
    const boss = await opened?.catch(() => undefined);
    if (boss) await endAll(boss, queues(), timeoutMs);
  };

  return {
    async register(definition) {
      const registration = registrationFor(dependencies, definition);
      registrations.set(definition.name, registration);
      if (opened === undefined) return;
      const boss = await opened;
      await prepareQueue({ boss, db: link.db }, definition);
      if (!working) return;
      await declareSchedules(database, [definition], { version, all: false });
      await work({ boss, alarm }, registration);
    },
    async unregister(name) {
      if (!registrations.delete(name) || !working) return;
      await endWork(await open(), name);
      await (await open()).unschedule(name);
    },
    async leave(name) {
      if (registrations.delete(name) && working) await endWork(await open(), name);
    },
    ...enqueueing({ database, registrations, open, alarm }),
    waiting: (name, list) => countWaiting(database, name, list),
    status: async (id) => (await open()) && readStatus(database, queues(), id),
    start: () => (starting = startWork()),
    stop: (timeoutMs = 10_000) => stopWork(timeoutMs),
  };
}

async function endAll(boss: PgBoss, names: readonly string[], timeoutMs: number): Promise<void> {
  await finishJobs(boss, names, timeoutMs);
  await boss.stop({ close: false, graceful: false });
}

interface Enqueueing {
  readonly database: Database;
  readonly registrations: ReadonlyMap<string, Registration>;
  readonly alarm: DueAlarm;
  open(): Promise<PgBoss>;
}

const enqueueing = ({
  database,
  registrations,
  open,
  alarm,
}: Enqueueing): Pick<Jobs, 'enqueue' | 'enqueueMany'> => ({
  async enqueue(name, data, options = {}) {
    const { valid } = registered(registrations, name);
    if (!valid(data)) throw new Error(`The data of job "${name}" does not fit its schema`);
    const boss = await open();
    const id = await boss.send(name, withCauses(data), sendOptions(database, options));
    if (options.startAfterSeconds) alarm.expect(name, options.startAfterSeconds);
    return id;
  },
  async enqueueMany(name, all, { transaction = database } = {}) {
    const { valid } = registered(registrations, name);
    if (all.length === 0) return;
    await sendMany({ boss: await open(), name, valid, transaction }, all);
    const seconds = all.flatMap(({ startAfterSeconds = 0 }) => startAfterSeconds || []);
    if (seconds.length > 0) alarm.expect(name, Math.min(...seconds));
  },
});

const definitionsOf = (registrations: ReadonlyMap<string, Registration>) =>
  [...registrations.values()].map(({ definition }) => definition);

function registrationFor({ log, metrics }: JobsOptions, definition: JobDefinition): Registration {
  const valid = dataCheck(definition.data);
  return { definition, valid, runner: createRunner({ definition, valid, log, metrics }) };
}

function registered(registrations: ReadonlyMap<string, Registration>, name: string): Registration {
  const registration = registrations.get(name);
  if (!registration) throw new Error(`There is no job "${name}": register its definition first`);
  return registration;
}

interface Work {
  readonly boss: PgBoss;
  readonly alarm: DueAlarm;
}

async function work({ boss, alarm }: Work, { definition, runner }: Registration): Promise<void> {
  const isScheduled = definition.schedule !== undefined;
  await boss.work(
    definition.name,
    {
      batchSize: definition.batch?.size ?? batchSize,
      localConcurrency: isScheduled ? 1 : (definition.batch?.atOnce ?? fetchers),
      burstWhenBatchFull: true,
      notifyPollingIntervalSeconds: lookEverySeconds,
      heartbeatRefreshSeconds: touchEverySeconds,
      includeMetadata: true,
      perJobResults: true,
    },
    async (jobs) => {
      const results = await runner(jobs);
      if (results.some(({ status }) => status === 'failed')) alarm.failed();
      return results;
    },
  );
}

/** Begins with each, as long as `goesOn`. */
async function workAll(
  { boss, alarm, link }: Work & { readonly link: BossLink },
  registrations: ReadonlyMap<string, Registration>,
  goesOn: () => boolean,
): Promise<void> {
  for (const registration of [...registrations.values()]) {
    if (!goesOn()) return;
    await work({ boss, alarm }, registration);
    // All queues at once would take every connection of the pool.
    await link.rest();
  }
}

/**
 * Takes no more jobs and waits for those that run, at most `timeoutMs`. A graceful stop of pg-boss does the
 * same, but looks only twice a second whether they are done.
 */
async function finishJobs(
  boss: PgBoss,
  names: readonly string[],
  timeoutMs: number,
): Promise<void> {
  const over = Promise.withResolvers<void>();
  const timer = setTimeout(over.resolve, timeoutMs);
  const finished = Promise.allSettled(names.map((name) => boss.offWork(name, { wait: true })));
  await Promise.race([finished, over.promise]);
  clearTimeout(timer);
}

const sendOptions = (database: Database, options: EnqueueOptions) => ({
  singletonKey: options.singletonKey ?? randomUUID(),
  db: callerDatabase(options.transaction ?? database),
  ...(options.startAfterSeconds !== undefined && { startAfter: options.startAfterSeconds }),
});

function dataCheck(schema: TSchema): (data: unknown) => boolean {
  const compiled = Compile(schema);
  return (data) => compiled.Check(data);
}

async function sendMany(
  {
    boss,
    name,
    valid,
    transaction,
  }: Pick<Registration, 'valid'> & {
    readonly boss: PgBoss;
    readonly name: string;
    readonly transaction: Queryable;
  },
  all: readonly NewJob[],
): Promise<void> {
  if (!all.every(({ data }) => valid(data)))
    throw new Error(`The data of job "${name}" does not fit its schema`);
  const jobs = all.map(({ data, startAfterSeconds: startAfter }) => ({
    data: withCauses(data),
    singletonKey: randomUUID(),
    ...(startAfter === undefined ? {} : { startAfter }),
  }));
  await boss.insert(name, jobs, { db: callerDatabase(transaction) });
}

const endWork = (boss: PgBoss, name: string): Promise<void> => boss.offWork(name, { wait: true });

async function countWaiting(
  database: Database,
  name: string,
  list: string | undefined,
): Promise<number> {
  const { rows } = await database.query<{ count: number }>(sql`
    select coalesce(sum(case when ${list ?? null}::text is null then 1 else jsonb_array_length(data -> ${list ?? null}::text) end), 0)::integer as count
    from penstock_jobs.job where name = ${name} and state < 'active'`);
  return rows[0]?.count ?? 0;
}

async function readStatus(
  database: Database,
  names: readonly string[],
  id: string,
): Promise<JobStatus | undefined> {
  if (!uuid.test(id)) return undefined;
  const { rows } = await database.query<{
    id: string;
    name: string;
    state: JobStatus['state'];
    retries: number;
    started: boolean;
  }>(sql`
    select id::text as id, name, state::text as state, retry_count as retries, started_on is not null as started
    from penstock_jobs.job where name = any(${names}::text[]) and id = ${id}::uuid`);
  const row = rows[0];
  return (
    row && {
      id: row.id,
      name: row.name,
      state: row.state,
      attempts: row.retries + (row.started ? 1 : 0),
    }
  );
}
