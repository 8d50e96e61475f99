/** Parts of the kernel for tests of single kernel services, without a whole platform. */
import type { Database } from '../../src/kernel/database/database.ts';
import { migrate } from '../../src/kernel/database/migrate.ts';
import { openDatabase } from '../../src/kernel/database/open-database.ts';
import { migrations } from '../../src/kernel/events/migrations.ts';
import { createTestDatabase, type TestServer } from './database.ts';
import { silentLog } from './quiet.ts';

export interface KernelDatabases {
  readonly url: string;
  /** As the first node has it, with the tables of the kernel's events. */
  readonly database: Database;
  /** Another node's connections to the same database. */
  another(): Promise<Database>;
  close(): Promise<void>;
}

/** A migrated database of the test's own on the shared server. */
export async function openKernelDatabase(
  server: TestServer = 'embedded',
): Promise<KernelDatabases> {
  const test = await createTestDatabase({ server });
  const settings = {
    dataDir: '/nonexistent',
    databaseUrl: test.url,
    databasePreparedStatements: true,
    databasePipelining: true,
  };
  const opened: Database[] = [];
  const another = async (): Promise<Database> => {
    const database = await openDatabase({ settings, log: silentLog });
    opened.push(database);
    return database;
  };
  const database = await another();
  await migrate(database, [{ owner: 'kernel', migrations }]);
  return {
    url: test.url,
    database,
    another,
    async close() {
      await Promise.all(opened.map((one) => one.close()));
      await test.drop();
    },
  };
}
