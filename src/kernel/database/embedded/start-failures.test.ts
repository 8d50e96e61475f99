/** What stands in the way of a start: mended where that is safe, else said in one sentence that is true. */
import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chown, mkdtemp, readdir, readFile, rm, truncate, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { promisify } from 'node:util';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { silentLog as log } from '../../../../test/support/log.ts';
import { mountSmallDisk } from '../../../../test/support/small-disk.ts';
import { waitFor } from '../../../../test/support/wait-for.ts';
import type { Database } from '../database.ts';
import { checkStorage } from '../failures.ts';
import { openDatabase } from '../open-database.ts';
import { sql } from '../sql.ts';

let dataDir = '';
beforeEach(async () => {
  dataDir = await mkdtemp(join(tmpdir(), 'penstock-test-failures-'));
});
afterEach(() => rm(dataDir, { recursive: true, force: true, maxRetries: 10, retryDelay: 100 }));

const open = (folder = dataDir): Promise<Database> =>
  openDatabase({
    settings: {
      dataDir: folder,
      databaseUrl: undefined,
      databasePreparedStatements: true,
      databasePipelining: true,
    },
    log,
  });

const inCluster = (...path: string[]): string => join(dataDir, 'postgres', ...path);

/** A database that was used and closed. */
async function used(): Promise<void> {
  const database = await open();
  await database.query({ text: 'create table kept as select 1 as one' });
  await database.close();
}

it('an empty postmaster.pid, left by a power cut, is cleared away', async () => {
  await used();
  await writeFile(inCluster('postmaster.pid'), '');
  const database = await open();
  expect((await database.query(sql`select one from kept`)).rows).toEqual([{ one: 1 }]);
  await database.close();
});

it('a missing pg_wal is named, and not that the server starts up', async () => {
  await used();
  await rm(inCluster('pg_wal'), { recursive: true });
  await expect(open()).rejects.toMatchObject({
    name: 'StartError',
    message: expect.stringMatching(/did not start: .*"pg_wal".*log: /),
  });
});

it('damaged pages of the catalog are called damage, with the words of the server, within seconds', {
  timeout: 60_000,
}, async () => {
  await used();
  for (const base of await readdir(inCluster('base'))) {
    // pg_class: nobody can connect without it.
    const file = inCluster('base', base, '1259');
    const bytes = await readFile(file);
    await writeFile(file, Buffer.alloc(bytes.length, 0xab));
    await rm(inCluster('base', base, 'pg_internal.init'), { force: true });
  }
  await expect(open()).rejects.toMatchObject({
    name: 'StartError',
    message: expect.stringMatching(
      /is damaged \(.*(invalid page|could not|cache|relation).*restore/,
    ),
  });
});

it('a control file that was cut off is named', async () => {
  await used();
  await truncate(inCluster('global', 'pg_control'), 100);
  await expect(open()).rejects.toMatchObject({
    name: 'StartError',
    message: expect.stringMatching(/did not start: .*pg_control/),
  });
});

/** Opens the database in a process of another user, and answers what that said. */
async function openAs(uid: number): Promise<string> {
  const script = `
    import { openDatabase } from ${JSON.stringify(join(import.meta.dirname, '..', 'open-database.ts'))};
    const log = { debug() {}, info() {}, warn() {}, error() {}, child: () => log };
    const settings = { dataDir: ${JSON.stringify(dataDir)}, databasePreparedStatements: true, databasePipelining: true };
    const database = await openDatabase({ settings, log }).catch((error) => console.log(error.name, error.message));
    if (database) console.log('opened');
    await database?.close();`;
  const child: ChildProcess = spawn(process.execPath, ['--input-type=module', '-e', script], {
    uid,
    gid: uid,
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const [said] = await Promise.all([
    text(child.stdout as NodeJS.ReadableStream),
    once(child, 'exit'),
  ]);
  return said.trim();
}

it.runIf(process.getuid?.() === 0 && process.platform === 'linux')(
  'a user without a name sets up the server all the same, or is told what is missing',
  async () => {
    const nameless = 64_242;
    await chown(dataDir, nameless, nameless);
    const allowed = await promisify(execFile)('unshare', ['--user', '--map-user=65534', 'true'], {
      uid: nameless,
      gid: nameless,
      cwd: '/',
    }).then(
      () => true,
      () => false,
    );
    expect(await openAs(nameless)).toMatch(
      allowed ? /^opened$/ : /^StartError .*has no name in \/etc\/passwd.*penstock:x:64242/,
    );
  },
);

it.runIf(process.getuid?.() === 0 && process.platform === 'linux')(
  'a full disk answers 503 STORAGE_FULL, is told, and passes when there is room',
  { timeout: 60_000 },
  async ({ skip }) => {
    const disk = await mountSmallDisk(dataDir, 200);
    if (!disk) return skip('No file system of a given size can be mounted here');
    try {
      const database = await open();
      await database.query({ text: 'create table filled (content text)' });
      await disk.fill(60 * 2 ** 20);
      const fill = async (): Promise<void> => {
        for (;;)
          await database.query({
            text: `insert into filled select string_agg(md5(random()::text), '') from generate_series(1, 30000)`,
          });
      };
      await expect(fill()).rejects.toMatchObject({
        code: 'STORAGE_FULL',
        status: 503,
        retryAfter: 30,
      });
      expect(await checkStorage(undefined)).toMatchObject({
        status: 'fail',
        message: expect.stringContaining('full'),
      });
      expect((await database.query(sql`select count(*) > 0 as some from filled`)).rows).toEqual([
        { some: true },
      ]);
      await disk.free();
      await database.query({ text: `insert into filled values ('again')` });
      // Where the room can be seen it decides, and not what happened a while ago.
      await waitFor(async () => (await checkStorage(dataDir)).status === 'pass');
      await database.close();
    } finally {
      await disk.unmount();
    }
  },
);
