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
