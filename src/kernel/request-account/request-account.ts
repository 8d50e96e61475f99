/**
 * What one request may use, whatever it causes: time, bytes, statements, locked rows, calls to the
 * outside. The surface opens the account; batch, GraphQL, MCP, sockets and functions draw on it and
 * open no second one (design.md section 3). Everything below finds it with `currentAccount()`.
 */
import { AsyncLocalStorage } from 'node:async_hooks';
import { errors, type PenstockError } from '../errors.ts';

/** Bounds of one request. */
export interface AccountLimits {
  /** Milliseconds from the arrival of the request to its answer, every queue included. */
  readonly milliseconds: number;
  /** Bytes of input after expansion: decompression, references inside a batch, GraphQL variables. */
  readonly bytesIn: number;
  /** Bytes of JSON that the database may produce for the answer. */
  readonly bytesOut: number;
  readonly statements: number;
  /** Rows locked for a change. */
  readonly lockedRows: number;
  /** Calls to servers of others. */
  readonly outboundCalls: number;
}

/** What can be drawn, besides time. */
export type AccountItem = Exclude<keyof AccountLimits, 'milliseconds'>;

const tooMuch = (message: string) => (): PenstockError => errors.INVALID_ARGUMENTS({ message });

const refusals: Readonly<Record<AccountItem, () => PenstockError>> = {
  bytesIn: () =>
    errors.PAYLOAD_TOO_LARGE({
      message: 'The request is too large once everything in it is put in its place',
    }),
  bytesOut: tooMuch('The answer would be too large: ask for fewer or smaller records'),
  statements: tooMuch('The request asks for too many things at once: split it'),
  lockedRows: tooMuch('The request changes too many records at once: split it'),
  outboundCalls: tooMuch('The request calls too many other servers: split it'),
};

/** Calls of one request that run at a time (fields of GraphQL, messages of a batch): each may need a connection of the database. */
const CALLS_AT_ONCE = 3;

/** Opened by a surface when a request arrives; lives as long as the request. */
/** What a request is doing, for those who look at a process from outside (supervisor.ts). */
export interface RunningOperation {
  readonly operation: string;
  readonly requestId: string;
}

