/** Schedules with a clock of the test's own: once over all nodes, across changes of the clock, with the policies. */
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { type OpenTestDatabase, openTestDatabase } from '../../../../test/support/database.ts';
import { silentLog } from '../../../../test/support/log.ts';
import { migrations as eventMigrations } from '../../../kernel/events/migrations.ts';
import { newId } from '../../../kernel/ids.ts';
import { createDurableQueue } from '../../../kernel/queue/create-durable-queue.ts';
import { migrations as queueMigrations } from '../../../kernel/queue/migrations.ts';
import type { FunctionsConfig } from '../config.ts';
import type { FunctionInputs, StoredFunction } from '../definition/definition.ts';
import { migrations } from '../migrations.ts';
import type { FunctionStore } from '../services/store.ts';
import { queueName } from './parts.ts';
import { createSchedules, nextRuns, type Schedules } from './schedules.ts';

let opened: OpenTestDatabase;
let other: OpenTestDatabase['database'];
beforeAll(async () => {
  const sets = [
    { owner: 'events', migrations: eventMigrations },
    { owner: 'queue', migrations: queueMigrations },
    { owner: 'functions', migrations: migrations.filter(({ id }) => id === '0004-triggers') },
  ];
  opened = await openTestDatabase({ migrations: sets });
  other = await opened.openAgain();
});
afterAll(() => opened.close());

let now = new Date();
let cron: FunctionsConfig['cron'];
let functions: readonly StoredFunction[] = [];
/** What the nodes know of them, where that is something else. */
let known: readonly StoredFunction[] | undefined;
let nodes: readonly Schedules[] = [];
beforeEach(async () => {
  cron = { catchUp: false, jitterMs: 0 };
  await opened.database.query({ text: 'delete from penstock.queue_items' });
  const store = {
    all: () => known ?? functions,
    byId: (id: string) => functions.find(({ _id }) => _id === id),
  };
  nodes = [opened.database, other].map((database) =>
    createSchedules({
      ...{ database, log: silentLog, now: () => now, wake: () => undefined },
      load: async () => functions,
      config: () => ({ cron }) as FunctionsConfig,
      ...{
        store: store as unknown as FunctionStore,
        queue: createDurableQueue(database, queueName),
      },
    }),
  );
});

const scheduled = (inputs: FunctionInputs): StoredFunction =>
  ({ _id: newId(), functionType: 'cron', enabled: true, inputs }) as unknown as StoredFunction;
const begin = async (at: string, inputs: FunctionInputs): Promise<StoredFunction> => {
  now = new Date(at);
  const one = scheduled(inputs);
  functions = [one];
  await Promise.all(nodes.map((node) => node.reconcile()));
  return one;
};
/** Both nodes look at the same moment, at each of these. */
const tickAt = async (...times: readonly string[]): Promise<void> => {
  for (const at of times) {
    now = new Date(at);
    await Promise.all(nodes.map((node) => node.tick()));
  }
};
const runs = async (state = 'waiting'): Promise<string[]> => {
  const { rows } = await opened.database.query<{ at: string }>({
    text: `select data->>'scheduledAt' as at from penstock.queue_items where state = $1 order by seq`,
    values: [state],
  });
  return rows.map(({ at }) => at);
};
const endAll = () =>
  opened.database.query({
    text: `update penstock.queue_items set state = 'done' where state = 'waiting'`,
  });

