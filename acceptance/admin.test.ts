/** The admin surface of core: credentials, tokens, health, configuration (interface 4.9; spec/core.md 15, items 1 to 4). */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Json } from '../test/support/api.ts';
import { expectStatus } from '../test/support/node.ts';
import { createTestPlatform, type TestPlatform } from '../test/support/platform.ts';
import { describeWithRedis, startTestRedis } from '../test/support/servers/fixtures.ts';
import { waitFor } from '../test/support/wait-for.ts';

describe('the admin surface', () => {
  let platform: TestPlatform;
  let token: string;
  beforeAll(async () => {
    platform = await createTestPlatform();
    token = await platform.adminLogin();
  });
  afterAll(() => platform.close());

  const newToken = async (
    name: string,
    headers: Record<string, string> = { masterkey: platform.masterKey },
  ): Promise<Json> =>
    expectStatus(
      await platform.adminAnonymous.post('/api-tokens', { name }, { headers }),
      200,
      'api token',
    ).body;

  it('opens with each of the three credentials alone', async () => {
    const apiToken = await newToken('automation');
    const headers: Record<string, string>[] = [
      { masterkey: platform.masterKey },
      { authorization: `Bearer ${token}` },
      { credential: apiToken.token },
      { authorization: `Bearer ${apiToken.token}` },
    ];
    for (const credential of headers)
      expectStatus(
        await platform.adminAnonymous.get('/config', { headers: credential }),
        200,
        Object.keys(credential).join(),
      );
  });

  it.each([
    ['none', {}],
    ['an empty master key', { masterkey: '' }],
    ['a wrong master key', { masterkey: 'wrong' }],
    ['a bearer that is not one', { authorization: 'Bearer nonsense' }],
    ['an unknown api token', { credential: `cdt_${'A'.repeat(43)}` }],
  ])('stays closed with %s', async (_, headers) => {
    const answer = await platform.adminAnonymous.get('/config', { headers });
    expect(answer.status).toBe(401);
    expect(answer.body).toMatchObject({
      name: 'UNAUTHORIZED',
      status: 401,
      message: expect.any(String),
      error: expect.any(String),
    });
  });

  it('believes no credential beside a wrong one', async () => {
    const authorization = `Bearer ${token}`;
    expect(
      (
        await platform.adminAnonymous.get('/config', {
          headers: { masterkey: 'wrong', authorization },
        })
      ).status,
    ).toBe(401);
    expect(
      (await platform.admin.get('/config', { headers: { authorization: 'Bearer nonsense' } }))
        .status,
    ).toBe(401);
    const login = { username: 'admin', password: platform.adminPassword };
    expect(
      (
        await platform.adminAnonymous.post('/login', login, {
          headers: { authorization: 'Bearer cdt_garbage' },
        })
      ).status,
    ).toBe(401);
  });

  it('takes no user token, and the client surface no admin token', async () => {
    const user = await platform.registerUser();
    expect((await platform.adminAnonymous.get('/config', { token: user.accessToken })).status).toBe(
      401,
    );
    expect((await platform.client.get('/authentication/user', { token })).status).toBe(401);
  });

  it('shows an api token once, lists its prefix, and revokes it for its owner only', async () => {
    const mine = await newToken('mine');
    expect(mine.token).toMatch(/^cdt_[A-Za-z0-9_-]{43}$/);
    const { text, body } = await platform.admin.get('/api-tokens');
    expect(text).not.toContain(mine.token);
    const listed = body.tokens.find(({ name }: Json) => name === 'mine');
    expect(listed.tokenPrefix).toBe(mine.token.slice(0, 12));
    expect(listed).not.toHaveProperty('token');

    expectStatus(
      await platform.admin.post('/admins', { username: 'second', password: 'Second-Admin-77' }),
      200,
      'second admin',
    );
    const secondLogin = await platform.admin.post('/login', {
      username: 'second',
      password: 'Second-Admin-77',
    });
    const second = { authorization: `Bearer ${secondLogin.body.token}` };
    expect(
      (await platform.adminAnonymous.delete(`/api-tokens/${listed._id}`, { headers: second }))
        .status,
    ).toBe(404);
    expect((await platform.admin.delete(`/api-tokens/${listed._id}`)).status).toBe(200);
    expect(
      (await platform.adminAnonymous.get('/config', { headers: { credential: mine.token } }))
        .status,
    ).toBe(401);
  });

  it('reports health as JSON, or as text to old clients', async () => {
    const live = await platform.adminAnonymous.get('/live');
    expect(live.body).toMatchObject({ status: 'alive', message: expect.any(String) });
    const ready = await platform.adminAnonymous.get('/ready', {
      headers: { accept: 'application/json' },
    });
    expect(ready.body).toMatchObject({
      status: 'ready',
      checks: expect.arrayContaining([
        expect.objectContaining({ name: 'database', status: 'pass' }),
      ]),
    });
    const legacy = await platform.adminAnonymous.get('/ready', { query: { legacy: true } });
    expect(legacy.status).toBe(200);
    expect(legacy.headers.get('content-type')).toContain('text/plain');
  });

  it('changes one leaf of a configuration and leaves the others', async () => {
    const before = (await platform.admin.get('/config/admin')).body.config;
    const changed = await platform.admin.patch('/config/admin', { cors: { maxAge: 600 } });
    expect(changed.body.config).toEqual({ ...before, cors: { ...before.cors, maxAge: 600 } });
    const wrapped = await platform.admin.patch('/config/admin', {
      config: { cors: { maxAge: 700 } },
    });
    expect(wrapped.body.config.cors.maxAge).toBe(700);
  });

  it('keeps two concurrent changes of different leaves', async () => {
    await Promise.all([
      platform.admin.patch('/config/admin', { cors: { maxAge: 1000 } }),
      platform.admin.patch('/config/admin', { hostUrl: 'https://admin.example.com' }),
    ]);
    expect((await platform.admin.get('/config/admin')).body.config).toMatchObject({
      cors: { maxAge: 1000 },
      hostUrl: 'https://admin.example.com',
    });
  });

  it('refuses a value of the wrong type and changes nothing', async () => {
    const before = (await platform.admin.get('/config/admin')).text;
    for (const module of ['admin', 'router']) {
      for (const hostUrl of [
        'panel',
        'javascript:alert(1)',
        'ftp://example.com',
        'https://a:b@example.com',
        'https://example.com/?a=b',
      ]) {
        const wrong = await platform.admin.patch(`/config/${module}`, { hostUrl });
        expect(wrong.body, `${module} ${hostUrl}`).toMatchObject({
          status: 400,
          errors: [{ path: 'hostUrl', rule: 'format' }],
        });
      }
    }
    const refused = await platform.admin.patch('/config/admin', {
      hostUrl: 'https://other.example.com',
      cors: { maxAge: 'long' },
    });
    expect(refused.status).toBe(400);
    expect(refused.body.errors[0].path).toContain('cors.maxAge');
    expect((await platform.admin.get('/config/admin')).text).toBe(before);
    expect((await platform.admin.get('/config/nothing')).status).toBe(404);
  });

  it('switches a module off and on while running', async () => {
    expectStatus(await platform.admin.patch('/config/database', { active: false }), 200, 'off');
    expect((await platform.client.get('/database/Anything')).status).toBe(503);
    expect((await platform.admin.get('/database/schemas')).status).toBe(503);
    expectStatus(await platform.admin.patch('/config/database', { active: true }), 200, 'on');
    expectStatus(await platform.admin.get('/database/schemas'), 200, 'schemas');
  });

  it('lists schemas by state and owner, also with a trailing slash', async () => {
    await platform.createSchema({ name: 'Shown', fields: { text: 'String' } });
    const { body } = await platform.admin.get(
      '/database/schemas/?enabled=true&owner=database,authentication',
    );
    expect(body.schemas.map(({ name }: Json) => name)).toContain('Shown');
    expect(body.count).toBeGreaterThanOrEqual(body.schemas.length);
    expect((await platform.admin.get('/database/schemas?enabled=yes')).status).toBe(400);
  });

  it('exports schemas, and imports them elsewhere', async () => {
    await platform.createSchema({
      name: 'Exported',
      fields: { text: { type: 'String', required: true } },
    });
    const exported = expectStatus(
      await platform.admin.get('/database/schemas/export'),
      200,
      'export',
    ).body;
    const schema = exported.schemas.find(({ name }: Json) => name === 'Exported');
    expect(schema.fields.text).toMatchObject({ type: 'String', required: true });
    const elsewhere = await createTestPlatform();
    try {
      const imported = await elsewhere.admin.post('/database/schemas/import', {
        schemas: [schema],
      });
      expectStatus(imported, 200, 'import');
      expectStatus(
        await elsewhere.client.post('/database/Exported', { text: 'here too' }),
        200,
        'a record of an imported schema',
      );
      const { schemas } = (await elsewhere.admin.get('/database/schemas/export')).body;
      expect(schemas.find(({ name }: Json) => name === 'Exported').fields).toEqual(schema.fields);
    } finally {
      await elsewhere.close();
    }
  });
});

await describeWithRedis('health without Redis', () => {
  it('is not ready while Redis is away, but alive', { timeout: 60_000 }, async () => {
    const redis = await startTestRedis();
    const platform = await createTestPlatform({ env: { REDIS_URL: redis.url } });
    try {
      expectStatus(await platform.adminAnonymous.get('/ready'), 200, 'ready');
      await redis.stop();
      const report = await waitFor(async () => {
        const answer = await platform.adminAnonymous.get('/ready', {
          headers: { accept: 'application/json' },
        });
        return answer.status === 503 && answer.body;
      });
      expect(report).toMatchObject({
        status: 'not_ready',
        checks: expect.arrayContaining([
          expect.objectContaining({ name: 'redis', status: 'fail' }),
        ]),
      });
      expect((await platform.adminAnonymous.get('/live')).status).toBe(200);
      const again = await startTestRedis(redis.port);
      await waitFor(async () => (await platform.adminAnonymous.get('/ready')).status === 200, {
        timeoutMs: 30_000,
      });
      await platform.close();
      await again.stop();
    } catch (error) {
      await platform.close();
      throw error;
    }
  });
});
