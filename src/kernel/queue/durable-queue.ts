/**
 * Work for others that must not be lost: deliveries to endpoints, runs of functions. An item is added with
 * the change that causes it, is tried until it is done or given up, and keeps what became of each try. Items of one
 * target and one key are worked on one after the other, in the order in which they were added.
 *
 * Jobs (`jobs/`) are the platform's own background work; items belong to a target, and operators see and repeat them.
 */
import type { Queryable, Transaction } from '../database/database.ts';
import type { Logger } from '../telemetry/logger.ts';

/** One try, as it is kept with the item. */
export interface Attempt {
  /** ISO 8601: when it began. */
  readonly at: string;
  readonly durationMs: number;
  readonly outcome: 'done' | 'failed' | 'lost';
  /** What the worker noted: a status, an error. Bounded by whoever notes it. */
  readonly note?: Readonly<Record<string, unknown>>;
}

/** `held`: its target is switched off. `dead`: given up; it can be repeated. */
export type ItemState = 'waiting' | 'held' | 'done' | 'dead';

export interface QueueItem {
  /** The same for every try. */
  readonly id: string;
  readonly target: string;
  readonly orderKey: string | null;
  readonly data: Readonly<Record<string, unknown>>;
  /** Tries of this round, this one included; a repetition by hand begins at 1 again. */
  readonly attempt: number;
  readonly createdAt: Date;
}

export interface NewItem {
  readonly target: string;
  /** Of one target and one such key there is one item. */
  readonly dedupe: string;
  /** Items of a target with the same key keep their order. */
  readonly orderKey?: string | undefined;
  readonly data: Readonly<Record<string, unknown>>;
  /** Not before; now unless set. */
  readonly dueAt?: Date;
}

/** What became of a try. */
export type Verdict = {
  readonly note?: Readonly<Record<string, unknown>>;
  /** Runs in the transaction that writes this down. */
  readonly hooked?: (transaction: Transaction) => Promise<void>;
} & (
  | { readonly outcome: 'done' }
  /** `log`: what the log says, such as of whom it was and where it is found. The same text comes once in a minute. */
  | { readonly outcome: 'dead'; readonly log: string }
  /** `counts`: false for what is no failure, such as work that sleeps. */
  | { readonly outcome: 'again'; readonly afterMs: number; readonly counts?: false }
);

export interface WorkerOptions {
  /** Items at a time on this node. */
  readonly concurrency: () => number;
  /** Items of one target at a time on this node. */
  readonly perTarget: () => number;
  /** Milliseconds after which the item of a node that died is taken by another; kept up while a try runs. */
  readonly leaseMs?: number;
  readonly log: Logger;
  /** A throw counts as a failure that is tried again after `retryAfterMs`. */
  handle(item: QueueItem, signal: AbortSignal): Promise<Verdict>;
  /** Milliseconds until the next try of an item whose handler threw. */
  retryAfterMs(item: QueueItem): number;
}

export interface QueueWorker {
  /** Items were added and committed. */
  wake(): void;
  /** Takes nothing more and waits for what runs, at most `timeoutMs`; what still runs then is tried again elsewhere. */
  stop(timeoutMs?: number): Promise<void>;
}

export interface ItemRow extends Omit<QueueItem, 'attempt'> {
  readonly state: ItemState;
  readonly attempts: number;
  readonly tries: readonly Attempt[];
  /** When it is tried next; while it is tried, when that counts as lost. */
  readonly dueAt: Date;
  /** A node tries it at this moment, as far as is known. */
  readonly running: boolean;
  readonly finishedAt: Date | null;
}

export interface ItemFilter {
  readonly target?: string | undefined;
  readonly state?: ItemState | undefined;
}

/** Figures for monitoring. */
export interface QueueFigures {
  readonly waiting: number;
  readonly dead: number;
  /** Seconds that the oldest due item has waited. */
  readonly lagSeconds: number;
}

/** One queue of that name, the same on all nodes. */
export interface DurableQueue {
  /** Adds items with the change that causes them; those that are there already stay as they are. Answers how many are new. */
  add(transaction: Queryable, items: readonly NewItem[]): Promise<number>;
  work(options: WorkerOptions): QueueWorker;
  /** Newest first. */
  list(
    filter: ItemFilter,
    page: { readonly skip: number; readonly limit: number },
  ): Promise<{ readonly items: readonly ItemRow[]; readonly count: number }>;
  get(id: string): Promise<ItemRow | undefined>;
  find(target: string, dedupe: string): Promise<ItemRow | undefined>;
  /** Tries it once more, whatever became of it; false when it is not there or waits anyway. */
  repeat(transaction: Queryable, id: string): Promise<boolean>;
  /** The same for all that were given up since then, at most `max`. */
  repeatDead(
    transaction: Queryable,
    which: { readonly target: string; readonly since: Date; readonly max: number },
  ): Promise<number>;
  /** What waits is not tried before `resume`. */
  hold(transaction: Queryable, target: string): Promise<void>;
  resume(transaction: Queryable, target: string): Promise<void>;
  /** Items of the target go, with what is known about them. */
  remove(transaction: Queryable, target: string): Promise<void>;
  /** Forgets what ended so many days ago; answers how many. One batch. */
  purge(days: { readonly done: number; readonly dead: number }): Promise<number>;
  figures(): Promise<QueueFigures>;
}
