/**
 * Code that has shown that it needs little runs on the thread of its process. Whatever it does there one day, it ends as it
 * does elsewhere, what it asked for happens once, and what runs beside it goes on.
 */
import { getEventListeners } from 'node:events';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { silentLog } from '../../../../test/support/log.ts';
import { startProgramHere } from '../../../kernel/child-programs.ts';
import { createPool, type Pool, type PoolEnd } from './pool.ts';
import { Programs, type WaitingRun } from './sandbox/programs.ts';
import type { Sandbox } from './sandbox/sandbox.ts';

let pool: Pool;
let alive: NodeJS.Timeout;
beforeAll(() => {
  pool = createPool(startProgramHere, silentLog, () => ({
    ...{ processes: 1, processMegabytes: 700 },
  }));
  alive = setInterval(() => undefined, 1_000);
});
afterAll(() => {
  clearInterval(alive);
  pool.close();
});

interface How {
  readonly ms?: number;
  readonly signal?: AbortSignal;
  readonly cpuMs?: number;
  readonly onCall?: (name: string) => Promise<string>;
  /** Only what reads was asked for: the run may begin again. */
  readonly onlyReads?: () => boolean;
}

/** The function `key`; `req.how` says what it does. */
function run(
  key: string,
  how: string,
  { ms = 20_000, cpuMs = 100, onCall = async () => 'null', onlyReads, signal }: How = {},
): Promise<PoolEnd> {
  const facts = { requestId: 'r', function: 'f', version: 1, trigger: 'request', attempt: 1 };
  const more = { deadline: Date.now() + ms, caller: { kind: 'anonymous' }, system: false };
  return pool.run({
    ...{ key, file: 'f.js', form: 'body' },
    limits: { cpuMs, memoryMb: 48, maxResultBytes: 100_000, maxLogBytes: 4_000 },
    deadlineAt: performance.now() + ms,
    input: JSON.stringify({ facts: { ...facts, ...more, logCharacters: 4_000 }, req: { how } }),
    source: async () => ({ code, packages: {} }),
    call: onCall,
    ...(onlyReads && { mayBeginAgain: onlyReads }),
    signal,
  });
}

const code = `const { how } = req;
if (how === 'loop') for (;;);
if (how === 'promises') for (;;) await null;
if (how === 'flood') { const f = () => Promise.resolve().then(() => { f(); f(); }); f(); await new Promise(() => {}); }
if (how === 'pattern') /^(a+)+$/.test('a'.repeat(60) + 'b');
if (how === 'memory') { const all = []; for (;;) all.push(new Array(1e5).fill(7)); }
if (how === 'loopAfterCall') { await ctx.db.find('X'); for (;;); }
if (how === 'callThenLoop') { const one = ctx.db.create('X', {}); for (;;); }
if (how === 'callThenCompute') {
  const one = ctx.db.create('X', {});
  for (const until = Date.now() + 60; Date.now() < until;);
  return one;
}
if (how === 'computeLater') {
  console.log('one');
  const one = await ctx.db.find('X');
  const two = await ctx.db.create('X', {});
  for (const until = Date.now() + 60; Date.now() < until;);
  return [one, two];
}
if (how === 'computeAfterRead') {
  console.log('one');
  const one = await ctx.db.find('X');
  for (const until = Date.now() + 60; Date.now() < until;);
  return one;
}
if (how === 'reads') return [await ctx.db.find('A'), ...(await Promise.all([ctx.db.find('B'), ctx.db.find('C')]))];
if (how === 'resLater') { ctx.db.find('X').then(() => res('said')); return; }
if (how === 'timerLater') { await ctx.db.find('X'); await new Promise((go) => setTimeout(go, 5)); return 'later'; }
if (how === 'throwLater') { await ctx.db.find('X'); throw new TypeError('wrong'); }
if (how === 'rejectionLater') { await ctx.db.find('X'); Promise.reject(new Error('nobody')); return 1; }
if (how === 'loopAfterEnd') {
  await ctx.db.find('X');
  (async () => { for (let i = 0; i < 99; i += 1) await null; for (;;); })();
  return 'ended';
}
if (how === 'never') await new Promise(() => {});
if (how === 'timer') { await new Promise((go) => setTimeout(go, 20)); return 'later'; }
if (how === 'res') { res('said', { status: 201 }); return; }
if (how === 'nothing') return;
if (how === 'log') { console.log('one'); await ctx.db.find('X'); console.warn('two'); return 3; }
if (how === 'calls') return Promise.all([ctx.db.find('A'), ctx.db.find('B')]);
if (how === 'throw')
  throw new TypeError('wrong');
if (how === 'reject') ctx.reject(418, 'No tea', 'TEA');
if (how === 'stack') { const f = () => f() + 1; return f(); }
if (how === 'escape') return this?.constructor?.constructor('return typeof process')() ?? 'undefined';
if (how === 'unwritable') return { a: 1n };
if (how === 'json') { JSON.stringify = () => '{"ok":true}'; Promise.prototype.then = () => 0; return 5; }
if (how === 'large') {
  const make = (i) => ctx.db.create('X', { i, text: 'x'.repeat(40_000) });
  return (await Promise.all(Array.from({ length: 20 }, (_, i) => make(i)))).length;
}
return how;`;

