import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { type KernelDatabases, openKernelDatabase } from '../../../test/support/kernel.ts';
import { noMetrics, silentLog } from '../../../test/support/quiet.ts';
import { waitFor } from '../../../test/support/wait-for.ts';
import { system } from '../caller.ts';
import type { Database } from '../database/database.ts';
import { createBus, type NodeBus } from './create-bus.ts';
import { createEvents, type RunningEvents } from './create-events.ts';
import type { PublishedEvent } from './events.ts';

const caller = system('test');
const topicsAfter = async (events: RunningEvents, sequence: number, limit = 100) =>
  (await events.since(sequence, limit))?.events.map((event) => event.topic);

describe('events', () => {
  let kernel: KernelDatabases;
  const started: { events: RunningEvents; bus: NodeBus }[] = [];

  const startNode = async (database: Database): Promise<RunningEvents> => {
    const bus = await createBus({ database, redis: undefined, log: silentLog });
    const events = createEvents({ database, bus, log: silentLog, metrics: noMetrics });
    await events.start();
    started.push({ events, bus });
    return events;
  };
  const record = (events: RunningEvents, pattern = 'test:*'): PublishedEvent[] => {
    const seen: PublishedEvent[] = [];
    events.subscribe(pattern, (event) => void seen.push(event));
    return seen;
  };

  beforeAll(async () => {
    kernel = await openKernelDatabase();
  });
  afterEach(async () => {
    for (const { events, bus } of started.splice(0)) {
      await events.stop();
      await bus.close();
    }
    await kernel.database.query({ text: 'delete from penstock.outbox' });
  });
  afterAll(() => kernel.close());

  it('hands a committed event to subscribers, with everything it was given', async () => {
    const events = await startNode(kernel.database);
    const seen = record(events);
    await kernel.database.transaction((transaction) =>
      events.emit(transaction, caller, {
        topic: 'test:create:Post',
        schema: 'Post',
        ids: ['1', '2'],
        operation: 'insert',
        payload: { note: 'ä"\\' },
      }),
    );
    await waitFor(() => seen.length === 1);
    expect(seen[0]).toMatchObject({
      topic: 'test:create:Post',
      schema: 'Post',
      ids: ['1', '2'],
      operation: 'insert',
      payload: { note: 'ä"\\' },
      actor: 'system:test',
    });
    expect(seen[0]!.sequence).toBe(await events.position());
    expect(new Date(seen[0]!.occurredAt).toISOString()).toBe(seen[0]!.occurredAt);
  });

  it('never publishes what was rolled back', async () => {
    const events = await startNode(kernel.database);
    const seen = record(events);
    const failing = kernel.database.transaction(async (transaction) => {
      await events.emit(transaction, caller, { topic: 'test:lost' });
      throw new Error('roll back');
    });
    await expect(failing).rejects.toThrow('roll back');
    await events.emit(kernel.database, caller, { topic: 'test:kept' });
    await waitFor(() => seen.length > 0);
    expect(seen.map((event) => event.topic)).toEqual(['test:kept']);
  });

  it('publishes by commit: a long transaction does not hide behind a later one, nor is it skipped', async () => {
    const events = await startNode(kernel.database);
    const seen = record(events);
    const held = Promise.withResolvers<void>();
    const emitted = Promise.withResolvers<void>();
    const long = kernel.database.transaction(async (transaction) => {
      await events.emit(transaction, caller, { topic: 'test:first-written' });
      emitted.resolve();
      await held.promise;
    });
    await emitted.promise;
    await events.emit(kernel.database, caller, { topic: 'test:first-committed' });
    await waitFor(() => seen.length === 1);
    const before = await events.position();
    held.resolve();
    await long;
    await waitFor(() => seen.length === 2);
    expect(seen.map((event) => event.topic)).toEqual([
      'test:first-committed',
      'test:first-written',
    ]);
    expect(seen[1]!.sequence).toBe(before + 1);
  });

  it('shows every event to every node, in one order without gaps, while several write and relay', async () => {
    const nodes = await Promise.all(
      [kernel.database, await kernel.another(), await kernel.another()].map(startNode),
    );
    const seen = nodes.map((node) => record(node));
    const start = await nodes[0]!.position();
    await Promise.all(
      nodes.flatMap((node, n) =>
        Array.from({ length: 60 }, (_, i) =>
          node.emit(kernel.database, caller, { topic: 'test:load', ids: [`${n}-${i}`] }),
        ),
      ),
    );
    for (const list of seen) await waitFor(() => list.length === 180);
    const [first, ...others] = seen;
    expect(first!.map((event) => event.sequence)).toEqual(
      Array.from({ length: 180 }, (_, i) => start + 1 + i),
    );
    for (const other of others) expect(other).toEqual(first);
    expect(new Set(first!.flatMap((event) => event.ids)).size).toBe(180);
  });

  it('publishes what a process left behind, also when nothing wakes it', async () => {
    const first = await startNode(kernel.database);
    const start = await first.position();
    await first.stop();
    await kernel.database.query({
      text: `insert into penstock.outbox (topic, actor) select 'test:left', 'system:gone' from generate_series(1, 2500)`,
    });
    const second = await startNode(kernel.database);
    const seen = record(second);
    await waitFor(() => seen.length === 2500);
    expect(seen.at(-1)!.sequence).toBe(start + 2500);
  });

  it('goes on for others when a subscriber fails, and stops for those who left', async () => {
    const events = await startNode(kernel.database);
    events.subscribe('test:*', () => {
      throw new Error('at once');
    });
    events.subscribe('test:*', async () => {
      throw new Error('later');
    });
    const left: PublishedEvent[] = [];
    const leave = events.subscribe('*', (event) => void left.push(event));
    const seen = record(events, 'test:b');
    await events.emit(kernel.database, caller, { topic: 'test:a' });
    await waitFor(() => left.length === 1);
    leave();
    await events.emit(kernel.database, caller, { topic: 'test:b' });
    await waitFor(() => seen.length === 1);
    expect(left).toHaveLength(1);
  });

  it('replays from a sequence, and says when it cannot', async () => {
    const events = await startNode(kernel.database);
    const seen = record(events);
    const start = await events.position();
    for (const topic of ['test:1', 'test:2', 'test:3'])
      await events.emit(kernel.database, caller, { topic });
    await waitFor(() => seen.length === 3);
    expect(await topicsAfter(events, start, 2)).toEqual(['test:1', 'test:2']);
    expect(await events.since(start, 2)).toMatchObject({ more: true });
    expect(await events.since(start + 1, 2)).toMatchObject({ more: false });
    expect(await events.since(start + 3, 10)).toEqual({ events: [], more: false });
    expect(await events.since(start + 4, 10)).toBeUndefined();
  });

  it('says when some were purged before this node had read them', async () => {
    const events = await startNode(kernel.database);
    const [first, busy] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    let gaps = 0;
    const seen: string[] = [];
    const heard = ({ topic }: PublishedEvent) => {
      seen.push(topic);
      first.resolve();
      return busy.promise;
    };
    events.subscribe('test:*', heard, () => {
      gaps += 1;
    });
    const start = await events.position();
    await events.emit(kernel.database, caller, { topic: 'test:read' });
    await first.promise;
    await events.emit(kernel.database, caller, { topic: 'test:lost' });
    await waitFor(async () => (await events.position()) === start + 2);
    await kernel.database.query({
      text: 'update penstock.outbox_state set purged_position = last_position',
    });
    busy.resolve();
    await waitFor(() => gaps === 1);
    await events.emit(kernel.database, caller, { topic: 'test:later' });
    await waitFor(() => seen.includes('test:later'));
    expect({ seen, gaps }).toEqual({ seen: ['test:read', 'test:later'], gaps: 1 });
  });

  it('reads nothing while nobody subscribes, and starts with what comes after the subscription', async () => {
    const events = await startNode(kernel.database);
    const start = await events.position();
    await events.emit(kernel.database, caller, { topic: 'test:before' });
    await waitFor(async () => (await events.position()) === start + 1);
    await waitFor(async () => (await events.since(start, 1))?.events.length === 1);
    const seen = record(events);
    await events.emit(kernel.database, caller, { topic: 'test:after' });
    await waitFor(() => seen.some((event) => event.topic === 'test:after'));
    expect(seen.at(-1)!.topic).toBe('test:after');
  });

  it('reads nothing of what nobody on this node hears, and misses nothing of what somebody does', async () => {
    let reads = 0;
    const counting: Database = {
      ...kernel.database,
      query(statement) {
        if (statement.text.includes('bytes_before')) reads += 1;
        return kernel.database.query(statement);
      },
    };
    const events = await startNode(counting);
    const seen = record(events, 'test:heard');
    const start = await events.position();
    const emit = (topic: string) => events.emit(kernel.database, caller, { topic });
    for (let i = 0; i < 3; i += 1) {
      await emit('test:unheard');
      await waitFor(async () => (await events.position()) === start + i + 1);
    }
    expect(reads).toBe(0);
    for (const topic of ['test:unheard', 'test:heard', 'test:unheard', 'test:heard'])
      await emit(topic);
    await waitFor(() => seen.length === 2);
    expect(seen.map(({ sequence }) => sequence)).toEqual([start + 5, start + 7]);
    expect(reads).toBeGreaterThan(0);
  });
});
