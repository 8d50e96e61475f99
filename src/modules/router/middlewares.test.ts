import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Json } from '../../../test/support/api.ts';
import { createTestPlatform, type TestPlatform } from '../../../test/support/platform.ts';

describe('middlewares of routes', () => {
  let platform: TestPlatform;
  const at = (path: string, action: string, prefix = '/router'): string =>
    `${prefix}/%s?path=${encodeURIComponent(path)}&action=${action}`.replace(
      '%s',
      'route-middlewares',
    );
  const read = async (path: string, action = 'GET', prefix = '/router'): Promise<Json> =>
    (await platform.admin.get(at(path, action, prefix))).body;
  const patch = (path: string, middlewares: unknown, action = 'GET', prefix = '/router') =>
    platform.admin.patch(
      at(path, action, prefix).replace('route-middlewares', 'patch-middleware'),
      { middlewares },
    );

  beforeAll(async () => {
    platform = await createTestPlatform();
    await platform.createSchema({ name: 'Post', fields: { title: 'String' } });
  });
  afterAll(() => platform.close());

  test('guard a route at once, under each of its names, in its description, and after its module registers it again', async () => {
    const before = (await read('/database/Post')).middlewares;
    expect((await platform.client.get('/database/Post')).status).toBe(200);
    const patched = await patch('/database/Post', [...before, 'authMiddleware']);
    expect(patched).toMatchObject({
      status: 200,
      body: { result: 'Middleware patched successfully' },
    });
    expect((await platform.client.get('/database/Post')).status).toBe(401);
    expect(
      (await platform.client.post('/graphql', { query: '{ getDatabasePost { count } }' })).body
        .errors[0].extensions.code,
    ).toBe(401);
    for (let i = 0; i < 10; i += 1)
      await platform.createSchema({ name: `Other${i}`, fields: { title: 'String' } });
    expect((await platform.client.get('/database/Post')).status).toBe(401);
    expect(
      (await platform.client.get('/swagger.json')).body.paths['/database/Post'].get.security,
    ).toEqual([{ userToken: [] }]);
    const { accessToken } = await platform.registerUser();
    expect((await platform.client.get('/database/Post', { token: accessToken })).status).toBe(200);
    expect((await platform.client.get('/database/Other1')).status).toBe(200);
    expect((await read('/database/Post/')).middlewares).toContain('authMiddleware');
  });

  test('that an operator added go again, and leave nothing behind', async () => {
    await patch('/database/Post', ['authMiddleware?']);
    expect((await platform.client.get('/database/Post')).status).toBe(200);
    expect(await read('/database/Post')).toEqual({ middlewares: ['authMiddleware?'] });
  });

  test('limit a route', async () => {
    await patch('/database/Post/:id', ['authMiddleware?', 'rateLimit:2/3600']);
    const id = '00000000-0000-7000-8000-000000000000';
    const statuses = [];
    for (let i = 0; i < 3; i += 1)
      statuses.push((await platform.client.get(`/database/Post/${id}`)).status);
    expect(statuses).toEqual([404, 404, 429]);
    expect((await platform.client.get('/database/Post')).status).toBe(200);
  });

  test('hold in batches too, and before GraphQL as a whole', async () => {
    await patch('/database/Post', ['authMiddleware?', 'authMiddleware'], 'POST');
    const batch = (operations: readonly object[], token?: string) =>
      platform.client.post('/database/batch', { operations }, token === undefined ? {} : { token });
    const create = { op: 'create', schema: 'Post', data: { title: 'a' } };
    expect((await batch([create])).status).toBe(401);
    expect((await batch([{ ...create, schema: 'Other1' }])).status).toBe(200);
    const { accessToken } = await platform.registerUser();
    expect((await batch([create], accessToken)).status).toBe(200);
    const read = { op: 'read', schema: 'Post', id: '00000000-0000-7000-8000-000000000000' };
    expect((await batch([{ ...create, schema: 'Other1' }, read], accessToken)).status).toBe(403);
    await patch('/database/Post', ['authMiddleware?'], 'POST');

    await patch('/graphql', ['authMiddleware?', 'authMiddleware'], 'POST');
    const query = { query: '{ getDatabaseOther1 { count } }' };
    expect((await platform.client.post('/graphql', query)).body).toMatchObject({
      errors: [{ extensions: { status: 401 } }],
    });
    expect(
      (await platform.client.post('/graphql', query, { token: accessToken })).body,
    ).toMatchObject({
      data: { getDatabaseOther1: { count: 1 } },
    });
    await patch('/graphql', ['authMiddleware?'], 'POST');
  });

  test('that a module demands cannot be left out', async () => {
    const own = (await read('/authentication/user')).middlewares;
    expect(own).toContain('authMiddleware');
    expect(await patch('/authentication/user', [])).toMatchObject({
      status: 403,
      body: { code: 'MIDDLEWARE_REQUIRED' },
    });
    const login = (await read('/authentication/local', 'POST')).middlewares;
    expect(login).toEqual([expect.stringMatching(/^rateLimit:\d+\/\d+$/)]);
    expect((await patch('/authentication/local', ['rateLimit:1000/1'], 'POST')).status).toBe(403);
    expect(await read('/authentication/user')).toEqual({ middlewares: own });
  });

  test.each([
    {
      what: 'an unknown name',
      names: ['authMiddleware?', 'nothing'],
      status: 404,
      code: 'MIDDLEWARE_NOT_FOUND',
    },
    {
      what: 'a limit without end',
      names: ['authMiddleware?', 'rateLimit:0/0'],
      status: 404,
      code: 'MIDDLEWARE_NOT_FOUND',
    },
    {
      what: 'a name of the other surface',
      names: ['authMiddleware?', 'superAdminMiddleware'],
      status: 400,
      code: 'MIDDLEWARE_INCOMPATIBLE',
    },
    { what: 'an unknown route', path: '/database/Nothing', status: 404, code: 'ROUTE_NOT_FOUND' },
    { what: 'an unknown action', action: 'FETCH', status: 400, code: 'INVALID_ARGUMENTS' },
    { what: 'no list', names: 'authMiddleware', status: 400, code: 'INVALID_ARGUMENTS' },
  ])(
    'refuse $what',
    async ({ path = '/database/Post', names = [], action = 'GET', status, code }) => {
      expect(await patch(path, names, action)).toMatchObject({ status, body: { code } });
    },
  );

  test('are found by the word that clients use for PUT', async () => {
    expect((await read('/database/Post/:id', 'UPDATE')).middlewares).toEqual(
      (await read('/database/Post/:anything', 'PUT')).middlewares,
    );
  });

  test('guard admin routes in the hands of super admins alone', async () => {
    await platform.admin.post('/admins', { username: 'plain', password: 'Plain-Admin-Password-1' });
    const { token } = (
      await platform.admin.post('/login', { username: 'plain', password: 'Plain-Admin-Password-1' })
    ).body;
    const list = () => platform.adminAnonymous.get('/database/schemas', { token });
    expect((await list()).status).toBe(200);
    expect(
      (await patch('/database/schemas', ['adminMiddleware', 'superAdminMiddleware'], 'GET', ''))
        .status,
    ).toBe(200);
    expect((await list()).status).toBe(403);
    const undo = '/patch-middleware?path=/database/schemas&action=GET';
    expect(
      (await platform.adminAnonymous.patch(undo, { middlewares: ['adminMiddleware'] }, { token }))
        .status,
    ).toBe(403);
    expect((await platform.admin.patch(undo, { middlewares: ['adminMiddleware'] })).status).toBe(
      200,
    );
    expect((await list()).status).toBe(200);
    expect((await patch('/config', [], 'GET', '')).status).toBe(403);
  });

  test('are written to the audit log with what they were', async () => {
    const { entries } = (
      await platform.admin.get('/audit-logs?action=router.middlewares.patch&outcome=success')
    ).body;
    expect(entries.at(-1).changes).toEqual({
      from: ['authMiddleware?'],
      to: ['authMiddleware?', 'authMiddleware'],
    });
  });

  test('are listed', async () => {
    const names = (await platform.admin.get('/router/middlewares')).body;
    expect(names).toEqual(
      expect.arrayContaining(['authMiddleware', 'rateLimit:<requests>/<seconds>']),
    );
    expect((await platform.admin.get('/router/middlewares?sortByName=false')).body).toEqual(
      [...names].sort().reverse(),
    );
    const routes = (await platform.admin.get('/router/routes/')).body;
    expect(routes.database).toMatchObject({
      moduleUrl: 'local',
      socketRoutes: {},
      middlewares: { 'authMiddleware?': {} },
    });
    expect(
      Object.values<Json>(routes.database.routes).find(
        ({ path, action }) => path === '/database/Post/:id' && action === 'GET',
      ),
    ).toMatchObject({
      description: expect.any(String),
      middlewares: ['authMiddleware?', 'rateLimit:2/3600'],
      handler: expect.any(String),
    });
  });

  test('are part of the state, also for routes that come later, and never of admin routes', async () => {
    await patch('/config', ['adminMiddleware', 'superAdminMiddleware'], 'GET', '');
    const exported = (await platform.admin.get('/state/export?modules=router')).body;
    const lists = exported.modules.router.routeMiddlewares;
    expect(lists).toEqual([
      {
        action: 'GET',
        path: '/database/Post/:',
        middlewares: ['authMiddleware?', 'rateLimit:2/3600'],
      },
    ]);

    const later = {
      action: 'GET',
      path: '/database/Later',
      middlewares: ['authMiddleware?', 'authMiddleware'],
    };
    const document = (names: unknown) => ({
      formatVersion: exported.formatVersion,
      modules: { router: { routeMiddlewares: names } },
    });
    const refused = await platform.admin.post(
      '/state/import',
      document([{ ...later, middlewares: ['nothing'] }]),
    );
    expect(refused.status).toBe(400);
    expect((await platform.admin.post('/state/import', document([...lists, later]))).status).toBe(
      200,
    );
    await platform.createSchema({ name: 'Later', fields: { title: 'String' } });
    expect((await platform.client.get('/database/Later')).status).toBe(401);
    expect(
      (await platform.admin.get('/state/export?modules=router')).body.modules.router
        .routeMiddlewares,
    ).toEqual([later, ...lists]);
  });

  test('stay when the platform starts again, before the first request', async () => {
    await patch('/database/Post', ['authMiddleware?', 'authMiddleware']);
    const second = await createTestPlatform({ databaseUrl: platform.databaseUrl ?? '' });
    try {
      expect((await second.client.get('/database/Post')).status).toBe(401);
      await patch('/database/Post', ['authMiddleware?']);
      expect((await second.client.get('/database/Post')).status).toBe(200);
      await patch('/database/Post', ['authMiddleware']);
      expect((await second.client.get('/database/Post')).status).toBe(401);
    } finally {
      await second.close();
    }
  });
});
