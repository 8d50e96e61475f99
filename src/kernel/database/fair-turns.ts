/**
 * A bounded number of turns, shared by groups (tables): nobody waits behind a group that has taken
 * all it may have. Within a group first come, first served; between groups in rotation.
 */
import { errors, type PenstockError } from '../errors.ts';
import { currentAccount, type RequestAccount } from '../request-account/request-account.ts';

/* How long one statement may wait and run: what is left to the request it works for. */

/** What works for a request waits this many ms for its turn; then the caller is told to come again. */
const QUEUE_LIMIT_MS = 2_000;
/** The platform's own work (jobs, relays, start) has nobody who would come again. */
const OWN_QUEUE_LIMIT_MS = 15_000;

/** On the clock of `performance.now()`. */
export interface Waiting {
  readonly since: number;
  /** Nothing is sent from here on, and what runs is stopped. Earlier once the work was given up: look at it anew. */
  readonly deadlineAt: number;
  /** The turn must have come by then. */
  readonly patientUntil: number;
}

class WaitingOn implements Waiting {
  readonly since: number;
  readonly patientUntil: number;
  readonly #account: RequestAccount;

  constructor(account: RequestAccount, since: number) {
    this.#account = account;
    this.since = since;
    this.patientUntil = since + QUEUE_LIMIT_MS;
  }

  get deadlineAt(): number {
    return this.#account.deadlineAt;
  }
}

export function waitingNow(): Waiting {
  const since = performance.now();
  const account = currentAccount();
  if (account) return new WaitingOn(account, since);
  return { since, deadlineAt: Number.POSITIVE_INFINITY, patientUntil: since + OWN_QUEUE_LIMIT_MS };
}

/** Whose turn did not come in time. @returns 504 when the request is over, else 503 with `Retry-After`. */
export const waitedTooLong = ({ deadlineAt }: Waiting, now: number): PenstockError =>
  now >= deadlineAt
    ? outOfTime()
    : errors.UNAVAILABLE({ message: 'The database is busy: try again', retryAfter: 1 });

export const outOfTime = (cause?: unknown): PenstockError =>
  errors.TIMEOUT({
    message: 'The database took too long to answer',
    ...(cause !== undefined && { cause }),
  });

export interface TurnBounds {
  readonly size: number;
  /** Turns that one group can hold. */
  readonly perGroup: number;
  /** The last turns are for groups that hold none. */
  readonly reserve: number;
}

export interface TurnFigures {
  /** Turns that are taken. */
  readonly running: number;
  readonly waiting: number;
  /** Of who waits longest, in ms. */
  readonly oldestMs: number;
  /** Since the start: how many have waited, how long in all (ms), and how many in vain. */
  readonly waits: number;
  readonly waitedMs: number;
  readonly refused: number;
}

interface Waiter {
  readonly waiting: Waiting;
  readonly start: () => void;
  readonly refuse: (error: Error) => void;
}

/** How often the queues are looked through for those who have waited too long, in ms. */
const SWEEP_MS = 50;

/** A part of the whole for each group, and something left for others. */
export function boundsOf(size: number): TurnBounds {
  const reserve = size >= 8 ? 2 : size >= 3 ? 1 : 0;
  return { size, perGroup: Math.max(1, Math.ceil(size * 0.6)), reserve };
}

export class FairTurns {
  readonly #bounds: TurnBounds;
  readonly #held = new Map<string, number>();
  /** In the order of their turns. A group without waiters is not in it. */
  readonly #queues = new Map<string, Waiter[]>();
  #running = 0;
  #waiting = 0;
  #waits = 0;
  #waitedMs = 0;
  #refused = 0;
  #sweep: NodeJS.Timeout | undefined;

  constructor(bounds: TurnBounds) {
    this.#bounds = bounds;
  }

  /** Resolves with the turn's end. @throws 503 or 504 when it does not come in time. */
  take(group: string, waiting: Waiting): Promise<() => void> {
    if (waiting.since >= waiting.deadlineAt)
      return Promise.reject(waitedTooLong(waiting, waiting.since));
    return new Promise((resolve, reject) => {
      const start = (): void => resolve(this.#begin(group));
      if (!this.#queues.has(group) && this.#permits(group)) return start();
      this.#enqueue(group, { waiting, start, refuse: reject });
    });
  }

  figures(): TurnFigures {
    const now = performance.now();
    let oldest = now;
    for (const [first] of this.#queues.values())
      if (first) oldest = Math.min(oldest, first.waiting.since);
    const [running, waiting, waits] = [this.#running, this.#waiting, this.#waits];
    return {
      running,
      waiting,
      oldestMs: now - oldest,
      waits,
      waitedMs: this.#waitedMs,
      refused: this.#refused,
    };
  }

  /** Refuses all who wait. */
  close(error: Error): void {
    for (const queue of this.#queues.values()) for (const { refuse } of queue) refuse(error);
    this.#queues.clear();
    this.#waiting = 0;
    this.#rest();
  }

  #permits(group: string): boolean {
    const { size, perGroup, reserve } = this.#bounds;
    const held = this.#held.get(group) ?? 0;
    const free = size - this.#running;
    return free > 0 && held < perGroup && (free > reserve || held === 0);
  }

  #begin(group: string): () => void {
    this.#running += 1;
    this.#held.set(group, (this.#held.get(group) ?? 0) + 1);
    let ended = false;
    return () => {
      if (ended) return;
      ended = true;
      this.#running -= 1;
      const left = (this.#held.get(group) ?? 1) - 1;
      if (left > 0) this.#held.set(group, left);
      else this.#held.delete(group);
      if (this.#waiting > 0) this.#next();
    };
  }

  #enqueue(group: string, waiter: Waiter): void {
    const queue = this.#queues.get(group);
    if (queue) queue.push(waiter);
    else this.#queues.set(group, [waiter]);
    this.#waiting += 1;
    this.#sweep ??= setInterval(() => this.#refuseLate(), SWEEP_MS).unref();
  }

  /** Gives free turns away. A group that got one goes to the end of the rotation. */
  #next(): void {
    for (const [group, queue] of this.#queues) {
      if (this.#running >= this.#bounds.size) break;
      if (!this.#permits(group)) continue;
      const waiter = queue.shift();
      this.#queues.delete(group);
      if (queue.length > 0) this.#queues.set(group, queue);
      if (!waiter) continue;
      this.#waiting -= 1;
      const now = performance.now();
      if (now >= waiter.waiting.deadlineAt) {
        this.#refuse(waiter, now);
        continue;
      }
      this.#waits += 1;
      this.#waitedMs += now - waiter.waiting.since;
      waiter.start();
    }
  }

  /** The sweep ends when there was nobody: queues are often empty for a moment only. */
  #refuseLate(): void {
    if (this.#waiting === 0) this.#rest();
    const now = performance.now();
    for (const [group, queue] of this.#queues) {
      const left = queue.filter((waiter) => {
        const { deadlineAt, patientUntil } = waiter.waiting;
        if (now < deadlineAt && now < patientUntil) return true;
        this.#waiting -= 1;
        this.#refuse(waiter, now);
        return false;
      });
      if (left.length > 0) this.#queues.set(group, left);
      else this.#queues.delete(group);
    }
  }

  #refuse({ waiting, refuse }: Waiter, now: number): void {
    this.#refused += 1;
    refuse(waitedTooLong(waiting, now));
  }

  #rest(): void {
    clearInterval(this.#sweep);
    this.#sweep = undefined;
  }
}
