/**
 * The composition root: settings, then the kernel, then the modules, then the
 * surfaces. Everything that is opened here is closed here, in reverse order,
 * also when a later step fails.
 */

import { createRecordStore } from './data/records/record-store.ts';
import { migrations as schemaMigrations } from './data/schema/migrations.ts';
import { createIndexJob, enqueueIndexJob } from './data/schema/registry/index-builds.ts';
import { createSchemaRegistry } from './data/schema/registry/schema-registry.ts';
import type { Kernel } from './host/kernel.ts';
import type { AnyModule } from './host/module.ts';
import { createModuleHost, type ModuleHost } from './host/module-host.ts';
import { createAudit } from './kernel/audit/create.ts';
import { migrations as auditMigrations } from './kernel/audit/migrations.ts';
import { createCaches } from './kernel/cache/create.ts';
import { createConfigService } from './kernel/config/create.ts';
import { migrations as configMigrations } from './kernel/config/migrations.ts';
import { type DataFolder, openDataFolder } from './kernel/data-folder.ts';
import type { Database, DatabaseInfo, Statement } from './kernel/database/database.ts';
import { migrate } from './kernel/database/migrate.ts';
import type { MigrationSet } from './kernel/database/migration.ts';
import { openDatabase } from './kernel/database/open.ts';
import { checkStorage } from './kernel/database/storage-health.ts';
import type { StatementTimings } from './kernel/database/timings.ts';
import { createEvents } from './kernel/events/create.ts';
import { createBus } from './kernel/events/create-bus.ts';
import { migrations as eventMigrations } from './kernel/events/migrations.ts';
import { createOutboxJob } from './kernel/events/retention.ts';
import { createHealth, type HealthResult } from './kernel/health.ts';
import { purgeIdempotencyKeys } from './kernel/idempotency/jobs.ts';
import { migrations as idempotencyMigrations } from './kernel/idempotency/migrations.ts';
import { createIdentity } from './kernel/identity.ts';
import { createJobs } from './kernel/jobs/create.ts';
import { createLimits } from './kernel/limits/create.ts';
import { createDurableLimits } from './kernel/limits/durable.ts';
import { purgeLimits } from './kernel/limits/jobs.ts';
import { migrations as limitMigrations } from './kernel/limits/migrations.ts';
import { createRouteMiddlewares } from './kernel/middlewares/create.ts';
import { migrations as middlewareMigrations } from './kernel/middlewares/migrations.ts';
import { createPermissionPort } from './kernel/permissions.ts';
import { installationId, openRedis } from './kernel/redis.ts';
import { createOperationRegistry } from './kernel/registry.ts';
import { createPasswordHasher } from './kernel/security/create-password-hasher.ts';
import { migrations as securityMigrations } from './kernel/security/migrations.ts';
import { openSecretBox } from './kernel/security/open-secret-box.ts';
import type { Settings } from './kernel/settings.ts';
import { createStateRegistry } from './kernel/state/state.ts';
import type { Supervisor } from './kernel/supervision/supervisor.ts';
import { createLogger } from './kernel/telemetry/create-logger.ts';
import { createMetrics } from './kernel/telemetry/create-metrics.ts';
import { measureConnections, measuredStatements, measureQueues } from './kernel/telemetry/database-metrics.ts';
import type { Logger } from './kernel/telemetry/logger.ts';
import type { Metrics } from './kernel/telemetry/metrics.ts';
import { startMetricsServer } from './kernel/telemetry/metrics-server.ts';
import { tracedDatabase } from './kernel/telemetry/tracing/traced-database.ts';
import type { Tracing } from './kernel/telemetry/tracing/tracing.ts';
import { authentication } from './modules/authentication/index.ts';
import { authorization, recordTuples } from './modules/authorization/index.ts';
import { communications } from './modules/communications/index.ts';
import { core } from './modules/core/index.ts';
import { database as databaseModule } from './modules/database/index.ts';
import { router } from './modules/router/index.ts';
import { checkPorts } from './ports.ts';
import { type CloseOptions, startSurfaces } from './surfaces.ts';

/** Every module of the platform. */
export const modules: readonly AnyModule[] = [core, router, communications, databaseModule, authentication, authorization];

