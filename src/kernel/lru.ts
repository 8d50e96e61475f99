/** Maps that forget what was used least lately. */
import { LRUCache } from 'lru-cache';

/**
 * Holds `max` entries. A cache with the option `max` of the library takes the room of all its entries when it is made,
 * a millisecond of the start for each ten thousand; this one grows as others do.
 */
export const createLru = <K extends {}, V extends {}>(max: number): LRUCache<K, V> =>
  new LRUCache<K, V>({ maxSize: max, sizeCalculation: () => 1 });
