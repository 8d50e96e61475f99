/** Changes of several requests that are one transaction: each is done once, whatever happens to the others. */
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  type OpenTestDatabase,
  openTestDatabase,
  type TestServer,
} from '../../../test/support/database.ts';
import type { Statement } from './database.ts';
import { statementName } from './sql.ts';

describe.each<[TestServer]>([['embedded'], ['external15']])(
  'changes that are committed together on %s',
  (server) => {
    let test: OpenTestDatabase;
    let other: pg.Client;

    beforeAll(async () => {
      test = await openTestDatabase({ server });
      other = new pg.Client({ connectionString: test.url });
      await other.connect();
      await other.query(`create schema app;
        create table app.made (n integer primary key, xid text default pg_current_xact_id()::text);
        create table app.counters (id text primary key, n integer not null default 0);
        insert into app.counters select i::text from generate_series(1, 40) i`);
    });

    afterAll(async () => {
      await other.end();
      await test.close();
    });

    const named = (text: string, values: unknown[], changes: string): Statement => ({
      ...{ text, values, changes, name: statementName(text), class: 'short' },
    });
    const make = (n: number) =>
      test.database.query(
        named(
          'with r as (insert into app.made (n) values ($1) returning n) select n from r',
          [n],
          '',
        ),
      );
    const count = (id: string) =>
      test.database.query(
        named(
          'with r as (update app.counters set n = n + 1 where id = $1 returning n) select n from r',
          [id],
          id,
        ),
      );
    const range = (from: number, to: number) =>
      Array.from({ length: to - from }, (_, i) => from + i);

    it('needs fewer transactions than there are changes, and answers each with its own', async () => {
      const answers = await Promise.all(range(0, 32).map(make));
      expect(answers.map(({ rows }) => rows)).toEqual(range(0, 32).map((n) => [{ n }]));
      const { rows } = await other.query('select count(distinct xid)::int as n from app.made');
      expect(rows[0].n).toBeLessThan(32);
    });

    it('refuses what is refused, and does all else once', async () => {
      for (let round = 1; round <= 5; round += 1) {
        const numbers = range(100 * round, 100 * round + 40).flatMap((n) =>
          n % 7 === 0 ? [n, n] : [n],
        );
        const settled = await Promise.allSettled(numbers.map(make));
        const refused = settled.filter((one) => one.status === 'rejected');
        expect(refused.map(({ reason }) => reason.code)).toEqual(refused.map(() => '23505'));
        expect(settled.length - refused.length).toBe(40);
        const { rows } = await other.query(
          'select count(*)::int as n from app.made where n >= $1',
          [100 * round],
        );
        expect(rows[0].n).toBe(40);
      }
    });

    it('changes the same rows in any order, each time', async () => {
      const order = range(0, 400).map((i) => String(1 + ((i * 7 + (i % 3)) % 5)));
      await Promise.all(order.map(count));
      const { rows } = await other.query('select sum(n)::int as n from app.counters');
      expect(rows[0].n).toBe(400);
    });

    it('does what stands beside a change that waits for a lock', async () => {
      await other.query(`begin; select from app.counters where id = '20' for update`);
      let isOver = false;
      const waiting = count('20').finally(() => {
        isOver = true;
      });
      const answers = await Promise.all(range(21, 40).map((id) => count(String(id))));
      expect(answers.map(({ rows }) => rows)).toEqual(answers.map(() => [{ n: 1 }]));
      expect(isOver).toBe(false);
      await other.query('rollback');
      expect((await waiting).rows).toEqual([{ n: 1 }]);
    });
  },
);