const kernelMigrations: readonly MigrationSet[] = [
  { owner: 'kernel/security', migrations: securityMigrations },
  { owner: 'kernel/config', migrations: configMigrations },
  { owner: 'kernel/events', migrations: eventMigrations },
  { owner: 'kernel/audit', migrations: auditMigrations },
  { owner: 'kernel/schema', migrations: schemaMigrations },
  { owner: 'kernel/idempotency', migrations: idempotencyMigrations },
  { owner: 'kernel/middlewares', migrations: middlewareMigrations },
  { owner: 'kernel/limits', migrations: limitMigrations },
];

/** Everything that a start of this version migrates, for those who look without starting. */
export const platformMigrations: readonly MigrationSet[] = [
  ...kernelMigrations,
  ...modules.flatMap(({ name, migrations }) => (migrations ? [{ owner: name, migrations }] : [])),
];

export interface PlatformOptions {
  readonly settings: Settings;
  readonly log?: Logger;
  /** Told about first-time work, in words. */
  readonly onProgress?: (text: string) => void;
  /** Above this process, when there is one. */
  readonly supervisor?: Supervisor | undefined;
}

export interface Platform {
  readonly kernel: Kernel;
  readonly addresses: {
    readonly client: string;
    readonly admin: string;
    /** Absent when CLIENT_SOCKET_PORT is negative. */
    readonly realtime: string | undefined;
    readonly clientDocs: string;
    readonly adminDocs: string;
  };
  readonly dataDir: string;
  readonly database: DatabaseInfo;
  /** What this start made, or one before it that failed; to be shown once. */
  readonly firstStart: { readonly masterKey?: string; readonly adminUsername?: string; readonly adminPassword?: string };
  /** Drains requests, stops everything, the embedded server included. `patient`: a proxy gets its time first (STOP_PAUSE_MS). */
  close(options?: CloseOptions): Promise<void>;
}

/** Starts the whole platform. Throws `StartError` for what the operator can mend. */
export async function startPlatform(options: PlatformOptions): Promise<Platform> {
  const closing = new AsyncDisposableStack();
  try {
    return await start(options, closing);
  } catch (error) {
    await closing.disposeAsync();
    throw error;
  }
}

async function start(options: PlatformOptions, closing: AsyncDisposableStack): Promise<Platform> {
  const { settings: given, log: givenLog, onProgress, supervisor } = options;
  const log = givenLog ?? createLogger(given);
  const folder = await openDataFolder(given, log, supervisor && { pid: supervisor.pid, onShared: supervisor.holdsLock });
  closing.defer(() => folder.close());
  // Several workers share their ports: only the first of them can tell whether somebody else has one.
  if (!supervisor?.joins(given.workers)) await checkPorts(given);
  const masterKey = await folder.masterKey();
  const settings = { ...given, masterKey, ...portsOf(given, supervisor?.slot ?? 0) };
  const tracing = await tracingOf(settings);
  if (tracing) closing.defer(() => tracing.close());
  const metrics = createMetrics(settings);
  const timings = measuredStatements(metrics);
  const opened = await openDatabase({ settings, log, timings, keeper: supervisor?.keeper, ...(onProgress ? { onProgress } : {}) });
  closing.defer(() => opened.close());
  const database = tracing ? tracedDatabase(opened, tracing) : opened;
  await folder.noteDatabase();
  await migrate(database, kernelMigrations, onProgress);

  const host = createModuleHost();
  const { kernel, startJobs } = await createKernel({ settings, log, metrics, database, timings, tracing, host, closing });
  await host.start(kernel, modules, (sets) => migrate(database, sets, onProgress));
  closing.defer(() => host.stop());
  await serviceOf(host, core).createFirstAdmin(({ username, password }) => folder.rememberAdminPassword(username, password));
  const eventRetention = () => {
    const { retentionMinutes, maxMegabytes } = serviceOf(host, core).config.current().events;
    return { minutes: retentionMinutes, megabytes: maxMegabytes };
  };
  for (const job of [purgeIdempotencyKeys(database), purgeLimits(database), createOutboxJob(database, eventRetention)])
    await kernel.jobs.register(job);

  const surfaces = await startSurfaces(kernel, { router: serviceOf(host, router), core: serviceOf(host, core) });
  closing.defer(() => surfaces.close());
  startJobs();
  return {
    kernel,
    addresses: surfaces.addresses,
    dataDir: folder.path,
    database: database.info(),
    firstStart: await firstStartOf(folder),
    async close(how = {}) {
      await surfaces.drain(how);
      await closing.disposeAsync().catch((error: unknown) => {
        // Requests were given up with their sessions: what is left to write down can't be, and others see it by its absence.
        if (!database.info().ended) throw error;
        log.warn({ err: error }, 'Not everything could be closed in order: requests had to be given up');
      });
    },
  };
}

