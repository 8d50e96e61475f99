/**
 * Transactions, known to everything that runs inside them: a statement or a
 * transaction of the same asynchronous flow joins the one that is open.
 */
import { AsyncLocalStorage } from 'node:async_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import { offAccount } from '../account/request-account.ts';
import type { Logger } from '../telemetry/logger.ts';
import { Accompanied, type Companions } from './companions.ts';
import type { QueryResult, Statement, Transaction, TransactionOptions } from './database.ts';
import { isStalePlan, isTransient, toPublicError } from './failures.ts';
import { type AfterCommit, type Ambient, OpenTransaction } from './open-transaction.ts';
import type { OwnedConnections } from './owned-connections.ts';
import type { StatementNames } from './statement-names.ts';
import type { StatementTimings } from './timings.ts';

export interface Transactions {
  /** The open transaction of this flow, if there is one. */
  current(): Ambient | undefined;
  run<T>(work: (transaction: Transaction) => Promise<T>, options?: TransactionOptions): Promise<T>;
  /** A part of the open transaction that may fail by itself; outside of one, a transaction of its own. */
  part<T>(work: (transaction: Transaction) => Promise<T>): Promise<T>;
  /** Runs `work` as if outside of any transaction. */
  outside<T>(work: () => T): T;
}

const DEFAULT_ATTEMPTS = 3;
const RETRY_DELAY_MS = 5;

const beginText = ({ isolation, readOnly }: TransactionOptions): string =>
  `begin${isolation ? ` isolation level ${isolation}` : ''}${readOnly ? ' read only' : ''}`;

interface TransactionsOptions {
  readonly connections: OwnedConnections;
  readonly names: StatementNames;
  readonly companions: Companions;
  readonly timings?: StatementTimings | undefined;
  readonly log: Logger;
}

export function createTransactions({ connections, names, companions, timings, log }: TransactionsOptions): Transactions {
  const store = new AsyncLocalStorage<Ambient | undefined>();
  /** Makes the names of savepoints unique. */
  let parts = 0;

  const current = (): Ambient | undefined => {
    const ambient = store.getStore();
    return ambient === undefined || ambient.finished ? undefined : ambient;
  };

  async function once<T>(work: (transaction: Transaction) => Promise<T>, options: TransactionOptions): Promise<T> {
    const open = new OpenTransaction({ connections, names, timings, begin: beginText(options) });
    const accompanied = new Accompanied(options.readOnly ? undefined : companions.waiting());
    try {
      const value = await store.run(open, () => work(open));
      if (open.isSound) await accompanied.write(open);
      await open.commit();
      return value;
    } catch (error) {
      accompanied.failed();
      await open.rollback();
      throw error;
    } finally {
      open.release();
      // After release, so that the work can take the connection for itself.
      if (open.committed) await store.run(undefined, () => offAccount(() => runAll(open.afterwards, log)));
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

  const run: Transactions['run'] = (work, options = {}) => {
    const ambient = current();
    return ambient ? join(ambient, work) : outermost(work, options);
  };

  async function partOf<T>(ambient: Ambient, work: (transaction: Transaction) => Promise<T>): Promise<T> {
    const name = `part_${++parts}`;
    await ambient.query({ text: `savepoint ${name}` });
    const part = new TransactionPart(ambient);
    try {
      const value = await store.run(part, () => work(part));
      part.close();
      await ambient.query({ text: `release savepoint ${name}` });
      for (const item of part.afterwards) ambient.afterCommit(item);
      return value;
    } catch (error) {
      part.finished = true;
      await ambient.query({ text: `rollback to savepoint ${name}` }).catch((failure: unknown) => ambient.doom(failure));
      throw error;
    }
  }

  return {
    current,
    run,
    part(work) {
      const ambient = current();
      return ambient ? partOf(ambient, work) : run(work);
    },
    outside: (work) => store.run(undefined, work),
  };
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

/** What runs between a savepoint and its end. */
class TransactionPart implements Ambient {
  readonly afterwards: AfterCommit[] = [];
  finished = false;
  readonly #whole: Ambient;
  #failure: { readonly error: unknown } | undefined;

  constructor(whole: Ambient) {
    this.#whole = whole;
  }

  query<R>(statement: Statement): Promise<QueryResult<R>> {
    if (this.finished) throw new Error('A statement was sent to a part of a transaction that has ended');
    return this.#whole.query<R>(statement);
  }

  afterCommit(work: AfterCommit): void {
    this.afterwards.push(work);
  }

  doom(error: unknown): void {
    this.#failure ??= { error };
  }

  /** Throws when something inside failed, also if its error was caught. */
  close(): void {
    if (this.#failure) throw this.#failure.error;
    this.finished = true;
  }
}
