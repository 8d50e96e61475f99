/** Slips of who writes functions: none of them is taken for what it is not, in silence. */
import { afterAll, beforeAll, expect, it } from 'vitest';
import { expectStatus } from '../../test/support/node.ts';
import { createTestPlatform, type TestPlatform } from '../../test/support/platform.ts';
import { upload } from './requests.ts';

let platform: TestPlatform;
const open = { enabled: true, authenticated: false };
const crudOperations = { create: open, read: open, update: open, delete: open };
const schema = (name: string) =>
  platform.createSchema({
    name,
    fields: { total: 'Number', note: 'String' },
    conduitOptions: { cms: { enabled: true, crudOperations } },
  });
beforeAll(async () => {
  platform = await createTestPlatform();
  await schema('Order');
});
afterAll(() => platform.close());

const hook = (name: string, on: string, op: string, functionCode: string) =>
  upload(platform.admin, {
    ...{ name, functionType: 'hook', functionCode },
    inputs: { trigger: { schema: on, op, when: 'before' } },
  });

it('a hook whose answer means something else does not take away what was sent', async () => {
  const { client } = platform;
  const { _id } = expectStatus(await client.post('/database/Order', { total: 1 }), 200, 'one').body;
  const path = `/database/Order/${_id}`;
  const { _id: strayId } = await hook('stray', 'Order', 'update', 'return { ok: true }');
  expect(await client.patch(path, { total: 2 })).toMatchObject({
    status: 400,
    body: {
      message: expect.stringContaining('The hook stray answers ok, which Order does not have'),
    },
  });
  expect((await client.get(path)).body.total).toBe(1);
  await platform.admin.delete(`/functions/${strayId}`);
  // What is there, and what whoever asks has sent, may be answered.
  await hook('whole', 'Order', 'update', 'return { ...req.previous, ...req.input, note: "seen" }');
  const changed = await client.patch(path, { total: 3, another: 'name' });
  expect(changed, changed.text).toMatchObject({ status: 200, body: { total: 3, note: 'seen' } });
});

it('a hook of a schema that is not there says so, and serves as soon as it is', async () => {
  const { _id } = await hook('early', 'Later', 'create', 'return { ...req.input, note: "asked" }');
  const view = async () => (await platform.admin.get(`/functions/${_id}`)).body;
  expect(await view()).toMatchObject({
    ...{ state: 'error', problem: 'There is no schema Later: it is asked as soon as there is one' },
  });
  await schema('Later');
  expect(await view()).toMatchObject({ state: 'active', problem: null });
  const made = await platform.client.post('/database/Later', { total: 1 });
  expect(made.body).toMatchObject({ total: 1, note: 'asked' });
});

it('the kind of a function stays, and a change of it is refused', async () => {
  const { _id } = await upload(platform.admin, { name: 'kind', functionCode: 'return 1' });
  const path = `/functions/${_id}`;
  expect(await platform.admin.patch(path, { functionType: 'cron' })).toMatchObject({
    ...{ status: 400, body: { errors: [{ path: 'functionType', rule: 'fixed' }] } },
  });
  const same = { functionType: 'request', functionCode: 'return 2' };
  expectStatus(await platform.admin.patch(path, same), 200, 'the same kind');
  expect((await platform.client.get('/functions/kind')).body).toEqual({ result: 2 });
});

it('a schedule with too few fields is told how many it has', async () => {
  const answer = await platform.admin.post('/functions/upload', {
    ...{ name: 'few', functionType: 'cron', functionCode: 'return 1' },
    inputs: { cronPattern: '30 9 * *' },
  });
  expect(answer.body.errors).toEqual([
    expect.objectContaining({
      path: 'inputs.cronPattern',
      message: 'has 4 fields: 5 or 6, or a name such as @hourly',
    }),
  ]);
});
