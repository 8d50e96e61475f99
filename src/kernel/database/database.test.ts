/** The contract of database.ts, on the server that ships with us and on the oldest one that operators may bring. */
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  createTestDatabase,
  type TestDatabase,
  type TestServer,
} from '../../../test/support/database.ts';
import { waitFor } from '../../../test/support/wait-for.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { Database } from './database.ts';
import { deadlockCount } from './failures.ts';
import { openDatabase } from './open-database.ts';
import { sql } from './sql.ts';

const errorsLogged: string[] = [];
const warningsLogged: string[] = [];
const log: Logger = {
  debug() {},
  info() {},
  warn: (_, message) => void warningsLogged.push(message),
  error: (_, message) => void errorsLogged.push(message),
  child: () => log,
};

const open = (
  url: string,
  modes: { databasePreparedStatements?: boolean; databasePipelining?: boolean } = {},
): Promise<Database> =>
  openDatabase({
    settings: {
      dataDir: '/nowhere',
      databaseUrl: url,
      databasePreparedStatements: true,
      databasePipelining: true,
      ...modes,
    },
    log,
  });

/** Ends the connections of one role, as an operator or a failing network would. */
async function terminate(database: Database, role: string): Promise<void> {
  await database.transaction((transaction) =>
    transaction.query({
      text: `select pg_terminate_backend(pid) from pg_stat_activity
        where datname = current_database() and starts_with(application_name, $1) and pid <> pg_backend_pid()`,
      values: [`penstock ${role}`],
    }),
  );
}

