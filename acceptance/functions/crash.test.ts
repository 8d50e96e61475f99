/**
 * kill -9 while functions for events and workflows run: nothing is lost, and no finished step is done again. One workflow
 * sleeps for days meanwhile, and is stored anew before it wakes.
 */
import { afterAll, beforeAll, expect, it } from 'vitest';
import { connectToEmbedded } from '../../test/support/embedded-database.ts';
import { liftLimits } from '../../test/support/permissions.ts';
import { descendants, isRunning } from '../../test/support/processes.ts';
import { type SpawnedPlatform, spawnPlatform, startedFolder } from '../../test/support/spawn.ts';
import { removeFolder } from '../../test/support/temporary-folder.ts';
import { waitFor } from '../../test/support/wait-for.ts';
import { upload } from './requests.ts';

const KILLS = Number(process.env.FUNCTION_KILLS ?? 2);
const COUNT = 15;

let dataDir: string;
beforeAll(async () => {
  dataDir = await startedFolder();
});
afterAll(() => removeFolder(dataDir));

const open = { enabled: true, authenticated: false };
const steps = [1, 2, 3]
  .map(
    (n) => `await ctx.step('s${n}', () => ctx.db.create('Seen', { what: input.name + ' s${n}' }));`,
  )
  .join(' await ctx.sleep(30); ');

const patient = (last: string) => ({
  functionCode: `export default async (ctx) => {
    await ctx.step('before', () => ctx.db.create('Seen', { what: 'before' }));
    await ctx.sleep('3d');
    await ctx.step('after', () => ctx.db.create('Seen', { what: '${last}' }));
  };`,
});

async function prepare(platform: SpawnedPlatform) {
  await liftLimits(platform.admin);
  for (const name of ['Order', 'Seen'])
    await platform.createSchema({
      name,
      fields: { what: 'String' },
      conduitOptions: { cms: { enabled: true, crudOperations: { create: open, read: open } } },
    });
  await upload(platform.admin, {
    ...{ name: 'onCreate', functionType: 'event' },
    inputs: { event: 'database:create:Order', rights: 'system' },
    functionCode: `export default (ctx, req) => ctx.db.create('Seen', { what: 'event ' + req._id });`,
  });
  const workflow = await upload(platform.admin, {
    ...{ name: 'flow', functionType: 'workflow', inputs: { rights: 'system' } },
    functionCode: `export default async (ctx, { input }) => { ${steps} };`,
  });
  const sleeper = await upload(platform.admin, {
    ...{ name: 'patient', functionType: 'workflow', inputs: { rights: 'system' } },
    ...patient('after, as it was'),
  });
  await upload(platform.admin, {
    name: 'endless',
    functionCode: 'export default () => { for (;;); };',
  });
  return { workflow: workflow._id, sleeper: sleeper._id };
}

/** Calls what never ends, and finds the processes that run functions. */
async function occupied({ client, pid }: SpawnedPlatform): Promise<readonly number[]> {
  for (let i = 0; i < 8; i += 1) void client.get('/functions/endless').catch(() => undefined);
  const isSandbox = ({ command }: { command: string }) => command.includes('--allow-addons');
  const found = async () => (await descendants(pid)).filter(isSandbox);
  await waitFor(async () => (await found()).length > 0, { what: 'a process for functions' });
  return (await found()).map(({ pid }) => pid);
}

it('runs every event and ends every workflow', { timeout: 300_000 }, async () => {
  const orders: string[] = [];
  const flows: string[] = [];
  let begun = new Date();
  let platform = await spawnPlatform({ dataDir });
  const { workflow, sleeper } = await prepare(platform);
  await platform.admin.post(`/functions/${sleeper}/start`, { key: 'patient' });
  for (let round = 0; round <= KILLS; round += 1) {
    const write = async (n: number) => {
      const order = await platform.client.post('/database/Order', { what: `${n}` });
      if (order.status === 200) orders.push(order.body._id);
      const name = `r${round}n${n}`;
      const flow = await platform.admin.post(`/functions/${workflow}/start`, {
        ...{ input: { name }, key: name },
      });
      if (flow.status === 200) flows.push(name);
    };
    const all = Promise.allSettled(Array.from({ length: COUNT }, (_, n) => write(n)));
    if (round === KILLS) {
      await all;
      break;
    }
    await new Promise((resolve) => setTimeout(resolve, 300 + Math.random() * 500));
    const sandboxes = await occupied(platform);
    await platform.kill();
    await all;
    // What runs in them would go on for ever.
    await waitFor(async () => !(await Promise.all(sandboxes.map(isRunning))).includes(true), {
      what: 'the end of the processes for functions',
    });
    await platform.dispose();
    begun = new Date();
    platform = await spawnPlatform({ dataDir });
  }
  const database = await connectToEmbedded(dataDir);
  try {
    await platform.admin.patch(`/functions/${sleeper}`, patient('after, as it is now'));
    // The lease of what a killed process had begun is over after half a minute: the clock is turned, not the rule.
    const turn = `update penstock.queue_items set due_at = now() where lease is not null and leased_at < $1`;
    // Nobody knows in which round it fell asleep, nor whether its sleep was noted before its place in the queue was; from
    // then on its days pass at once.
    await waitFor(
      async () => {
        await database.query(turn, [begun]);
        const { rowCount } = await database.query(
          `with s as (update penstock.function_steps set until = until - interval '4 days' where until > now() + interval '1 day'),
             q as (update penstock.queue_items set due_at = due_at - interval '4 days' where due_at > now() + interval '1 day')
           select 1 from penstock.function_steps where name = 'step:after'`,
        );
        return rowCount === 1;
      },
      { timeoutMs: 60_000, everyMs: 200, what: 'the end of a workflow that sleeps for days' },
    );
    const read = async (): Promise<string[]> => {
      const { rows } = await database.query<{ what: string }>(`select what from app."Seen"`);
      return rows.map(({ what }) => what);
    };
    const expected = [
      ...orders.map((id) => `event ${id}`),
      ...flows.flatMap((name) => [1, 2, 3].map((n) => `${name} s${n}`)),
      ...['before', 'after, as it is now'],
    ];
    await waitFor(
      async () => {
        await database.query(turn, [begun]);
        const seen = new Set(await read());
        return expected.every((what) => seen.has(what));
      },
      { timeoutMs: 90_000, everyMs: 200, what: 'all events and steps' },
    );
    // What was on its way when the process died may have been done twice; its try says so.
    const { rows } = await database.query<{ lost: number }>(
      `select count(*)::int as lost from penstock.queue_items, jsonb_array_elements(tries) t where t->>'outcome' = 'lost'`,
    );
    const all = await read();
    expect(all).not.toContain('after, as it was');
    expect(all.length - new Set(all).size).toBeLessThanOrEqual(rows[0]?.lost ?? 0);
  } finally {
    await database.end();
    await platform.dispose();
  }
});
