/** The other end of a worker link: runs in the thread. */
import { constants, setPriority } from 'node:os';
import { parentPort, type TransferListItem } from 'node:worker_threads';
import type { Call, CallAnswer } from './worker-link.ts';

/* For threads whose work may wait: they give way to every other thread of the machine. */

/** Only on Linux is a thread addressed by this: elsewhere it would slow down the whole process. */
export function giveWay(): void {
  if (process.platform !== 'linux') return;
  try {
    setPriority(constants.priority.PRIORITY_LOW);
  } catch {
    // A sandbox may forbid it; results are right at any priority.
  }
}

interface Served {
  readonly result: unknown;
  /** Buffers of the result that are handed over instead of being copied. */
  readonly transfer?: readonly TransferListItem[];
}

export type Serve = (input: unknown) => Served | Promise<Served>;

/** Answers calls one after the other, in the order in which they come. */
export function serveCalls(functions: ReadonlyMap<string, Serve>): void {
  let last: Promise<void> = Promise.resolve();
  parentPort?.on('message', (call: Call) => {
    last = last.then(() => answer(functions, call));
  });
}

async function answer(
  functions: ReadonlyMap<string, Serve>,
  { id, name, input }: Call,
): Promise<void> {
  try {
    const serve = functions.get(name);
    if (!serve) throw new Error(`The thread has no function "${name}"`);
    const { result, transfer = [] } = await serve(input);
    parentPort?.postMessage({ id, result } satisfies CallAnswer, [...transfer]);
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error);
    parentPort?.postMessage({ id, error: message } satisfies CallAnswer);
  }
}
