import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest';
import { type KernelDatabases, openKernelDatabase } from '../../../test/support/kernel.ts';
import { silentLog } from '../../../test/support/quiet.ts';
import { describeWithRedis, startTestRedis } from '../../../test/support/servers/fixtures.ts';
import { waitFor } from '../../../test/support/wait-for.ts';
import type { Database } from '../database/database.ts';
import { openRedis, type Redis } from '../redis.ts';
import { createBus, type NodeBus } from './create-bus.ts';

/** Shorter than in production, so that the tests wait less. */
const heartbeatMs = 100;

type Join = () => Promise<NodeBus>;

/** What holds for every bus between processes. */
function behavesAsBus(join: Join, databaseOf: () => Database): void {
  const countConfig = () =>
    databaseOf().query({
      text: `insert into penstock.versions values ('config', 1) on conflict (topic) do update set version = versions.version + 1`,
    });

  it('tells nobody who has stopped listening', async () => {
    const [a, b] = [await join(), await join()];
    const heard: string[] = [];
    const stop = b.subscribe('left', () => void heard.push('first'));
    b.subscribe('left', () => void heard.push('second'));
    stop();
    await a.announce('left', {});
    expect(heard).toEqual(['second']);
  });

  it('delivers what is published to other nodes only, unharmed', async () => {
    const [a, b] = [await join(), await join()];
    const seen: unknown[] = [];
    a.subscribe('greeting', () => void seen.push('own'));
    b.subscribe('greeting', (payload) => void seen.push(payload));
    const payload = { text: 'grüße 😀 \u0000 \\u0041 "', list: [1, null, true] };
    await a.publish('other', 1);
    await a.publish('greeting', payload);
    await waitFor(() => seen.length > 0);
    expect(seen).toEqual([payload]);
  });

  it('delivers long messages whole', async () => {
    const [a, b] = [await join(), await join()];
    const seen: unknown[] = [];
    b.subscribe('long', (payload) => void seen.push(payload));
    const payload = '😀ü'.repeat(40_000);
    await a.announce('long', payload);
    expect(seen).toEqual([payload]);
  });

  it('announces: waits until every other node has run its handlers', async () => {
    const nodes = [await join(), await join(), await join()] as const;
    let applied = 0;
    for (const node of nodes) {
      node.subscribe('config', async () => {
        await new Promise((resolve) => setTimeout(resolve, 30));
        applied += 1;
      });
    }
    expect(await nodes[0].announce('config', {})).toEqual({ replicas: 3, failed: [] });
    expect(applied).toBe(2);
  });

  it('reports a node whose handler failed', async () => {
    const [a, b] = [await join(), await join()];
    b.subscribe('config', () => {
      throw new Error('cannot apply');
    });
    expect(await a.announce('config', {})).toEqual({ replicas: 1, failed: [b.nodeId] });
  });

  it('waits for a node that does not confirm until it trusts its memory no longer', async () => {
    const [a, b] = [await join(), await join()];
    const gaps: string[] = [];
    b.onReconnect(() => void gaps.push('b'));
    b.subscribe('stuck', () => new Promise(() => undefined));
    b.subscribe('fine', () => undefined);
    gaps.length = 0;
    expect(await a.announce('stuck', {}, 50)).toEqual({ replicas: 1, failed: [b.nodeId] });
    // By then a heartbeat has told it that it missed something.
    expect(gaps).toEqual(['b']);
    expect(await a.announce('fine', {})).toEqual({ replicas: 2, failed: [] });
  });

  it('distrusts memory at the first look after a pause, before any timer', async () => {
    const bus = await join();
    expect([bus.connected(), bus.freshness.catchUp()]).toEqual([true, undefined]);
    const wall = Date.now();
    const clock = vi.spyOn(Date, 'now').mockReturnValue(wall + 2_000);
    try {
      expect(bus.connected()).toBe(false);
      expect(bus.freshness.catchUp()).toBeInstanceOf(Promise);
    } finally {
      clock.mockRestore();
    }
  });

  it('loads what is older than the database before it answers in doubt, and nothing else', async () => {
    const bus = await join();
    const loaded: string[] = [];
    bus.freshness.watch('config', async () => loaded.push('config'));
    bus.freshness.watch('schemas', async () => loaded.push('schemas'));
    // A change that nobody announces: whoever made it died right after.
    await countConfig();
    const clock = vi.spyOn(Date, 'now').mockReturnValue(Date.now() + 2_000);
    const caughtUp = Promise.all([bus.freshness.catchUp(), bus.freshness.catchUp()]);
    clock.mockRestore();
    await caughtUp;
    expect(loaded).toEqual(['config']);
  });

  it('takes in with the next heartbeat what was announced to nobody', async () => {
    const bus = await join();
    let loads = 0;
    bus.freshness.watch('config', async () => {
      loads += 1;
    });
    await countConfig();
    await waitFor(() => loads > 0);
    expect(bus.connected()).toBe(true);
  });

  it('trusts nothing that was kept when a node has ended without a word', async () => {
    const buses = [await join(), await join(), await join()];
    const gaps = buses.map(() => 0);
    for (const [place, bus] of buses.entries())
      bus.onReconnect(() => {
        gaps[place] = (gaps[place] ?? 0) + 1;
      });
    await databaseOf().query({
      text: `insert into penstock.nodes (node_id, listening, seen_at) values ('killed', true, now() - interval '10 seconds')`,
    });
    await waitFor(() => gaps.every((count) => count > 0));
    expect(buses.every((bus) => bus.connected())).toBe(true);
  });

  it('does not wait for a node that has left', async () => {
    const [a, b] = [await join(), await join()];
    await b.close();
    expect(await a.announce('anything', {})).toEqual({ replicas: 1, failed: [] });
  });
}

