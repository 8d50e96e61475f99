/**
 * The pool where the system has no process to give, and where hostile runs crowd it. It runs in a process of its own here:
 * open files are bounded for a process as a whole, and what becomes of sandboxes after it is part of the question.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { afterEach, describe, expect, it } from 'vitest';
import { waitFor } from '../../../../test/support/wait-for.ts';

/** Makes `pool`, `run(code, key)` and `say(value)`, which writes a line of JSON. */
const preparation = `
  const { createPool } = await import(${JSON.stringify(new URL('pool.ts', import.meta.url).href)});
  const quiet = () => undefined;
  const log = { debug: quiet, info: quiet, warn: quiet, error: quiet };
  const { startProgramHere } = await import(${JSON.stringify(new URL('../../../kernel/child-programs.ts', import.meta.url).href)});
  const pool = createPool(startProgramHere, log, () => ({ processes: 1, processMegabytes: 700 }));
  const say = (value) => console.log(JSON.stringify(value));
  const soon = () => new Promise((go) => setTimeout(go, 5));
  const come = async (test) => { while (!test()) await soon(); return true; };
  const run = (code, key, ms = 20_000) => pool.run({
    key, file: 'f.js', form: 'body',
    limits: { cpuMs: 2_000, memoryMb: 32, maxResultBytes: 1_000, maxLogBytes: 1_000 },
    deadlineAt: performance.now() + ms,
    input: JSON.stringify({ facts: { logCharacters: 100, caller: {} }, req: { context: {} } }),
    source: async () => ({ code: await code, packages: {} }),
    call: async () => 'null',
  });
`;

const started: ChildProcess[] = [];
const left: number[] = [];
afterEach(() => {
  for (const child of started.splice(0)) child.kill('SIGKILL');
  for (const pid of left.splice(0)) if (isThere(pid)) process.kill(pid, 'SIGKILL');
});

/** Runs a program of the pool; answers its lines as they come. */
function start(program: string, shell = 'exec "$0" "$@"') {
  const node = [process.execPath, '--no-warnings', '--input-type=module', '-e'];
  const child = spawn('/bin/sh', ['-c', shell, ...node, preparation + program], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  started.push(child);
  const lines = createInterface({ input: child.stdout as NodeJS.ReadableStream });
  return { child, lines: lines[Symbol.asyncIterator]() };
}

const next = async <T>(lines: AsyncIterator<string>): Promise<T> =>
  JSON.parse((await lines.next()).value) as T;

/** Zombies are gone. */
function isThere(pid: number): boolean {
  if (!existsSync(`/proc/${pid}/stat`)) return false;
  return stateOf(pid) !== 'Z';
}

function stateOf(pid: number): string | undefined {
  try {
    return /\) (\w)/.exec(readFileSync(`/proc/${pid}/stat`, 'utf8'))?.[1];
  } catch {
    return undefined;
  }
}

