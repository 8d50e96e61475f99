/** Functions with declared input and output at every surface, and what is told of those that fail. */
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { Json } from '../../test/support/api.ts';
import { liftLimits } from '../../test/support/permissions.ts';
import { createTestPlatform, type TestPlatform } from '../../test/support/platform.ts';
import { waitFor } from '../../test/support/wait-for.ts';
import { upload } from './requests.ts';

let platform: TestPlatform;
let total: string;
beforeAll(async () => {
  platform = await createTestPlatform();
  await liftLimits(platform.admin);
  const { _id } = await upload(platform.admin, {
    name: 'total',
    inputs: { method: 'POST', bodyParams: { prices: { type: ['Number'], required: true } } },
    returns: { total: 'Number' },
    functionCode: 'return { total: req.params.prices.reduce((a, b) => a + b, 0), other: 1 }',
  });
  total = _id;
  await upload(platform.admin, {
    name: 'half',
    inputs: { method: 'GET', queryParams: { of: { type: 'Number', required: true } } },
    returns: { half: 'Number' },
    functionCode: 'return { half: req.params.of / 2 }',
  });
});
afterAll(() => platform.close());

it('describes them in OpenAPI', async () => {
  const { paths, components } = (await platform.client.get('/swagger.json')).body as Json;
  const text = JSON.stringify({ paths, components });
  const route = paths['/functions/total'].post;
  expect(JSON.stringify(route.requestBody) + text).toContain('prices');
  expect(Object.keys(route.responses)).toContain('200');
  const [{ $ref }] = paths['/functions/half'].get.parameters;
  const parameter = components.parameters[$ref.split('/').at(-1)];
  expect(parameter).toMatchObject({ name: 'of', in: 'query', required: true });
});

it('calls them by GraphQL, with types', async () => {
  const ask = async (query: string): Promise<Json> =>
    (await platform.client.post('/graphql', { query })).body as Json;
  const { data } = await ask(
    '{ __schema { queryType { fields { name } } mutationType { fields { name } } } }',
  );
  const names = (type: Json) => type.fields.map(({ name }: Json) => name);
  expect(names(data.__schema.queryType)).toContain('getFunctionsHalf');
  expect(names(data.__schema.mutationType)).toContain('postFunctionsTotal');
  expect((await ask('{ getFunctionsHalf(of: 5) { half } }')).data).toEqual({
    getFunctionsHalf: { half: 2.5 },
  });
  expect(
    (await ask('mutation { postFunctionsTotal(params: { prices: [1, 2] }) { total } }')).data,
  ).toEqual({ postFunctionsTotal: { total: 3 } });
  expect((await ask('{ getFunctionsHalf(of: 5) { other } }')).errors).toHaveLength(1);
});

it('lets agents run them, as the operator that they are', async () => {
  const message = {
    jsonrpc: '2.0',
    id: 1,
    method: 'tools/call',
    params: {
      name: 'post_functions_id_invoke',
      arguments: { id: total, params: { prices: [2, 3] } },
    },
  };
  const answer = await platform.admin.post('/mcp?modules=functions', message, {
    headers: { accept: 'application/json, text/event-stream' },
  });
  expect(answer.text).toContain('total');
  expect(answer.text).toMatch(/\\"total\\":\s*5|"total":5/);
});

const failuresOf = async (id: string): Promise<readonly Json[]> =>
  ((await platform.admin.get(`/functions/executions/${id}?success=false`)).body as Json)
    .functionExecutions;

it('records a result of another type as a failed run', async () => {
  const { _id } = await upload(platform.admin, {
    name: 'lying',
    returns: { total: 'Number' },
    functionCode: 'return { total: "many" }',
  });
  const answer = await platform.client.get('/functions/lying');
  expect([answer.status, answer.text.includes('many')]).toEqual([500, false]);
  expect(answer.body).toMatchObject({ code: 'FUNCTION_FAILED' });
  await waitFor(async () => (await failuresOf(_id)).length === 1);
  const [failure] = await failuresOf(_id);
  expect(failure).toMatchObject({
    success: false,
    statusCode: 500,
    error: { code: 'INVALID_RETURN', message: expect.stringContaining('result.total') },
  });
});

it('answers what the platform refused the caller, and hides what the function may not do', async () => {
  await platform.createSchema({
    name: 'Vault',
    fields: { text: 'String' },
    conduitOptions: {
      cms: { enabled: true, crudOperations: { read: { enabled: true, authenticated: true } } },
    },
  });
  const store = (name: string, functionCode: string, inputs: object = {}) =>
    upload(platform.admin, { name, functionCode, inputs: { method: 'GET', ...inputs } });
  const { _id } = await store('peek', "return ctx.call('GET /database/Vault')");
  const refused = await platform.client.get('/functions/peek');
  expect(refused.status).toBe(401);
  expect(refused.body).toMatchObject({ status: 401, name: 'UNAUTHORIZED' });
  await waitFor(async () => (await failuresOf(_id))[0]?.statusCode === 401);
  await store('calm', "try { await ctx.call('GET /database/Vault') } catch { return 'none' }");
  expect((await platform.client.get('/functions/calm')).text).toBe('{"result":"none"}');
  await store('bound', "return ctx.call('GET /database/Vault')", { capabilities: ['secrets'] });
  expect((await platform.client.get('/functions/bound')).status).toBe(500);
  await store('posing', "throw Object.assign(new Error('x'), { status: 403, code: 'FORBIDDEN' })");
  expect((await platform.client.get('/functions/posing')).status).toBe(500);
});

it('refuses a module without a default export, and takes every way to write one', async () => {
  const send = (name: string, functionCode: string) =>
    platform.admin.post('/functions/upload', {
      name,
      functionCode,
      functionType: 'request',
      inputs: { method: 'GET' },
    });
  const refused = await send('bare', 'export const run = () => 1;');
  expect(refused).toMatchObject({ status: 400 });
  expect(refused.body).toMatchObject({
    code: 'FUNCTION_CODE_INVALID',
    errors: [{ path: 'functionCode', message: expect.stringContaining('default export') }],
  });
  expect((await send('named', 'const run = () => 1;\nexport { run as default };')).status).toBe(
    200,
  );
  expect((await send('usual', 'export default () => 1;')).status).toBe(200);
  expect((await platform.client.get('/functions/named')).text).toBe('{"result":1}');
});
