/**
 * Whoever deletes a row asks for each foreign key that leads to it. Without an index that is a look at the whole table, for
 * each deleted row: all foreign keys of a started platform are looked at, so new ones take part by themselves.
 */
import pg from 'pg';
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { TestDatabase } from '../test/support/database.ts';
import { platformDatabase } from '../test/support/platform.ts';

let database: TestDatabase;
let client: pg.Client;

beforeAll(async () => {
  database = await platformDatabase('embedded');
  client = new pg.Client({ connectionString: database.url });
  await client.connect();
});
afterAll(async () => {
  await client.end();
  await database.drop();
});

/** An index of all rows, or of all that refer to something: `where column is not null` leaves nothing out. */
const unindexed = `
  select k.conrelid::regclass::text as "table", k.conname as name, pg_get_constraintdef(k.oid) as definition
  from pg_constraint k
  where k.contype = 'f' and k.connamespace in ('penstock'::regnamespace, 'app'::regnamespace) and not exists (
    select 1 from pg_index i
    where i.indrelid = k.conrelid and i.indisvalid
      and (i.indkey::smallint[])[0:cardinality(k.conkey) - 1] @> k.conkey
      and (i.indpred is null
        or pg_get_expr(i.indpred, i.indrelid) = (
          select format('(%I IS NOT NULL)', a.attname) from pg_attribute a
          where a.attrelid = k.conrelid and a.attnum = k.conkey[1])))
  order by 1, 2`;

it('has an index for every foreign key', async () => {
  const { rows } = await client.query(
    `select count(*)::int as n from pg_constraint where contype = 'f' and connamespace = 'penstock'::regnamespace`,
  );
  expect(rows[0].n).toBeGreaterThan(20);
  expect((await client.query(unindexed)).rows).toEqual([]);
});

it('finds sessions of a user by the index, ended ones too', async () => {
  await client.query('set enable_seqscan = off');
  const { rows } = await client.query(
    `explain select id from penstock.sessions where user_id = any('{00000000-0000-0000-0000-000000000000}')`,
  );
  expect(JSON.stringify(rows)).toContain('sessions_of_user');
});
