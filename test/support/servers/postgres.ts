import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { chown, mkdtemp, readdir, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { freePort } from '../free-port.ts';
import { startChildServer } from './child-server.ts';
import { type Availability, findOnPath } from './find-program.ts';

const run = promisify(execFile);

/** The oldest server that the platform supports. */
export const oldestMajor = 15;

/** PostgreSQL refuses to run as root: `nobody` exists in every base image. */
const unprivileged = 65534;

export interface PostgresServer {
  /** Administrator's address of the database `postgres`. */
  readonly url: string;
  stop(): Promise<void>;
}

/** A folder with the programs of a PostgreSQL 15 of the system (not the embedded one). */
export async function findPostgres(major = oldestMajor): Promise<Availability> {
  const onPath = await findOnPath('initdb');
  const debian = await readdir('/usr/lib/postgresql').catch(() => []);
  const folders = [...debian.map((version) => `/usr/lib/postgresql/${version}/bin`), ...(onPath ? [dirname(onPath)] : [])];
  for (const folder of folders) {
    const version = await run(join(folder, 'postgres'), ['--version']).catch(() => undefined);
    if (version && new RegExp(`\\) ${major}\\.`).test(version.stdout)) return { path: folder };
  }
  return { missing: `PostgreSQL ${major} is neither in /usr/lib/postgresql nor on the PATH` };
}

/** Starts a new cluster over TCP with password sign-in, as an operator's own server would be. No fsync: it is thrown away. */
export async function startPostgres(programs: string, parent: string): Promise<PostgresServer> {
  const uid = process.getuid?.() === 0 ? unprivileged : undefined;
  const folder = await mkdtemp(join(parent, 'postgres-'));
  const password = randomBytes(12).toString('hex');
  const passwordFile = join(folder, 'password');
  await writeFile(passwordFile, password);
  if (uid !== undefined) await Promise.all([folder, passwordFile].map((path) => chown(path, uid, uid)));
  const data = join(folder, 'data');
  const identity = uid === undefined ? {} : { uid, gid: uid };
  const options = ['--auth=scram-sha-256', `--pwfile=${passwordFile}`, '--no-sync', '--encoding=UTF8', '--locale=C.UTF-8'];
  await run(join(programs, 'initdb'), ['-D', data, '-U', 'postgres', ...options], { ...identity, cwd: folder });

  const port = await freePort();
  const settings = {
    listen_addresses: '127.0.0.1',
    port,
    unix_socket_directories: '',
    max_connections: 200,
    fsync: 'off',
    full_page_writes: 'off',
    synchronous_commit: 'off',
  };
  const server = await startChildServer({
    command: join(programs, 'postgres'),
    args: ['-D', data, ...Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`])],
    folder,
    ready: /ready to accept connections/,
    stopSignal: 'INT',
    ...(uid === undefined ? {} : { uid }),
  });
  return { url: `postgresql://postgres:${password}@127.0.0.1:${port}/postgres`, stop: () => server.stop() };
}
