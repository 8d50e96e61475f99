import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest';
import { noMetrics, silentLog } from '../../../test/support/quiet.ts';
import { describeWithRedis, startTestRedis } from '../../../test/support/servers/fixtures.ts';
import { waitFor } from '../../../test/support/wait-for.ts';
import { openRedis, type Redis } from '../redis.ts';
import { createLimits } from './create-limits.ts';
import type { LimitBucket, LimitState, Limits } from './limits.ts';

const bucket: LimitBucket = { name: 'test', requests: 3, seconds: 60 };

/** What holds wherever the counters are. */
function behavesAsLimits(limitsOf: () => Limits): void {
  it('allows up to the budget, then refuses until it is whole again', async () => {
    const limits = limitsOf();
    for (const remaining of [2, 1, 0])
      expect(await limits.consume(bucket, 'a')).toMatchObject({ allowed: true, remaining });
    const refused = await limits.consume(bucket, 'a');
    expect(refused).toMatchObject({ allowed: false, remaining: 0 });
    expect(refused.resetMs).toBeGreaterThan(0);
    expect(refused.resetMs).toBeLessThanOrEqual(60_000);
    expect(await limits.consume(bucket, 'b')).toMatchObject({ allowed: true });
    expect(await limits.consume({ ...bucket, name: 'other' }, 'a')).toMatchObject({
      allowed: true,
    });
  });

  it('peeks without taking, and gives everything back', async () => {
    const limits = limitsOf();
    expect(await limits.peek(bucket, 'peeked')).toEqual({
      allowed: true,
      remaining: 3,
      resetMs: 0,
    });
    await limits.consume(bucket, 'peeked', 2);
    expect(await limits.peek(bucket, 'peeked')).toMatchObject({ allowed: true, remaining: 1 });
    await limits.consume(bucket, 'peeked');
    expect(await limits.peek(bucket, 'peeked')).toMatchObject({ allowed: false, remaining: 0 });
    await limits.reset(bucket, 'peeked');
    expect(await limits.peek(bucket, 'peeked')).toMatchObject({ allowed: true, remaining: 3 });
  });

  it('gives a budget with a burst back bit by bit', async () => {
    const limits = limitsOf();
    const steady: LimitBucket = { name: 'steady', requests: 2, seconds: 60, burst: 3 };
    for (const remaining of [4, 3, 2, 1, 0])
      expect(await limits.consume(steady, 'a')).toMatchObject({ allowed: true, remaining });
    const refused = await limits.consume(steady, 'a');
    expect(refused).toMatchObject({ allowed: false, remaining: 0 });
    // One of two in a minute is there again after half of it, and not the whole budget after the minute.
    expect(refused.resetMs).toBeGreaterThan(0);
    expect(refused.resetMs).toBeLessThanOrEqual(30_000);
    expect(await limits.peek(steady, 'a')).toMatchObject({ allowed: false, remaining: 0 });
    await limits.reset(steady, 'a');
    expect(await limits.peek(steady, 'a')).toMatchObject({ allowed: true, remaining: 5 });
    const crowd = Array.from({ length: 50 }, () => limits.consume(steady, 'crowd'));
    expect((await Promise.all(crowd)).filter(({ allowed }) => allowed)).toHaveLength(5);
  });

  it('is atomic', async () => {
    const limits = limitsOf();
    const states = await Promise.all(
      Array.from({ length: 50 }, () => limits.consume(bucket, 'crowd')),
    );
    expect(states.filter((state) => state.allowed)).toHaveLength(3);
  });
}

