/** The other end of a worker link: runs in the thread or process. */
import { writeFileSync } from 'node:fs';
import { constants, setPriority } from 'node:os';
import { parentPort, type TransferListItem } from 'node:worker_threads';
import type { Call, CallAnswer } from './worker-link.ts';

/* For threads whose work may wait: they give way to every other thread of the machine. */

/** For threads. Only on Linux is a thread addressed by this: elsewhere it would slow down the whole process. */
export function giveWay(priority: number = constants.priority.PRIORITY_LOW): void {
  if (process.platform !== 'linux') return;
  try {
    setPriority(priority);
  } catch {
    // A sandbox may forbid it; results are right at any priority.
  }
}

/**
 * For processes: `priority` as of `nice`. Linux shares the processor between sessions first where it is told to
 * (`sched_autogroup_enabled`); there the session as a whole gets the priority, elsewhere its threads have it.
 */
export function giveWayAsProcess(priority: number): void {
  try {
    setPriority(priority);
    if (process.platform === 'linux') writeFileSync('/proc/self/autogroup', String(priority));
  } catch {
    // There are no such groups, or the system does not let us: results are right at any priority.
  }
}

interface Served {
  readonly result: unknown;
  /** Buffers of the result that are handed over instead of being copied. */
  readonly transfer?: readonly TransferListItem[];
}

export type Serve = (input: unknown) => Served | Promise<Served>;

type Send = (answer: CallAnswer, transfer: readonly TransferListItem[]) => void;

/** Answers calls one after the other, in the order in which they come. */
export function serveCalls(functions: ReadonlyMap<string, Serve>): void {
  let last: Promise<void> = Promise.resolve();
  const send: Send = parentPort
    ? (given, transfer) => parentPort?.postMessage(given, [...transfer])
    : (given) => process.send?.(given);
  (parentPort ?? process).on('message', (call: Call) => {
    last = last.then(() => answer(functions, call, send));
  });
}

async function answer(
  functions: ReadonlyMap<string, Serve>,
  { id, name, input }: Call,
  send: Send,
): Promise<void> {
  try {
    const serve = functions.get(name);
    if (!serve) throw new Error(`The thread has no function "${name}"`);
    const { result, transfer = [] } = await serve(input);
    send({ id, result }, transfer);
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error);
    send({ id, error: message }, []);
  }
}
