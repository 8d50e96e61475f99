/** How much a request may use, as operators set it and operations declare it. */
import type { Operation, SurfaceName } from '../operation.ts';
import { type AccountLimits, RequestAccount } from './request-account.ts';

/** What operators set about requests. */
export interface RequestSettings extends AccountLimits {
  /** Requests of one caller that are worked on at once. */
  readonly callsPerCaller: number;
  /** Those among them that may take long or much memory (lists, filters, batches, GraphQL). */
  readonly heavyCallsPerCaller: number;
  /** Requests that this process works on at once. */
  readonly callsAtOnce: number;
  /** Milliseconds that a request may wait for its turn. */
  readonly maxWaitMs: number;
}

export const MEGABYTE = 1_048_576;

export const defaultRequestSettings: RequestSettings = {
  milliseconds: 30_000,
  bytesIn: 16 * MEGABYTE,
  bytesOut: 16 * MEGABYTE,
  statements: 5_000,
  lockedRows: 60_000,
  outboundCalls: 50,
  callsPerCaller: 64,
  heavyCallsPerCaller: 8,
  callsAtOnce: 256,
  maxWaitMs: 2_000,
};

/** Read for each request, so that a change holds at once. Answer the same object until something changed. */
export type RequestSettingsProvider = () => RequestSettings;

/** Operators do with one request what clients do with many: state, imports, schemas by the hundred. */
const ADMIN_FACTOR = 20;

export interface Accounts {
  /** Opens the account of a request for this operation. `startedAt`: on the clock of `performance.now()`. */
  open(operation: Operation, startedAt: number, address: string): RequestAccount;
  /** Opens one for what is no request of an operation, such as a message of a socket. */
  openFor(surface: SurfaceName, address?: string): RequestAccount;
}

export function createAccounts(settings: RequestSettingsProvider): Accounts {
  let known: RequestSettings | undefined;
  let usual: Readonly<Record<SurfaceName, AccountLimits>> = surfaceLimits(defaultRequestSettings);
  let declared = new WeakMap<Operation, AccountLimits>();

  const refresh = (): void => {
    const current = settings();
    if (current === known) return;
    known = current;
    usual = surfaceLimits(current);
    declared = new WeakMap();
  };
  const limitsOf = (operation: Operation): AccountLimits => {
    const { surface, deadlineMs, account } = operation;
    if (deadlineMs === undefined && account === undefined) return usual[surface];
    const made = declared.get(operation);
    if (made) return made;
    const limits = { ...usual[surface], ...account, ...(deadlineMs === undefined ? {} : { milliseconds: deadlineMs }) };
    declared.set(operation, limits);
    return limits;
  };

  return {
    open(operation, startedAt, address) {
      refresh();
      return new RequestAccount(limitsOf(operation), startedAt, address);
    },
    openFor(surface, address) {
      refresh();
      return new RequestAccount(usual[surface], undefined, address);
    },
  };
}

function surfaceLimits({ milliseconds, bytesIn, bytesOut, statements, lockedRows, outboundCalls }: RequestSettings) {
  const client: AccountLimits = { milliseconds, bytesIn, bytesOut, statements, lockedRows, outboundCalls };
  const admin: AccountLimits = { ...client, statements: statements * ADMIN_FACTOR, lockedRows: lockedRows * ADMIN_FACTOR };
  return { client, admin };
}
