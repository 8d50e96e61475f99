/** What an author hears of what went wrong: the place in the source as it was written, also in logs, and all of it. */
import { afterAll, beforeAll, expect, it } from 'vitest';
import { silentLog } from '../../../../test/support/log.ts';
import { startProgramHere } from '../../../kernel/child-programs.ts';
import { errors } from '../../../kernel/errors.ts';
import { createPool, type Pool, type PoolEnd } from './pool.ts';

let pool: Pool;
let alive: NodeJS.Timeout;
beforeAll(() => {
  pool = createPool(startProgramHere, silentLog, () => ({ processes: 1, processMegabytes: 700 }));
  alive = setInterval(() => undefined, 1_000);
});
afterAll(() => {
  clearInterval(alive);
  pool.close();
});

let number = 0;

const noSchema = Object.assign(new Error('Schema does not exist'), {
  ...{ name: 'NOT_FOUND', code: 'SCHEMA_NOT_FOUND', status: 404 },
});

/** Every call of the platform is refused so. */
async function run(given: string, refusal: Error = noSchema): Promise<PoolEnd> {
  number += 1;
  const file = `f${number}.ts`;
  const { text, form, error } = await pool.check(given, file);
  expect(error).toBeUndefined();
  const told = { requestId: 'r', function: 'f', version: 1, trigger: 'request', attempt: 1 };
  const more = { deadline: Date.now() + 15_000, caller: { kind: 'anonymous' }, system: false };
  return pool.run({
    ...{ key: `f${number}`, file, form },
    limits: { cpuMs: 2_000, memoryMb: 48, maxResultBytes: 100_000, maxLogBytes: 8_000 },
    deadlineAt: performance.now() + 15_000,
    input: JSON.stringify({
      facts: { ...told, ...more, logCharacters: 8_000 },
      req: { context: {} },
    }),
    source: async () => ({ code: text, packages: {} }),
    call: () => Promise.reject(refusal),
  });
}

const linesOf = ({ logs }: PoolEnd): readonly string[] => logs.map(({ text }) => text);

it('names the place of a call that the platform refuses', async () => {
  const { error } = await run(`const read = async () => {
  return await ctx.db.find('Nope');
};
return read();`);
  expect(error).toMatchObject({ message: 'Schema does not exist', line: 2, column: 23 });
  expect(error?.stack).toMatch(/^\w+: Schema does not exist\n {4}at read \(f\d+\.ts:2:23\)/);
});

it('hands the refusal of a call to the code as it was', async () => {
  const { text } = await run(`try { await ctx.db.find('Nope'); } catch (error) {
  const { name, message, code, status } = error;
  return { name, message, code, status, keys: Object.keys(error), first: error.stack.split('\\n')[0] };
}`);
  expect(JSON.parse(text)).toEqual({
    ...{
      name: 'NOT_FOUND',
      message: 'Schema does not exist',
      code: 'SCHEMA_NOT_FOUND',
      status: 404,
    },
    keys: expect.not.arrayContaining(['message', 'stack']),
    first: 'NOT_FOUND: Schema does not exist',
  });
});

it('says what may be tried again, and nothing of what the platform did not mean for clients', async () => {
  const code = `try { await ctx.db.find('Any'); } catch ({ message, code, status, retryAfter }) {
  return { message, code, status, retryAfter };
}`;
  const busy = errors.UNAVAILABLE({ message: 'The database is busy: try again', retryAfter: 1 });
  expect(JSON.parse((await run(code, busy)).text)).toEqual({
    ...{ message: busy.message, code: 'UNAVAILABLE', status: 503, retryAfter: 1 },
  });
  const inner = Object.assign(new Error('at 10.0.0.1:5432'), { code: 'ECONNREFUSED' });
  expect(JSON.parse((await run(code, inner)).text)).toEqual({
    message: 'The platform could not do this',
  });
});

it.each([
  [
    'a timer',
    'setTimeout(() => { null.x }, 5);\nawait new Promise((go) => setTimeout(go, 5_000));',
  ],
  ['a timer with nothing after it', 'setTimeout(() => { null.x }, 5);'],
  [
    'an async timer',
    'setTimeout(async () => { await null; null.x }, 5);\nawait new Promise(() => undefined);',
  ],
  ['an interval', 'setInterval(() => { null.x }, 5);\nawait new Promise(() => undefined);'],
])('fails a run in which %s throws', async (_name, code) => {
  const { outcome, error } = await run(code);
  expect({ outcome, error }).toMatchObject({
    outcome: 'error',
    error: { message: expect.stringContaining("reading 'x'"), line: 1 },
  });
});

it('refuses for a timer that refuses', async () => {
  const end = await run(
    "setTimeout(() => ctx.reject(403, 'No', 'NOT_NOW'), 5);\nawait new Promise(() => undefined);",
  );
  expect(end).toMatchObject({ outcome: 'rejected', error: { status: 403, code: 'NOT_NOW' } });
});

it('logs a promise that was rejected while nobody awaited it, and goes on', async () => {
  const end = await run(`await ctx.db.find('X').catch(() => undefined);
const late = (async () => { await null; throw new Error('left alone'); })();
await new Promise((go) => setTimeout(go, 20));
return late.catch(() => 'caught');`);
  expect(end).toMatchObject({ outcome: 'ok', text: '"caught"' });
  expect(end.logs).toMatchObject([
    {
      level: 'error',
      text: expect.stringMatching(/rejected: Error: left alone\n {4}at f\d+\.ts:2:\d+/),
    },
  ]);
});

