/** Puts the kernel together from its parts. */
import { createHookedRecords } from './data/records/hook-gate.ts';
import type { RecordStoreOptions } from './data/records/record-store.ts';
import { createIndexJob, enqueueIndexJob } from './data/schema/registry/index-builds.ts';
import { createSchemaRegistry } from './data/schema/registry/schema-registry.ts';
import type { Kernel } from './host/kernel.ts';
import type { ModuleHost } from './host/module-host.ts';
import { createAudit } from './kernel/audit/create-audit.ts';
import { createCaches } from './kernel/cache.ts';
import type { StartProgram } from './kernel/child-programs.ts';
import { createConfigService } from './kernel/config/create-config-service.ts';
import type { Database, Statement } from './kernel/database/database.ts';
import { measureConnections, measureQueues } from './kernel/database/database-telemetry.ts';
import { checkStorage, tookNoChanges } from './kernel/database/failures.ts';
import type { StatementTimings } from './kernel/database/statement-timings.ts';
import type { Bus } from './kernel/events/bus.ts';
import { createUserSignals } from './kernel/events/bus.ts';
import { createBus } from './kernel/events/create-bus.ts';
import { createEvents } from './kernel/events/create-events.ts';
import { createHealth, type Health, type HealthResult } from './kernel/health.ts';
import { createHooks } from './kernel/hooks/hooks.ts';
import { createIdentity } from './kernel/identity.ts';
import { createJobs } from './kernel/jobs/create-jobs.ts';
import { createLimits } from './kernel/limits/create-limits.ts';
import { createDurableLimits } from './kernel/limits/durable-limits.ts';
import { createRouteMiddlewares } from './kernel/middlewares/route-middlewares.ts';
import { createPromptRegistry } from './kernel/operations/prompts.ts';
import { createOperationRegistry } from './kernel/operations/registry.ts';
import { createPermissionPort } from './kernel/permissions.ts';
import { installationId, openRedis, type Redis } from './kernel/redis.ts';
import {
  createPasswordHasher,
  type PasswordHasherOptions,
} from './kernel/security/password-hasher.ts';
import { openSecretBox } from './kernel/security/secret-box.ts';
import { createTickets } from './kernel/security/tickets.ts';
import type { Settings } from './kernel/settings/settings.ts';
import { createOperatorNotices } from './kernel/sockets/operator-notices.ts';
import { createSocketNamespaces } from './kernel/sockets/socket-namespace.ts';
import { createStateRegistry } from './kernel/state.ts';
import { startMetricsServer } from './kernel/telemetry/create-metrics.ts';
import { createLogTail } from './kernel/telemetry/log-tail.ts';
import type { Logger } from './kernel/telemetry/logger.ts';
import type { Metrics } from './kernel/telemetry/metrics.ts';
import type { Tracing } from './kernel/telemetry/tracing.ts';
import { recordTuples } from './modules/authorization/index.ts';

interface KernelParts {
  readonly settings: Settings & { readonly masterKey: string };
  readonly log: Logger;
  readonly metrics: Metrics;
  readonly database: Database;
  readonly timings: StatementTimings;
  readonly tracing: Tracing | undefined;
  readonly host: ModuleHost;
  readonly closing: AsyncDisposableStack;
  readonly startProgram: StartProgram;
}

export async function createKernel(
  parts: KernelParts,
  passwordHashing?: PasswordHasherOptions,
): Promise<{ kernel: Kernel; startJobs: () => void }> {
  const { settings, metrics, database, timings, tracing, host, closing } = parts;
  const { log, ...logTail } = createLogTail(parts.log);
  await openMetrics(parts);
  const health = createHealth();
  checkDatabase(parts, health);
  const redis = await connectRedis(parts, health);
  const secrets = await openSecretBox(database, settings);
  const bus = await createBus({ database, redis, log, workers: settings.workers });
  closing.defer(() => bus.close());
  const events = createEvents({ database, bus, log, metrics });
  await events.start();
  closing.defer(() => events.stop());
  const jobs = createJobs({ database, log, metrics });
  closing.defer(() => jobs.stop());
  const permissions = createPermissionPort(recordTuples);
  await jobs.register(createIndexJob({ database, log }));
  const operations = createOperationRegistry();
  const schemas = await openSchemas({ database, bus, events, health, log }, jobs);
  const audit = createAudit(database, log);
  closing.defer(() => audit.flush());

  const { databaseSearchTimeoutMs: searchLimitMs } = settings;
  const kernel: Kernel = {
    settings,
    log,
    metrics,
    tracing,
    health,
    database,
    timings,
    bus,
    events,
    ...createListenerPorts(bus),
    logTail,
    jobs,
    audit,
    caches: createCaches(bus, metrics),
    ...createBudgets(parts, redis),
    ...withTickets(database, secrets),
    passwords: createPasswordHasher(passwordHashing),
    config: await createConfigService({ database, bus, secrets, log, health }),
    schemas,
    ...recordsWithHooks({ database, schemas, permissions, events, secrets, searchLimitMs }),
    operations,
    prompts: createPromptRegistry(),
    middlewares: await createRouteMiddlewares({ database, bus, registry: operations }),
    identity: createIdentity(),
    permissions,
    state: createStateRegistry(),
    ...{ modules: host, startProgram: parts.startProgram },
  };
  const startJobs = (): void =>
    void jobs
      .start()
      .catch((error: unknown) => log.error({ err: error }, 'Background jobs could not be started'));
  return { kernel, startJobs };
}

