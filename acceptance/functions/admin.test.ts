/** Functions and records of their runs as operators find them (specification functions.md sections 2, 3, 5.5 and 6). */
import { afterAll, beforeAll, expect, it } from 'vitest';
import { type Api, createApi, type Json } from '../../test/support/api.ts';
import { freePort } from '../../test/support/free-port.ts';
import { expectStatus } from '../../test/support/node.ts';
import { liftLimits } from '../../test/support/permissions.ts';
import { createTestPlatform, type TestPlatform } from '../../test/support/platform.ts';
import { waitFor } from '../../test/support/wait-for.ts';
import { invoke, upload } from './requests.ts';

let platform: TestPlatform;
let admin: Api;
let metrics: Api;
beforeAll(async () => {
  const metricsPort = await freePort();
  platform = await createTestPlatform({ env: { METRICS_PORT: String(metricsPort) } });
  metrics = createApi(`http://127.0.0.1:${metricsPort}`);
  admin = platform.admin;
  await liftLimits(admin);
});
afterAll(() => platform.close());

const nobody = '01a2076a-ba61-751f-b7c7-dd8e04f75135';
const configure = async (config: object): Promise<void> => {
  expectStatus(await admin.patch('/config/functions', { config }), 200, 'configure');
};
const runsOf = async (id: string, query: Readonly<Record<string, string>> = {}): Promise<Json[]> =>
  (await admin.get(`/functions/executions/${id}`, { query })).body.functionExecutions;

it('are listed by a part of their name or by id, in order and by pages', async () => {
  const [first] = [
    await upload(admin, { name: 'list_one', functionCode: 'return 1' }),
    await upload(admin, { name: 'list_two', functionCode: 'return 2' }),
    await upload(admin, { name: 'other', functionCode: 'return 3' }),
  ];
  const list = async (query: Readonly<Record<string, string>>) =>
    (await admin.get('/functions/', { query })).body;
  const page = await list({ search: 'LIST_', sort: '-name', limit: '1' });
  expect(page).toMatchObject({ functions: [{ name: 'list_two' }], count: 2 });
  const rest = await list({ search: 'list_', sort: '-name', skip: '1' });
  expect(rest.functions.map(({ name }: Json) => name)).toEqual(['list_one']);
  expect(await list({ search: first._id })).toMatchObject({ count: 1 });
  for (const query of ['limit=0', 'skip=-1', 'sort=size'])
    expect(await admin.get(`/functions?${query}`)).toMatchObject({ status: 400 });
  expect((await admin.get(`/functions/${first._id}`)).body).toMatchObject({ name: 'list_one' });
  for (const id of [nobody, 'none'])
    expect(await admin.get(`/functions/${id}`)).toMatchObject({ status: 404 });
});

it('have a name of their own, and keep their kind', async () => {
  const { _id } = await upload(admin, { name: 'mine', functionCode: 'return 1' });
  const taken = { status: 409, body: { code: 'FUNCTION_EXISTS', errors: [{ path: 'name' }] } };
  const given = { name: 'mine', functionType: 'cron', functionCode: 'return 2' };
  const inputs = { cronPattern: '@daily' };
  expect(await admin.post('/functions/upload', { ...given, inputs })).toMatchObject(taken);
  await upload(admin, { name: 'yours', functionCode: 'return 1' });
  expect(await admin.patch(`/functions/${_id}`, { name: 'yours' })).toMatchObject(taken);
  const other = { functionType: 'cron', name: 'still_mine' };
  expect((await admin.patch(`/functions/${_id}`, other)).status).toBe(400);
  await admin.patch(`/functions/${_id}`, { ...other, functionType: 'request' });
  const { body } = await admin.get(`/functions/${_id}`);
  expect(body).toMatchObject({ name: 'still_mine', functionType: 'request', version: 2 });
  expect((await platform.client.get('/functions/mine')).status).toBe(404);
});

