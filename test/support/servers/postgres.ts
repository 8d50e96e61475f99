import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { chown, mkdtemp, readdir, rm, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { freePort } from '../free-port.ts';
import { type ChildServer, startChildServer } from './child-server.ts';
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
  const folders = [
    ...debian.map((version) => `/usr/lib/postgresql/${version}/bin`),
    ...(onPath ? [dirname(onPath)] : []),
  ];
  for (const folder of folders) {
    const version = await run(join(folder, 'postgres'), ['--version']).catch(() => undefined);
    if (version && new RegExp(`\\) ${major}\\.`).test(version.stdout)) return { path: folder };
  }
  return { missing: `PostgreSQL ${major} is neither in /usr/lib/postgresql nor on the PATH` };
}

interface Cluster {
  readonly folder: string;
  readonly port: number;
  readonly url: string;
  /** As whom the server runs; as ourselves unless set. */
  readonly uid: number | undefined;
}

/** A new cluster that nobody serves yet, to be reached over TCP with a password, as an operator's own server would be. */
async function createCluster(programs: string, parent: string): Promise<Cluster> {
  const uid = process.getuid?.() === 0 ? unprivileged : undefined;
  const folder = await mkdtemp(join(parent, 'postgres-'));
  const password = randomBytes(12).toString('hex');
  const passwordFile = join(folder, 'password');
  await writeFile(passwordFile, password);
  if (uid !== undefined)
    await Promise.all([folder, passwordFile].map((path) => chown(path, uid, uid)));
  const identity = uid === undefined ? {} : { uid, gid: uid };
  const options = [
    '--auth=scram-sha-256',
    `--pwfile=${passwordFile}`,
    '--no-sync',
    '--encoding=UTF8',
    '--locale=C.UTF-8',
  ];
  await run(join(programs, 'initdb'), ['-D', join(folder, 'data'), '-U', 'postgres', ...options], {
    ...identity,
    cwd: folder,
  });
  const port = await freePort();
  return { folder, port, uid, url: `postgresql://postgres:${password}@127.0.0.1:${port}/postgres` };
}

/** The disk is not waited for: only the machine itself, which tests do not stop, could lose what the system has taken. */
const hasty = { fsync: 'off', full_page_writes: 'off' };

interface Serving {
  readonly settings: Readonly<Record<string, string>>;
  readonly keepFolder: boolean;
}

function serve(
  programs: string,
  { folder, port, uid }: Cluster,
  { settings, keepFolder }: Serving,
): Promise<ChildServer> {
  const all = {
    listen_addresses: '127.0.0.1',
    port,
    unix_socket_directories: '',
    max_connections: 200,
    ...settings,
  };
  return startChildServer({
    command: join(programs, 'postgres'),
    args: [
      '-D',
      join(folder, 'data'),
      ...Object.entries(all).flatMap(([name, value]) => ['-c', `${name}=${value}`]),
    ],
    folder,
    ready: /ready to accept connections/,
    stopSignal: 'INT',
    keepFolder,
    ...(uid === undefined ? {} : { uid }),
  });
}

/** Starts a new cluster, which is thrown away at the end. */
export async function startPostgres(programs: string, parent: string): Promise<PostgresServer> {
  const cluster = await createCluster(programs, parent);
  const server = await serve(programs, cluster, {
    settings: { ...hasty, synchronous_commit: 'off' },
    keepFolder: false,
  });
  return { url: cluster.url, stop: () => server.stop() };
}

/** A server that can be killed, and comes back at the same address with what it had acknowledged. */
export interface KillablePostgres extends PostgresServer {
  /** kill -9 of the postmaster; then it is started again. */
  killAndRestart(): Promise<void>;
}

export async function startKillablePostgres(
  programs: string,
  parent: string,
): Promise<KillablePostgres> {
  const cluster = await createCluster(programs, parent);
  const start = () => serve(programs, cluster, { settings: hasty, keepFolder: true });
  let server = await start();
  return {
    url: cluster.url,
    async killAndRestart() {
      await server.signal('SIGKILL');
      await server.stop();
      for (let attempt = 1; ; attempt += 1) {
        try {
          server = await start();
          return;
        } catch (error) {
          // Its children need a moment to notice that it is gone.
          if (attempt === 20) throw error;
          await sleep(500);
        }
      }
    },
    async stop() {
      await server.stop();
      await rm(cluster.folder, { recursive: true, force: true, maxRetries: 10, retryDelay: 100 });
    },
  };
}
