/** Fixed windows in this process: the whole truth on one node, the fallback while Redis is away. */
import { LRUCache } from 'lru-cache';
import type { LimitBucket, LimitState } from './limits.ts';

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
      if (!window || window.endsAt <= now) return { allowed: true, remaining: bucket.requests, resetMs: 0 };
      return stateOf(bucket, window, now, window.used < bucket.requests);
    },
    reset: (bucket, key) => void windowsOf(bucket).delete(key),
  };
}

const stateOf = (bucket: LimitBucket, window: Window, now: number, allowed: boolean): LimitState => ({
  allowed,
  remaining: Math.max(0, bucket.requests - window.used),
  resetMs: Math.ceil(window.endsAt - now),
});