describe.runIf(process.platform === 'linux')('the pool of sandbox processes', () => {
  it('tells of it when no process can be started, and has one as soon as it can', async () => {
    const { lines } = start(
      `
        const { closeSync, openSync } = await import('node:fs');
        const files = [];
        const fill = () => { try { for (;;) files.push(openSync('/dev/null')); } catch {} };
        await import(${JSON.stringify(new URL('sandbox/prelude-text.ts', import.meta.url).href)});
        fill();
        say((await Promise.all([run('return 1', 'a'), run('return 2', 'b')])).map((end) => end.outcome));
        say(await pool.check('return 1', 'f.js').then(() => 'checked', (error) => error.name));
        const later = run('return 3', 'c');
        for (const file of files.splice(0)) closeSync(file);
        const end = await later;
        say({ outcome: end.outcome, text: end.text });
        pool.close();
      `,
      'ulimit -n 256; exec "$0" "$@"',
    );
    expect(await next(lines)).toEqual(['unavailable', 'unavailable']);
    expect(await next(lines)).toBe('SandboxUnavailable');
    expect(await next(lines)).toEqual({ outcome: 'ok', text: '3' });
  });

  it('finds out from outside that strangers keep a process busy, which then has no time to say so', async () => {
    const { lines } = start(`
      const { SandboxProcesses } = await import(${JSON.stringify(new URL('processes.ts', import.meta.url).href)});
      const keys = Array.from({ length: 9 }, (_, i) => 'stranger' + i);
      const processes = new SandboxProcesses({
        ...{ settings: () => ({ processes: 1, processMegabytes: 700 }), log, startProgram: startProgramHere },
        ...{ onMessage: quiet, onExit: quiet, computingIn: () => keys, costlyKeys: () => keys },
      });
      const one = processes.take(keys[0]);
      one.running = keys.length;
      const limits = { cpuMs: 60_000, memoryMb: 32, maxResultBytes: 1_000, maxLogBytes: 1_000 };
      one.send({ t: 'load', key: 'loop', form: 'body', file: 'f.js' }, JSON.stringify({ code: 'for (;;);', packages: {} }));
      one.send({ t: 'run', id: 1, key: 'loop', leftMs: 60_000, limits }, JSON.stringify({ facts: { caller: {} }, req: { context: {} } }));
      const alive = setInterval(quiet, 20);
      while (!one.slow) await new Promise((go) => setTimeout(go, 20));
      say(keys.map((key) => processes.take(key) === one));
      clearInterval(alive);
      processes.close();
    `);
    expect(await next(lines)).toEqual(Array.from({ length: 9 }, () => true));
  });

  it('counts what a process uses while it begins to nobody, and stops none before it is ready', async () => {
    const { lines } = start(`
      const { SandboxProcesses } = await import(${JSON.stringify(new URL('processes.ts', import.meta.url).href)});
      const keys = Array.from({ length: 9 }, (_, i) => 'stranger' + i);
      const ready = [];
      const processes = new SandboxProcesses({
        ...{ settings: () => ({ processes: 1, processMegabytes: 700 }), log, startProgram: startProgramHere },
        ...{ onMessage: (from) => ready.find((one) => one.of === from).go(), onExit: quiet },
        ...{ computingIn: () => keys, costlyKeys: () => keys },
      });
      const crowded = (of) => {
        of.running = keys.length;
        return new Promise((go) => ready.push({ of, go }));
      };
      const usual = processes.take(keys[0]);
      await crowded(usual);
      const told = [usual.slow, usual.usedMs() > 50];
      processes.offended('hostile');
      const costly = processes.take('hostile');
      const begins = crowded(costly);
      const inTurns = () => (processes.weigh(() => ['hostile']), processes.isInTurns(costly));
      told.push(costly === usual, inTurns());
      await begins;
      // Not before somebody watches over what is stopped.
      told.push(await come(inTurns));
      say(told);
      processes.close();
    `);
    expect(await next(lines)).toEqual([false, true, false, false, true]);
  });

  it('lets many that run for the first time use what that takes before it counts them as a flood', async () => {
    const { lines } = start(`
      const { SandboxProcesses } = await import(${JSON.stringify(new URL('processes.ts', import.meta.url).href)});
      const keys = Array.from({ length: 40 }, (_, i) => 'stranger' + i);
      const processes = new SandboxProcesses({
        ...{ settings: () => ({ processes: 1, processMegabytes: 700 }), log, startProgram: startProgramHere },
        ...{ onMessage: quiet, onExit: quiet, computingIn: () => keys, costlyKeys: () => keys },
      });
      const one = processes.take(keys[0]);
      one.running = keys.length;
      const limits = { cpuMs: 60_000, memoryMb: 32, maxResultBytes: 1_000, maxLogBytes: 1_000 };
      one.send({ t: 'load', key: 'loop', form: 'body', file: 'f.js' }, JSON.stringify({ code: 'for (;;);', packages: {} }));
      one.send({ t: 'run', id: 1, key: 'loop', leftMs: 60_000, limits }, JSON.stringify({ facts: { caller: {} }, req: { context: {} } }));
      const alive = setInterval(quiet, 20);
      while (!one.isReady) await new Promise((go) => setTimeout(go, 1));
      const before = one.usedMs();
      while (!one.slow) await new Promise((go) => setTimeout(go, 5));
      say(one.usedMs() - before >= 600);
      clearInterval(alive);
      processes.close();
    `);
    expect(await next(lines)).toBe(true);
  });

  it('says of a run that no process was there for it in its time that nothing has run', async () => {
    const { lines } = start(`
      const kill = async () => {
        await come(() => pool.figures().processes > 0);
        for (const pid of pool.figures().pids) process.kill(pid, 'SIGKILL');
        await come(() => pool.figures().processes === 0);
      };
      // On a full machine its time is over before it has used that of the processor.
      const { outcome } = await run('for (;;);', 'hostile');
      const outcomes = [outcome === 'timeout' ? 'cpu' : outcome];
      await kill();
      const killed = run('return 1', 'hostile');
      await kill();
      outcomes.push((await killed).outcome, (await run('return 1', 'hostile', 500)).outcome);
      outcomes.push((await run('return 1', 'other')).outcome);
      say(outcomes);
      pool.close();
    `);
    expect(await next(lines)).toEqual(['cpu', 'crashed', 'unavailable', 'ok']);
  });

  it('has a run begin alone in its turn until its function has shown that it behaves', async () => {
    const { lines } = start(`
      const turns = () => [pool.turn('x'), pool.turn('x')].map((turn) => turn !== undefined);
      const late = Object.assign(new Error('too late'), { status: 504 });
      const unread = await run(Promise.reject(late), 'x');
      say([unread.outcome, ...turns()]);
      await soon();
      const ran = await run('return 1', 'x');
      say([ran.outcome, ...turns()]);
      pool.close();
      const { SandboxProcesses } = await import(${JSON.stringify(new URL('processes.ts', import.meta.url).href)});
      const processes = new SandboxProcesses({ log });
      const told = [processes.behaves('y')];
      processes.proved('y', 1);
      told.push(processes.behaves('y'));
      processes.offended('y');
      say([...told, processes.behaves('y')]);
    `);
    expect(await next(lines)).toEqual(['unavailable', false, true]);
    expect(await next(lines)).toEqual(['ok', false, false]);
    expect(await next(lines)).toEqual([false, true, false]);
  });

  it('lets hostile runs that are many go on in turns, and ends what is stopped when it dies itself', async () => {
    const { child, lines } = start(`
      const { SandboxProcesses } = await import(${JSON.stringify(new URL('processes.ts', import.meta.url).href)});
      const settings = () => ({ processes: 1, processMegabytes: 700 });
      const ready = Promise.withResolvers();
      const processes = new SandboxProcesses({
        ...{ settings, log, startProgram: startProgramHere, onMessage: ready.resolve },
        ...{ onExit: quiet, costlyKeys: () => ['behaves', 'hostile'] },
      });
      processes.slowDown('behaves', processes.take('behaves'));
      const slow = processes.take('behaves');
      await ready.promise;
      slow.running = 4;
      const inTurns = (keys) => (processes.weigh(() => keys), processes.isInTurns(slow));
      const told = [inTurns(['behaves'])];
      processes.offended('hostile');
      told.push(await come(() => inTurns(['behaves', 'hostile'])));
      slow.running = 3;
      told.push(inTurns(['hostile']));
      slow.running = 4;
      told.push(inTurns(['hostile']));
      say({ told, pid: slow.pid });
      await new Promise(() => setInterval(quiet, 1_000));
    `);
    const { told, pid } = await next<{ told: readonly boolean[]; pid: number }>(lines);
    left.push(pid);
    expect(told).toEqual([false, true, false, true]);
    await waitFor(() => stateOf(pid) === 'T');
    await waitFor(() => stateOf(pid) !== 'T', { everyMs: 1 });
    await waitFor(() => stateOf(pid) === 'T');
    child.kill('SIGKILL');
    await waitFor(() => !isThere(pid));
  });
});
