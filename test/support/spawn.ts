/** Platforms as real processes, started the way a user does. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { createApi } from './api.ts';
import { freePort } from './free-port.ts';
import { endAfterFile } from './left-behind.ts';
import { createTestNode, type TestNode, testAdminPassword, testMasterKey } from './node.ts';
import { workersOf } from './processes.ts';
import { requireFixture } from './servers/fixtures.ts';
import { removeFolder, temporaryFolder } from './temporary-folder.ts';
import { waitFor } from './wait-for.ts';

export const projectRoot = join(import.meta.dirname, '../..');

export interface SpawnOptions {
  /** Over the defaults of tests; an empty text removes a variable. */
  readonly env?: Readonly<Record<string, string>>;
  /** A folder to use and keep; a new one, removed at the end, unless set. */
  readonly dataDir?: string;
  /** In the new folder the first start is over already, which takes 3 s less. */
  readonly afterFirstStart?: boolean;
}

/** A new folder as a first start leaves it. */
export async function startedFolder(): Promise<string> {
  const folder = await temporaryFolder('data');
  const [copy] = await once(
    spawn('cp', ['-a', `${await requireFixture('started-data')}/.`, folder], { stdio: 'inherit' }),
    'exit',
  );
  if (copy !== 0) throw new Error(`The data folder could not be copied: cp ended with ${copy}`);
  return folder;
}

export interface Exit {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
}

/** A process of the platform that may or may not get as far as serving. */
export interface PlatformProcess {
  readonly pid: number;
  readonly addresses: {
    readonly client: string;
    readonly admin: string;
    readonly realtime: string;
  };
  readonly dataDir: string;
  stdout(): string;
  stderr(): string;
  readonly exit: Promise<Exit>;
  /** Sends a signal (SIGTERM unless set) to the process that the user started, and waits for its end. */
  stop(signal?: NodeJS.Signals): Promise<Exit>;
  /** kill -9 of the server process itself, and of its launcher. */
  kill(): Promise<void>;
  /** The processes that serve, as the system names them. */
  workers(): Promise<readonly number[]>;
  /** `kill`, and the data folder goes unless the caller gave it. */
  dispose(): Promise<void>;
}

export interface SpawnedPlatform extends TestNode, Omit<PlatformProcess, 'addresses'> {
  /** From the start of the process to the first 200 of `/ready`, in ms. */
  readonly readyMs: number;
}

const readyTimeoutMs = 60_000;

/** Starts the launcher and answers at once. */
export async function launchPlatform(options: SpawnOptions = {}): Promise<PlatformProcess> {
  const newFolder = () => (options.afterFirstStart ? startedFolder() : temporaryFolder('data'));
  const dataDir = options.dataDir ?? (await newFolder());
  const client = Number(options.env?.CLIENT_HTTP_PORT) || (await freePort());
  const [socket, admin] = [await freePort(), await freePort()];
  const env = withoutEmpty({
    ...process.env,
    CLIENT_HTTP_PORT: String(client),
    CLIENT_SOCKET_PORT: String(socket),
    ADMIN_HTTP_PORT: String(admin),
    ADMIN_SOCKET_PORT: '-1',
    MASTER_KEY: testMasterKey,
    ADMIN_INITIAL_PASSWORD: testAdminPassword,
    PENSTOCK_DATA_DIR: dataDir,
    ...options.env,
  });
  const child = spawn('node', [join(projectRoot, 'scripts/run.mjs'), 'start'], {
    cwd: projectRoot,
    env,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const output = { stdout: '', stderr: '' };
  child.stdout.on('data', (chunk) => (output.stdout += chunk));
  child.stderr.on('data', (chunk) => (output.stderr += chunk));
  const exit: Promise<Exit> = once(child, 'close').then(([code, signal]) => ({ code, signal }));
  const kill = async () => {
    const workers = await workersOf(child.pid ?? 0);
    // The launcher first: it would replace them.
    if (child.exitCode === null) child.kill('SIGKILL');
    for (const pid of workers) tryKill(pid);
    await exit;
  };
  const dispose = async () => {
    await kill();
    ended();
    if (options.dataDir === undefined) await removeFolder(dataDir);
  };
  const ended = endAfterFile(child, dispose);
  return {
    pid: child.pid ?? 0,
    dataDir,
    addresses: {
      client: `http://127.0.0.1:${client}`,
      admin: `http://127.0.0.1:${admin}`,
      realtime: `http://127.0.0.1:${socket}`,
    },
    stdout: () => output.stdout,
    stderr: () => output.stderr,
    exit,
    kill,
    workers: () => workersOf(child.pid ?? 0),
    stop: (signal = 'SIGTERM') => {
      child.kill(signal);
      return exit;
    },
    dispose,
  };
}

/** Starts a platform and waits until it is ready. */
export async function spawnPlatform(options: SpawnOptions = {}): Promise<SpawnedPlatform> {
  const begin = performance.now();
  const launched = await launchPlatform(options);
  const probe = createApi(launched.addresses.admin);
  let ended = false;
  let readyMs = 0;
  void launched.exit.then(() => (ended = true));
  try {
    await waitFor(async () => ended || (await probe.get('/ready')).status === 200, {
      timeoutMs: readyTimeoutMs,
      what: '/ready',
    });
    readyMs = performance.now() - begin;
    await waitFor(() => ended || launched.stdout().includes(launched.addresses.admin), {
      what: 'the banner',
    });
    if (ended) throw new Error('The platform ended before it was ready');
  } catch (error) {
    await launched.dispose();
    throw new Error(
      `${(error as Error).message}\n${launched.stdout().slice(-3000)}\n${launched.stderr().slice(-3000)}`,
      { cause: error },
    );
  }
  const masterKey = options.env?.MASTER_KEY || testMasterKey;
  const adminPassword = options.env?.ADMIN_INITIAL_PASSWORD || testAdminPassword;
  const node = createTestNode(launched.addresses, { masterKey, adminPassword });
  return { ...launched, ...node, readyMs };
}

function tryKill(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL');
  } catch {
    // It has ended already.
  }
}

const withoutEmpty = (env: NodeJS.ProcessEnv): NodeJS.ProcessEnv =>
  Object.fromEntries(
    Object.entries(env).filter(([, value]) => value !== undefined && value !== ''),
  );
