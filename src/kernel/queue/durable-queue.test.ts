/** Durable queues: every item is worked on, in the order of its lane, whatever dies in between. */
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type OpenTestDatabase, openTestDatabase } from '../../../test/support/database.ts';
import { silentLog } from '../../../test/support/log.ts';
import { waitFor } from '../../../test/support/wait-for.ts';
import type { Database } from '../database/database.ts';
import { migrations as eventMigrations } from '../events/migrations.ts';
import { createDurableQueue } from './create-durable-queue.ts';
import type { DurableQueue, QueueItem, Verdict, WorkerOptions } from './durable-queue.ts';
import { migrations } from './migrations.ts';

let opened: OpenTestDatabase;
beforeAll(async () => {
  opened = await openTestDatabase({
    migrations: [
      { owner: 'events', migrations: eventMigrations },
      { owner: 'queue', migrations },
    ],
  });
});
afterAll(() => opened.close());

let names = 0;
const newQueue = (): { name: string; queue: DurableQueue } => {
  names += 1;
  return {
    name: `queue-${names}`,
    queue: createDurableQueue(opened.database, `queue-${names}`),
  };
};

const working = (
  queue: DurableQueue,
  handle: (item: QueueItem) => Verdict | Promise<Verdict>,
  more: Partial<WorkerOptions> = {},
) =>
  queue.work({
    concurrency: () => 8,
    perTarget: () => 4,
    retryAfterMs: () => 10,
    log: silentLog,
    handle: async (item) => handle(item),
    ...more,
  });

const isDone = (queue: DurableQueue, count: number) =>
  waitFor(async () => (await queue.list({ state: 'done' }, { skip: 0, limit: 1 })).count === count);

const item = (n: number, orderKey?: string, target = 'a') => ({
  ...{ target, dedupe: `${n}`, data: { n }, orderKey },
});

