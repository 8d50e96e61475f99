/** How much a request may use, as operators set it and operations declare it. */

import { addressKey, type Caller, callerKey } from '../caller.ts';
import { errors } from '../errors.ts';
import { endedBy, type MaybePromise } from '../maybe-promise.ts';
import type { Operation, SurfaceName } from '../operations/operation.ts';
import {
  FairGate,
  type GateCounts,
  type GateLimits,
  type GateRefusal,
} from '../request-account/fair-gate.ts';
import { type AccountLimits, RequestAccount } from '../request-account/request-account.ts';

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
    const limits = {
      ...usual[surface],
      ...account,
      ...(deadlineMs === undefined ? {} : { milliseconds: deadlineMs }),
    };
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

function surfaceLimits({
  milliseconds,
  bytesIn,
  bytesOut,
  statements,
  lockedRows,
  outboundCalls,
}: RequestSettings) {
  const client: AccountLimits = {
    milliseconds,
    bytesIn,
    bytesOut,
    statements,
    lockedRows,
    outboundCalls,
  };
  const admin: AccountLimits = {
    ...client,
    statements: statements * ADMIN_FACTOR,
    lockedRows: lockedRows * ADMIN_FACTOR,
  };
  return { client, admin };
}

/* How many requests are worked on at once: of everybody, of one caller, and of those that take long. */

/** A request that wants to be worked on. */
interface Entrant {
  /** Who shares one bound; see `callKey`. */
  readonly key: string;
  /** It may take long or much memory. */
  readonly heavy: boolean;
  /** Of its body, which is kept while it waits. */
  readonly bytes: number;
  /** Its body is read while it is worked on, so its client decides how long that takes. */
  readonly arriving?: boolean | undefined;
}

export interface CallGates {
  /** Runs `work` when it is its turn. Throws or rejects with 429 or 503 and `Retry-After` when that does not come in time. */
  inTurn<T>(entrant: Entrant, work: () => MaybePromise<T>): MaybePromise<T>;
  counts(): {
    readonly all: GateCounts;
    readonly heavy: GateCounts;
    readonly arriving: GateCounts;
  };
}

/** Waiting requests are small; what bounds them is time. */
const maxWaiting = { ofKey: 1_024, ofAll: 4_096 };
const maxBytes = { ofKey: 32 * MEGABYTE, ofAll: 128 * MEGABYTE };
/** Seconds. */
const RETRY_AFTER = 1;

function refusal(why: GateRefusal): Error {
  if (why === 'all')
    return errors.UNAVAILABLE({
      message: 'Too much is asked for at once: try again shortly',
      retryAfter: RETRY_AFTER,
    });
  return errors.RATE_LIMIT({
    message: 'Too many of your requests run at once: wait for their answers',
    retryAfter: RETRY_AFTER,
  });
}

export function createCallGates(settings: RequestSettingsProvider): CallGates {
  const all = new FairGate(limitsBy(settings, allLimits), refusal);
  const heavy = new FairGate(limitsBy(settings, heavyLimits), refusal);
  // As many again: a few clients that send slowly would keep everybody waiting among the others.
  const arriving = new FairGate(limitsBy(settings, allLimits), refusal);
  const gateOf = (entrant: Entrant): FairGate => (entrant.arriving ? arriving : all);

  /** A place among the heavy first: who waits for that one holds no other. */
  const enter = (entrant: Entrant): Promise<void> | undefined => {
    const { key, heavy: isHeavy, bytes } = entrant;
    if (!isHeavy) return gateOf(entrant).enter(key, bytes);
    const waiting = heavy.enter(key, bytes);
    return waiting ? waiting.then(() => enterAfterHeavy(entrant)) : enterAfterHeavy(entrant);
  };
  const enterAfterHeavy = (entrant: Entrant): Promise<void> | undefined => {
    const { key, bytes } = entrant;
    try {
      return gateOf(entrant)
        .enter(key, bytes)
        ?.catch((error: unknown) => {
          heavy.leave(key);
          throw error;
        });
    } catch (error) {
      heavy.leave(key);
      throw error;
    }
  };
  const leave = (entrant: Entrant): void => {
    gateOf(entrant).leave(entrant.key);
    if (entrant.heavy) heavy.leave(entrant.key);
  };
  return {
    inTurn(entrant, work) {
      const entered = () => endedBy(work, () => leave(entrant));
      const waiting = enter(entrant);
      return waiting ? waiting.then(entered) : entered();
    },
    counts: () => ({ all: all.counts(), heavy: heavy.counts(), arriving: arriving.counts() }),
  };
}

/** The account and not the token, so that many sessions of one user share. */
export const callKey = (caller: Caller, address: string): string =>
  caller.kind === 'anonymous' ? addressKey(address) : callerKey(caller);

/** Limits are made once per settings object. */
function limitsBy(
  settings: RequestSettingsProvider,
  make: (settings: RequestSettings) => GateLimits,
): () => GateLimits {
  let known: RequestSettings | undefined;
  let made: GateLimits | undefined;
  return () => {
    const current = settings();
    if (!made || current !== known) made = make(current);
    known = current;
    return made;
  };
}

const allLimits = ({ callsAtOnce, callsPerCaller, maxWaitMs }: RequestSettings): GateLimits => ({
  width: callsAtOnce,
  perKey: callsPerCaller,
  maxWaitMs,
  maxWaiting,
  maxBytes,
});

/** A quarter of all places, so that there is always room for what is short. */
const heavyLimits = ({
  callsAtOnce,
  heavyCallsPerCaller,
  maxWaitMs,
}: RequestSettings): GateLimits => ({
  width: Math.max(1, Math.floor(callsAtOnce / 4)),
  perKey: heavyCallsPerCaller,
  maxWaitMs,
  maxWaiting,
  maxBytes,
});
