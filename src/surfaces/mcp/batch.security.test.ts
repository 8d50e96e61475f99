/** Many calls in one request: https://cwe.mitre.org/data/definitions/770.html (batches past a limit: Parse GHSA-775h-3xrc-c228). */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { createTestPlatform, type TestPlatform } from '../../../test/support/platform.ts';

let platform: TestPlatform;
beforeAll(async () => {
  platform = await createTestPlatform();
});
afterAll(() => platform?.close());

const send = async (name: string) => {
  const { token } = (await platform.admin.post('/api-tokens', { name, scopes: ['read'] })).body;
  return (length: number, method: string) =>
    platform.adminAnonymous.post(
      '/mcp',
      Array.from({ length }, (_, id) => ({ jsonrpc: '2.0', id, method })),
      { headers: { credential: token } },
    );
};

test('every message of a batch counts, whatever it asks for', async () => {
  const one = await send('one');
  expect((await one(61, 'tools/list')).status).toBe(429);
  const another = await send('another');
  expect((await another(40, 'ping')).body).toHaveLength(40);
  expect((await another(40, 'ping')).status).toBe(429);
});

test('with one Idempotency-Key, calls of one tool are different calls, and sent again the same ones', async () => {
  const api = platform.admin.with({ 'idempotency-key': 'batch-1' });
  const users = ['a', 'b'].map((name, id) => ({
    ...{ jsonrpc: '2.0', id, method: 'tools/call' },
    params: {
      name: 'post_authentication_users',
      arguments: { email: `${name}@batch.example`, password: 'correct horse battery staple' },
    },
  }));
  const call = async () =>
    (await api.post('/mcp?modules=authentication', users)).body.map(
      ({ result }: { result: { structuredContent: { data?: { user: object } } } }) =>
        result.structuredContent.data?.user,
    );
  const made = await call();
  expect(made).toMatchObject([{ email: 'a@batch.example' }, { email: 'b@batch.example' }]);
  expect(await call()).toEqual(made);
});

test('a request that is cancelled beside itself is answered, and keeps no place', async () => {
  const ping = { jsonrpc: '2.0', id: 1, method: 'ping' };
  const cancelled = (requestId: number) => ({
    ...{ jsonrpc: '2.0', method: 'notifications/cancelled' },
    params: { requestId },
  });
  const rpc = (body: unknown) => platform.admin.post('/mcp', body);
  expect((await rpc([ping, cancelled(1)])).body).toMatchObject({ id: 1, result: {} });
  const two = await rpc([ping, cancelled(1), { ...ping, id: 2 }, cancelled(2)]);
  expect(two.body).toMatchObject([{ id: 1 }, { id: 2 }]);
  expect((await rpc([cancelled(1)])).status).toBe(202);
});

test('requests with one id are refused before one of them runs', async () => {
  const user = (id: unknown, name: string) => ({
    ...{ jsonrpc: '2.0', id, method: 'tools/call' },
    params: {
      name: 'post_authentication_users',
      arguments: { email: `${name}@ids.example`, password: 'correct horse battery staple' },
    },
  });
  const send = (...messages: readonly object[]) =>
    platform.admin.post('/mcp?modules=authentication', messages);
  const refused = await send(user(1, 'a'), { ...user(2, 'b') }, user(1, 'c'));
  expect(refused).toMatchObject({ status: 400, body: { id: null, error: { code: -32_600 } } });
  const { body } = await platform.admin.get('/authentication/users', {
    query: { search: 'ids.example' },
  });
  expect(body.users).toEqual([]);
  // A number and its text differ, and notifications have none.
  const told = { jsonrpc: '2.0', method: 'notifications/initialized' };
  const answered = await send(user(1, 'a'), told, user('1', 'b'), told);
  expect(answered.body.map(({ id }: { id: unknown }) => id)).toEqual([1, '1']);
  expect((await send(user(null, 'd'), user(null, 'e'))).status).toBe(400);
});
