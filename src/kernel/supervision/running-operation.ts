/**
 * What this process is doing, for the supervisor's watchdog (scripts/supervisor/examine-stuck.mjs),
 * which asks in the middle of a piece of JavaScript that does not end.
 */
import { currentAccount } from '../account/request-account.ts';

export interface RunningOperation {
  readonly operation: string;
  readonly requestId: string;
}

/** The operation of each account, while its request lives. */
const byAccount = new WeakMap<object, RunningOperation>();
let lastBegun: RunningOperation | undefined;

/** Called when a handler begins. Costs two assignments. */
export function noteOperation(operation: string, requestId: string): void {
  lastBegun = { operation, requestId };
  const account = currentAccount();
  if (account) byAccount.set(account, lastBegun);
}

/** Lines of the stack that are told. */
const LINES = 8;

/** The operation whose code runs now, exact when its request has an account, else the last one that began. */
function whatRuns() {
  const account = currentAccount();
  const known = account && byAccount.get(account);
  const stack = (new Error().stack ?? '')
    .split('\n')
    .slice(3, 3 + LINES)
    .map((line) => line.trim());
  return { ...(known ?? (lastBegun && { lastOperation: lastBegun.operation, requestId: lastBegun.requestId })), stack };
}

/** A name that nothing else uses; it answers no secrets. */
Object.defineProperty(globalThis, Symbol.for('penstock.running'), { value: whatRuns });