it('shows errors in the log with places of the source alone', async () => {
  const end = await run(`enum Kind { A, B }
namespace Names { export const first = Kind.A; }
export default (ctx: any) => {
  try {
    null!.x;
  } catch (error) {
    console.error('failed', error);
    ctx.log.info({ error, deep: [error] });
    console.error(new Error('outer', { cause: new Error('inner') }));
    console.error(new AggregateError([new Error('one'), 'two'], 'several'));
  }
};`);
  const [plain = '', nested, outer = '', several] = linesOf(end);
  expect(plain).toMatch(/^failed TypeError: .*\n {4}at default \(f\d+\.ts:5:\d+\)$/);
  expect(nested).toMatch(
    /^\{"error":"\[TypeError: [^\\]*\]","deep":\["\[TypeError: [^\\]*\]"\]\}$/,
  );
  expect(outer).toMatch(
    /^Error: outer\n.*\.ts:9:\d+\)\n {2}because of Error: inner\n.*\.ts:9:\d+\)$/,
  );
  expect(several).toMatch(
    /^AggregateError: several\n.*\n {2}because of Error: one\n.*\n {2}because of two$/,
  );
  expect(linesOf(end).join()).not.toContain('penstock:');
});

it('tells what has caused an error, within bounds', async () => {
  const { error } = await run(`try { null.x } catch (cause) {
  throw new Error('wrapped', { cause });
}`);
  expect(error).toMatchObject({
    ...{ message: 'wrapped', line: 2 },
    cause: { name: 'TypeError', message: expect.stringContaining("reading 'x'"), line: 1 },
  });
  const circle = await run("const error = new Error('round'); error.cause = error; throw error;");
  expect(circle.error?.cause?.cause?.cause?.message).toBe('round');
  expect(circle.error?.cause?.cause?.cause?.cause).toBeUndefined();
  const many = await run("throw new AggregateError([new Error('first')], 'several')");
  expect(many.error?.cause?.message).toBe('first');
});

it('says what to write in place of import()', async () => {
  const { error } = await run("const name = 'x';\nreturn import(name);");
  expect(error).toMatchObject({ message: expect.stringContaining('require()'), line: 2 });
});

it('says that a code of a refusal is not one', async () => {
  const end = await run("ctx.reject(400, 'No', 'not now')");
  expect(linesOf(end)).toEqual([expect.stringContaining('the code not now is not told')]);
});

it.each([
  ['{ status: 99 }', 'a status of 200 to 599'],
  ["{ status: '201' }", 'a status of 200 to 599'],
  ['{ statsu: 201 }', 'does not know statsu'],
  ["{ headers: { 'Set-Cookie': 'a=b' } }", 'set-cookie: use cookies'],
  [
    "{ headers: { 'access-control-allow-origin': '*' } }",
    'does not set access-control-allow-origin',
  ],
  ["{ headers: { 'content-type': 'text/html' } }", 'return {contentType, base64}'],
  ["{ headers: { 'x-a': 'a\\nb' } }", 'the value of x-a'],
  ["{ headers: { 'no name': 'a' } }", 'no name of a header'],
  ["{ headers: ['x-a'] }", 'headers as an object'],
  ["{ cookies: 'a=b' }", 'at most 20 cookies'],
  ['{ cookies: { a: 1 } }', '[{name, value}] or {name: value}'],
  ["{ cookies: ['a=b'] }", 'at most 20 cookies'],
  ["{ redirect: '/x', status: 200 }", 'A redirection has a status of 301'],
  ['{ redirect: 7 }', 'an address as redirect'],
  ["'text/plain'", 'After the data res takes'],
  ['[201]', 'After the data res takes'],
])('names the place of an answer that says %s of itself', async (options, said) => {
  const { outcome, error } = await run(`const data = { a: 1 };\nres(data, ${options});`);
  expect({ outcome, error }).toMatchObject({
    ...{ outcome: 'error', error: { line: 2, message: expect.stringContaining(said) } },
  });
});

it.each(['5', "'text'", '{ handler() {} }', '[1]', 'class Own {}', 'null'])(
  'refuses a module whose default export is %s, with its place',
  async (value) => {
    const { error } = await pool.check(`const a = 1;\nexport default ${value}`, 'f.ts');
    expect(error).toMatchObject({ line: 2, message: expect.stringContaining('no function') });
  },
);

it.each([
  'const text = `\nexport default 5`;\nexport default () => text;',
  '/*\nexport default { a: 1 }\n*/\nexport default function () {}',
  'const run = () => 1;\nexport default run;',
])('takes a module whose default export is only written about: %s', async (code) => {
  expect((await pool.check(code, 'f.ts')).error).toBeUndefined();
});

it('takes what can be said of an answer', async () => {
  const end = await run(
    "res('', { status: 303, headers: { a: 'b' }, cookies: [], redirect: '/x' });",
  );
  expect(end).toMatchObject({ outcome: 'ok', reply: { status: 303, redirect: '/x' } });
  expect(await run('res(1, null);')).toMatchObject({ outcome: 'ok', text: '1' });
});

it('keeps so many lines of a log, however short they are', async () => {
  const { outcome, logs } = await run('for (let i = 0; i < 6_000; i++) console.log("");');
  expect([outcome, logs.length]).toEqual(['ok', 5_000]);
});
