/** Windows in Redis, shared by all nodes; this node's own while Redis does not answer. */
import { RateLimiterRedis, RateLimiterRes } from 'rate-limiter-flexible';
import { errors } from '../errors.ts';
import type { Redis } from '../redis.ts';
import { capacityOf, type LimitBucket, type LimitState, type MemoryLimits } from './limits.ts';

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

/** The same as `steadyState` in memory, in one step for all nodes, on the clock of the server. Milliseconds. */
const steadyScript = `
  local time = redis.call('TIME')
  local now = time[1] * 1000 + time[2] / 1000
  local perPoint, whole, points = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
  local before = math.max(tonumber(redis.call('GET', KEYS[1]) or '0'), now)
  local wholeAt = before + points * perPoint
  local over = wholeAt - now - whole
  if over >= 0.001 then
    return {0, math.floor((whole - before + now) / perPoint + 0.001), math.ceil(over)}
  end
  if points > 0 then
    redis.call('SET', KEYS[1], string.format('%.3f', wholeAt), 'PX', math.ceil(wholeAt - now) + 1)
  end
  return {1, math.floor((whole - wholeAt + now) / perPoint + 0.001), math.ceil(wholeAt - now)}`;

async function takeSteadily(
  { commands, key: nameOf }: Redis,
  bucket: LimitBucket,
  key: string,
  points: number,
): Promise<LimitState> {
  const perPoint = (bucket.seconds * 1_000) / bucket.requests;
  const answer = await commands.eval(
    steadyScript,
    1,
    nameOf('limit', `${bucket.name}:steady`, key),
    perPoint,
    capacityOf(bucket) * perPoint,
    points,
  );
  const [allowed, remaining, resetMs] = answer as readonly [number, number, number];
  return { allowed: allowed === 1, remaining: Math.max(0, remaining), resetMs };
}

/** Counters of fixed windows, one for each bucket. */
function createWindows(redis: Redis) {
  const limiters = new Map<string, RateLimiterRedis>();
  return (bucket: LimitBucket): RateLimiterRedis => {
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
}

const stateOf = (bucket: LimitBucket, answer: Answer, allowed: boolean): LimitState => ({
  allowed,
  remaining: Math.max(0, Math.min(bucket.requests, answer.remainingPoints)),
  resetMs: Math.max(0, answer.msBeforeNext),
});

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
  const windows = createWindows(redis);
  /** What this node says alone. Throws 503 where it is not to. */
  const alone = (bucket: LimitBucket, answer: () => LimitState): LimitState => {
    onFallback();
    if (bucket.failClosed)
      throw errors.UNAVAILABLE({ message: 'Requests cannot be counted now', retryAfter: 1 });
    return answer();
  };

  return {
    async consume(bucket, key, points) {
      const inMemory = () => memory.consume(bucket, key, points);
      if (bucket.burst !== undefined) {
        const state = await breaker.attempt(() => takeSteadily(redis, bucket, key, points));
        return state ?? alone(bucket, inMemory);
      }
      try {
        const answer = await breaker.attempt(() => windows(bucket).consume(key, points));
        if (answer) return stateOf(bucket, answer, true);
      } catch (refusal) {
        return stateOf(bucket, refusal as RateLimiterRes, false);
      }
      return alone(bucket, inMemory);
    },
    async peek(bucket, key) {
      if (bucket.burst !== undefined) {
        const state = await breaker.attempt(() => takeSteadily(redis, bucket, key, 0));
        if (!state) return alone(bucket, () => memory.peek(bucket, key));
        return { ...state, allowed: state.remaining > 0 };
      }
      const asked = await breaker.attempt(async () => ({ answer: await windows(bucket).get(key) }));
      if (!asked) return alone(bucket, () => memory.peek(bucket, key));
      if (!asked.answer) return { allowed: true, remaining: bucket.requests, resetMs: 0 };
      return stateOf(bucket, asked.answer, asked.answer.consumedPoints < bucket.requests);
    },
    async reset(bucket, key) {
      memory.reset(bucket, key);
      const give =
        bucket.burst === undefined
          ? () => windows(bucket).delete(key)
          : () => redis.commands.del(redis.key('limit', `${bucket.name}:steady`, key));
      if (!(await breaker.attempt(async () => ({ done: await give() })))) onFallback();
    },
  };
}
