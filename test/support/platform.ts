import type { LimitBucket, Limits } from '../../src/kernel/limits/limits.ts';
import { defaultLimitSettings } from '../../src/kernel/pipeline/rate-limits.ts';
import { readSettings } from '../../src/kernel/settings/settings.ts';
import type { Logger } from '../../src/kernel/telemetry/logger.ts';
import { type Platform, startPlatform } from '../../src/platform.ts';
import { createTestDatabase, type TestDatabase, type TestServer } from './database.ts';
import { endAfterFile } from './left-behind.ts';
import { createTestNode, type TestNode, testAdminPassword, testMasterKey } from './node.ts';
import { removeFolder, temporaryFolder } from './temporary-folder.ts';

export interface TestPlatformOptions {
  /**
   * Where its database lives: one of the servers that the run shares (`embedded` unless set), or
   * `own`: the platform starts its embedded server in its data folder, as `npm start` does.
   */
  readonly server?: TestServer | 'own';
  /** Of a database that is there already (a second node); then `server` does not matter. */
  readonly databaseUrl?: string;
  /** Further environment variables. */
  readonly env?: Readonly<Record<string, string>>;
  /** Instead of silence. */
  readonly log?: Logger;
  /** Passwords cost what they cost users, for tests about just that. */
  readonly dearPasswords?: boolean;
}

export interface TestPlatform extends TestNode {
  readonly databaseUrl: string | undefined;
  readonly dataDir: string;
  /** To stop it at a place that no request reaches. */
  readonly kernel: Platform['kernel'];
  /** Stops the platform and removes its database and data folder. */
  close(): Promise<void>;
}

/** A whole platform inside this process, on free ports, with a database and a data folder of its own. */
export async function createTestPlatform(options: TestPlatformOptions = {}): Promise<TestPlatform> {
  const { server = 'embedded' } = options;
  const database =
    options.databaseUrl === undefined && server !== 'own'
      ? await platformDatabase(server, options)
      : undefined;
  const databaseUrl = options.databaseUrl ?? database?.url;
  const dataDir = await temporaryFolder('data');
  const cleanUp = async () => {
    await database?.drop();
    await removeFolder(dataDir);
  };
  try {
    const settings = readSettings({ ...testEnvironment(dataDir, databaseUrl), ...options.env });
    const { log, dearPasswords = false } = options;
    const platform = await startPlatform({
      settings,
      ...(log && { log }),
      ...(!dearPasswords && { passwordHashing: cheapHashing }),
    });
    withoutUsualBudget(platform.kernel.limits);
    const node = createTestNode(platform.addresses, {
      masterKey: testMasterKey,
      adminPassword: testAdminPassword,
    });
    const close = async () => {
      ended();
      await platform.close();
      await cleanUp();
    };
    const ended = endAfterFile(platform, close);
    return { ...node, databaseUrl, dataDir, kernel: platform.kernel, close };
  } catch (error) {
    await cleanUp();
    throw error;
  }
}

/**
 * A fast machine asks more than the 300 times a second that one address may, a slow one never notices. So the budget that
 * nobody configured is not counted; every other one is.
 */
function withoutUsualBudget(limits: Limits): void {
  const { requests, seconds } = defaultLimitSettings().standard;
  const isUsual = (bucket: LimitBucket): boolean =>
    bucket.name.startsWith('standard') &&
    bucket.requests === requests &&
    bucket.seconds === seconds;
  const { consume } = limits;
  limits.consume = (bucket, key, points) =>
    isUsual(bucket)
      ? { allowed: true, remaining: requests, resetMs: 0 }
      : consume(bucket, key, points);
}

/** A hash takes 14 ms of a processor, in a thread that gives way to all others: a busy machine would let many wait for seconds. */
const cheapHashing = { memoryKiB: 64, passes: 1, maxWaitMs: 20_000 };

/** Databases as a first start leaves them, one for each server and worker of the run. */
const startedDatabases = new Map<TestServer, Promise<string>>();

/** What the database of a first start does not depend on. */
const decidesNothing: ReadonlySet<string> = new Set([
  'ADMIN_SOCKET_PORT',
  'METRICS_PORT',
  'READY_PUBLIC_DETAILS',
  'REDIS_URL',
  'TRUSTED_PROXIES',
]);

/** A database of its own. Where nothing of the environment decides what a first start makes, that start is over already. */
export async function platformDatabase(
  server: TestServer,
  { env }: Pick<TestPlatformOptions, 'env'> = {},
): Promise<TestDatabase> {
  if (Object.keys(env ?? {}).some((name) => !decidesNothing.has(name)))
    return createTestDatabase({ server });
  const started = startedDatabases.get(server) ?? startOnce(server);
  startedDatabases.set(server, started);
  return createTestDatabase({ server, template: await started });
}

async function startOnce(server: TestServer): Promise<string> {
  const { name, url } = await createTestDatabase({ server });
  const dataDir = await temporaryFolder('data');
  const settings = readSettings(testEnvironment(dataDir, url));
  const platform = await startPlatform({ settings, passwordHashing: cheapHashing });
  await platform.close();
  await removeFolder(dataDir);
  return name;
}

/** The environment of every platform that tests start: free ports, known credentials, quiet. */
export function testEnvironment(
  dataDir: string,
  databaseUrl: string | undefined,
): Record<string, string> {
  return {
    CLIENT_HTTP_PORT: '0',
    CLIENT_SOCKET_PORT: '0',
    ADMIN_HTTP_PORT: '0',
    ADMIN_SOCKET_PORT: '0',
    HOST: '127.0.0.1',
    MASTER_KEY: testMasterKey,
    ADMIN_INITIAL_PASSWORD: testAdminPassword,
    PENSTOCK_DATA_DIR: dataDir,
    LOG_LEVEL: 'silent',
    ...(databaseUrl === undefined ? {} : { DATABASE_URL: databaseUrl }),
  };
}
