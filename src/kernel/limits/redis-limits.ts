/** Windows in Redis, shared by all nodes; this node's own while Redis does not answer. */
import { RateLimiterRedis, RateLimiterRes } from 'rate-limiter-flexible';
import type { Redis } from '../redis.ts';
import type { LimitBucket, LimitState, MemoryLimits } from './limits.ts';

/**
 * Keeps a server that hangs from holding up everybody who asks it. Each call has a short time; after a
 * call that failed nobody waits for that server until it has answered a ping again.
 */
interface CircuitBreaker {
  /** The outcome of `work`, or `undefined` when it failed, took too long, or the server is known to be away. */
  attempt<T extends object>(work: () => Promise<T>): Promise<T | undefined>;
}

interface CircuitBreakerOptions {
  /** Milliseconds that a call may take. */
  readonly timeoutMs: number;
  /** Milliseconds from one unanswered ping to the next. */
  readonly restMs: number;
  /** Resolves when the server answers within `timeoutMs`. */
  readonly ping: (timeoutMs: number) => Promise<void>;
  /** Failures that are an answer, and pass on to the caller. */
  readonly isAnswer?: (error: unknown) => boolean;
}

const late = Symbol('late');

function createCircuitBreaker({
  timeoutMs,
  restMs,
  ping,
  isAnswer = () => false,
}: CircuitBreakerOptions): CircuitBreaker {
  let open = false;
  let pinging = false;
  let restUntil = 0;

  const fail = (): undefined => {
    open = true;
    restUntil = performance.now() + restMs;
    return undefined;
  };
  /** Nobody waits for the ping: who asks meanwhile goes on without the server. */
  const lookAgain = (): void => {
    if (pinging || performance.now() < restUntil) return;
    pinging = true;
    const end = (answered: boolean): void => {
      pinging = false;
      if (answered) open = false;
      else fail();
    };
    ping(timeoutMs).then(
      () => end(true),
      () => end(false),
    );
  };

  return {
    async attempt(work) {
      if (open) {
        lookAgain();
        return undefined;
      }
      const { promise, resolve } = Promise.withResolvers<typeof late>();
      const timer = setTimeout(resolve, timeoutMs, late);
      try {
        const outcome = await Promise.race([work(), promise]);
        return outcome === late ? fail() : outcome;
      } catch (error) {
        if (isAnswer(error)) throw error;
        return fail();
      } finally {
        clearTimeout(timer);
      }
    },
  };
}

export interface SharedLimits {
  consume(bucket: LimitBucket, key: string, points: number): Promise<LimitState>;
  peek(bucket: LimitBucket, key: string): Promise<LimitState>;
  reset(bucket: LimitBucket, key: string): Promise<void>;
}

/** The smallest part of a limiter's answer that we read. */
type Answer = Pick<RateLimiterRes, 'remainingPoints' | 'msBeforeNext' | 'consumedPoints'>;

/** Milliseconds that a request waits for Redis before this node counts alone. */
const timeoutMs = 150;
/** Milliseconds between looks whether Redis answers again. */
const restMs = 500;

/** `onFallback` is called for each answer that this node gives alone. */
export function createSharedLimits(
  redis: Redis,
  memory: MemoryLimits,
  onFallback: () => void,
): SharedLimits {
  const breaker = createCircuitBreaker({
    timeoutMs,
    restMs,
    ping: redis.ping,
    isAnswer: (error) => error instanceof RateLimiterRes,
  });
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
        const answer = await breaker.attempt(() => limiterOf(bucket).consume(key, points));
        if (answer) return state(bucket, answer, true);
      } catch (refusal) {
        return state(bucket, refusal as RateLimiterRes, false);
      }
      onFallback();
      return memory.consume(bucket, key, points);
    },
    async peek(bucket, key) {
      const asked = await breaker.attempt(async () => ({
        answer: await limiterOf(bucket).get(key),
      }));
      if (!asked) {
        onFallback();
        return memory.peek(bucket, key);
      }
      if (!asked.answer) return { allowed: true, remaining: bucket.requests, resetMs: 0 };
      return state(bucket, asked.answer, asked.answer.consumedPoints < bucket.requests);
    },
    async reset(bucket, key) {
      memory.reset(bucket, key);
      if (!(await breaker.attempt(async () => ({ done: await limiterOf(bucket).delete(key) }))))
        onFallback();
    },
  };
}
