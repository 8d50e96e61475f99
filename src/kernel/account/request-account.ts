/**
 * What one request may use, whatever it causes: time, bytes, statements, locked rows, calls to the
 * outside. The surface opens the account; batch, GraphQL, MCP, sockets and functions draw on it and
 * open no second one (design.md section 3). Everything below finds it with `currentAccount()`.
 */
import { AsyncLocalStorage } from 'node:async_hooks';
import { errors } from '../errors.ts';

/** Bounds of one request. */
export interface AccountLimits {
  /** Milliseconds from the arrival of the request to its answer, every queue included. */
  readonly milliseconds: number;
  /** Bytes of input after expansion: decompression, references inside a batch, GraphQL variables. */
  readonly bytesIn: number;
  /** Bytes of JSON that the database and the handlers may produce for the answer. */
  readonly bytesOut: number;
  readonly statements: number;
  /** Rows locked for a change. */
  readonly lockedRows: number;
  /** Calls to servers of others. */
  readonly outboundCalls: number;
}

/** What can be drawn, besides time. */
export type AccountItem = Exclude<keyof AccountLimits, 'milliseconds'>;

const refusals: Readonly<Record<AccountItem, () => Error>> = {
  bytesIn: () => errors.PAYLOAD_TOO_LARGE(),
  bytesOut: () => errors.INVALID_ARGUMENTS({ message: 'The answer would be too large: ask for fewer or smaller records' }),
  statements: () => errors.INVALID_ARGUMENTS({ message: 'The request asks for too many things at once: split it' }),
  lockedRows: () => errors.INVALID_ARGUMENTS({ message: 'The request changes too many records at once: split it' }),
  outboundCalls: () => errors.INVALID_ARGUMENTS({ message: 'The request calls too many other servers: split it' }),
};

/** Opened by a surface when a request arrives; lives as long as the request. */
export class RequestAccount {
  readonly limits: AccountLimits;
  /** On the clock of `performance.now()`. */
  readonly deadlineAt: number;
  readonly #spent: Record<AccountItem, number> = {
    bytesIn: 0,
    bytesOut: 0,
    statements: 0,
    lockedRows: 0,
    outboundCalls: 0,
  };

  constructor(limits: AccountLimits, startedAt = performance.now()) {
    this.limits = limits;
    this.deadlineAt = startedAt + limits.milliseconds;
  }

  /** Milliseconds that are left; zero or less when the time is over. */
  get remainingMs(): number {
    return this.deadlineAt - performance.now();
  }

  /** Takes `amount` of `item`. Throws 400 or 413 when the account does not hold it. */
  charge(item: AccountItem, amount = 1): void {
    const total = this.#spent[item] + amount;
    this.#spent[item] = total;
    if (total > this.limits[item]) throw refusals[item]();
  }

  /** What can still be drawn of `item`. */
  left(item: AccountItem): number {
    return Math.max(0, this.limits[item] - this.#spent[item]);
  }
}

const store = new AsyncLocalStorage<RequestAccount | undefined>();

/** The account of the request that this flow works for; nothing for the platform's own work. */
export const currentAccount = (): RequestAccount | undefined => store.getStore();

/** Runs `work`, and all that it causes, on this account. */
export const onAccount = <T>(account: RequestAccount, work: () => T): T => store.run(account, work);

/** Runs `work` as the platform's own, on nobody's account: jobs, relays, what goes on after an answer. */
export const offAccount = <T>(work: () => T): T => store.run(undefined, work);
