/** One open transaction: what runs on it, and how it ends. */

import { errors } from '../errors.ts';
import { currentAccount } from '../request-account/request-account.ts';
import type {
  AfterCommit,
  AfterCommitOptions,
  QueryResult,
  Statement,
  Transaction,
} from './database.ts';
import {
  codeOf,
  isConnectionLoss,
  isStalePlan,
  isTransient,
  replacesConnection,
  toPublicError,
} from './failures.ts';
import { outOfTime, type Waiting, waitingNow } from './fair-turns.ts';
import type { OwnedConnection, OwnedConnections } from './owned-connections.ts';
import { send } from './owned-statements.ts';
import { tableOf } from './slow-tables.ts';
import type { StatementNames } from './sql.ts';
import type { StatementTimings } from './statement-timings.ts';

/** What was put off until the commit. */
export interface PutOff extends AfterCommitOptions {
  readonly work: AfterCommit;
}

/** The open transaction of this flow. */
export interface Ambient extends Transaction {
  /** True once committed or rolled back: work that outlives it runs outside of it. */
  readonly finished: boolean;
  /** Keeps the transaction from committing, because a part of it failed. */
  doom(reason: unknown): void;
}

export interface OpenTransactionOptions {
  readonly connections: OwnedConnections;
  readonly names: StatementNames;
  readonly timings?: StatementTimings | undefined;
  /** The statement that begins it. */
  readonly begin: string;
  /** It begins as read only. */
  readonly readOnly: boolean;
}

/** Rules that are looked at only now: tables of others may have such (`deferrable initially deferred`). */
function refused(error: unknown): never {
  if (!codeOf(error)?.startsWith('23')) throw error;
  throw errors.CONFLICT({ message: 'What was changed does not fit what is stored', cause: error });
}

/** Takes its connection with its first statement, in the turn of that statement's table. */
export class OpenTransaction implements Ambient {
  readonly afterwards: PutOff[] = [];
  finished = false;
  committed = false;
  /** The connection was lost with the answer to the commit. */
  inDoubt = false;
  readonly #options: OpenTransactionOptions;
  /** Settles when the first statement has been answered. */
  #opening: Promise<unknown> | undefined;
  #connection: OwnedConnection | undefined;
  #broken = false;
  #failure: { readonly error: unknown } | undefined;
  #statementFailure: unknown;

  constructor(options: OpenTransactionOptions) {
    this.#options = options;
  }

  async query<R>(statement: Statement): Promise<QueryResult<R>> {
    currentAccount()?.charge('statements');
    if (this.finished)
      throw new Error(
        'A statement was sent to a transaction that has ended: await all work before it returns',
      );
    const waiting = waitingNow();
    try {
      if (this.#connection) return await this.#send<R>(this.#connection, statement, waiting);
      if (!this.#opening) {
        const first = this.#first<R>(statement, waiting);
        this.#opening = first.catch(() => undefined);
        return await first;
      }
      await this.#opening;
      if (!this.#connection)
        throw this.#statementFailure ?? new Error('The transaction could not be opened');
      return await this.#send<R>(this.#connection, statement, waiting);
    } catch (error) {
      this.#statementFailure ??= error;
      // The retry of the outermost transaction wants to see these as they are.
      throw isTransient(error) || isStalePlan(error) ? error : toPublicError(error, this.#options);
    } finally {
      this.#options.timings?.note(statement, performance.now() - waiting.since);
    }
  }

  /** Begins together with the first statement. Idle connections that died unnoticed are passed over: nothing was committed on them. */
  async #first<R>(statement: Statement, waiting: Waiting): Promise<QueryResult<R>> {
    const { connections, begin } = this.#options;
    for (let left = connections.size; ; left -= 1) {
      const connection = await connections.acquire(tableOf(statement), waiting);
      const begun = send(connection, { text: begin });
      begun.catch(() => undefined);
      try {
        const result = await this.#send<R>(connection, statement, waiting);
        // Answered before it. Without a transaction each statement would stand alone.
        await begun;
        this.#connection = connection;
        return result;
      } catch (error) {
        if (isConnectionLoss(error)) {
          connection.release(true);
          if (left > 0) continue;
        } else this.#connection = connection;
        throw error;
      }
    }
  }

  async #send<R>(
    connection: OwnedConnection,
    statement: Statement,
    waiting: Waiting,
  ): Promise<QueryResult<R>> {
    if (performance.now() >= waiting.deadlineAt) throw outOfTime();
    connection.stopAt(waiting);
    const query = this.#options.names.toQuery(statement);
    try {
      return await send<R>(connection, query);
    } catch (error) {
      if (isStalePlan(error)) this.#options.names.renew(statement, query.name);
      const isLost = this.#options.readOnly ? isConnectionLoss : replacesConnection;
      if (isLost(error)) this.#broken = true;
      throw error;
    }
  }

  afterCommit(work: AfterCommit, options?: AfterCommitOptions): void {
    this.afterwards.push({ work, ...options });
  }

  doom(error: unknown): void {
    this.#failure ??= { error };
  }

  /** Nothing has failed in it so far. */
  get hasSucceeded(): boolean {
    return this.#failure === undefined && this.#statementFailure === undefined;
  }

  /** Commits, unless something failed or the request has run out of time: it is answered 504 and must not be stored. */
  async commit(): Promise<void> {
    if (this.#failure) throw this.#failure.error;
    // From here on nothing joins: a statement behind the commit would stand alone.
    this.finished = true;
    await this.#opening;
    if (this.#connection) {
      if ((currentAccount()?.remainingMs ?? 1) <= 0) throw this.#statementFailure ?? outOfTime();
      const connection = this.#connection;
      const command = await commandOf(connection).catch((error: unknown) => {
        if (isConnectionLoss(error)) [this.inDoubt, this.#broken] = [true, true];
        return refused(error);
      });
      // PostgreSQL answers ROLLBACK to COMMIT when a statement had failed and the failure was swallowed.
      if (command !== 'COMMIT')
        throw this.#statementFailure ?? new Error('The transaction was rolled back');
    } else if (this.#statementFailure !== undefined) throw this.#statementFailure;
    this.committed = true;
  }

  /** Undoes what was done. */
  async rollback(): Promise<void> {
    this.finished = true;
    await this.#opening;
    if (!this.#connection || this.#broken) return;
    await this.#connection.client.query('rollback').catch(() => {
      this.#broken = true;
    });
  }

  /** Gives the connection back, once it is committed or rolled back. */
  release(): void {
    this.#connection?.release(this.#broken);
  }
}

const commandOf = async ({ client }: OwnedConnection): Promise<string> =>
  (await client.query('commit')).command;
