/**
 * The composition root: settings, then the kernel, then the modules, then the
 * surfaces. Everything that is opened here is closed here, in reverse order,
 * also when a later step fails.
 */

import { createKernel } from './create-kernel.ts';
import { migrations as schemaMigrations } from './data/schema/migrations.ts';
import type { Kernel } from './host/kernel.ts';
import type { AnyModule } from './host/module.ts';
import { createModuleHost, type ModuleHost } from './host/module-host.ts';
import { migrations as auditMigrations } from './kernel/audit/migrations.ts';
import { startProgramHere } from './kernel/child-programs.ts';
import { migrations as configMigrations } from './kernel/config/migrations.ts';
import { type DataFolder, openDataFolder } from './kernel/data-folder/data-folder.ts';
import type { Database, DatabaseInfo } from './kernel/database/database.ts';
import { measuredStatements, tracedDatabase } from './kernel/database/database-telemetry.ts';
import { type MigrationSet, migrate } from './kernel/database/migrate.ts';
import { openDatabase } from './kernel/database/open-database.ts';
import { migrations as eventMigrations } from './kernel/events/migrations.ts';
import { createOutboxJob } from './kernel/events/retention.ts';
import { purgeLimits } from './kernel/limits/durable-limits.ts';
import { migrations as limitMigrations } from './kernel/limits/migrations.ts';
import { migrations as middlewareMigrations } from './kernel/middlewares/migrations.ts';
import { purgeIdempotencyKeys } from './kernel/pipeline/idempotency/idempotency.ts';
import { migrations as idempotencyMigrations } from './kernel/pipeline/idempotency/migrations.ts';
import { migrations as queueMigrations } from './kernel/queue/migrations.ts';
import { migrations as securityMigrations } from './kernel/security/migrations.ts';
import type { PasswordHasherOptions } from './kernel/security/password-hasher.ts';
import type { Settings } from './kernel/settings/settings.ts';
import type { Supervisor } from './kernel/supervisor.ts';
import { createLogger } from './kernel/telemetry/create-logger.ts';
import { createMetrics } from './kernel/telemetry/create-metrics.ts';
import type { Logger } from './kernel/telemetry/logger.ts';
import type { Tracing } from './kernel/telemetry/tracing.ts';
import { authentication } from './modules/authentication/index.ts';
import { authorization } from './modules/authorization/index.ts';
import { chat } from './modules/chat/index.ts';
import { communications } from './modules/communications/index.ts';
import { type CoreConfig, core } from './modules/core/index.ts';
import { database as databaseModule } from './modules/database/index.ts';
import { embeddings } from './modules/embeddings/index.ts';
import { forms } from './modules/forms/index.ts';
import { functions } from './modules/functions/index.ts';
import { router } from './modules/router/index.ts';
import { storage } from './modules/storage/index.ts';
import { webhooks } from './modules/webhooks/index.ts';
import { type CloseOptions, checkPorts, startSurfaces } from './surfaces.ts';

/** Every module of the platform. */
export const modules: readonly AnyModule[] = [
  core,
  router,
  communications,
  databaseModule,
  authentication,
  authorization,
  storage,
  embeddings,
  forms,
  chat,
  webhooks,
  functions,
];

