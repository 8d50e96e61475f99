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
