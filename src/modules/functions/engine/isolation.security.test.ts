/**
 * Hostile code in the sandbox: each piece ends within its bounds, touches nothing outside, and what runs beside it goes on.
 * Guards against the classes of CVE-2019-10761, CVE-2021-23449, CVE-2021-23555, CVE-2022-36067, CVE-2023-29017,
 * CVE-2023-29199, CVE-2023-30547, CVE-2023-32314, CVE-2023-37466, CVE-2023-37903 (vm2: the host through recursion,
 * imports, changed prototypes, stacks, errors, proxies, promises, inspection), CVE-2021-21413 and CVE-2022-39266 (isolated-vm: references of the host given to
 * the isolate, cached data of others), CWE-400, CWE-1321.
 */
import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { silentLog } from '../../../../test/support/log.ts';
import { waitFor } from '../../../../test/support/wait-for.ts';
import { startProgramHere } from '../../../kernel/child-programs.ts';
import { createPool, type Pool, type PoolEnd } from './pool.ts';
import { isOfProtocol } from './pool-runs.ts';
import type { FromSandbox } from './protocol.ts';
import { SandboxProcess } from './sandbox-process.ts';

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

let number = 0;

interface How {
  readonly ms?: number;
  readonly key?: string;
  readonly cpuMs?: number;
  readonly onCall?: (name: string) => Promise<string>;
  readonly signal?: AbortSignal;
  readonly by?: Pool;
}

/** Runs the body of a function with small bounds. */
function run(
  code: string,
  { ms = 15_000, key, cpuMs = 400, onCall, signal, by = pool }: How = {},
): Promise<PoolEnd> {
  number += 1;
  const facts = { requestId: 'r', function: 'f', version: 1, trigger: 'request', attempt: 1 };
  const more = { deadline: Date.now() + ms, caller: { kind: 'anonymous' }, system: false };
  return by.run({
    key: key ?? `f${number}`,
    file: 'f.js',
    form: 'body',
    limits: { cpuMs, memoryMb: 48, maxResultBytes: 100_000, maxLogBytes: 4_000 },
    deadlineAt: performance.now() + ms,
    input: JSON.stringify({
      facts: { ...facts, ...more, logCharacters: 4_000 },
      req: { context: {} },
    }),
    source: async () => ({ code, packages: {} }),
    call: onCall ?? (async () => 'null'),
    signal,
  });
}

const value = async (code: string): Promise<unknown> => {
  const end = await run(code);
  expect(end).toMatchObject({ outcome: 'ok' });
  return end.text === '' ? undefined : JSON.parse(end.text);
};

