import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { createTestDatabase, type TestDatabase } from '../../../test/support/database.ts';
import { noMetrics, silentLog } from '../../../test/support/quiet.ts';
import { waitFor } from '../../../test/support/wait-for.ts';
import type { Database, Queryable } from '../database/database.ts';
import { migrate } from '../database/migrate.ts';
import { openDatabase } from '../database/open-database.ts';
import { createLocalBus } from './create-bus.ts';
import { createEvents, type RunningEvents } from './create-events.ts';
import type { PublishedEvent } from './events.ts';
import { migrations } from './migrations.ts';
import { countWaiting, lastPublishedAt, publishEvents, waitingSince } from './publication.ts';
import { tidyOutbox } from './retention.ts';

let test: TestDatabase;
let database: Database;
let running: RunningEvents | undefined;

const upTo = (id: string) =>
  migrate(database, [
    { owner: 'kernel/events', migrations: migrations.filter((each) => each.id <= id) },
  ]);
const run = (text: string, values: readonly unknown[] = []) => database.query({ text, values });
const write = async (count: number, topic = 'test:written') => {
  const text = `insert into penstock.outbox (topic, actor, ids) select $1, 'system:test', array[n::text] from generate_series(1, $2::int) n`;
  await run(text, [topic, count]);
  running?.wake();
};
const start = async (): Promise<RunningEvents> => {
  const events = createEvents({
    database,
    bus: createLocalBus('test'),
    log: silentLog,
    metrics: noMetrics,
  });
  await events.start();
  running = events;
  return events;
};
/** Everything after a position, read as readers do. */
const readAll = async (
  events: RunningEvents,
  from: number,
  limit = 500,
): Promise<PublishedEvent[]> => {
  const all: PublishedEvent[] = [];
  for (
    let page = await events.since(from, limit);
    page && page.events.length > 0;
    page = await events.since(all.at(-1)!.sequence, limit)
  ) {
    all.push(...page.events);
  }
  return all;
};
const sequences = (events: readonly PublishedEvent[]) => events.map(({ sequence }) => sequence);
const counted = (from: number, to: number) =>
  Array.from({ length: to - from + 1 }, (_, i) => from + i);
const drained = () =>
  waitFor(async () => (await countWaiting(database)) === 0, { timeoutMs: 30_000 });

beforeEach(async () => {
  test = await createTestDatabase();
  const settings = {
    dataDir: '/nonexistent',
    databaseUrl: test.url,
    databasePreparedStatements: true,
    databasePipelining: true,
  };
  database = await openDatabase({ settings, log: silentLog });
});
afterEach(async () => {
  await running?.stop();
  running = undefined;
  await database.close();
  await test.drop();
});