let number = 0;
let key: string;
/** A function that has been quick for a while. */
beforeEach(async () => {
  number += 1;
  key = `quick${number}`;
  for (let i = 0; i < 15; i += 1) expect(await run(key, 'quick')).toMatchObject({ outcome: 'ok' });
});

it('leaves nothing at a signal that lives longer than runs', async () => {
  const { signal } = new AbortController();
  for (const how of ['quick', 'throw']) await run(key, how, { signal });
  expect(getEventListeners(signal, 'abort')).toEqual([]);
});

describe('code that was quick until now', () => {
  it.each([
    ['loop', 'cpu'],
    ['promises', 'cpu'],
    ['flood', 'cpu'],
    ['pattern', 'cpu'],
    ['loopAfterCall', 'cpu'],
    ['memory', 'memory'],
  ])('ends with its bounds: %s', async (how, outcome) => {
    const beside = run(`${key}-beside`, 'timer');
    const cpuMs = outcome === 'memory' ? 5_000 : 100;
    expect(await run(key, how, { cpuMs })).toMatchObject({ outcome });
    expect(await beside).toMatchObject({ outcome: 'ok', text: '"later"' });
    expect(await run(key, 'quick')).toMatchObject({ outcome: 'ok', text: '"quick"' });
  });

  it('ends with its time', async () => {
    expect(await run(key, 'never', { ms: 300 })).toMatchObject({ outcome: 'timeout' });
  });

  it.each([
    ['timer', { outcome: 'ok', text: '"later"' }],
    ['res', { outcome: 'ok', text: '"said"', reply: { status: 201 } }],
    ['nothing', { outcome: 'ok', text: '' }],
    ['log', { outcome: 'ok', text: '3', logs: [{ text: 'one' }, { level: 'warn', text: 'two' }] }],
    ['calls', { outcome: 'ok', text: '[null,null]' }],
    ['throw', { outcome: 'error', error: { name: 'TypeError', message: 'wrong', line: 44 } }],
    ['reject', { outcome: 'rejected', error: { status: 418, code: 'TEA' } }],
    ['stack', { outcome: 'error', error: { name: 'RangeError' } }],
    ['escape', { outcome: 'ok', text: '"undefined"' }],
    ['unwritable', { outcome: 'error', error: { code: 'RESULT_INVALID' } }],
    ['json', { outcome: 'ok', text: '5' }],
  ])('answers as elsewhere: %s', async (how, end) => {
    expect(await run(key, how)).toMatchObject(end);
    expect(await run(key, how)).toMatchObject(end);
  });

  it('asks the platform once for what it asked before it took too long', async () => {
    const asked: string[] = [];
    const onCall = async (name: string): Promise<string> => {
      asked.push(name);
      return '"made"';
    };
    expect(await run(key, 'callThenCompute', { onCall, cpuMs: 1_000 })).toMatchObject({
      text: '"made"',
    });
    expect(asked).toEqual(['db.create']);
    expect(await run(key, 'callThenLoop', { onCall })).toMatchObject({ outcome: 'cpu' });
    expect(asked.length).toBeLessThanOrEqual(2);
  });

  const asking = () => {
    const asked: string[] = [];
    const onCall = async (name: string): Promise<string> => {
      asked.push(name);
      return `"${name}"`;
    };
    return { asked, onCall, onlyReads: () => !asked.includes('db.create') };
  };

  it('asks for nothing twice that has an effect, wherever it takes too long', async () => {
    const [read, mixed] = [asking(), asking()];
    const logs = [{ text: 'one' }];
    const one = await run(key, 'computeAfterRead', { ...read, cpuMs: 1_000 });
    expect(one).toMatchObject({ outcome: 'ok', text: '"db.find"', logs });
    expect(one.logs).toHaveLength(1);
    for (let i = 0; i < 110; i += 1) await run(key, 'quick');
    const other = await run(key, 'computeLater', { ...mixed, cpuMs: 1_000 });
    expect(other).toMatchObject({ outcome: 'ok', text: '["db.find","db.create"]', logs });
    expect(mixed.asked).toEqual(['db.find', 'db.create']);
  });

  it.each([
    ['loopAfterCall', { outcome: 'cpu' }],
    ['reads', { outcome: 'ok', text: '["db.find","db.find","db.find"]' }],
    ['resLater', { outcome: 'ok', text: '"said"' }],
    ['timerLater', { outcome: 'ok', text: '"later"' }],
    ['throwLater', { outcome: 'error', error: { name: 'TypeError', message: 'wrong' } }],
    ['rejectionLater', { outcome: 'ok', text: '1' }],
    ['log', { outcome: 'ok', text: '3', logs: [{ text: 'one' }, { text: 'two' }] }],
  ])('goes on after what it has read as elsewhere: %s', async (how, end) => {
    const beside = run(`${key}-beside`, 'timer');
    const { onCall } = asking();
    expect(await run(key, how, { onCall })).toMatchObject(end);
    for (let i = 0; i < 15; i += 1) await run(key, 'quick');
    for (let i = 0; i < 3; i += 1) expect(await run(key, how, asking())).toMatchObject(end);
    expect(await beside).toMatchObject({ outcome: 'ok', text: '"later"' });
  });

  it('keeps nobody waiting when it goes on after its end', async () => {
    for (const onlyReads of [() => false, () => true]) {
      expect(await run(key, 'loopAfterEnd', { onlyReads })).toMatchObject({ text: '"ended"' });
      const beside = run(`${key}-beside`, 'timer', { ms: 5_000 });
      expect(await run(key, 'quick', { ms: 5_000 })).toMatchObject({ text: '"quick"' });
      expect(await beside).toMatchObject({ text: '"later"' });
    }
  });

  it('sends no more arguments at once than one call may have, and all of them in the end', async () => {
    const open = { calls: 0, most: 0, all: 0 };
    const onCall = async (): Promise<string> => {
      open.all += 1;
      open.calls += 1;
      open.most = Math.max(open.most, open.calls);
      await new Promise((resolve) => setTimeout(resolve, 5));
      open.calls -= 1;
      return 'null';
    };
    expect(await run(key, 'large', { onCall })).toMatchObject({ outcome: 'ok', text: '20' });
    expect(open).toEqual({ calls: 0, most: 2, all: 20 });
  });

  it('answers many at once, each its own', async () => {
    const names = Array.from({ length: 300 }, (_, i) => `n${i}`);
    const ends = await Promise.all(names.map((name) => run(key, name)));
    expect(ends.map(({ text }) => JSON.parse(text))).toEqual(names);
  });
});