describe('what takes more than it may', () => {
  it.each([
    ['an endless loop', 'for (;;);', 'cpu'],
    ['an endless loop after a call of the platform', 'await ctx.db.find("X"); for (;;);', 'cpu'],
    ['an endless chain of promises', 'for (;;) await null;', 'cpu'],
    [
      'a flood of promises',
      'const f = () => Promise.resolve().then(() => { f(); f(); }); f(); await new Promise(() => {})',
      'cpu',
    ],
    ['a slow pattern', '/^(a+)+$/.test("a".repeat(60) + "b")', 'cpu'],
    ['a loop while the code is loaded', '}); for (;;); (function () {', 'cpu'],
    ['a getter that loops when the result is written', 'return { get a() { for (;;); } }', 'cpu'],
    ['a getter of an error that loops', 'throw { get message() { for (;;); } }', 'cpu'],
    [
      'digests without end, which are the work of the process',
      'const bytes = new Uint8Array(2e5); for (;;) await crypto.subtle.digest("SHA-512", bytes)',
      'cpu',
    ],
    ['a promise that never resolves', 'await new Promise(() => {})', 'timeout'],
    [
      'a timer that goes on for ever',
      'setInterval(() => {}, 5); await new Promise(() => {})',
      'timeout',
    ],
  ])('%s', async (_what, code, outcome) => {
    // So little that it ends before it counts as costly: those wait for a processor that nobody else wants.
    const bounds = outcome === 'timeout' ? { ms: 300 } : { ms: 15_000, cpuMs: 100 };
    expect(await run(code, bounds)).toMatchObject({ outcome });
    expect(await value('return "fine"')).toBe('fine');
  });

  it('an endless loop that may use much: it is slow, and ends by its time on a full machine', async () => {
    const end = await run('for (;;);', { ms: 3_000 });
    expect(['cpu', 'timeout']).toContain(end.outcome);
    expect(await value('return "fine"')).toBe('fine');
  });

  it.each([
    ['lists', 'const a = []; for (;;) a.push(new Array(100000).fill(1))'],
    ['texts', 'const a = []; for (let i = 0; ; i++) a.push("x".repeat(100000) + i)'],
    ['bytes', 'const a = []; for (;;) a.push(new Uint8Array(5000000).fill(1))'],
    ['a map', 'const m = new Map(); for (let i = 0; ; i++) m.set(i, { i })'],
    // It is written until its time is over.
    ['a result', 'let o = []; for (let i = 0; i < 200; i++) o = [o, o]; return o', 1_000],
  ])('memory in %s', async (_what, code, cpuMs = 3_000) => {
    const end = await run(code, { cpuMs });
    expect(['memory', 'error', 'cpu', 'timeout', 'crashed']).toContain(end.outcome);
    expect(await value('return "fine"')).toBe('fine');
  });

  it.each([
    ['recursion', 'const f = () => f(); f()', 'Maximum call stack'],
    ['a result that is too large', 'return "x".repeat(200000)', 'larger than'],
    [
      'calls at once',
      'return Promise.all(Array.from({ length: 200 }, () => ctx.db.find("X")))',
      'at once',
    ],
    [
      'arguments of a call that are too large',
      'await ctx.db.find("x".repeat(200000))',
      'arguments of a call are larger',
    ],
    [
      'headers that are too large',
      'res(1, { headers: { a: "x".repeat(40000) } })',
      'at most 100 headers, of 16384 characters together',
    ],
    [
      'cookies that are too large',
      'res(1, { cookies: [{ name: "a", value: "x".repeat(40000) }] })',
      'headers and cookies are larger',
    ],
    [
      'an address that is too long',
      'new URL("https://a/" + "x".repeat(9e6))',
      'characters at once',
    ],
    ['timers at once', 'for (let i = 0; i < 200; i++) setTimeout(() => {}, 1000)', 'timers'],
  ])('%s', async (_what, code, message) => {
    const end = await run(code);
    expect(end).toMatchObject({ outcome: 'error' });
    expect(end.error?.message).toContain(message);
  });

  it('logs without end, which are cut off', async () => {
    const end = await run(
      'for (let i = 0; i < 100000; i++) console.log("x".repeat(100)); return 1',
    );
    expect(end.outcome).toBe('ok');
    expect(end.logs.reduce((sum, { text }) => sum + text.length, 0)).toBeLessThanOrEqual(4_200);
  });
});

it('says how much memory a run has taken, also the first of a function', async () => {
  const code = 'const kept = "x".repeat(2e6) + Math.random(); return [...kept].length';
  const [first, failed] = [
    await run(code),
    await run(`${code.slice(0, 46)} throw new Error("no")`),
  ];
  expect(first).toMatchObject({ outcome: 'ok' });
  expect(first.memoryBytes).toBeGreaterThan(2e6);
  expect(failed).toMatchObject({ outcome: 'error' });
  expect(failed.memoryBytes).toBeGreaterThan(0);
});

describe('many that cost much', () => {
  const code = `const how = await ctx.db.find('how');
    if (how === 'loop') for (;;);
    // Keeps its place without a processor: on a full machine many loops would take minutes to begin.
    if (how === 'wait') await new Promise(() => {});
    let sum = 0;
    if (how === 'much') for (let i = 0; i < 3e8; i++) sum += i;
    return sum;`;
  const as = (how: string) => async () => JSON.stringify(how);
  // On a full machine they get a hundredth of it.
  const long = { ms: 150_000, cpuMs: 60_000 };

  it('two of a function run at a time of which none ever ends, and those that end do not wait for it', async () => {
    const first = await run(code, { ...long, key: 'hostile', cpuMs: 200, onCall: as('loop') });
    expect(first).toMatchObject({ outcome: 'cpu' });
    expect(await run(code, { ...long, key: 'useful', onCall: as('much') })).toMatchObject({
      outcome: 'ok',
    });
    const started = (key: string, how: string) => {
      const end = new AbortController();
      return { end, ended: run(code, { ...long, key, onCall: as(how), signal: end.signal }) };
    };
    const hostile = Array.from({ length: 12 }, () => started('hostile', 'wait'));
    const useful = started('useful', 'nothing');
    await waitFor(() => pool.figures().waiting === 10);
    expect(await value('return "fine"')).toBe('fine');
    expect(await useful.ended).toMatchObject({ outcome: 'ok' });
    for (const { end } of hostile) end.abort();
    // On a full machine the time of some is over by now.
    for (const { ended } of hostile)
      expect(['cancelled', 'timeout', 'unavailable']).toContain((await ended).outcome);
    expect(pool.figures()).toMatchObject({ waiting: 0, running: 0 });
  }, 180_000);

  it('those that wait for a call leave their place to others: none waits for itself', async () => {
    await run(code, { ...long, key: 'inner', onCall: as('much') });
    const onCall = async (): Promise<string> => {
      const inner = await run(code, { ...long, key: 'inner', onCall: as('nothing') });
      return JSON.stringify(inner.outcome);
    };
    const outer = Array.from({ length: 10 }, () => run(code, { ...long, key: 'inner', onCall }));
    for (const end of await Promise.all(outer)) expect(end).toMatchObject({ outcome: 'ok' });
  }, 180_000);
});

