/** Shared connections come when there is work for them and go when there is none. Counts sessions at the server. */
import pg from 'pg';
import { afterAll, afterEach, beforeAll, expect, it } from 'vitest';
import { type OpenTestDatabase, openTestDatabase } from '../../../test/support/database.ts';
import { silentLog } from '../../../test/support/log.ts';
import { waitFor } from '../../../test/support/wait-for.ts';
import { waitingNow } from './fair-turns.ts';
import { parseDatabaseUrl } from './open-database.ts';
import type { Lane } from './owned-statements.ts';
import { openSharedClients, type SharedClients } from './shared-clients.ts';
import { createStatementNames } from './sql.ts';

const SIZE = 4;
const modes = { preparedStatements: true, pipelining: true };
/** Nothing here is slow. */
const elsewhere: Lane = { run: () => Promise.reject(new Error('run elsewhere')) };

let test: OpenTestDatabase;
let other: pg.Client;
let clients: SharedClients;

beforeAll(async () => {
  test = await openTestDatabase();
  other = new pg.Client({ connectionString: test.url });
  await other.connect();
});
/** The server lists a session for a moment after its connection has ended. */
afterEach(async () => {
  await clients.close();
  await waitFor(async () => (await sessions()).length === 0, { what: 'the end of all sessions' });
});
afterAll(async () => {
  await other.query('drop role if exists narrow');
  await other.end();
  await test.close();
});

interface Opening {
  readonly user?: string;
  readonly idleMs?: number;
  readonly kept?: 0 | 1;
  readonly beside?: Lane;
}

async function open({ user = '', idleMs = 60_000, kept = 1, beside }: Opening = {}): Promise<void> {
  const target = parseDatabaseUrl(test.url);
  clients = await openSharedClients({
    connection: {
      target: { ...target, ...(user && { user }) },
      modes,
      role: 'shared-test',
      statementTimeoutMs: 20_000,
    },
    size: SIZE,
    depth: 2,
    names: createStatementNames(true),
    elsewhere: beside ?? elsewhere,
    log: silentLog,
    idleMs,
    kept,
  });
}

const ask = async (n: number, text = 'select $1::integer as n'): Promise<unknown> =>
  (await clients.run({ statement: { text, values: [n] }, waiting: waitingNow() })).rows[0];
const askMany = (count: number, text?: string): Promise<unknown[]> =>
  Promise.all(Array.from({ length: count }, (_, n) => ask(n, text)));
const numbers = (count: number) => Array.from({ length: count }, (_, n) => ({ n }));

const sessions = async (): Promise<number[]> =>
  (
    await other.query(
      `select pid from pg_stat_activity where application_name like 'penstock shared-test%' and datname = current_database() order by backend_start`,
    )
  ).rows.map(({ pid }) => pid);

it('begins with one, and one after the other needs no more', async () => {
  await open();
  for (const n of [1, 2, 3]) expect(await ask(n)).toEqual({ n });
  expect(await sessions()).toHaveLength(1);
});

it('opens further ones for a burst, never more than it may, and closes those that are not used again', async () => {
  await open({ idleMs: 100 });
  const busy = `select $1::integer as n from pg_sleep(0.05)`;
  expect(await askMany(40, busy)).toEqual(numbers(40));
  const all = await sessions();
  expect(all.length).toBeGreaterThan(1);
  expect(all.length).toBeLessThanOrEqual(SIZE);
  await waitFor(async () => (await sessions()).length === 1, { what: 'the end of idle sessions' });
  // The one that stays is one that was there, and a burst finds others again.
  expect(all).toContain((await sessions())[0]);
  expect(await askMany(10)).toEqual(numbers(10));
});

it('opens none before there is work, which has another way until one is there, and keeps none', async () => {
  const ran: unknown[] = [];
  const beside: Lane = {
    run: async <R>({ statement }: Parameters<Lane['run']>[0]) => {
      ran.push(statement.values?.[0]);
      return { rows: [{ n: statement.values?.[0] }] as R[], count: 1 };
    },
  };
  await open({ kept: 0, idleMs: 100, beside });
  expect(await sessions()).toHaveLength(0);
  expect(await ask(1)).toEqual({ n: 1 });
  expect(ran).toEqual([1]);
  // On a busy machine the first session may be idle for too long before anybody sees it: each question opens one again.
  await waitFor(
    async () => {
      const before = ran.length;
      await ask(2);
      return ran.length === before;
    },
    { what: 'work on it' },
  );
  await waitFor(async () => (await sessions()).length === 0, { what: 'the end of idle sessions' });
  expect(await ask(3)).toEqual({ n: 3 });
});

it('works with what it has when the server gives no more', async () => {
  await other.query('create role narrow login connection limit 1');
  await open({ user: 'narrow' });
  expect(await askMany(40)).toEqual(numbers(40));
  expect(await askMany(40)).toEqual(numbers(40));
  expect(await sessions()).toHaveLength(1);
});

it('is there again after all were ended at the server, for those who wait as well', async () => {
  await open();
  await askMany(20, `select $1::integer as n from pg_sleep(0.02)`);
  for (const pid of await sessions()) await other.query('select pg_terminate_backend($1)', [pid]);
  expect(await askMany(20)).toEqual(numbers(20));
});

it('goes on after a value that cannot be written', async () => {
  await open();
  const circle: { self?: unknown } = {};
  circle.self = circle;
  const refused = Array.from({ length: SIZE * 4 }, () =>
    clients.run({
      statement: { text: 'select $1::jsonb', values: [circle] },
      waiting: waitingNow(),
    }),
  );
  for (const one of await Promise.allSettled(refused)) expect(one.status).toBe('rejected');
  expect(await askMany(20)).toEqual(numbers(20));
  expect(clients.figures()).toMatchObject({ running: 0, waiting: 0 });
});

it('refuses what comes after the end', async () => {
  await open();
  await clients.close();
  await expect(ask(1)).rejects.toMatchObject({ code: 'UNAVAILABLE', status: 503 });
});