describe('limits in memory', () => {
  const limits = createLimits({ redis: undefined, metrics: noMetrics, log: silentLog });
  afterEach(() => vi.useRealTimers());

  behavesAsLimits(() => limits);

  it('tells operators which budget is used up', () => {
    const lines: string[] = [];
    const log = { warn: (_fields: object, line: string) => void lines.push(line) };
    const told = createLimits({ redis: undefined, metrics: noMetrics, log });
    for (let i = 0; i < 4; i += 1) told.consume({ ...bucket, name: 'route:address' }, 'a');
    expect(lines).toEqual([expect.stringContaining('route:address (docs/operations/limits.md')]);
  });

  it('answers without a promise', () => {
    expect(limits.consume(bucket, 'now')).toMatchObject({ allowed: true, remaining: 2 });
    expect(limits.peek(bucket, 'now')).toMatchObject({ allowed: true, remaining: 2 });
  });

  it('forgets when the window is over', () => {
    vi.useFakeTimers({ toFake: ['performance'] });
    for (let i = 0; i < 4; i += 1) limits.consume(bucket, 'patient');
    vi.advanceTimersByTime(60_001);
    expect(limits.consume(bucket, 'patient')).toMatchObject({ allowed: true, remaining: 2 });
  });

  it('has a burst again only after as long as it takes', () => {
    vi.useFakeTimers({ toFake: ['performance'] });
    const steady: LimitBucket = { name: 'slowly', requests: 2, seconds: 60, burst: 3 };
    const take = (): boolean => (limits.consume(steady, 'a') as LimitState).allowed;
    for (let i = 0; i < 5; i += 1) take();
    vi.advanceTimersByTime(30_001);
    expect([take(), take()]).toEqual([true, false]);
    vi.advanceTimersByTime(150_001);
    expect(Array.from({ length: 6 }, take)).toEqual([true, true, true, true, true, false]);
  });

  it('remembers a bounded number of keys', () => {
    limits.consume(bucket, 'first', 3);
    for (let i = 0; i < 50_000; i += 1) limits.consume(bucket, `key-${i}`);
    expect(limits.peek(bucket, 'first')).toMatchObject({ allowed: true, remaining: 3 });
  });
});

await describeWithRedis('limits in Redis', () => {
  let server: Awaited<ReturnType<typeof startTestRedis>>;
  let redis: Redis | undefined;
  let limits: Limits;

  beforeAll(async () => {
    server = await startTestRedis();
    redis = await openRedis({ redisUrl: server.url }, silentLog, 'limits');
    limits = createLimits({ redis, metrics: noMetrics, log: silentLog });
  });
  afterAll(async () => {
    await redis?.close();
    await server.stop();
  });

  behavesAsLimits(() => limits);

  it('shares the budget between nodes', async () => {
    const other = createLimits({ redis, metrics: noMetrics, log: silentLog });
    await limits.consume(bucket, 'shared', 2);
    expect(await other.consume(bucket, 'shared')).toMatchObject({ allowed: true, remaining: 0 });
    expect(await limits.consume(bucket, 'shared')).toMatchObject({ allowed: false });
  });

  it('counts on this node alone where the bucket says so', async () => {
    const other = createLimits({ redis, metrics: noMetrics, log: silentLog });
    const own = { ...bucket, local: true };
    for (let i = 0; i < 3; i += 1) await limits.consume(own, 'own');
    expect(await limits.consume(own, 'own')).toMatchObject({ allowed: false });
    expect(await other.consume(own, 'own')).toMatchObject({ allowed: true, remaining: 2 });
  });

  it('makes nobody wait for a Redis that hangs, and shares again when it answers', async () => {
    const other = createLimits({ redis, metrics: noMetrics, log: silentLog });
    await server.signal('SIGSTOP');
    const begin = performance.now();
    try {
      const states = [];
      for (let i = 0; i < 20; i += 1) states.push(await limits.consume(bucket, 'hanging'));
      expect(states.map((state) => state.allowed)).toEqual([
        true,
        true,
        true,
        ...Array.from({ length: 17 }, () => false),
      ]);
      // One of them waited for a moment; before, each waited for two seconds: forty in all.
      expect(performance.now() - begin).toBeLessThan(20_000);
    } finally {
      await server.signal('SIGCONT');
    }
    let round = 0;
    await waitFor(async () => {
      round += 1;
      await limits.consume(bucket, `together ${round}`, 2);
      return (await other.peek(bucket, `together ${round}`)).remaining === 1;
    });
  });

  it('decides alone while Redis is away', async () => {
    await server.stop();
    const states = [];
    for (let i = 0; i < 4; i += 1) states.push(await limits.consume(bucket, 'alone'));
    expect(states.map((state) => state.allowed)).toEqual([true, true, true, false]);
    const closed = { ...bucket, failClosed: true };
    await expect(limits.consume(closed, 'alone')).rejects.toMatchObject({
      ...{ status: 503, code: 'UNAVAILABLE', retryAfter: 1 },
    });
    await expect(
      limits.consume({ ...closed, name: 'steady', burst: 1 }, 'alone'),
    ).rejects.toMatchObject({ status: 503 });
    await limits.reset(bucket, 'alone');
    expect(await limits.peek(bucket, 'alone')).toMatchObject({ allowed: true, remaining: 3 });
  });
});
