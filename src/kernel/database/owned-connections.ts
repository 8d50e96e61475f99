/**
 * Connections that one piece of work has for itself: a statement of unknown length, a transaction.
 * They are made when they are requested and closed when they were idle for a while.
 */
import type pg from 'pg';
import type { Logger } from '../telemetry/logger.ts';
import { type ClientOptions, clientConfig, GuardedClient, prepareSession } from './connection.ts';
import { cancelRunning } from './end-sessions.ts';
import { unavailable } from './failures.ts';
import { FairTurns, type TurnBounds, type TurnFigures, type Waiting } from './fair-turns.ts';

export interface OwnedConnectionsOptions {
  readonly connection: ClientOptions;
  readonly bounds: TurnBounds;
  readonly log: Logger;
}

export interface OwnedConnection {
  readonly client: pg.Client;
  /** What is sent from now on is stopped at this time (clock of `performance.now()`). */
  stopAt(deadlineAt: number): void;
  /** It was stopped by us. */
  readonly stopped: boolean;
  /** Gives the connection back; a broken or stopped one is closed. */
  release(broken?: boolean): void;
}

const IDLE_MS = 30_000;
/** How exactly a deadline is kept, in ms. */
const WATCH_MS = 25;

interface Kept {
  readonly client: pg.Client;
  broken: boolean;
  idleSince: number;
}

export class OwnedConnections {
  readonly #options: OwnedConnectionsOptions;
  readonly #turns: FairTurns;
  readonly #idle: Kept[] = [];
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
      const kept = this.#idle.pop() ?? (await this.#open());
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
    if (broken || kept.broken || this.#ending) {
      kept.broken = true;
      const ended = kept.client.end().catch(() => undefined);
      if (this.#lent.size === 0) void ended.then(() => this.#ending?.resolve());
      return;
    }
    kept.idleSince = performance.now();
    this.#idle.push(kept);
  }

  /** Those that were used last are at the end. */
  #closeIdle(): void {
    const before = performance.now() - IDLE_MS;
    while (this.#idle[0] && this.#idle[0].idleSince < before) {
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
  deadlineAt = Number.POSITIVE_INFINITY;
  readonly #giveBack: (broken: boolean) => void;

  constructor({ client }: Kept, giveBack: (broken: boolean) => void) {
    this.client = client;
    this.#giveBack = giveBack;
  }

  stopAt(deadlineAt: number): void {
    this.deadlineAt = deadlineAt;
  }

  release(broken = false): void {
    this.#giveBack(broken || this.stopped);
  }
}
