/** Functions as clients reach them: requests, webhooks and middlewares (specification functions.md sections 1 and 5). */
import { createHmac } from 'node:crypto';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { liftLimits } from '../../test/support/permissions.ts';
import { createTestPlatform, type TestPlatform } from '../../test/support/platform.ts';
import { upload } from './requests.ts';

let platform: TestPlatform;
beforeAll(async () => {
  platform = await createTestPlatform();
  await liftLimits(platform.admin);
});
afterAll(() => platform.close());

it('serves a request function under both paths, typed, until it is deleted', async () => {
  const { _id } = await upload(platform.admin, {
    name: 'sum',
    functionCode: 'return { params: req.params, url: req.urlParams, path: req.path }',
    inputs: {
      method: 'POST',
      urlParams: { left: { type: 'Number', required: true } },
      bodyParams: { right: { type: 'Number', required: true }, tags: ['String'] },
      queryParams: { loud: 'Boolean' },
    },
  });
  const answer = await platform.client.post('/functions/sum/4?loud=false', { right: 5, other: 1 });
  expect(answer).toMatchObject({ status: 200 });
  expect(answer.body).toEqual({
    result: {
      params: { right: 5, loud: false, left: 4 },
      url: { left: 4 },
      path: '/functions/sum/:left',
    },
  });
  expect(await platform.client.post('/sum/4', { right: 5 })).toMatchObject({ status: 200 });
  expect(await platform.client.post('/functions/sum/x', { right: '5' })).toMatchObject({
    status: 400,
  });
  await platform.admin.delete(`/functions/${_id}`);
  expect(await platform.client.post('/functions/sum/4', { right: 5 })).toMatchObject({
    status: 404,
  });
  expect(await platform.client.post('/sum/4', { right: 5 })).toMatchObject({ status: 404 });
});

it.each([
  ['omitted', undefined, 'return { a: 1 }', '{"result":{"a":1}}'],
  ['omitted, nothing returned', undefined, 'return undefined', '{}'],
  ['String', 'String', 'res("hi")', '{"result":"hi"}'],
  ['keys', { a: 'Number', b: 'String' }, 'res({ a: 1, b: "x", secret: 2 })', '{"a":1,"b":"x"}'],
  ['a missing key', { a: 'Number', b: 'String' }, 'return { a: 1 }', '{"a":1}'],
  ['nested keys', { a: { b: 'Number' } }, 'return { a: { b: 1, c: 2 } }', '{"a":{"b":1}}'],
] as const)('maps what is returned: %s', async (_what, returns, functionCode, wire) => {
  const name = `map_${Math.random().toString(36).slice(2)}`;
  await upload(platform.admin, { name, functionCode, ...(returns !== undefined && { returns }) });
  const answer = await platform.client.get(`/functions/${name}`);
  expect([answer.status, answer.text]).toEqual([200, wire]);
});

it('answers what the code says about status, headers and redirects, and refuses with ctx.reject', async () => {
  await upload(platform.admin, {
    name: 'steered',
    inputs: { method: 'GET', queryParams: { how: 'String' } },
    functionCode: `
      if (req.params.how === 'teapot') return res({ tea: true }, { status: 418, headers: { 'X-Tea': 'green', 'Set-Cookie': 'a=b' } });
      if (req.params.how === 'away') return res(null, { redirect: 'https://example.org/x' });
      if (req.params.how === 'no') ctx.reject(403, 'Not today', 'TEA_FORBIDDEN');
      throw new Error('secret detail');`,
  });
  const teapot = await platform.client.get('/functions/steered?how=teapot');
  expect(teapot.status).toBe(418);
  expect(teapot.headers.get('x-tea')).toBe('green');
  expect(teapot.headers.get('set-cookie')).toBeNull();
  const refused = await platform.client.get('/functions/steered?how=no');
  expect(refused.body).toMatchObject({ status: 403, code: 'TEA_FORBIDDEN', message: 'Not today' });
  const failed = await platform.client.get('/functions/steered');
  expect(failed.body).toMatchObject({
    name: 'INTERNAL_SERVER_ERROR',
    status: 500,
    message: 'Execution failed',
  });
  expect(failed.text).not.toContain('secret detail');
});

