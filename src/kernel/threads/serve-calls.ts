/** The other end of a worker link: runs in the thread. */
import { parentPort, type TransferListItem } from 'node:worker_threads';
import type { Call, CallAnswer } from './worker-link.ts';

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
