/** What code may do with `ctx`: in whose name, as one transaction, and what it leaves behind. CWE-269, CWE-532, CWE-918. */
import { randomUUID } from 'node:crypto';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { openTestConnection } from '../../test/support/connection.ts';
import { testMasterKey } from '../../test/support/node.ts';
import { liftLimits, permissionsApi } from '../../test/support/permissions.ts';
import { createTestPlatform, type TestPlatform } from '../../test/support/platform.ts';
import { waitFor } from '../../test/support/wait-for.ts';
import { invoke, upload } from './requests.ts';

let platform: TestPlatform;
let headers: Readonly<Record<string, string>>;
beforeAll(async () => {
  platform = await createTestPlatform();
  await liftLimits(platform.admin);
  const operation = { enabled: true, authenticated: true };
  await platform.createSchema({
    name: 'Diary',
    fields: { text: { type: 'String', required: true } },
    conduitOptions: {
      authorization: { enabled: true },
      cms: {
        enabled: true,
        crudOperations: {
          create: operation,
          read: operation,
          update: operation,
          delete: operation,
        },
      },
    },
  });
  const user = await platform.registerUser();
  headers = { authorization: `Bearer ${user.accessToken}` };
});
afterAll(() => platform.close());

let number = 0;
/** Stores the code as a function of its own and calls it. */
async function call(functionCode: string, inputs: object = {}, signedIn = true) {
  number += 1;
  const name = `ctx_${number}`;
  const made = await upload(platform.admin, {
    name,
    functionCode,
    inputs: { method: 'GET', ...inputs },
  });
  const answer = await platform.client.get(`/functions/${name}`, signedIn ? { headers } : {});
  return { ...answer, id: made._id };
}

it('reads and writes with the rights of the caller', async () => {
  const mine = await call("return (await ctx.db.create('Diary', { text: 'mine' })).text");
  expect(mine.body).toEqual({ result: 'mine' });
  const other = await platform.registerUser();
  await upload(platform.admin, {
    name: 'read_all',
    functionCode: "return (await ctx.db.find('Diary', {})).length",
  });
  const read = (token: string) =>
    platform.client.get('/functions/read_all', { headers: { authorization: `Bearer ${token}` } });
  expect((await read(other.accessToken)).body).toEqual({ result: 0 });
  expect((await platform.client.get('/functions/read_all', { headers })).body).toEqual({
    result: 1,
  });
  expect((await platform.client.get('/functions/read_all')).status).toBe(401);
});

it('counts and sums for a team what it lists for the team', async () => {
  const team = `Team:${randomUUID()}`;
  const { userId, api } = await platform.registerUser();
  const permissions = permissionsApi(platform.admin);
  await permissions.relate(`User:${userId} owner ${team}`);
  for (const query of [`?scope=${team}`, `?scope=${team}`, ''])
    expect((await api.post(`/database/Diary${query}`, { text: 'of a team' })).status).toBe(200);
  await upload(platform.admin, {
    name: 'for_team',
    inputs: { method: 'GET', queryParams: { scope: { type: 'String' } } },
    functionCode: `const { scope } = req.params; const values = [{ as: 'n', function: 'count' }];
      const { db } = ctx;
      return [
        (await db.find('Diary', {}, { scope })).length,
        await db.count('Diary', {}, { scope }),
        (await db.aggregate('Diary', {}, { scope, values }))[0].n,
        (await db.aggregate('Diary', {}, { scope, values, groupBy: ['_id'], skip: 1, limit: 5 })).length,
      ]`,
  });
  const asked = await api.get('/functions/for_team', { query: { scope: team } });
  expect(asked.body).toEqual({ result: [2, 2, 2, 1] });
  const other = await platform.registerUser();
  expect((await other.api.get('/functions/for_team', { query: { scope: team } })).status).toBe(403);
});

it('has the rights of the system only where the definition says so', async () => {
  const code = "return (await ctx.system.db.count('Diary', {})) > 0";
  expect((await call(code, { rights: 'system' }, false)).body).toEqual({ result: true });
  expect((await call(code, {}, false)).status).toBe(500);
});

