/** kill -9 in the middle of writes: whatever was acknowledged is there after the next start, with its event. */
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Api } from '../test/support/api.ts';
import { connectToEmbedded } from '../test/support/embedded-database.ts';
import { type SpawnedPlatform, spawnPlatform } from '../test/support/spawn.ts';
import { removeFolder, temporaryFolder } from '../test/support/temporary-folder.ts';
import { waitFor } from '../test/support/wait-for.ts';

const writers = 8;
const rounds = 3;

describe('kill -9 during a write load', { timeout: 180_000 }, () => {
  let dataDir: string;
  beforeAll(async () => {
    dataDir = await temporaryFolder('data');
  });
  afterAll(() => removeFolder(dataDir));

  it('loses no acknowledged record and no event', async () => {
    const acknowledged: string[] = [];
    let platform = await spawnPlatform({ dataDir });
    await platform.createSchema({
      name: 'Entry',
      fields: { mark: { type: 'String', required: true, unique: true } },
    });
    for (let round = 0; round < rounds; round += 1) {
      const { api } = await platform.registerUser();
      await killWhileWriting(platform, api, acknowledged);
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
    } finally {
      await database.end();
      await platform.dispose();
    }
  });
});

/** Writes from several connections until the platform is killed under them; answered ids are noted. */
async function killWhileWriting(
  platform: SpawnedPlatform,
  api: Api,
  acknowledged: string[],
): Promise<void> {
  const before = acknowledged.length;
  let killed = false;
  const write = async () => {
    while (!killed) {
      const answer = await api
        .post('/database/Entry', { mark: randomUUID() })
        .catch(() => undefined);
      if (answer?.status === 200) acknowledged.push(answer.body._id);
    }
  };
  const writing = Array.from({ length: writers }, write);
  await waitFor(() => acknowledged.length > before + 60, {
    timeoutMs: 30_000,
    what: 'some writes',
  });
  const gone = platform.kill();
  killed = true;
  await Promise.all([gone, ...writing]);
  await platform.dispose();
}
