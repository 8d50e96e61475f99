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
