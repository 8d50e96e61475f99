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