interface KernelParts {
  readonly settings: Settings & { readonly masterKey: string };
  readonly log: Logger;
  readonly metrics: Metrics;
  readonly database: Database;
  readonly timings: StatementTimings;
  readonly tracing: Tracing | undefined;
  readonly host: ModuleHost;
  readonly closing: AsyncDisposableStack;
}

async function createKernel({
  settings,
  log,
  metrics,
  database,
  timings,
  tracing,
  host,
  closing,
}: KernelParts): Promise<{ kernel: Kernel; startJobs: () => void }> {
  measureConnections(metrics, database);
  measureQueues(metrics, database);
  const metricsServer = await startMetricsServer(settings, metrics);
  if (metricsServer) closing.defer(() => metricsServer.close());
  const health = createHealth();
  health.register({ name: 'database', run: () => askDatabase(database, settings.ready.totalTimeoutMs) });
  const { kind, location } = database.info();
  health.register({ name: 'storage', run: () => checkStorage(kind === 'embedded' ? location : undefined) });

  const redis = await openRedis(settings, log, await installationId(database));
  if (redis) {
    closing.defer(() => redis.close());
    if (settings.ready.checkRedis) {
      health.register({ name: 'redis', run: () => redis.ping(settings.ready.redisTimeoutMs).then(() => ({ status: 'pass' })) });
    }
  }
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
  const onIndexesWaiting = (): void => enqueueIndexJob(jobs, log);
  const schemas = await createSchemaRegistry({ database, bus, events, onIndexesWaiting });

  const audit = createAudit(database, log);
  closing.defer(() => audit.flush());

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
    jobs,
    audit,
    caches: createCaches(bus),
    limits: createLimits({ redis, metrics }),
    durableLimits: createDurableLimits({ database, metrics }),
    secrets,
    passwords: createPasswordHasher(),
    config: await createConfigService({ database, bus, secrets, log, health }),
    schemas,
    records: createRecordStore({ database, schemas, permissions, events, secrets, searchLimitMs: settings.databaseSearchTimeoutMs }),
    operations,
    middlewares: await createRouteMiddlewares({ database, bus, registry: operations }),
    identity: createIdentity(),
    permissions,
    state: createStateRegistry(),
    modules: host,
  };
  const startJobs = (): void =>
    void jobs.start().catch((error: unknown) => log.error({ err: error }, 'Background jobs could not be started'));
  return { kernel, startJobs };
}

/** Whether it answers; who runs the server may know more than the driver why it does not. */
async function askDatabase(database: Database, limitMs: number): Promise<HealthResult> {
  try {
    const alive: Statement = { text: 'select 1', class: 'health', limitMs };
    await database.query(alive);
    return { status: 'pass' };
  } catch (error) {
    const { trouble } = database.info();
    if (trouble === undefined) throw error;
    return { status: 'fail', message: trouble };
  }
}

/** Sockets need one process for all their requests: the first worker has them. Figures are those of one process. */
function portsOf({ clientSocketPort, metricsPort }: Settings, slot: number): Pick<Settings, 'clientSocketPort' | 'metricsPort'> {
  if (slot === 0) return { clientSocketPort, metricsPort };
  return { clientSocketPort: -1, metricsPort: metricsPort === undefined ? undefined : metricsPort + slot };
}

/** OpenTelemetry is only loaded for those who collect. */
async function tracingOf(settings: Settings): Promise<Tracing | undefined> {
  if (settings.otlpEndpoint === undefined) return undefined;
  const { openTracing } = await import('./kernel/telemetry/tracing/open.ts');
  return openTracing(settings);
}

/** The service of a module that always runs. */
function serviceOf<S>(host: ModuleHost, module: Parameters<typeof host.service<S>>[0]): S {
  const service = host.service(module);
  if (service === undefined) throw new Error(`Module ${module.name} does not run`);
  return service;
}

/** What was made, and no start has shown before. */
async function firstStartOf(folder: DataFolder): Promise<Platform['firstStart']> {
  const { masterKey, admin } = await folder.takeUnshown();
  return {
    ...(masterKey === undefined ? {} : { masterKey }),
    ...(admin ? { adminUsername: admin.username, adminPassword: admin.password } : {}),
  };
}
