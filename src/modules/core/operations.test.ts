import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type CoreFixture, coreMasterKey, openCore } from '../../../test/support/core.ts';

const masterKey = coreMasterKey;

describe('health operations', () => {
  let fixture: CoreFixture;
  beforeAll(async () => {
    fixture = await openCore({
      env: { READY_REQUIRED_MODULES: 'chat', READY_PUBLIC_DETAILS: 'false' },
    });
  });
  afterAll(() => fixture.close());

  it('choose JSON or a line of text as clients expect', async () => {
    const ask = async (what: string, query: object, accept?: string) =>
      (
        await fixture.node.call(`core.health.${what}`, {
          query: { ...query },
          headers: accept === undefined ? {} : { accept },
        })
      ).body;
    for (const what of ['live', 'ready']) {
      expect(await ask(what, {})).toHaveProperty('status');
      expect(await ask(what, {}, 'application/json, text/plain, */*')).toHaveProperty('status');
      expect(await ask(what, {}, 'text/plain')).toMatch(/^Penstock Core is /);
      expect(await ask(what, { legacy: true }, 'application/json')).toMatch(/^Penstock Core is /);
    }
    expect(await ask('live', {}, '*/*')).toMatchObject({
      status: 'alive',
      message: expect.any(String),
    });
    expect(await ask('ready', {}, '*/*')).toBe('Penstock Core is not ready');
    expect(await ask('ready', {}, 'text/html,application/xhtml+xml,*/*;q=0.8')).toBe(
      'Penstock Core is not ready',
    );
  });

  it('answer 503 with the report while a required module is missing, and hide the reasons from strangers', async () => {
    const stranger = await fixture.node.call('core.health.ready');
    expect(stranger).toMatchObject({ status: 503, body: { status: 'not_ready' } });
    const check = (answer: typeof stranger) =>
      answer.body.checks.find(({ name }: { name: string }) => name === 'modules.chat');
    expect(check(stranger)).toEqual({ name: 'modules.chat', status: 'fail', latencyMs: 0 });
    expect(
      check(await fixture.node.call('core.health.ready', { headers: { masterkey: 'wrong' } })),
    ).not.toHaveProperty('message');
    expect(
      check(await fixture.node.call('core.health.ready', { headers: { masterkey: masterKey } })),
    ).toMatchObject({
      message: 'not registered',
    });
    expect(await fixture.node.call('core.health.ready', { query: { legacy: true } })).toMatchObject(
      {
        status: 503,
        body: 'Penstock Core is not ready',
      },
    );
    expect((await fixture.node.call('core.health.clientReady')).status).toBe(503);
    fixture.node.modules.push({ name: 'chat', serving: true });
    expect(await fixture.node.call('core.health.clientReady')).toMatchObject({
      status: 200,
      body: { result: 'Penstock is online!', status: 'ready' },
    });
    expect((await fixture.node.call('core.health.clientLive')).body).toEqual({
      status: 'alive',
      message: 'Penstock is alive',
    });
  });
});

