import { readSettings } from '../../src/kernel/settings.ts';
import { startPlatform } from '../../src/platform.ts';
import { createTestDatabase, type TestServer } from './database.ts';
import { createTestNode, type TestNode, testAdminPassword, testMasterKey } from './node.ts';
import { removeFolder, temporaryFolder } from './temporary-folder.ts';

export interface TestPlatformOptions {
  /**
   * Where its database lives: one of the servers that the run shares (`embedded` unless set), or
   * `own`: the platform starts its embedded server in its data folder, as `npm start` does.
   */
  readonly server?: TestServer | 'own';
  /** Of a database that is there already (a second node); then `server` does not matter. */
  readonly databaseUrl?: string;
  /** Further environment variables. */
  readonly env?: Readonly<Record<string, string>>;
}

export interface TestPlatform extends TestNode {
  readonly databaseUrl: string | undefined;
  readonly dataDir: string;
  /** Stops the platform and removes its database and data folder. */
  close(): Promise<void>;
}

/** A whole platform inside this process, on free ports, with a database and a data folder of its own. */
export async function createTestPlatform(options: TestPlatformOptions = {}): Promise<TestPlatform> {
  const { server = 'embedded' } = options;
  const database = options.databaseUrl === undefined && server !== 'own' ? await createTestDatabase({ server }) : undefined;
  const databaseUrl = options.databaseUrl ?? database?.url;
  const dataDir = await temporaryFolder('data');
  const cleanUp = async () => {
    await database?.drop();
    await removeFolder(dataDir);
  };
  try {
    const settings = readSettings({ ...testEnvironment(dataDir, databaseUrl), ...options.env });
    const platform = await startPlatform({ settings });
    const node = createTestNode(platform.addresses, { masterKey: testMasterKey, adminPassword: testAdminPassword });
    const close = async () => {
      await platform.close();
      await cleanUp();
    };
    return { ...node, databaseUrl, dataDir, close };
  } catch (error) {
    await cleanUp();
    throw error;
  }
}

/** The environment of every platform that tests start: free ports, known credentials, quiet. */
export function testEnvironment(dataDir: string, databaseUrl: string | undefined): Record<string, string> {
  return {
    CLIENT_HTTP_PORT: '0',
    CLIENT_SOCKET_PORT: '0',
    ADMIN_HTTP_PORT: '0',
    HOST: '127.0.0.1',
    MASTER_KEY: testMasterKey,
    ADMIN_INITIAL_PASSWORD: testAdminPassword,
    PENSTOCK_DATA_DIR: dataDir,
    LOG_LEVEL: 'silent',
    ...(databaseUrl === undefined ? {} : { DATABASE_URL: databaseUrl }),
  };
}
