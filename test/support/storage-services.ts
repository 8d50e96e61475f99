/** The services of files over a platform's own database and folder, with whatever store and database a test puts between. */
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { type Caller, system } from '../../src/kernel/caller.ts';
import type { Database } from '../../src/kernel/database/database.ts';
import { readSettings } from '../../src/kernel/settings/settings.ts';
import type { StorageConfig } from '../../src/modules/storage/config.ts';
import { createLocalProvider } from '../../src/modules/storage/providers/local.ts';
import type { StorageProvider } from '../../src/modules/storage/providers/provider.ts';
import { createFileAccess } from '../../src/modules/storage/services/access.ts';
import { filesInMemory } from '../../src/modules/storage/services/known-files.ts';
import { createLinks } from '../../src/modules/storage/services/links.ts';
import { createRecordsWithFiles } from '../../src/modules/storage/services/records-with-files.ts';
import type { StorageParts } from '../../src/modules/storage/services/storage-parts.ts';
import { type Platform, startPlatform } from '../../src/platform.ts';
import { platformDatabase, testEnvironment } from './platform.ts';
import { temporaryFolder } from './temporary-folder.ts';

export interface TestStorage {
  readonly platform: Platform;
  /** The store of the platform itself. */
  readonly provider: StorageProvider;
  /** A user whose files are counted. */
  readonly caller: Caller;
  partsOf(over: Database, store: StorageProvider): StorageParts;
  close(): Promise<void>;
}

export async function openTestStorage(name: string): Promise<TestStorage> {
  const database = await platformDatabase('embedded');
  const folder = await temporaryFolder(name);
  const settings = readSettings(testEnvironment(folder, database.url));
  const platform = await startPlatform({ settings });
  const { config: stored, records } = platform.kernel;
  const found = await stored.read(system('test'), 'storage', { reveal: true });
  const own = found.config as StorageConfig;
  const config = { ...own, limits: { ...own.limits, perUserQuota: 1_000_000 } };
  const { id } = await records.create(system('authentication'), 'User', {
    email: 'owner@example.com',
  });
  return {
    platform,
    provider: await createLocalProvider({ root: join(folder, 'storage') }),
    caller: userWith(id),
    partsOf: (over, store) => ({ ...partsOf(platform, config, store), database: over }),
    async close() {
      await platform.close();
      await database.drop();
      await rm(folder, { recursive: true, force: true });
    },
  };
}

const userWith = (userId: string): Caller => ({
  kind: 'user',
  userId,
  sessionId: 'test',
  authenticatedAt: 0,
  complete: true,
  clientId: '',
});

function partsOf(
  { kernel }: Platform,
  config: StorageConfig,
  store: StorageProvider,
): StorageParts {
  const recordsWithFiles = createRecordsWithFiles(kernel);
  const { permissions } = kernel;
  return {
    ...kernel,
    config: () => config,
    provider: async () => store,
    storeId: async () => '',
    bucketOf: async (container) => container,
    access: createFileAccess({ config: () => config, permissions, recordsWithFiles }),
    recordsWithFiles,
    isRelated: async () => undefined,
    ...filesInMemory(kernel),
    links: createLinks({ config: () => config, clientUrl: () => '', ownKey: 'key' }),
    measures: { upload: () => undefined, download: () => undefined },
  };
}

/** A short body. */
export const bytesOf = (text: string) => ({
  source: (async function* () {
    yield Buffer.from(text);
  })(),
  size: Buffer.byteLength(text),
});
