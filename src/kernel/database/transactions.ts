/**
 * Transactions, known to everything that runs inside them: a statement or a
 * transaction of the same asynchronous flow joins the one that is open.
 */
import { AsyncLocalStorage } from 'node:async_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import type pg from 'pg';
import type { Logger } from '../telemetry/logger.ts';
import type { QueryResult, Statement, Transaction, TransactionOptions } from './database.ts';
import { isConnectionLoss, isStalePlan, isTransient, toPublicError } from './failures.ts';
import type { StatementNames } from './statement-names.ts';

type AfterCommit = () => void | Promise<void>;

/** The open transaction of this flow. */
export interface Ambient extends Transaction {
  /** True once committed or rolled back: work that outlives it runs outside of it. */
  readonly finished: boolean;
  /** Keeps the transaction from committing, because a part of it failed. */
  doom(reason: unknown): void;
}

export interface Transactions {
  /** The open transaction of this flow, if there is one. */
  current(): Ambient | undefined;
  run<T>(work: (transaction: Transaction) => Promise<T>, options?: TransactionOptions): Promise<T>;
  /** Runs `work` as if outside of any transaction. */
  outside<T>(work: () => T): T;
}

const DEFAULT_ATTEMPTS = 3;
const RETRY_DELAY_MS = 5;

const beginText = ({ isolation, readOnly }: TransactionOptions): string =>
  `begin${isolation ? ` isolation level ${isolation}` : ''}${readOnly ? ' read only' : ''}`;

interface TransactionsOptions {
  readonly pool: pg.Pool;
  readonly names: StatementNames;
  readonly log: Logger;
}

export function createTransactions({ pool, names, log }: TransactionsOptions): Transactions {
  const store = new AsyncLocalStorage<Ambient | undefined>();

  const current = (): Ambient | undefined => {
    const ambient = store.getStore();
    return ambient === undefined || ambient.finished ? undefined : ambient;
  };

  async function once<T>(work: (transaction: Transaction) => Promise<T>, options: TransactionOptions): Promise<T> {
    const client = await begin(pool, beginText(options));
    const open = new OpenTransaction(client, names);
    let broken: unknown;
    const onError = (error: Error): void => {
      broken = error;
    };
    client.on('error', onError);
    try {
      const value = await store.run(open, () => work(open));
      await open.commit();
      return value;
    } catch (error) {
      open.finished = true;
      await client.query('rollback').catch((failure: unknown) => {
        broken ??= failure;
      });
      throw error;
    } finally {
      client.off('error', onError);
      client.release(broken !== undefined);
      // After release, so that the work can take the connection for itself.
      if (open.committed) await store.run(undefined, () => runAll(open.afterwards, log));
    }
  }

  async function outermost<T>(work: (transaction: Transaction) => Promise<T>, options: TransactionOptions): Promise<T> {
    const attempts = options.attempts ?? DEFAULT_ATTEMPTS;
    for (let attempt = 1; ; attempt += 1) {
      try {
        return await once(work, options);
      } catch (error) {
        if (attempt >= attempts || !(isTransient(error) || isStalePlan(error))) throw toPublicError(error);
        await sleep(RETRY_DELAY_MS * attempt * (1 + Math.random()));
      }
    }
  }

  return {
    current,
    outside: (work) => store.run(undefined, work),
    run(work, options = {}) {
      const ambient = current();
      return ambient ? join(ambient, work) : outermost(work, options);
    },
  };
}

/** A connection on which a transaction is open. Idle connections that died unnoticed are passed over. */
async function begin(pool: pg.Pool, text: string): Promise<pg.PoolClient> {
  for (let left = pool.options.max; ; left -= 1) {
    const client = await pool.connect();
    const ignore = (): void => undefined;
    client.on('error', ignore);
    try {
      await client.query(text);
      return client;
    } catch (error) {
      client.release(true);
      if (left <= 0 || !isConnectionLoss(error)) throw error;
    } finally {
      client.off('error', ignore);
    }
  }
}

/** A part of an open transaction. When it fails, the whole fails, also if somebody catches its error. */
async function join<T>(ambient: Ambient, work: (transaction: Transaction) => Promise<T>): Promise<T> {
  try {
    return await work(ambient);
  } catch (error) {
    ambient.doom(error);
    throw error;
  }
}

/** Runs what was put off until the commit, in order. Nobody is left who could handle an error, so it is logged. */
async function runAll(work: readonly AfterCommit[], log: Logger): Promise<void> {
  for (const item of work) {
    try {
      await item();
    } catch (error) {
      log.error({ err: error }, 'Work after a commit failed');
    }
  }
}

class OpenTransaction implements Ambient {
  readonly afterwards: AfterCommit[] = [];
  finished = false;
  committed = false;
  readonly #client: pg.PoolClient;
  readonly #names: StatementNames;
  #failure: { readonly error: unknown } | undefined;
  #statementFailure: unknown;

  constructor(client: pg.PoolClient, names: StatementNames) {
    this.#client = client;
    this.#names = names;
  }

  async query<R>(statement: Statement): Promise<QueryResult<R>> {
    if (this.finished) throw new Error('A statement was sent to a transaction that has ended: await all work before it returns');
    const query = this.#names.toQuery(statement);
    const sentAs = query.name;
    try {
      const result = await this.#client.query(query);
      return { rows: result.rows as R[], count: result.rowCount ?? 0 };
    } catch (error) {
      if (isStalePlan(error)) this.#names.renew(statement, sentAs);
      this.#statementFailure ??= error;
      // The retry of the outermost transaction wants to see these as they are.
      throw isTransient(error) || isStalePlan(error) ? error : toPublicError(error);
    }
  }

  afterCommit(work: AfterCommit): void {
    this.afterwards.push(work);
  }

  doom(error: unknown): void {
    this.#failure ??= { error };
  }

  async commit(): Promise<void> {
    if (this.#failure) throw this.#failure.error;
    // From here on nothing joins: a statement behind the commit would stand alone.
    this.finished = true;
    const { command } = await this.#client.query('commit');
    // PostgreSQL answers ROLLBACK to COMMIT when a statement had failed and the failure was swallowed.
    if (command !== 'COMMIT') throw this.#statementFailure ?? new Error('The transaction was rolled back');
    this.committed = true;
  }
}
