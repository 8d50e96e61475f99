/** Files of users through a backup: those of the data folder come back, those on stores outside are listed and missed. */
import { createHash, randomUUID } from 'node:crypto';
import { mkdir, readdir, readFile, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { buffer } from 'node:stream/consumers';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { proveArchive } from '../../src/backup/archive-reader.ts';
import { compareContents } from '../../src/backup/contents.ts';
import { dump } from '../../src/backup/dump.ts';
import { load } from '../../src/backup/load.ts';
import { connectToSource, startFor } from '../../src/backup/source.ts';
import { readSettings } from '../../src/kernel/settings/settings.ts';
import { startPlatform } from '../../src/platform.ts';
import type { Json } from '../../test/support/api.ts';
import { silentLog } from '../../test/support/log.ts';
import {
  createTestNode,
  type TestUser,
  testAdminPassword,
  testMasterKey,
} from '../../test/support/node.ts';
import {
  createTestPlatform,
  type TestPlatform,
  testEnvironment,
} from '../../test/support/platform.ts';
import {
  type ObjectStore,
  startS3Store,
  testAccess,
} from '../../test/support/servers/object-store.ts';
import { removeFolder, temporaryFolder } from '../../test/support/temporary-folder.ts';
import { readContent, sendForm } from './requests.ts';

let platform: TestPlatform;
let store: ObjectStore;
let ann: TestUser;
let folder: string;
beforeAll(async () => {
  [platform, store, folder] = await Promise.all([
    createTestPlatform({ server: 'own' }),
    startS3Store(),
    temporaryFolder('storage-backup'),
  ]);
  ann = await platform.registerUser({ email: 'ann@example.com', password: 'Battery-Staple-17' });
}, 120_000);
afterAll(async () => {
  await platform?.close();
  await store?.close();
  if (folder) await removeFolder(folder);
});

const quiet = (): void => undefined;
const upload = async (content: string): Promise<string> =>
  (await sendForm(platform, ann, [`${randomUUID()}.txt`, content])).body.id;

describe('a backup', () => {
  it('brings files back, and says what is on other stores and what is missing', async () => {
    const [kept, lost] = [await upload('kept'), await upload('lost')];
    const aws = { endpoint: store.endpoint, region: 'eu-central-1', ...testAccess, accountId: '1' };
    const turned = await platform.admin.patch('/config/storage?force=true', {
      provider: 'aws',
      aws,
    });
    expect(turned.status, turned.text).toBe(200);
    const outside = await upload('elsewhere');
    // Gone by accident before the backup.
    const lostFile = (await ann.api.get(`/storage/file/${lost}`)).body;
    await rm(await pathOf(lostFile._id));

    const path = join(folder, 'files.penstock');
    const source = await connectToSource(
      { dataDir: platform.dataDir, databaseUrl: undefined },
      silentLog,
    );
    const keys = {
      masterKey: testMasterKey,
      masterKeyPrevious: undefined,
      configEncryptionKey: undefined,
    };
    const made = await dump({
      client: source.client,
      path,
      dataDir: platform.dataDir,
      withKeys: false,
      keys,
      onProgress: quiet,
    }).finally(source.close);
    expect(made.outside).toEqual({ files: 1, bytes: 9 });

    const archive = await proveArchive(path, quiet);
    expect(archive.manifest.outside).toEqual({ files: 1, bytes: 9 });
    const lines: Json[] = [];
    for await (const { name, content } of archive.read()) {
      const text = (await buffer(content)).toString();
      if (name.startsWith('contents/'))
        lines.push(
          ...text
            .trimEnd()
            .split('\n')
            .map((line) => JSON.parse(line)),
        );
    }
    expect(lines).toHaveLength(3);
    expect(lines.find(({ file }) => file === outside)).toMatchObject({
      store: 's2',
      size: 9,
      sha256: createHash('sha256').update('elsewhere').digest('hex'),
      inDataFolder: false,
      key: expect.stringContaining(outside),
    });

    const dataDir = join(folder, 'restored');
    await mkdir(dataDir, { mode: 0o711 });
    const storageFolder = join(dataDir, 'storage');
    const target = {
      filesFolder: join(dataDir, 'files'),
      storageFolder,
      keysFile: join(dataDir, 'secrets.json'),
      marker: join(dataDir, 'restoring'),
    };
    const { client, close } = await startFor(join(dataDir, 'postgres'), dataDir, silentLog);
    await load({ client, archive, target, onProgress: quiet });
    expect(await compareContents(client, storageFolder)).toEqual({
      missing: [lost],
      outside: { files: 1, bytes: 9 },
    });
    await close();

    const running = await startPlatform({
      settings: readSettings(testEnvironment(dataDir, undefined)),
    });
    try {
      const node = createTestNode(running.addresses, {
        masterKey: testMasterKey,
        adminPassword: testAdminPassword,
      });
      const user = await node.login('ann@example.com', 'Battery-Staple-17');
      const read = (id: string) =>
        readContent({ ...node, addresses: running.addresses } as never, `/storage/download/${id}`, {
          headers: { authorization: `Bearer ${user.accessToken}` },
        });
      expect((await read(kept)).bytes.toString()).toBe('kept');
      expect((await read(outside)).bytes.toString()).toBe('elsewhere');
      expect((await read(lost)).status).toBe(502);
      const report = await node.admin.post('/storage/reconcile', { dryRun: true });
      expect(report.body.progress).toMatchObject({ missingObjects: 1, orphanObjects: 0 });
    } finally {
      await running.close();
    }
  }, 60_000);
});

/** Where the only content of a file lies in the data folder. */
async function pathOf(id: string): Promise<string> {
  const entries = await readdir(join(platform.dataDir, 'storage'), { recursive: true });
  const found = entries.find((entry) => entry.includes(id)) ?? '';
  expect((await readFile(join(platform.dataDir, 'storage', found))).length).toBeGreaterThan(0);
  return join(platform.dataDir, 'storage', found);
}
