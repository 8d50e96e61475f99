/** Maps that forget what was used least lately. */
import { LRUCache } from 'lru-cache';

/**
 * Holds `most` entries. One that is bounded by `max` takes the room of all its entries when it is made, a millisecond of
 * the start for each ten thousand; this one grows as others do.
 */
export const createLru = <K extends {}, V extends {}>(most: number): LRUCache<K, V> =>
  new LRUCache<K, V>({ maxSize: most, sizeCalculation: () => 1 });