describe('the way out', () => {
  it.each([
    'process',
    'require("fs")',
    'require("node:child_process")',
    'import("node:fs")',
    'globalThis.process.env',
    'module.constructor._load("fs")',
    'process.binding("fs")',
    'global.process',
    'WebAssembly.compile',
    'new SharedArrayBuffer(8)',
    'Atomics.wait',
    'Deno',
    'bridge.ask',
    'isolated_vm',
  ])('there is no %s', async (code) => {
    const end = await run(
      `return typeof (await (async () => { try { return await ${code} } catch { return undefined } })())`,
    );
    expect(end).toMatchObject({ outcome: 'ok', text: '"undefined"' });
  });

  const escapes: readonly (readonly [string, string])[] = [
    ['the constructor of this', 'return this.constructor.constructor("return typeof process")()'],
    [
      'the constructor of a function of the platform',
      'return ctx.db.find.constructor("return typeof process")()',
    ],
    [
      'the constructor of an argument',
      'return req.constructor.constructor("return typeof process")()',
    ],
    ['the constructor of res', 'return res.constructor("return typeof process")()'],
    [
      'the caller of a function',
      'function f() { return f.caller } const c = f(); return c ? c.constructor("return typeof process")() : "undefined"',
    ],
    [
      'an error of the platform',
      'try { await ctx.db.find("X") } catch (e) { return e.constructor.constructor("return typeof process")() } return "undefined"',
    ],
    [
      'an error of the host',
      'try { new URL("nope") } catch (e) { return e.constructor.constructor("return typeof process")() }',
    ],
    [
      'a deep stack in a call of the host',
      'const f = () => { try { f() } catch (e) { try { console.log("x") } catch (x) { throw x.constructor.constructor("return typeof process")() } } }; try { f() } catch (e) { return String(e) } return "undefined"',
    ],
    [
      'a prepared stack trace',
      'Error.prepareStackTrace = (_, s) => s; const [f] = new Error().stack; const t = f?.getThis?.(); return t ? t.constructor.constructor("return typeof process")() : "undefined"',
    ],
    [
      'a species of promises',
      'class P extends Promise { static get [Symbol.species]() { return function (x) { x((v) => v, (e) => e) } } } return ctx.db.find.call(P, "X").constructor.constructor("return typeof process")()',
    ],
    [
      'a proxy as argument',
      'const seen = []; await ctx.db.find(new Proxy({}, { get: (t, k) => (seen.push(String(k)), undefined) })); return typeof seen.constructor.constructor("return typeof process")() === "string" ? "undefined" : "x"',
    ],
    [
      'a proxy that is thrown and throws when it is looked at',
      'throw new Proxy(new Error("x"), { getPrototypeOf() { throw { constructor: Function } }, get() { throw new Error("y") } })',
    ],
    [
      'an inspection of its own',
      'let got = "undefined"; const look = (d, o, inspect) => { got = inspect?.constructor("return typeof process")() ?? got }; const o = { [Symbol.for("nodejs.util.inspect.custom")]: look, inspect: look }; console.log(o); console.error(new Error("x", { cause: o })); return got',
    ],
    [
      'an import while it runs',
      'try { const m = await import("data:text/javascript,export default 1"); return m.default.constructor.constructor("return typeof process")() } catch (e) { return e.constructor.constructor("return typeof process")() }',
    ],
    [
      'the frames of a failed call',
      'Error.prepareStackTrace = (e, all) => all.map((f) => { try { return (f.getThis() ?? f.getFunction()).constructor.constructor("return typeof process")() } catch { return "" } }).join(); const e = await ctx.db.find("X").catch((x) => x); return String(e.stack).includes("object") ? "object" : "undefined"',
    ],
    [
      'a changed way of promises',
      'let got = "undefined"; const { then } = Promise.prototype; Promise.prototype.then = function (a, b) { for (const o of [this, a, b]) try { got = o.constructor.constructor("return typeof process")() } catch {} return then.call(this, a, b) }; await ctx.db.find("X").catch(() => 0); return got',
    ],
    [
      'a changed way of calls',
      'let got = "undefined"; const look = (all) => { for (const o of all) try { got = o.constructor.constructor("return typeof process")() } catch {} }; const { apply } = Reflect; Function.prototype.call = function (o, ...all) { look([o, ...all]); return apply(this, o, all) }; Function.prototype.apply = function (o, all) { look([o, ...(all ?? [])]); return apply(this, o, all ?? []) }; console.log("x"); new URL("https://a.example/"); await ctx.db.find("X").catch(() => 0); return got',
    ],
    [
      'what the platform keeps in maps',
      'const seen = []; const { set } = Map.prototype; Map.prototype.set = function (k, v) { seen.push(k, v, ...Object.values(v ?? {})); return set.call(this, k, v) }; WeakMap.prototype.set = function (k, v) { seen.push(k, v); return this }; await ctx.db.find("X").catch(() => 0); setTimeout(() => 0, 1); return seen.map((one) => { try { return one.constructor.constructor("return typeof process")() } catch { return "undefined" } }).find((one) => one !== "undefined") ?? "undefined"',
    ],
    [
      'a reference of the library in a global',
      'const found = Reflect.ownKeys(globalThis).filter((key) => { const one = globalThis[key]; return one && ["applySync", "derefInto", "copySync", "release"].some((name) => name in Object(one)) }); return found.length > 0 ? found.join() : "undefined"',
    ],
    [
      'the constructor of generators and async functions',
      'const made = [(async () => 0).constructor("return typeof process")(), (function* () {}).constructor("return typeof process")().next().value, (async function* () {}).constructor("return typeof process")().next().then((n) => n.value)]; return (await Promise.all(made)).find((one) => one !== "undefined") ?? "undefined"',
    ],
    [
      'a result that fails while it is written',
      'return { toJSON() { throw new Proxy(Error, { get(t, k) { throw t } }) } }',
    ],
    [
      'a changed way of arrays',
      'Array.prototype.map = function () { return this.constructor.constructor("return typeof process")() }; return [1].map()',
    ],
  ];
  it.each(escapes)('is not %s', async (_what, code) => {
    const end = await run(code, { onCall: () => Promise.reject(new Error('refused')) });
    if (end.outcome === 'ok') expect(end.text).toBe('"undefined"');
    // A crash of V8 itself ends the process, which is replaced.
    else expect(['error', 'crashed']).toContain(end.outcome);
    expect(await value('return "fine"')).toBe('fine');
  });

  it.each([
    '{ ok: false, error: { name: {}, message: 1 } }',
    '{ ok: false, error: { name: "x", message: {}, stack: [] } }',
    '{ ok: false, rejected: 1, error: { name: "x", message: "m", code: 5, status: {} } }',
    '{ ok: false, error: null }',
    '{ ok: "yes", reply: 5 }',
    'null',
    '5',
  ])('is not in how a run says that it has ended: %s', async (head) => {
    const said = `delete Object.prototype.toJSON; return ${head}`;
    const end = await run(`Object.prototype.toJSON = function () { ${said} }; return 1`);
    expect(['ok', 'error', 'rejected']).toContain(end.outcome);
    expect(isOfProtocol({ t: 'end', id: 1, ...end } as FromSandbox)).toBe(true);
  });

  it('is not in what is changed in one function for another', async () => {
    await run(
      'Object.prototype.polluted = 1; JSON.parse = () => 1; Promise.prototype.then = null; return 1',
    );
    expect(await value('return [({}).polluted ?? null, JSON.parse("2")]')).toEqual([null, 2]);
    expect(({} as Record<string, unknown>).polluted).toBeUndefined();
  });

  it('is not in keys of what goes out and comes in', async () => {
    const end = await run(
      'return JSON.parse(\'{"__proto__":{"polluted":1},"constructor":{"prototype":{"polluted":1}}}\')',
    );
    expect(end.outcome).toBe('ok');
    JSON.parse(end.text);
    expect(({} as Record<string, unknown>).polluted).toBeUndefined();
  });

  it('is not in errors of the platform: nothing of its inside is told', async () => {
    const onCall = () => Promise.reject(new Error('password=hunter2 at /srv/app.ts'));
    const end = await run(
      'try { await ctx.db.find("X") } catch (e) { return [e.message, e.stack, Object.keys(e)] }',
      { onCall },
    );
    expect(end.text).not.toContain('hunter2');
    expect(end.text).not.toContain('/srv');
  });
});

