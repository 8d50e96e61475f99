/** Functions as operators write, run and take them back. */
import { afterAll, beforeAll, expect, it } from 'vitest';
import { liftLimits } from '../../test/support/permissions.ts';
import { createTestPlatform, type TestPlatform } from '../../test/support/platform.ts';
import { invoke, upload } from './requests.ts';

let platform: TestPlatform;
beforeAll(async () => {
  platform = await createTestPlatform();
  await liftLimits(platform.admin);
});
afterAll(() => platform.close());

it('stores a function, runs it, and records the run', async () => {
  const made = await upload(platform.admin, {
    name: 'hello',
    functionCode: 'console.log("greets", req.params.name);\nreturn { hello: req.params.name };',
  });
  expect(made).toMatchObject({
    name: 'hello',
    version: 1,
    state: 'active',
    language: 'javascript',
  });
  const run = await invoke(platform.admin, made._id, { params: { name: 'Ann' } });
  expect(run).toMatchObject({ result: { hello: 'Ann' }, error: null, status: 200 });
  expect(run.logs).toMatchObject([{ level: 'log', text: 'greets Ann' }]);
  const { body } = await platform.admin.get(`/functions/executions/${made._id}`);
  expect(body).toMatchObject({
    count: 1,
    functionExecutions: [
      { _id: run.executionId, success: true, trigger: 'invoke', logs: ['greets Ann'], error: null },
    ],
  });
});

it('keeps all of several changes at once', async () => {
  const { _id } = await upload(platform.admin, { name: 'busy', functionCode: 'return 1' });
  const changes = [{ timeout: 5_000 }, { returns: { n: 'Number' } }, { functionCode: 'return 2' }];
  const answers = await Promise.all(
    changes.map((change) => platform.admin.patch(`/functions/${_id}`, change)),
  );
  expect(answers.map(({ status, text }) => [status, text])).toEqual(
    changes.map(() => [200, '{"updated":true}']),
  );
  expect((await platform.admin.get(`/functions/${_id}`)).body).toMatchObject({
    ...Object.assign({}, ...changes),
    version: 4,
  });
});

it('tells line and column of the source as it was written, also with types', async () => {
  const made = await upload(platform.admin, {
    name: 'typed',
    functionCode:
      'interface Order { readonly total: number }\nconst order: Order = { total: 5 };\n' +
      'const broken: Order | undefined = undefined;\nif (order.total > 1) throw new Error("too much");\nreturn broken!.total;',
  });
  expect(made.language).toBe('typescript');
  const run = await invoke(platform.admin, made._id, {});
  expect(run).toMatchObject({
    status: 500,
    error: { name: 'Error', message: 'too much', line: 4, column: 28 },
  });
});

it('runs enums, namespaces and properties among parameters, and tells places as they were written', async () => {
  const types = [
    "enum Size { Small = 'S', Large = 'L' }",
    'namespace Prices { export const of = { S: 2, L: 5 } }',
    'class Order {',
    '  constructor(readonly size: Size) {}',
    '}',
  ];
  const body = await upload(platform.admin, {
    name: 'rewritten',
    functionCode: [
      ...types,
      'const order = new Order(Size.Large);',
      'if (req.params?.fail) throw new Error("too much");',
      'return { price: Prices.of[order.size] };',
    ].join('\n'),
  });
  expect(body.language).toBe('typescript');
  expect(await invoke(platform.admin, body._id, {})).toMatchObject({ result: { price: 5 } });
  expect(await invoke(platform.admin, body._id, { params: { fail: true } })).toMatchObject({
    error: { message: 'too much', line: 7, column: 29 },
  });
  const module = await upload(platform.admin, {
    name: 'rewrittenModule',
    functionCode: [
      ...types,
      'export default async function price() {',
      '  const order = new Order(Size.Small);',
      '  throw new Error(order.size);',
      '}',
    ].join('\n'),
  });
  expect(await invoke(platform.admin, module._id, {})).toMatchObject({
    error: { message: 'S', line: 8 },
  });
});

it('has the globals of the web, every level of the console, and none of the process', async () => {
  const { _id } = await upload(platform.admin, {
    name: 'globals',
    functionCode: `for (const level of ['debug', 'log', 'info', 'warn', 'error']) console[level](level);
      const bytes = new TextEncoder().encode('abc');
      const hex = (value) => Buffer.from(value).toString('hex');
      const key = await crypto.subtle.importKey('raw', bytes, { name: 'HMAC', hash: 'SHA-256' }, false, ['sign']);
      const signed = await crypto.subtle.sign('HMAC', key, bytes);
      return {
        digest: hex(await crypto.subtle.digest('SHA-256', bytes)),
        same: [crypto.timingSafeEqual(bytes, Buffer.from('abc')), crypto.timingSafeEqual(bytes, Buffer.from('abd'))],
        verified: await crypto.subtle.verify('HMAC', key, signed, bytes),
        text: [atob(btoa('abc')), Buffer.from('YWJj', 'base64').toString(), new TextDecoder().decode(bytes)],
        url: new URL('../b?c=d e', 'https://example.org/a/x').href,
        waited: await new Promise((done) => setTimeout(() => done(true), 5)),
        axios: typeof require('axios').post,
        none: [typeof process, typeof WebAssembly, typeof globalThis.Worker],
        seen: [ctx.requestId.length > 0, ctx.attempt, ctx.deadline > new Date(), ctx.signal.aborted, typeof ctx.log.info],
      };`,
  });
  const { result, error, logs } = await invoke(platform.admin, _id, {});
  expect(error).toBeNull();
  const levels = (logs as { readonly level: string }[]).map(({ level }) => level);
  expect(levels).toEqual(['debug', 'log', 'info', 'warn', 'error']);
  expect(result).toEqual({
    digest: 'ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad',
    ...{ same: [true, false], verified: true, text: ['abc', 'abc', 'abc'] },
    ...{ url: 'https://example.org/b?c=d%20e', waited: true, axios: 'function' },
    none: ['undefined', 'undefined', 'undefined'],
    seen: [true, 1, true, false, 'function'],
  });
});

it('keeps versions and goes back to one', async () => {
  const { _id } = await upload(platform.admin, { name: 'versions', functionCode: 'return 1' });
  await platform.admin.patch(`/functions/${_id}`, { functionCode: 'return 2' });
  expect(await invoke(platform.admin, _id, {})).toMatchObject({ result: 2 });
  expect(await invoke(platform.admin, _id, { version: 1 })).toMatchObject({ result: 1 });
  const { body } = await platform.admin.post(`/functions/${_id}/rollback`, { version: 1 });
  expect(body).toEqual({ updated: true, version: 3 });
  expect(await invoke(platform.admin, _id, {})).toMatchObject({ result: 1 });
  const listed = await platform.admin.get(`/functions/${_id}/versions`);
  expect(listed.body).toMatchObject({
    count: 3,
    versions: [{ version: 3, current: true }, {}, {}],
  });
});
