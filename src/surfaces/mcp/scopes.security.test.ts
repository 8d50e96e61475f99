import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Json } from '../../../test/support/api.ts';
import { liftLimits } from '../../../test/support/permissions.ts';
import { createTestPlatform, type TestPlatform } from '../../../test/support/platform.ts';

describe('scopes of a token', () => {
  let platform: TestPlatform;

  beforeAll(async () => {
    platform = await createTestPlatform();
    await liftLimits(platform.admin);
  });
  afterAll(() => platform.close());

  const connect = async (token: string): Promise<Client> => {
    const client = new Client({ name: 'test', version: '1.0.0' });
    const address = new URL('/mcp?modules=all', platform.addresses.admin);
    await client.connect(
      new StreamableHTTPClientTransport(address, {
        requestInit: { headers: { credential: token } },
      }),
    );
    return client;
  };
  const createToken = async (more: Json): Promise<string> =>
    (await platform.admin.post('/api-tokens', { name: 'agent', ...more })).body.token;

  test('let a reading token see and do what reads, by tool and by route', async () => {
    const token = await createToken({ scopes: ['read'] });
    const client = await connect(token);
    const { tools } = await client.listTools();
    expect(tools.filter(({ annotations }) => annotations?.readOnlyHint === false)).toEqual([]);
    await expect(
      client.callTool({ name: 'post_apitokens', arguments: { name: 'more' } }),
    ).rejects.toMatchObject({ code: -32_602 });
    for (const [method, path] of [
      ['POST', '/api-tokens'],
      ['PATCH', '/config/core'],
      ['DELETE', '/admins/00000000-0000-7000-8000-000000000000'],
    ] as const) {
      expect((await platform.adminAnonymous.send(method, path, {}, { token })).body).toMatchObject({
        status: 403,
        code: 'SCOPE_EXCEEDED',
      });
    }
    expect((await platform.adminAnonymous.get('/config', { token })).status).toBe(200);
  });

  test('let a reading token see no secrets, whoever made it', async () => {
    const token = await createToken({ scopes: ['read'] });
    for (const path of [
      '/config?reveal=true',
      '/config/router?reveal=true',
      '/state/export?secrets=include',
    ]) {
      expect((await platform.adminAnonymous.get(path, { token })).body).toMatchObject({
        status: 403,
        code: 'SCOPE_EXCEEDED',
      });
      expect((await platform.admin.get(path)).status).toBe(200);
    }
  });

  test('keep a token within its modules', async () => {
    const token = await createToken({ scopes: ['authorization'] });
    expect((await platform.adminAnonymous.get('/authorization/resources', { token })).status).toBe(
      200,
    );
    expect((await platform.adminAnonymous.get('/database/schemas', { token })).status).toBe(403);
    expect(
      (await platform.adminAnonymous.post('/api-tokens', { name: 'wider' }, { token })).status,
    ).toBe(403);
  });

  test('are never widened: only a credential without scopes makes tokens', async () => {
    const token = await createToken({ scopes: ['core', 'write'] });
    for (const scopes of [['core', 'read'], ['core', 'write'], ['core', 'database'], undefined]) {
      const { body } = await platform.adminAnonymous.post(
        '/api-tokens',
        { name: 'next', scopes },
        { token },
      );
      expect(body).toMatchObject({ status: 403, code: 'SCOPE_EXCEEDED' });
    }
  });

  test('are known words', async () => {
    const refused = await platform.admin.post('/api-tokens', {
      name: 'odd',
      scopes: ['read', 'everything'],
    });
    expect(refused.body).toMatchObject({ status: 400, errors: [{ path: 'scopes.1' }] });
  });
});