describe.each<[TestServer]>([['embedded'], ['external15']])('database on %s', (server) => {
  let testDatabase: TestDatabase;
  let database: Database;

  beforeAll(async () => {
    testDatabase = await createTestDatabase({ server });
    database = await open(testDatabase.url);
    await database.query({
      text: 'create table items (id serial primary key, name text unique, size bigint, at timestamptz(3))',
    });
  });

  afterAll(async () => {
    await database.close();
    await testDatabase.drop();
  });

  const names = async (): Promise<string[]> =>
    (
      await database.query<{ name: string }>({ text: 'select name from items order by id' })
    ).rows.map(({ name }) => name);
  const insert = (name: string) => sql`insert into items (name) values (${name})`;

  describe('query', () => {
    it('answers rows and the number of rows touched', async () => {
      await database.query({ text: 'truncate items' });
      expect(await database.query(sql`insert into items (name) values (${'a'}), (${'b'})`)).toEqual(
        { rows: [], count: 2 },
      );
      const { rows, count } = await database.query(sql`select name from items order by name`);
      expect({ rows, count }).toEqual({ rows: [{ name: 'a' }, { name: 'b' }], count: 2 });
    });

    it('reads int8 as a number while that is exact, and works in UTC', async () => {
      const { rows } = await database.query(sql`
        select ${'42'}::bigint as small, 9007199254740993::bigint as large, count(*) as counted,
          array[1, null, 3]::bigint[] as list, current_setting('TimeZone') as zone, '2026-01-02T03:04:05Z'::timestamptz as at from (select 1) one`);
      expect(rows[0]).toEqual({
        small: 42,
        large: '9007199254740993',
        counted: 1,
        list: [1, null, 3],
        zone: 'UTC',
        at: new Date('2026-01-02T03:04:05Z'),
      });
    });

    it('leaves the errors of PostgreSQL as they are and its neighbours alone', async () => {
      await database.query({ text: 'truncate items' });
      await database.query(insert('once'));
      const [twice, fine] = await Promise.allSettled([
        database.query(insert('once')),
        database.query(insert('other')),
      ]);
      expect(twice).toMatchObject({
        status: 'rejected',
        reason: { code: '23505', constraint: 'items_name_key' },
      });
      expect(fine.status).toBe('fulfilled');
    });

    it('prepares a statement afresh when a schema change made it stale', async () => {
      await database.query({ text: 'create table shape (a integer)' });
      const all = sql`select * from shape`;
      await Promise.all(Array.from({ length: 10 }, () => database.query(all)));
      await database.query({ text: 'alter table shape add column b integer default 7' });
      await database.query({ text: 'insert into shape values (1)' });
      const results = await Promise.all(Array.from({ length: 10 }, () => database.query(all)));
      for (const { rows } of results) expect(rows).toEqual([{ a: 1, b: 7 }]);
      await database.query({ text: 'alter table shape drop column b' });
      expect((await database.transaction((transaction) => transaction.query(all))).rows).toEqual([
        { a: 1 },
      ]);
    });

    it('repeats reads whose connection died, and answers writes with 503', async () => {
      const slow = Array.from({ length: 6 }, () =>
        database.query({ text: 'select 1 as one from pg_sleep(0.3)' }),
      );
      await sleep(100);
      await terminate(database, 'statements');
      for (const { rows } of await Promise.all(slow)) expect(rows).toEqual([{ one: 1 }]);

      // It sleeps far longer than the loss of its connection takes to arrive on a busy machine.
      const write = database.query({ text: 'update items set size = 1 from pg_sleep(20)' });
      const outcome = expect(write).rejects.toMatchObject({ code: 'UNAVAILABLE', status: 503 });
      const running = `select 1 from pg_stat_activity
        where datname = current_database() and state = 'active' and query like 'update items set size = 1 from%'`;
      await waitFor(async () => (await database.query({ text: running })).count > 0, {
        what: 'the write to begin',
      });
      await terminate(database, 'statements');
      await outcome;
      // Every connection has to notice its loss before the next test writes on it.
      // All of them are waited for: one that is still queued would change what a later test counts.
      const writes = async (): Promise<boolean> => {
        const results = await Promise.allSettled(
          Array.from({ length: 12 }, () => database.query({ text: 'update items set size = 2' })),
        );
        return results.every(({ status }) => status === 'fulfilled');
      };
      await waitFor(writes, { what: 'all connections back' });
    });
  });

  describe('transaction', () => {
    it('commits everything or nothing', async () => {
      await database.query({ text: 'truncate items' });
      await database.transaction(async (transaction) => {
        await transaction.query(insert('a'));
        await transaction.query(insert('b'));
      });
      const failing = database.transaction(async (transaction) => {
        await transaction.query(insert('c'));
        throw new Error('no');
      });
      await expect(failing).rejects.toThrow('no');
      expect(await names()).toEqual(['a', 'b']);
    });

    it('takes in statements and transactions of the same flow', async () => {
      await database.query({ text: 'truncate items' });
      const failing = database.transaction(async () => {
        await database.query(insert('a'));
        await database.transaction(() => database.query(insert('b')));
        expect(await names()).toEqual(['a', 'b']);
        throw new Error('no');
      });
      await expect(failing).rejects.toThrow('no');
      expect(await names()).toEqual([]);
    });

    it('does not commit half of it when a part failed and somebody caught the error', async () => {
      await database.query({ text: 'truncate items' });
      const nested = database.transaction(async () => {
        const part = database.transaction(async () => {
          await database.query(insert('half'));
          throw new Error('part');
        });
        await part.catch(() => undefined);
      });
      await expect(nested).rejects.toThrow('part');
      const swallowed = database.transaction(async (transaction) => {
        await transaction.query(insert('a'));
        await transaction.query(insert('a')).catch(() => undefined);
      });
      await expect(swallowed).rejects.toMatchObject({ code: '23505' });
      expect(await names()).toEqual([]);
    });

    it('runs statements side by side that were sent side by side', async () => {
      const results = await database.transaction((transaction) =>
        Promise.all(
          [1, 2, 3].map((n) => transaction.query<{ n: number }>(sql`select ${n}::int as n`)),
        ),
      );
      expect(results.map(({ rows }) => rows[0]?.n)).toEqual([1, 2, 3]);
    });

    it('does not hold on to work that outlives it', async () => {
      await database.query({ text: 'truncate items' });
      let later: Promise<unknown> = Promise.resolve();
      await database.transaction(async () => {
        later = sleep(50).then(() => database.query(insert('later')));
      });
      await later;
      expect(await names()).toEqual(['later']);
    });

    it('runs again after a serialisation failure', async () => {
      await database.query({
        text: `truncate items; insert into items (name, size) values ('counter', 0)`,
      });
      const add = () =>
        database.transaction(
          async (transaction) => {
            const { rows } = await transaction.query<{ size: number }>(
              sql`select size from items where name = ${'counter'}`,
            );
            await sleep(20);
            await transaction.query(
              sql`update items set size = ${(rows[0]?.size ?? 0) + 1} where name = ${'counter'}`,
            );
          },
          { isolation: 'serializable', attempts: 20 },
        );
      await Promise.all([add(), add(), add(), add()]);
      expect((await database.query(sql`select size from items`)).rows).toEqual([{ size: 4 }]);
    });

    it('sends nothing more when it could not begin', async () => {
      await database.query({ text: 'truncate items' });
      const failing = database.transaction(
        async (transaction) => {
          await transaction.query({ text: 'select 1' });
          await transaction.query(insert('outside of any transaction'));
        },
        { isolation: 'unheard of' as 'serializable' },
      );
      await expect(failing).rejects.toMatchObject({ code: '42601' });
      expect(await names()).toEqual([]);
    });

    it('gives up after the attempts that were allowed', async () => {
      let runs = 0;
      const failing = database.transaction(
        async (transaction) => {
          runs += 1;
          await transaction.query({
            text: `do $$ begin raise exception using errcode = '40001'; end $$`,
          });
        },
        { attempts: 2 },
      );
      await expect(failing).rejects.toMatchObject({ code: '40001' });
      expect(runs).toBe(2);
    });

    it('refuses writes when it is read only', async () => {
      await expect(
        database.transaction((transaction) => transaction.query(insert('x')), { readOnly: true }),
      ).rejects.toMatchObject({
        code: '25006',
      });
    });

    it('answers 503 when its connection dies, and the next one works', async () => {
      const failing = database.transaction(async () => {
        await database.query({ text: 'select 1' });
        await database.withLock('elsewhere', () => terminateFromOutside());
        await database.query({ text: 'select 2' });
      });
      await expect(failing).rejects.toMatchObject({ code: 'UNAVAILABLE' });
      expect(
        (await database.transaction((transaction) => transaction.query(sql`select 3 as three`)))
          .rows,
      ).toEqual([{ three: 3 }]);
    });

    /** A second process' view: its own connections. */
    async function terminateFromOutside(): Promise<void> {
      const other = await open(testDatabase.url);
      await terminate(other, 'transactions');
      await other.close();
    }
  });

  describe('afterCommit', () => {
    it('runs after the outermost commit, in order, and before the caller goes on', async () => {
      const seen: string[] = [];
      await database.transaction(async (transaction) => {
        database.afterCommit(async () => {
          await sleep(10);
          seen.push('first');
        });
        await database.transaction(async (inner) =>
          inner.afterCommit(() => void seen.push('second')),
        );
        transaction.afterCommit(
          async () => void seen.push(`outside: ${(await names()).length >= 0}`),
        );
        seen.push('work');
      });
      expect(seen).toEqual(['work', 'first', 'second', 'outside: true']);
    });

    it('does not run when the transaction fails, and runs once when it was repeated', async () => {
      const seen: number[] = [];
      let run = 0;
      await database.transaction(async (transaction) => {
        run += 1;
        const now = run;
        transaction.afterCommit(() => void seen.push(now));
        if (now === 1)
          await transaction.query({
            text: `do $$ begin raise exception using errcode = '40P01'; end $$`,
          });
      });
      const failing = database.transaction(async (transaction) => {
        transaction.afterCommit(() => void seen.push(-1));
        throw new Error('no');
      });
      await expect(failing).rejects.toThrow('no');
      expect(seen).toEqual([2]);
    });

    it('runs where nobody knows whether it was committed, as far as that is asked for', async () => {
      await database.query({ text: 'create table doubtful (id integer)' });
      await database.query({
        text: `create function end_connection() returns trigger language plpgsql as
          $$ begin perform pg_terminate_backend(pg_backend_pid()); return null; end $$`,
      });
      await database.query({
        text: `create constraint trigger ending after insert on doubtful deferrable initially deferred
          for each row execute function end_connection()`,
      });
      const seen: string[] = [];
      const lost = database.transaction(async (transaction) => {
        await transaction.query({ text: 'insert into doubtful values (1)' });
        transaction.afterCommit(() => void seen.push('committed'));
        await database.part(async (part) =>
          part.afterCommit(() => void seen.push('perhaps'), { alsoInDoubt: true }),
        );
      });
      await expect(lost).rejects.toMatchObject({ status: 503 });
      expect(seen).toEqual(['perhaps']);
    });

    it('is counted and told where transactions wait for each other in a circle', async () => {
      await database.query({ text: 'create table two (id integer primary key, n integer)' });
      await database.query({ text: 'insert into two values (1, 0), (2, 0)' });
      const before = deadlockCount();
      warningsLogged.length = 0;
      const both = Promise.withResolvers<void>();
      let begun = 0;
      const increase = (id: number) => sql`update two set n = n + 1 where id = ${id}::integer`;
      const change = (first: number, second: number) =>
        database.transaction(async (transaction) => {
          await transaction.query(increase(first));
          begun += 1;
          if (begun === 2) both.resolve();
          await both.promise;
          await transaction.query(increase(second));
        });
      await Promise.all([change(1, 2), change(2, 1)]);
      const { rows } = await database.query({ text: 'select n from two order by id' });
      expect(rows).toEqual([{ n: 2 }, { n: 2 }]);
      expect(deadlockCount()).toBe(before + 1);
      expect(warningsLogged).toEqual(['Transactions waited for each other in a circle']);
    });

    it('runs soon outside of a transaction; errors are logged, not thrown', async () => {
      errorsLogged.length = 0;
      const ran = new Promise<void>((resolve) => database.afterCommit(resolve));
      database.afterCommit(() => {
        throw new Error('nobody hears this');
      });
      await ran;
      await waitFor(() => errorsLogged.length > 0, { what: 'the error in the log' });
      expect(errorsLogged).toEqual(['Work after a commit failed']);
    });
  });

  describe('locks', () => {
    it('lets one at a time in, in this process and in others', async () => {
      const other = await open(testDatabase.url);
      let inside = 0;
      let most = 0;
      const work = async (): Promise<void> => {
        inside += 1;
        most = Math.max(most, inside);
        await sleep(5);
        inside -= 1;
      };
      await Promise.all(
        Array.from({ length: 20 }, (_, i) => (i % 2 ? other : database).withLock('narrow', work)),
      );
      expect(most).toBe(1);
      await other.close();
    });

    it('tells whoever does not want to wait that it is taken', async () => {
      const other = await open(testDatabase.url);
      const result = await database.withLock('taken', async () => [
        await other.tryLock('taken', async () => 'in'),
        await database.tryLock('taken', async () => 'in'),
        await other.tryLock('free', async () => 'in'),
      ]);
      expect(result).toEqual([undefined, undefined, 'in']);
      expect(await other.tryLock('taken', async () => 'in')).toBe('in');
      await other.close();
    });

    it('is free again after the work failed', async () => {
      await expect(
        database.withLock('failing', () => Promise.reject(new Error('no'))),
      ).rejects.toThrow('no');
      expect(await database.tryLock('failing', async () => 'in')).toBe('in');
    });
  });

  describe('listen', () => {
    it('hears notifications, also after its connection was lost', async () => {
      const heard: string[] = [];
      const states: boolean[] = [];
      database.onListening((connected) => void states.push(connected));
      await database.listen('News "quoted"', (payload) => void heard.push(payload));
      await database.listen('other', () => {
        throw new Error('a broken subscriber');
      });
      await database.query(
        sql`select pg_notify('other', ''), pg_notify('News "quoted"', ${'one'})`,
      );
      await waitFor(() => heard.length === 1, { what: 'the first notification' });

      await terminate(database, 'listener');
      await waitFor(() => states.length === 2, { what: 'the connection back' });
      await database.query(sql`select pg_notify('News "quoted"', ${'two'})`);
      await waitFor(() => heard.length === 2, { what: 'the second notification' });
      expect(heard).toEqual(['one', 'two']);
      expect(states).toEqual([false, true]);
    });
  });

  it.each([
    [{}],
    [{ databasePreparedStatements: false }],
    [{ databasePipelining: false }],
    [{ databasePreparedStatements: false, databasePipelining: false }],
  ])('works with %o, whatever zone and style of dates the database has', async (modes) => {
    const setting = (name: string, value: string) =>
      database.query({
        text: `do $$ begin execute format('alter database %I set ${name} = ''${value}''', current_database()); end $$`,
      });
    await setting('DateStyle', 'German, DMY');
    await setting('TimeZone', 'Asia/Tokyo');
    const plain = await open(testDatabase.url, modes);
    const one = sql`select '2026-01-02T03:04:05Z'::timestamptz::text as at`;
    expect((await plain.query(one)).rows).toEqual([{ at: '2026-01-02 03:04:05+00' }]);
    const ask = async (n: number) => (await plain.query(sql`select ${n}::int as n`)).rows;
    expect(await Promise.all([1, 2, 3, 4, 5].map(ask))).toEqual(
      [1, 2, 3, 4, 5].map((n) => [{ n }]),
    );
    const both = await plain.transaction(() => Promise.all([ask(1), ask(2)]));
    expect(both.flat().map((row) => row.n)).toEqual([1, 2]);
    await plain.close();
  });

  it('tells facts without credentials', () => {
    const info = database.info();
    expect(info.kind).toBe('external');
    expect(info.version).toMatch(server === 'embedded' ? /^18\.\d+$/ : /^15\.\d+$/);
    expect(info.location).toContain(testDatabase.name);
    expect(info.connections.total).toBeGreaterThanOrEqual(3);
  });
});