it('knows who asks, and asks for a user where it says so', async () => {
  await upload(platform.admin, {
    name: 'mine',
    inputs: { method: 'GET', auth: true },
    functionCode:
      'return { id: req.context.user._id, kind: ctx.caller.kind, token: req.headers.authorization ?? null }',
  });
  expect(await platform.client.get('/functions/mine')).toMatchObject({ status: 401 });
  const user = await platform.registerUser();
  const answer = await platform.client.get('/functions/mine', {
    headers: { authorization: `Bearer ${user.accessToken}` },
  });
  expect(answer.body).toEqual({ result: { id: user.userId, kind: 'user', token: null } });
});

it('takes messages with a valid signature once, and no others', async () => {
  const { _id } = await upload(platform.admin, {
    name: 'paid',
    functionType: 'webhook',
    inputs: { method: 'POST', signature: { scheme: 'standard-webhooks', secret: 'SIGNING' } },
    functionCode: 'return { raw: req.rawBody, amount: req.bodyParams.amount }',
  });
  await platform.admin.put(`/functions/${_id}/secrets/SIGNING`, {
    value: 'whsec_c2VjcmV0LWtleQ==',
  });
  const send = (id: string, body: string, secret = 'secret-key', at = Date.now()) => {
    const time = String(Math.floor(at / 1_000));
    const digest = createHmac('sha256', secret).update(`${id}.${time}.${body}`).digest('base64');
    return fetch(new URL('/hook/paid', platform.addresses.client), {
      method: 'POST',
      body,
      headers: {
        'content-type': 'application/json',
        'webhook-id': id,
        'webhook-timestamp': time,
        'webhook-signature': `v1,${digest}`,
      },
    });
  };
  const body = '{ "amount": 5 }';
  const first = await send('m1', body);
  expect([first.status, await first.json()]).toEqual([200, { result: { raw: body, amount: 5 } }]);
  expect((await send('m1', body)).status).toBe(409);
  expect((await send('m2', body, 'other-key')).status).toBe(401);
  expect((await send('m3', body, 'secret-key', Date.now() - 3_600_000)).status).toBe(401);
  const unsigned = await platform.client.post('/hook/functions/paid', { amount: 5 });
  expect(unsigned.status).toBe(401);
});

it('runs before a route as a middleware, and lets nobody pass when it is gone', async () => {
  const { _id } = await upload(platform.admin, {
    name: 'onlyGreen',
    functionType: 'middleware',
    inputs: {},
    functionCode: `if (req.headers['x-colour'] !== 'green') ctx.reject(403, 'Only green'); return { colour: 'green' }`,
  });
  await upload(platform.admin, { name: 'guarded', functionCode: 'return req.context.colour' });
  const route = '/router/patch-middleware?path=/functions/guarded&action=GET';
  const list = await platform.admin.get(
    '/router/route-middlewares?path=/functions/guarded&action=GET',
  );
  const { middlewares } = list.body as { middlewares: string[] };
  const patched = await platform.admin.patch(route, { middlewares: [...middlewares, 'onlyGreen'] });
  expect(patched.status).toBe(200);
  const green = { headers: { 'x-colour': 'green' } };
  expect(await platform.client.get('/functions/guarded')).toMatchObject({ status: 403 });
  expect((await platform.client.get('/functions/guarded', green)).body).toEqual({
    result: 'green',
  });
  await platform.admin.delete(`/functions/${_id}`);
  expect(await platform.client.get('/functions/guarded', green)).toMatchObject({ status: 503 });
  await platform.admin.patch(route, { middlewares });
  expect(await platform.client.get('/functions/guarded')).toMatchObject({ status: 200 });
});