export class RequestAccount {
  readonly limits: AccountLimits;
  /** The operation that began last on this account. */
  running: RunningOperation | undefined;
  /** The address that the request came from; nothing where there is none. */
  readonly address: string | undefined;
  #spent: Record<AccountItem, number> = {
    bytesIn: 0,
    bytesOut: 0,
    statements: 0,
    lockedRows: 0,
    outboundCalls: 0,
  };
  /** The account of which this one is a part with less time. */
  #whole: RequestAccount | undefined;
  #deadlineAt: number;
  #closed = false;
  #overdrawn = false;
  #admitted = false;
  #running = 0;
  #waiting: (() => void)[] | undefined;

  /** `startedAt`: on the clock of `performance.now()`. */
  constructor(limits: AccountLimits, startedAt = performance.now(), address?: string) {
    this.limits = limits;
    this.address = address;
    this.#deadlineAt = startedAt + limits.milliseconds;
  }

  /** The same account for a part of its work that has less time: what that part spends is spent. */
  until(deadlineAt: number): RequestAccount {
    const part = new RequestAccount(this.limits, undefined, this.address);
    part.#whole = this;
    part.#spent = this.#spent;
    part.#admitted = this.#admitted;
    part.#deadlineAt = Math.min(deadlineAt, this.#deadlineAt);
    part.running = this.running;
    return part;
  }

  /** The account of the whole request, where this one is a part of it. */
  get whole(): RequestAccount {
    return this.#whole?.whole ?? this;
  }

  /** Its work was given up: what waits or runs at the database on this account is stopped. The whole of a part goes on. */
  giveUp(): void {
    this.#deadlineAt = Math.min(this.#deadlineAt, performance.now());
  }

  /** On the clock of `performance.now()`. */
  get deadlineAt(): number {
    return this.#deadlineAt;
  }

  /** Milliseconds that are left; zero or less when the time is over. */
  get remainingMs(): number {
    return this.#deadlineAt - performance.now();
  }

  /** The request was answered in time: what its work has left running is the platform's own from now on. */
  get closed(): boolean {
    return this.#closed || (this.#whole?.closed ?? false);
  }

  /** The request has its place among those that are worked on; calls inside it need none of their own. */
  get admitted(): boolean {
    return this.#admitted;
  }

  admit(): void {
    this.#admitted = true;
  }

  /** Takes `amount` of `item`. Throws 400 or 413 when the account does not hold it. */
  charge(item: AccountItem, amount = 1): void {
    const refusal = this.take(item, amount);
    if (refusal) throw refusal;
  }

  /** The same for who answers errors as promises: the refusal, or nothing. */
  take(item: AccountItem, amount = 1): PenstockError | undefined {
    const total = this.#spent[item] + amount;
    this.#spent[item] = total;
    if (total <= this.limits[item]) return undefined;
    this.#overdrawn = true;
    if (this.#whole) this.#whole.#overdrawn = true;
    return refusals[item]();
  }

  /** More of something was asked for than the account holds. */
  get overdrawn(): boolean {
    return this.#overdrawn;
  }

  /** What was drawn of `item`. */
  spent(item: AccountItem): number {
    return this.#spent[item];
  }

  /** What can still be drawn of `item`. */
  left(item: AccountItem): number {
    return Math.max(0, this.limits[item] - this.#spent[item]);
  }

  /** Waits until one more call of this request may run; without a promise when it may now. Whoever entered must leave. */
  enterCall(): Promise<void> | undefined {
    if (this.#running >= CALLS_AT_ONCE) {
      const { promise, resolve } = Promise.withResolvers<void>();
      this.#waiting ??= [];
      this.#waiting.push(resolve);
      return promise;
    }
    this.#running += 1;
    return undefined;
  }

  /** Hands the place on to the next call. */
  leaveCall(): void {
    const next = this.#waiting?.shift();
    if (next) next();
    else this.#running -= 1;
  }

  /** The time begins anew: for a body that is made while it is sent, from when its sending begins. */
  renew(): void {
    this.#deadlineAt = performance.now() + this.limits.milliseconds;
  }

  /** Called when the answer is out. An account whose time is over stays open, so that its work finds no more time. */
  close(): void {
    this.#closed = this.remainingMs > 0;
  }
}

const store = new AsyncLocalStorage<RequestAccount | undefined>();

/** The account of the request that this flow works for; nothing for the platform's own work. */
export function currentAccount(): RequestAccount | undefined {
  const account = store.getStore();
  return account?.closed ? undefined : account;
}

/** Runs `work`, and all that it causes, on this account. */
export const onAccount = <T>(account: RequestAccount, work: () => T): T => store.run(account, work);

/** Runs `work` as the platform's own, on nobody's account: jobs, relays, what goes on after an answer. */
export const offAccount = <T>(work: () => T): T => store.run(undefined, work);

/* The size of values that stand for JSON, without making it. */

/**
 * Bytes of the value as JSON, counted roughly (a character is a byte): what matters is how much a value grew by being
 * repeated. Counts no further than `max`, so that the counting itself is bounded.
 */
export function jsonSize(value: unknown, max: number): number {
  switch (typeof value) {
    case 'string':
      return value.length + 2;
    case 'object':
      return value === null ? 4 : sizeOfParts(value, max);
    case 'undefined':
      return 0;
    default:
      return 8;
  }
}

function sizeOfParts(container: object, max: number): number {
  let size = 2;
  if (Array.isArray(container)) {
    for (let i = 0; i < container.length && size <= max; i++)
      size += jsonSize(container[i], max - size) + 1;
    return size;
  }
  for (const key in container) {
    if (size > max) break;
    size += key.length + 4 + jsonSize((container as Record<string, unknown>)[key], max - size);
  }
  return size;
}
