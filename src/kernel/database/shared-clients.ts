/**
 * A few connections that everybody shares for single statements: the driver
 * sends them one behind the other without waiting (pipelining). A connection
 * that dies is replaced at once; its neighbours carry on.
 */
import pg from 'pg';
import type { Logger } from '../telemetry/logger.ts';
import { type ClientOptions, clientConfig, prepareSession } from './connection.ts';
import type { Queryable, QueryResult, Statement } from './database.ts';
import { isConnectionLoss, isStalePlan, toPublicError, unavailable } from './failures.ts';
import { GuardedClient } from './guarded-client.ts';
import { keepTrying } from './reconnect.ts';
import type { StatementNames } from './statement-names.ts';
import type { StatementTimings } from './timings.ts';

export interface SharedClients extends Queryable {
  /** `waiting`: statements that were sent while their connection was busy with another. */
  counts(): { readonly total: number; readonly idle: number; readonly waiting: number };
  close(): Promise<void>;
}

export interface SharedClientsOptions {
  readonly connection: ClientOptions;
  readonly size: number;
  readonly names: StatementNames;
  readonly timings?: StatementTimings | undefined;
  readonly log: Logger;
}

interface Slot {
  /** `undefined` while the connection is being made. */
  client: pg.Client | undefined;
  inFlight: number;
}

/** How long a statement waits for a connection when all are down. */
const PATIENCE_MS = 3_000;

/** A statement that changes nothing, as far as its first word tells; it may be sent twice. */
export const isRead = (text: string): boolean => /^\s*select\b/i.test(text);

/** Opens the connections; rejects when the first attempt fails. */
export async function openSharedClients(options: SharedClientsOptions): Promise<SharedClients> {
  const clients = new PipelinedClients(options);
  await clients.open();
  return clients;
}

class PipelinedClients implements SharedClients {
  readonly #options: SharedClientsOptions;
  readonly #slots: readonly Slot[];
  readonly #waiting = new Set<() => void>();
  #closed = false;

  constructor(options: SharedClientsOptions) {
    this.#options = options;
    this.#slots = Array.from({ length: options.size }, () => ({ client: undefined, inFlight: 0 }));
  }

  async open(): Promise<void> {
    try {
      await Promise.all(this.#slots.map((slot) => this.#connect(slot)));
    } catch (error) {
      await this.close();
      throw error;
    }
  }

  query<R>(statement: Statement): Promise<QueryResult<R>> {
    const slot = this.#leastBusy();
    return slot ? this.#sendOn<R>(slot, statement) : this.#nextConnected().then((later) => this.#sendOn<R>(later, statement));
  }

  counts() {
    const connected = this.#slots.filter((slot) => slot.client !== undefined);
    return {
      total: connected.length,
      idle: connected.filter((slot) => slot.inFlight === 0).length,
      waiting: connected.reduce((sum, slot) => sum + Math.max(0, slot.inFlight - 1), 0),
    };
  }

  /** Statements that were sent are answered first. */
  async close(): Promise<void> {
    this.#closed = true;
    this.#wakeAll();
    await Promise.all(this.#slots.map((slot) => slot.client?.end().catch(() => undefined)));
  }

  async #connect(slot: Slot): Promise<void> {
    const { connection } = this.#options;
    const client = new GuardedClient(clientConfig({ ...connection, pipeline: true }));
    client.on('error', (error) => this.#drop(slot, client, error));
    client.on('end', () => this.#drop(slot, client));
    try {
      await client.connect();
      await prepareSession(client, connection);
    } catch (error) {
      void client.end().catch(() => undefined);
      throw error;
    }
    if (this.#closed) return void (await client.end());
    slot.client = client;
    this.#wakeAll();
  }

  /** Takes a dead connection out of use and starts to replace it. */
  #drop(slot: Slot, client: pg.Client, error?: unknown): void {
    if (slot.client !== client) return;
    slot.client = undefined;
    slot.inFlight = 0;
    if (this.#closed) return;
    this.#options.log.warn({ err: error }, 'A database connection was lost and is being replaced');
    void client.end().catch(() => undefined);
    void keepTrying(
      () => this.#connect(slot),
      () => this.#closed,
    );
  }

  #leastBusy(): Slot | undefined {
    let best: Slot | undefined;
    for (const slot of this.#slots) {
      if (slot.client !== undefined && (best === undefined || slot.inFlight < best.inFlight)) best = slot;
    }
    return best;
  }

  /** A slot that is connected, after waiting a little when none is. */
  async #nextConnected(): Promise<Slot> {
    const deadline = Date.now() + PATIENCE_MS;
    for (;;) {
      const slot = this.#leastBusy();
      const left = deadline - Date.now();
      if (this.#closed || (!slot && left <= 0)) throw unavailable();
      if (slot) return slot;
      await this.#woken(left);
    }
  }

  #woken(timeoutMs: number): Promise<void> {
    return new Promise((resolve) => {
      const wake = (): void => {
        clearTimeout(timer);
        this.#waiting.delete(wake);
        resolve();
      };
      const timer = setTimeout(wake, timeoutMs);
      this.#waiting.add(wake);
    });
  }

  #wakeAll(): void {
    for (const wake of this.#waiting) wake();
  }

  /**
   * Sends, and sends again where that is safe: a read whose connection died (others may be dead as
   * well, unnoticed so far), or a statement that has to be prepared afresh.
   */
  async #sendOn<R>(first: Slot, statement: Statement): Promise<QueryResult<R>> {
    const { names, size } = this.#options;
    let slot = first;
    for (let again = size; ; again -= 1) {
      const query = names.toQuery(statement);
      const sentAs = query.name;
      try {
        return await this.#send<R>(slot, query, statement);
      } catch (error) {
        if (isStalePlan(error)) names.renew(statement, sentAs);
        else if (!isConnectionLoss(error) || !isRead(statement.text)) throw toPublicError(error);
        if (again === 0) throw toPublicError(error);
      }
      slot = await this.#nextConnected();
    }
  }

  #send<R>(slot: Slot, query: pg.QueryConfig<unknown[]>, statement: Statement): Promise<QueryResult<R>> {
    const { timings } = this.#options;
    return new Promise((resolve, reject) => {
      const { client } = slot;
      if (client === undefined) return reject(unavailable());
      slot.inFlight += 1;
      const begin = timings ? performance.now() : 0;
      const onAnswer = (error: Error | undefined | null, result: unknown): void => {
        if (slot.client === client) slot.inFlight -= 1;
        timings?.note(statement, performance.now() - begin);
        if (!error) {
          const { rows, rowCount } = result as pg.QueryResult;
          resolve({ rows: rows as R[], count: rowCount ?? 0 });
          return;
        }
        if (isConnectionLoss(error)) this.#drop(slot, client, error);
        reject(error);
      };
      // Handed over ready-made: the driver copies a configuration object property by property, on each statement.
      const submitted: pg.Query & { name?: string | undefined } = new pg.Query(query.text, query.values, onAnswer);
      submitted.name = query.name;
      client.query(submitted);
    });
  }
}
