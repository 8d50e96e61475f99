/**
 * A few connections that everybody shares for short statements: they are sent one behind the
 * other without waiting (pipelining). What turns out not to be short is stopped by PostgreSQL (the
 * sessions have short limits) and run elsewhere, so that nobody waits behind it for long. A connection that dies is
 * replaced when it is missed; its neighbours carry on.
 */
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
import {
  type SharedConnection,
  SharedConnections,
  type SharedConnectionsOptions,
} from './shared-connections.ts';
import { type OnAnswer, UndoneError } from './shared-statement.ts';
import { SlowTables, tableOf } from './slow-tables.ts';
import type { StatementNames } from './sql.ts';
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

export interface SharedClientsOptions extends SharedConnectionsOptions {
  readonly together?: Together;
  readonly names: StatementNames;
  /** Where what takes too long is run. */
  readonly elsewhere: Lane;
  readonly timings?: StatementTimings | undefined;
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

/** Opens the first connection, where one is kept; rejects when that fails. */
export async function openSharedClients(options: SharedClientsOptions): Promise<SharedClients> {
  const clients = new PipelinedClients(options);
  if (options.kept !== 0) await clients.open();
  return clients;
}

class PipelinedClients implements SharedClients {
  readonly #options: SharedClientsOptions;
  readonly #connections: SharedConnections;
  readonly #slow = new SlowTables();
  readonly #line: WaitingLine<Job>;
  readonly #together: TogetherRules;
  #moved = 0;
  #closed = false;

  constructor(options: SharedClientsOptions) {
    this.#options = options;
    this.#together = new TogetherRules(options.together ?? 'none');
    this.#connections = new SharedConnections(options, () => this.#next());
    this.#line = new WaitingLine({
      untilOf: ({ waiting }) =>
        Math.min(
          waiting.deadlineAt,
          this.#connections.isDown ? waiting.since + OUTAGE_PATIENCE_MS : waiting.patientUntil,
        ),
      refuse: ({ reject, waiting }, now) =>
        reject(this.#connections.isDown ? unavailable() : waitedTooLong(waiting, now)),
    });
  }

  open(): Promise<void> {
    return this.#connections.open();
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
    return { ...this.#connections.figures(), moved: this.#moved, ...this.#line.figures() };
  }

  async close(): Promise<void> {
    this.#closed = true;
    this.#line.close();
    await this.#connections.close();
  }

  /** Sends a statement, or lets it wait for its turn. */
  #place(job: Job): void {
    const { deadlineAt } = job.waiting;
    const isLate = deadlineAt !== Number.POSITIVE_INFINITY && performance.now() >= deadlineAt;
    if (this.#closed) job.reject(unavailable());
    else if (isLate) job.reject(waitedTooLong(job.waiting, deadlineAt));
    else if (this.#isApart(job)) this.#runElsewhere(job);
    else this.#sendOrWait(job);
  }

  #sendOrWait(job: Job): void {
    const isNext = this.#line.length === 0;
    const connection = isNext ? this.#connections.take(this.#isTogether(job)) : undefined;
    if (connection) this.#send(connection, job);
    else if (this.#options.kept === 0 && this.#connections.isDown) this.#runBeside(job);
    else this.#line.push(job);
  }

  #isApart({ statement }: Job): boolean {
    return this.#slow.size > 0 && this.#slow.isSlow(tableOf(statement));
  }

  /** Lets those who wait go on, as far as there is room. */
  #next(): void {
    while (this.#line.length > 0) {
      const connection = this.#connections.take(this.#options.together !== 'none');
      const job = connection && this.#line.shift();
      if (!job) return;
      if (this.#isApart(job)) this.#runElsewhere(job);
      else this.#send(connection, job);
    }
  }

  #runElsewhere(job: Job): void {
    this.#moved += 1;
    const { statement, waiting } = job;
    this.#slow
      .apart(tableOf(statement), (ran) => this.#options.elsewhere.run({ statement, waiting, ran }))
      .then(job.resolve, job.reject);
  }

  /** Until a connection is there. */
  #runBeside({ statement, waiting, resolve, reject }: Job): void {
    this.#options.elsewhere.run({ statement, waiting }).then(resolve, reject);
  }

  #send(connection: SharedConnection, job: Job): void {
    const { statement, waiting } = job;
    const query = this.#options.names.toQuery(statement);
    const together = this.#isTogether(job);
    connection.inFlight += 1;
    connection.isUsed = true;
    this.#together.sent(statement);
    const onAnswer: OnAnswer = (error, result) => {
      connection.inFlight -= 1;
      this.#together.answered(statement);
      this.#options.timings?.note(statement, performance.now() - waiting.since);
      if (error) {
        if (replacesConnection(error)) this.#connections.drop(connection, error);
        this.#failed(job, error, { name: query.name, together });
      } else job.resolve({ rows: result?.rows ?? [], count: result?.rowCount ?? 0 });
      if (this.#line.length > 0) this.#next();
    };
    try {
      connection.sender.send(query, onAnswer, together);
      if (statement.gathered) connection.sender.release();
    } catch (error) {
      // A value that cannot be written: nothing was sent.
      onAnswer(error as Error, undefined);
    }
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
