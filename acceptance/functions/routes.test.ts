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
      if (req.params.how === 'teapot') return res({ tea: true }, { status: 418, headers: { 'X-Tea': 'green' } });
      if (req.params.how === 'away') return res(null, { redirect: 'https://example.org/x' });
      if (req.params.how === 'moved') return res(null, { redirect: '/x', status: 308, headers: { 'x-tea': 'cold' } });
      if (req.params.how === 'no') ctx.reject(403, 'Not today', 'TEA_FORBIDDEN');
      throw new Error('secret detail');`,
  });
  const teapot = await platform.client.get('/functions/steered?how=teapot');
  expect(teapot.status).toBe(418);
  expect(teapot.headers.get('x-tea')).toBe('green');
  const away = await platform.client.get('/functions/steered?how=away');
  expect([away.status, away.headers.get('location')]).toEqual([302, 'https://example.org/x']);
  const moved = await platform.client.get('/functions/steered?how=moved');
  expect([moved.status, moved.headers.get('location'), moved.headers.get('x-tea')]).toEqual([
    ...[308, '/x', 'cold'],
  ]);
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

it('answers texts of other types as they are, and the same in GraphQL as a result', async () => {
  await upload(platform.admin, {
    name: 'feed',
    inputs: { method: 'GET' },
    functionCode: `return res('<feed>ä</feed>', {
      headers: { 'Content-Type': 'application/xml; charset=utf-8', 'Cache-Control': 'max-age=60' },
    });`,
  });
  const feed = await platform.client.get('/functions/feed');
  expect([feed.status, feed.text]).toEqual([200, '<feed>ä</feed>']);
  expect(feed.headers.get('content-type')).toBe('application/xml; charset=utf-8');
  expect(feed.headers.get('cache-control')).toBe('max-age=60');
  expect(feed.headers.get('x-content-type-options')).toBe('nosniff');
  await upload(platform.admin, {
    name: 'page',
    inputs: { method: 'GET' },
    functionCode: "res('<p>ä</p>', { headers: { 'content-type': 'text/html' } })",
  });
  const page = await platform.client.get('/functions/page');
  expect([page.text, page.headers.get('content-type')]).toEqual([
    ...['<p>ä</p>', 'text/html; charset=utf-8'],
  ]);
  const asked = await platform.client.post('/graphql', {
    query: '{ getFunctionsFeed { result } }',
  });
  expect(asked.body).toEqual({ data: { getFunctionsFeed: { result: '<feed>ä</feed>' } } });
});

it('answers files, and cookies that are safe', async () => {
  await upload(platform.admin, {
    name: 'filed',
    inputs: { method: 'GET', queryParams: { cookie: 'String' } },
    functionCode: `const cookies = [{ name: 'seen', value: req.params.cookie }];
      const headers = { 'Content-Disposition': 'attachment; filename="a.png"' };
      return res({ contentType: 'image/png', base64: 'AQID/w==' }, { cookies, headers });`,
  });
  const file = await fetch(new URL('/functions/filed?cookie=yes', platform.addresses.client));
  expect(file.headers.get('content-type')).toBe('image/png');
  expect(file.headers.get('content-disposition')).toBe('attachment; filename="a.png"');
  expect(file.headers.get('x-content-type-options')).toBe('nosniff');
  expect([...new Uint8Array(await file.arrayBuffer())]).toEqual([1, 2, 3, 255]);
  const cookie = file.headers.get('set-cookie');
  for (const part of [/^seen=yes;/, /; HttpOnly/, /; Secure/]) expect(cookie).toMatch(part);
  const split = await platform.client.get('/functions/filed?cookie=a%3B%20b');
  expect([split.status, split.headers.get('set-cookie')]).toEqual([500, null]);
  const functionCode = `res(1, { cookies: { seen: 'yes', colour: 'green' } })`;
  await upload(platform.admin, { name: 'named', functionCode });
  const { headers } = await platform.client.get('/functions/named');
  expect(headers.getSetCookie().map((one) => one.split(';', 1)[0])).toEqual([
    'seen=yes',
    'colour=green',
  ]);
});

it('leaves paths to the platform that are its own', async () => {
  for (const name of ['database', 'templates'])
    await upload(platform.admin, { name, functionCode: 'return 1' });
  expect((await platform.client.get('/functions/templates')).body).toEqual({ result: 1 });
  expect((await platform.client.get('/functions/database')).body).toEqual({ result: 1 });
  for (const path of ['/templates', '/database'])
    expect((await platform.client.get(path)).status).toBe(404);
});

it('takes messages at both paths of a webhook, from senders that are no registered app or user', async () => {
  await upload(platform.admin, {
    name: 'shipped',
    functionType: 'webhook',
    inputs: { method: 'PUT', auth: true, urlParams: { shop: 'String' } },
    functionCode: 'return [req.urlParams.shop, req.params.parcel, req.rawBody.length]',
  });
  const validate = (clientValidation: boolean) =>
    platform.admin.patch('/config/router', { security: { clientValidation } });
  await validate(true);
  try {
    expect((await platform.client.get('/functions/templates')).status).toBe(401);
    for (const path of ['/hook/functions/shipped/s1', '/hook/shipped/s1'])
      expect((await platform.client.put(path, { parcel: 4 })).body).toEqual({
        result: ['s1', 4, 12],
      });
  } finally {
    await validate(false);
  }
});

it('refuses a message that is to be stored and cannot be', async () => {
  await upload(platform.admin, {
    name: 'kept',
    functionType: 'webhook',
    inputs: { method: 'POST', async: true },
    functionCode: 'return null',
  });
  const send = (body: string, type = 'text/plain') =>
    fetch(`${platform.addresses.client}/hook/functions/kept`, {
      method: 'POST',
      headers: { 'content-type': type },
      body,
    });
  expect((await send('plain')).status).toBe(202);
  for (const [body, type] of [
    ['a\0b', 'text/plain'],
    ['a=%00', 'application/x-www-form-urlencoded'],
    ['{"a":"\\u0000"}', 'application/json'],
    ['{"a":{"\\ud800":1}}', 'application/json'],
  ] as const) {
    const answer = await send(body, type);
    expect([type, answer.status, await answer.json()]).toMatchObject([
      type,
      400,
      { errors: [expect.anything()] },
    ]);
  }
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

/** Sends messages as Standard Webhooks does, signed with `secret-key` unless told otherwise. */
const standardSender =
  (path: string) =>
  (id: string, body: string, secret = 'secret-key', at = Date.now()) => {
    const time = String(Math.floor(at / 1_000));
    const digest = createHmac('sha256', secret).update(`${id}.${time}.${body}`).digest('base64');
    return fetch(new URL(path, platform.addresses.client), {
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
  const send = standardSender('/hook/paid');
  const body = '{ "amount": 5 }';
  const first = await send('m1', body);
  expect([first.status, await first.json()]).toEqual([200, { result: { raw: body, amount: 5 } }]);
  expect((await send('m1', body)).status).toBe(409);
  expect((await send('m2', body, 'other-key')).status).toBe(401);
  expect((await send('m3', body, 'secret-key', Date.now() - 3_600_000)).status).toBe(401);
  const unsigned = await platform.client.post('/hook/functions/paid', { amount: 5 });
  expect(unsigned.status).toBe(401);
});

it('takes a message again that was answered with an error, and one of fifty equal ones', async () => {
  const { _id } = await upload(platform.admin, {
    ...{ name: 'fragile', functionType: 'webhook', functionCode: "throw new Error('not today')" },
    inputs: {
      ...{ method: 'POST', bodyParams: { amount: { type: 'Number', required: true } } },
      signature: { scheme: 'standard-webhooks', secret: 'SIGNING' },
    },
  });
  const change = (functionCode: string) =>
    platform.admin.patch(`/functions/${_id}`, { functionCode });
  await platform.admin.put(`/functions/${_id}/secrets/SIGNING`, {
    value: 'whsec_c2VjcmV0LWtleQ==',
  });
  const send = standardSender('/hook/fragile');
  const statusOf = async (id: string, body = '{"amount":5}') => (await send(id, body)).status;
  expect([await statusOf('f1'), await statusOf('f1')]).toEqual([500, 500]);
  expect([await statusOf('f2', '{}'), await statusOf('f2', '{}')]).toEqual([400, 400]);
  await change('res({ later: true }, { status: 503 })');
  expect([await statusOf('f1'), await statusOf('f1')]).toEqual([503, 503]);
  await change('return req.bodyParams.amount');
  expect([await statusOf('f1'), await statusOf('f1')]).toEqual([200, 409]);
  const all = await Promise.all(Array.from({ length: 50 }, () => statusOf('f3')));
  expect(all.toSorted((one, other) => one - other)).toEqual([200, ...Array(49).fill(409)]);
});

it('takes digests of the body as others write them, with and without a time', async () => {
  const store = async (name: string, signature: object) => {
    const { _id } = await upload(platform.admin, {
      ...{ name, functionType: 'webhook', functionCode: 'return req.bodyParams.n' },
      inputs: { method: 'POST', signature: { scheme: 'hmac-sha256', secret: 'KEY', ...signature } },
    });
    return _id;
  };
  const send = (name: string, headers: Readonly<Record<string, string>>) =>
    platform.client.post(`/hook/${name}`, '{"n":1}', { headers });
  const digest = (text: string, format: 'hex' | 'base64', key = 'k-1') =>
    createHmac('sha256', key).update(text).digest(format);
  const plain = await store('pushed', { header: 'X-Hub-Signature-256', prefix: 'sha256=' });
  const right = { 'x-hub-signature-256': `sha256=${digest('{"n":1}', 'hex')}` };
  // Until its secret is there, it takes nothing.
  expect((await send('pushed', right)).status).toBe(401);
  await platform.admin.put(`/functions/${plain}/secrets/KEY`, { value: 'k-1' });
  expect((await send('pushed', right)).body).toEqual({ result: 1 });
  for (const value of [digest('{"n":1}', 'hex'), `sha256=${digest('{"n":1}', 'hex', 'k-2')}`, ''])
    expect((await send('pushed', { 'x-hub-signature-256': value })).status).toBe(401);
  const facts = { header: 'x-sign', format: 'base64', timestampHeader: 'x-time' };
  const timed = await store('timed', { ...facts, toleranceSec: 60 });
  await platform.admin.put(`/functions/${timed}/secrets/KEY`, { value: 'k-1' });
  const signed = (seconds: number) => ({
    'x-time': String(seconds),
    'x-sign': digest(`${seconds}.{"n":1}`, 'base64'),
  });
  const now = Math.floor(Date.now() / 1_000);
  expect((await send('timed', signed(now))).status).toBe(200);
  expect((await send('timed', signed(now))).status).toBe(409);
  expect((await send('timed', signed(now - 600))).status).toBe(401);
  expect((await send('timed', { ...signed(now - 1), 'x-time': String(now) })).status).toBe(401);
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

it.each([
  ['a status of an error', `res({ message: 'no' }, { status: 403 });`],
  ['a redirection', `res(null, { redirect: '/login' });`],
  ['false', 'return false'],
  ['a list', 'return []'],
])('lets nobody pass whom a middleware may have meant to refuse: %s', async (_what, code) => {
  const name = `refuses_${Math.random().toString(36).slice(2)}`;
  const { _id } = await upload(platform.admin, {
    ...{ name, functionType: 'middleware', inputs: {}, functionCode: code },
  });
  await upload(platform.admin, { name: `behind_${name}`, functionCode: 'return 1' });
  const route = `path=/functions/behind_${name}&action=GET`;
  const list = await platform.admin.get(`/router/route-middlewares?${route}`);
  const { middlewares } = list.body as { middlewares: string[] };
  await platform.admin.patch(`/router/patch-middleware?${route}`, {
    middlewares: [...middlewares, name],
  });
  expect(await platform.client.get(`/functions/behind_${name}`)).toMatchObject({ status: 500 });
  const { body } = await platform.admin.get(`/functions/executions/${_id}`);
  expect(body.functionExecutions[0].error.message).toContain('ctx.reject or a throw');
});
