/** What code passes on to the platform, and what operators call its inputs: nothing of it is trusted. CWE-20, CWE-89. */
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { Json } from '../../test/support/api.ts';
import { liftLimits } from '../../test/support/permissions.ts';
import { createTestPlatform, type TestPlatform } from '../../test/support/platform.ts';
import { waitFor } from '../../test/support/wait-for.ts';
import { upload } from './requests.ts';

let platform: TestPlatform;
let headers: Readonly<Record<string, string>>;
let record: string;
beforeAll(async () => {
  platform = await createTestPlatform();
  await liftLimits(platform.admin);
  await platform.createSchema({
    name: 'Leaf',
    fields: { text: { type: 'String', required: true }, size: 'Number' },
  });
  await platform.createSchema({
    name: 'Branch',
    fields: { text: 'String' },
    conduitOptions: { authorization: { enabled: true } },
  });
  const user = await platform.registerUser();
  headers = { authorization: `Bearer ${user.accessToken}` };
  await user.api.post('/database/Leaf', { text: 'a', size: 1 });
  record = (await user.api.post('/database/Branch', { text: 'a' })).body._id;
  const search = { schemaName: 'Leaf', sourceFields: ['text'], targetField: 'words' };
  const made = await platform.admin.post('/embeddings/configs', { ...search, provider: 'none' });
  expect(made.status, made.text).toBe(200);
  await upload(platform.admin, {
    name: 'pass_on',
    inputs: {
      method: 'POST',
      rights: 'system',
      bodyParams: { path: 'String', args: 'String', system: 'Boolean' },
    },
    functionCode: `
      const { path, args, system } = req.params;
      const [part, name] = path.split('.');
      const acting = system ? ctx.system : ctx;
      const work = name === undefined ? acting[part] : acting[part][name];
      try {
        return { value: await work.apply(acting[part], JSON.parse(args)) };
      } catch ({ status, code, message }) {
        return { status, code, message };
      }`,
  });
});
afterAll(() => platform.close());

async function pass(path: string, args: readonly unknown[], system = false): Promise<Json> {
  // As text: code has characters that no request may bring along.
  const body = { path, args: JSON.stringify(args), system };
  const answer = await platform.client.post('/functions/pass_on', body, { headers });
  expect(answer.status, `${path} ${JSON.stringify(args)} ${answer.text}`).toBe(200);
  return answer.body.result;
}

it('puts no text of code into a statement', async () => {
  const aggregate = (value: object) => pass('db.aggregate', ['Leaf', {}, { values: [value] }]);
  expect(await aggregate({ as: 'n', function: 'count' })).toEqual({ value: [{ n: 1 }] });
  for (const name of ['pg_sleep(0)::text || count', "(select 'x')::text || count", 'version'])
    expect(await aggregate({ as: 'n', function: name, field: 'text' })).toMatchObject({
      status: 400,
      code: 'RECORD_INVALID',
    });
});

it('answers what code asks in the name of a user, with the defaults of each operation', async () => {
  expect(await pass('files.list', [])).toMatchObject({ value: { files: [] } });
  expect(await pass('call', ['GET /database/Leaf'])).toMatchObject({ value: { count: 1 } });
  const search = { schemaName: 'Leaf', text: 'nowhere', mode: 'keyword' };
  expect(await pass('search.query', [search])).toMatchObject({ value: { hits: [] } });
  const question = { action: 'read', resource: `Branch:${record}` };
  expect(await pass('auth.can', [question])).toMatchObject({ value: { allowed: true } });
  const { resource } = question;
  const about = { subject: 'User:0198a2c4-7d1e-7b3a-9c52-4f6e8d0b1a27', permission: 'read' };
  expect(await pass('auth.can', [{ ...about, resource }], true)).toMatchObject({
    value: { allowed: false },
  });
});

