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
