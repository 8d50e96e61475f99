import { LRUCache } from 'lru-cache';
import type { Bus } from './events/bus.ts';
import type { Metrics } from './telemetry/metrics.ts';

/**
 * A bounded in-process cache of things that may be dropped at any time without
 * changing an answer. It is bypassed while the bus is not connected, and
 * emptied when it is back.
 */
export interface Cache<V extends object> {
  get(key: string): V | undefined;
  /** For values that cannot have been changed since they were read. After a read from the database use `load`. */
  set(key: string, value: V): void;
  /**
   * The value of the key, read by `loader` when it is not here. Concurrent callers share one read.
   * A value whose key was invalidated while it was read is answered but not kept. `undefined` is not kept.
   */
  load<T extends V | undefined>(key: string, loader: () => Promise<T>): Promise<V | T>;
  /** Drops the key here and, before it resolves, on every other live node. */
  invalidate(keys: readonly string[]): Promise<void>;
  clear(): void;
  readonly size: number;
}

interface CacheOptions {
  /** Also the bus topic suffix; unique per cache. */
  readonly name: string;
  readonly maxEntries: number;
  /** Milliseconds after which an entry is read anew whatever happens. */
  readonly ttlMs: number;
  /** Runs on each node after it has dropped keys that were invalidated, which waits for it. */
  readonly onInvalidated?: (keys: readonly string[]) => Promise<void>;
}

export interface Caches {
  create<V extends object>(options: CacheOptions): Cache<V>;
}

/* Makes the caches of this node, kept true by the bus. */

/** A read in progress. `stale` once its key was invalidated: others must not join it, nor must it be kept. */
interface Reading {
  readonly result: Promise<object | undefined>;
  stale: boolean;
}

/** Reads of one cache: those that it answered, and those that it did not. */
interface Reads {
  hit: number;
  miss: number;
}

/** Caches that this node shares invalidations of with its peers on `bus`. */
export function createCaches(bus: Bus, metrics?: Pick<Metrics, 'total'>): Caches {
  const names = new Map<string, Reads>();
  metrics?.total(
    'cache_reads_total',
    'Reads of caches of this node: answered from memory, or not',
    () =>
      [...names].flatMap(([cache, { hit, miss }]) => [
        { labels: { cache, outcome: 'hit' }, value: hit },
        { labels: { cache, outcome: 'miss' }, value: miss },
      ]),
    ['cache', 'outcome'],
  );
  return {
    create<V extends object>(options: CacheOptions): Cache<V> {
      if (names.has(options.name)) throw new Error(`There are two caches named "${options.name}"`);
      const reads: Reads = { hit: 0, miss: 0 };
      names.set(options.name, reads);
      return createCache<V>(bus, options, reads);
    },
  };
}

function createEntries<V extends object>({ maxEntries, ttlMs }: CacheOptions): LRUCache<string, V> {
  // Looking at the clock for every read would cost more than the read.
  const ttlResolution = Math.min(100, Math.ceil(ttlMs / 10));
  return new LRUCache<string, V>({ max: maxEntries, ttl: ttlMs, ttlResolution });
}

const counting =
  <V>(reads: Reads, look: (key: string) => V | undefined) =>
  (key: string): V | undefined => {
    const known = look(key);
    if (known === undefined) reads.miss += 1;
    else reads.hit += 1;
    return known;
  };

function createCache<V extends object>(bus: Bus, options: CacheOptions, reads: Reads): Cache<V> {
  let entries: LRUCache<string, V> | undefined;
  const look = counting(reads, (key) => (bus.connected() ? entries?.get(key) : undefined));
  /** Made when the first value comes: it takes the room of all its entries at once. */
  const kept = (): LRUCache<string, V> => (entries ??= createEntries<V>(options));
  const readings = new Map<string, Reading>();
  const topic = `cache.${options.name}`;

  const drop = (keys: readonly string[]): void => {
    for (const key of keys) {
      entries?.delete(key);
      forget(key, readings.get(key));
    }
  };
  const forget = (key: string, reading: Reading | undefined): void => {
    if (!reading) return;
    reading.stale = true;
    readings.delete(key);
  };
  const clear = (): void => {
    entries?.clear();
    for (const [key, reading] of readings) forget(key, reading);
  };
  const read = <T extends V | undefined>(key: string, loader: () => Promise<T>): Promise<T> => {
    const result = loader();
    const reading: Reading = { result, stale: false };
    readings.set(key, reading);
    const finish = (value: T | undefined): void => {
      if (readings.get(key) === reading) readings.delete(key);
      if (value !== undefined && !reading.stale && bus.connected()) kept().set(key, value);
    };
    result.then(finish, () => finish(undefined));
    return result;
  };

  const invalidated = async (keys: readonly string[]): Promise<void> => {
    drop(keys);
    await options.onInvalidated?.(keys);
  };
  bus.subscribe(topic, (keys) => invalidated(keys as readonly string[]));
  bus.onReconnect(clear);

  return {
    get: look,
    set(key, value) {
      if (bus.connected()) kept().set(key, value);
    },
    async load(key, loader) {
      const known = look(key);
      if (known !== undefined) return known;
      if (!bus.connected()) return loader();
      const reading = readings.get(key);
      return reading ? (reading.result as ReturnType<typeof loader>) : read(key, loader);
    },
    async invalidate(keys) {
      await Promise.all([invalidated(keys), bus.announce(topic, keys)]);
    },
    clear,
    get size() {
      return entries?.size ?? 0;
    },
  };
}
