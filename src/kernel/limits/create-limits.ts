/** Makes the limits: in this process, or shared by all nodes through Redis. */
import type { Redis } from '../redis.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { Metrics } from '../telemetry/metrics.ts';
import { createMemoryLimits, type LimitBucket, type LimitState, type Limits } from './limits.ts';

export interface LimitsOptions {
  readonly redis: Redis | undefined;
  readonly metrics: Metrics;
  readonly log: Pick<Logger, 'warn'>;
}

export function createLimits({ redis, metrics, log }: LimitsOptions): Limits {
  const memory = createMemoryLimits();
  const refusals = metrics.counter(
    'rate_limited_total',
    'Requests refused because a budget was used up',
    ['bucket'],
  );
  const counted = (bucket: LimitBucket, state: LimitState): LimitState => {
    if (state.allowed) return state;
    const { name, requests, seconds } = bucket;
    refusals.inc({ bucket: name });
    // The name is part of the text, so that each budget has a line of its own in a minute.
    log.warn(
      { requests, seconds },
      `Refused, the budget is used up: ${name} (docs/operations/limits.md says which setting raises it)`,
    );
    return state;
  };
  if (!redis) {
    return {
      consume: (bucket, key, points = 1) => counted(bucket, memory.consume(bucket, key, points)),
      peek: memory.peek,
      reset: async (bucket, key) => memory.reset(bucket, key),
    };
  }
  const fallbacks = metrics.counter(
    'rate_limit_fallbacks_total',
    'Limits decided by this node alone because Redis did not answer',
  );
  // Loaded only when it is used: it takes time and memory.
  const shared = import('./redis-limits.ts').then(({ createSharedLimits }) =>
    createSharedLimits(redis, memory, () => fallbacks.inc()),
  );
  return {
    consume(bucket, key, points = 1) {
      if (bucket.local) return counted(bucket, memory.consume(bucket, key, points));
      return shared
        .then((limits) => limits.consume(bucket, key, points))
        .then((state) => counted(bucket, state));
    },
    peek: (bucket, key) =>
      bucket.local ? memory.peek(bucket, key) : shared.then((limits) => limits.peek(bucket, key)),
    reset: async (bucket, key) => (await shared).reset(bucket, key),
  };
}
