import { afterEach, describe, expect, it } from 'vitest';
import { type Cache, createCaches } from './cache.ts';
import type { Bus } from './events/bus.ts';
import { alwaysFresh } from './freshness/freshness.ts';

interface Value {
  readonly v: number;
}

/** Two nodes joined by a bus that can be cut. */
function createBusPair() {
  const handlers: Map<string, (payload: unknown) => unknown>[] = [new Map(), new Map()];
  const reconnects: (() => void)[] = [];
  let connected = true;
  const busOf = (own: number): Bus => ({
    nodeId: String(own),
    publish: async () => undefined,
    async announce(topic, payload) {
      await handlers[1 - own]?.get(topic)?.(payload);
      return { replicas: 2, failed: [] };
    },
    subscribe(topic, handler) {
      handlers[own]?.set(topic, handler);
      return () => void handlers[own]?.delete(topic);
    },
    connected: () => connected,
    freshness: alwaysFresh,
    onReconnect: (listener) => void reconnects.push(listener),
  });
  return {
    a: busOf(0),
    b: busOf(1),
    cut: () => {
      connected = false;
    },
    join: () => {
      for (const listener of reconnects) listener();
      connected = true;
    },
  };
}

describe('cache', () => {
  const options = { name: 'things', maxEntries: 2, ttlMs: 60_000 };
  let waiting: PromiseWithResolvers<Value>[] = [];
  /** A loader whose answer the test decides. */
  const slowly = (): Promise<Value> => {
    const reading = Promise.withResolvers<Value>();
    waiting.push(reading);
    return reading.promise;
  };
  const pair = () => {
    const buses = createBusPair();
    const a: Cache<Value> = createCaches(buses.a).create(options);
    const b: Cache<Value> = createCaches(buses.b).create(options);
    return { ...buses, cacheA: a, cacheB: b };
  };
  afterEach(() => {
    waiting = [];
  });

  it('drops keys on every node before an invalidation returns', async () => {
    const { cacheA, cacheB } = pair();
    cacheA.set('x', { v: 1 });
    cacheB.set('x', { v: 1 });
    cacheB.set('y', { v: 1 });
    await cacheA.invalidate(['x']);
    expect(cacheA.get('x')).toBeUndefined();
    expect(cacheB.get('x')).toBeUndefined();
    expect(cacheB.get('y')).toEqual({ v: 1 });
  });

  it('is bounded', () => {
    const { cacheA } = pair();
    for (const key of ['a', 'b', 'c']) cacheA.set(key, { v: 1 });
    expect(cacheA.size).toBe(2);
    expect(cacheA.get('a')).toBeUndefined();
  });

  it('is bypassed while messages may be missed, and empty afterwards', async () => {
    const { cacheA, cut, join } = pair();
    cacheA.set('x', { v: 1 });
    cut();
    expect(cacheA.get('x')).toBeUndefined();
    cacheA.set('y', { v: 1 });
    expect(await cacheA.load('x', async () => ({ v: 2 }))).toEqual({ v: 2 });
    join();
    expect(cacheA.size).toBe(0);
  });

  it('shares one read among concurrent callers and keeps its result', async () => {
    const { cacheA } = pair();
    const both = [cacheA.load('x', slowly), cacheA.load('x', slowly)];
    await Promise.resolve();
    expect(waiting).toHaveLength(1);
    waiting[0]?.resolve({ v: 1 });
    expect(await Promise.all(both)).toEqual([{ v: 1 }, { v: 1 }]);
    expect(cacheA.get('x')).toEqual({ v: 1 });
  });

  it('does not keep a value whose key was invalidated by another node while it was read', async () => {
    const { cacheA, cacheB } = pair();
    const old = cacheA.load('x', slowly);
    await cacheB.invalidate(['x']);
    const fresh = cacheA.load('x', slowly);
    waiting[1]?.resolve({ v: 2 });
    expect(await fresh).toEqual({ v: 2 });
    waiting[0]?.resolve({ v: 1 });
    expect(await old).toEqual({ v: 1 });
    expect(cacheA.get('x')).toEqual({ v: 2 });
  });

  it('does not keep failures and absences', async () => {
    const { cacheA } = pair();
    await expect(
      cacheA.load('x', async () => {
        throw new Error('unreachable');
      }),
    ).rejects.toThrow('unreachable');
    expect(await cacheA.load('x', async () => undefined)).toBeUndefined();
    expect(await cacheA.load('x', async () => ({ v: 3 }))).toEqual({ v: 3 });
  });

  it('refuses two caches of one name: they would share their invalidations', () => {
    const caches = createCaches(createBusPair().a);
    caches.create(options);
    expect(() => caches.create(options)).toThrow('two caches');
  });
});
