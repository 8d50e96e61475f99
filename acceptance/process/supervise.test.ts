/** Processes that crash, hang, or are killed: the supervisor replaces them, and the embedded database lives on. */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterEach, describe, expect, it } from 'vitest';
import { descendants, isRunning } from '../../test/support/processes.ts';
import { launchPlatform, type SpawnedPlatform, spawnPlatform } from '../../test/support/spawn.ts';
import { waitFor } from '../../test/support/wait-for.ts';
import { upload } from '../functions/requests.ts';

const cleanUps: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const cleanUp of cleanUps.splice(0).reverse()) await cleanUp();
});

const start = async (env: Record<string, string> = {}): Promise<SpawnedPlatform> => {
  const platform = await spawnPlatform({ env, afterFirstStart: true });
  cleanUps.push(() => platform.dispose());
  return platform;
};

const postgresPid = async ({ dataDir }: { dataDir: string }): Promise<number> =>
  Number.parseInt(await readFile(join(dataDir, 'postgres', 'postmaster.pid'), 'utf8'), 10);

const serves = (platform: SpawnedPlatform): Promise<boolean> =>
  platform.admin.get('/ready').then(
    ({ status }) => status === 200,
    () => false,
  );

const servesAgain = (platform: SpawnedPlatform): Promise<unknown> =>
  waitFor(() => serves(platform), { timeoutMs: 60_000, what: '/ready' });

const linesOf = (text: string): Record<string, unknown>[] =>
  text
    .split('\n')
    .filter((line) => line.startsWith('{'))
    .map((line) => JSON.parse(line));

describe('a process of the platform', { timeout: 180_000 }, () => {
  it('is replaced when it is killed; the database never stops, and the banner comes once', async () => {
    const platform = await start();
    const user = await platform.registerUser();
    const database = await postgresPid(platform);
    const [worker = 0] = await platform.workers();
    process.kill(worker, 'SIGKILL');
    await waitFor(async () => !(await isRunning(worker)));
    await servesAgain(platform);
    expect(await platform.workers()).not.toContain(worker);
    expect(await postgresPid(platform)).toBe(database);
    await platform.login(user.email, user.password);
    expect(linesOf(platform.stderr())).toMatchObject([
      { level: 'error', signal: 'SIGKILL', pid: worker },
    ]);
    expect(platform.stdout().split('is ready').length - 1).toBe(1);
    expect(await platform.stop()).toEqual({ code: 0, signal: null });
  });

  it('is ended when its event loop stands still; the report names the operation, the request and the place', async () => {
    // As an address: a folder whose name has spaces would be two options.
    const blocker = new URL('block-the-loop.mjs', import.meta.url).href;
    const platform = await start({ WATCHDOG_MS: '3000', NODE_OPTIONS: `--import=${blocker}` });
    const database = await postgresPid(platform);
    const [worker = 0] = await platform.workers();
    const cut = platform.client
      .post(
        '/authentication/local',
        { email: 'block-the-loop@example.com', password: 'x' },
        { headers: { 'x-request-id': 'the-hanging-one' } },
      )
      .catch((error: Error) => error);
    await waitFor(async () => !(await isRunning(worker)), {
      timeoutMs: 60_000,
      what: 'the end of the stuck process',
    });
    expect(await cut).toBeInstanceOf(Error);
    await servesAgain(platform);
    expect(await postgresPid(platform)).toBe(database);
    const [report] = linesOf(platform.stderr());
    expect(report).toMatchObject({
      level: 'error',
      pid: worker,
      requestId: expect.stringMatching(/^[\w-]{8,}$/),
      message: expect.stringContaining('did not turn for 3 s'),
    });
    expect(report?.operation).toMatch(/^authentication\./);
    expect(String(report?.stack)).toContain('block-the-loop.mjs');
  });

  it('is not ended when somebody paused it', async () => {
    const platform = await start({ WATCHDOG_MS: '2000' });
    const [worker = 0] = await platform.workers();
    process.kill(worker, 'SIGSTOP');
    await new Promise((resolve) => setTimeout(resolve, 4_000));
    process.kill(worker, 'SIGCONT');
    await servesAgain(platform);
    expect(await platform.workers()).toEqual([worker]);
  });

  it('that crashes again and again ends the platform with exit code 1 and the reason', async () => {
    const platform = await start();
    let ended = false;
    void platform.exit.then(() => (ended = true));
    await waitFor(
      async () => {
        for (const pid of ended ? [] : await platform.workers())
          if (await isRunning(pid)) process.kill(pid, 'SIGKILL');
        return ended;
      },
      { timeoutMs: 60_000, what: 'the end' },
    );
    expect((await platform.exit).code).toBe(1);
    expect(platform.stderr()).toContain('crashed 6 times within a minute');
  });
});

describe('the supervisor', { timeout: 120_000 }, () => {
  it('starts the processes of functions, and ends them with the process that they belong to', async () => {
    const platform = await start();
    await upload(platform.admin, {
      name: 'hello',
      functionCode: 'const n: number = 1; res({ hello: n });',
    });
    const hello = () => platform.client.get('/functions/hello');
    expect(await hello()).toMatchObject({ status: 200, body: { result: { hello: 1 } } });
    const [worker = 0] = await platform.workers();
    const sandboxesOf = async (pid: number) =>
      (await descendants(pid)).filter(({ command }) => command.includes('--allow-addons'));
    const [first] = await sandboxesOf(platform.pid);
    // From one file, as the platform itself.
    expect(first?.command).toMatch(/penstock-program\/\w+\/sandbox\.mjs/);
    expect(await sandboxesOf(worker)).toEqual([]);
    // One that ends by itself is replaced.
    process.kill(first?.pid ?? 0, 'SIGKILL');
    await waitFor(async () => (await sandboxesOf(platform.pid)).length === 0);
    expect(await hello()).toMatchObject({ status: 200 });
    const [second] = await sandboxesOf(platform.pid);
    const pid = second?.pid ?? 0;
    // It stands still, and does not notice that its socket is closed.
    process.kill(pid, 'SIGSTOP');
    process.kill(worker, 'SIGKILL');
    await waitFor(async () => !(await isRunning(pid)), { what: 'the end of the sandbox' });
    await servesAgain(platform);
    expect(await hello()).toMatchObject({ status: 200 });
  });

  it('that is killed with -9 leaves no process', async () => {
    const platform = await start();
    const family = await descendants(platform.pid);
    process.kill(platform.pid, 'SIGKILL');
    await waitFor(
      async () => !(await Promise.all(family.map(({ pid }) => isRunning(pid)))).includes(true),
      { timeoutMs: 30_000 },
    );
  });

  it('says so when a process is killed before it serves: nobody else can', async () => {
    const launched = await launchPlatform({ env: {} });
    cleanUps.push(() => launched.dispose());
    const worker = await waitFor(async () => (await launched.workers())[0], {
      timeoutMs: 60_000,
      what: 'the first process',
    });
    process.kill(worker, 'SIGKILL');
    expect((await launched.exit).code).toBe(137);
    expect(linesOf(launched.stderr())).toMatchObject([
      {
        level: 'error',
        pid: worker,
        signal: 'SIGKILL',
        message: expect.stringContaining('before it'),
      },
    ]);
  });

  it('answers with the exit code of a start that failed, and starts nothing again', async () => {
    const launched = await launchPlatform({ env: { CLIENT_HTTP_PORT: 'abc' } });
    cleanUps.push(() => launched.dispose());
    expect((await launched.exit).code).toBe(1);
    expect(launched.stderr()).toBe('CLIENT_HTTP_PORT must be a port number, got "abc"\n');
  });
});
