/** The embedded PostgreSQL server: a child process on a unix socket that lives exactly as long as we do. */
import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { chown, mkdir, mkdtemp, open, readFile, rename, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { StartError } from '../../start-error.ts';
import type { Logger } from '../../telemetry/logger.ts';
import type { ConnectionTarget } from '../connection.ts';
import { codeOf } from '../failures.ts';
import { identifier } from '../sql.ts';
import { prepareBinaries, type ServerBinaries } from './binaries.ts';
import { type ServerIdentity, serverIdentity } from './identity.ts';
import { clusterVersion, initialiseCluster, SUPERUSER, syncCluster } from './initialise.ts';
import { spawnWithLifeline } from './lifeline.ts';
import { settlePreviousServer } from './previous.ts';
import { SOCKET_PORT, serverArguments } from './server-settings.ts';

export interface EmbeddedServer {
  /** How to reach a database of that name; it is created when it does not exist. */
  target(database: string): Promise<ConnectionTarget>;
  /** Ends all connections and waits until everything is written. */
  stop(): Promise<void>;
}

export interface EmbeddedServerOptions {
  /** Absolute path of the cluster's folder; made when it does not exist. */
  readonly folder: string;
  readonly logFile: string;
  readonly log: Logger;
  readonly onProgress?: (text: string) => void;
}

const POLL_MS = 5;
/** Recovery after a crash may take this long. */
const READY_TIMEOUT_MS = 120_000;
/** A start that takes longer than this is explained. */
const NOTICEABLE_MS = 500;
const LARGEST_LOG_BYTES = 5_000_000;
/** Longest path of a unix socket, in bytes, on the strictest platform (macOS: 104 with the end mark). */
const LONGEST_SOCKET_PATH = 103;
const RESTART_DELAY_MS = 200;
const RESTARTS = 5;
/** A server that ran for this many ms was healthy: the count of restarts begins again. */
const HEALTHY_MS = 60_000;
const SYNC_DELAY_MS = 3_000;
const STOP_TIMEOUT_MS = 20_000;

/**
 * Starts the server, after making the cluster when there is none (about 0.5 s, else 50 ms).
 * @throws StartError with the server's own words when it does not come up.
 */
export async function startEmbeddedServer(options: EmbeddedServerOptions): Promise<EmbeddedServer> {
  if (process.platform === 'win32') {
    throw new StartError('The embedded PostgreSQL needs Linux or macOS: set DATABASE_URL to a PostgreSQL server');
  }
  const { folder, log } = options;
  const identity = await serverIdentity(folder);
  const binaries = await prepareBinaries(identity);
  const existing = await clusterVersion(folder);
  if (existing === undefined) {
    options.onProgress?.('Setting up the embedded PostgreSQL');
    await mkdir(dirname(folder), { recursive: true, mode: 0o700 });
    await initialiseCluster(folder, binaries, identity);
  } else if (existing !== binaries.major) {
    throw new StartError(
      `The data in ${folder} was written by PostgreSQL ${existing}, this is ${binaries.major}: run the earlier version of Penstock, or move the data through a backup`,
    );
  }
  const server = new ServerProcess(options, binaries, identity);
  await server.start().catch(async (error: unknown) => {
    await server.stop();
    throw error;
  });
  const sync = existing === undefined ? soon(() => syncCluster(folder, { binaries, identity }, log)) : undefined;
  return {
    target: (database) => server.target(database),
    async stop() {
      await sync?.now();
      await server.stop();
    },
  };
}

/** Runs `work` once: a little later, when the start no longer competes with it for the disk, or when `now` is called. */
function soon(work: () => Promise<void>): { now(): Promise<void> } {
  let done: Promise<void> | undefined;
  const now = (): Promise<void> => {
    clearTimeout(timer);
    done ??= work();
    return done;
  };
  const timer = setTimeout(now, SYNC_DELAY_MS);
  timer.unref();
  return { now };
}

class ServerProcess {
  readonly #options: EmbeddedServerOptions;
  readonly #binaries: ServerBinaries;
  readonly #identity: ServerIdentity;
  #socketFolder: string | undefined;
  #child: ChildProcess | undefined;
  #stopping = false;
  #restarts = 0;

  constructor(options: EmbeddedServerOptions, binaries: ServerBinaries, identity: ServerIdentity) {
    this.#options = options;
    this.#binaries = binaries;
    this.#identity = identity;
  }

  async start(): Promise<void> {
    const { folder, logFile } = this.#options;
    await settlePreviousServer(folder);
    const socketFolder = await this.#makeSocketFolder();
    const logHandle = await openLog(logFile);
    const logStart = (await logHandle.stat()).size;
    const child = spawnWithLifeline({
      command: [this.#binaries.postgres, ...serverArguments(folder, socketFolder)],
      socketFolder,
      cwd: folder,
      identity: this.#identity,
      logFd: logHandle.fd,
    });
    this.#child = child;
    // The pipe breaks when the shell is gone before us; its exit says the same.
    child.stdin?.on('error', () => undefined);
    const failed = once(child, 'exit').then(async () => {
      throw new StartError(`The embedded PostgreSQL did not start: ${await reasonIn(logFile, logStart)}`);
    });
    try {
      await Promise.race([this.#ready(child), failed]);
      const startedAt = Date.now();
      child.once('exit', (code, signal) => {
        child.stdin?.destroy();
        if (!this.#stopping) void this.#restart(startedAt, { code, signal });
      });
    } catch (error) {
      child.stdin?.end();
      throw error;
    } finally {
      failed.catch(() => undefined);
      await logHandle.close();
    }
  }

  async target(database: string): Promise<ConnectionTarget> {
    const target = this.#target(database);
    try {
      await touch(target);
    } catch (error) {
      if (codeOf(error) !== '3D000') throw error;
      await withClient(this.#target('postgres'), (client) => client.query(`create database ${identifier(database)}`)).catch(
        (failure: unknown) => {
          // duplicate_database: another caller was faster.
          if (codeOf(failure) !== '42P04' && codeOf(failure) !== '23505') throw failure;
        },
      );
    }
    return target;
  }

  async stop(): Promise<void> {
    this.#stopping = true;
    const child = this.#child;
    if (child && child.exitCode === null && child.signalCode === null) {
      const gone = once(child, 'exit');
      child.stdin?.end();
      const late = await Promise.race([gone, sleep(STOP_TIMEOUT_MS, 'late', { ref: false })]);
      if (late === 'late') return this.#options.log.warn({}, 'The embedded PostgreSQL is slow to stop; it goes on by itself');
    }
    await this.#removeSocketFolder();
  }

  /** The lifeline does the same for us when we are killed, where its user may. */
  async #removeSocketFolder(): Promise<void> {
    if (this.#socketFolder !== undefined) await rm(this.#socketFolder, { recursive: true, force: true });
  }

  #target(database: string): ConnectionTarget {
    return { host: this.#socketFolder ?? '', port: SOCKET_PORT, user: SUPERUSER, database };
  }

  /** A private folder with a short path. A restarted server comes back at the same place. */
  async #makeSocketFolder(): Promise<string> {
    const { uid, gid } = this.#identity;
    if (this.#socketFolder === undefined) {
      const fits = Buffer.byteLength(join(tmpdir(), 'penstock-XXXXXX', `.s.PGSQL.${SOCKET_PORT}.lock`)) <= LONGEST_SOCKET_PATH;
      this.#socketFolder = await mkdtemp(join(fits ? tmpdir() : '/tmp', 'penstock-'));
    } else {
      await this.#removeSocketFolder();
      await mkdir(this.#socketFolder, { mode: 0o700 });
    }
    if (uid !== undefined && gid !== undefined) await chown(this.#socketFolder, uid, gid);
    return this.#socketFolder;
  }

  async #ready(child: ChildProcess): Promise<void> {
    const started = Date.now();
    let told = false;
    for (;;) {
      try {
        return await touch(this.#target('postgres'));
      } catch (error) {
        if (child.exitCode !== null || child.signalCode !== null) return await new Promise(() => undefined);
        // cannot_connect_now: it replays its log after a crash.
        if (codeOf(error) === '57P03' && !told && Date.now() - started > NOTICEABLE_MS) {
          told = true;
          this.#options.onProgress?.('The database is recovering from an unclean stop');
        }
        if (Date.now() - started > READY_TIMEOUT_MS)
          throw new StartError(`The embedded PostgreSQL is not ready after ${READY_TIMEOUT_MS / 1000} s: see ${this.#options.logFile}`);
      }
      await sleep(POLL_MS);
    }
  }

  async #restart(startedAt: number, how: { code: number | null; signal: string | null }): Promise<void> {
    const { log } = this.#options;
    if (Date.now() - startedAt > HEALTHY_MS) this.#restarts = 0;
    this.#restarts += 1;
    if (this.#restarts > RESTARTS) {
      log.error(
        how,
        `The embedded PostgreSQL stopped ${RESTARTS} times in a row and is not started again: see its log and restart Penstock`,
      );
      return;
    }
    log.error(how, 'The embedded PostgreSQL stopped by itself and is started again');
    await sleep(RESTART_DELAY_MS * this.#restarts, undefined, { ref: false });
    if (this.#stopping) return;
    await this.start().catch((error: unknown) => {
      log.error({ err: error }, 'The embedded PostgreSQL could not be started again');
      if (!this.#stopping) void this.#restart(Date.now(), how);
    });
  }
}

async function withClient<T>(target: ConnectionTarget, work: (client: pg.Client) => Promise<T>): Promise<T> {
  const client = new pg.Client({ ...target, application_name: 'penstock start' });
  client.on('error', () => undefined);
  try {
    await client.connect();
    return await work(client);
  } finally {
    await client.end().catch(() => undefined);
  }
}

/** Rejects unless somebody answers there. */
const touch = (target: ConnectionTarget): Promise<void> => withClient(target, async () => undefined);

/** The server's own log, which starts anew when it has become large. */
async function openLog(file: string) {
  await mkdir(dirname(file), { recursive: true, mode: 0o700 });
  const size = await stat(file).then(
    (facts) => facts.size,
    () => 0,
  );
  if (size > LARGEST_LOG_BYTES) await rename(file, `${file}.1`);
  return open(file, 'a', 0o600);
}

/** The last thing the server complained about since `start` (bytes). */
async function reasonIn(file: string, start: number): Promise<string> {
  const lines = (await readFile(file)).subarray(start).toString().trim().split('\n');
  const complaint = lines.findLast((line) => /FATAL|PANIC|error|not found|cannot|denied/.test(line)) ?? lines.at(-1);
  return `${complaint?.replace(/^.*?(FATAL|PANIC): +/, '') || 'it said nothing'} (log: ${file})`;
}
