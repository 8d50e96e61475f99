/** The running server: started, watched, started again when it ends by itself, stopped. */
import { readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { StartError } from '../../start-error.ts';
import type { Logger } from '../../telemetry/logger.ts';
import type { ConnectionTarget } from '../connection.ts';
import { codeOf, isConnectionLoss } from '../failures.ts';
import { identifier } from '../sql.ts';
import type { ServerBinaries, ServerIdentity } from './binaries.ts';
import { SUPERUSER } from './initialise.ts';
import type { ServerExit, ServerKeeper } from './keeper.ts';
import { waitForPreviousServer, withLifeline } from './lifeline.ts';
import {
  isRecovering,
  makeSocketFolder,
  prepareLog,
  reasonIn,
  SOCKET_PORT,
  serverArguments,
} from './server-settings.ts';

export interface ServerProcessOptions {
  /** Absolute path of the cluster's folder. */
  readonly folder: string;
  readonly logFile: string;
  readonly log: Logger;
  readonly keeper: ServerKeeper;
  readonly binaries: ServerBinaries;
  readonly identity: ServerIdentity;
  readonly onProgress?: ((text: string) => void) | undefined;
  /** Connections that it must take, where that is more than usual. */
  readonly connections?: number | undefined;
}

const POLL_MS = 5;
/** Recovery after a crash may take this long. */
const READY_TIMEOUT_MS = 120_000;
/** A start that takes longer than this is explained. */
const NOTICEABLE_MS = 500;
/** A server that answers, but with the same error for this long, will not come to anything. */
const REFUSAL_MS = 2_000;
const RESTART_DELAY_MS = 200;
/** After this many quick ends in a row it is tried again, but slowly. */
const QUICK_RESTARTS = 5;
const SLOW_RESTART_MS = 15_000;
/** A server that ran for this many ms was healthy: the count of restarts begins again. */
const HEALTHY_MS = 60_000;
const STOP_TIMEOUT_MS = 20_000;
/** A stop that lasts for this many looks waits for sessions. */
const LOOKS = 2;
const LOOK_EVERY_MS = 500;

export class ServerProcess {
  readonly #options: ServerProcessOptions;
  #socketFolder: string | undefined;
  #running = false;
  /** Whether the run that lasts was ever ready. */
  #served = false;
  #ended: Promise<ServerExit> | undefined;
  #stopping = false;
  #look: NodeJS.Timeout | undefined;
  #restarts = 0;
  #toldOfRecovery = false;

  constructor(options: ServerProcessOptions) {
    this.#options = options;
  }

  /** What is wrong with it, for `/ready`; nothing while it runs. */
  get trouble(): string | undefined {
    if (this.#running || this.#restarts === 0) return undefined;
    if (this.#restarts <= QUICK_RESTARTS)
      return 'The embedded PostgreSQL stopped and is being started again';
    return `The embedded PostgreSQL stopped ${this.#restarts} times in a row; it is tried again every ${SLOW_RESTART_MS / 1000} s`;
  }

  /** Uses the server that an earlier worker of the same supervisor started. False when there is none. */
  async adopt(): Promise<boolean> {
    const { running, socketFolder } = await this.#options.keeper.find();
    this.#socketFolder = socketFolder;
    if (!running) return false;
    this.#watch();
    await this.#ready(0);
    return true;
  }

  async start(): Promise<void> {
    const { folder, logFile, keeper, binaries, identity, connections } = this.#options;
    await waitForPreviousServer(folder);
    const socketFolder = await makeSocketFolder(identity, this.#socketFolder);
    this.#socketFolder = socketFolder;
    const logStart = await prepareLog(logFile);
    this.#watch();
    const command = [binaries.postgres, ...serverArguments(folder, socketFolder, connections)];
    try {
      await keeper.start(withLifeline({ command, socketFolder, cwd: folder, identity, logFile }));
      await this.#ready(logStart);
    } catch (error) {
      keeper.stop();
      throw error;
    }
  }

  /** How to reach a database of that name; it is created when it does not exist. */
  async target(database: string): Promise<ConnectionTarget> {
    const target = this.#target(database);
    try {
      await touch(target);
    } catch (error) {
      if (codeOf(error) !== '3D000') throw isConnectionLoss(error) ? error : this.#damaged(error);
      await withClient(this.#target('postgres'), (client) =>
        client.query(`create database ${identifier(database)}`),
      ).catch((failure: unknown) => {
        // duplicate_database: another caller was faster.
        if (codeOf(failure) !== '42P04' && codeOf(failure) !== '23505') throw failure;
      });
    }
    return target;
  }

  async stop(): Promise<void> {
    this.#stopping = true;
    clearInterval(this.#look);
    const { keeper, log } = this.#options;
    keeper.stop();
    const late =
      this.#running &&
      (await Promise.race([this.#ended, sleep(STOP_TIMEOUT_MS, 'late', { ref: false })])) ===
        'late';
    if (late) return log.warn({}, 'The embedded PostgreSQL is slow to stop; it goes on by itself');
    // The lifeline does the same for us when we are killed, where its user may.
    if (this.#socketFolder !== undefined)
      await rm(this.#socketFolder, { recursive: true, force: true });
  }

  /** Leaves the server to its keeper. */
  release(): void {
    this.#stopping = true;
    clearInterval(this.#look);
  }

  #watch(): void {
    const startedAt = performance.now();
    this.#running = true;
    this.#ended = new Promise((resolve) => {
      this.#options.keeper.onExit((exit) => {
        this.#running = false;
        clearInterval(this.#look);
        resolve(exit);
        // Before it was ready the start itself fails.
        if (this.#served && !this.#stopping) void this.#restart(startedAt, exit);
        this.#served = false;
      });
    });
  }

  #target(database: string): ConnectionTarget {
    return { host: this.#socketFolder ?? '', port: SOCKET_PORT, user: SUPERUSER, database };
  }

  #damaged(error: unknown): StartError {
    const { folder, logFile } = this.#options;
    const reason = error instanceof Error ? error.message : String(error);
    return new StartError(
      `The database in ${folder} is damaged (${reason}): put a backup into an empty data folder with penstock restore (log: ${logFile})`,
      { cause: error },
    );
  }

  async #ready(logStart: number): Promise<void> {
    const { logFile } = this.#options;
    const started = performance.now();
    const explain = this.#refusals();
    this.#toldOfRecovery = false;
    for (;;) {
      if (!this.#running)
        throw new StartError(
          `The embedded PostgreSQL did not start: ${await reasonIn(logFile, logStart)}`,
        );
      try {
        await touch(this.#target('postgres'));
        this.#served = true;
        this.#hurryStops();
        return;
      } catch (error) {
        explain(error);
        await this.#tellOfRecovery(error, started, logStart);
      }
      if (performance.now() - started > READY_TIMEOUT_MS) {
        const reason = await reasonIn(logFile, logStart);
        throw new StartError(
          `The embedded PostgreSQL is not ready after ${READY_TIMEOUT_MS / 1000} s: ${reason}`,
        );
      }
      await sleep(POLL_MS);
    }
  }

  /** Throws when the server answers and will not come to anything. */
  #refusals(): (error: unknown) => void {
    let refusedAt: number | undefined;
    return (error) => {
      refusedAt = isConnectionLoss(error) ? undefined : (refusedAt ?? performance.now());
      if (refusedAt !== undefined && performance.now() - refusedAt > REFUSAL_MS)
        throw this.#damaged(error);
    };
  }

  /** Tells the operator why it takes longer: it replays its log after a crash. */
  async #tellOfRecovery(error: unknown, started: number, logStart: number): Promise<void> {
    // cannot_connect_now: so it answers in each start, for a moment.
    if (codeOf(error) !== '57P03' || this.#toldOfRecovery) return;
    if (performance.now() - started <= NOTICEABLE_MS) return;
    if (!(await isRecovering(this.#options.logFile, logStart))) return;
    this.#toldOfRecovery = true;
    this.#options.onProgress?.('The database is recovering from an unclean stop');
  }

  /**
   * Somebody else may tell the server to stop (systemd signals all processes of a service). It then refuses new
   * sessions and waits for the old ones, for ever if need be: such a stop is made a fast one, and it is started again.
   */
  #hurryStops(): void {
    if (!this.#options.keeper.opens) return;
    clearInterval(this.#look);
    let stopping = 0;
    this.#look = setInterval(async () => {
      stopping = (await isStopping(this.#options.folder)) ? stopping + 1 : 0;
      if (stopping < LOOKS || this.#stopping) return;
      clearInterval(this.#look);
      this.#options.keeper.stop();
    }, LOOK_EVERY_MS).unref();
  }

  async #restart(startedAt: number, how: ServerExit): Promise<void> {
    const { log } = this.#options;
    if (performance.now() - startedAt > HEALTHY_MS) this.#restarts = 0;
    this.#restarts += 1;
    const slow = this.#restarts > QUICK_RESTARTS;
    // Code 0: somebody told it to stop, as systemd does with all processes of a service. We may still need it.
    const delay = slow ? SLOW_RESTART_MS : how.code === 0 ? 0 : RESTART_DELAY_MS * this.#restarts;
    log.error(
      { ...how, tryAgainMs: delay },
      'The embedded PostgreSQL stopped by itself and is started again: its own log says why',
    );
    await sleep(delay, undefined, { ref: false });
    if (this.#stopping) return;
    const again = performance.now();
    await this.start().catch((error: unknown) => {
      log.error({ err: error }, 'The embedded PostgreSQL could not be started again');
      if (!this.#stopping) void this.#restart(again, how);
    });
  }
}

/** What the server says about itself in the eighth line (PostgreSQL manual, "postmaster.pid"). */
const isStopping = (folder: string): Promise<boolean> =>
  readFile(join(folder, 'postmaster.pid'), 'utf8').then(
    (text) => text.split('\n')[7]?.trim() === 'stopping',
    () => false,
  );

async function withClient<T>(
  target: ConnectionTarget,
  work: (client: pg.Client) => Promise<T>,
): Promise<T> {
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
const touch = (target: ConnectionTarget): Promise<void> =>
  withClient(target, async () => undefined);
