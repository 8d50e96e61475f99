/**
 * Connections that one piece of work has for itself: a statement of unknown length, a transaction.
 * They are made when they are requested and closed when they were idle for a while.
 */
import { connect, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { connect as secure } from 'node:tls';
import pg from 'pg';
import type { Logger } from '../telemetry/logger.ts';
import {
  type ClientOptions,
  type ConnectionTarget,
  clientConfig,
  GuardedClient,
  prepareSession,
  sessionMark,
} from './connection.ts';
import { isFull, unavailable } from './failures.ts';
import {
  FairTurns,
  type TurnBounds,
  type TurnFigures,
  type Waiting,
  waitedTooLong,
} from './fair-turns.ts';

/* Ends the sessions of one process at the server, for a stop whose time is over: asks PostgreSQL to stop what a
 * connection is running, over a connection of its own as the protocol wants it. */

/** What the server told the driver when the connection was made. */
interface BackendKey {
  readonly processID: number | null;
  readonly secretKey: number | null;
}

const CANCEL_REQUEST = 80_877_102;
const TLS_REQUEST = 80_877_103;
const TIMEOUT_MS = 2_000;

function message(...words: readonly number[]): Buffer {
  const buffer = Buffer.alloc(4 * (words.length + 1));
  buffer.writeInt32BE(buffer.length, 0);
  for (const [i, word] of words.entries()) buffer.writeInt32BE(word, 4 * (i + 1));
  return buffer;
}

/**
 * Sends the request and does not wait for its effect. It may arrive after the statement has ended,
 * and would then stop the next one: a connection that it was sent for must not be used for anybody else.
 * A request that does not get through is no problem: the session's own time limit stands behind it.
 */
function cancelRunning(target: ConnectionTarget, client: pg.Client): void {
  const { processID, secretKey } = client as unknown as BackendKey;
  if (processID === null || secretKey === null) return;
  const request = message(CANCEL_REQUEST, processID, secretKey);
  const { host, port, ssl } = target;
  const socket = host.startsWith('/') ? connect(`${host}/.s.PGSQL.${port}`) : connect(port, host);
  quiet(socket);
  if (!ssl || host.startsWith('/')) {
    socket.once('connect', () => socket.end(request));
    return;
  }
  socket.once('connect', () => socket.write(message(TLS_REQUEST)));
  socket.once('data', (answer) => {
    if (answer.toString('latin1') !== 'S') return void socket.destroy();
    const encrypted = secure({ socket, host, ...(ssl === true ? {} : ssl) });
    quiet(encrypted);
    encrypted.once('secureConnect', () => encrypted.end(request));
  });
}

function quiet(socket: Socket): void {
  socket.on('error', () => socket.destroy());
  socket.setTimeout(TIMEOUT_MS, () => socket.destroy());
  socket.unref();
}

/** A session that does not end within this many ms ends when its statement lets it. */
const PATIENCE_MS = 3_000;
const POLL_MS = 20;

/** All at once: PostgreSQL's own waiting goes from one to the next, a tenth of a second each. */
const text = `select pg_terminate_backend(pid) from pg_stat_activity
  where pid <> pg_backend_pid() and right(application_name, length($1)) = $1`;

/** Ends all sessions that carry the mark of this instance, and waits until they are gone. Rejects when the server cannot be asked. */
export async function endSessions(options: ClientOptions): Promise<void> {
  const mark = sessionMark(options.modes);
  if (mark === '') return;
  const client = new pg.Client(clientConfig(options));
  client.on('error', () => undefined);
  try {
    await client.connect();
    const until = performance.now() + PATIENCE_MS;
    while (((await client.query(text, [mark])).rowCount ?? 0) > 0 && performance.now() < until)
      await sleep(POLL_MS);
  } finally {
    await client.end().catch(() => undefined);
  }
}

export interface OwnedConnectionsOptions {
  readonly connection: ClientOptions;
  readonly bounds: TurnBounds;
  readonly log: Logger;
}

export interface OwnedConnection {
  readonly client: pg.Client;
  /** What is sent from now on is stopped at the deadline, as it is then, or `limitAt` where that comes first. */
  stopAt(waiting: Pick<Waiting, 'deadlineAt'>, limitAt?: number): void;
  /** It was stopped by us. */
  readonly stopped: boolean;
  /** Gives the connection back; a broken or stopped one is closed. */
  release(broken?: boolean): void;
}

const IDLE_MS = 30_000;
/** How soon the server is asked again for a connection that it refused: with others here that come back soon, and without. */
const REFUSED_MS = 1_000;
const REFUSED_ALONE_MS = 100;
/** How exactly a deadline is kept, in ms. */
const WATCH_MS = 25;

interface Kept {
  readonly client: pg.Client;
  broken: boolean;
  idleSince: number;
}

/** Who has a turn and no connection yet. */
interface Missing extends PromiseWithResolvers<Kept> {
  readonly waiting: Waiting;
}

export class OwnedConnections {
  readonly #options: OwnedConnectionsOptions;
  readonly #turns: FairTurns;
  readonly #idle: Kept[] = [];
  /** In order. */
  readonly #missing: Missing[] = [];
  #opening = false;
  readonly #lent = new Set<Loan>();
  #watch: NodeJS.Timeout | undefined;
  readonly #cleaner: NodeJS.Timeout;
  #ending: PromiseWithResolvers<void> | undefined;

  constructor(options: OwnedConnectionsOptions) {
    this.#options = options;
    this.#turns = new FairTurns(options.bounds);
    this.#cleaner = setInterval(() => this.#closeIdle(), IDLE_MS / 2).unref();
  }

  get size(): number {
    return this.#options.bounds.size;
  }

  /** A connection, when the group's turn comes. @throws 503 when it does not come in time or none can be made, 504 when the request is over. */
  async acquire(group: string, waiting: Waiting): Promise<OwnedConnection> {
    if (this.#ending) throw unavailable();
    const end = await this.#turns.take(group, waiting);
    try {
      const kept = this.#idle.pop() ?? (await this.#next(waiting));
      const loan = new Loan(kept, (broken) => {
        this.#lent.delete(loan);
        this.#takeBack(kept, broken);
        end();
      });
      this.#lent.add(loan);
      this.#watch ??= setInterval(() => this.#stopLate(), WATCH_MS).unref();
      return loan;
    } catch (error) {
      end();
      throw error;
    }
  }

  figures(): TurnFigures & { readonly idle: number } {
    return { ...this.#turns.figures(), idle: this.#idle.length };
  }

  /** What runs is finished first; who waits is refused. */
  async close(): Promise<void> {
    clearInterval(this.#cleaner);
    this.#ending ??= Promise.withResolvers();
    this.#turns.close(unavailable());
    const idle = this.#idle.splice(0);
    await Promise.all(idle.map(({ client }) => client.end().catch(() => undefined)));
    if (this.#lent.size > 0) await this.#ending.promise;
    clearInterval(this.#watch);
  }

  /** The next one that is given back or opened. */
  #next(waiting: Waiting): Promise<Kept> {
    const turn = { ...Promise.withResolvers<Kept>(), waiting };
    this.#missing.push(turn);
    if (!this.#opening) void this.#openMissing();
    return turn.promise;
  }

  /** One after the other: short work gives back what it has before the next one is open. */
  async #openMissing(): Promise<void> {
    this.#opening = true;
    while (this.#missing.length > 0) {
      try {
        this.#takeBack(await this.#open(), false);
      } catch (error) {
        if (isFull(error) && !this.#ending) await this.#waitForRoom(error);
        else for (const turn of this.#missing.splice(0)) turn.reject(error);
      }
    }
    this.#opening = false;
  }

  /** Until the server is asked again. Who has waited too long meanwhile is refused, as in every other line. */
  async #waitForRoom(error: unknown): Promise<void> {
    this.#options.log.warn({ err: error }, 'A further database connection could not be opened');
    const until = performance.now() + (this.#lent.size > 0 ? REFUSED_MS : REFUSED_ALONE_MS);
    while (this.#missing.length > 0 && !this.#ending && performance.now() < until) {
      await sleep(WATCH_MS);
      const now = performance.now();
      for (const turn of this.#missing.splice(0)) {
        const { deadlineAt, patientUntil } = turn.waiting;
        if (now < deadlineAt && now < patientUntil) this.#missing.push(turn);
        else turn.reject(waitedTooLong(turn.waiting, now));
      }
    }
  }

  async #open(): Promise<Kept> {
    const { connection, log } = this.#options;
    const client = new GuardedClient(clientConfig({ ...connection, pipeline: true }));
    const kept: Kept = { client, broken: false, idleSince: 0 };
    const lost = (error?: Error): void => {
      if (kept.broken) return;
      kept.broken = true;
      const at = this.#idle.indexOf(kept);
      if (at === -1) return;
      this.#idle.splice(at, 1);
      log.warn({ err: error }, 'An idle database connection was lost');
    };
    client.on('error', lost);
    client.on('end', () => lost());
    try {
      await client.connect();
      await prepareSession(client, connection);
      return kept;
    } catch (error) {
      kept.broken = true;
      void client.end().catch(() => undefined);
      throw error;
    }
  }

  #takeBack(kept: Kept, broken: boolean): void {
    const isBroken = broken || kept.broken;
    const turn = isBroken ? undefined : this.#missing.shift();
    if (turn) {
      turn.resolve(kept);
    } else if (isBroken || this.#ending) {
      kept.broken = true;
      const ended = kept.client.end().catch(() => undefined);
      if (this.#lent.size === 0) void ended.then(() => this.#ending?.resolve());
    } else {
      kept.idleSince = performance.now();
      this.#idle.push(kept);
    }
  }

  /** Those that were used last are at the end. The last of all stays: a server that is full would not give it back. */
  #closeIdle(): void {
    const before = performance.now() - IDLE_MS;
    while (this.#idle[0] && this.#idle[0].idleSince < before) {
      if (this.#idle.length + this.#lent.size === 1) return;
      const kept = this.#idle.shift();
      if (!kept) return;
      kept.broken = true;
      void kept.client.end().catch(() => undefined);
    }
  }

  #stopLate(): void {
    if (this.#lent.size === 0) {
      clearInterval(this.#watch);
      this.#watch = undefined;
      return;
    }
    const now = performance.now();
    for (const loan of this.#lent) {
      if (loan.stopped || loan.deadlineAt > now) continue;
      loan.stopped = true;
      cancelRunning(this.#options.connection.target, loan.client);
    }
  }
}

class Loan implements OwnedConnection {
  readonly client: pg.Client;
  stopped = false;
  #waiting: Pick<Waiting, 'deadlineAt'> = { deadlineAt: Number.POSITIVE_INFINITY };
  #limitAt = Number.POSITIVE_INFINITY;
  readonly #giveBack: (broken: boolean) => void;

  constructor({ client }: Kept, giveBack: (broken: boolean) => void) {
    this.client = client;
    this.#giveBack = giveBack;
  }

  get deadlineAt(): number {
    return Math.min(this.#waiting.deadlineAt, this.#limitAt);
  }

  stopAt(waiting: Pick<Waiting, 'deadlineAt'>, limitAt = Number.POSITIVE_INFINITY): void {
    this.#waiting = waiting;
    this.#limitAt = limitAt;
  }

  release(broken = false): void {
    this.#giveBack(broken || this.stopped);
  }
}
