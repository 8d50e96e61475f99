/**
 * A bounded in-process cache of things that may be dropped at any time without
 * changing an answer. It is bypassed while the bus is not connected, and
 * emptied when it is back.
 */
export interface Cache<V extends object> {
  get(key: string): V | undefined;
  set(key: string, value: V): void;
  /** Drops the key here and, before it resolves, on every other live node. */
  invalidate(keys: readonly string[]): Promise<void>;
  clear(): void;
  readonly size: number;
}

export interface CacheOptions {
  /** Also the bus topic suffix; unique per cache. */
  readonly name: string;
  readonly maxEntries: number;
  /** Milliseconds after which an entry is read anew whatever happens. */
  readonly ttlMs: number;
}

export interface Caches {
  create<V extends object>(options: CacheOptions): Cache<V>;
}
