import { randomBytes } from 'node:crypto';
import { copyFile, mkdir, readdir, rm, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import {
  createTestDatabase,
  type TestDatabase,
  type TestServer,
} from '../../test/support/database.ts';
import { removeFolder, temporaryFolder } from '../../test/support/temporary-folder.ts';
import { proveArchive } from './archive-reader.ts';
import { type DumpResult, dump } from './dump.ts';
import type { Progress } from './format.ts';
import { type LoadResult, load } from './load.ts';
import { connectExternal } from './source.ts';

const quiet = (): void => undefined;

/** A database that looks like one of the platform, as far as a backup is concerned. */
describe('a backup', () => {
  let folder: string;
  const databases: TestDatabase[] = [];

  beforeAll(async () => {
    folder = await temporaryFolder('dump');
  });
  afterAll(async () => {
    await Promise.all(databases.map((database) => database.drop()));
    await removeFolder(folder);
  });

  const make = async (statements: string, server: TestServer = 'embedded'): Promise<string> => {
    const database = await createTestDatabase({ server });
    databases.push(database);
    await ask(database.url, statements);
    return database.url;
  };
  const ask = async (url: string, statements: string): Promise<pg.QueryResult> => {
    const client = new pg.Client({ connectionString: url });
    await client.connect();
    return client.query(statements).finally(() => client.end());
  };
  const backUp = async (
    url: string,
    path: string,
    onProgress: Progress = quiet,
    dataDir = join(folder, 'none'),
  ): Promise<DumpResult> => {
    const { client, close } = await connectExternal(url);
    return dump({
      client,
      path,
      dataDir,
      withKeys: false,
      keys: { masterKey: undefined, masterKeyPrevious: undefined, configEncryptionKey: undefined },
      onProgress,
    }).finally(close);
  };
  const restore = async (url: string, path: string): Promise<LoadResult> => {
    const { client, close } = await connectExternal(url);
    return load({
      client,
      archive: await proveArchive(path, quiet),
      target: undefined,
      onProgress: quiet,
    }).finally(close);
  };

  test('has the rows of a table that somebody rewrites or empties meanwhile', async () => {
    const url =
      await make(`create schema app; create table app.first as select generate_series(1, 400000) as n; create table app.second (n int); create table app.third (n int);
      insert into app.second values (1), (2); insert into app.third values (3)`);
    const changes: Promise<unknown>[] = [];
    const path = join(folder, 'rewritten');
    await backUp(url, path, ({ what }) => {
      if (what !== 'app.first' || changes.length > 0) return;
      changes.push(
        ask(url, 'alter table app.second alter column n type text'),
        ask(url, 'truncate app.third'),
      );
    });
    await Promise.all(changes);
    const { manifest } = await proveArchive(path, quiet);
    expect(Object.fromEntries(manifest.tables.map(({ name, rows }) => [name, rows]))).toEqual({
      first: 400_000,
      second: 2,
      third: 1,
    });
  });

  test('comes back with extensions that stand in a schema of their own, and without those that nothing needs', async () => {
    const url = await make(
      `create schema extensions; create extension hstore with schema extensions; create schema app;
       create table app.thing (facts extensions.hstore); insert into app.thing values ('a=>1')`,
      'external15',
    );
    const path = join(folder, 'extensions');
    await backUp(url, path);
    const target = await make('');
    expect(await restore(target, path)).toEqual({ missingExtensions: [] });
    expect((await ask(target, 'select facts::text from app.thing')).rows).toEqual([
      { facts: '"a"=>"1"' },
    ]);

    const { client, close } = await connectExternal(await make(''));
    const proven = await proveArchive(path, quiet);
    const before = (statement: string) => ({
      ...proven,
      structure: { ...proven.structure, before: [statement, ...proven.structure.before] },
    });
    const unneeded = before('create extension if not exists not_there with schema public');
    expect(await load({ client, archive: unneeded, target: undefined, onProgress: quiet })).toEqual(
      { missingExtensions: ['not_there'] },
    );
    await close();

    const other = await connectExternal(await make(''));
    const [, ...rest] = proven.structure.before;
    const needed = {
      ...proven,
      structure: {
        ...proven.structure,
        before: ['create extension if not exists not_there with schema public', ...rest],
      },
    };
    await expect(
      load({ client: other.client, archive: needed, target: undefined, onProgress: quiet }),
    ).rejects.toThrow(/extension not_there could not be made: .*nothing was changed/s);
    await other.close();
  });

  test('names the tables that the platform serves and does not own', async () => {
    const url = await make(`create schema penstock; create table public.orders (id int);
      create table penstock.views (name text);
      insert into penstock.views values ('cheap');
      create table penstock.declared_schemas (name text, layout json, removed_at timestamptz);
      insert into penstock.declared_schemas values
        ('imp_orders', '{"mapping":{"source":{"schema":"public","name":"orders"}}}', null), ('cheap', '{"mapping":{"source":{"schema":"v","name":"cheap"}}}', null),
        ('imp_gone', '{"mapping":{"source":{"schema":"public","name":"gone"}}}', now()), ('Post', '{"columns":{}}', null)`);
    const path = join(folder, 'others');
    expect((await backUp(url, path)).tablesOfOthers).toEqual(['public.orders']);
    const { manifest } = await proveArchive(path, quiet);
    expect(manifest.tablesOfOthers).toEqual(['public.orders']);
    expect(manifest.tables.map(({ schema, name }) => `${schema}.${name}`)).not.toContain(
      'public.orders',
    );
  });

  test('names what lies among the files and is none, and fails where files cannot be read', async () => {
    const url = await make('create schema app');
    const dataDir = join(folder, 'data');
    await mkdir(join(dataDir, 'files/deep'), { recursive: true });
    await writeFile(join(dataDir, 'files/deep/one.txt'), 'one');
    await symlink('/etc/hostname', join(dataDir, 'files/link'));
    expect(await backUp(url, join(folder, 'links'), quiet, dataDir)).toMatchObject({
      files: 1,
      noFiles: ['link'],
    });

    await mkdir(join(folder, 'odd'));
    await writeFile(join(folder, 'odd/files'), 'a file where the folder should be');
    await expect(
      backUp(url, join(folder, 'unreadable'), quiet, join(folder, 'odd')),
    ).rejects.toThrow(/cannot be read \(ENOTDIR\)/);
  });

  test('passes over files and folders that go away meanwhile', async () => {
    const url = await make('create schema app');
    const dataDir = join(folder, 'going');
    const folders = Array.from({ length: 700 }, (_, n) => join(dataDir, 'storage/x', String(n)));
    for (const each of folders) {
      await mkdir(each, { recursive: true });
      await writeFile(join(each, 'file'), 'x');
    }
    let going = true;
    const deleting = (async () => {
      for (const each of folders) await rm(each, { recursive: true });
      going = false;
    })();
    for (let n = 0; going; n += 1) await backUp(url, join(folder, `going-${n}`), quiet, dataDir);
    await deleting;
  });

  test('is written once: of two under one name one says so, and the other is whole', async () => {
    const url = await make(
      'create schema app; create table app.one as select md5(n::text) from generate_series(1, 30000) n',
    );
    const path = join(folder, 'twice');
    const both = await Promise.allSettled([backUp(url, path), backUp(url, path)]);
    const [made, refused] = both.toSorted((a, b) => a.status.localeCompare(b.status));
    expect(made?.status).toBe('fulfilled');
    expect(refused).toMatchObject({
      reason: { message: expect.stringMatching(/was made by somebody else meanwhile/) },
    });
    expect((await proveArchive(path, quiet)).manifest.tables[0]?.rows).toBe(30_000);
    expect((await readdir(folder)).filter((name) => name.startsWith('twice'))).toEqual(['twice']);
  });

  test('is refused when it is another one than was examined', async () => {
    const of = (word: string) =>
      make(`create schema app; create table app.one as select '${word}' as word`);
    const path = join(folder, 'exchanged');
    await backUp(await of('good'), path);
    await backUp(await of('evil'), `${path}-other`);
    const archive = await proveArchive(path, quiet);
    await copyFile(`${path}-other`, path);
    const target = await make('');
    const { client, close } = await connectExternal(target);
    await expect(
      load({ client, archive, target: undefined, onProgress: quiet }).finally(close),
    ).rejects.toThrow(/was changed while it was read: nothing was changed/);
    await expect(ask(target, 'select * from app.one')).rejects.toThrow(/does not exist/);
  });

  test('takes away the files that it has put in place when another one has none', async () => {
    const url = await make('create schema app');
    const dataDir = join(folder, 'places');
    for (const name of ['files', 'storage']) {
      await mkdir(join(dataDir, name), { recursive: true });
      await writeFile(join(dataDir, name, 'one'), 'one');
    }
    const path = join(folder, 'places-backup');
    await backUp(url, path, quiet, dataDir);
    const to = join(folder, 'to');
    await mkdir(join(to, 'storage/of-others'), { recursive: true });
    const target = {
      filesFolder: join(to, 'files'),
      storageFolder: join(to, 'storage'),
      keysFile: join(to, 'secrets.json'),
      marker: join(to, 'restoring'),
    };
    const { client, close } = await connectExternal(await make(''));
    const archive = await proveArchive(path, quiet);
    await expect(
      load({ client, archive, target, onProgress: quiet }).finally(close),
    ).rejects.toThrow(/ENOTEMPTY/);
    expect(await readdir(to, { recursive: true })).toEqual(['storage', 'storage/of-others']);
  });

  test('that cannot be written, or is stopped, leaves nothing and says why', async () => {
    const url = await make('create schema app; create table app.one (n int)');
    await expect(backUp(url, join(folder, 'absent/file'))).rejects.toThrow(
      /its folder does not exist/,
    );
    await expect(backUp(url, '/dev/full/file')).rejects.toThrow(/its folder is a file/);
    const stop = (): never => {
      throw new Error('enough');
    };
    await expect(backUp(url, join(folder, 'stopped'), stop)).rejects.toThrow('enough');
    // In the middle of a file, with more of it on its way.
    const dataDir = join(folder, 'large');
    await mkdir(join(dataDir, 'files'), { recursive: true });
    await writeFile(join(dataDir, 'files/large'), randomBytes(5_000_000));
    const late: Progress = ({ what, done }) =>
      what === 'file large' && done > 1_000_000 ? stop() : undefined;
    await expect(backUp(url, join(folder, 'stopped'), late, dataDir)).rejects.toThrow('enough');
    expect((await readdir(folder)).filter((name) => name.startsWith('stopped'))).toEqual([]);
  });
});
