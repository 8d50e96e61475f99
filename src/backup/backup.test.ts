import { copyFile, mkdir, readFile, stat, truncate, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type pg from 'pg';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import { visitStore } from '../../examples/music-store/store.ts';
import { createTestDatabase } from '../../test/support/database.ts';
import { silentLog } from '../../test/support/log.ts';
import { createTestNode, testAdminPassword, testMasterKey } from '../../test/support/node.ts';
import {
  createTestPlatform,
  type TestPlatform,
  testEnvironment,
} from '../../test/support/platform.ts';
import { removeFolder, temporaryFolder } from '../../test/support/temporary-folder.ts';
import { backup as command } from '../cli/backup.ts';
import { refuseUnknown } from '../kernel/database/migrate.ts';
import { readSettings } from '../kernel/settings/settings.ts';
import { platformMigrations, startPlatform } from '../platform.ts';
import { proveArchive } from './archive-reader.ts';
import { dump } from './dump.ts';
import { type Manifest, readRows } from './format.ts';
import { checkKeys, checkSignature, type Keys } from './keys.ts';
import { load } from './load.ts';
import { connectExternal, connectToSource, startFor } from './source.ts';
import { verify } from './verify.ts';

const quiet = (): void => undefined;

/** The rows of every table that a manifest names, as they are now. */
async function digests(client: pg.Client, { tables }: Manifest): Promise<Record<string, string>> {
  const found: Record<string, string> = {};
  for (const table of tables)
    found[`${table.schema}.${table.name}`] = (await readRows(client, table, quiet)).sha256;
  return found;
}

describe('a backup of a running platform', () => {
  let platform: TestPlatform;
  let folder: string;
  let archive: string;
  const noKeys = {
    masterKey: undefined,
    masterKeyPrevious: undefined,
    configEncryptionKey: undefined,
  };
  const keys = { ...noKeys, masterKey: testMasterKey };
  const make = async (path: string, withKeys = false, signedBy: Keys = keys): Promise<void> => {
    const { client, close } = await connectToSource(
      { dataDir: platform.dataDir, databaseUrl: undefined },
      silentLog,
    );
    try {
      await dump({
        client,
        path,
        dataDir: platform.dataDir,
        withKeys,
        keys: signedBy,
        onProgress: quiet,
      });
    } finally {
      await close();
    }
  };

  beforeAll(async () => {
    folder = await temporaryFolder('backup');
    archive = join(folder, 'music.penstock');
    platform = await createTestPlatform({ server: 'own' });
    const { client: clientOrigin, admin: adminOrigin } = platform.addresses;
    await visitStore(
      { clientOrigin, adminOrigin, masterKey: testMasterKey },
      { reset: false, print: quiet },
    );
    await platform.registerUser({ email: 'kept@example.com', password: 'Battery-Staple-17' });
    await mkdir(join(platform.dataDir, 'files', 'covers'), { recursive: true });
    await writeFile(
      join(platform.dataDir, 'files', 'covers', 'größe 1.bin'),
      Buffer.alloc(3_000_000, 'penstock'),
    );
    await writeFile(join(platform.dataDir, 'files', 'empty'), '');
    await make(archive);
  }, 120_000);
  afterAll(async () => {
    await platform.close();
    await removeFolder(folder);
  });

  test('is whole, and readable by its owner only', async () => {
    const { manifest, header } = await proveArchive(archive, quiet);
    expect(manifest.tables.find(({ name }) => name === 'Track')).toMatchObject({
      schema: 'app',
      rows: 3503,
    });
    expect(header.postgres).toMatch(/^18/);
    expect((await stat(archive)).mode & 0o077).toBe(0);
  });

  test('restores to an identical instance that people can log in to', async () => {
    const dataDir = join(folder, 'restored');
    const proven = await proveArchive(archive, quiet);
    await mkdir(dataDir, { mode: 0o711 });
    const target = {
      filesFolder: join(dataDir, 'files'),
      storageFolder: join(dataDir, 'storage'),
      keysFile: join(dataDir, 'secrets.json'),
      marker: join(dataDir, 'restoring'),
    };
    const { client, close } = await startFor(join(dataDir, 'postgres'), dataDir, silentLog);
    await load({ client, archive: proven, target, onProgress: quiet });
    const expected = Object.fromEntries(
      proven.manifest.tables.map(({ schema, name, sha256 }) => [`${schema}.${name}`, sha256]),
    );
    expect(await digests(client, proven.manifest)).toEqual(expected);
    await close();
    for (const name of ['covers/größe 1.bin', 'empty']) {
      expect(await readFile(join(dataDir, 'files', name))).toEqual(
        await readFile(join(platform.dataDir, 'files', name)),
      );
    }

    const running = await startPlatform({
      settings: readSettings(testEnvironment(dataDir, undefined)),
    });
    try {
      const node = createTestNode(running.addresses, {
        masterKey: testMasterKey,
        adminPassword: testAdminPassword,
      });
      const user = await node.login('kept@example.com', 'Battery-Staple-17');
      expect((await user.api.get('/database/Track?limit=1')).body.count).toBe(3503);
      await node.createSchema({ name: 'AfterRestore', fields: { title: 'String' } });
      expect(
        (await node.client.post('/database/AfterRestore', { title: 'still grows' })).status,
      ).toBe(200);
    } finally {
      await running.close();
    }
  }, 120_000);

  test('restores into a database that DATABASE_URL names, and says so when that is not empty', async () => {
    const database = await createTestDatabase({ server: 'embedded' });
    const { client, close } = await connectExternal(database.url);
    try {
      const proven = await proveArchive(archive, quiet);
      await load({ client, archive: proven, target: undefined, onProgress: quiet });
      await expect(
        load({ client, archive: proven, target: undefined, onProgress: quiet }),
      ).rejects.toThrow(/not empty.*Nothing was changed/s);
    } finally {
      await close();
      await database.drop();
    }
  }, 120_000);

  test('verifies', async () => {
    const { differences, rows } = await verify(
      await proveArchive(archive, quiet),
      silentLog,
      quiet,
    );
    expect(differences).toEqual([]);
    expect(rows).toBeGreaterThan(15_607);
  }, 120_000);

  test('is one moment: rows that are written meanwhile are in it together or not at all', async () => {
    await platform.createSchema({ name: 'Pair', fields: { number: 'Number' } });
    const stop = new AbortController();
    const writing = (async () => {
      for (let number = 0; !stop.signal.aborted; number += 1) {
        await platform.client.post('/database/Pair/many', { docs: [{ number }, { number }] });
      }
    })();
    const path = join(folder, 'moment.penstock');
    await make(path);
    stop.abort();
    await writing;
    const pairs = (await proveArchive(path, quiet)).manifest.tables.find(
      ({ name }) => name === 'Pair',
    );
    expect((pairs?.rows ?? 1) % 2).toBe(0);
  }, 60_000);

  test('holds the keys only when asked to', async () => {
    const path = join(folder, 'keys.penstock');
    await writeFile(
      join(platform.dataDir, 'secrets.json'),
      JSON.stringify({ masterKey: testMasterKey }),
    );
    await make(path, true);
    const names = async (file: string) =>
      (await proveArchive(file, quiet)).manifest.entries.map(({ name }) => name);
    expect(await names(path)).toContain('keys.json');
    expect(await names(archive)).not.toContain('keys.json');
  });

  test('holds a key that comes from the environment as well, and no other one', async () => {
    const path = join(folder, 'environment.penstock');
    await writeFile(join(platform.dataDir, 'secrets.json'), '{}');
    await make(path, true);
    for await (const { name, content } of (await proveArchive(path, quiet)).read()) {
      const text = Buffer.concat(await Array.fromAsync(content)).toString();
      if (name === 'keys.json') expect(JSON.parse(text)).toEqual({ masterKey: testMasterKey });
    }
    await expect(make(`${path}-not`, true, noKeys)).rejects.toThrow(/without --with-keys/);
    await expect(
      make(`${path}-not`, true, { ...noKeys, masterKey: 'another-key-0123456789' }),
    ).rejects.toThrow(/without --with-keys/);
  });

  test('is examined before it runs anywhere: one that others may have made is not verified', async () => {
    const unsigned = join(folder, 'stranger.penstock');
    await make(unsigned, false, noKeys);
    const { archive: forged, ran } = await forge();
    vi.stubEnv('PENSTOCK_DATA_DIR', join(folder, 'nowhere'));
    vi.stubEnv('MASTER_KEY', testMasterKey);
    await expect(command(['verify', unsigned])).rejects.toThrow(/not signed.*--accept-unsigned/);
    await expect(command(['verify', forged])).rejects.toThrow(/changed by somebody/);
    vi.stubEnv('MASTER_KEY', 'another-key-0123456789');
    await expect(command(['verify', archive])).rejects.toThrow(
      /of an installation with other keys/,
    );
    vi.unstubAllEnvs();
    expect(await stat(ran).catch(() => undefined)).toBeUndefined();
  });

  /** The signed backup with one statement more, and checksums that fit. */
  const forge = async () => {
    const { createArchiveWriter } = await import('./archive-writer.ts');
    const { header, structure, manifest, read } = await proveArchive(archive, quiet);
    const ran = join(folder, 'ran');
    const forged = join(folder, 'forged.penstock');
    const writer = await createArchiveWriter(forged);
    await writer.add('penstock-backup.json', Buffer.from(JSON.stringify(header)));
    for await (const { name, content } of read()) {
      const bytes = Buffer.concat(await Array.fromAsync(content));
      const evil = { ...structure, before: [`copy (select 1) to '${ran}'`, ...structure.before] };
      await writer.add(name, name === 'structure.json' ? Buffer.from(JSON.stringify(evil)) : bytes);
    }
    await writer.add(
      'manifest.json',
      Buffer.from(JSON.stringify({ ...manifest, entries: writer.entries })),
    );
    await writer.finish();
    return { archive: forged, ran };
  };

  test('names the migrations of its database, so that an older version can refuse it', async () => {
    const { migrations = [] } = (await proveArchive(archive, quiet)).manifest;
    expect(migrations.length).toBeGreaterThan(10);
    expect(() => refuseUnknown(new Set(migrations), platformMigrations)).not.toThrow();
    const future = new Set([...migrations, 'kernel/config/9999-of-the-future']);
    expect(() => refuseUnknown(future, platformMigrations, 'It is of')).toThrow(
      /^It is of a newer version of Penstock \(it has kernel\/config\/9999/,
    );
  });

  test('knows the key that opens it', async () => {
    const { manifest } = await proveArchive(archive, quiet);
    expect(checkKeys(manifest, noKeys)).toBe('unknown');
    expect(checkKeys(manifest, keys)).toBe('fits');
    expect(() => checkKeys(manifest, { ...noKeys, masterKey: 'another-key-0123456789' })).toThrow(
      /not the one of the installation/,
    );
  });

  test('is signed by its installation: who rewrites it, checksums and all, cannot sign it', async () => {
    const { manifest } = await proveArchive(archive, quiet);
    expect(checkSignature(manifest, keys)).toBe('signed');
    expect(checkSignature(manifest, noKeys)).toBe('unknown');
    const [first, ...entries] = manifest.entries;
    const forged = { ...manifest, entries: [{ ...first, sha256: 'f'.repeat(64) }, ...entries] };
    expect(checkSignature(forged as Manifest, keys)).toBe('changed');
    const { signature: _, ...stripped } = manifest;
    expect(checkSignature(stripped, keys)).toBe('unsigned');
    // With a key ring of their own, which these keys do not open, or with none.
    expect(checkSignature({ ...manifest, wrappedKey: null }, keys)).toBe('unsigned');
    const path = join(folder, 'unsigned.penstock');
    await make(path, false, noKeys);
    expect(checkSignature((await proveArchive(path, quiet)).manifest, keys)).toBe('unsigned');
  });

  describe('that is not as it was written', () => {
    const altered = async (
      name: string,
      change: (path: string, size: number) => Promise<void>,
    ): Promise<string> => {
      const path = join(folder, name);
      await copyFile(archive, path);
      await change(path, (await stat(path)).size);
      return path;
    };
    const overwrite = (at: number) => async (path: string) => {
      const bytes = await readFile(path);
      bytes[at] = (bytes[at] ?? 0) ^ 0xff;
      await writeFile(path, bytes);
    };

    test.each([
      [
        'cut off in the middle',
        (path: string, size: number) => truncate(path, Math.floor(size / 2)),
      ],
      ['cut off at its end', (path: string, size: number) => truncate(path, size - 1_500)],
      ['empty', (path: string) => truncate(path, 0)],
      [
        'altered in the middle',
        (path: string, size: number) => overwrite(Math.floor(size / 2))(path),
      ],
      ['altered near its end', (path: string, size: number) => overwrite(size - 2_000)(path)],
      ['something else', (path: string) => writeFile(path, 'no backup')],
    ])('is refused: %s', async (name, change) => {
      const path = await altered(name, change);
      await expect(proveArchive(path, quiet)).rejects.toThrow(/damaged|not a backup/);
    });

    test('is refused when it comes from the future', async () => {
      const { createArchiveWriter } = await import('./archive-writer.ts');
      const path = join(folder, 'future.penstock');
      const writer = await createArchiveWriter(path);
      const header = {
        penstockBackup: 99,
        version: '9.0.0',
        postgres: '25',
        createdAt: '2031-01-01T00:00:00Z',
      };
      await writer.add('penstock-backup.json', Buffer.from(JSON.stringify(header)));
      await writer.finish();
      await expect(proveArchive(path, quiet)).rejects.toThrow(/Penstock 9\.0\.0/);
    });

    test('is refused when it is not there', async () => {
      await expect(proveArchive(join(folder, 'absent'), quiet)).rejects.toThrow(
        /cannot be read \(ENOENT\)/,
      );
    });
  });

  test('of an instance that stands still has its server to itself, and leaves it to others afterwards', async () => {
    const dataDir = join(folder, 'still');
    await mkdir(dataDir, { mode: 0o711 });
    const made = await startFor(join(dataDir, 'postgres'), dataDir, silentLog);
    await made.close();
    const open = () => connectToSource({ dataDir, databaseUrl: undefined }, silentLog);
    const both = await Promise.allSettled([open(), open()]);
    const [opened, refused] = both.toSorted((a, b) => a.status.localeCompare(b.status));
    expect(refused).toMatchObject({
      status: 'rejected',
      reason: { message: expect.stringContaining('is in use by') },
    });
    if (opened?.status !== 'fulfilled') throw new Error('Neither got the server');
    expect((await opened.value.client.query('select 1 as one')).rows).toEqual([{ one: 1 }]);
    await opened.value.close();
    await (await open()).close();
  }, 60_000);

  test('leaves nothing behind when the restore fails half way', async () => {
    const dataDir = join(folder, 'half');
    await mkdir(dataDir, { mode: 0o711 });
    const proven = await proveArchive(archive, quiet);
    const broken = {
      ...proven,
      structure: { ...proven.structure, after: [...proven.structure.after, 'select 1 / 0'] },
    };
    const { client, close } = await startFor(join(dataDir, 'postgres'), dataDir, silentLog);
    try {
      const target = {
        filesFolder: join(dataDir, 'files'),
        storageFolder: join(dataDir, 'storage'),
        keysFile: join(dataDir, 'secrets.json'),
        marker: join(dataDir, 'restoring'),
      };
      await expect(load({ client, archive: broken, target, onProgress: quiet })).rejects.toThrow(
        /nothing was changed/,
      );
      expect(await stat(join(dataDir, 'files.restoring')).catch(() => undefined)).toBeUndefined();
      const isThere = (file: string) => stat(file).then(Boolean, () => false);
      // As much as a kill would find at this moment, which is told by the marker.
      const seen: boolean[] = [];
      const unwilling = Object.assign(Object.create(client) as typeof client, {
        query(...given: Parameters<typeof client.query>) {
          if (String(given[0]) !== 'commit') return client.query(...given);
          return isThere(target.marker).then((there) => {
            seen.push(there);
            throw new Error('the connection is gone');
          });
        },
      });
      const options = { archive: proven, target, onProgress: quiet };
      await expect(load({ ...options, client: unwilling })).rejects.toThrow(/nothing was changed/);
      expect(seen).toEqual([true]);
      expect(await Promise.all(Object.values(target).map(isThere))).not.toContain(true);
      await load({ ...options, client });
      expect(await isThere(target.marker)).toBe(false);
    } finally {
      await close();
    }
  }, 120_000);
});
