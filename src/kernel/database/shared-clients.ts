/**
 * A few connections that everybody shares for short statements: the driver sends them one behind the
 * other without waiting (pipelining). What turns out not to be short is stopped by PostgreSQL (the
 * sessions have short limits) and run elsewhere, so that nobody waits behind it for long. A connection that dies is
 * replaced at once; its neighbours carry on.
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
import type { ClassFigures, QueryResult } from './database.ts';
import {
  isConnectionLoss,
  isStalePlan,
  replacesConnection,
  toPublicError,
  unavailable,
} from './failures.ts';
import { waitedTooLong } from './fair-turns.ts';
import { isRead, isTimeOver, type Lane, type StatementRun } from './owned-statements.ts';
import { type OnAnswer, UndoneError } from './shared-statement.ts';
import { SlowTables, tableOf } from './slow-tables.ts';
import type { StatementNames } from './sql.ts';
import { StatementSender } from './statement-sender.ts';
import type { StatementTimings } from './statement-timings.ts';
import { type Together, TogetherRules } from './together.ts';
import { WaitingLine } from './waiting-line.ts';

export interface SharedClients extends Lane {
  figures(): ClassFigures & {
    readonly total: number;
    readonly idle: number;
    readonly moved: number;
  };
  close(): Promise<void>;
}

export interface SharedClientsOptions {
  readonly connection: ClientOptions;
  readonly size: number;
  /** Statements that are on one connection at a time, the running one included. Those behind it cannot be taken back. */
  readonly depth: number;
  readonly together?: Together;
  readonly names: StatementNames;
  /** Where what takes too long is run. */
  readonly elsewhere: Lane;
  readonly timings?: StatementTimings | undefined;
  readonly log: Logger;
}

interface Slot {
  /** `undefined` while the connection is being made. */
  client: pg.Client | undefined;
  sender: StatementSender | undefined;
  inFlight: number;
}

/** A statement on its way. */
interface Job extends StatementRun {
  /** How often it may be sent again. */
  again: number;
  /** It is a transaction of its own: others have failed beside it. */
  alone: boolean;
  readonly resolve: (result: QueryResult<unknown>) => void;
  readonly reject: (error: unknown) => void;
}

/** How it was sent. */
interface Sent {
  readonly name: string | undefined;
  readonly together: boolean;
}

/** How long a statement waits for a connection when all are down. */
const OUTAGE_PATIENCE_MS = 3_000;

/** Opens the connections; rejects when the first attempt fails. */
export async function openSharedClients(options: SharedClientsOptions): Promise<SharedClients> {
  const clients = new PipelinedClients(options);
  await clients.open();
  return clients;
}

class PipelinedClients implements SharedClients {
  readonly #options: SharedClientsOptions;
  readonly #slots: readonly Slot[];
  readonly #slow = new SlowTables();
  readonly #line: WaitingLine<Job>;
  readonly #together: TogetherRules;
  #moved = 0;
  #closed = false;

