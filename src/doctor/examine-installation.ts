/** Looks at an installation, whether it runs or not, and changes nothing. */
import { Redis } from 'ioredis';
import { connectToSource } from '../backup/source.ts';
import type { MigrationSet } from '../kernel/database/migrate.ts';
import type { Settings } from '../kernel/settings/settings.ts';
import { StartError } from '../kernel/start-error.ts';
import type { Logger } from '../kernel/telemetry/logger.ts';
import { checkConfiguration } from './configuration.ts';
import { checkDatabase } from './database.ts';
import { type Finding, note, ok, problem } from './finding.ts';
import { checkMachine } from './machine.ts';
import { checkFileStore, checkMailServer, checkProviders } from './services.ts';

export interface ExamineOptions {
  readonly settings: Settings;
  readonly log: Logger;
  /** Everything that this version would migrate. */
  readonly migrations: readonly MigrationSet[];
}

export async function examine({
  settings,
  log,
  migrations,
}: ExamineOptions): Promise<readonly Finding[]> {
  return [
    ...(await checkMachine(settings)),
    ...(await checkStores({ settings, log, migrations })),
    ...(await checkRedis(settings)),
  ];
}

async function checkStores({ settings, log, migrations }: ExamineOptions): Promise<Finding[]> {
  let isReached = false;
  try {
    const { client, close } = await connectToSource(settings, log);
    isReached = true;
    try {
      return [
        ...(await checkDatabase(client, migrations)),
        ...(await checkConfiguration(settings, client)),
        ...(await checkMailServer(client)),
        ...(await checkProviders(client)),
        ...(await checkFileStore(client)),
      ];
    } finally {
      await close();
    }
  } catch (error) {
    const settingsFindings = await checkConfiguration(settings, undefined);
    if (
      settings.databaseUrl === undefined &&
      error instanceof StartError &&
      error.message.startsWith('There is no database')
    ) {
      return [note('Database', 'There is none yet; the first start makes it'), ...settingsFindings];
    }
    return [isReached ? unexamined(error) : unreachable(settings, error), ...settingsFindings];
  }
}

/** Such as a user who may not look everywhere. */
const unexamined = (error: unknown): Finding =>
  problem(
    'Database',
    `It could not be examined to the end: ${error instanceof Error ? error.message : String(error)}`,
    'The platform itself may work: its log says more',
  );

/** A `StartError` says already what is wrong and what to do. */
function unreachable({ databaseUrl }: Settings, error: unknown): Finding {
  const reason = error instanceof Error ? error.message : String(error);
  return problem(
    'Database',
    error instanceof StartError ? reason : `It cannot be reached: ${reason}`,
    databaseUrl === undefined
      ? 'The log of the embedded server, logs/postgres.log in the data folder, may say more'
      : 'See "Your own PostgreSQL" in docs/operations/running.md',
  );
}

const PATIENCE_MS = 3_000;

async function checkRedis({ redisUrl }: Settings): Promise<Finding[]> {
  if (redisUrl === undefined) return [];
  const redis = new Redis(redisUrl, {
    lazyConnect: true,
    maxRetriesPerRequest: 0,
    retryStrategy: () => null,
    connectTimeout: PATIENCE_MS,
  });
  redis.on('error', () => undefined);
  try {
    await redis.connect();
    await redis.ping();
    return [ok('Redis', 'It answers')];
  } catch {
    // The driver's message may repeat the address with its password.
    return [
      problem(
        'Redis',
        'The server of REDIS_URL does not answer, or refuses the login',
        'Start it, correct REDIS_URL, or unset it to run without Redis',
      ),
    ];
  } finally {
    redis.disconnect();
  }
}