it('runs on the thread of the process after ten quick runs, and for long not again after it took too long', async () => {
  const programs = new Programs();
  const source = { code: 'return 1;', packages: {}, form: 'body', file: 'f.js' } as const;
  programs.load('f', source);
  const began: string[] = [];
  const one = (usedMs: number, isDone = true): Promise<void> =>
    new Promise((resolve) => {
      const end = (sandbox: Sandbox): void => {
        // Later, as ends come from elsewhere.
        setImmediate(() => {
          programs.release('f', sandbox, true, usedMs);
          resolve();
        });
      };
      const waiting: WaitingRun = {
        ...{ id: began.length, memoryMb: 16 },
        begin(sandbox, loaded) {
          began.push('elsewhere');
          void Promise.resolve(loaded).then(() => end(sandbox));
        },
        beginNow(sandbox) {
          began.push('here');
          if (isDone) end(sandbox);
          return isDone;
        },
      };
      programs.start('f', waiting);
    });
  for (let i = 0; i < 10; i += 1) await one(0.1);
  expect(new Set(began)).toEqual(new Set(['elsewhere']));
  await one(0.1);
  await one(50);
  await one(0.1);
  expect(began.splice(10)).toEqual(['here', 'here', 'elsewhere']);
  for (let i = 0; i < 9; i += 1) await one(0.1);
  began.splice(0);
  /** Begins here, takes too long, and counts the runs until one begins here again. */
  const away = async (): Promise<number> => {
    await one(0.1, false);
    expect(began.splice(0)).toEqual(['here', 'elsewhere']);
    while (!began.includes('here')) await one(0.1);
    return began.splice(0).length;
  };
  expect([await away(), await away(), await away()]).toEqual([100, 200, 400]);
  programs.drop('f');
});

it('keeps texts of functions up to a bound, those that were loaded last', () => {
  const programs = new Programs();
  const source = (characters: number) =>
    ({ code: '', packages: { p: 'x'.repeat(characters) }, form: 'body', file: 'f.js' }) as const;
  for (const key of ['a', 'b', 'c']) programs.load(key, source(40_000_000));
  const known = ['a', 'b', 'c'].filter((key) => programs.sourceOf(key));
  expect(known).toEqual(['b', 'c']);
  for (const key of known) programs.drop(key);
  programs.load('d', source(100_000_001));
  expect(programs.sourceOf('d')).toBeDefined();
});

it('runs what waits for a function that is dropped meanwhile', async () => {
  const programs = new Programs();
  programs.load('f', { code: 'return 1;', packages: {}, form: 'body', file: 'f.js' });
  const began: Sandbox[] = [];
  const waiting = (id: number): WaitingRun => ({
    ...{ id, memoryMb: 16, beginNow: () => false },
    begin(sandbox, loaded) {
      loaded?.catch(() => undefined);
      began.push(sandbox);
    },
  });
  programs.start('f', waiting(1));
  programs.start('f', waiting(2));
  programs.drop('f');
  expect([began.length, programs.sourceOf('f') !== undefined]).toEqual([1, true]);
  programs.release('f', began[0] as Sandbox, true, 50);
  expect(began).toHaveLength(2);
  programs.release('f', began[1] as Sandbox, true, 50);
  expect(programs.sourceOf('f')).toBeUndefined();
});
