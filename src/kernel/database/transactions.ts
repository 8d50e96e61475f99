/**
 * Transactions, known to everything that runs inside them: a statement or a
 * transaction of the same asynchronous flow joins the one that is open.
 */
import { AsyncLocalStorage } from 'node:async_hooks';
import { setTimeout as sleep } from 'node:timers/promises';
import { offAccount } from '../request-account/request-account.ts';
import type { Logger } from '../telemetry/logger.ts';
import type {
  AfterCommit,
  AfterCommitOptions,
  Queryable,
  QueryResult,
  Statement,
  Transaction,
  TransactionHook,
  TransactionOptions,
} from './database.ts';
import { isStalePlan, isTransient, noteDeadlock, toPublicError } from './failures.ts';
import { type Ambient, OpenTransaction, type PutOff } from './open-transaction.ts';
import type { OwnedConnections } from './owned-connections.ts';
import type { StatementNames } from './sql.ts';
import type { StatementTimings } from './statement-timings.ts';

/* What is written with the first change of a piece of work, by the transaction that makes the change. */

interface TransactionHooks {
  run<T>(hook: TransactionHook, work: () => T): T;
  /** That of this flow, while it is still to be written. */
  waiting(): TransactionHook | undefined;
}

export function createTransactionHooks(): TransactionHooks {
  const store = new AsyncLocalStorage<TransactionHook>();
  return {
    run: (hook, work) => store.run(hook, work),
    waiting() {
      const hook = store.getStore();
      return hook?.isWaiting() ? hook : undefined;
    },
  };
}

/**
 * The hook of one transaction: taken when the work is done, given back when it does not commit. Two transactions
 * of one flow that run at the same time do not write it twice.
 */
class HookedTransaction {
  readonly #hook: TransactionHook | undefined;
  #written = false;

  constructor(hook: TransactionHook | undefined) {
    this.#hook = hook;
  }

  /** Right before the commit. The statement itself leaves a transaction alone that has written nothing. */
  async write(transaction: Queryable): Promise<void> {
    if (!this.#hook?.isWaiting()) return;
    const statement = this.#hook.take();
    if (!statement) return;
    try {
      this.#written = (await transaction.query(statement)).count > 0;
    } finally {
      if (!this.#written) this.#hook.giveBack();
    }
  }

  failed(): void {
    if (this.#written) this.#hook?.giveBack();
  }
}

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
  readonly transactionHooks: TransactionHooks;
  readonly timings?: StatementTimings | undefined;
  readonly log: Logger;
}

export function createTransactions(options: TransactionsOptions): Transactions {
  const { connections, names, transactionHooks, timings, log } = options;
  const store = new AsyncLocalStorage<Ambient | undefined>();
  /** Makes the names of savepoints unique. */
  let parts = 0;

  const current = (): Ambient | undefined => {
    const ambient = store.getStore();
    return ambient === undefined || ambient.finished ? undefined : ambient;
  };

  async function once<T>(
    work: (transaction: Transaction) => Promise<T>,
    how: TransactionOptions,
  ): Promise<T> {
    const readOnly = how.readOnly ?? false;
    const begin = beginText(how);
    const open = new OpenTransaction({ connections, names, timings, begin, readOnly });
    const hooked = new HookedTransaction(readOnly ? undefined : transactionHooks.waiting());
    try {
      const value = await store.run(open, () => work(open));
      if (open.hasSucceeded) await hooked.write(open);
      await open.commit();
      return value;
    } catch (error) {
      hooked.failed();
      await open.rollback();
      throw error;
    } finally {
      open.release();
      // After release, so that the work can take the connection for itself.
      const due = open.committed ? open.afterwards : open.afterwards.filter(inDoubtToo);
      if ((open.committed || open.inDoubt) && due.length > 0)
        await store.run(undefined, () => offAccount(() => runAll(due, log)));
    }
  }

  const run: Transactions['run'] = (work, how = {}) => {
    const ambient = current();
    return ambient ? join(ambient, work) : retried(how, log, () => once(work, how));
  };

  return {
    current,
    run,
    part(work) {
      const ambient = current();
      if (!ambient) return run(work);
      return inTurn(ambient, () => partOf(store, ambient, `part_${++parts}`, work));
    },
    outside: (work) => store.run(undefined, work),
  };
}

/** Again after a deadlock and the like, as often as is asked for. Throws what callers may see. */
async function retried<T>(
  { attempts = DEFAULT_ATTEMPTS, readOnly = false }: TransactionOptions,
  log: Logger,
  once: () => Promise<T>,
): Promise<T> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await once();
    } catch (error) {
      if (noteDeadlock(error)) {
        const { detail, where } = error as { readonly detail?: string; readonly where?: string };
        log.warn({ attempt, detail, where }, 'Transactions waited for each other in a circle');
      }
      if (attempt >= attempts || !(isTransient(error) || isStalePlan(error)))
        throw toPublicError(error, { readOnly });
      await sleep(RETRY_DELAY_MS * attempt * (1 + Math.random()));
    }
  }
}

