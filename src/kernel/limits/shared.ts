/** Windows in Redis, shared by all nodes; this node's own while Redis does not answer. */
import { RateLimiterRedis, RateLimiterRes } from 'rate-limiter-flexible';
import type { Redis } from '../redis.ts';
import type { LimitBucket, LimitState } from './limits.ts';
import type { MemoryLimits } from './memory.ts';

export interface SharedLimits {
  consume(bucket: LimitBucket, key: string, points: number): Promise<LimitState>;
  peek(bucket: LimitBucket, key: string): Promise<LimitState>;
  reset(bucket: LimitBucket, key: string): Promise<void>;
}

/** The smallest part of a limiter's answer that we read. */
type Answer = Pick<RateLimiterRes, 'remainingPoints' | 'msBeforeNext' | 'consumedPoints'>;

/** `onFallback` is called for each answer that this node gives alone. */
export function createSharedLimits(redis: Redis, memory: MemoryLimits, onFallback: () => void): SharedLimits {
  const limiters = new Map<string, RateLimiterRedis>();

  const limiterOf = (bucket: LimitBucket): RateLimiterRedis => {
    const id = `${bucket.name}:${bucket.requests}:${bucket.seconds}`;
    const known = limiters.get(id);
    if (known) return known;
    const limiter = new RateLimiterRedis({
      storeClient: redis.commands,
      keyPrefix: redis.key('limit', bucket.name),
      points: bucket.requests,
      duration: bucket.seconds,
      rejectIfRedisNotReady: true,
    });
    limiters.set(id, limiter);
    return limiter;
  };
  const state = (bucket: LimitBucket, answer: Answer, allowed: boolean): LimitState => ({
    allowed,
    remaining: Math.max(0, Math.min(bucket.requests, answer.remainingPoints)),
    resetMs: Math.max(0, answer.msBeforeNext),
  });

  return {
    async consume(bucket, key, points) {
      try {
        return state(bucket, await limiterOf(bucket).consume(key, points), true);
      } catch (problem) {
        if (problem instanceof RateLimiterRes) return state(bucket, problem, false);
        onFallback();
        return memory.consume(bucket, key, points);
      }
    },
    async peek(bucket, key) {
      try {
        const answer = await limiterOf(bucket).get(key);
        if (!answer) return { allowed: true, remaining: bucket.requests, resetMs: 0 };
        return state(bucket, answer, answer.consumedPoints < bucket.requests);
      } catch {
        onFallback();
        return memory.peek(bucket, key);
      }
    },
    async reset(bucket, key) {
      memory.reset(bucket, key);
      await limiterOf(bucket)
        .delete(key)
        .catch(() => onFallback());
    },
  };
}
