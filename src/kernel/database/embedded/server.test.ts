import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { isRunning } from '../../../../test/support/processes.ts';
import { waitFor } from '../../../../test/support/wait-for.ts';
import type { Logger } from '../../telemetry/logger.ts';
import type { Database } from '../database.ts';
import { openDatabase } from '../open-database.ts';
import { sql } from '../sql.ts';

const log: Logger = { debug() {}, info() {}, warn() {}, error() {}, child: () => log };
let dataDir = '';

beforeEach(async () => {
  dataDir = await mkdtemp(join(tmpdir(), 'penstock-test-embedded-'));
});

afterEach(() => rm(dataDir, { recursive: true, force: true, maxRetries: 10, retryDelay: 100 }));

const open = (): Promise<Database> =>
  openDatabase({
    settings: {
      dataDir,
      databaseUrl: undefined,
      databasePreparedStatements: true,
      databasePipelining: true,
    },
    log,
  });

const serverPid = async (): Promise<number> =>
  Number.parseInt(await readFile(join(dataDir, 'postgres', 'postmaster.pid'), 'utf8'), 10);

const parentOf = async (pid: number): Promise<number> =>
  Number((await readFile(`/proc/${pid}/stat`, 'utf8')).split(') ')[1]?.split(' ')[1]);

const socketFolders = async (): Promise<string[]> => {
  const log = await readFile(join(dataDir, 'logs', 'postgres.log'), 'utf8');
  return [...log.matchAll(/Unix socket "(.*)\/\.s\.PGSQL/g)].map((match) => match[1] ?? '');
};

const expectNoSockets = async (): Promise<void> => {
  for (const folder of await socketFolders())
    await expect(readdir(folder)).rejects.toThrow('ENOENT');
};

/** A process that has the database open until it is killed. */
async function openElsewhere(): Promise<ChildProcess> {
  const script = `
    import { openDatabase } from ${JSON.stringify(join(import.meta.dirname, '..', 'open-database.ts'))};
    const log = { debug() {}, info() {}, warn() {}, error() {}, child: () => log };
    const settings = { dataDir: ${JSON.stringify(dataDir)}, databasePreparedStatements: true, databasePipelining: true };
    const database = await openDatabase({ settings, log });
    await database.query({ text: 'create table if not exists kept as select 1 as one' });
    console.log('ready');`;
  const child = spawn(process.execPath, ['--input-type=module', '-e', script], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  await once(child.stdout, 'data');
  return child;
}

const kept = (database: Database) =>
  database.query(sql`select one from kept`).then(({ rows }) => rows);

it('starts on an empty folder and on what it left there, and leaves no process and no socket behind', async () => {
  const progress: string[] = [];
  const settings = {
    dataDir,
    databaseUrl: undefined,
    databasePreparedStatements: true,
    databasePipelining: true,
  };
  const database = await openDatabase({ settings, log, onProgress: (text) => progress.push(text) });
  expect(progress).toEqual(['Setting up the embedded PostgreSQL']);
  expect(database.info()).toMatchObject({ kind: 'embedded', location: join(dataDir, 'postgres') });
  const { rows } = await database.query(sql`
    select current_setting('listen_addresses') as network, current_setting('fsync') as fsync, current_setting('data_checksums') as checksums,
      current_database() as database, (select datlocale from pg_database where datname = current_database()) as locale`);
  expect(rows).toEqual([
    { network: '', fsync: 'on', checksums: 'on', database: 'penstock', locale: 'C.UTF-8' },
  ]);
  await database.query({ text: 'create table kept as select 1 as one' });
  const pid = await serverPid();
  await database.close();
  expect(await isRunning(pid)).toBe(false);
  await expectNoSockets();

  const again = await open();
  expect(await kept(again)).toEqual([{ one: 1 }]);
  await again.close();
});

it('ends with its owner, also by kill -9, and starts again', async () => {
  const owner = await openElsewhere();
  const pid = await serverPid();
  owner.kill('SIGKILL');
  await once(owner, 'exit');
  const database = await open();
  expect(await isRunning(pid)).toBe(false);
  expect(await kept(database)).toEqual([{ one: 1 }]);
  await database.close();
});

it('starts again when everything was killed, the server included', async () => {
  const owner = await openElsewhere();
  const pid = await serverPid();
  const lifeline = await parentOf(pid);
  for (const each of [owner.pid ?? 0, lifeline, pid]) process.kill(each, 'SIGKILL');
  const database = await open();
  expect(await kept(database)).toEqual([{ one: 1 }]);
  await database.close();
  await expectNoSockets();
});

it('stops a server whose lifeline was killed before it starts its own', async () => {
  const owner = await openElsewhere();
  const pid = await serverPid();
  // The whole session of the lifeline, but not the server, which PostgreSQL puts into one of its own.
  const lifeline = await parentOf(pid);
  const children = await readFile(`/proc/${lifeline}/task/${lifeline}/children`, 'utf8');
  for (const each of [lifeline, ...children.trim().split(' ').map(Number)])
    if (each !== pid) process.kill(each, 'SIGKILL');
  owner.kill('SIGKILL');
  const database = await open();
  expect(await isRunning(pid)).toBe(false);
  expect(await kept(database)).toEqual([{ one: 1 }]);
  await database.close();
  await expectNoSockets();
});

it('believes no pid file that names a process of somebody else', async () => {
  await (await open()).close();
  await writeFile(
    join(dataDir, 'postgres', 'postmaster.pid'),
    `${process.pid}\n/nowhere\n1\n5432\n\n\n\n\n`,
    { mode: 0o600 },
  );
  await (await open()).close();
});

it('is started again when it dies while we live', async () => {
  const database = await open();
  const pid = await serverPid();
  process.kill(pid, 'SIGKILL');
  await waitFor(async () => !(await isRunning(pid)), { what: 'the end of the server' });
  const back = () => database.transaction((transaction) => transaction.query(sql`select 1 as one`));
  expect((await waitFor(back, { what: 'the server to be back' })).rows).toEqual([{ one: 1 }]);
  expect((await database.query(sql`select 1 as one`)).rows).toEqual([{ one: 1 }]);
  await database.close();
});

it('refuses the data of another major version', async () => {
  await (await open()).close();
  await writeFile(join(dataDir, 'postgres', 'PG_VERSION'), '17\n');
  await expect(open()).rejects.toThrow(
    /was written by PostgreSQL 17, this is 18: run the earlier version/,
  );
});

it('shows why the server does not come up', async () => {
  await (await open()).close();
  await writeFile(join(dataDir, 'postgres', 'postgresql.conf'), 'no_such_setting = 1\n');
  await expect(open()).rejects.toThrow(
    /^The embedded PostgreSQL did not start: .*postgresql.conf.*\(log: .*postgres.log\)$/,
  );
});

it('does not wait for sessions when somebody else tells the server to stop, and starts it again', async () => {
  const database = await open();
  const pid = await serverPid();
  // Smart shutdown: no new sessions, and those that are open, ours, may stay as long as they like.
  process.kill(pid, 'SIGTERM');
  await vi.waitFor(async () => expect(await serverPid()).not.toBe(pid), {
    timeout: 20_000,
    interval: 100,
  });
  await vi.waitFor(
    async () => expect((await database.query(sql`select 1 as one`)).rows).toEqual([{ one: 1 }]),
    {
      timeout: 20_000,
      interval: 100,
    },
  );
  await database.close();
});
