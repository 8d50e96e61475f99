/** A platform that other machines can call is closed unless its operator has said otherwise: the documents, introspection, first passwords. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Api, Json } from '../test/support/api.ts';
import { createTestDatabase, type TestDatabase } from '../test/support/database.ts';
import {
  createTestNode,
  type TestNode,
  testAdminPassword,
  testMasterKey,
} from '../test/support/node.ts';
import { launchPlatform, type PlatformProcess } from '../test/support/spawn.ts';
import { waitFor } from '../test/support/wait-for.ts';

/** Loopback in a spelling that only the resolver knows. To the platform it is a name like any other, and nothing is opened beyond this machine. */
const HOST = '127.1';

describe('a first start on a HOST beyond loopback', () => {
  let database: TestDatabase;
  let launched: PlatformProcess;
  let node: TestNode;

  beforeAll(async () => {
    database = await createTestDatabase({ server: 'embedded' });
    launched = await launchPlatform({ env: { HOST, NODE_ENV: '', DATABASE_URL: database.url } });
    node = createTestNode(launched.addresses, {
      masterKey: testMasterKey,
      adminPassword: testAdminPassword,
    });
    await waitFor(() => /Stop it with Ctrl-C/.test(launched.stdout()), {
      timeoutMs: 100_000,
      what: `the banner; stderr: ${launched.stderr()}`,
    });
  }, 120_000);
  afterAll(async () => {
    await launched?.dispose();
    await database?.drop();
  });

  const introspect = async (): Promise<number> =>
    (await node.client.post('/graphql', { query: '{ __schema { queryType { name } } }' })).status;
  const openness = async (): Promise<Json> => ({
    documents: (await node.adminAnonymous.get('/swagger.json')).status,
    viewer: (await node.adminAnonymous.get('/reference')).status,
    introspection: await introspect(),
  });
  const closed = { documents: 401, viewer: 401, introspection: 400 };
  const open = { documents: 200, viewer: 200, introspection: 200 };
  const choose = (env: string | null) => node.admin.patch('/config/core', { env });

  it('says what it chose and how to choose otherwise', () => {
    expect(launched.stdout()).toMatch(
      /Environment +production, as HOST=127\.1 lets other machines call: .*NODE_ENV=development or core\.env/,
    );
  });

  it('keeps documents, viewer and introspection to those with a credential', async () => {
    expect(await openness()).toEqual(closed);
    for (const path of ['/swagger.json', '/reference'])
      expect((await node.admin.get(path)).status).toBe(200);
    expect((await node.admin.get('/config/core')).body.config.env).toBe('production');
  });

  it('lets nobody work with the first password', async () => {
    const session = (token: string): Parameters<Api['get']>[1] => ({
      headers: { authorization: `Bearer ${token}` },
    });
    const token = await node.adminLogin();
    expect(await node.adminAnonymous.get('/admins', session(token))).toMatchObject({
      status: 403,
      body: { code: 'PASSWORD_CHANGE_REQUIRED' },
    });
  });

  it('does what the operator says instead, and closes when that is taken back', async () => {
    expect((await choose('development')).status).toBe(200);
    expect(await openness()).toEqual(open);
    expect((await choose(null)).body.config.env).toBe('production');
    expect(await openness()).toEqual(closed);
  });
});