const kernelMigrations: readonly MigrationSet[] = [
  { owner: 'kernel/security', migrations: securityMigrations },
  { owner: 'kernel/config', migrations: configMigrations },
  { owner: 'kernel/events', migrations: eventMigrations },
  { owner: 'kernel/audit', migrations: auditMigrations },
  { owner: 'kernel/schema', migrations: schemaMigrations },
  { owner: 'kernel/idempotency', migrations: idempotencyMigrations },
  { owner: 'kernel/middlewares', migrations: middlewareMigrations },
  { owner: 'kernel/limits', migrations: limitMigrations },
  { owner: 'kernel/queue', migrations: queueMigrations },
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
  /** Aborted: a start that is under way ends with the reason, and what it has opened is closed again. */
  readonly signal?: AbortSignal;
  /** Above this process, when there is one. */
  readonly supervisor?: Supervisor | undefined;
  /** How dear hashes of passwords are; as dear as `PasswordHasherOptions` says unless set. For tests, whose passwords are no secrets. */
  readonly passwordHashing?: PasswordHasherOptions | undefined;
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
  /** What the installation is for when it starts, and what decided it where nothing is configured. */
  readonly environment: {
    readonly env: CoreConfig['env'];
    readonly because: Settings['defaultEnvironment']['because'];
    readonly host: string;
  };
  /** What this start made, or one before it that failed; to be shown once. */
  readonly firstStart: {
    readonly masterKey?: string;
    readonly adminUsername?: string;
    readonly adminPassword?: string;
  };
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
  const { settings: given, log: givenLog, onProgress, signal, supervisor } = options;
  const log = givenLog ?? createLogger(given);
  const folder = await openDataFolder(
    given,
    log,
    supervisor && { pid: supervisor.pid, onShared: supervisor.holdsLock },
  );
  closing.defer(() => folder.close());
  // Several workers share their ports: only the first of them can tell whether somebody else has one.
  if (!supervisor?.joins(given.workers)) await checkPorts(given);
  const masterKey = await folder.masterKey();
  const settings = { ...given, masterKey, ...placeOf(given, supervisor) };
  const tracing = await tracingOf(settings);
  if (tracing) closing.defer(() => tracing.close());
  const metrics = createMetrics(settings);
  const timings = measuredStatements(metrics);
  const keeper = supervisor?.keeper;
  const told = onProgress && { onProgress };
  const opened = await openDatabase({ settings, log, timings, keeper, ...told });
  closing.defer(() => opened.close());
  const database = tracing ? tracedDatabase(opened, tracing) : opened;
  await folder.noteDatabase();
  signal?.throwIfAborted();
  // Before the schemas of modules are brought to what this version knows: a newer one may have more of them.
  await migrate(database, kernelMigrations, { onProgress, signal, known: platformMigrations });

  const host = createModuleHost();
  const parts = {
    ...{ settings, log, metrics, database, timings, tracing, host, closing },
    startProgram: supervisor?.startProgram ?? startProgramHere,
  };
  const { kernel, startJobs } = await createKernel(parts, options.passwordHashing);
  await host.start(kernel, modules, (sets) => migrate(database, sets, { onProgress, signal }));
  closing.defer(() => host.stop());
  signal?.throwIfAborted();
  await serviceOf(host, core).createFirstAdmin(({ username, password }) =>
    folder.rememberAdminPassword(username, password),
  );
  await registerOwnJobs(kernel, host);

  const surfaces = await startSurfaces(kernel, {
    router: serviceOf(host, router),
    core: serviceOf(host, core),
  });
  closing.defer(() => surfaces.close());
  startJobs();
  return {
    kernel,
    addresses: surfaces.addresses,
    dataDir: folder.path,
    database: database.info(),
    environment: {
      env: serviceOf(host, core).environment(),
      because: settings.defaultEnvironment.because,
      host: settings.host,
    },
    firstStart: await firstStartOf(folder),
    async close(how = {}) {
      await surfaces.drain(how);
      await closeAll(closing, database, log);
    },
  };
}

async function registerOwnJobs({ database, jobs }: Kernel, host: ModuleHost): Promise<void> {
  const eventRetention = () => {
    const { retentionMinutes, maxMegabytes } = serviceOf(host, core).config.current().events;
    return { minutes: retentionMinutes, megabytes: maxMegabytes };
  };
  for (const job of [
    purgeIdempotencyKeys(database),
    purgeLimits(database),
    createOutboxJob(database, eventRetention),
  ])
    await jobs.register(job);
}

/** Stops everything in the reverse order of its start. */
async function closeAll(
  closing: AsyncDisposableStack,
  database: Database,
  log: Logger,
): Promise<void> {
  await closing.disposeAsync().catch((error: unknown) => {
    // Requests were given up with their sessions: what is left to write down can't be, and others see it by its absence.
    if (!database.info().ended) throw error;
    log.warn(
      { err: error },
      'Not everything could be closed in order: requests had to be given up',
    );
  });
}

/** Figures are those of one process: each worker has a port of its own for them. */
function placeOf(
  { metricsPort }: Settings,
  { slot: worker, run }: Pick<Supervisor, 'slot' | 'run'> = { slot: 0, run: '' },
): Pick<Settings, 'worker' | 'run' | 'metricsPort'> {
  return { worker, run, metricsPort: metricsPort === undefined ? undefined : metricsPort + worker };
}

/** OpenTelemetry is only loaded for those who collect. */
async function tracingOf(settings: Settings): Promise<Tracing | undefined> {
  if (settings.otlpEndpoint === undefined) return undefined;
  const { openTracing } = await import('./kernel/telemetry/open-tracing.ts');
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
  const { masterKey, admin } = await folder.takeUnseen();
  return {
    ...(masterKey === undefined ? {} : { masterKey }),
    ...(admin ? { adminUsername: admin.username, adminPassword: admin.password } : {}),
  };
}
