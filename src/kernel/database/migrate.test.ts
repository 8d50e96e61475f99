import { afterEach, beforeEach, expect, it } from 'vitest';
import { createTestDatabase, type TestDatabase } from '../../../test/support/database.ts';
import { waitFor } from '../../../test/support/wait-for.ts';
import { StartError } from '../start-error.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { Database } from './database.ts';
import { type Migration, type MigrationSet, migrate } from './migrate.ts';
import { openDatabase } from './open-database.ts';
import { sql } from './sql.ts';

const log: Logger = { debug() {}, info() {}, warn() {}, error() {}, child: () => log };
let testDatabase: TestDatabase;
let database: Database;

const open = () =>
  openDatabase({
    settings: {
      dataDir: '/nowhere',
      databaseUrl: testDatabase.url,
      databasePreparedStatements: true,
      databasePipelining: true,
    },
    log,
  });

beforeEach(async () => {
  testDatabase = await createTestDatabase();
  database = await open();
});

afterEach(async () => {
  await database.close();
  await testDatabase.drop();
});

const step = (id: string, text: string): Migration => ({
  id,
  run: async (queryable) => void (await queryable.query({ text })),
});
const first: MigrationSet = {
  owner: 'first',
  migrations: [step('0001-table', 'create table public.things (id int)')],
};
const second: MigrationSet = {
  owner: 'second',
  migrations: [step('0001-rows', 'insert into public.things values (1)')],
};

const applied = async (): Promise<string[]> => {
  const { rows } = await database.query<{ name: string }>(
    sql`select owner || '/' || id as name from penstock.migrations order by applied_at, owner`,
  );
  return rows.map(({ name }) => name);
};

it('runs what is pending, in order, once', async () => {
  const progress: string[] = [];
  await migrate(database, [first, second], { onProgress: (text) => progress.push(text) });
  await migrate(database, [first, second], { onProgress: (text) => progress.push(text) });
  expect(progress).toEqual(['Preparing the database', 'Preparing the database']);
  expect(await applied()).toEqual(['first/0001-table', 'second/0001-rows']);
  await migrate(database, [
    {
      ...first,
      migrations: [...first.migrations, step('0002-more', 'alter table public.things add x int')],
    },
    second,
  ]);
  expect(await applied()).toHaveLength(3);
});

it('asks one question when nothing is pending', async () => {
  await migrate(database, [first]);
  let statements = 0;
  const counting: Database = {
    ...database,
    query(statement) {
      statements += 1;
      return database.query(statement);
    },
    withLock: () => Promise.reject(new Error('no lock is needed')),
  };
  await migrate(counting, [first]);
  expect(statements).toBe(1);
});

it('leaves nothing of a migration that failed, and keeps those before it', async () => {
  const broken: MigrationSet = {
    owner: 'second',
    migrations: [step('0001-broken', 'create table public.half (id int); select 1 / 0')],
  };
  await expect(migrate(database, [first, broken])).rejects.toMatchObject({ code: '22012' });
  expect(await applied()).toEqual(['first/0001-table']);
  expect((await database.query(sql`select to_regclass('public.half') as half`)).rows).toEqual([
    { half: null },
  ]);
});

it('runs each once when several nodes start together', async () => {
  const others = await Promise.all([open(), open()]);
  await Promise.all([database, ...others].map((each) => migrate(each, [first, second])));
  expect((await database.query(sql`select count(*) from public.things`)).rows).toEqual([
    { count: 1 },
  ]);
  await Promise.all(others.map((each) => each.close()));
});

it('lets others use a table for which it waits', async () => {
  await migrate(database, [first]);
  const [holder, other] = await Promise.all([open(), open()]);
  const [held, over] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  // As a backup does.
  const holding = holder.transaction(async (transaction) => {
    await transaction.query({ text: 'lock table public.things in access share mode' });
    held.resolve();
    await over.promise;
  });
  await held.promise;
  const more = step('0002-more', 'alter table public.things add x int');
  const migrating = migrate(database, [{ ...first, migrations: [...first.migrations, more] }]);
  await waitFor(async () => {
    const { rows } = await other.query(
      sql`select from pg_locks join pg_database d on d.oid = database
        where relation = 'public.things'::regclass and not granted and datname = current_database()`,
    );
    return rows.length > 0;
  });
  expect((await other.query({ text: 'select * from public.things' })).rows).toEqual([]);
  over.resolve();
  await Promise.all([holding, migrating]);
  expect(await applied()).toEqual(['first/0001-table', 'first/0002-more']);
  await Promise.all([holder, other].map((each) => each.close()));
});

it('begins a migration again that had to give way to others', async () => {
  let tries = 0;
  const crossed: Migration = {
    id: '0001-crossed',
    async run(queryable) {
      tries += 1;
      await queryable.query({ text: 'create table public.crossed (id int)' });
      if (tries === 1)
        await queryable.query({
          text: `do $$ begin raise exception 'in a circle' using errcode = '40P01'; end $$`,
        });
    },
  };
  await migrate(database, [{ owner: 'first', migrations: [crossed] }]);
  expect([tries, await applied()]).toEqual([2, ['first/0001-crossed']]);
});

it('refuses a database that a newer version has changed, and leaves unknown owners alone', async () => {
  const newer = { ...first, migrations: [...first.migrations, step('0002-newer', 'select 1')] };
  await migrate(database, [newer, second]);
  await expect(migrate(database, [first])).rejects.toThrow(StartError);
  await expect(migrate(database, [first])).rejects.toThrow(
    /newer version of Penstock \(it has first\/0002-newer\)/,
  );
  await migrate(database, [newer]);
});