describe('a durable queue', () => {
  it('takes each item once, and keeps what became of it', async () => {
    const { queue } = newQueue();
    expect(await queue.add(opened.database, [item(1), item(2)])).toBe(2);
    expect(await queue.add(opened.database, [item(2), item(3)])).toBe(1);
    const seen: unknown[] = [];
    const worker = working(queue, ({ data }) => {
      seen.push(data.n);
      return { outcome: 'done', note: { status: 200 } };
    });
    await isDone(queue, 3);
    await worker.stop();
    expect(seen.sort()).toEqual([1, 2, 3]);
    const { items } = await queue.list({}, { skip: 0, limit: 10 });
    expect(items[0]?.tries).toEqual([
      expect.objectContaining({ outcome: 'done', note: { status: 200 } }),
    ]);
  });

  it('notes what no column takes as far as it can, and tries nothing twice for it', async () => {
    const { queue } = newQueue();
    await queue.add(opened.database, [item(1)]);
    const worker = working(queue, ({ attempt }) => {
      if (attempt === 1) throw new Error('half \ud800 and \0 nothing');
      return { outcome: 'done', note: { error: 'a\0b' } };
    });
    await isDone(queue, 1);
    await worker.stop();
    const { items } = await queue.list({}, { skip: 0, limit: 1 });
    expect(items[0]?.tries.map(({ note }) => note)).toEqual([
      { error: 'half \ufffd and  nothing' },
      { error: 'ab' },
    ]);
  });

  it('keeps the order of a lane also when one of it fails, and lets others go on', async () => {
    const { queue } = newQueue();
    const lanes = Array.from({ length: 60 }, (_, n) => item(n, `lane-${n % 3}`));
    await queue.add(opened.database, lanes);
    const seen: number[] = [];
    let failures = 5;
    const worker = working(queue, async ({ data }) => {
      await sleep(1);
      if (data.n === 0 && failures-- > 0) return { outcome: 'again', afterMs: 15 };
      seen.push(data.n as number);
      return { outcome: 'done' };
    });
    await isDone(queue, 60);
    await worker.stop();
    for (const lane of [0, 1, 2])
      expect(seen.filter((n) => n % 3 === lane)).toEqual(
        Array.from({ length: 20 }, (_, n) => n * 3 + lane),
      );
  });

  it('takes what came later for somebody with nothing running before what waits for those who run', async () => {
    const { queue } = newQueue();
    const many = ['slow', 'slower'].flatMap((target) =>
      Array.from({ length: 5 }, (_, n) => item(n, undefined, target)),
    );
    await queue.add(opened.database, many);
    const begun: string[] = [];
    const open: (() => void)[] = [];
    const done: Verdict = { outcome: 'done' };
    const worker = working(
      queue,
      async ({ target }) => {
        begun.push(target);
        await new Promise<void>((end) => open.push(end));
        return done;
      },
      { concurrency: () => 4, perTarget: () => 2 },
    );
    await waitFor(async () => begun.length === 4);
    await queue.add(opened.database, [item(1, undefined, 'quick')]);
    open.shift()?.();
    await waitFor(async () => begun.length === 5);
    expect(begun.toSorted()).toEqual(['quick', 'slow', 'slow', 'slower', 'slower']);
    const ending = setInterval(() => open.shift()?.(), 1);
    await isDone(queue, 11);
    clearInterval(ending);
    await worker.stop();
  });

  it('gives an item of a node that died to another one, and says so', async () => {
    const { queue } = newQueue();
    await queue.add(opened.database, [item(1, 'x'), item(2, 'x')]);
    const hung = Promise.withResolvers<Verdict>();
    const started = Promise.withResolvers<void>();
    // Its lease is not kept up, as if its process were gone.
    const dead = working(
      queue,
      () => {
        started.resolve();
        return hung.promise;
      },
      { leaseMs: 300_000 },
    );
    await started.promise;
    await dead.stop(0);
    const worker = working(queue, () => ({ outcome: 'done' }));
    await opened.database.query({
      text: `update penstock.queue_items set due_at = now() where lease is not null`,
    });
    worker.wake();
    await isDone(queue, 2);
    hung.resolve({ outcome: 'dead', log: 'Given up' });
    await sleep(20);
    await worker.stop();
    const { items } = await queue.list({}, { skip: 0, limit: 10 });
    expect(items.map(({ state }) => state)).toEqual(['done', 'done']);
    expect(items[1]?.tries.map(({ outcome }) => outcome)).toEqual(['lost', 'done']);
  });

  it('does not begin anew what it works on itself, when its lease ran out in a pause', async () => {
    const { name, queue } = newQueue();
    await queue.add(opened.database, [item(1, 'x')]);
    const open: (() => void)[] = [];
    const seen: unknown[] = [];
    const worker = working(queue, async ({ data }) => {
      seen.push(data.n);
      await new Promise<void>((end) => open.push(end));
      return { outcome: 'done' };
    });
    await waitFor(async () => open.length === 1);
    await opened.database.query({
      text: `update penstock.queue_items set due_at = now() where queue = $1 and lease is not null`,
      values: [name],
    });
    await queue.add(opened.database, [item(2)]);
    worker.wake();
    await waitFor(async () => seen.includes(2));
    const ending = setInterval(() => open.shift()?.(), 1);
    await isDone(queue, 2);
    clearInterval(ending);
    await worker.stop();
    expect(seen).toEqual([1, 2]);
    const { items } = await queue.list({}, { skip: 0, limit: 10 });
    expect(items.map(({ tries }) => tries.map(({ outcome }) => outcome))).toEqual([
      ['done'],
      ['done'],
    ]);
  });

  it('waits for no later look with what becomes due while it looks', async () => {
    const { name } = newQueue();
    const next: unknown[] = [];
    const slow = new Proxy(opened.database, {
      get: (real, key) => (key === 'query' ? query : Reflect.get(real, key)),
    });
    const query: Database['query'] = async (statement) => {
      const isNext = statement.text.includes('min(due_at)');
      if (isNext) await sleep(60);
      const found = await opened.database.query(statement);
      if (isNext) next.push((found.rows[0] as { readonly ms: unknown }).ms);
      return found as never;
    };
    const queue = createDurableQueue(slow, name);
    await queue.add(opened.database, [{ ...item(1), dueAt: new Date(Date.now() + 40) }]);
    const worker = working(queue, () => ({ outcome: 'done' }));
    await waitFor(async () => next.length > 0);
    expect(next[0]).toBeLessThan(0);
    await isDone(queue, 1);
    await worker.stop();
  });

  it('never works on an item at two nodes at once', async () => {
    const { name, queue } = newQueue();
    const other = createDurableQueue(await opened.openAgain(), name);
    await queue.add(
      opened.database,
      Array.from({ length: 200 }, (_, n) => item(n, undefined, `t${n % 5}`)),
    );
    const seen: string[] = [];
    const handle = async ({ id }: QueueItem): Promise<Verdict> => {
      seen.push(id);
      await sleep(1);
      return { outcome: 'done' };
    };
    const workers = [working(queue, handle), working(other, handle)];
    await isDone(queue, 200);
    await Promise.all(workers.map((worker) => worker.stop()));
    expect(new Set(seen).size).toBe(200);
    expect(seen).toHaveLength(200);
  });

  it('begins what is repeated after the one of its lane that runs', async () => {
    const { queue } = newQueue();
    await queue.add(opened.database, [item(1, 'x'), item(2, 'x'), item(3, 'x'), item(4, 'y')]);
    const second = Promise.withResolvers<Verdict>();
    const begun: unknown[] = [];
    const worker = working(queue, ({ data }) => {
      const isFirst = data.n === 1 && !begun.includes(1);
      begun.push(data.n);
      if (data.n === 2) return second.promise;
      return isFirst ? { outcome: 'dead', log: 'Given up' } : { outcome: 'done' };
    });
    await waitFor(() => begun.includes(2));
    const { items } = await queue.list({ state: 'dead' }, { skip: 0, limit: 1 });
    expect(await queue.repeat(opened.database, items[0]?.id ?? '')).toBe(true);
    worker.wake();
    await queue.add(opened.database, [item(5, 'y')]);
    worker.wake();
    await waitFor(() => begun.includes(5));
    expect(begun.filter((n) => n === 1)).toHaveLength(1);
    second.resolve({ outcome: 'done' });
    await isDone(queue, 5);
    await worker.stop();
    expect(begun.filter((n) => n !== 4 && n !== 5)).toEqual([1, 2, 1, 3]);
  });

  it('holds, resumes, repeats and forgets', async () => {
    const { queue } = newQueue();
    await queue.add(opened.database, [item(1), item(2, undefined, 'b')]);
    await queue.hold(opened.database, 'a');
    const warnings: unknown[] = [];
    const worker = working(
      queue,
      ({ target }) =>
        target === 'b' ? { outcome: 'dead', log: 'Work of b is given up' } : { outcome: 'done' },
      { log: { ...silentLog, warn: (...said: unknown[]) => void warnings.push(said) } },
    );
    await waitFor(
      async () => (await queue.list({ state: 'dead' }, { skip: 0, limit: 1 })).count === 1,
    );
    expect((await queue.list({ state: 'held' }, { skip: 0, limit: 1 })).count).toBe(1);
    await queue.resume(opened.database, 'a');
    worker.wake();
    await isDone(queue, 1);
    await worker.stop();
    expect(warnings).toEqual([
      [expect.objectContaining({ target: 'b', tries: 1 }), 'Work of b is given up'],
    ]);
    const which = { target: 'b', since: new Date(0), max: 10 };
    expect(await queue.repeatDead(opened.database, which)).toBe(1);
    expect(await queue.figures()).toMatchObject({ waiting: 1, dead: 0 });
    await opened.database.query({
      text: `update penstock.queue_items set finished_at = now() - interval '8 days' where state = 'done'`,
    });
    expect(await queue.purge({ done: 7, dead: 30 })).toBeGreaterThan(0);
    await queue.remove(opened.database, 'b');
    expect((await queue.list({ target: 'b' }, { skip: 0, limit: 1 })).count).toBe(0);
  });
});
