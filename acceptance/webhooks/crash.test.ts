/** kill -9 while webhooks go out: every committed change arrives, under one id however often it is sent. */
import { afterAll, beforeAll, expect, it } from 'vitest';
import { connectToEmbedded } from '../../test/support/embedded-database.ts';
import { expectStatus } from '../../test/support/node.ts';
import { liftLimits } from '../../test/support/permissions.ts';
import { type SpawnedPlatform, spawnPlatform, startedFolder } from '../../test/support/spawn.ts';
import { removeFolder } from '../../test/support/temporary-folder.ts';
import { waitFor } from '../../test/support/wait-for.ts';
import { createEndpoint, type Receiver, startReceiver } from './receiver.ts';

const KILLS = Number(process.env.WEBHOOK_KILLS ?? 2);
const COUNT = 60;

let dataDir: string;
let receiver: Receiver;
beforeAll(async () => {
  dataDir = await startedFolder();
  receiver = await startReceiver();
});
afterAll(async () => {
  await receiver.close();
  await removeFolder(dataDir);
});

const open = { enabled: true, authenticated: false };
async function prepare(platform: SpawnedPlatform): Promise<void> {
  await liftLimits(platform.admin);
  const config = { allowInternal: true, delivery: { pausesMs: [50, 50, 50, 50] } };
  expectStatus(await platform.admin.patch('/config/webhooks', { config }), 200, 'config');
  await platform.createSchema({
    name: 'Order',
    fields: { total: 'Number' },
    conduitOptions: { cms: { enabled: true, crudOperations: { create: open } } },
  });
  await createEndpoint(platform.admin, { url: receiver.url, events: ['record.created'] });
}

it('loses nothing and gives no delivery a second id', { timeout: 300_000 }, async () => {
  const written: string[] = [];
  receiver.answer(async () => {
    await new Promise((resolve) => setTimeout(resolve, Math.random() * 40));
    return { status: Math.random() < 0.2 ? 500 : 200 };
  });
  let begun = new Date();
  let platform = await spawnPlatform({ dataDir });
  await prepare(platform);
  for (let round = 0; round <= KILLS; round += 1) {
    const one = async (n: number) => {
      const answer = await platform.client.post('/database/Order', { total: n });
      if (answer.status === 200) written.push(answer.body._id);
    };
    const all = Promise.allSettled(Array.from({ length: COUNT }, (_, n) => one(n)));
    if (round === KILLS) {
      await all;
      break;
    }
    await new Promise((resolve) => setTimeout(resolve, 100 + Math.random() * 300));
    await platform.kill();
    await all;
    await platform.dispose();
    begun = new Date();
    platform = await spawnPlatform({ dataDir });
  }
  receiver.answer(() => ({ status: 200 }));
  const database = await connectToEmbedded(dataDir);
  try {
    // The lease of what a killed process had begun is over after half a minute: the clock is turned, not the rule.
    const turn = `update penstock.queue_items set due_at = now() where state = 'waiting' and leased_at < $1`;
    const arrived = () => new Set(receiver.arrivals.map(({ body }) => body.data.id));
    await waitFor(
      async () => {
        await database.query(turn, [begun]);
        return written.every((id) => arrived().has(id));
      },
      { timeoutMs: 60_000, everyMs: 200 },
    );
    const ids = Map.groupBy(receiver.arrivals, ({ body }) => body.data.id);
    for (const arrivals of ids.values()) expect(new Set(arrivals.map(({ id }) => id)).size).toBe(1);
  } finally {
    await database.end();
    await platform.dispose();
  }
});
