import { execFile } from 'node:child_process';
import { mkdtemp } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { freePort } from '../free-port.ts';
import { temporaryFolder } from '../temporary-folder.ts';
import { startChildServer } from './child-server.ts';
import { type Availability, findOnPath } from './find-program.ts';

const run = promisify(execFile);

export interface RedisServer {
  readonly url: string;
  readonly port: number;
  /** SIGSTOP makes it hang, SIGCONT go on. Let it go on before it is stopped. */
  signal(signal: NodeJS.Signals): Promise<void>;
  stop(): Promise<void>;
}

/** The Redis on the PATH, else Debian's, installed now when that is allowed. */
export async function provideRedis(): Promise<Availability> {
  const present = await findOnPath('redis-server');
  if (present) return { path: present };
  const missing = await installRedis();
  if (missing) return { missing };
  const installed = await findOnPath('redis-server');
  return installed
    ? { path: installed }
    : { missing: 'apt-get installed redis-server, but it is not on the PATH' };
}

/** Answers why it cannot, or undefined on success. RUNLEVEL=1 keeps Debian from starting the service. */
async function installRedis(): Promise<string | undefined> {
  if (process.getuid?.() !== 0)
    return 'redis-server is not on the PATH, and only root can install it';
  if (!(await findOnPath('apt-get')))
    return 'redis-server is not on the PATH, and there is no apt-get to install it';
  const env = { ...process.env, RUNLEVEL: '1', DEBIAN_FRONTEND: 'noninteractive' };
  const wait = ['-o', 'DPkg::Lock::Timeout=120'];
  try {
    await run('apt-get', [...wait, 'update', '-qq'], { env, timeout: 180_000 });
    await run(
      'apt-get',
      [...wait, 'install', '-y', '-qq', '--no-install-recommends', 'redis-server'],
      { env, timeout: 300_000 },
    );
    return undefined;
  } catch (error) {
    return `apt-get could not install redis-server: ${String((error as Error).message).slice(0, 300)}`;
  }
}

/** A Redis of its own on a free port (or the given one), in memory only. `parent`: where its folder is made, outside of the test runner. */
export async function startRedisServer(
  program: string,
  fixedPort?: number,
  parent?: string,
): Promise<RedisServer> {
  const folder =
    parent === undefined ? await temporaryFolder('redis') : await mkdtemp(join(parent, 'redis-'));
  const port = fixedPort ?? (await freePort());
  const server = await startChildServer({
    command: program,
    args: [
      '--port',
      String(port),
      '--bind',
      '127.0.0.1',
      '--save',
      '',
      '--appendonly',
      'no',
      '--dir',
      folder,
    ],
    folder,
    ready: /Ready to accept connections/,
    stopSignal: 'TERM',
  });
  return {
    url: `redis://127.0.0.1:${port}`,
    port,
    signal: (signal) => server.signal(signal),
    stop: () => server.stop(),
  };
}
