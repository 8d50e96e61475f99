/** A PostgreSQL server that somebody else runs, given by DATABASE_URL. */
import pg from 'pg';
import { StartError } from '../start-error.ts';
import { type ClientOptions, type ConnectionModes, type ConnectionTarget, clientConfig } from './connection.ts';
import { codeOf } from './failures.ts';

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
  host.startsWith('/') ? `${host}/${database}` : `${host.includes(':') ? `[${host}]` : host}:${port}/${database}`;

/** Makes sure that the server answers and is new enough. @throws StartError with one line that says what to do. */
export async function checkExternal(target: ConnectionTarget, modes: ConnectionModes): Promise<void> {
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
      throw new StartError(`The PostgreSQL server at ${describeTarget(target)} is version ${version.version}: Penstock needs 15 or newer`);
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
      return because(`PostgreSQL at ${where} refused the user "${target.user}": check user and password in DATABASE_URL`);
    case '3D000':
      return because(`PostgreSQL at ${where} has no database "${target.database}": create it, or correct DATABASE_URL`);
    case '42501':
      return because(`The user "${target.user}" may not use the database at ${where}: grant it the rights, or correct DATABASE_URL`);
    case 'ENOTFOUND':
    case 'EAI_AGAIN':
      return because(`The host of the database, "${target.host}", is not known: check DATABASE_URL`);
    case 'ECONNREFUSED':
    case 'ENOENT':
      return because(`Nothing answers at ${where}: start the PostgreSQL server, or correct DATABASE_URL`);
    default:
      return because(`The database at ${where} cannot be reached (${messageOf(error)}): check the server and DATABASE_URL`);
  }
}

const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error)).split('\n', 1)[0] ?? '';