describe('bus over PostgreSQL', () => {
  let kernel: KernelDatabases;
  const joined: { bus: NodeBus; database: Database }[] = [];
  const join = async (as = (real: Database): Database => real): Promise<NodeBus> => {
    const database = as(await kernel.another());
    const bus = await createBus({ database, redis: undefined, log: silentLog, heartbeatMs });
    joined.push({ bus, database });
    return bus;
  };

  beforeAll(async () => {
    kernel = await openKernelDatabase();
  });
  afterEach(async () => {
    for (const { bus, database } of joined.splice(0)) {
      await bus.close();
      await database.close();
    }
  });
  afterAll(() => kernel.close());

  behavesAsBus(join, () => kernel.database);

  it('tells a node that it missed something however busy the database is at that moment', async () => {
    const failing: string[] = [];
    const a = await join((real) => ({
      ...real,
      query(statement) {
        const isNote = /set missed = true where|as hears/.test(statement.text);
        if (!isNote || failing.filter((text) => text === statement.text).length >= 3)
          return real.query(statement);
        failing.push(statement.text);
        return Promise.reject(new Error('canceling statement due to lock timeout'));
      },
    }));
    const b = await join();
    let gaps = 0;
    b.onReconnect(() => {
      gaps += 1;
    });
    b.subscribe('stuck', () => new Promise(() => undefined));
    gaps = 0;
    expect(await a.announce('stuck', {}, 50)).toEqual({ replicas: 1, failed: [b.nodeId] });
    expect(failing).toHaveLength(6);
    expect(gaps).toBe(1);
  });

  it('knows when it may miss messages, and says so when it is back', async () => {
    const bus = await join();
    let gaps = 0;
    bus.onReconnect(() => {
      gaps += 1;
    });
    expect(bus.connected()).toBe(true);
    await kernel.database.query({
      text: `select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and query like 'listen %'`,
    });
    // It may be back before anybody looks, so the loss shows by what it tells, not by the moment without connection.
    await waitFor(() => gaps > 0 && bus.connected());
    expect(gaps).toBe(1);
  });
});

await describeWithRedis('bus over Redis', () => {
  let kernel: KernelDatabases;
  let server: Awaited<ReturnType<typeof startTestRedis>>;
  const joined: { bus: NodeBus; redis: Redis }[] = [];
  const joinOn = async (database: Database): Promise<NodeBus> => {
    const redis = await openRedis({ redisUrl: server.url }, silentLog, 'test');
    const bus = await createBus({ database, redis, log: silentLog, heartbeatMs });
    if (redis) joined.push({ bus, redis });
    return bus;
  };

  beforeAll(async () => {
    kernel = await openKernelDatabase();
    server = await startTestRedis();
  });
  afterEach(async () => {
    for (const { bus, redis } of joined.splice(0)) {
      await bus.close();
      await redis.close();
    }
  });
  afterAll(async () => {
    await server.stop();
    await kernel.close();
  });

  behavesAsBus(
    () => joinOn(kernel.database),
    () => kernel.database,
  );

  it('does without Redis while it is away, and is whole again when it is back', async () => {
    const [a, b] = [await joinOn(kernel.database), await joinOn(kernel.database)];
    let gaps = 0;
    b.onReconnect(() => {
      gaps += 1;
    });
    await server.stop();
    await waitFor(() => !a.connected() && !b.connected());
    expect((await a.announce('config', {}, 100)).failed).toEqual([b.nodeId]);
    server = await startTestRedis(Number(new URL(server.url).port));
    await waitFor(() => a.connected() && b.connected());
    expect(gaps).toBeGreaterThan(0);
    b.subscribe('config', () => undefined);
    await waitFor(async () => (await a.announce('config', {})).failed.length === 0);
  });
});
