/** Indexes of a started platform, looked at in its database: new ones take part by themselves. */
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

/**
 * PostgreSQL puts what goes into a GIN index on a list first. Searches read all of it, and whoever writes when it is full
 * moves it into the index: one write among thousands waits for long.
 */
it('has indexes of words that are written at once, except for messages, whose list is emptied beside them', async () => {
  const { rows } = await client.query<{ table: string; waits: boolean }>(
    `select distinct i.indrelid::regclass::text as "table", not coalesce(c.reloptions, '{}') @> '{fastupdate=off}' as waits
     from pg_class c join pg_am a on a.oid = c.relam join pg_index i on i.indexrelid = c.oid
     where a.amname = 'gin' and c.relnamespace in ('penstock'::regnamespace, 'app'::regnamespace) order by 1`,
  );
  expect(rows.filter(({ waits }) => waits)).toEqual([{ table: 'app."ChatMessage"', waits: true }]);
  expect(rows.length).toBeGreaterThan(3);
});

it('reads the files of somebody from an index, whatever they are sorted by', async () => {
  const { rows } = await client.query<{ column: string }>(
    `select a.attname as column from pg_index i join pg_class c on c.oid = i.indexrelid
       join pg_attribute a on a.attrelid = i.indrelid and a.attnum = (i.indkey::smallint[])[1]
     where i.indrelid = 'app."File"'::regclass and strpos(c.relname, '@owner-') > 0`,
  );
  const orders = ['name', 'size', 'createdAt', 'updatedAt', 'folder', 'mimeType'];
  expect(rows.map(({ column }) => column)).toEqual(expect.arrayContaining(orders));
});