it('has nothing of what modules keep from its caller, neither records nor answers about them', async () => {
  const { userId, email, api } = await platform.registerUser();
  const fields = { about: { type: 'Relation', model: 'User' }, text: 'String' } as const;
  await platform.createSchema({
    name: 'Kept',
    fields,
    conduitOptions: { cms: { enabled: false } },
  });
  const of = (db: string) =>
    [
      "find('User', {})",
      "findOne('User', {})",
      `count('User', { email: ${JSON.stringify(email)} })`,
      "aggregate('User', {}, { values: [{ as: 'last', function: 'max', field: 'email' }] })",
      `update('User', '${userId}', { isVerified: true })`,
      "create('User', { email: 'made@example.com' })",
      "find('Team', {})",
      "find('EmailTemplate', {})",
      "find('ChatMessage', {})",
      `count('Kept', { 'about.email': ${JSON.stringify(email)} })`,
      `find('Kept', { $nor: [{ 'about.active': true }] })`,
      `delete('User', '${userId}')`,
    ].map((asked) => `async () => ${db}.${asked}`);
  const code = (db: string) =>
    `const ends = []; for (const ask of [${of(db).join()}]) { try { await ask(); ends.push(200); } catch (error) { ends.push(error.status); } } return ends`;
  const refused = [404, 404, 404, 404, 404, 404, 404, 404, 404, 403, 403, 404];
  for (const signedIn of [true, false])
    expect((await call(code('ctx.db'), {}, signedIn)).body).toEqual({ result: refused });
  expect((await api.get('/authentication/user')).body).toMatchObject({ email, isVerified: false });
  // What operators have made is offered by the code, whatever its own routes offer.
  const own = "await ctx.db.create('Kept', { text: 'x' }); return ctx.db.count('Kept', {})";
  expect((await call(own)).body).toEqual({ result: 1 });
  const all = await call(code('ctx.system.db'), { rights: 'system' });
  expect(all.body).toEqual({ result: refused.map(() => 200) });
});

it('has them neither where code calls it that has them', async () => {
  const functionCode = "return (await ctx.db.count('Diary', {})) > 0";
  for (const [name, rights] of [
    ['helper', undefined],
    ['trusted_helper', 'system'],
  ] as const) {
    await upload(platform.admin, { name, functionCode, inputs: { method: 'GET', rights } });
    const code = `return (await ctx.system.call('GET /functions/${name}')).result`;
    const answer = await call(code, { rights: 'system' }, false);
    expect([answer.status, answer.body.result]).toEqual(
      rights === 'system' ? [200, true] : [401, undefined],
    );
  }
});

it('uses no more than the capabilities that the definition lists', async () => {
  const code = "await ctx.db.create('Diary', { text: 'x' })";
  expect((await call(code, { capabilities: ['database:read:Diary'] })).status).toBe(500);
  expect((await call(code, { capabilities: ['database:write:Diary'] })).status).toBe(200);
});

it('undoes a transaction whose work throws, and one that is left open', async () => {
  const count = async () =>
    (
      (await call("return ctx.system.db.count('Diary', {})", { rights: 'system' })).body as {
        result: number;
      }
    ).result;
  const before = await count();
  const thrown = `await ctx.db.transaction(async (db) => { await db.create('Diary', { text: 'gone' }); throw new Error('no') })`;
  expect((await call(thrown)).status).toBe(500);
  const left = `ctx.db.transaction(async (db) => { await db.create('Diary', { text: 'gone' }); await new Promise(() => {}) }); await new Promise((r) => setTimeout(r, 300)); throw new Error('ends')`;
  expect((await call(left)).status).toBe(500);
  expect(await count()).toBe(before);
  const kept = `await ctx.db.transaction(async (db) => { await db.create('Diary', { text: 'a' }); await db.create('Diary', { text: 'b' }) })`;
  expect((await call(kept)).status).toBe(200);
  expect(await count()).toBe(before + 2);
});

it('calls operations as the caller, and none of operators', async () => {
  const user = await call(
    "return (await ctx.call('GET /authentication/user'))._id === ctx.user._id",
  );
  expect(user.body).toEqual({ result: true });
  for (const code of [
    "return ctx.call('core.admins.list')",
    "return ctx.call('functions.functions.list')",
    "return ctx.system.call('core.admins.list')",
    "return ctx.system.call('functions.secrets.put', { params: {}, body: {} })",
    "return ctx.call('authentication.local.login', { body: { email: 'a@b.cd', password: 'x' } })",
  ])
    expect((await call(code, { rights: 'system' })).status).toBe(500);
});