it('counts what code asks to what its caller may ask', async () => {
  const search = { schemaName: 'Leaf', text: 'nowhere', mode: 'keyword' };
  const asked = await Promise.all(Array.from({ length: 20 }, () => pass('search.query', [search])));
  expect(asked.some(({ status }) => status === 429)).toBe(true);
});

const calls: Readonly<Record<string, readonly unknown[]>> = {
  'db.find': ['Leaf', {}, { limit: 1, sort: ['text'] }],
  'db.get': ['Leaf', 'an id', {}],
  'db.count': ['Leaf', {}],
  'db.aggregate': [
    'Leaf',
    {},
    { groupBy: ['text'], values: [{ as: 'n', function: 'sum', field: 'size' }], sort: ['n'] },
  ],
  'db.create': ['Leaf', { text: 'x' }, {}],
  'db.createMany': ['Leaf', [{ text: 'x' }], {}],
  'db.updateMany': ['Leaf', [{ _id: 'an id', text: 'x' }], {}],
  'files.create': [{ data: 'aGk=', name: 'x' }],
  'realtime.publish': ['room:1', 'said', {}],
  call: ['GET /database/Leaf', { query: { limit: 1 } }],
};

const hostile: readonly unknown[] = [
  null,
  'a\0b',
  '\ud800',
  2 ** 53,
  [null],
  { toString: null },
  { 'a\0b': '\ud800' },
];

it.each(Object.entries(calls))('refuses what nobody can mean: %s', async (path, args) => {
  for (const place of placesOf(args))
    for (const value of hostile) {
      const { message } = await pass(path, replaced(args, place, value) as readonly unknown[]);
      expect(message, `${path} ${place} ${JSON.stringify(value)}`).not.toBe(
        'The platform could not do this',
      );
    }
});

/** Every place within the arguments. */
function placesOf(value: unknown, before: readonly string[] = []): readonly (readonly string[])[] {
  const own = before.length === 0 ? [] : [before];
  if (typeof value !== 'object' || value === null) return own;
  return [
    ...own,
    ...Object.entries(value).flatMap(([key, one]) => placesOf(one, [...before, key])),
  ];
}

function replaced(value: unknown, [key, ...rest]: readonly string[], by: unknown): unknown {
  if (key === undefined) return by;
  const copy = Array.isArray(value) ? [...value] : { ...(value as object) };
  Reflect.set(copy, key, replaced(Reflect.get(copy, key), rest, by));
  return copy;
}

it('takes inputs of any name, and stays able to take the next function', async () => {
  const names = ['type', 'owner', 'path', 'module', 'schema', 'resource', 'endpointId', 'id'];
  for (const name of names) {
    await upload(platform.admin, {
      name: `about_${name}`,
      inputs: { method: 'POST', bodyParams: { [name]: 'String' } },
      functionCode: `return req.params.${name}`,
    });
    const called = await platform.admin.post(`/functions/call/about_${name}`, { [name]: 'x' });
    expect([called.status, called.body], called.text).toEqual([200, { result: 'x' }]);
  }
});