describe('configuration operations', () => {
  let fixture: CoreFixture;
  let bearer: string;
  const call: CoreFixture['node']['call'] = (...args) => fixture.node.call(...args);
  const change = (module: string, body: unknown, more: object = {}) =>
    call('core.config.change', { bearer, params: { module }, body, ...more });

  beforeAll(async () => {
    fixture = await openCore();
    bearer = await fixture.login();
  });
  afterAll(() => fixture.close());

  it('show core and admin as the panel reads them', async () => {
    const { body } = await call('core.config.list', { bearer });
    expect(Object.keys(body.config.modules)).toEqual(['admin', 'core']);
    expect(
      (await call('core.config.get', { bearer, params: { module: 'core' } })).body.config,
    ).toMatchObject({ env: 'development' });
    const admin = await call('core.config.get', { bearer, params: { module: 'admin' } });
    expect(admin.headers.etag).toBe('"0"');
    expect(admin.body.config).toMatchObject({
      auth: { tokenExpirationTime: 72_000, masterkeyMode: 'credential' },
      cors: { enabled: true, origin: '*', credentials: true, maxAge: 86_400 },
      hostUrl: '',
      transports: { rest: true, graphql: false, sockets: false },
    });
    expect(await call('core.config.get', { bearer, params: { module: 'nothing' } })).toMatchObject({
      status: 404,
    });
  });

  it('take the keys bare or within config, and the whole object back', async () => {
    expect((await change('admin', { hostUrl: 'https://a.example' })).body.config.hostUrl).toBe(
      'https://a.example',
    );
    expect(
      (await change('admin', { config: { hostUrl: 'https://b.example' } })).body.config.hostUrl,
    ).toBe('https://b.example');
    const { body } = await call('core.config.get', { bearer, params: { module: 'admin' } });
    expect(await change('admin', { config: body.config })).toMatchObject({
      status: 200,
      body: { warnings: [], applied: { replicas: 1, failed: [] } },
    });
    expect(await change('admin', { config: 'all' })).toMatchObject({
      status: 400,
      body: { errors: [{ path: 'config' }] },
    });
    expect(fixture.node.service.adminConfig.current().hostUrl).toBe('https://b.example');
  });

  it('name what is wrong', async () => {
    const pathsOf = async (module: string, body: unknown) =>
      (await change(module, body)).body.errors?.map(({ path }: { path: string }) => path);
    expect(await pathsOf('core', { env: 'staging' })).toEqual(['env']);
    expect(await pathsOf('admin', { cors: { maxAge: -1, origin: 5 } })).toEqual(
      expect.arrayContaining(['cors.maxAge', 'cors.origin']),
    );
    expect(await pathsOf('admin', { transports: { rest: false, graphql: true } })).toEqual([
      'transports.rest',
      'transports.graphql',
    ]);
    expect(
      await pathsOf('admin', { cors: { origin: 'https://ok.example, not an origin' } }),
    ).toEqual(['cors.origin']);
  });

  it('know If-Match', async () => {
    const { body, headers } = await call('core.config.get', {
      bearer,
      params: { module: 'admin' },
    });
    const matched = await change(
      'admin',
      { hostUrl: '' },
      { headers: { 'if-match': headers.etag } },
    );
    expect(matched.headers.etag).toBe(`"${body.version + 1}"`);
    expect(
      (await change('admin', { hostUrl: '' }, { headers: { 'if-match': headers.etag } })).status,
    ).toBe(412);
    expect((await change('admin', { hostUrl: '' }, { headers: { 'if-match': '*' } })).status).toBe(
      200,
    );
    expect(
      (await change('admin', { hostUrl: '' }, { headers: { 'if-match': 'yesterday' } })).body
        .errors[0].path,
    ).toBe('if-match');
  });

  it('list versions and go back', async () => {
    await change('core', { env: 'test' });
    await change('core', { env: 'production' });
    expect(fixture.node.service.adminDocsPublic()).toBe(false);
    const { body } = await call('core.config.history', { bearer, params: { module: 'core' } });
    expect(body.versions[0]).toMatchObject({
      version: 2,
      updatedBy: expect.stringMatching(/^admin:/),
    });
    const back = await call('core.config.rollback', {
      bearer,
      params: { module: 'core' },
      body: { version: 1 },
    });
    expect(back.body.config.env).toBe('test');
    await change('core', { env: null });
    expect(fixture.node.service.environment()).toBe('development');
    expect(fixture.node.service.adminDocsPublic()).toBe(true);
  });

  it.each([
    [{ HOST: '0.0.0.0' }, 'production'],
    [{ HOST: '0.0.0.0', NODE_ENV: 'development' }, 'development'],
    [{ NODE_ENV: 'production' }, 'production'],
  ])('start with %o as %s, until the environment is set', async (env, expected) => {
    const exposed = await openCore({ env });
    const { node } = exposed;
    const set = (value: string | null) =>
      node.call('core.config.change', {
        masterKey,
        params: { module: 'core' },
        body: { env: value },
      });
    try {
      expect(node.service.environment()).toBe(expected);
      expect(node.service.adminDocsPublic()).toBe(expected === 'development');
      expect((await set('test')).body.config.env).toBe('test');
      expect((await set(null)).body.config.env).toBe(expected);
    } finally {
      await exposed.close();
    }
  });

  it('let nobody but a super admin touch credentials and the environment', async () => {
    await call('core.admins.create', {
      masterKey,
      body: { username: 'plain', password: 'a good password' },
    });
    const plain = await fixture.login('plain', 'a good password');
    const as = (module: string, body: unknown) =>
      call('core.config.change', { bearer: plain, params: { module }, body });
    expect((await as('admin', { auth: { masterkeyMode: 'gate' } })).status).toBe(403);
    expect((await as('admin', { rateLimit: { codeFailures: 10_000 } })).status).toBe(403);
    expect((await as('core', { env: 'production' })).status).toBe(403);
    expect((await as('admin', { hostUrl: 'https://c.example' })).status).toBe(403);
    expect((await as('admin', { mcp: { dynamic: true } })).status).toBe(200);
  });

  it('import several, one failure not stopping the others', async () => {
    const body = {
      config: {
        modules: { core: { env: 'test' }, admin: { hostUrl: 'https://d.example' }, nothing: {} },
      },
    };
    const { results } = (await call('core.config.import', { bearer, body })).body;
    expect(results).toMatchObject({
      core: { success: false },
      admin: { success: true },
      nothing: { success: false, error: expect.any(String) },
    });
    expect(fixture.node.service.environment()).toBe('development');
  });

  it('list the modules', async () => {
    fixture.node.modules.unshift({ name: 'storage', serving: false, note: 'switched off' });
    const { body } = await call('core.config.modules', { bearer, query: { sortByName: true } });
    expect(body.modules).toEqual([
      { moduleName: 'core', url: 'local', serving: true },
      { moduleName: 'storage', url: 'local', serving: false, note: 'switched off' },
    ]);
  });
});
