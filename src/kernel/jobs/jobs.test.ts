import Type from 'typebox';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { type KernelDatabases, openKernelDatabase } from '../../../test/support/kernel.ts';
import { noMetrics, silentLog } from '../../../test/support/quiet.ts';
import { waitFor } from '../../../test/support/wait-for.ts';
import type { Database } from '../database/database.ts';
import { migrate } from '../database/migrate.ts';
import { migrations as limitMigrations } from '../limits/migrations.ts';
import { migrations as queueMigrations } from '../queue/migrations.ts';
import { createBossLink } from './boss-database.ts';
import { createJobs, type RunningJobs } from './create-jobs.ts';
import { defineBatchJob, defineJob, type JobDefinition } from './jobs.ts';
import { openBoss } from './queues.ts';

interface Attempt {
  readonly n: number;
  readonly node: string;
}

describe('jobs', () => {
  let kernel: KernelDatabases;
  const started: RunningJobs[] = [];

  const startNode = async (
    definitions: readonly JobDefinition[],
    database: Database = kernel.database,
  ): Promise<RunningJobs> => {
    const jobs = createJobs({ database, log: silentLog, metrics: noMetrics });
    started.push(jobs);
    for (const definition of definitions) await jobs.register(definition);
    await jobs.start();
    return jobs;
  };
  /** A job that notes its runs; `fail` decides by attempt whether it throws. */
  const noting = (
    name: string,
    runs: Attempt[],
    {
      node = 'a',
      fail,
      retries,
    }: { node?: string; fail?: (n: number) => void; retries?: number } = {},
  ): JobDefinition =>
    defineJob({
      name,
      data: Type.Object({ n: Type.Integer() }),
      ...(retries !== undefined && { retries }),
      async handler({ n }) {
        runs.push({ n, node });
        fail?.(runs.length);
      },
    });

  beforeAll(async () => {
    kernel = await openKernelDatabase();
    await migrate(kernel.database, [
      { owner: 'limits', migrations: limitMigrations },
      { owner: 'queue', migrations: queueMigrations },
    ]);
  });
  afterEach(async () => {
    for (const jobs of started.splice(0)) await jobs.stop(1_000);
  });
  afterAll(() => kernel.close());

  it('runs what was enqueued together as one, and tries again only what failed', async () => {
    const runs: number[][] = [];
    const jobs = await startNode([
      defineBatchJob({
        name: 'test.batch',
        data: Type.Object({ n: Type.Integer() }),
        batch: {
          size: 50,
          async handler(all) {
            const numbers = all.map(({ n }) => n);
            runs.push(numbers);
            const failed = runs.flat().filter((n) => n === 13).length === 1;
            const place = numbers.indexOf(13);
            return new Map(failed && place >= 0 ? [[place, new Error('not yet')]] : []);
          },
        },
      }),
    ]);
    await jobs.enqueueMany(
      'test.batch',
      Array.from({ length: 40 }, (_, n) => ({ data: { n } })),
    );
    await waitFor(() => runs.flat().length === 41, { what: 'the failed one again' });
    expect(runs.length).toBeLessThan(10);
    expect(runs.flat().filter((n) => n === 13)).toHaveLength(2);
    expect(new Set(runs.flat()).size).toBe(40);
  });

  it('runs a job soon after it was enqueued and knows its state', async () => {
    const runs: Attempt[] = [];
    const jobs = await startNode([noting('test.simple', runs)]);
    const id = (await jobs.enqueue('test.simple', { n: 1 })) ?? '';
    await waitFor(() => runs.length === 1);
    await waitFor(async () => (await jobs.status(id))?.state === 'completed');
    expect(await jobs.status(id)).toEqual({
      id,
      name: 'test.simple',
      state: 'completed',
      attempts: 1,
    });
    expect(await jobs.status('not-an-id')).toBeUndefined();
    expect(await jobs.status('00000000-0000-7000-8000-000000000000')).toBeUndefined();
  });

  it('enqueues with the transaction: committed it runs, rolled back it never existed', async () => {
    const runs: Attempt[] = [];
    const jobs = await startNode([noting('test.transactional', runs)]);
    const failing = kernel.database.transaction(async (transaction) => {
      await jobs.enqueue('test.transactional', { n: 1 }, { transaction });
      throw new Error('roll back');
    });
    await expect(failing).rejects.toThrow('roll back');
    await kernel.database.transaction((transaction) =>
      jobs.enqueue('test.transactional', { n: 2 }, { transaction }),
    );
    // Without naming it, the transaction of the same flow counts too.
    await expect(
      kernel.database.transaction(async () => {
        await jobs.enqueue('test.transactional', { n: 3 });
        throw new Error('roll back');
      }),
    ).rejects.toThrow('roll back');
    await jobs.enqueue('test.transactional', { n: 4 });
    await waitFor(() => runs.length === 2);
    expect(runs.map(({ n }) => n).sort()).toEqual([2, 4]);
  });

  it('tries a failed job again', async () => {
    const runs: Attempt[] = [];
    const fail = (n: number): void => {
      if (n === 1) throw new Error('first attempt');
    };
    const jobs = await startNode([noting('test.retried', runs, { fail })]);
    const id = (await jobs.enqueue('test.retried', { n: 1 })) ?? '';
    await waitFor(async () => (await jobs.status(id))?.state === 'completed');
    expect(await jobs.status(id)).toMatchObject({ state: 'completed', attempts: 2 });
  });

  it('runs what was put off when it is due, whoever put it off, long before the next look', async () => {
    const runs: Attempt[] = [];
    const definition = noting('test.later', runs);
    const jobs = await startNode([definition]);
    // Committed later than it was put off, by a request whose transaction is over when the time comes.
    await kernel.database.transaction(async (transaction) => {
      await jobs.enqueue('test.later', { n: 1 }, { transaction, startAfterSeconds: 1 });
      await jobs.enqueueMany('test.later', [{ data: { n: 2 }, startAfterSeconds: 2 }]);
    });
    await waitFor(() => runs.length === 2, { what: 'jobs that were put off' });
    // A node that works on nothing.
    const idle = createJobs({
      database: await kernel.another(),
      log: silentLog,
      metrics: noMetrics,
    });
    await idle.register(definition);
    await idle.enqueue('test.later', { n: 3 }, { startAfterSeconds: 1 });
    await waitFor(() => runs.length === 3, { what: 'the job of another node' });
    await idle.stop();
    // A machine that stood still when the first was due finds two of them at once.
    expect(runs.map(({ n }) => n).sort()).toEqual([1, 2, 3]);
  });

  it('keeps a job that failed for good with the dead letters, and lives on', async () => {
    const runs: Attempt[] = [];
    const fail = (): void => {
      throw new Error('always');
    };
    const jobs = await startNode([
      noting('test.hopeless', runs, { fail, retries: 0 }),
      noting('test.other', runs),
    ]);
    const id = (await jobs.enqueue('test.hopeless', { n: 7 })) ?? '';
    await waitFor(async () => (await jobs.status(id))?.state === 'failed');
    const { rows } = await kernel.database.query({
      text: `select data, source_name as source from penstock_jobs.job where name = 'dead-letter'`,
    });
    expect(rows).toEqual([{ data: { n: 7 }, source: 'test.hopeless' }]);
    await jobs.enqueue('test.other', { n: 8 });
    await waitFor(() => runs.some(({ n }) => n === 8));
  });

  it('refuses data that does not fit and names that nobody registered', async () => {
    const jobs = await startNode([noting('test.strict', [])]);
    await expect(jobs.enqueue('test.strict', { n: 'one' })).rejects.toThrow(
      'does not fit its schema',
    );
    await expect(jobs.enqueue('test.unknown', {})).rejects.toThrow(
      'There is no job "test.unknown"',
    );
  });

  it('runs each job once when several nodes work', async () => {
    const runs: Attempt[] = [];
    const a = await startNode([noting('test.shared', runs, { node: 'a' })]);
    await startNode([noting('test.shared', runs, { node: 'b' })], await kernel.another());
    await Promise.all(Array.from({ length: 100 }, (_, n) => a.enqueue('test.shared', { n })));
    await waitFor(() => runs.length >= 100);
    expect(runs.map(({ n }) => n).sort((x, y) => x - y)).toEqual(
      Array.from({ length: 100 }, (_, n) => n),
    );
  });

  it('holds one waiting job per key', async () => {
    const runs: Attempt[] = [];
    const jobs = await startNode([noting('test.keyed', runs)]);
    const options = { singletonKey: 'k', startAfterSeconds: 60 };
    expect(await jobs.enqueue('test.keyed', { n: 1 }, options)).toEqual(expect.any(String));
    expect(await jobs.enqueue('test.keyed', { n: 2 }, options)).toBeNull();
    expect(await jobs.enqueue('test.keyed', { n: 3 }, { startAfterSeconds: 60 })).toEqual(
      expect.any(String),
    );
    expect(await jobs.enqueue('test.keyed', { n: 4 }, { startAfterSeconds: 60 })).toEqual(
      expect.any(String),
    );
  });

  it('waits for running jobs when it stops', async () => {
    let finished = false;
    const begun = Promise.withResolvers<void>();
    const slow = defineJob({
      name: 'test.slow',
      data: Type.Object({}),
      async handler() {
        begun.resolve();
        await new Promise((resolve) => setTimeout(resolve, 300));
        finished = true;
      },
    });
    const jobs = await startNode([slow]);
    await jobs.enqueue('test.slow', {});
    await begun.promise;
    await jobs.stop();
    expect(finished).toBe(true);
  });

  it('takes over changed retries of a queue that exists', async () => {
    const limit = async (): Promise<unknown> =>
      (
        await kernel.database.query({
          text: `select retry_limit from penstock_jobs.queue where name = 'test.changed'`,
        })
      ).rows[0];
    await startNode([noting('test.changed', [], { retries: 1 })]);
    expect(await limit()).toEqual({ retry_limit: 1 });
    await startNode([noting('test.changed', [], { retries: 7 })]);
    expect(await limit()).toEqual({ retry_limit: 7 });
  });

  it('gives back what nobody speaks of any more', async () => {
    const over = Promise.withResolvers<void>();
    const name = 'test.orphan';
    const all = [defineJob({ name, data: Type.Object({}), handler: () => over.promise })];
    const node = await startNode(all);
    const id = await node.enqueue(name, {});
    const state = async () => (await node.status(`${id}`))?.state;
    await waitFor(async () => (await state()) === 'active');
    await kernel.database.query({
      text: `update penstock_jobs.job set heartbeat_on = now() - interval '61 seconds' where state = 'active'`,
    });
    const boss = await openBoss(createBossLink(kernel.database).db, silentLog, all);
    await boss.supervise(name);
    expect(await state()).toBe('retry');
    over.resolve();
    await boss.stop({ close: false, graceful: false });
  });

  it.each(['at its start', 'when its module is switched on'])(
    'gives jobs and queues of an earlier version a heartbeat %s',
    async (when) => {
      const name = `test.earlier${when.length}`;
      const database = kernel.database;
      const earlier = await openBoss(createBossLink(database).db, silentLog, [noting(name, [])]);
      await earlier.send(name, { n: 1 }, { startAfter: 3_600 });
      const stored = async () =>
        (
          await database.query({
            text: `select j.heartbeat_seconds as job, q.heartbeat_seconds as queue
              from penstock_jobs.job j join penstock_jobs.queue q using (name) where name = $1`,
            values: [name],
          })
        ).rows;
      for (const table of ['job', 'queue'])
        await database.query({
          text: `update penstock_jobs.${table} set heartbeat_seconds = null where name = $1`,
          values: [name],
        });
      await earlier.stop({ close: false, graceful: false });
      const atStart = when === 'at its start';
      const node = await startNode(atStart ? [noting(name, [])] : []);
      if (!atStart) await node.register(noting(name, []));
      expect(await stored()).toEqual([{ job: 60, queue: 60 }]);
    },
  );

  it('stops while it is still starting', async () => {
    const jobs = createJobs({ database: kernel.database, log: silentLog, metrics: noMetrics });
    await jobs.register(noting('test.hasty', []));
    const starting = jobs.start();
    await jobs.stop();
    await starting;
  });

  it('removes schedules that nobody declares any more, but those of a newer version', async () => {
    const recurring = (name: string, schedule = '0 3 * * *'): JobDefinition =>
      defineJob({ name, data: Type.Object({}), schedule, handler: async () => undefined });
    const startVersion = async (version: string, definitions: readonly JobDefinition[]) => {
      const { database } = kernel;
      const jobs = createJobs({ database, log: silentLog, metrics: noMetrics, version });
      started.push(jobs);
      for (const definition of definitions) await jobs.register(definition);
      await jobs.start();
    };
    const stored = async (): Promise<unknown> =>
      (
        await kernel.database.query({
          text: `select name || ' ' || cron as line from penstock_jobs.schedule where name like 'versions.%' order by name`,
        })
      ).rows.map((row) => Reflect.get(Object(row), 'line'));
    await startVersion('1.9.0', [recurring('versions.kept'), recurring('versions.dropped')]);
    await kernel.database.query({
      text: `update penstock_jobs.schedule set options = '{"tz": "UTC"}' where name = 'versions.dropped'`,
    });
    expect(await stored()).toEqual(['versions.dropped 0 3 * * *', 'versions.kept 0 3 * * *']);
    await startVersion('1.10.0', [
      recurring('versions.kept', '0 4 * * *'),
      recurring('versions.new'),
    ]);
    expect(await stored()).toEqual(['versions.kept 0 4 * * *', 'versions.new 0 3 * * *']);
    // During the update a node of before starts once more: its own work is done, and that of the newer one stays as it is.
    await startVersion('1.9.0', [recurring('versions.kept'), recurring('versions.dropped')]);
    expect(await stored()).toEqual([
      'versions.dropped 0 3 * * *',
      'versions.kept 0 4 * * *',
      'versions.new 0 3 * * *',
    ]);
    await startVersion('1.10.1', [recurring('versions.kept', '0 4 * * *')]);
    expect(await stored()).toEqual(['versions.kept 0 4 * * *']);
  });

  it('goes on when the clock of the database was ahead and is set right', async () => {
    const query = (text: string) => kernel.database.query({ text });
    const ahead = `interval '12 hours'`;
    await startNode([noting('test.early', [])]);
    await started.splice(0)[0]?.stop();
    const before = await startNode([noting('test.early', []), noting('test.late', [])]);
    await started.splice(0)[0]?.stop();
    const id = await before.enqueue('test.early', { n: 1 });
    const later = await before.enqueue('test.late', { n: 2 }, { startAfterSeconds: 3_600 });
    // As if all of that had been done twelve hours from now.
    await query(`update penstock_jobs.version set cron_on = now() + ${ahead}`);
    await query(
      `update penstock_jobs.job set created_on = created_on + ${ahead}, start_after = start_after + ${ahead} where name like 'test.%' and state = 'created'`,
    );
    await query(
      `insert into penstock.limits (bucket, key, used, ends_at) values ('test', 'clock', 1, now() + ${ahead} + interval '1 minute')`,
    );
    const runs: Attempt[] = [];
    await startNode([noting('test.early', runs), noting('test.late', runs)]);
    await waitFor(() => runs.length === 1, { what: 'the job that was to come' });
    expect([runs[0]?.n, typeof id, typeof later]).toEqual([1, 'string', 'string']);
    const { rows } = await query(`select
      (select cron_on is null or cron_on <= now() from penstock_jobs.version) as cron,
      (select start_after between now() + interval '50 minutes' and now() + interval '61 minutes' from penstock_jobs.job where name = 'test.late') as late,
      (select ends_at between now() - interval '1 minute' and now() + interval '2 minutes' from penstock.limits where key = 'clock') as quota`);
    expect(rows).toEqual([{ cron: true, late: true, quota: true }]);
  });

  it('moves what was tried while the clock was ahead, however old it is, and what a killed process had taken', async () => {
    const query = (text: string) => kernel.database.query({ text });
    const ahead = `interval '12 hours'`;
    const names = ['test.tried', 'test.taken'];
    const node = await startNode(names.map((name) => noting(name, [])));
    await started.splice(0)[0]?.stop();
    for (const name of names) await node.enqueue(name, { n: 1 });
    await query(`update penstock_jobs.version set cron_on = now() + ${ahead}`);
    await query(`update penstock_jobs.job set state = 'retry', started_on = now() + ${ahead},
      start_after = now() + ${ahead} + interval '4 seconds' where name = 'test.tried'`);
    await query(`update penstock_jobs.job set state = 'active', started_on = now() + ${ahead},
      heartbeat_on = now() + ${ahead} where name = 'test.taken'`);
    const item = (id: number, lease: string, due: string) =>
      query(`insert into penstock.queue_items (id, queue, target, dedupe, data, lease, leased_at, due_at, created_at)
        values ('00000000-0000-7000-8000-00000000000${id}', 'test', 't', '${id}', '{}', ${lease}, now() + ${ahead},
          now() + ${ahead} + interval '${due}', now() - interval '1 day')`);
    await item(1, 'gen_random_uuid()', '30 seconds');
    await item(2, 'null', '1 hour');
    await startNode([]);
    const { rows } = await query(`
      select name, start_after < now() + interval '2 minutes' as soon, started_on <= now() + interval '1 minute' as started,
        heartbeat_on is null or heartbeat_on <= now() + interval '1 minute' as heard, created_on <= now() + interval '1 minute' as created
      from penstock_jobs.job where name in ('test.tried', 'test.taken')
      union all
      select dedupe, due_at < now() + interval '62 minutes', leased_at <= now() + interval '1 minute', true, created_at < now() - interval '23 hours'
      from penstock.queue_items where queue = 'test' order by name`);
    const moved = { soon: true, started: true, heard: true, created: true };
    expect(rows).toEqual(
      ['1', '2', 'test.taken', 'test.tried'].map((name) => ({ name, ...moved })),
    );
  });

  it('registers and withdraws schedules and jobs while it runs', async () => {
    const jobs = await startNode([]);
    const schedules = async (): Promise<number> =>
      (
        await kernel.database.query({
          text: `select 1 from penstock_jobs.schedule where name = 'test.nightly'`,
        })
      ).count;
    const nightly = defineJob({
      name: 'test.nightly',
      data: Type.Object({}),
      schedule: '0 3 * * *',
      handler: async () => undefined,
    });
    await jobs.register(nightly);
    expect(await schedules()).toBe(1);
    await jobs.unregister('test.nightly');
    expect(await schedules()).toBe(0);
    await expect(jobs.enqueue('test.nightly', {})).rejects.toThrow('There is no job');
    await jobs.register(nightly);
    expect(await schedules()).toBe(1);
    // Another node goes on with it.
    await jobs.leave('test.nightly');
    await expect(jobs.enqueue('test.nightly', {})).rejects.toThrow('There is no job');
    expect(await schedules()).toBe(1);
  });
});
