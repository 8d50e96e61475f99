/** Runs the platform as a process of its own, the way it is run for real, with a data folder of its own. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { get } from 'node:http';
import { type AddressInfo, createServer } from 'node:net';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import type pg from 'pg';
import { findProgram } from '../scripts/bundle.mjs';
import { memoryEnvironment, platformFlags } from '../scripts/supervisor/memory.mjs';

const root = fileURLToPath(new URL('..', import.meta.url));
const POLL_MS = 5;
const START_TIMEOUT_MS = 60_000;

export interface Platform {
  readonly clientOrigin: string;
  readonly adminOrigin: string;
  readonly masterKey: string;
  /** Process id of what was spawned. */
  readonly pid: number;
  /** Milliseconds from the start of the process to the first 200 on `/ready`. */
  readonly startMs: number;
  /** How to reach the embedded server beside the platform, and its process id. */
  database(): Promise<{ connection: pg.ClientConfig; pid: number }>;
  /** Asks it to stop (SIGTERM) and waits. */
  stop(): Promise<void>;
}

export interface PlatformOptions {
  readonly dataDir: string;
  /**
   * `main` starts the program itself, `sources` without its bundle, so that a profile names files and areas; `command`
   * what `npm start` runs, with its checks.
   */
  readonly through?: 'main' | 'sources' | 'command';
  /** Arguments for Node, such as `--cpu-prof`. */
  readonly nodeArguments?: readonly string[];
  /** Further environment variables. */
  readonly env?: Readonly<Record<string, string>>;
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, 'close');
  return port;
}

const statusOf = (url: string): Promise<number | undefined> =>
  new Promise((resolve) => {
    get(url, { headers: { accept: 'application/json' } }, (response) => {
      response.resume();
      resolve(response.statusCode);
    }).once('error', () => resolve(undefined));
  });

/** Waits for the first good answer. Throws with what the platform printed when it ends before. */
async function waitUntilReady(
  child: ChildProcess,
  url: string,
  output: () => string,
): Promise<void> {
  const deadline = performance.now() + START_TIMEOUT_MS;
  while ((await statusOf(url)) !== 200) {
    if (child.exitCode !== null)
      throw new Error(`The platform ended with code ${child.exitCode}:\n${output()}`);
    if (performance.now() > deadline)
      throw new Error(`The platform is not ready after ${START_TIMEOUT_MS} ms:\n${output()}`);
    await sleep(POLL_MS);
  }
}

/** The postmaster's own file says where its socket is (PostgreSQL manual, "postmaster.pid"). */
async function embeddedDatabase(
  dataDir: string,
): Promise<{ connection: pg.ClientConfig; pid: number }> {
  const lines = (await readFile(join(dataDir, 'postgres', 'postmaster.pid'), 'utf8'))
    .split('\n')
    .map((line) => line.trim());
  const [pid, , , port, host] = lines;
  return {
    connection: { host: host ?? '', port: Number(port), user: 'penstock', database: 'penstock' },
    pid: Number(pid),
  };
}

async function programOf(through: PlatformOptions['through']): Promise<readonly string[]> {
  if (through === 'command') return ['scripts/run.mjs', 'start'];
  const sources = `${root}src/main.ts`;
  const file =
    through === 'sources' ? sources : await findProgram(process.execPath, sources, console.error);
  return [...platformFlags, file, 'start'];
}

/** A key that exists for this run only. */
const masterKey = `bench-${crypto.randomUUID()}`;

export async function startPlatform({
  dataDir,
  through = 'main',
  nodeArguments = [],
  env = {},
}: PlatformOptions): Promise<Platform> {
  const [client, socket, admin] = await Promise.all([freePort(), freePort(), freePort()]);
  const adminOrigin = `http://127.0.0.1:${admin}`;
  const program = await programOf(through);
  const begin = performance.now();
  const child = spawn(process.execPath, [...nodeArguments, ...program], {
    cwd: root,
    // The program stops when the channel breaks, so that it does not outlive us whatever happens.
    stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
    env: {
      PATH: process.env.PATH,
      HOME: process.env.HOME,
      CLIENT_HTTP_PORT: String(client),
      CLIENT_SOCKET_PORT: String(socket),
      ADMIN_HTTP_PORT: String(admin),
      PENSTOCK_DATA_DIR: dataDir,
      MASTER_KEY: masterKey,
      LOG_LEVEL: 'info',
      ...memoryEnvironment,
      // As `scripts/run.mjs` starts the program: compiled code is kept between starts.
      NODE_COMPILE_CACHE: `${root}node_modules/.cache/penstock-compile`,
      ...env,
    },
  });
  const printed: string[] = [];
  for (const stream of [child.stdout, child.stderr])
    stream?.setEncoding('utf8').on('data', (text: string) => void printed.push(text));
  await waitUntilReady(child, `${adminOrigin}/ready`, () => printed.join('')).catch(
    (error: unknown) => {
      child.kill();
      throw error;
    },
  );
  return {
    clientOrigin: `http://127.0.0.1:${client}`,
    adminOrigin,
    masterKey,
    pid: child.pid ?? 0,
    startMs: performance.now() - begin,
    database: () => embeddedDatabase(dataDir),
    async stop() {
      if (child.exitCode !== null) return;
      const gone = once(child, 'exit');
      child.kill('SIGTERM');
      await gone;
    },
  };
}