describe('a schedule', () => {
  it('runs each time once over two nodes, and its times are kept over restarts', async () => {
    await begin('2026-01-01T00:00:10Z', { event: '* * * * *', overlap: 'parallel' });
    await tickAt('2026-01-01T00:00:59.9Z', '2026-01-01T00:01:00Z', '2026-01-01T00:01:00.5Z');
    await tickAt('2026-01-01T00:02:00Z');
    await Promise.all(nodes.map((node) => node.reconcile()));
    await tickAt('2026-01-01T00:02:30Z', '2026-01-01T00:03:00Z');
    expect(await runs()).toEqual([
      ...['2026-01-01T00:01:00.000Z', '2026-01-01T00:02:00.000Z', '2026-01-01T00:03:00.000Z'],
    ]);
  });

  it('keeps the hour of its zone when clocks change', () => {
    const daily = scheduled({ event: '30 9 * * *', timezone: 'Europe/Athens' });
    const spring = nextRuns(daily, new Date('2026-03-27T12:00:00Z'), 3);
    expect(spring.map((at) => at.toISOString())).toEqual([
      ...['2026-03-28T07:30:00.000Z', '2026-03-29T06:30:00.000Z', '2026-03-30T06:30:00.000Z'],
    ]);
    const autumn = nextRuns(daily, new Date('2026-10-23T12:00:00Z'), 3);
    expect(autumn.map((at) => at.toISOString())).toEqual([
      ...['2026-10-24T06:30:00.000Z', '2026-10-25T07:30:00.000Z', '2026-10-26T07:30:00.000Z'],
    ]);
  });

  it('runs every minute once through the hour that is there twice', async () => {
    await begin('2026-10-25T00:30:30Z', {
      ...{ event: '*/30 * * * *', timezone: 'Europe/Athens', overlap: 'parallel' },
    });
    const half = (n: number) =>
      new Date(Date.parse('2026-10-25T00:30:00Z') + n * 1_800_000).toISOString();
    await tickAt(...[1, 2, 3, 4].map(half));
    expect(await runs()).toEqual([1, 2, 3, 4].map(half));
  });

  it.each(['while it runs', 'while it was stopped'])(
    'goes on when a clock that was ahead is set right %s',
    async (when) => {
      await begin('2026-01-02T00:00:10Z', { event: '* * * * *', overlap: 'parallel' });
      await tickAt('2026-01-02T12:00:30Z', '2026-01-02T12:01:00Z');
      now = new Date('2026-01-02T00:01:30Z');
      if (when === 'while it was stopped') await Promise.all(nodes.map((node) => node.reconcile()));
      await tickAt('2026-01-02T00:01:30Z', '2026-01-02T00:02:00Z');
      expect(await runs()).toEqual(['2026-01-02T12:01:00.000Z', '2026-01-02T00:02:00.000Z']);
    },
  );

  it('takes six fields and names', () => {
    const from = new Date('2026-01-01T00:00:00Z');
    const next = (event: string) => nextRuns(scheduled({ event }), from, 1)[0]?.toISOString();
    expect(next('*/15 * * * * *')).toBe('2026-01-01T00:00:15.000Z');
    expect(next('@hourly')).toBe('2026-01-01T01:00:00.000Z');
    expect(next('0 12 * * 1')).toBe('2026-01-05T12:00:00.000Z');
  });

  it('is skipped while an earlier run has not ended, unless it queues', async () => {
    await begin('2026-01-01T00:00:10Z', { event: '* * * * *' });
    await tickAt('2026-01-01T00:01:00Z', '2026-01-01T00:02:00Z');
    expect(await runs()).toEqual(['2026-01-01T00:01:00.000Z']);
    await endAll();
    await tickAt('2026-01-01T00:03:00Z');
    expect(await runs()).toEqual(['2026-01-01T00:03:00.000Z']);
    await endAll();
    await begin('2026-01-01T01:00:10Z', { event: '* * * * *', overlap: 'queue' });
    await tickAt('2026-01-01T01:01:00Z', '2026-01-01T01:02:00Z');
    expect(await runs()).toHaveLength(2);
  });

  it('runs what was missed once or not at all, and then goes on from now', async () => {
    await begin('2026-01-01T00:00:10Z', { event: '0 * * * *' });
    await tickAt('2026-01-01T05:30:00Z');
    expect(await runs()).toEqual([]);
    await tickAt('2026-01-01T06:00:00Z');
    expect(await runs()).toEqual(['2026-01-01T06:00:00.000Z']);
    await endAll();
    await begin('2026-01-02T00:00:10Z', { event: '0 * * * *', missed: 'once' });
    await tickAt('2026-01-02T05:30:00Z', '2026-01-02T05:31:00Z');
    expect(await runs()).toEqual(['2026-01-02T01:00:00.000Z']);
  });

  it('makes up for what was missed where the configuration says so, and puts runs off by a part of the jitter', async () => {
    cron = { catchUp: true, jitterMs: 60_000 };
    await begin('2026-01-03T00:00:10Z', { event: '0 * * * *' });
    await tickAt('2026-01-03T05:30:00Z');
    expect(await runs()).toEqual(['2026-01-03T01:00:00.000Z']);
    await endAll();
    await begin('2026-01-04T00:00:10Z', { event: '0 * * * *', missed: 'none' });
    await tickAt('2026-01-04T05:30:00Z');
    expect(await runs()).toEqual([]);
    await begin('2026-01-05T00:00:10Z', { event: '* * * * *', overlap: 'parallel' });
    for (let minute = 1; minute <= 20; minute += 1)
      await tickAt(new Date(Date.parse('2026-01-05T00:00:00Z') + minute * 60_000).toISOString());
    const { rows } = await opened.database.query<{ late: number }>({
      text: `select extract(epoch from due_at - (data->>'scheduledAt')::timestamptz)::float8 as late
        from penstock.queue_items where state = 'waiting'`,
    });
    expect(rows).toHaveLength(20);
    expect(rows.every(({ late }) => late >= 0 && late <= 60)).toBe(true);
    expect(new Set(rows.map(({ late }) => late)).size).toBeGreaterThan(1);
  });

  it('stays where a node hears late of a change before it', async () => {
    const first = await begin('2026-01-01T00:00:10Z', { event: '0 * * * *' });
    functions = [first, scheduled({ event: '5 * * * *' })];
    await nodes[0]?.reconcile();
    known = [first];
    await nodes[1]?.reconcile();
    known = undefined;
    await tickAt('2026-01-01T00:05:00Z');
    expect(await runs()).toEqual(['2026-01-01T00:05:00.000Z']);
  });

  it('begins anew when it is changed, and ends with its function', async () => {
    const one = await begin('2026-01-01T00:00:10Z', { event: '0 * * * *' });
    functions = [{ ...one, inputs: { event: '5 * * * *' } }];
    await Promise.all(nodes.map((node) => node.reconcile()));
    await tickAt('2026-01-01T00:05:00Z');
    expect(await runs()).toEqual(['2026-01-01T00:05:00.000Z']);
    functions = [];
    await Promise.all(nodes.map((node) => node.reconcile()));
    await tickAt('2026-01-01T01:05:00Z');
    expect(await runs()).toHaveLength(1);
  });
});