describe('the outbox', () => {
  it('keeps rows and positions over the upgrade from the table with positions in it', async () => {
    await upTo('0003-installation');
    await run(`insert into penstock.outbox (topic, actor, schema, ids, operation, payload, position)
      select 'test:old', 'system:test', 'Post', array[n::text], 'insert', '{"n": 1}', n from generate_series(2500, 11, -1) n`);
    await run(
      `insert into penstock.outbox (topic, actor, ids) select 'test:waits', 'system:test', array[n::text] from generate_series(1, 30) n`,
    );
    await run('update penstock.outbox_state set last_position = 2500, purged_position = 10');
    await upTo('9');
    const events = await start();
    await drained();
    expect(await events.since(9, 10)).toBeUndefined();
    const all = await readAll(events, 10);
    expect(sequences(all)).toEqual(counted(11, 2530));
    expect(all.slice(0, 2490).map(({ ids }) => Number(ids?.[0]))).toEqual(counted(11, 2500));
    expect(all.slice(2490).map(({ topic, ids }) => [topic, Number(ids?.[0])])).toEqual(
      counted(1, 30).map((n) => ['test:waits', n]),
    );
    expect(all[0]).toMatchObject({ schema: 'Post', operation: 'insert', payload: { n: 1 } });
    await write(1);
    await waitFor(async () => (await events.position()) === 2531);
  });

  it('updates and deletes no row of it, and writes one row for a thousand positions', async () => {
    await upTo('9');
    await write(250_000);
    expect(await countWaiting(database)).toBeGreaterThanOrEqual(250_000);
    expect(await waitingSince(database)).toBeGreaterThanOrEqual(0);
    const events = await start();
    await drained();
    expect(await events.position()).toBe(250_000);
    expect(await waitingSince(database)).toBeUndefined();
    expect(await lastPublishedAt(database)).toBeDefined();
    const { rows } = await run(
      'select count(*)::int as pages, min(first_position)::int as first, max(last_position)::int as last from penstock.outbox_pages',
    );
    expect(rows).toEqual([{ pages: 250, first: 1, last: 250_000 }]);
    // A position in the middle is found again.
    const page = await events.since(123_456, 3);
    expect(page?.events.map(({ sequence, ids }) => [sequence, ids])).toEqual(
      [123_457, 123_458, 123_459].map((n) => [n, [String(n)]]),
    );
    await run('select pg_stat_force_next_flush()');
    const stats = await run(
      `select sum(n_tup_upd)::int as updated, sum(n_tup_del)::int as deleted from pg_stat_all_tables where relname ~ '^outbox_[0-9]+$'`,
    );
    expect(stats.rows).toEqual([{ updated: 0, deleted: 0 }]);
  });

  it('publishes in parts what many transactions left behind', async () => {
    await upTo('9');
    for (let i = 0; i < 5; i += 1) await write(60_000);
    const first = await publishEvents(database);
    expect(first).toMatchObject({ count: 120_000, more: true });
    const events = await start();
    await drained();
    expect(await events.position()).toBe(300_000);
    expect((await readAll(events, 299_000)).map(({ sequence }) => sequence)).toEqual(
      counted(299_001, 300_000),
    );
  });

  it('gives a transaction that stayed open over thousands of others its positions when it commits', async () => {
    await upTo('9');
    const events = await start();
    const held = Promise.withResolvers<void>();
    const written = Promise.withResolvers<void>();
    const long = database.transaction(async (transaction) => {
      await transaction.query({
        text: `insert into penstock.outbox (topic, actor) select 'test:long', 'system:test' from generate_series(1, 1500)`,
      });
      written.resolve();
      await held.promise;
      await transaction.query({
        text: `insert into penstock.outbox (topic, actor) values ('test:long', 'system:test')`,
      });
    });
    await written.promise;
    for (let i = 0; i < 30; i += 1)
      await Promise.all(Array.from({ length: 50 }, () => write(1, 'test:short')));
    await drained();
    expect(await events.position()).toBe(1500);
    held.resolve();
    await Promise.all([long, write(1, 'test:short')]);
    await drained();
    const all = await readAll(events, 0, 333);
    expect(sequences(all)).toEqual(counted(1, 3002));
    expect(new Set(all.slice(0, 1500).map(({ topic }) => topic))).toEqual(new Set(['test:short']));
    expect(all.filter(({ topic }) => topic === 'test:long')).toHaveLength(1501);
  });

  it('tells what a transaction did after the commit of another one behind that, whichever began first', async () => {
    await upTo('9');
    const emit = (queryable: Queryable, topic: string, count: number) =>
      queryable.query({
        text: `insert into penstock.outbox (topic, actor) select $1, 'system:test' from generate_series(1, $2::int)`,
        values: [topic, count],
      });
    const turn = async (between: () => Promise<unknown>) => {
      const [begun, free] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
      const earlier = database.transaction(async (transaction) => {
        await emit(transaction, 'first', 600);
        begun.resolve();
        // As when it waits for the other one, to write what that deletes.
        await free.promise;
        await emit(transaction, 'created', 600);
      });
      await begun.promise;
      await between();
      await emit(database, 'deleted', 600);
      free.resolve();
      await earlier;
    };
    await turn(async () => undefined);
    await publishEvents(database);
    // Published while it was open, so many that it gets pages of its own.
    await turn(async () => {
      for (let i = 0; i < 1_100; i += 1) await write(1, 'between');
      await publishEvents(database);
    });
    const events = await start();
    await drained();
    const all = await readAll(events, 0, 333);
    expect(sequences(all)).toEqual(counted(1, 4_700));
    const told = all.map(({ topic }) => topic);
    const one = ['first', 'deleted', 'created'];
    expect(told.filter((topic, at) => topic !== told[at - 1])).toEqual([...one, 'between', ...one]);
  });

  it('reads no more than some bytes at once, and at least one event', async () => {
    await upTo('9');
    const events = await start();
    await run(`insert into penstock.outbox (topic, actor, ids)
      select 'test:large', 'system:test', (select array_agg(gen_random_uuid()::text) from generate_series(1, 20000) g where g > -n) from generate_series(1, 6) n`);
    await drained();
    const page = await events.since(0, 500);
    expect(page?.more).toBe(true);
    expect(page?.events.length).toBeGreaterThanOrEqual(1);
    expect(page?.events.length).toBeLessThan(6);
    expect(sequences(await readAll(events, 0))).toEqual(counted(1, 6));
  });
});

