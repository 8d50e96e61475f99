/** What one table or one slow statement does to the others: nothing. Against real locks, counting answers and not time. */
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  type OpenTestDatabase,
  openTestDatabase,
  type TestServer,
} from '../../../test/support/database.ts';
import { waitFor } from '../../../test/support/wait-for.ts';
import { onAccount, RequestAccount } from '../request-account/request-account.ts';
import type { Statement } from './database.ts';
import { identitySql, shortSql, sql } from './sql.ts';

/** Whoever waits for these would wait for the lock as well: so long a test does not run. */
const NEVER_MS = 20_000;

const accountOf = (milliseconds: number): RequestAccount =>
  new RequestAccount({
    milliseconds,
    bytesIn: 1e9,
    bytesOut: 1e9,
    statements: 1e6,
    lockedRows: 1e6,
    outboundCalls: 1,
  });

describe.each<[TestServer]>([['embedded'], ['external15']])(
  'classes of statements on %s',
  (server) => {
    let test: OpenTestDatabase;
    let other: pg.Client;

    beforeAll(async () => {
      test = await openTestDatabase({ server });
      other = new pg.Client({ connectionString: test.url });
      await other.connect();
      const tables = ['locked', 'jammed', 'free', 'single', 'fourth', 'fifth'].map(
        (name) => `create table app.${name} (id serial primary key, n integer);
      insert into app.${name} (n) values (1)`,
      );
      await test.database.query({
        text: `create schema app; ${tables.join(';')}; create sequence app.sent`,
      });
    });

    afterAll(async () => {
      await other.end();
      await test.close();
    });

    /** Runs `work` while nobody can use the tables. */
    async function whileLocked<T>(tables: string, work: () => Promise<T>): Promise<T> {
      await other.query(`begin; lock table ${tables} in access exclusive mode`);
      try {
        return await work();
      } finally {
        await other.query('rollback');
      }
    }

    const ask = (statement: Statement) => test.database.query(statement);
    const times = <T>(count: number, make: () => Promise<T>): Promise<T>[] =>
      Array.from({ length: count }, make);
    const change = (table: string) =>
      test.database.transaction((transaction) =>
        transaction.query({ text: `insert into app.${table} (n) values (2)` }),
      );
    const free = () => [
      ask(shortSql`select n from app.free where id = 1`),
      ask(shortSql`update app.free set n = n + 1 where id = 1`),
      ask(identitySql`select n from app.free where id = 1`),
      ask(sql`select count(*) from app.free`),
      ask({ text: 'select 1', class: 'health' }),
      change('free'),
      ask({ text: 'select n from app.free where id = 1', class: 'list' }),
    ];

    /** Everything else answers while what is about `tables` waits. */
    async function expectAnswers(tables: string, begin: () => Promise<unknown>[]): Promise<void> {
      await whileLocked(tables, async () => {
        let over = 0;
        const blocked = begin();
        for (const one of blocked) one.finally(() => (over += 1)).catch(() => undefined);
        await waitFor(
          async () =>
            Number(
              (await ask(sql`select count(*) as n from pg_locks where not granted`)).rows[0]?.n,
            ) > 0,
          {
            what: 'statements that wait for the lock',
          },
        );
        for (let round = 0; round < 20; round += 1) await Promise.all(free());
        expect(over).toBe(0);
        return blocked;
      }).then((blocked) => Promise.all(blocked));
    }

    it(
      'answers short ones while short reads of a locked table wait',
      () =>
        expectAnswers('app.locked', () =>
          times(30, () => ask(shortSql`select n from app.locked where id = 1`)),
        ),
      NEVER_MS,
    );

    it(
      'answers while lists of few rows of a locked table wait, which have connections of their own',
      async () => {
        const list = (table: string) =>
          ask({ text: `select n from app.${table} where id = 1`, class: 'list' });
        const sessions = `select 1 from pg_stat_activity where application_name like 'penstock list%' and datname = current_database()`;
        await waitFor(
          async () => {
            await list('free');
            return (await other.query(sessions)).rows.length > 0;
          },
          { what: 'a connection for lists' },
        );
        await expectAnswers('app.locked', () => times(30, () => list('locked')));
      },
      NEVER_MS,
    );

    it(
      'answers while short writes of a locked table wait',
      () =>
        expectAnswers('app.locked', () =>
          times(30, () => ask(shortSql`update app.locked set n = n + 1 where id = 1`)),
        ),
      NEVER_MS,
    );

    it(
      'answers while lists and sessions wait for locked tables',
      () =>
        expectAnswers('app.locked, app.jammed', () => [
          ...times(30, () => ask(sql`select count(*) from app.locked`)),
          ...times(30, () => ask(identitySql`select n from app.jammed where id = 1`)),
        ]),
      NEVER_MS,
    );

    it(
      'answers while transactions of a locked table wait',
      () => expectAnswers('app.locked', () => times(40, () => change('locked'))),
      NEVER_MS,
    );

    it(
      'answers all but lists while every connection for lists is taken',
      async () => {
        const names = ['locked', 'jammed', 'single', 'fourth', 'fifth'];
        await whileLocked(names.map((name) => `app.${name}`).join(), async () => {
          const blocked = names.flatMap((name) =>
            times(10, () => ask({ text: `select count(*) from app.${name}`, limitMs: 15_000 })),
          );
          await waitFor(() => test.database.info().classes.pooled.running === 8, {
            what: 'all connections taken',
          });
          const [read, write, own, , health, transaction] = free().map((one) =>
            one.then(() => 'answered'),
          );
          expect(await Promise.all([read, write, own, health, transaction])).toEqual(
            Array.from({ length: 5 }, () => 'answered'),
          );
          return blocked;
        }).then((blocked) => Promise.all(blocked));
      },
      NEVER_MS,
    );

    it(
      'answers lists of other tables while slow lists run',
      async () => {
        // They run until they are given up, however long the others take.
        const account = accountOf(120_000);
        const slow = times(10, () =>
          onAccount(account, () =>
            ask({ text: 'select count(*) from app.locked, pg_sleep(30)' }),
          ).catch((error: unknown) => error),
        );
        await waitFor(() => test.database.info().classes.pooled.running >= 5, {
          what: 'slow lists',
        });
        let ended = 0;
        for (const one of slow) void one.then(() => (ended += 1));
        for (let round = 0; round < 10; round += 1) await Promise.all(free());
        expect(ended).toBe(0);
        account.giveUp();
        expect(
          (await Promise.all(slow)).every(
            (error) => (error as { code?: string }).code === 'TIMEOUT',
          ),
        ).toBe(true);
      },
      NEVER_MS,
    );

    it('runs for good once what was stopped because it was not short', async () => {
      const before = test.database.info().moved;
      const text = 'insert into app.single (n) select 7 from pg_sleep(0.5)';
      expect((await ask({ text, class: 'short' })).count).toBe(1);
      expect((await ask(sql`select 1 from app.single where n = 7`)).count).toBe(1);
      expect(test.database.info().moved).toBeGreaterThan(before);
    });

    describe('the time of the request', () => {
      const outOfTime = { code: 'TIMEOUT', status: 504 };
      const sentSoFar = async () =>
        (await ask({ text: 'select last_value, is_called from app.sent' })).rows;

      it.each<[string, Partial<Statement>]>([
        ['pooled', {}],
        ['short', { class: 'short' }],
        ['list', { class: 'list' }],
        ['identity', { class: 'identity' }],
      ])('sends nothing when it is over (%s)', async (_, kind) => {
        const before = await sentSoFar();
        const sending = onAccount(accountOf(0), () =>
          ask({ text: `select nextval('app.sent')`, ...kind }),
        );
        await expect(sending).rejects.toMatchObject(outOfTime);
        const begun = onAccount(accountOf(0), () =>
          test.database.transaction((transaction) =>
            transaction.query({ text: `select nextval('app.sent')` }),
          ),
        );
        await expect(begun).rejects.toMatchObject(outOfTime);
        expect(await sentSoFar()).toEqual(before);
      });

      const isRunning = async (mark: string) =>
        (
          await other.query(
            `select 1 from pg_stat_activity where query like $1 and state = 'active'`,
            [`%${mark}%`],
          )
        ).rows.length > 0;

      /** Begins with a minute, and is given up once the server is at it. */
      const givenUp = async (work: () => Promise<unknown>) => {
        const account = accountOf(60_000);
        const running = onAccount(account, work);
        running.catch(() => undefined);
        await waitFor(() => isRunning('as stopped_one'), { what: 'the statement' });
        account.giveUp();
        return running;
      };

      it.each<[string, (statement: Statement) => Promise<unknown>]>([
        ['a statement', (statement) => onAccount(accountOf(300), () => ask(statement))],
        [
          'a transaction',
          (statement) =>
            onAccount(accountOf(300), () =>
              test.database.transaction((open) => open.query(statement)),
            ),
        ],
        ['a statement that is given up', (statement) => givenUp(() => ask(statement))],
        [
          'a transaction that is given up',
          (statement) => givenUp(() => test.database.transaction((open) => open.query(statement))),
        ],
        ['a statement with a limit of its own', (statement) => ask({ ...statement, limitMs: 300 })],
      ])(
        'stops %s, and undoes it',
        async (_, run) => {
          const text = 'insert into app.free (n) select 1000 from pg_sleep(60) as stopped_one';
          await expect(run({ text })).rejects.toMatchObject(outOfTime);
          await waitFor(async () => !(await isRunning('as stopped_one')), {
            what: 'the end of the statement in the server',
          });
          expect((await ask(sql`select 1 from app.free where n = 1000`)).count).toBe(0);
        },
        NEVER_MS,
      );

      it('commits nothing after it', async () => {
        const account = accountOf(150);
        const late = onAccount(account, () =>
          test.database.transaction(async (transaction) => {
            await transaction.query({ text: 'insert into app.free (n) values (2000)' });
            await new Promise((resolve) => setTimeout(resolve, 200));
          }),
        );
        await expect(late).rejects.toMatchObject(outOfTime);
        expect((await ask(sql`select 1 from app.free where n = 2000`)).count).toBe(0);
      });

      it(
        'counts the queue: who has waited too long for a turn comes again',
        async () => {
          await whileLocked('app.locked', async () => {
            const waiting = times(20, () =>
              onAccount(accountOf(60_000), () => ask(sql`select count(*) from app.locked`)),
            );
            const refused = await Promise.race(
              waiting.map((one) =>
                one.then(
                  () => undefined,
                  (error: unknown) => error,
                ),
              ),
            );
            expect(refused).toMatchObject({ code: 'UNAVAILABLE', status: 503, retryAfter: 1 });
            expect(test.database.info().classes.pooled.refused).toBeGreaterThan(0);
            await Promise.all(free());
            return waiting;
          }).then((waiting) => Promise.allSettled(waiting));
        },
        NEVER_MS,
      );
    });
  },
);