  constructor(options: SharedClientsOptions) {
    this.#options = options;
    this.#together = new TogetherRules(options.together ?? 'none');
    this.#slots = Array.from({ length: options.size }, () => ({
      client: undefined,
      sender: undefined,
      inFlight: 0,
    }));
    this.#line = new WaitingLine({
      untilOf: ({ waiting }) =>
        Math.min(
          waiting.deadlineAt,
          this.#isDown() ? waiting.since + OUTAGE_PATIENCE_MS : waiting.patientUntil,
        ),
      refuse: ({ reject, waiting }, now) =>
        reject(this.#isDown() ? unavailable() : waitedTooLong(waiting, now)),
    });
  }

  async open(): Promise<void> {
    try {
      await Promise.all(this.#slots.map((slot) => this.#connect(slot)));
    } catch (error) {
      await this.close();
      throw error;
    }
  }

  run<R>(request: StatementRun): Promise<QueryResult<R>> {
    return new Promise((resolve, reject) => {
      const { statement, waiting, ran } = request;
      const again = this.#options.size;
      this.#place({
        statement,
        waiting,
        again,
        alone: false,
        resolve: resolve as Job['resolve'],
        reject,
        ...(ran && { ran }),
      });
    });
  }

  figures() {
    const connected = this.#slots.filter((slot) => slot.client !== undefined);
    return {
      total: connected.length,
      idle: connected.filter((slot) => slot.inFlight === 0).length,
      running: connected.reduce((sum, slot) => sum + slot.inFlight, 0),
      moved: this.#moved,
      ...this.#line.figures(),
    };
  }

  /** Statements that were sent are answered first. */
  async close(): Promise<void> {
    this.#closed = true;
    this.#line.close();
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
    slot.sender = new StatementSender(client);
    this.#next();
  }

  /** Takes a dead connection out of use and starts to replace it. */
  #drop(slot: Slot, client: pg.Client, error?: unknown): void {
    if (slot.client !== client) return;
    slot.client = undefined;
    slot.sender = undefined;
    slot.inFlight = 0;
    if (this.#closed) return;
    this.#options.log.warn({ err: error }, 'A database connection was lost and is being replaced');
    void client.end().catch(() => undefined);
    void keepTrying(
      () => this.#connect(slot),
      () => this.#closed,
    );
  }

  #isDown(): boolean {
    return this.#closed || this.#slots.every(({ client }) => client === undefined);
  }

  #slotFor(together: boolean): Slot | undefined {
    const { depth } = this.#options;
    let best: Slot | undefined;
    for (const slot of this.#slots) {
      if (slot.client === undefined || slot.inFlight >= depth) continue;
      if (together && slot.sender !== undefined && slot.sender.held > 0) return slot;
      if (best === undefined || slot.inFlight < best.inFlight) best = slot;
    }
    return best;
  }

  /** Sends a statement, or lets it wait for its turn. */
  #place(job: Job): void {
    const { deadlineAt } = job.waiting;
    const isLate = deadlineAt !== Number.POSITIVE_INFINITY && performance.now() >= deadlineAt;
    const slot = this.#line.length === 0 ? this.#slotFor(this.#isTogether(job)) : undefined;
    if (this.#closed) job.reject(unavailable());
    else if (isLate) job.reject(waitedTooLong(job.waiting, deadlineAt));
    else if (this.#isApart(job)) this.#runElsewhere(job);
    else if (slot) this.#send(slot, job);
    else this.#line.push(job);
  }

  #isApart({ statement }: Job): boolean {
    return this.#slow.size > 0 && this.#slow.isSlow(tableOf(statement));
  }

  /** Lets those who wait go on, as far as there is room. */
  #next(): void {
    while (this.#line.length > 0) {
      const slot = this.#slotFor(this.#options.together !== 'none');
      const job = slot && this.#line.shift();
      if (!job) return;
      if (this.#isApart(job)) this.#runElsewhere(job);
      else this.#send(slot, job);
    }
  }

  #runElsewhere(job: Job): void {
    this.#moved += 1;
    const { statement, waiting } = job;
    this.#slow
      .apart(tableOf(statement), (ran) => this.#options.elsewhere.run({ statement, waiting, ran }))
      .then(job.resolve, job.reject);
  }

  #send(slot: Slot, job: Job): void {
    const { client, sender } = slot;
    if (client === undefined || sender === undefined)
      throw new Error('A statement was given to a connection that is not there');
    const { statement, waiting } = job;
    const query = this.#options.names.toQuery(statement);
    const together = this.#isTogether(job);
    slot.inFlight += 1;
    this.#together.sent(statement);
    const onAnswer: OnAnswer = (error, result) => {
      if (slot.client === client) slot.inFlight -= 1;
      this.#together.answered(statement);
      this.#options.timings?.note(statement, performance.now() - waiting.since);
      if (error) {
        if (replacesConnection(error)) this.#drop(slot, client, error);
        this.#failed(job, error, { name: query.name, together });
      } else job.resolve({ rows: result?.rows ?? [], count: result?.rowCount ?? 0 });
      if (this.#line.length > 0) this.#next();
    };
    sender.send(query, onAnswer, together);
  }

  /** Whether it may be one transaction with others. */
  #isTogether({ statement, alone }: Job): boolean {
    return !alone && this.#together.permits(statement);
  }

  /**
   * Sends again where that is safe: a read whose connection died (others may be dead as well, unnoticed so far), a
   * statement that has to be prepared anew, one that PostgreSQL has undone because another one of its transaction failed,
   * or one that it has stopped and undone because it was not short.
   */
  #failed(job: Job, error: Error, sent: Sent): void {
    const { statement } = job;
    if (error instanceof UndoneError) {
      job.alone = true;
      this.#place(job);
      return;
    }
    if (sent.together) this.#together.failed(statement);
    const stale = isStalePlan(error);
    if (stale) this.#options.names.renew(statement, sent.name);
    if (isTimeOver(error)) {
      this.#slow.mark(tableOf(statement));
      this.#runElsewhere(job);
    } else if (job.again > 0 && (stale || (isConnectionLoss(error) && isRead(statement.text)))) {
      job.again -= 1;
      this.#place(job);
    } else job.reject(toPublicError(error));
  }
}
