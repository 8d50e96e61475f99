import { LRUCache } from 'lru-cache';

/**
 * Counters that forget: rate limits and failure budgets. In Redis when it is given, with a local
 * fallback. Without Redis the answer is there at once, without a promise.
 */
export interface Limits {
  /** Takes `points` (1) from the budget of `key`. Atomic. */
  consume(bucket: LimitBucket, key: string, points?: number): LimitState | Promise<LimitState>;
  /** Reads without taking. */
  peek(bucket: LimitBucket, key: string): LimitState | Promise<LimitState>;
  /** Gives everything back, as after a successful login. */
  reset(bucket: LimitBucket, key: string): Promise<void>;
}

export interface LimitBucket {
  readonly name: string;
  readonly requests: number;
  readonly seconds: number;
}

export interface LimitState {
  readonly allowed: boolean;
  readonly remaining: number;
  /** Milliseconds until the budget is whole again. */
  readonly resetMs: number;
}

/* Fixed windows in this process: the whole truth on one node, the fallback while Redis is away. */

export interface MemoryLimits {
  consume(bucket: LimitBucket, key: string, points: number): LimitState;
  peek(bucket: LimitBucket, key: string): LimitState;
  reset(bucket: LimitBucket, key: string): void;
}

interface Window {
  used: number;
  /** On the clock of `performance.now()`. */
  endsAt: number;
}

/** Keys per bucket that are remembered; the least recently used goes first. About 100 bytes each. */
const maxKeys = 50_000;

export function createMemoryLimits(): MemoryLimits {
  const buckets = new Map<string, LRUCache<string, Window>>();

  const windowsOf = (bucket: LimitBucket): LRUCache<string, Window> => {
    const known = buckets.get(bucket.name);
    if (known) return known;
    const windows = new LRUCache<string, Window>({ max: maxKeys });
    buckets.set(bucket.name, windows);
    return windows;
  };

  return {
    consume(bucket, key, points) {
      const windows = windowsOf(bucket);
      const now = performance.now();
      let window = windows.get(key);
      if (!window || window.endsAt <= now) {
        window = { used: 0, endsAt: now + bucket.seconds * 1000 };
        windows.set(key, window);
      }
      window.used += points;
      return stateOf(bucket, window, now, window.used <= bucket.requests);
    },
    peek(bucket, key) {
      const now = performance.now();
      const window = windowsOf(bucket).get(key);
      if (!window || window.endsAt <= now)
        return { allowed: true, remaining: bucket.requests, resetMs: 0 };
      return stateOf(bucket, window, now, window.used < bucket.requests);
    },
    reset: (bucket, key) => void windowsOf(bucket).delete(key),
  };
}

const stateOf = (
  bucket: LimitBucket,
  window: Window,
  now: number,
  allowed: boolean,
): LimitState => ({
  allowed,
  remaining: Math.max(0, bucket.requests - window.used),
  resetMs: Math.ceil(window.endsAt - now),
});
