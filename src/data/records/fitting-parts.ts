/** Work on many records that may be too large together for one answer (answer-bytes.ts). */
import { isTooLargeTogether } from './answer-bytes.ts';

/** Of more than these the database would join a gigabyte before it finds out that it is too much. */
const MAX_PART = 200;

/**
 * Does work in parts, in order: where the records of a part are too large together, in halves of it. `work` must read
 * before it changes anything. `alone` is asked about an item whose records are too large by themselves.
 */
export async function inFittingParts<T>(
  items: readonly T[],
  work: (part: readonly T[]) => Promise<void>,
  alone: (item: T) => Promise<void>,
): Promise<void> {
  let size = MAX_PART;
  for (let at = 0; at < items.length; ) {
    const part = items.slice(at, at + size);
    try {
      await work(part);
    } catch (error) {
      const [item] = part;
      if (!isTooLargeTogether(error) || item === undefined) throw error;
      if (part.length > 1) {
        size = Math.ceil(part.length / 2);
        continue;
      }
      await alone(item);
    }
    at += part.length;
    size = Math.min(size * 2, MAX_PART);
  }
}