describe('retention', () => {
  const bytes = async () =>
    Number(
      (
        await run(
          `select sum(pg_total_relation_size(format('penstock.outbox_%s', bucket)::regclass)) as bytes from penstock.outbox_buckets`,
        )
      ).rows[0]!.bytes,
    );
  const age = (interval: string) =>
    run(
      `update penstock.outbox_buckets set published_at = published_at - $1::interval, opened_at = opened_at - $1::interval`,
      [interval],
    );
  const tidy = (minutes = 60, megabytes = 1_000) =>
    tidyOutbox(database, { minutes, megabytes }, silentLog);

  it('writes to the next partition after a while, and empties what is old as a whole', async () => {
    await upTo('9');
    const events = await start();
    const empty = await bytes();
    await write(20_000);
    await drained();
    expect(await tidy()).toBe(0);
    await age('20 minutes');
    expect(await tidy()).toBe(0);
    await write(10, 'test:next');
    await drained();
    expect((await run('select distinct bucket from penstock.outbox order by 1')).rows).toHaveLength(
      2,
    );
    expect(await readAll(events, 0)).toHaveLength(20_010);

    await run(
      `update penstock.outbox_buckets set published_at = published_at - interval '45 minutes' where last_position = 20000`,
    );
    expect(await tidy()).toBe(1);
    expect(await events.since(19_999, 10)).toBeUndefined();
    expect((await events.since(20_000, 100))?.events.map(({ topic }) => topic)).toEqual(
      Array(10).fill('test:next'),
    );
    expect((await run('select count(*)::int as count from penstock.outbox_pages')).rows).toEqual([
      { count: 1 },
    ]);
    expect(await bytes()).toBeLessThan(empty + 200_000);
    await write(1);
    await waitFor(async () => (await events.position()) === 20_011);
  });

  it('takes the oldest earlier when there is too much, and never what waits or is being written', async () => {
    await upTo('9');
    await write(5_000);
    await age('20 minutes');
    await publishEvents(database);
    await tidy();
    await write(5_000);
    const held = Promise.withResolvers<void>();
    const written = Promise.withResolvers<void>();
    const open = database.transaction(async (transaction) => {
      await transaction.query({
        text: `insert into penstock.outbox (topic, actor) values ('test:open', 'system:test')`,
      });
      written.resolve();
      await held.promise;
    });
    await written.promise;
    await age('20 minutes');
    await publishEvents(database);
    await tidy(60, 1_000);
    await write(1);
    // Partition 1 holds a row of an open transaction, the current one is never emptied: one is left to go.
    expect(await tidy(60, 0.1)).toBe(1);
    held.resolve();
    await open;
    expect(await tidy(60, 0.1)).toBe(0);
    const events = await start();
    await drained();
    expect(await events.position()).toBe(10_002);
    expect((await readAll(events, 10_000)).map(({ topic }) => topic).sort()).toEqual([
      'test:open',
      'test:written',
    ]);
  });

  it('goes round: more partitions are written in turn than there are', async () => {
    await upTo('9');
    const events = await start();
    for (let i = 0; i < 20; i += 1) {
      await write(3);
      await drained();
      await age('20 minutes');
      await tidy();
    }
    expect(await events.position()).toBe(60);
    expect(
      (await run('select count(*)::int as count from penstock.outbox')).rows[0]!.count,
    ).toBeLessThan(30);
    expect(sequences(await readAll(events, 54))).toEqual(counted(55, 60));
  });
});

describe('a database that was moved to another server', () => {
  it('publishes what waited and what is written there, whatever its transaction ids are', async () => {
    await upTo('9');
    await write(10);
    await publishEvents(database);
    await write(3, 'test:waits');
    // As in a dump of a server that has seen many more transactions.
    await run(`update penstock.outbox set xid = '900000' where topic = 'test:written'`);
    await run(`update penstock.outbox set xid = '900007' where topic = 'test:waits'`);
    await run(
      `update penstock.outbox_state set snapshot = '900005:900010:900005,900007', cluster = 'another'`,
    );
    await write(2, 'test:after');
    const events = await start();
    await waitFor(async () => (await events.position()) === 15);
    expect(await events.since(9, 10)).toBeUndefined();
    expect((await readAll(events, 10)).map(({ topic }) => topic)).toEqual([
      ...Array(3).fill('test:waits'),
      ...Array(2).fill('test:after'),
    ]);
    await write(1);
    await waitFor(async () => (await events.position()) === 16);
  });
});
