/** kill -9 in the middle of writes and uploads: whatever was acknowledged is there after the next start, with its event. */
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { connectToEmbedded } from '../test/support/embedded-database.ts';
import type { TestUser } from '../test/support/node.ts';
import { type SpawnedPlatform, spawnPlatform, startedFolder } from '../test/support/spawn.ts';
import { removeFolder } from '../test/support/temporary-folder.ts';
import { waitFor } from '../test/support/wait-for.ts';
import { bearer, readContent, sendForm } from './storage/requests.ts';

const writers = 8;
const uploaders = 20;
const rounds = 3;

describe('kill -9 during a write load', { timeout: 180_000 }, () => {
  let dataDir: string;
  beforeAll(async () => {
    dataDir = await startedFolder();
  });
  afterAll(() => removeFolder(dataDir));

  it('loses no acknowledged record, file or event', async () => {
    const acknowledged: string[] = [];
    const uploaded = new Map<string, string>();
    let platform = await spawnPlatform({ dataDir });
    // Writers and uploaders send more than one address may in a minute.
    const rateLimit = { maxRequests: 1_000_000 };
    expect((await platform.admin.patch('/config/router', { rateLimit })).status).toBe(200);
    await platform.createSchema({
      name: 'Entry',
      fields: { mark: { type: 'String', required: true, unique: true } },
    });
    for (let round = 0; round < rounds; round += 1) {
      const user = await platform.registerUser();
      await killWhileWriting(platform, user, { acknowledged, uploaded });
      platform = await spawnPlatform({ dataDir });
    }
    expect(acknowledged.length).toBeGreaterThan(100);
    const database = await connectToEmbedded(dataDir);
    try {
      const stored = await database.query('SELECT _id::text AS id FROM app."Entry"');
      const ids = new Set(stored.rows.map(({ id }) => id));
      expect(acknowledged.filter((id) => !ids.has(id))).toEqual([]);

      await waitFor(
        async () => {
          const { rows } = await database.query(
            `select from penstock.outbox o, penstock.outbox_state s where not pg_visible_in_snapshot(o.xid, s.snapshot)`,
          );
          return rows.length === 0;
        },
        { what: 'the relay to publish what was left behind' },
      );
      const events = await database.query<{ id: string }>(
        `SELECT unnest(ids) AS id FROM penstock.outbox WHERE schema = 'Entry' AND operation IN ('create', 'insert')`,
      );
      const published = events.rows.map(({ id }) => id);
      expect(acknowledged.filter((id) => !published.includes(id))).toEqual([]);
      expect(new Set(published).size).toBe(published.length);
      expect([...ids].filter((id) => !published.includes(id))).toEqual([]);

      expect(uploaded.size).toBeGreaterThan(60);
      await expectWhole(platform, uploaded);
      // The time of what was on its way is over.
      await database.query(`update penstock.storage_uploads set expires_at = now()`);
      await reconciled(platform, false);
      await expectWhole(platform, uploaded);
      await waitFor(
        async () => {
          const { progress } = await reconciled(platform, true);
          return progress.objects === progress.files;
        },
        { timeoutMs: 60_000, everyMs: 300, what: 'what was given up to be deleted' },
      );
      expect((await reconciled(platform, true)).progress).toMatchObject({
        expiredUploads: 0,
        orphanObjects: 0,
        missingObjects: 0,
        wrongCounters: 0,
      });
      const open = await database.query('select from penstock.storage_uploads');
      expect(open.rowCount).toBe(0);
    } finally {
      await database.end();
      await platform.dispose();
    }
  });
});

/** Every acknowledged file has the content that was sent. */
async function expectWhole(
  platform: SpawnedPlatform,
  uploaded: ReadonlyMap<string, string>,
): Promise<void> {
  const headers = bearer(await platform.registerUser());
  const left = [...uploaded];
  const read = async () => {
    for (let one = left.pop(); one; one = left.pop()) {
      const { status, bytes } = await readContent(platform, `/storage/download/${one[0]}`, {
        headers,
      });
      expect([one[0], status, bytes.toString() === one[1]]).toEqual([one[0], 200, true]);
    }
  };
  await Promise.all(Array.from({ length: 8 }, read));
}

/** A reconciliation that is over. */
async function reconciled({ admin }: SpawnedPlatform, dryRun: boolean) {
  const { _id } = (await admin.post('/storage/reconcile', { dryRun })).body;
  const task = async () => (await admin.get(`/storage/tasks/${_id}`)).body;
  await waitFor(async () => (await task()).state === 'done', { what: 'a reconciliation' });
  return task();
}

interface Acknowledged {
  /** Ids of records. */
  readonly acknowledged: string[];
  /** Contents of files, by their ids. */
  readonly uploaded: Map<string, string>;
}

/** Writes from several connections until the platform is killed under them; what was answered is noted. */
async function killWhileWriting(
  platform: SpawnedPlatform,
  user: TestUser,
  { acknowledged, uploaded }: Acknowledged,
): Promise<void> {
  const [before, filesBefore] = [acknowledged.length, uploaded.size];
  let killed = false;
  const write = async () => {
    while (!killed) {
      const answer = await user.api
        .post('/database/Entry', { mark: randomUUID() })
        .catch(() => undefined);
      if (answer?.status === 200) acknowledged.push(answer.body._id);
    }
  };
  const upload = async () => {
    while (!killed) {
      const name = randomUUID();
      const content = name.repeat(200);
      const sent = await sendForm(platform, user, [name, content]).catch(() => undefined);
      if (sent?.status === 200) uploaded.set(sent.body.id, content);
    }
  };
  const sending = [
    ...Array.from({ length: writers }, write),
    ...Array.from({ length: uploaders }, upload),
  ];
  await waitFor(() => acknowledged.length > before + 60 && uploaded.size > filesBefore + 20, {
    timeoutMs: 30_000,
    what: 'some writes and uploads',
  });
  const gone = platform.kill();
  killed = true;
  await Promise.all([gone, ...sending]);
  await platform.dispose();
}