it('calls no address inside, whatever it is called', async () => {
  for (const url of [
    'http://127.0.0.1:3030/',
    'https://[::ffff:127.0.0.1]/',
    'https://169.254.169.254/latest/meta-data',
    'http://0x7f000001/',
    'file:///etc/passwd',
    platform.addresses.admin,
  ]) {
    const { id } = await call('return 1');
    await platform.admin.patch(`/functions/${id}`, {
      functionCode: `return (await fetch(${JSON.stringify(url)})).status`,
    });
    const run = await invoke(platform.admin, id, {});
    expect(run.error).not.toBeNull();
    expect(String(run.error?.message)).toContain('fetch');
  }
});

it('shows a secret to the code and to nobody else', async () => {
  const secret = 'hunter2-hunter2';
  const { id } = await call('return 1');
  await platform.admin.put(`/functions/${id}/secrets/KEY`, { value: secret });
  await platform.admin.patch(`/functions/${id}`, {
    functionCode:
      "const key = await ctx.secrets.get('KEY'); console.log('key is', key); if (req.params.fail) throw new Error(key); return key.length",
  });
  const run = await invoke(platform.admin, id, {});
  expect(run).toMatchObject({ result: secret.length, logs: [{ text: 'key is ********' }] });
  const failed = await invoke(platform.admin, id, { params: { fail: true } });
  expect(failed.error).toMatchObject({ message: '********' });
  for (const path of [
    '/functions',
    `/functions/${id}`,
    `/functions/${id}/secrets`,
    `/functions/executions/${id}`,
    '/state/export',
    '/audit',
  ])
    expect((await platform.admin.get(path)).text).not.toContain(secret);
});

it('ends a run that takes too long and says so', async () => {
  const name = 'too_long';
  await upload(platform.admin, { name, functionCode: 'await new Promise(() => {})', timeout: 200 });
  expect((await platform.client.get(`/functions/${name}`)).body).toMatchObject({
    status: 504,
    code: 'FUNCTION_TIMEOUT',
  });
});

it('tells a run by its signal that its time is nearly over, so that it answers what it has', async () => {
  const functionCode = `const told = new Promise((resolve) => ctx.signal.addEventListener('abort', resolve));
    await told;
    return [ctx.signal.aborted, ctx.signal.reason.message, new Date() < ctx.deadline];`;
  await upload(platform.admin, { name: 'told', functionCode, timeout: 2_000 });
  // A machine that is busy just then may leave it no time for its answer.
  const { body } = await waitFor(
    async () => {
      const answer = await platform.client.get('/functions/told');
      return answer.status === 200 ? answer : undefined;
    },
    { timeoutMs: 40_000, what: 'an answer in time' },
  );
  expect(body).toEqual({ result: [true, 'The time of this run is nearly over', true] });
});

/** While `work` runs, the record cannot be changed; `waiting` counts the statements that wait for it. */
async function whileLocked(
  id: unknown,
  work: (waiting: () => Promise<number>) => Promise<void>,
): Promise<void> {
  const other = await openTestConnection(platform.databaseUrl ?? '');
  try {
    const tables = await other.query(
      `select format('%I.%I', n.nspname, c.relname) as name from pg_class c join pg_namespace n on n.oid = c.relnamespace
       join pg_attribute a on a.attrelid = c.oid and a.attname = 'text' where c.relname ilike '%diary%' and c.relkind = 'r'`,
    );
    expect(tables).toHaveLength(1);
    await other.query('begin');
    await other.query(`select 1 from ${tables[0]?.name} where _id = $1 for update`, [id]);
    await work(async () => {
      const waiting = await other.query(
        "select 1 from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'",
      );
      return waiting.length;
    });
    await other.query('commit');
  } finally {
    await other.close();
  }
}

const heldRecord = async (): Promise<unknown> => {
  const made = await call("return (await ctx.db.create('Diary', { text: 'held' }))._id");
  return (made.body as { readonly result: unknown }).result;
};
const changing = "ctx.system.db.update('Diary', req.params.id, { text: 'late' })";