describe('the process', () => {
  it('dies without taking a run with it that has had no effect', async () => {
    const slow = run('await new Promise((r) => setTimeout(r, 400)); return "done"');
    await new Promise((resolve) => setTimeout(resolve, 150));
    await waitFor(() => childPids().length > 0, { what: 'a process' });
    const pids = childPids();
    for (const pid of pids) process.kill(pid, 'SIGKILL');
    expect(await slow).toMatchObject({ outcome: 'ok', text: '"done"' });
  });

  it('dies and ends a run that may have had one', async () => {
    const called = Promise.withResolvers<void>();
    const ended = run('await ctx.db.create("X", {}); await new Promise(() => {})', {
      onCall: async () => {
        called.resolve();
        return 'null';
      },
    });
    await called.promise;
    for (const pid of childPids()) process.kill(pid, 'SIGKILL');
    expect(await ended).toMatchObject({ outcome: 'crashed' });
    expect(await value('return "fine"')).toBe('fine');
  });

  it('has neither rights nor environment', async () => {
    await value('return 1');
    const [pid] = childPids();
    const status = readFileSync(`/proc/${pid}/status`, 'utf8');
    const [, uid] = /^Uid:\s+(\d+)/m.exec(status) ?? [];
    if (process.getuid?.() === 0) expect(uid).toBe('65534');
    expect(/^CapEff:\s+(\w+)/m.exec(status)?.[1]).toMatch(/^0+$/);
    const line = readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0');
    expect(line).toContain('--permission');
    expect(line).not.toContain('--allow-child-process');
    expect(line.filter((one) => one.startsWith('--allow-fs-write'))).toEqual([]);
  });

  it('ends a while after the last run, and where it only examined a text', async () => {
    const brief = createPool(startProgramHere, silentLog, () => ({
      ...{ processes: 1, processMegabytes: 700, idleMs: 50, lastIdleMs: 50 },
    }));
    expect(await brief.check('return 1', 'f.js')).toMatchObject({ form: 'body' });
    await waitFor(() => brief.figures().processes === 0);
    brief.close();
  });

  it('leaves one for much longer, so that functions that are seldom called need not wait for it', async () => {
    let lastIdleMs = 60_000;
    const brief = createPool(startProgramHere, silentLog, () => ({
      ...{ processes: 3, processMegabytes: 700, idleMs: 300, lastIdleMs },
    }));
    const pause = 'await new Promise((resolve) => setTimeout(resolve, 100))';
    await Promise.all([1, 2, 3].map(() => run(pause, { by: brief })));
    expect(brief.figures().processes).toBe(3);
    await waitFor(() => brief.figures().processes === 1);
    lastIdleMs = 50;
    await brief.check('return 4', 'f.js');
    await waitFor(() => brief.figures().processes === 0);
    brief.close();
  });

  it.each([
    { outcome: 'fine' },
    { error: { name: {}, message: 'm' } },
    { error: { name: 'x', message: 'm', code: 5 } },
    { error: { name: 'x', message: 'm', status: '400' } },
    { error: { name: 'x', message: 'm', cause: { name: 'x' } } },
    { reply: [] },
    { logs: [{ level: 'log', text: {}, at: 1 }] },
    { logs: {} },
    { cpuMs: Number.NaN },
    { memoryBytes: 1e300 },
  ])('is not believed when it says what the protocol does not have: %j', (part) => {
    const end = { t: 'end', id: 1, outcome: 'ok', logs: [], cpuMs: 1, memoryBytes: 0 };
    expect(isOfProtocol(end as unknown as FromSandbox)).toBe(true);
    expect(isOfProtocol({ ...end, ...part } as unknown as FromSandbox)).toBe(false);
  });

  it('is not believed when it speaks for runs that it does not have', async () => {
    const told: string[] = [];
    const other = new SandboxProcess({
      ...{ megabytes: 300, startProgram: startProgramHere },
      log: silentLog,
      onMessage: (_from, { t }) => told.push(t),
      onExit: () => undefined,
    });
    const before = pool.figures().running;
    other.send({ t: 'answer', id: 1, call: 1, ok: true, again: true }, '1');
    other.send({ t: 'cancel', id: 1 });
    other.kill();
    expect(pool.figures().running).toBe(before);
    expect(told).not.toContain('end');
  });
});

const childPids = (): readonly number[] => pool.figures().pids;
