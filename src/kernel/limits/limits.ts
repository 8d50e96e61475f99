import type { LRUCache } from 'lru-cache';
import { createLru } from '../lru.ts';

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
  /**
   * So many more at once, for who was quiet before. Such a budget comes back bit by bit, `requests` in `seconds`, and not
   * as a whole at the end of a window.
   */
  readonly burst?: number;
  /** Each node counts alone, although nodes share their counters. */
  readonly local?: boolean;
  /** Nothing passes while the shared counters do not answer; else each node counts alone then. */
  readonly failClosed?: boolean;
}

/** How much of a budget there is at most. */
export const capacityOf = ({ requests, burst = 0 }: LimitBucket): number => requests + burst;

export interface LimitState {
  readonly allowed: boolean;
  readonly remaining: number;
  /** Milliseconds until the budget is whole again; of one that comes back bit by bit and was refused: until it is enough. */
  readonly resetMs: number;
}

/* Fixed windows and steady budgets in this process: the whole truth on one node, the fallback while Redis is away. */

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
  const steady = new Map<string, LRUCache<string, number>>();
  const timesOf = ({ name }: LimitBucket): LRUCache<string, number> => {
    const known = steady.get(name) ?? createLru<string, number>(maxKeys);
    steady.set(name, known);
    return known;
  };

  const windowsOf = (bucket: LimitBucket): LRUCache<string, Window> => {
    const known = buckets.get(bucket.name);
    if (known) return known;
    const windows = createLru<string, Window>(maxKeys);
    buckets.set(bucket.name, windows);
    return windows;
  };

  return {
    consume(bucket, key, points) {
      if (bucket.burst !== undefined) {
        const times = timesOf(bucket);
        const { state, wholeAt } = steadyState(bucket, points, times.get(key), performance.now());
        if (state.allowed) times.set(key, wholeAt);
        return state;
      }
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
      if (bucket.burst !== undefined) {
        const { state } = steadyState(bucket, 0, timesOf(bucket).get(key), now);
        return { ...state, allowed: state.remaining > 0 };
      }
      const window = windowsOf(bucket).get(key);
      if (!window || window.endsAt <= now)
        return { allowed: true, remaining: bucket.requests, resetMs: 0 };
      return stateOf(bucket, window, now, window.used < bucket.requests);
    },
    reset(bucket, key) {
      windowsOf(bucket).delete(key);
      timesOf(bucket).delete(key);
    },
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

/**
 * A budget that comes back bit by bit is one number: when it is whole again (generic cell rate algorithm). What is taken
 * puts that off; it may not lie further ahead than the whole budget takes to come back.
 */
function steadyState(
  bucket: LimitBucket,
  points: number,
  known: number | undefined,
  now: number,
): { readonly state: LimitState; readonly wholeAt: number } {
  const perPoint = (bucket.seconds * 1_000) / bucket.requests;
  const whole = capacityOf(bucket) * perPoint;
  const before = Math.max(known ?? now, now);
  const wholeAt = before + points * perPoint;
  const over = wholeAt - now - whole;
  // A part of a microsecond is rounding.
  const allowed = over < 0.001;
  const left = whole - ((allowed ? wholeAt : before) - now);
  const remaining = Math.max(0, Math.floor(left / perPoint + 0.001));
  const resetMs = Math.max(0, Math.ceil(allowed ? wholeAt - now : over));
  return { state: { allowed, remaining, resetMs }, wholeAt };
}
