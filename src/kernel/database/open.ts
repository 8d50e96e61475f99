/** Opens the platform's database: the embedded server, or the one that DATABASE_URL names. */
import { join } from 'node:path';
import type { Settings } from '../settings.ts';
import type { Logger } from '../telemetry/logger.ts';
import { connectionsOf, createDatabase } from './create.ts';
import type { Database } from './database.ts';
import type { ServerKeeper } from './embedded/keeper.ts';
import { startEmbeddedServer } from './embedded/server.ts';
import { checkExternal, describeTarget, parseDatabaseUrl } from './external.ts';
import type { StatementTimings } from './timings.ts';

export interface OpenDatabaseOptions {
  readonly settings: Pick<Settings, 'dataDir' | 'databaseUrl' | 'databasePreparedStatements' | 'databasePipelining'> &
    Partial<Pick<Settings, 'databasePoolSize' | 'databaseTransactions' | 'workers'>>;
  readonly log: Logger;
  /** Told about steps that take noticeable time, such as the set-up of a new server. */
  readonly onProgress?: (text: string) => void;
  readonly timings?: StatementTimings;
  /** Who holds the process of the embedded server; this process unless set. */
  readonly keeper?: ServerKeeper | undefined;
}

/** For backups, the doctor and whoever looks in. */
const SPARE_CONNECTIONS = 20;

/** Name of the platform's database on the embedded server. */
export const EMBEDDED_DATABASE = 'penstock';

/**
 * Opens the database. `close()` also stops the embedded server. The caller holds the lock of the
 * data folder (data-folder.ts).
 * @throws StartError when the server cannot be used.
 */
export async function openDatabase({ settings, log, onProgress, timings, keeper }: OpenDatabaseOptions): Promise<Database> {
  const modes = { preparedStatements: settings.databasePreparedStatements, pipelining: settings.databasePipelining };
  const sizes = { poolSize: settings.databasePoolSize, transactionConnections: settings.databaseTransactions };
  if (settings.databaseUrl !== undefined) {
    const target = parseDatabaseUrl(settings.databaseUrl);
    await checkExternal(target, modes);
    return createDatabase({ target, modes, log, timings, ...sizes, kind: 'external', location: describeTarget(target) });
  }
  const folder = join(settings.dataDir, 'postgres');
  const logFile = join(settings.dataDir, 'logs', 'postgres.log');
  const connections = (settings.workers ?? 1) * connectionsOf(sizes) + SPARE_CONNECTIONS;
  const server = await startEmbeddedServer({ folder, logFile, log, onProgress, keeper, connections });
  try {
    const target = await server.target(EMBEDDED_DATABASE);
    return await createDatabase({
      target,
      modes,
      log,
      timings,
      ...sizes,
      kind: 'embedded',
      location: folder,
      onClose: server.stop,
      trouble: server.trouble,
    });
  } catch (error) {
    await server.stop();
    throw error;
  }
}
