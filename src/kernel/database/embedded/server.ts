/** The embedded PostgreSQL server: a child process on a unix socket that lives as long as the installation runs. */
import { mkdir } from 'node:fs/promises';
import { dirname } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { StartError } from '../../start-error.ts';
import type { Logger } from '../../telemetry/logger.ts';
import type { ConnectionTarget } from '../connection.ts';
import { prepareBinaries, serverIdentity } from './binaries.ts';
import { clusterVersion, initialiseCluster, syncCluster } from './initialise.ts';
import { createOwnKeeper, type ServerKeeper } from './keeper.ts';
import { ServerProcess } from './server-process.ts';

export interface EmbeddedServer {
  /** How to reach a database of that name; it is created when it does not exist. */
  target(database: string): Promise<ConnectionTarget>;
  /** What is wrong with the server, in words; nothing while it runs. */
  trouble(): string | undefined;
  /** Ends all connections and waits until everything is written; with a supervisor only lets go of it. */
  stop(): Promise<void>;
}

export interface EmbeddedServerOptions {
  /** Absolute path of the cluster's folder; made when it does not exist. */
  readonly folder: string;
  readonly logFile: string;
  readonly log: Logger;
  readonly onProgress?: (text: string) => void;
  /** Connections that it must take, where that is more than usual. */
  readonly connections?: number | undefined;
  /** Who holds the server; this process unless set. */
  readonly keeper?: ServerKeeper | undefined;
}

const SYNC_DELAY_MS = 3_000;
/** A worker that only finds the server waits this long for the one that starts it. */
const FIND_TIMEOUT_MS = 60_000;
const FIND_POLL_MS = 100;

/**
 * Starts the server, after making the cluster when there is none (about 0.5 s, else 50 ms).
 * @throws StartError with the server's own words when it does not come up.
 */
export async function startEmbeddedServer(options: EmbeddedServerOptions): Promise<EmbeddedServer> {
  if (process.platform === 'win32') {
    throw new StartError(
      'The embedded PostgreSQL needs Linux or macOS: set DATABASE_URL to a PostgreSQL server',
    );
  }
  const { folder, log, keeper = createOwnKeeper() } = options;
  const identity = await serverIdentity(folder);
  const binaries = await prepareBinaries(identity);
  const server = new ServerProcess({ ...options, keeper, binaries, identity });
  const isOurs = options.keeper === undefined;
  const stop = async (): Promise<void> => (isOurs ? server.stop() : server.release());
  let sync: ReturnType<typeof soon> | undefined;
  if (!(await found(server, keeper))) {
    const isNew = await prepareCluster(options, binaries, identity);
    await server.start().catch(async (error: unknown) => {
      await stop();
      throw error;
    });
    if (isNew) sync = soon(() => syncCluster(folder, { binaries, identity }, log));
  }
  return {
    target: (database) => server.target(database),
    trouble: () => server.trouble,
    async stop() {
      await sync?.now();
      await stop();
    },
  };
}

/** Whether a server of the same supervisor could be adopted. */
async function found(server: ServerProcess, keeper: ServerKeeper): Promise<boolean> {
  const until = performance.now() + FIND_TIMEOUT_MS;
  for (;;) {
    if (await server.adopt()) return true;
    if (keeper.opens) return false;
    if (performance.now() > until)
      throw new StartError(
        'The embedded PostgreSQL does not run: see the log of the first process',
      );
    await sleep(FIND_POLL_MS);
  }
}

/** Makes the cluster when there is none; answers whether it did. */
async function prepareCluster(
  { folder, onProgress }: EmbeddedServerOptions,
  binaries: Awaited<ReturnType<typeof prepareBinaries>>,
  identity: Awaited<ReturnType<typeof serverIdentity>>,
): Promise<boolean> {
  const existing = await clusterVersion(folder);
  if (existing === undefined) {
    onProgress?.('Setting up the embedded PostgreSQL');
    await mkdir(dirname(folder), { recursive: true, mode: 0o700 });
    await initialiseCluster(folder, binaries, identity);
    return true;
  }
  if (existing === binaries.major) return false;
  throw new StartError(
    `The data in ${folder} was written by PostgreSQL ${existing}, this is ${binaries.major}: run the earlier version of Penstock, or move the data through a backup`,
  );
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
