import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { type KernelDatabases, openKernelDatabase } from '../../../test/support/kernel.ts';
import { noMetrics, silentLog } from '../../../test/support/quiet.ts';
import { waitFor } from '../../../test/support/wait-for.ts';
import { createLocalBus } from './create-bus.ts';
import { createEvents } from './create-events.ts';
import { countWaiting } from './publication.ts';

let kernel: KernelDatabases;
beforeAll(async () => {
  kernel = await openKernelDatabase();
});
afterAll(() => kernel.close());

const writer = new URL('../../../test/support/event-writer.ts', import.meta.url).pathname;

/** Lets a process write until `count` events are acknowledged, then kills it; answers their ids. */
async function writeAndKill(url: string, count: number): Promise<string[]> {
  const child = spawn(process.execPath, [writer, url], { stdio: ['ignore', 'pipe', 'inherit'] });
  const acknowledged: string[] = [];
  for await (const line of createInterface(child.stdout)) {
    acknowledged.push(line);
    if (acknowledged.length === count) child.kill('SIGKILL');
  }
  if (child.exitCode === null && child.signalCode === null) await once(child, 'exit');
  return acknowledged;
}

it('publishes every acknowledged event of a process that was killed while it wrote and relayed', async () => {
  const acknowledged = await writeAndKill(kernel.url, 700);
  expect(acknowledged.length).toBeGreaterThanOrEqual(700);

  const events = createEvents({
    database: kernel.database,
    bus: createLocalBus('after'),
    log: silentLog,
    metrics: noMetrics,
  });
  await events.start();
  await waitFor(async () => (await countWaiting(kernel.database)) === 0);
  const all = (await events.since(0, 100_000))?.events;
  await events.stop();
  const published = new Set(all?.flatMap((event) => event.ids ?? []));
  expect(acknowledged.filter((id) => !published.has(id))).toEqual([]);
  expect(all?.map((event) => event.sequence)).toEqual(all?.map((_, i) => i + 1));
});