it('gives nobody more than their token by way of a function', async () => {
  const made = await platform.admin.post('/api-tokens', {
    name: 'functions alone',
    scopes: ['functions', 'write'],
  });
  const credential = { headers: { credential: made.body.token } };
  const store = (functionType: string, inputs: object, name = `narrow_${functionType}`) => {
    const given = { name, functionType, inputs, functionCode: 'return {}' };
    return platform.adminAnonymous.post('/functions/upload', given, credential);
  };
  const capabilities = ['auth', 'call', 'fetch', 'secrets'];
  expect((await store('request', { method: 'GET', capabilities })).status).toBe(200);
  const future = { schema: 'NotYet', op: 'create', when: 'after' };
  const refused = [
    await store('request', { method: 'GET', rights: 'system', capabilities }, 'all_of_it'),
    // Closed routes do not count for code: so it gives what its author has.
    await store('request', { method: 'GET' }, 'all_records'),
    await store('request', { method: 'GET', capabilities: ['database:read:Leaf'] }, 'records'),
    await store('hook', { trigger: { op: 'signIn', when: 'before' }, capabilities }),
    await store('hook', { trigger: { op: 'send', when: 'before' }, capabilities }),
    await store('hook', {
      trigger: { schema: 'Leaf', op: 'create', when: 'before' },
      capabilities,
    }),
    await store('hook', { trigger: future, capabilities }, 'of_the_future'),
    await store('middleware', { capabilities }),
    await store('event', { event: 'database:create:Leaf', capabilities }),
    await store('event', { event: 'authentication:register:user', capabilities }),
    await store('workflow', { event: 'authentication:register:user', capabilities }),
  ];
  expect(refused.map(({ status, body }) => [status, body.code])).toEqual(
    refused.map(() => [403, 'SCOPE_EXCEEDED']),
  );
  // It may write each Leaf, and a hook would act for operators who may do everything.
  const both = await platform.admin.post('/api-tokens', {
    name: 'functions and data',
    scopes: ['functions', 'database', 'write'],
  });
  credential.headers.credential = both.body.token;
  const leaf = { schema: 'Leaf', op: 'create' };
  expect(
    await store('hook', { trigger: { ...leaf, when: 'before' } }, 'before_leaf'),
  ).toMatchObject({ status: 403, body: { message: expect.stringContaining('whoever writes') } });
  expect((await store('hook', { trigger: { ...leaf, when: 'after' } }, 'after_leaf')).status).toBe(
    200,
  );
  for (const event of [
    'database:*',
    'database:create:*',
    'database:create:User',
    'database:create:NotYet',
  ])
    expect((await store('event', { event }, 'any_schema')).body.code, event).toBe('SCOPE_EXCEEDED');
  credential.headers.credential = made.body.token;
  const whole = { method: 'GET', rights: 'system' };
  const { _id } = await upload(platform.admin, {
    name: 'trusted',
    inputs: whole,
    functionCode: 'return 1',
  });
  const change = { functionCode: "return ctx.system.db.find('User', {})" };
  const tamed = await upload(platform.admin, {
    name: 'tamed',
    inputs: whole,
    functionCode: 'return 1',
  });
  await platform.admin.patch(`/functions/${tamed._id}`, { inputs: { method: 'GET' } });
  const run = (id: string, body: object) =>
    platform.adminAnonymous.post(`/functions/${id}/invoke`, body, credential);
  expect((await run(tamed._id, {})).body.result).toBe(1);
  // Code that trusts whoever calls it is handed nothing by them.
  for (const answer of [await run(_id, {}), await run(tamed._id, { version: 1 })])
    expect([answer.status, answer.body.code]).toEqual([403, 'SCOPE_EXCEEDED']);
  for (const answer of [
    await platform.adminAnonymous.patch(`/functions/${_id}`, change, credential),
    await platform.adminAnonymous.post(`/functions/${_id}/rollback`, { version: 1 }, credential),
    await platform.adminAnonymous.put(`/functions/${_id}/secrets/KEY`, { value: 'x' }, credential),
    await platform.adminAnonymous.delete(`/functions/${_id}/secrets/KEY`, credential),
    await platform.adminAnonymous.delete(`/functions/${_id}`, credential),
    await platform.adminAnonymous.delete(`/functions?ids=${_id}`, credential),
  ])
    expect([answer.status, answer.body.code]).toEqual([403, 'SCOPE_EXCEEDED']);
});

