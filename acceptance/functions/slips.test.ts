/** Slips of who writes functions: none of them is taken for what it is not, in silence. */
import { afterAll, beforeAll, expect, it } from 'vitest';
import { expectStatus } from '../../test/support/node.ts';
import { createTestPlatform, type TestPlatform } from '../../test/support/platform.ts';
import { waitFor } from '../../test/support/wait-for.ts';
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

it.each([
  ['false', 'return false', 'answers false'],
  ['a text', 'return "no"', 'answers "no"'],
  ['a list', 'return [req.input]', 'answers a list'],
])('a hook that answers %s refuses the write and says how to refuse', async (_what, code, said) => {
  const { _id } = await hook('unclear', 'Order', 'create', code);
  const answer = await platform.client.post('/database/Order', { total: 1 });
  expect(answer, answer.text).toMatchObject({
    ...{ status: 400, body: { code: 'HOOK_REFUSED', message: expect.stringContaining(said) } },
  });
  await platform.admin.delete(`/functions/${_id}`);
});

it('a hook of sign-ups that answers false lets nobody in', async () => {
  const { _id } = await upload(platform.admin, {
    ...{ name: 'closed', functionType: 'hook', functionCode: 'return false' },
    inputs: { trigger: { op: 'signUp', when: 'before' } },
  });
  const answer = await platform.client.post('/authentication/local/new', {
    ...{ email: 'nobody@example.com', password: 'correct horse battery' },
  });
  expect(answer.body).toMatchObject({ status: 400, code: 'HOOK_REFUSED' });
  await platform.admin.delete(`/functions/${_id}`);
});

const refused = async (functionType: string, inputs: object, functionCode = 'return 1') => {
  const answer = await platform.admin.post('/functions/upload', {
    ...{ name: 'slip', functionType, functionCode, inputs },
  });
  expect(answer, answer.text).toMatchObject({ status: 400 });
  return answer.body.errors as readonly { readonly path: string; readonly message: string }[];
};

it.each(['order', 'databse:create:Order', 'database.create.Order', 'database:', 'shop*'])(
  'an event that there can never be is refused: %s',
  async (event) => {
    const [one] = await refused('event', { event });
    expect(one?.path).toBe('inputs.event');
    expect(one?.message).toContain('such as database:create:Order');
  },
);

it.each(['*', 'data*', 'database:*', 'forms:submit:FormReplies'])(
  'an event that there can be is taken: %s',
  async (event) => {
    const { _id } = await upload(platform.admin, {
      ...{ name: 'hearing', functionType: 'event', functionCode: 'return 1', inputs: { event } },
    });
    await platform.admin.delete(`/functions/${_id}`);
  },
);

it('a capability that nothing needs is refused', async () => {
  const capabilities = ['databse:read', 'database:delete:Order', 'files:*', 'fetch:a.example'];
  expect(await refused('request', { method: 'GET', capabilities })).toMatchObject([
    { path: 'inputs.capabilities.0', message: expect.stringContaining('database, auth, files') },
    { path: 'inputs.capabilities.1', message: 'database: goes on with read, write or *' },
  ]);
});

it.each([
  ['node:fs', 'is of Node, which functions do not have'],
  ['../secrets.json', 'is no package: a function is one text'],
  ['https://example.com/x.js', 'is no package: a function is one text'],
  ['@scope/absent/part', 'run "npm install @scope/absent"'],
])('what is imported and not there is told with what to do: %s', async (name, said) => {
  const code = `import x from ${JSON.stringify(name)};\nexport default () => x;`;
  const [one] = await refused('request', { method: 'GET' }, code);
  expect(one).toMatchObject({ path: 'functionCode', message: expect.stringContaining(said) });
});

it('runs of events of records are in order of what the record says at `orderBy`', async () => {
  const { _id } = await upload(platform.admin, {
    ...{ name: 'ordered', functionType: 'event' },
    functionCode: `await new Promise((go) => setTimeout(go, req.total === 1 ? 400 : 1));
console.log(req.total);`,
    inputs: { event: 'database:create:Order', orderBy: 'note' },
  });
  const docs = [1, 2, 3, 4].map((total) => ({ total, note: 'same' }));
  expectStatus(await platform.client.post('/database/Order/many', { docs }), 200, 'four');
  const logs = await waitFor(
    async () => {
      const { body } = await platform.admin.get(`/functions/executions/${_id}`);
      const runs = body.functionExecutions as readonly { readonly logs: readonly string[] }[];
      return runs.length === 4 ? runs.map((run) => run.logs[0]) : undefined;
    },
    { timeoutMs: 30_000, what: 'four runs' },
  );
  expect(logs).toEqual(['4', '3', '2', '1']);
});

it.each([
  ["ctx.db.create('Order', { total: 9 }, { version: 1 })", 'options.version'],
  ["ctx.db.createMany('Order', [{ total: 9 }], { version: 1 })", 'options.version'],
  ["ctx.db.updateMany('Order', [{ _id: id, total: 9 }], { version: 1 })", 'options.version'],
  ["ctx.db.update('Order', id, { total: 9 }, { limit: 1 })", 'options.limit'],
  ["ctx.db.delete('Order', id, { populate: 'x' })", 'options.populate'],
  ["ctx.db.find('Order', {}, { limti: 1 })", 'options.limti'],
  ["ctx.db.findOne('Order', {}, { limit: 2 })", 'options.limit'],
  ["ctx.db.get('Order', id, { version: 1 })", 'options.version'],
  ["ctx.db.count('Order', {}, { skip: 1 })", 'options.skip'],
  ["ctx.db.aggregate('Order', {}, { group: ['note'] })", 'options.group'],
  ["ctx.db.find('Order', {}, { sort: Array.from({ length: 21 }, () => 'note') })", 'options.sort'],
  ["ctx.database.findMany('Order', {}, { version: 1 })", 'options.version'],
  [
    "ctx.call('PATCH /database/Order/:id', { params: { id }, body: { total: 9 }, headers: {} })",
    'headers',
  ],
])('an option that would change nothing is refused: %s', async (call, path) => {
  const { client } = platform;
  const { _id } = expectStatus(await client.post('/database/Order', { total: 1 }), 200, 'one').body;
  const before = (await client.get('/database/Order')).body.count;
  const functionCode = `const id = '${_id}';
    const error = await (${call}).then(() => undefined, (thrown) => thrown);
    return { status: error?.status, message: error?.message };`;
  const made = await upload(platform.admin, { name: 'option', functionCode });
  const { body } = await client.get('/functions/option');
  expect(body.result ?? body).toMatchObject({
    ...{ status: 400, message: expect.stringContaining(path) },
  });
  expect((await client.get(`/database/Order/${_id}`)).body.total).toBe(1);
  expect((await client.get('/database/Order')).body.count).toBe(before);
  await platform.admin.delete(`/functions/${made._id}`);
});

it('options of older functions that mean nothing here are passed over', async () => {
  const functionCode =
    "return (await ctx.database.findMany('Order', {}, { select: 'total', userId: 'x', limit: 1 })).length";
  const { _id } = await upload(platform.admin, { name: 'older', functionCode });
  await platform.client.post('/database/Order', { total: 1 });
  expect((await platform.client.get('/functions/older')).body).toEqual({ result: 1 });
  await platform.admin.delete(`/functions/${_id}`);
});
