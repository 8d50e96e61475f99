/** Long work on the event loop, cut into slices: between them other requests have their turn. */
import { setImmediate as nextTurn } from 'node:timers/promises';

/** Milliseconds of one slice. */
const SLICE_MS = 15;

/** Asked after each step of the work: nothing while the slice lasts, else what to await before the next step. */
export type Pause = () => Promise<void> | undefined;

/** One for each piece of work. */
export function createTimeSlices(sliceMs = SLICE_MS): Pause {
  let end = performance.now() + sliceMs;
  return () => {
    if (performance.now() < end) return undefined;
    return nextTurn().then(() => {
      end = performance.now() + sliceMs;
    });
  };
}

/** `map` of what may be thousands. */
export async function mapInSlices<T, R>(all: Iterable<T>, make: (one: T) => R): Promise<R[]> {
  const pause = createTimeSlices();
  const made: R[] = [];
  for (const one of all) {
    made.push(make(one));
    await pause();
  }
  return made;
}

/**
 * Takes pieces of work that may come a hundred at once and does one in each turn of the event loop, in their order. None
 * of them may throw.
 */
export function createTurnQueue(): (work: () => void) => void {
  const waiting: (() => void)[] = [];
  const next = (): void => {
    waiting[0]?.();
    waiting.shift();
    if (waiting.length > 0) setImmediate(next);
  };
  return (work) => {
    waiting.push(work);
    if (waiting.length === 1) setImmediate(next);
  };
}

/**
 * Lets whoever asks go on: one in each turn of the event loop, in their order, and whoever is alone at once. Nothing to
 * wait for is `undefined`.
 */
export function createTurnGate(): () => Promise<void> | undefined {
  const waiting: (() => void)[] = [];
  let isTaken = false;
  const next = (): void => {
    const admit = waiting.shift();
    isTaken = admit !== undefined;
    if (!admit) return;
    setImmediate(next);
    admit();
  };
  return () => {
    if (isTaken) return new Promise((resolve) => waiting.push(resolve));
    isTaken = true;
    setImmediate(next);
    return undefined;
  };
}
