/** Makes the caches of this node, kept true by the bus. */
import { LRUCache } from 'lru-cache';
import type { Bus } from '../events/bus.ts';
import type { Cache, CacheOptions, Caches } from './cache.ts';

/** A read in progress. `stale` once its key was invalidated: others must not join it, nor must it be kept. */
interface Reading {
  readonly result: Promise<object | undefined>;
  stale: boolean;
}

/** Caches that this node shares invalidations of with its peers on `bus`. */
export function createCaches(bus: Bus): Caches {
  const names = new Set<string>();
  return {
    create<V extends object>(options: CacheOptions): Cache<V> {
      if (names.has(options.name)) throw new Error(`There are two caches named "${options.name}"`);
      names.add(options.name);
      return createCache<V>(bus, options);
    },
  };
}

function createCache<V extends object>(bus: Bus, { name, maxEntries, ttlMs }: CacheOptions): Cache<V> {
  // Looking at the clock for every read would cost more than the read.
  const entries = new LRUCache<string, V>({ max: maxEntries, ttl: ttlMs, ttlResolution: Math.min(100, Math.ceil(ttlMs / 10)) });
  const readings = new Map<string, Reading>();
  const topic = `cache.${name}`;

  const drop = (keys: readonly string[]): void => {
    for (const key of keys) {
      entries.delete(key);
      forget(key, readings.get(key));
    }
  };
  const forget = (key: string, reading: Reading | undefined): void => {
    if (!reading) return;
    reading.stale = true;
    readings.delete(key);
  };
  const clear = (): void => {
    entries.clear();
    for (const [key, reading] of readings) forget(key, reading);
  };
  const read = <T extends V | undefined>(key: string, loader: () => Promise<T>): Promise<T> => {
    const result = loader();
    const reading: Reading = { result, stale: false };
    readings.set(key, reading);
    const settle = (value: T | undefined): void => {
      if (readings.get(key) === reading) readings.delete(key);
      if (value !== undefined && !reading.stale && bus.connected()) entries.set(key, value);
    };
    result.then(settle, () => settle(undefined));
    return result;
  };

  bus.subscribe(topic, (keys) => drop(keys as readonly string[]));
  bus.onReconnect(clear);

  return {
    get: (key) => (bus.connected() ? entries.get(key) : undefined),
    set(key, value) {
      if (bus.connected()) entries.set(key, value);
    },
    async load(key, loader) {
      if (!bus.connected()) return loader();
      const known = entries.get(key);
      if (known !== undefined) return known;
      const reading = readings.get(key);
      return reading ? (reading.result as ReturnType<typeof loader>) : read(key, loader);
    },
    async invalidate(keys) {
      drop(keys);
      await bus.announce(topic, keys);
    },
    clear,
    get size() {
      return entries.size;
    },
  };
}