it('shows what an event was about to whoever may hear of it', async () => {
  const { _id } = await upload(platform.admin, {
    ...{ name: 'hears_of_users', functionType: 'event', functionCode: 'throw new Error()' },
    inputs: { event: 'authentication:register:user' },
  });
  await platform.registerUser();
  const path = `/functions/${_id}/queue`;
  const runs = await waitFor(async () => {
    const { body } = await platform.admin.get(path);
    return body.runs[0]?.tries.length > 0 ? (body.runs as Json[]) : undefined;
  });
  const executionId = runs[0]?.tries[0]?.executionId;
  const asked = async (...scopes: string[]) => {
    const made = await platform.admin.post('/api-tokens', { name: scopes.join(), scopes });
    const api = platform.adminAnonymous.with({ credential: made.body.token });
    const run = `/functions/queue/${runs[0]?._id}`;
    return [
      (await api.get(path)).status,
      (await api.get(run)).status,
      (await api.post(`/functions/executions/${executionId}/retry`, {})).status,
      (await api.post(`${run}/retry`, {})).status,
    ];
  };
  expect(await asked('functions')).toEqual([403, 403, 403, 403]);
  expect(await asked('functions', 'authentication')).toEqual([200, 200, 200, 200]);
  await platform.admin.delete(`/functions/${_id}`);
});

it('hooks of accounts and messages act in the name of nobody, whoever signs up or sends', async () => {
  await platform.admin.post('/database/schemas/Branch/docs', { inputDocument: { text: 'kept' } });
  const found = "await ctx.db.find('Branch', {}).then((all) => all.length, ({ status }) => status)";
  const called =
    "await ctx.call('authentication.users.list').then(() => 200, ({ status }) => status)";
  const hook = (name: string, op: string, inputs: object, functionCode: string) =>
    upload(platform.admin, {
      ...{ name, functionCode, functionType: 'hook' },
      inputs: { ...inputs, trigger: { op, when: 'before' } },
    });
  const says = `ctx.reject(409, [${found}, ${called}].join())`;
  const person = { email: 'hooked@example.com', password: 'a long enough passphrase 7' };
  const { _id } = await hook('who_signs_up', 'signUp', {}, says);
  const byOperator = await platform.admin.post('/authentication/users', person);
  expect(byOperator.body.message).toBe('401,403');
  await platform.admin.delete(`/functions/${_id}`);
  const subject = `return { subject: [${found}, ${called}].join() }`;
  const send = async (recipient: string): Promise<string> => {
    const mail = { email: recipient, subject: 'x', body: 'x' };
    const sent = await platform.admin.post('/email/send', mail);
    expect(sent.status, sent.text).toBe(200);
    return waitFor(async () => {
      const list = await platform.admin.get('/communications/messages', { query: { recipient } });
      const [one] = list.body.messages as Json[];
      const { body } = await platform.admin.get(`/communications/messages/${one?._id}`);
      return body.status === 'captured' ? String(body.content.subject) : undefined;
    });
  };
  const sending = await hook('who_sends', 'send', {}, subject);
  expect(await send('nobody@example.com')).toBe('401,403');
  await platform.admin.delete(`/functions/${sending._id}`);
  const system = await hook('who_sends', 'send', { rights: 'system' }, subject);
  expect(await send('system@example.com')).toMatch(/^[1-9]\d*,200$/);
  await platform.admin.delete(`/functions/${system._id}`);
});

it('asks nothing of accounts for an operator whose token is for records alone', async () => {
  const fields = { text: 'String', holder: { type: 'Relation', model: 'User' } } as const;
  await platform.createSchema({ name: 'Held', fields });
  const { userId, email } = await platform.registerUser();
  const held = { inputDocument: { text: 'a', holder: userId } };
  expect((await platform.admin.post('/database/schemas/Held/docs', held)).status).toBe(200);
  const filter = JSON.stringify({ 'holder.email': email });
  const found = await upload(platform.admin, {
    name: 'count_held',
    functionCode: `return ctx.db.count('Held', ${filter}).catch(({ status }) => status)`,
  });
  const made = await platform.admin.post('/api-tokens', {
    name: 'records',
    scopes: ['functions', 'database', 'write'],
  });
  const path = `/functions/${found._id}/invoke`;
  const narrow = platform.adminAnonymous.with({ credential: made.body.token });
  expect((await narrow.post(path, {})).body.result).toBe(403);
  expect((await platform.admin.post(path, {})).body.result).toBe(1);
});
