/** The supervisor with workers that are a few lines. With real ones: acceptance/process. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { expect, it } from 'vitest';
import { waitFor } from '../../test/support/wait-for.ts';

const supervisor = fileURLToPath(new URL('supervise.mjs', import.meta.url));
const WORKERS = 8;

/** Says that it serves. The first ones crash when the test says so. */
const worker = `
  process.send({ type: 'ready', workers: ${WORKERS}, watchdogMs: 0 });
  process.on('message', ({ type }) => type === 'stop' && process.exit(0));
  process.on('disconnect', () => process.exit(0));
  const again = process.env.PENSTOCK_WORKER_AGAIN;
  if (!again) process.on('SIGUSR2', () => process.exit(1));
  console.log('pid', process.pid, again ? 'again' : 'first');
  setInterval(() => {}, 1000);`;
const run = `
  const { supervise } = await import(${JSON.stringify(supervisor)});
  const args = ['-e', ${JSON.stringify(worker)}];
  process.exit(await supervise({ program: process.execPath, flags: [], args, cwd: '/', env: process.env }));`;

it('replaces every process where something hits all of them once', async () => {
  const child = spawn(process.execPath, ['--input-type=module', '-e', run], {
    stdio: ['ignore', 'pipe', 'ignore'],
  });
  const exit = once(child, 'exit');
  let said = '';
  child.stdout.on('data', (chunk) => (said += chunk));
  const pids = (which: string): readonly number[] =>
    [...said.matchAll(/pid (\d+) (\w+)/g)].flatMap(([, pid, when]) =>
      when === which ? [Number(pid)] : [],
    );
  try {
    await waitFor(() => pids('first').length === WORKERS, { what: 'all workers' });
    for (const pid of pids('first')) process.kill(pid, 'SIGUSR2');
    await waitFor(() => pids('again').length === WORKERS || child.exitCode !== null, {
      what: 'all replacements',
    });
    expect([pids('again').length, child.exitCode]).toEqual([WORKERS, null]);
    child.kill('SIGTERM');
    expect((await exit)[0]).toBe(0);
  } finally {
    child.kill('SIGKILL');
  }
});