it('are changed and deleted over the version that was seen, where it is said, and by ids in capitals', async () => {
  const { _id } = await upload(admin, { name: 'seen_once', functionCode: 'return 1' });
  const path = `/functions/${_id.toUpperCase()}`;
  const tag = (await admin.get(path)).headers.get('etag') ?? '';
  expect(tag).toMatch(/^"1-/);
  const headers = { 'if-match': tag };
  // Only one of many that have seen the same version is stored.
  const codes = Array.from({ length: 10 }, (_, at) => ({ functionCode: `return ${at + 2}` }));
  const answers = await Promise.all(codes.map((code) => admin.patch(path, code, { headers })));
  expect(answers.filter(({ status }) => status === 200)).toHaveLength(1);
  expect(answers.filter(({ status }) => status === 412)).toHaveLength(9);
  expect((await admin.get(path)).body.version).toBe(2);
  expect(await admin.delete(path, { headers })).toMatchObject({
    ...{ status: 412, body: { message: expect.stringContaining('version 2 now, not 1') } },
  });
  expect((await admin.patch(path, {}, { headers: { 'if-match': 'two' } })).status).toBe(400);
  expectStatus(await admin.put(`${path}/secrets/KEY`, { value: 'of capitals' }), 200, 'secret');
  const code = { functionCode: "return grpcSdk.secrets.get('KEY')" };
  expectStatus(await admin.patch(path, code, { headers: { 'if-match': '"2"' } }), 200, 'change');
  expect(await invoke(admin, _id, {})).toMatchObject({ result: 'of capitals' });
  expectStatus(await admin.delete(path, { headers: { 'if-match': '3' } }), 200, 'delete');
  expect((await admin.get(path)).status).toBe(404);
});

it('are deleted together, all of them or none', async () => {
  const [one, two] = [
    await upload(admin, { name: 'gone_one', functionCode: 'return 1' }),
    await upload(admin, { name: 'gone_two', functionCode: 'return 2' }),
  ];
  expect((await admin.delete(`/functions?ids=${one._id},${nobody}`)).status).toBe(404);
  expect((await platform.client.get('/functions/gone_one')).status).toBe(200);
  expect((await admin.delete('/functions')).status).toBe(400);
  const { body } = await admin.delete(`/functions?ids=${one._id},${two._id}`);
  expect(body).toEqual({ result: 'Deleted' });
  expect((await platform.client.get('/functions/gone_one')).status).toBe(404);
  expect((await admin.delete(`/functions/${two._id}`)).status).toBe(404);
});

it('leave records of their runs, which are found by outcome and by what the log and the error say', async () => {
  const { _id } = await upload(admin, {
    name: 'recorded',
    inputs: { method: 'GET', queryParams: { fail: 'Boolean' } },
    functionCode: `console.warn('needle in the log'); for (let i = 0; i < 200_000; i += 1) Math.sqrt(i);
      if (req.params.fail) throw new TypeError('pins and needles_');
      return 1`,
  });
  await platform.client.get('/functions/recorded');
  await platform.client.get('/functions/recorded?fail=true');
  const { body: all } = await admin.get('/functions/list/executions', { query: { limit: '2' } });
  expect(all.functionsExecutions).toHaveLength(2);
  expect(all.count).toBeGreaterThanOrEqual(2);
  const { body } = await admin.get(`/functions/executions/${_id}`);
  expect(body.functionsExecutions).toEqual(body.functionExecutions);
  expect(body.functionExecutions[0]).toMatchObject({
    ...{ serverlessFunction: _id, functionName: 'recorded', version: 1, trigger: 'request' },
    ...{ success: false, statusCode: 500, attempt: 1, userId: null, logs: ['needle in the log'] },
    error: { name: 'TypeError', message: 'pins and needles_', line: 2 },
  });
  for (const cost of ['duration', 'cpuMs'])
    expect(body.functionExecutions[1][cost]).toBeGreaterThan(0);
  const found = async (query: Readonly<Record<string, string>>) =>
    (await runsOf(_id, query)).map(({ success }) => success);
  expect(await found({ success: 'false' })).toEqual([false]);
  expect(await found({ success: 'true' })).toEqual([true]);
  expect(await found({ search: 'NEEDLE IN' })).toEqual([false, true]);
  expect(await found({ search: 'needles_' })).toEqual([false]);
  expect(await found({ search: 'needle%log' })).toEqual([]);
  expect(await found({ trigger: 'invoke' })).toEqual([]);
  const path = `/functions/executions/${_id}`;
  const first = (await admin.get(path, { query: { search: 'needle', limit: '1' } })).body;
  expect(first).toMatchObject({ count: 2, nextCursor: expect.any(String) });
  const rest = { search: 'needle', limit: '1', cursor: first.nextCursor };
  expect(await found(rest)).toEqual([true]);
  expect((await admin.get(path, { query: rest })).body.nextCursor).toBeNull();
  for (const wrong of ['success=no', 'cursor=no', `cursor=x_${_id}`])
    expect((await admin.get(`${path}?${wrong}`)).status).toBe(400);
});

it('run again what failed in a test run, with what it was given', async () => {
  const { _id } = await upload(admin, { name: 'tried', functionCode: 'return req.params.of.it' });
  const failed = await invoke(admin, _id, { params: { on: { it: 7 } } });
  expect(failed.error).toMatchObject({ name: 'TypeError' });
  const dry = await invoke(admin, _id, { params: {}, dryRun: true });
  await admin.patch(`/functions/${_id}`, { functionCode: 'return req.params.on.it' });
  const done = await invoke(admin, _id, { params: { on: { it: 1 } } });
  expect((await runsOf(_id)).map(({ retryable }) => retryable)).toEqual([false, false, true]);
  const retry = (id: string) => admin.post(`/functions/executions/${id}/retry`);
  expect((await retry(failed.executionId)).body).toMatchObject({ result: 7, status: 200 });
  expect((await runsOf(_id))[0]).toMatchObject({ trigger: 'retry', attempt: 2, success: true });
  for (const id of [dry.executionId, done.executionId, nobody, 'none'])
    expect(await retry(id)).toMatchObject({ status: 404, body: { code: 'EXECUTION_NOT_FOUND' } });
});

it('put back into its queue what failed there', async () => {
  await platform.createSchema({ name: 'Parcel', fields: { text: 'String' } });
  const { _id } = await upload(admin, {
    ...{ name: 'delivers', functionType: 'event', functionCode: "throw new Error('no van')" },
    inputs: { event: 'database:create:Parcel', attempts: 1 },
  });
  const inputDocument = { text: 'a' };
  expectStatus(await admin.post('/database/schemas/Parcel/docs', { inputDocument }), 200, 'parcel');
  const failure = await waitFor(async () =>
    (await runsOf(_id, { success: 'false' })).find(({ retryable }) => retryable),
  );
  await admin.patch(`/functions/${_id}`, { functionCode: 'return req.text' });
  const { body } = await admin.post(`/functions/executions/${failure._id}/retry`);
  expect(body).toMatchObject({ status: 202, result: { accepted: true, runId: failure.requestId } });
  await waitFor(async () => {
    const { body: run } = await admin.get(`/functions/queue/${body.result.runId}`);
    return run.state === 'done';
  });
});

it('keep secrets, of which nothing is told but when they were written', async () => {
  const { _id } = await upload(admin, { name: 'discreet', functionCode: 'return 1' });
  const path = `/functions/${_id}/secrets/KEY`;
  expect((await admin.get(path)).body).toMatchObject({ code: 'FUNCTION_SECRET_NOT_FOUND' });
  await admin.put(path, { value: 'hunter2-hunter2' });
  expect((await admin.get(path)).body).toEqual({ key: 'KEY', updatedAt: expect.any(String) });
  expect((await admin.delete(path)).body).toEqual({ result: 'Deleted' });
  expect((await admin.get(path)).status).toBe(404);
  expect((await admin.get(`/functions/${nobody}/secrets/KEY`)).status).toBe(404);
  expect((await admin.put(`/functions/${_id}/secrets/not-one`, { value: 'x' })).status).toBe(400);
});

it('are state by their name: an import changes the function that has it', async () => {
  const { _id } = await upload(admin, { name: 'exported', functionCode: 'return 1' });
  const { body: whole } = await admin.get('/state/export?modules=functions');
  const document = whole.modules.functions.functions.find(({ name }: Json) => name === 'exported');
  expect(document).toMatchObject({ functionCode: 'return 1' });
  const functions = [{ ...document, functionCode: 'return 2' }];
  const { formatVersion } = whole;
  const changed = { formatVersion, modules: { functions: { functions } } };
  expectStatus(await admin.post('/state/import', changed), 200, 'import');
  expect((await platform.client.get('/functions/exported')).body).toEqual({ result: 2 });
  expect((await admin.get(`/functions/${_id}`)).body).toMatchObject({ version: 2 });
});

it('have bounds that operators set', async () => {
  const { _id } = await upload(admin, {
    name: 'waits',
    functionCode: 'await new Promise((done) => setTimeout(done, 1_000)); return 1',
  });
  await configure({ limits: { maxConcurrencyPerFunction: 1 } });
  const answers = await Promise.all(
    Array.from({ length: 6 }, () => platform.client.get('/functions/waits')),
  );
  const busy = answers.find(({ status }) => status === 503);
  expect(busy?.body).toMatchObject({ code: 'FUNCTION_BUSY' });
  expect(busy?.headers.get('retry-after')).toBe('1');
  expect(answers.some(({ status }) => status === 200)).toBe(true);
  await upload(admin, {
    name: 'soonOver',
    functionCode: 'await new Promise((done) => setTimeout(done, 20)); return 1',
  });
  const call = async () => (await platform.client.get('/functions/soonOver')).status;
  expect([await call(), ...(await Promise.all([call(), call()]))]).toEqual([200, 200, 200]);
  await configure({ limits: { maxConcurrencyPerFunction: 50, maxTimeoutMs: 100 } });
  expect((await platform.client.get('/functions/waits')).status).toBe(504);
  await configure({ limits: { maxTimeoutMs: 180_000 }, egress: { allow: ['*.allowed.example'] } });
  await admin.patch(`/functions/${_id}`, {
    functionCode: "return (await fetch('https://allowed.example.org/')).status",
  });
  const { error } = await invoke(admin, _id, {});
  expect(error?.message).toBe('Functions may not call allowed.example.org');
  // What the operator forbids is no refusal of who asks.
  expect((await platform.client.get('/functions/waits')).status).toBe(500);
  await configure({ egress: { allow: [] } });
});

it('are measured', async () => {
  const { text } = await metrics.get('/metrics');
  const measured = new Set(text.split('\n').map((line) => line.split(/[ {]/, 1)[0]));
  for (const name of [
    ...['penstock_function_executions_total', 'penstock_function_duration_seconds_count'],
    ...['penstock_function_queue_lag_seconds_count', 'penstock_function_active'],
    ...['penstock_function_memory_bytes', 'penstock_executed_functions_total'],
    ...['penstock_function_execution_time_count', 'penstock_failed_functions_total'],
  ])
    expect([...measured]).toContain(name);
  expect(text).toContain('penstock_function_executions_total{name="recorded",kind="request"');
});

it('forget records from before a time, and record a part of what went well', async () => {
  const { _id } = await upload(admin, {
    name: 'sampled',
    functionCode: "if (req.params.fail) throw new Error('no'); return 1",
  });
  await configure({ retention: { successSample: 0 } });
  await invoke(admin, _id, {});
  await invoke(admin, _id, { params: { fail: true } });
  expect((await runsOf(_id)).map(({ success }) => success)).toEqual([false]);
  const prune = (before: string) => admin.delete('/functions/executions', { query: { before } });
  expect((await prune('yesterday')).status).toBe(400);
  expect((await prune('2020-01-01T00:00:00Z')).body).toEqual({ deleted: 0 });
  const { body } = await prune(new Date(Date.now() + 60_000).toISOString());
  expect(body.deleted).toBeGreaterThan(0);
  expect(await runsOf(_id)).toEqual([]);
});
