/**
 * Connections of one kind that many share: the first is there from the start, further ones are opened, one after the
 * other, while those that are there have something to do, and closed when they had nothing to do for a while.
 */
import type pg from 'pg';
import type { Logger } from '../telemetry/logger.ts';
import {
  type ClientOptions,
  clientConfig,
  GuardedClient,
  keepTrying,
  prepareSession,
} from './connection.ts';
import { StatementSender } from './statement-sender.ts';

export interface SharedConnectionsOptions {
  readonly connection: ClientOptions;
  /** The most that are opened. */
  readonly size: number;
  /** Statements that are on one connection at a time, the running one included. Those behind it cannot be taken back. */
  readonly depth: number;
  readonly log: Logger;
  /** One that had nothing to do for this long, or twice as long at most, is closed; 60,000 unless set. */
  readonly idleMs?: number;
  /** How many stay open without anything to do; 1 unless set. */
  readonly kept?: 0 | 1;
}

export interface SharedConnection {
  readonly client: pg.Client;
  readonly sender: StatementSender;
  inFlight: number;
  /** Since the last look for idle ones. */
  isUsed: boolean;
}

const IDLE_MS = 60_000;
/** After the server has refused a further one, while others work. */
const REFUSED_MS = 1_000;

export class SharedConnections {
  readonly #options: SharedConnectionsOptions;
  readonly #onRoom: () => void;
  /** Those that are asked first come first, so that the last ones become idle. */
  readonly #all: SharedConnection[] = [];
  readonly #cleaner: NodeJS.Timeout;
  #opening = false;
  #refusedUntil = 0;
  #closed = false;

  /** `onRoom`: a connection is there that was not. */
  constructor(options: SharedConnectionsOptions, onRoom: () => void) {
    this.#options = options;
    this.#onRoom = onRoom;
    this.#cleaner = setInterval(() => this.#closeIdle(), options.idleMs ?? IDLE_MS).unref();
  }

  /** Opens the first one; rejects when that fails. */
  async open(): Promise<void> {
    try {
      await this.#connect();
    } catch (error) {
      await this.close();
      throw error;
    }
  }

  /** No statement can be sent now. */
  get isDown(): boolean {
    return this.#closed || this.#all.length === 0;
  }

  /** The one that has least to do, if there is room on it. `together`: rather one that writes in this turn anyway. */
  take(together: boolean): SharedConnection | undefined {
    const { depth } = this.#options;
    let best: SharedConnection | undefined;
    for (const one of this.#all) {
      if (one.inFlight >= depth) continue;
      if (together && one.sender.held > 0) return one;
      if (best === undefined || one.inFlight < best.inFlight) best = one;
    }
    if (best === undefined || best.inFlight > 0) this.#grow();
    return best;
  }

  /** Takes a dead one out of use. */
  drop(dead: SharedConnection, error?: unknown): void {
    if (!this.#remove(dead)) return;
    this.#options.log.warn({ err: error }, 'A database connection was lost and is being replaced');
    if (this.#all.length === 0) this.#grow();
  }

  figures(): { readonly total: number; readonly idle: number; readonly running: number } {
    const all = this.#all;
    return {
      total: all.length,
      idle: all.filter(({ inFlight }) => inFlight === 0).length,
      running: all.reduce((sum, { inFlight }) => sum + inFlight, 0),
    };
  }

  /** Statements that were sent are answered first. */
  async close(): Promise<void> {
    this.#closed = true;
    clearInterval(this.#cleaner);
    await Promise.all(this.#all.map(({ client }) => client.end().catch(() => undefined)));
  }

  /**
   * Opens one more, unless one is being opened. While there is none at all it goes on until there is one; otherwise a
   * failure harms nobody, and is forgotten after a moment.
   */
  #grow(): void {
    const { size, log } = this.#options;
    if (this.#opening || this.#all.length >= size || performance.now() < this.#refusedUntil) return;
    this.#opening = true;
    let failure: unknown;
    const isEnough = (): boolean => this.#closed || (failure !== undefined && this.#all.length > 0);
    const attempt = async (): Promise<void> => {
      try {
        await this.#connect();
        failure = undefined;
      } catch (error) {
        failure = error;
        throw error;
      }
    };
    void keepTrying(attempt, isEnough).then(() => {
      this.#opening = false;
      if (failure !== undefined && !this.#closed) {
        this.#refusedUntil = performance.now() + REFUSED_MS;
        log.warn({ err: failure }, 'A further database connection could not be opened');
      }
      this.#onRoom();
    });
  }

  async #connect(): Promise<void> {
    const { connection } = this.#options;
    const client = new GuardedClient(clientConfig({ ...connection, pipeline: true }));
    let opened: SharedConnection | undefined;
    const lost = (error?: Error): void => {
      if (opened) this.drop(opened, error);
    };
    client.on('error', lost);
    client.on('end', () => lost());
    try {
      await client.connect();
      await prepareSession(client, connection);
    } catch (error) {
      void client.end().catch(() => undefined);
      throw error;
    }
    if (this.#closed) return void (await client.end());
    opened = { client, sender: new StatementSender(client), inFlight: 0, isUsed: true };
    this.#all.push(opened);
  }

  #closeIdle(): void {
    for (const one of this.#all.slice(this.#options.kept ?? 1)) {
      if (one.inFlight === 0 && !one.isUsed) this.#remove(one);
      one.isUsed = false;
    }
  }

  #remove(one: SharedConnection): boolean {
    const at = this.#all.indexOf(one);
    if (at < 0 || this.#closed) return false;
    this.#all.splice(at, 1);
    void one.client.end().catch(() => undefined);
    return true;
  }
}