/** The part of each transaction that was begun last. */
const lastParts = new WeakMap<Ambient, Promise<unknown>>();

/**
 * Parts of one transaction that are begun at once go one after the other: the end of a savepoint is the end of all that
 * came after it. A part that waits for one that began later waits for ever.
 */
function inTurn<T>(ambient: Ambient, part: () => Promise<T>): Promise<T> {
  const before = lastParts.get(ambient);
  const mine = before ? before.then(part) : part();
  lastParts.set(
    ambient,
    mine.catch(() => undefined),
  );
  return mine;
}

/** A savepoint: what fails in it is taken back alone. */
async function partOf<T>(
  store: AsyncLocalStorage<Ambient | undefined>,
  ambient: Ambient,
  name: string,
  work: (transaction: Transaction) => Promise<T>,
): Promise<T> {
  await ambient.query({ text: `savepoint ${name}` });
  const part = new TransactionPart(ambient);
  try {
    const value = await store.run(part, () => work(part));
    part.close();
    await ambient.query({ text: `release savepoint ${name}` });
    for (const { work: item, ...how } of part.afterwards) ambient.afterCommit(item, how);
    return value;
  } catch (error) {
    part.finished = true;
    await ambient
      .query({ text: `rollback to savepoint ${name}` })
      .catch((failure: unknown) => ambient.doom(failure));
    throw error;
  }
}

/** A part of an open transaction. When it fails, the whole fails, also if somebody catches its error. */
async function join<T>(
  ambient: Ambient,
  work: (transaction: Transaction) => Promise<T>,
): Promise<T> {
  try {
    return await work(ambient);
  } catch (error) {
    ambient.doom(error);
    throw error;
  }
}

const inDoubtToo = ({ alsoInDoubt }: PutOff): boolean => alsoInDoubt === true;

/** Runs what was put off until the commit, in order. Nobody is left who could handle an error, so it is logged. */
async function runAll(items: readonly PutOff[], log: Logger): Promise<void> {
  for (const { work } of items) {
    try {
      await work();
    } catch (error) {
      log.error({ err: error }, 'Work after a commit failed');
    }
  }
}

/** What runs between a savepoint and its end. */
class TransactionPart implements Ambient {
  readonly afterwards: PutOff[] = [];
  finished = false;
  readonly #whole: Ambient;
  #failure: { readonly error: unknown } | undefined;

  constructor(whole: Ambient) {
    this.#whole = whole;
  }

  query<R>(statement: Statement): Promise<QueryResult<R>> {
    if (this.finished)
      throw new Error('A statement was sent to a part of a transaction that has ended');
    return this.#whole.query<R>(statement);
  }

  afterCommit(work: AfterCommit, options?: AfterCommitOptions): void {
    this.afterwards.push({ work, ...options });
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
