/** Every example of docs/guides/functions.md, stored and run as it stands there. */
import { createHmac } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { liftLimits } from '../../test/support/permissions.ts';
import { createTestPlatform, type TestPlatform } from '../../test/support/platform.ts';
import { waitFor } from '../../test/support/wait-for.ts';
import { connect } from '../realtime/clients.ts';
import { upload } from './requests.ts';

const guide = readFileSync(new URL('../../docs/guides/functions.md', import.meta.url), 'utf8');
const example = /<!-- function: (\{.*\}) -->\n```[jt]s\n([\s\S]*?)\n```/g;

interface Example {
  readonly name: string;
  readonly functionType: string;
  readonly functionCode: string;
}

let platform: TestPlatform;
const ids = new Map<string, string>();
beforeAll(async () => {
  platform = await createTestPlatform();
  await liftLimits(platform.admin);
  await platform.createSchema({
    name: 'Note',
    fields: { text: { type: 'String', required: true } },
    conduitOptions: { cms: { enabled: true, crudOperations: allOperations } },
  });
  for (const { functionType, ...given } of examples())
    if (functionType !== 'hook') await store({ functionType, ...given });
});
afterAll(() => platform.close());

const examples = (): readonly Example[] =>
  [...guide.matchAll(example)].map(([, facts = '', functionCode = '']) => ({
    ...{ inputs: {}, ...(JSON.parse(facts) as Omit<Example, 'functionCode'>), functionCode },
  }));
const store = async (given: Example) => {
  const { _id } = await upload(platform.admin, given);
  ids.set(given.name, _id);
};

const operation = { enabled: true, authenticated: false };
const allOperations = { create: operation, read: operation, update: operation, delete: operation };

it('has an example of each kind', () => {
  expect(examples().map(({ name }) => name)).toEqual([
    ...['greet', 'total', 'add_note', 'paid', 'vote', 'only_green', 'members', 'footer'],
  ]);
});

it('greets', async () => {
  expect((await platform.client.get('/functions/greet?name=Ann')).text).toBe(
    '{"result":{"hello":"Ann"}}',
  );
  expect((await platform.client.get('/greet')).text).toBe('{"result":{"hello":"world"}}');
});

it('adds', async () => {
  const answer = await platform.client.post('/functions/total', { prices: [1, 2, 3.5] });
  expect(answer.text).toBe('{"total":6.5}');
  const wrong = await platform.client.post('/functions/total', { prices: ['1'] });
  expect(wrong.status).toBe(400);
});

it('keeps a note of who asks', async () => {
  const user = await platform.registerUser();
  const headers = { authorization: `Bearer ${user.accessToken}` };
  expect(await platform.client.post('/functions/add_note', { text: 'x' })).toMatchObject({
    status: 401,
  });
  const first = await platform.client.post('/functions/add_note', { text: 'a' }, { headers });
  expect(first.body).toEqual({ result: { count: 1 } });
});

it('takes a signed message', async () => {
  await platform.admin.put(`/functions/${ids.get('paid')}/secrets/SIGNING_SECRET`, {
    value: 'whsec_c2VjcmV0LWtleQ==',
  });
  const body = '{"orderId":"o1"}';
  const time = String(Math.floor(Date.now() / 1_000));
  const digest = createHmac('sha256', 'secret-key').update(`m1.${time}.${body}`).digest('base64');
  const answer = await fetch(new URL('/hook/functions/paid', platform.addresses.client), {
    method: 'POST',
    body,
    headers: {
      'content-type': 'application/json',
      'webhook-id': 'm1',
      'webhook-timestamp': time,
      'webhook-signature': `v1,${digest}`,
    },
  });
  expect(await answer.json()).toEqual({ result: { received: 'o1' } });
});

it('counts votes over sockets', async () => {
  const user = await platform.registerUser();
  const { socket, heard, ask } = await connect(platform, user, { namespace: '/vote' });
  expect(await ask('vote', { room: 'kitchen', choice: 'milk' })).toMatchObject({
    ok: false,
    error: { status: 400, code: 'CHOICE_UNKNOWN' },
  });
  expect(await ask('vote', { room: 'kitchen', choice: 'tea' })).toEqual({ ok: true });
  expect(heard.map(({ event }) => event)).toEqual(['conduit_error']);
  socket.disconnect();
});

it('stands before a route', async () => {
  const route = 'path=/functions/greet&action=GET';
  const { body } = await platform.admin.get(`/router/route-middlewares?${route}`);
  const { middlewares } = body as { readonly middlewares: readonly string[] };
  await platform.admin.patch(`/router/patch-middleware?${route}`, {
    middlewares: [...middlewares, 'only_green'],
  });
  expect(await platform.client.get('/functions/greet')).toMatchObject({ status: 403 });
  const green = { headers: { 'x-colour': 'green' } };
  expect(await platform.client.get('/functions/greet', green)).toMatchObject({ status: 200 });
});

it('stands before sign-ins and messages', async () => {
  for (const given of examples()) if (given.functionType === 'hook') await store(given);
  const password = 'a long enough passphrase 7';
  const signIn = async (email: string) => {
    await platform.admin.post('/authentication/users', { email, password });
    // A hook that has no time to answer on a busy machine refuses, with 503.
    return waitFor(async () => {
      const answer = await platform.client.post('/authentication/local', { email, password });
      return answer.status < 500 ? answer : undefined;
    });
  };
  expect(await signIn('ann@left.example')).toMatchObject({
    status: 403,
    body: { code: 'MEMBER_LEFT', message: 'You are no member any more' },
  });
  const { accessToken } = (await signIn('ann@corp.example')).body;
  const payload = Buffer.from(accessToken.split('.')[1] ?? '', 'base64url').toString();
  expect(JSON.parse(payload)).toMatchObject({ claims: { via: 'local', host: 'corp.example' } });
  const news = { sender: 'us@corp.example', subject: 'News', body: '<p>Hello</p>' };
  const sent = await platform.admin.post('/email/send', { email: 'bob@corp.example', ...news });
  expect(sent).toMatchObject({ status: 200 });
  const query = { recipient: 'bob@corp.example', status: 'captured' };
  const id = await waitFor(
    async () =>
      (await platform.admin.get('/communications/messages', { query })).body.messages[0]?._id,
  );
  const { content } = (await platform.admin.get(`/communications/messages/${id}`)).body;
  expect(content.html).toContain('<p>Hello</p><p>You have an account with us.</p>');
});
