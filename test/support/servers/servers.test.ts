import pg from 'pg';
import { afterAll, expect, it } from 'vitest';
import { createTestDatabase, type TestDatabase } from '../database.ts';
import { describeWithPostgres15, describeWithRedis, startTestRedis } from './fixtures.ts';

const query = async (url: string, text: string) => {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  const { rows } = await client.query(text);
  await client.end();
  return rows;
};

it('the embedded server gives each caller a database of its own', async () => {
  const [first, second] = [await createTestDatabase(), await createTestDatabase()];
  await query(first.url, 'CREATE TABLE mine (id int)');
  expect(await query(second.url, "SELECT to_regclass('mine') AS found")).toEqual([{ found: null }]);
  await Promise.all([first.drop(), second.drop()]);
});

await describeWithPostgres15('PostgreSQL 15', () => {
  let database: TestDatabase;
  afterAll(() => database.drop());

  it('is what DATABASE_URL of a test points to', async () => {
    database = await createTestDatabase({ server: 'external15' });
    const [row] = await query(database.url, 'SHOW server_version');
    expect(row.server_version).toMatch(/^15\./);
  });
});

await describeWithRedis('Redis', () => {
  it('starts, stops, and starts again on the same port', async () => {
    const first = await startTestRedis();
    await first.stop();
    const second = await startTestRedis(first.port);
    expect(second.url).toBe(first.url);
    await second.stop();
  });
});