it('stops the statement of a run that is out of time, and records the run', async () => {
  const id = await heldRecord();
  const waits = {
    ...{ name: 'waits', timeout: 1_000, inputs: { method: 'GET', rights: 'system' } },
    functionCode: `await ${changing};`,
  };
  const { _id } = await upload(platform.admin, waits);
  await whileLocked(id, async (waiting) => {
    // An operator's test run may take an hour; the time of the function ends its statement all the same.
    const run = await invoke(platform.admin, _id, { params: { id } });
    expect(run).toMatchObject({ status: 504, error: { code: 'TIMEOUT' } });
    await waitFor(async () => (await waiting()) === 0);
  });
  const { body } = await platform.admin.get(`/functions/executions/${_id}`);
  expect(body.functionExecutions).toMatchObject([{ outcome: 'timeout', success: false }]);
});

it.each([
  ['alone', `await ${changing};`],
  [
    'in a transaction',
    `await ctx.system.db.transaction((db) => ${changing.replace('ctx.system.db', 'db')});`,
  ],
])(
  'stops the statement of a test run that its operator gives up: %s',
  async (how, functionCode) => {
    const id = await heldRecord();
    const name = `given_up_${how.length}`;
    const inputs = { method: 'GET', rights: 'system' };
    const { _id } = await upload(platform.admin, { name, inputs, functionCode });
    await whileLocked(id, async (waiting) => {
      const operator = new AbortController();
      const run = fetch(`${platform.addresses.admin}/functions/${_id}/invoke`, {
        method: 'POST',
        headers: { masterkey: testMasterKey, 'content-type': 'application/json' },
        body: JSON.stringify({ params: { id } }),
        signal: operator.signal,
      }).catch(() => undefined);
      await waitFor(async () => (await waiting()) > 0, { what: 'the statement of the run' });
      operator.abort();
      await run;
      // The function itself has three minutes, and nobody lets the record go.
      await waitFor(async () => (await waiting()) === 0, { what: 'the end of the statement' });
      const runs = await waitFor(async () => {
        const { body } = await platform.admin.get(`/functions/executions/${_id}`);
        return body.count > 0 ? body.functionExecutions : undefined;
      });
      expect(runs).toMatchObject([{ outcome: 'cancelled', success: false }]);
    });
    const kept = await platform.client.get(`/database/Diary/${id}`, { headers });
    expect(kept.body).toMatchObject({ text: 'held' });
  },
);

it('ends with a run what it has asked of others', async () => {
  const [asked, ended] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  /** Never answers `/silent`, and `/go` once it was asked for the other. */
  const server = createServer(async ({ url, socket }, response) => {
    if (url === '/silent') {
      socket.once('close', () => ended.resolve());
      asked.resolve();
      return;
    }
    await asked.promise;
    response.end('go');
  });
  const configure = (egress: object) =>
    platform.admin.patch('/config/functions', { config: { egress } });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  try {
    expect((await configure({ denyPrivate: false, timeoutMs: 120_000 })).status).toBe(200);
    const address = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    const functionCode = `fetch('${address}/silent').catch(() => undefined);
      await fetch('${address}/go');
      throw new Error('over');`;
    await upload(platform.admin, { name: 'asks', functionCode });
    expect((await platform.client.get('/functions/asks')).status).toBe(500);
    // By itself the request would wait for two minutes.
    await ended.promise;
  } finally {
    await configure({ denyPrivate: true, timeoutMs: 15_000 });
    server.closeAllConnections();
    server.close();
  }
});

it('names the place of what cannot be parsed, and serves the others', async () => {
  const answer = await platform.admin.post('/functions/upload', {
    name: 'broken',
    functionType: 'request',
    inputs: { method: 'GET' },
    functionCode: 'const a = 1;\nreturn a +;',
  });
  expect(answer.body).toMatchObject({
    status: 400,
    code: 'FUNCTION_CODE_INVALID',
    message: 'Invalid function code',
  });
  expect(answer.text).toContain('line 2');
  const kind = await platform.admin.post('/functions/upload', {
    name: 'kind',
    functionType: 'request',
    functionCode: 'return 1',
  });
  expect(kind.text).toContain('inputs.method');
});
