/** Several processes behind the same ports, and one machine's signals to all of them. */
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, describe, expect, it } from 'vitest';
import { descendants, isRunning } from '../../test/support/processes.ts';
import { spawnPlatform } from '../../test/support/spawn.ts';
import { waitFor } from '../../test/support/wait-for.ts';

const cleanUps: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const cleanUp of cleanUps.splice(0).reverse()) await cleanUp();
});

const start = async (env: Record<string, string>) => {
  const platform = await spawnPlatform({ env, afterFirstStart: true });
  cleanUps.push(() => platform.dispose());
  return platform;
};

describe('WORKERS=2', { timeout: 180_000 }, () => {
  it('serves from both on one embedded server, survives the loss of either, and stops as one', async () => {
    const platform = await start({ WORKERS: '2' });
    await waitFor(() => platform.stdout().includes('This process serves'), {
      timeoutMs: 60_000,
      what: 'the second worker',
    });
    await platform.createSchema({ name: 'Shared', fields: { mark: 'String' } });
    const { api } = await platform.registerUser();
    const write = async (): Promise<number> =>
      (await api.post('/database/Shared', { mark: 'x' }).catch(() => ({ status: 0 }))).status;
    expect(await Promise.all(Array.from({ length: 40 }, write))).toEqual(
      Array.from({ length: 40 }, () => 200),
    );

    const before = await platform.workers();
    expect(before).toHaveLength(2);
    for (const worker of before) {
      process.kill(worker, 'SIGKILL');
      await waitFor(async () => !(await isRunning(worker)));
      // The other one serves on; the kernel may still have sent this connection to the one that went.
      await waitFor(async () => (await write()) === 200, {
        timeoutMs: 60_000,
        what: 'a write after the loss',
      });
      const alive = async () => (await platform.workers()).length === 2;
      await waitFor(alive, { timeoutMs: 60_000, what: 'two workers again' });
    }
    await waitFor(() => platform.stdout().split('This process serves').length === 4, {
      timeoutMs: 60_000,
      what: 'both replacements',
    });
    const family = await descendants(platform.pid);
    expect(await platform.stop()).toEqual({ code: 0, signal: null });
    expect((await Promise.all(family.map(({ pid }) => isRunning(pid)))).includes(true)).toBe(false);
  });
});

describe('a SIGTERM to every process at once, as systemd sends it', { timeout: 120_000 }, () => {
  it('ends everything cleanly, and what was acknowledged is there', async () => {
    const platform = await start({ STOP_PAUSE_MS: '8000' });
    await platform.createSchema({ name: 'Kept', fields: { mark: 'String' } });
    const { api } = await platform.registerUser();
    const statuses: number[] = [];
    let stopped = false;
    const write = async (): Promise<void> => {
      while (!stopped) {
        statuses.push(
          (await api.post('/database/Kept', { mark: 'x' }).catch(() => ({ status: 0 }))).status,
        );
        // Within the rate limit.
        await sleep(25);
      }
    };
    const writing = Array.from({ length: 4 }, write);
    await waitFor(() => statuses.length > 20);
    const family = await descendants(platform.pid);
    for (const pid of [platform.pid, ...family.map((each) => each.pid)]) {
      try {
        process.kill(pid, 'SIGTERM');
      } catch {
        // It has ended already.
      }
    }
    const from = statuses.length;
    // The database comes back for what still runs.
    await waitFor(() => statuses.slice(from).filter((status) => status === 200).length > 5, {
      what: 'writes while draining',
    });
    const exit = await platform.exit;
    stopped = true;
    await Promise.all(writing);
    expect(exit).toEqual({ code: 0, signal: null });
    expect([...new Set(statuses)].filter((status) => ![0, 200, 429, 503].includes(status))).toEqual(
      [],
    );
    expect((await Promise.all(family.map(({ pid }) => isRunning(pid)))).includes(true)).toBe(false);
  });
});
