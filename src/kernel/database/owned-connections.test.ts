/** A server that takes no further connection: work waits for those that are there, and for room. */
import pg from 'pg';
import { afterAll, afterEach, beforeAll, expect, it } from 'vitest';
import { type OpenTestDatabase, openTestDatabase } from '../../../test/support/database.ts';
import { silentLog } from '../../../test/support/log.ts';
import { clientConfig } from './connection.ts';
import { boundsOf, waitingNow } from './fair-turns.ts';
import { parseDatabaseUrl } from './open-database.ts';
import { OwnedConnections } from './owned-connections.ts';
import { createSessions } from './sessions.ts';

const role = 'tight';
const limit = 2;
const modes = { preparedStatements: true, pipelining: true };

let test: OpenTestDatabase;
let other: pg.Client;
let connection: { target: ReturnType<typeof parseDatabaseUrl>; modes: typeof modes; role: string };
let connections: OwnedConnections;
/** Those that somebody else holds. */
const held: pg.Client[] = [];

beforeAll(async () => {
  test = await openTestDatabase();
  other = new pg.Client({ connectionString: test.url });
  await other.connect();
  await other.query(`create role ${role} login connection limit ${limit}`);
  connection = { target: { ...parseDatabaseUrl(test.url), user: role }, modes, role: 'owned-test' };
});
afterEach(async () => {
  await connections?.close();
  await release();
});
afterAll(async () => {
  await other.query(`drop role ${role}`);
  await other.end();
  await test.close();
});

const release = async (): Promise<void> =>
  void (await Promise.all(held.splice(0).map((client) => client.end())));
async function holdAll(): Promise<void> {
  for (let n = 0; n < limit; n += 1) {
    const client = new pg.Client(clientConfig(connection));
    await client.connect();
    held.push(client);
  }
}
const open = (): void => {
  connections = new OwnedConnections({ connection, bounds: boundsOf(8), log: silentLog });
};
async function work(group: number): Promise<number> {
  const lent = await connections.acquire(`group ${group}`, waitingNow());
  try {
    return (await lent.client.query('select $1::integer as n from pg_sleep(0.01)', [group])).rows[0]
      .n;
  } finally {
    lent.release();
  }
}
const numbers = Array.from({ length: 20 }, (_, n) => n);

it('does all the work with what the server gives', async () => {
  open();
  expect(await Promise.all(numbers.map(work))).toEqual(numbers);
});

it('waits for room where others have taken all, also for locks and maintenance', async () => {
  await holdAll();
  open();
  const sessions = createSessions(connection, silentLog);
  const maintenance = sessions.run((session) => session.query({ text: 'select 1' }));
  const done = Promise.all(numbers.map(work));
  await release();
  expect(await done).toEqual(numbers);
  expect((await maintenance).count).toBe(1);
});
