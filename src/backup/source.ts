/** Connections for backup and restore: past the platform, also while it runs. */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import pg from 'pg';
import { lockFolder } from '../kernel/data-folder/lock.ts';
import {
  type ConnectionModes,
  type ConnectionTarget,
  clientConfig,
} from '../kernel/database/connection.ts';
import { SUPERUSER } from '../kernel/database/embedded/initialise.ts';
import { type EmbeddedServer, startEmbeddedServer } from '../kernel/database/embedded/server.ts';
import {
  checkExternal,
  EMBEDDED_DATABASE,
  parseDatabaseUrl,
} from '../kernel/database/open-database.ts';
import type { Settings } from '../kernel/settings/settings.ts';
import { StartError } from '../kernel/start-error.ts';
import type { Logger } from '../kernel/telemetry/logger.ts';

/** A connection, and what has to be closed with it. */
export interface Connection {
  readonly client: pg.Client;
  close(): Promise<void>;
}

type SourceSettings = Pick<Settings, 'dataDir' | 'databaseUrl'> &
  Partial<Pick<Settings, 'databasePreparedStatements'>>;

/**
 * Connects to the platform's database: the server of DATABASE_URL, the embedded server of a running platform,
 * or the embedded server started for as long as this takes.
 * @throws StartError when there is none.
 */
export async function connectToSource(settings: SourceSettings, log: Logger): Promise<Connection> {
  if (settings.databaseUrl !== undefined)
    return connectExternal(settings.databaseUrl, settings.databasePreparedStatements);
  const folder = join(settings.dataDir, 'postgres');
  const running = await runningServer(folder);
  if (running) {
    const live = await connect(running).catch(() => undefined);
    if (live) return live;
  }
  if (!(await exists(join(folder, 'PG_VERSION')))) {
    throw new StartError(
      `There is no database in ${settings.dataDir}: set PENSTOCK_DATA_DIR or DATABASE_URL to where the platform keeps its data`,
    );
  }
  return lockedStart(folder, settings.dataDir, log);
}

/** For as long as this takes nobody else starts the server of that folder, or stops it under our feet. */
async function lockedStart(folder: string, dataDir: string, log: Logger): Promise<Connection> {
  const lock = await lockFolder(dataDir);
  try {
    const { client, close } = await startFor(folder, dataDir, log);
    return { client, close: () => close().finally(() => lock.release()) };
  } catch (error) {
    await lock.release();
    throw error;
  }
}

/** @throws StartError when the server of DATABASE_URL does not answer, refuses us, or is too old. */
export async function connectExternal(
  databaseUrl: string,
  preparedStatements = true,
): Promise<Connection> {
  const target = parseDatabaseUrl(databaseUrl);
  const modes = { preparedStatements, pipelining: false };
  await checkExternal(target, modes);
  return connect(target, modes);
}

/** Starts the embedded server in `folder` (a new cluster when there is none) for as long as the connection is open. */
export async function startFor(folder: string, dataDir: string, log: Logger): Promise<Connection> {
  const server: EmbeddedServer = await startEmbeddedServer({
    folder,
    logFile: join(dataDir, 'logs', 'postgres.log'),
    log,
  });
  try {
    const { client, close } = await connect(await server.target(EMBEDDED_DATABASE));
    return {
      client,
      async close() {
        await close();
        await server.stop();
      },
    };
  } catch (error) {
    await server.stop();
    throw error;
  }
}

/** Texts come out the same wherever and whenever this runs, and names are always qualified. */
const sessionSettings = `set search_path = ''; set datestyle = 'ISO, YMD'; set intervalstyle = 'postgres'; set bytea_output = 'hex';
  set extra_float_digits = 1; set row_security = off; set check_function_bodies = off; set lock_timeout = '30s';
  set idle_in_transaction_session_timeout = 0`;

const ownModes: ConnectionModes = { preparedStatements: true, pipelining: false };

async function connect(target: ConnectionTarget, modes = ownModes): Promise<Connection> {
  const client = new pg.Client(
    clientConfig({ target, modes, role: 'backup', statementTimeoutMs: 0, streams: true }),
  );
  client.on('error', () => undefined);
  await client.connect();
  // Behind a pooler the session is not ours: whoever has it next would have our settings.
  if (modes.preparedStatements) await client.query(sessionSettings);
  return { client, close: () => client.end() };
}

/** What a running server wrote about itself (PostgreSQL manual, "postmaster.pid"). */
async function runningServer(folder: string): Promise<ConnectionTarget | undefined> {
  const lines = (await readFile(join(folder, 'postmaster.pid'), 'utf8').catch(() => '')).split(
    '\n',
  );
  const [port, host] = [Number(lines[3]), lines[4]?.trim() ?? ''];
  return host === '' ? undefined : { host, port, user: SUPERUSER, database: EMBEDDED_DATABASE };
}

/** @throws StartError when this user may not look. */
const exists = (path: string): Promise<boolean> =>
  readFile(path).then(
    () => true,
    (cause: NodeJS.ErrnoException) => {
      if (cause.code !== 'EACCES') return false;
      throw new StartError(
        `${path} cannot be read by this user: run this as the user that runs the platform`,
        { cause },
      );
    },
  );
