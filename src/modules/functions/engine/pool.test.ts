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
  const bounds = { processes: 1, processMegabytes: 700 };
  const pool = createPool(startProgramHere, log, () => bounds);
  const say = (value) => console.log(JSON.stringify(value));
  const soon = () => new Promise((go) => setTimeout(go, 5));
  const come = async (test) => { while (!test()) await soon(); return true; };
  const run = (code, key, ms = 20_000, call = async () => 'null') => pool.run({
    key, file: 'f.js', form: 'body',
    limits: { cpuMs: 2_000, memoryMb: 32, maxResultBytes: 1_000, maxLogBytes: 1_000 },
    deadlineAt: performance.now() + ms,
    input: JSON.stringify({ facts: { logCharacters: 100, caller: {} }, req: { context: {} } }),
    source: async () => ({ code: await code, packages: {} }),
    call,
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

  it('has one more process where the runs of one wait, so that nobody waits for those who wait', async () => {
    const { lines } = start(`
      const waits = 'return ctx.call("x")';
      await Promise.all([run(waits, 'a'), run(waits, 'b')]);
      const answers = [];
      const call = () => new Promise((go) => answers.push(go));
      const many = Array.from({ length: 80 }, (_, i) => run(waits, i % 2 ? 'a' : 'b', 20_000, call));
      await come(() => answers.length === 80);
      const other = run('return 3', 'c', 2_000);
      say([(await other).outcome, pool.figures().processes]);
      for (const go of answers) go('4');
      say((await Promise.all(many)).filter(({ text }) => text === '4').length);
      pool.close();
    `);
    expect(await next(lines)).toEqual(['ok', 2]);
    expect(await next(lines)).toBe(80);
  });

  it('has no more of what code asks for in a process than one call, so that others do not die of it', async () => {
    const { lines } = start(`
      let open = 0, most = 0;
      const call = async (_name, args) => {
        open += 1;
        most = Math.max(most, open);
        await soon();
        open -= 1;
        return String(args.length);
      };
      // The bound of the process itself is far away.
      const limits = { cpuMs: 5_000, memoryMb: 32, maxResultBytes: 100_000, maxLogBytes: 1_000 };
      const facts = { logCharacters: 100, mostCharacters: 1_000, caller: {} };
      const input = JSON.stringify({ facts, req: { context: {} } });
      const ask = (code) => pool.run({
        ...{ key: code, file: 'f.js', form: 'body', limits, input, call },
        deadlineAt: performance.now() + 20_000,
        source: async () => ({ code, packages: {} }),
      });
      const many = await ask('const ask = () => ctx.call("x", "x".repeat(900));' +
        'return (await Promise.all(Array.from({ length: 20 }, ask))).length');
      say([many.text, most]);
      say((await ask('return ctx.call("x", "x".repeat(2_000))')).error?.code);
      say((await ask('return "x".repeat(2_000)')).error?.code);
      pool.close();
    `);
    expect(await next(lines)).toEqual(['20', 1]);
    expect(await next(lines)).toBe('CALL_TOO_LARGE');
    expect(await next(lines)).toBe('RESULT_TOO_LARGE');
  });

  it('begins nothing any more once it is closed', async () => {
    const { lines } = start(`
      const ends = [1, 2, 3].map(() => run('for (;;);', 'u'));
      await come(() => pool.figures().pids.length === 1);
      pool.close();
      say((await Promise.all(ends)).map(({ outcome }) => outcome));
      say(pool.figures());
    `);
    expect(await next(lines)).toEqual(['crashed', 'crashed', 'unavailable']);
    expect(await next(lines)).toMatchObject({ processes: 0, running: 0 });
  });

  it('examines and runs in another process after a text that has broken the parser of one', async () => {
    const { lines } = start(`
      const deep = (n) => 'const a: any = ' + '['.repeat(n) + ']'.repeat(n);
      const typed = 'const x: number = 1; return x';
      const told = await Promise.all([deep(3_000), typed, deep(2_000), typed].map((code) => pool.check(code, 'f.js')));
      say(told.map(({ error }) => error?.message ?? 'good'));
      say([(await pool.check(typed, 'f.js')).language, (await run('return 1', 'a')).outcome]);
      await come(() => pool.figures().processes === 1);
      pool.close();
    `);
    const deep = 'the code is nested too deeply: no parser reads it';
    expect(await next(lines)).toEqual([deep, 'good', deep, 'good']);
    expect(await next(lines)).toEqual(['typescript', 'ok']);
  });

  it('examines in another process where one does not answer any more, and says so where that one does not either', async () => {
    const { lines } = start(`
      setInterval(quiet, 1_000);
      bounds.silentMs = 2_000;
      await pool.check('return 1', 'f.js');
      const stop = (pid) => process.kill(pid, 'SIGSTOP');
      const stopped = pool.figures().pids;
      const stopAll = () => pool.figures().pids.forEach(stop);
      stopAll();
      say((await pool.check('return 2', 'f.js')).form);
      say(pool.figures().pids.some((pid) => stopped.includes(pid)));
      bounds.silentMs = 200;
      stopAll();
      setInterval(stopAll, 5);
      say((await pool.check('return 3', 'f.js')).error.message);
    `);
    expect(await next(lines)).toBe('body');
    expect(await next(lines)).toBe(false);
    expect(await next(lines)).toBe('The code could not be examined');
  });

  it('lets few runs compute at once of functions that nobody knows, until one of them has ended by itself', async () => {
    const { lines } = start(`
      const most = { running: 0, ofOne: 0 };
      const look = setInterval(() => {
        const { running, waiting } = pool.figures();
        most.running = Math.max(most.running, running - waiting);
      }, 1);
      const burn = 'const end = Date.now() + 20; while (Date.now() < end); return 1';
      const many = await Promise.all(Array.from({ length: 60 }, (_, i) => run(burn, 'new' + i)));
      const isOfOne = { running: most.running };
      most.running = 0;
      const ofOne = Array.from({ length: 30 }, () => run(burn, 'one'));
      isOfOne.first = pool.figures().running - pool.figures().waiting;
      const one = await Promise.all(ofOne);
      clearInterval(look);
      const good = (ends) => ends.filter(({ outcome }) => outcome === 'ok').length;
      say([good(many), isOfOne.running, good(one), isOfOne.first, most.running > 2]);
      pool.close();
    `);
    expect(await next(lines)).toEqual([60, 6, 30, 2, true]);
  });

  it('lets functions that nobody knows pass a flood of hostile ones as soon as it is one', async () => {
    const { lines } = start(`
      for (let i = 0; i < 40; i++) void run('for (;;);', 'hostile' + i, 60_000);
      let end;
      // Who comes with the flood waits with it.
      for (let i = 0; end?.outcome !== 'ok'; i++) end = await run('return 1', 'new' + i, 1_000);
      const { running, waiting } = pool.figures();
      say([end.text, running > 20, running - waiting <= 8]);
      pool.close();
      process.exit();
    `);
    expect(await next(lines)).toEqual(['1', true, true]);
  });

  it('has nobody wait for functions that only wait themselves, and counts what computes beside a call of its own', async () => {
    const { lines } = start(`
      let ended = 0;
      const sleeping = 'await new Promise((go) => setTimeout(go, 60_000))';
      for (let i = 0; i < 12; i++) void run(sleeping, 'sleeps' + i, 60_000).then(() => { ended += 1; });
      const { text } = await run('return 1', 'new');
      await come(() => pool.figures().waiting === 0);
      say([text, ended, pool.figures().running]);
      const never = () => new Promise(quiet);
      const hides = 'void ctx.db.find("X").catch(() => 0); for (;;);';
      for (let i = 0; i < 40; i++) void run(hides, 'hides' + i, 60_000, never);
      let end;
      for (let i = 0; end?.outcome !== 'ok'; i++) end = await run('return 1', 'newer' + i, 1_000);
      say([end.text, pool.figures().waiting > 10]);
      pool.close();
      process.exit();
    `);
    expect(await next(lines)).toEqual(['1', 0, 12]);
    expect(await next(lines)).toEqual(['1', true]);
  });

  it('keeps those that cost much away from those that had to be ended', async () => {
    const { lines } = start(`
      const { SandboxProcesses } = await import(${JSON.stringify(new URL('processes.ts', import.meta.url).href)});
      const processes = new SandboxProcesses({
        ...{ settings: () => ({ processes: 1, processMegabytes: 700 }), log, startProgram: startProgramHere },
        ...{ onMessage: quiet, onExit: quiet, runs: () => [], line: new Set() },
      });
      const usual = processes.take('costly');
      processes.slowDown('costly', usual);
      processes.offended('hostile');
      const taken = ['costly', 'hostile', 'other'].map((key) => processes.take(key));
      say([taken[0] === usual, new Set(taken).size, ...taken.map(({ use }) => use)]);
      processes.close();
    `);
    expect(await next(lines)).toEqual([true, 3, 'costly', 'offenders', 'usual']);
  });

  it('begins one process at a time for those that cost much', async () => {
    const { lines } = start(`
      const { SandboxProcesses } = await import(${JSON.stringify(new URL('processes.ts', import.meta.url).href)});
      const processes = new SandboxProcesses({
        ...{ settings: () => ({ processes: 1, processMegabytes: 700 }), log, startProgram: startProgramHere },
        ...{ onMessage: quiet, onExit: quiet, runs: () => [], line: new Set() },
      });
      processes.offended('hostile');
      const told = [processes.waitMs('hostile') > 0, processes.waitMs('usual') > 0];
      const usual = processes.take('usual');
      told.push(processes.waitMs('hostile') > 0);
      await come(() => usual.isReady);
      told.push(processes.waitMs('hostile') > 0);
      processes.slowDown('costly', usual);
      usual.kill();
      told.push(processes.waitMs('hostile') > 0);
      say(told);
      processes.close();
    `);
    expect(await next(lines)).toEqual([false, false, true, false, true]);
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
      let runs = [];
      const processes = new SandboxProcesses({
        ...{ settings, log, startProgram: startProgramHere, onMessage: ready.resolve },
        ...{ onExit: quiet, runs: () => runs, line: new Set() },
      });
      processes.offended('hostile');
      const slow = processes.take('hostile');
      const costly = processes.take('costly');
      processes.slowDown('costly', costly);
      const running = (count) => {
        const run = (key, process) => ({ run: { key }, process, openCalls: 0 });
        const other = run('costly', costly);
        runs = [...Array(count).fill(run('hostile', slow)), other, other, other, other];
      };
      running(4);
      const inTurns = () => (processes.weigh(), processes.isInTurns(slow));
      // Not before it is ready, and not before somebody watches over what is stopped.
      const told = [inTurns()];
      await ready.promise;
      await come(() => slow.isReady);
      told.push(await come(inTurns));
      running(3);
      told.push(inTurns());
      running(4);
      told.push(inTurns(), processes.isInTurns(costly));
      say({ told, pid: slow.pid });
      await new Promise(() => setInterval(quiet, 1_000));
    `);
    const { told, pid } = await next<{ told: readonly boolean[]; pid: number }>(lines);
    left.push(pid);
    expect(told).toEqual([false, true, false, true, false]);
    await waitFor(() => stateOf(pid) === 'T');
    await waitFor(() => stateOf(pid) !== 'T', { everyMs: 1 });
    await waitFor(() => stateOf(pid) === 'T');
    child.kill('SIGKILL');
    await waitFor(() => !isThere(pid));
  });

  it('counts many that nobody knows as a flood only where many more of them wait', async () => {
    const { lines } = start(`
      const { Shares } = await import(${JSON.stringify(new URL('shares.ts', import.meta.url).href)});
      const { KnownFunctions } = await import(${JSON.stringify(new URL('known-functions.ts', import.meta.url).href)});
      const known = new KnownFunctions();
      known.proved('known', 100);
      const runsOf = (key, count, process) =>
        Array.from({ length: count }, () => ({ run: { key }, process, openCalls: 0 }));
      const slow = { slow: true };
      const isFlood = (running, waiting) => new Shares({
        ...{ log, known, startProgram: startProgramHere, slow: () => [] },
        ...{ runs: () => [...running, ...waiting], line: new Set(waiting) },
      }).isFlood();
      say([
        isFlood(runsOf('new', 8, slow), []),
        isFlood(runsOf('new', 5, slow), runsOf('new', 40)),
        isFlood(runsOf('known', 100, slow), runsOf('known', 40)),
        isFlood(runsOf('new', 6, slow), runsOf('new', 19)),
      ]);
      process.exit();
    `);
    expect(await next(lines)).toEqual([false, false, false, true]);
  });

  it('shares the processor as little as can be with many that may never end, not with those that do', async () => {
    const { lines } = start(`
      const { Shares } = await import(${JSON.stringify(new URL('shares.ts', import.meta.url).href)});
      const { KnownFunctions } = await import(${JSON.stringify(new URL('known-functions.ts', import.meta.url).href)});
      const known = new KnownFunctions();
      const told = [];
      const slow = { use: 'costly', slow: true, crowd: (isCrowd) => told.push(isCrowd) };
      const runs = Array.from({ length: 8 }, (_, i) => ({ run: { key: 'k' + i }, process: slow, openCalls: 0 }));
      const shares = new Shares({
        ...{ log, known, startProgram: startProgramHere, slow: () => [slow] },
        ...{ runs: () => runs, line: new Set() },
      });
      shares.weigh();
      for (let i = 0; i < 5; i++) known.proved('k' + i, 5_000);
      shares.weigh();
      known.costs('k0', 1);
      shares.weigh();
      say(told);
      process.exit();
    `);
    expect(await next(lines)).toEqual([true, false, true]);
  });
});
