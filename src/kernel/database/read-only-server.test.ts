/**
 * A server that takes no changes although the connections to it are alive: a primary that became a standby behind the
 * same name, or one that was switched to reading. Reads go on; changes are 503 and work again once the server takes them.
 */
import { expect, it, onTestFinished } from 'vitest';
import { createTestDatabase } from '../../../test/support/database.ts';
import { waitFor } from '../../../test/support/wait-for.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { Database } from './database.ts';
import { openDatabase } from './open-database.ts';

const log: Logger = { debug() {}, info() {}, warn() {}, error() {}, child: () => log };

const open = (databaseUrl: string): Promise<Database> =>
  openDatabase({
    settings: {
      dataDir: '/nowhere',
      databaseUrl,
      databasePreparedStatements: true,
      databasePipelining: true,
    },
    log,
  });

/** Two databases of one server: what is read only is the first, the second one switches it. */
async function openServer() {
  const [target, other] = await Promise.all([
    createTestDatabase({ server: 'external15' }),
    createTestDatabase({ server: 'external15' }),
  ]);
  const [database, operator] = await Promise.all([open(target.url), open(other.url)]);
  onTestFinished(async () => {
    await Promise.all([database.close(), operator.close()]);
    await Promise.all([target.drop(), other.drop()]);
  });
  const { name } = target;
  return {
    database,
    /** All sessions begin anew, as after a change of servers. */
    async allowReadsOnly() {
      await operator.query({
        text: `alter database "${name}" set default_transaction_read_only = on`,
      });
      await operator.query({
        text: 'select pg_terminate_backend(pid) from pg_stat_activity where datname = $1',
        values: [name],
      });
    },
    /** Sessions that stand keep what they had. */
    allowChanges: () =>
      operator.query({ text: `alter database "${name}" reset default_transaction_read_only` }),
  };
}

it('answers 503 to changes, goes on reading, and finds the server that takes changes', async () => {
  const { database, allowReadsOnly, allowChanges } = await openServer();
  await database.query({ text: 'create table items (name text)' });
  const insert = (name: string) => ({ text: 'insert into items values ($1)', values: [name] });
  const insertInTransaction = (name: string) =>
    database.transaction(async (transaction) => {
      await transaction.query({ text: 'select count(*) from items' });
      await transaction.query(insert(name));
    });
  const names = async () =>
    (
      await database.query<{ name: string }>({ text: 'select name from items order by name' })
    ).rows.map(({ name }) => name);
  await database.query(insert('before'));

  await allowReadsOnly();
  const refused: string[] = [];
  await waitFor(async () => (await names()).length === 1);
  for (let i = 0; i < 40; i += 1) {
    const change = i % 2 === 0 ? database.query(insert('no')) : insertInTransaction('no');
    await change.catch(({ code, message }) => refused.push(`${code} ${message}`));
  }
  expect(refused).toHaveLength(40);
  for (const one of refused) expect(one).toMatch(/^UNAVAILABLE /);
  expect(refused.at(-1)).toMatch(/takes no changes now/);
  expect(await names()).toEqual(['before']);

  await allowChanges();
  // Every connection that stands still leads to where nothing may be changed.
  await waitFor(async () => {
    await database.query(insert('after'));
    return true;
  });
  await waitFor(async () => {
    await insertInTransaction('later');
    return true;
  });
  expect(new Set(await names())).toEqual(new Set(['before', 'after', 'later']));
});

it('calls a transaction that we began as read only what it is', async () => {
  const { database } = await openServer();
  await database.query({ text: 'create table items (name text)' });
  const change = database.transaction(
    (transaction) => transaction.query({ text: `insert into items values ('x')` }),
    { readOnly: true },
  );
  await expect(change).rejects.toMatchObject({ code: '25006' });
});
