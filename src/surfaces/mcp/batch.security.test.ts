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