const openSchemas = (
  parts: Omit<Parameters<typeof createSchemaRegistry>[0], 'onIndexesWaiting'> & Pick<Kernel, 'log'>,
  jobs: Kernel['jobs'],
): Promise<Kernel['schemas']> =>
  createSchemaRegistry({ ...parts, onIndexesWaiting: () => enqueueIndexJob(jobs, parts.log) });

/** What reaches users and operators who are connected. */
const createListenerPorts = (
  bus: Bus,
): Pick<Kernel, 'signals' | 'sockets' | 'operatorNotices'> => ({
  signals: createUserSignals(bus),
  sockets: createSocketNamespaces(),
  operatorNotices: createOperatorNotices(),
});

/** What is kept sealed, for long and for a moment. */
const withTickets = (
  database: Database,
  secrets: Kernel['secrets'],
): Pick<Kernel, 'secrets' | 'tickets'> => ({
  secrets,
  tickets: createTickets({ database, secrets }),
});

/** Counters that forget, and those that do not. */
const createBudgets = (
  { database, metrics, log }: KernelParts,
  redis: Parameters<typeof createLimits>[0]['redis'],
): Pick<Kernel, 'limits' | 'durableLimits'> => ({
  limits: createLimits({ redis, metrics, log }),
  durableLimits: createDurableLimits({ database, metrics }),
});

/** The record store, and the hooks that it asks. */
function recordsWithHooks(options: RecordStoreOptions): Pick<Kernel, 'records' | 'hooks'> {
  const hooks = createHooks();
  return {
    hooks,
    records: createHookedRecords(options, hooks),
  };
}

/** Whether it answers; who runs the server may know more than the driver why it does not. */
async function askDatabase(database: Database, limitMs: number): Promise<HealthResult> {
  try {
    const alive: Statement = { text: 'select 1', class: 'health', limitMs };
    await database.query(alive);
    return tookNoChanges()
      ? { status: 'warn', message: 'the database takes no changes: it is a standby or read only' }
      : { status: 'pass' };
  } catch (error) {
    const { trouble } = database.info();
    if (trouble === undefined) throw error;
    return { status: 'fail', message: trouble };
  }
}

async function openMetrics({ settings, metrics, database, closing }: KernelParts): Promise<void> {
  measureConnections(metrics, database);
  measureQueues(metrics, database);
  const server = await startMetricsServer(settings, metrics);
  if (server) closing.defer(() => server.close());
}

/** The health checks of the database and of its disk, where that is ours. */
function checkDatabase({ settings, database }: KernelParts, health: Health): void {
  health.register({
    name: 'database',
    run: () => askDatabase(database, settings.ready.totalTimeoutMs),
  });
  const { kind, location } = database.info();
  health.register({
    name: 'storage',
    run: () => checkStorage(kind === 'embedded' ? location : undefined),
  });
}

/** Redis, where there is one, with its health check. */
async function connectRedis(
  { settings, log, database, closing }: KernelParts,
  health: Health,
): Promise<Redis | undefined> {
  const redis = await openRedis(settings, log, await installationId(database));
  if (!redis) return undefined;
  closing.defer(() => redis.close());
  if (settings.ready.checkRedis)
    health.register({
      name: 'redis',
      run: () => redis.ping(settings.ready.redisTimeoutMs).then(() => ({ status: 'pass' })),
    });
  return redis;
}
