/** Counters that forget: rate limits and failure budgets. In Redis when it is given, with a local fallback. */
export interface Limits {
  /** Takes `points` from the budget of `key`. Atomic. */
  consume(bucket: LimitBucket, key: string, points?: number): Promise<LimitState>;
  /** Reads without taking. */
  peek(bucket: LimitBucket, key: string): Promise<LimitState>;
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
