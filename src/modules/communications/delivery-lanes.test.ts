/** What is sent to somebody does not stand in the line of what is sent to many: not at first, not again, not at a slow provider. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { openTestConnection, type TestConnection } from '../../../test/support/connection.ts';
import type { TestDatabase } from '../../../test/support/database.ts';
import { freePort } from '../../../test/support/free-port.ts';
import {
  createTestNode,
  type TestNode,
  testAdminPassword,
  testMasterKey,
} from '../../../test/support/node.ts';
import { platformDatabase, testEnvironment } from '../../../test/support/platform.ts';
import { removeFolder, temporaryFolder } from '../../../test/support/temporary-folder.ts';
import { waitFor } from '../../../test/support/wait-for.ts';
import { readSettings } from '../../kernel/settings/settings.ts';
import { type Platform, startPlatform } from '../../platform.ts';
import type { CommunicationsConfig } from './config.ts';
import { enqueueAgain, enqueueDeliveries } from './services/delivery-lanes.ts';
import { createPace } from './services/providers/in-order.ts';

let database: TestDatabase;
let platform: Platform;
let node: TestNode;
let sql: TestConnection;
let dataDir: string;
beforeAll(async () => {
  database = await platformDatabase('embedded');
  dataDir = await temporaryFolder('data');
  platform = await startPlatform({
    settings: readSettings(testEnvironment(dataDir, database.url)),
  });
  node = createTestNode(platform.addresses, {
    masterKey: testMasterKey,
    adminPassword: testAdminPassword,
  });
  sql = await openTestConnection(database.url);
});
afterAll(async () => {
  await sql.close();
  await platform.close();
  await database.drop();
  await removeFolder(dataDir);
});

const idsOf = (count: number): readonly string[] => Array.from({ length: count }, (_, n) => `${n}`);

/** What is left to the queues: the name of each, and the number of messages in each job. */
function recorder() {
  const left: [string, number][] = [];
  const jobs = {
    enqueueMany: async (name: string, all: readonly { readonly data: object }[]) => {
      for (const { data } of all)
        left.push([name, 'ids' in data ? Array(data.ids).flat().length : 1]);
    },
  };
  return { left, jobs };
}

describe('messages that are stored together', () => {
  it('are sent one by one where they are few, and in groups where they are many', async () => {
    const { left, jobs } = recorder();
    await enqueueDeliveries(
      jobs,
      idsOf(2).map((id) => ({ id })),
    );
    await enqueueDeliveries(
      jobs,
      idsOf(40).map((id) => ({ id })),
    );
    expect(left).toEqual([
      ['communications.deliver', 1],
      ['communications.deliver', 1],
      ['communications.deliver-together', 32],
      ['communications.deliver-together', 8],
    ]);
  });

  it('wait where they waited before when they are sent again, however few are due at a time', async () => {
    const { left, jobs } = recorder();
    await enqueueAgain(jobs, 'together', new Map([[1.1, ['a']]]));
    await enqueueAgain(jobs, 'alone', new Map([[1, idsOf(40)]]));
    expect(left[0]).toEqual(['communications.deliver-together', 1]);
    expect(new Set(left.slice(1).map(([name]) => name))).toEqual(
      new Set(['communications.deliver']),
    );
  });
});

it('a broadcast that a mail server refuses for now does not fill the line of single messages', async () => {
  const config = {
    email: {
      sendingDomain: 'example.com',
      transportSettings: { smtp: { host: '127.0.0.1', port: await freePort(), ignoreTls: true } },
    },
    providers: { allowInternal: true },
    orchestration: { retryAttempts: 3, retryDelay: 600_000 },
  };
  const set = await node.admin.patch('/config/communications', { config });
  expect(set.status, set.text).toBe(200);
  const broadcast = await node.admin.post('/communications/broadcasts', {
    ...{ channel: 'email', subject: 'News', body: 'news' },
    to: { addresses: idsOf(40).map((id) => `reader${id}@example.org`) },
  });
  expect(broadcast.status, broadcast.text).toBe(200);
  await waitFor(async () => {
    const rows = await sql.query(
      `select count(*)::integer as tried from penstock.messages where attempts = 1 and status = 'queued'`,
    );
    return rows[0]?.tried === 40 || undefined;
  });
  const waiting = await waitFor(async () => {
    const rows = await sql.query(
      `select distinct name from penstock_jobs.job
        where name like 'communications.deliver%' and state in ('created', 'retry') and start_after > now()`,
    );
    return rows.length > 0 ? rows : undefined;
  });
  expect(waiting).toEqual([{ name: 'communications.deliver-together' }]);
});

it('a provider with a pace has a place for a single message, however much of a broadcast waits', async () => {
  const config = { providers: { perSecond: { smtp: 1 } } } as unknown as CommunicationsConfig;
  const pace = createPace({ database: platform.kernel.database, config: () => config });
  for (let batch = 0; batch < 5; batch += 1) await pace.reserve('smtp', 64, 'together');
  expect((await pace.reserve('smtp', 64, 'together')).waits).toEqual([]);
  expect((await pace.reserve('smtp', 1, 'alone')).waits).toHaveLength(1);
});
