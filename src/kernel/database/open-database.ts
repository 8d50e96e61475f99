/** Opens the platform's database: the embedded server, or the one that DATABASE_URL names. */
import { join } from 'node:path';
import pg from 'pg';
import type { Settings } from '../settings/settings.ts';
import { StartError } from '../start-error.ts';
import type { Logger } from '../telemetry/logger.ts';
import {
  type ClientOptions,
  type ConnectionModes,
  type ConnectionTarget,
  clientConfig,
} from './connection.ts';
import { connectionsOf, createDatabase } from './create-database.ts';
import type { Database } from './database.ts';
import type { ServerKeeper } from './embedded/keeper.ts';
import { startEmbeddedServer } from './embedded/server.ts';
import { codeOf } from './failures.ts';
import type { StatementTimings } from './statement-timings.ts';

/* A PostgreSQL server that somebody else runs, given by DATABASE_URL. */

/** `server_version_num` of the oldest server that will do. */
const OLDEST_VERSION = 150_000;

/**
 * Reads the parts of a PostgreSQL URL. Parameters of the URL such as `sslmode` count.
 * @throws StartError that does not repeat the URL, which holds a password.
 */
export function parseDatabaseUrl(url: string): ConnectionTarget {
  const howTo = 'write postgres://user:password@host:5432/database';
  const malformed = `DATABASE_URL is not a PostgreSQL URL: ${howTo}`;
  if (!/^postgres(ql)?:\/\//.test(url)) throw new StartError(malformed);
  let parts: pg.Client;
  try {
    // The driver's own reading of the URL; nothing connects yet.
    parts = new pg.Client({ connectionString: url });
  } catch {
    throw new StartError(malformed);
  }
  const { host, port, user, database, password, ssl } = parts;
  if (!user || !database || !/^[^?]*\/\/[^/?]*\/[^/?]/.test(url))
    throw new StartError(`DATABASE_URL names no user or no database: ${howTo}`);
  return { host, port, user, database, ssl, ...(typeof password === 'string' ? { password } : {}) };
}

/** For people: where the database is, without credentials. */
export const describeTarget = ({ host, port, database }: ConnectionTarget): string =>
  host.startsWith('/')
    ? `${host}/${database}`
    : `${host.includes(':') ? `[${host}]` : host}:${port}/${database}`;

/** Makes sure that the server answers and is new enough. @throws StartError with one line that says what to do. */
export async function checkExternal(
  target: ConnectionTarget,
  modes: ConnectionModes,
): Promise<void> {
  const options: ClientOptions = { target, modes, role: 'start' };
  const client = new pg.Client(clientConfig(options));
  client.on('error', () => undefined);
  try {
    await client.connect();
    const { rows } = await client.query<{ number: string; version: string }>(
      `select current_setting('server_version_num') as number, current_setting('server_version') as version`,
    );
    const version = rows[0];
    if (version && Number(version.number) < OLDEST_VERSION) {
      throw new StartError(
        `The PostgreSQL server at ${describeTarget(target)} is version ${version.version}: Penstock needs 15 or newer`,
      );
    }
  } catch (error) {
    throw error instanceof StartError ? error : explain(error, target);
  } finally {
    await client.end().catch(() => undefined);
  }
}

/** One clear line for each thing that goes wrong with an address, a password or a name. */
function explain(error: unknown, target: ConnectionTarget): StartError {
  const where = describeTarget(target);
  const because = (text: string): StartError => new StartError(text, { cause: error });
  switch (codeOf(error)) {
    case '28P01':
    case '28000':
      return because(
        `PostgreSQL at ${where} refused the user "${target.user}": check user and password in DATABASE_URL`,
      );
    case '3D000':
      return because(
        `PostgreSQL at ${where} has no database "${target.database}": create it, or correct DATABASE_URL`,
      );
    case '42501':
      return because(
        `The user "${target.user}" may not use the database at ${where}: grant it the rights, or correct DATABASE_URL`,
      );
    case 'ENOTFOUND':
    case 'EAI_AGAIN':
      return because(
        `The host of the database, "${target.host}", is not known: check DATABASE_URL`,
      );
    case 'ECONNREFUSED':
    case 'ENOENT':
      return because(
        `Nothing answers at ${where}: start the PostgreSQL server, or correct DATABASE_URL`,
      );
    default:
      return because(
        `The database at ${where} cannot be reached (${messageOf(error)}): check the server and DATABASE_URL`,
      );
  }
}

const messageOf = (error: unknown): string =>
  (error instanceof Error ? error.message : String(error)).split('\n', 1)[0] ?? '';

interface OpenDatabaseOptions {
  readonly settings: Pick<
    Settings,
    'dataDir' | 'databaseUrl' | 'databasePreparedStatements' | 'databasePipelining'
  > &
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
export async function openDatabase({
  settings,
  log,
  onProgress,
  timings,
  keeper,
}: OpenDatabaseOptions): Promise<Database> {
  const modes = {
    preparedStatements: settings.databasePreparedStatements,
    pipelining: settings.databasePipelining,
  };
  const sizes = {
    poolSize: settings.databasePoolSize,
    transactionConnections: settings.databaseTransactions,
  };
  if (settings.databaseUrl !== undefined) {
    const target = parseDatabaseUrl(settings.databaseUrl);
    await checkExternal(target, modes);
    return createDatabase({
      target,
      modes,
      log,
      timings,
      ...sizes,
      kind: 'external',
      location: describeTarget(target),
    });
  }
  const folder = join(settings.dataDir, 'postgres');
  const logFile = join(settings.dataDir, 'logs', 'postgres.log');
  const connections = (settings.workers ?? 1) * connectionsOf(sizes) + SPARE_CONNECTIONS;
  const server = await startEmbeddedServer({
    folder,
    logFile,
    log,
    onProgress,
    keeper,
    connections,
  });
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
