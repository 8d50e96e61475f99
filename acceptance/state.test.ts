/** The state of a platform as a document: spec/core.md section 8, acceptance check 5. */

import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import type { Api, Json } from '../test/support/api.ts';
import { expectStatus } from '../test/support/node.ts';
import { createTestPlatform, type TestPlatform } from '../test/support/platform.ts';
import { exampleSecrets, fillState } from './state-example.ts';

const changesOf = ({ plan }: Json): string[] =>
  plan
    .filter(({ action }: Json) => action !== 'noop')
    .map(({ action, module, type, key }: Json) => `${action} ${module}.${type} ${key}`);

describe('state as a document', () => {
  let source: TestPlatform;
  let target: TestPlatform;
  let exported: string;
  const state = async (api: Api = target.admin): Promise<string> =>
    expectStatus(await api.get('/state/export'), 200, 'export').text;
  const plan = (body: unknown, query = {}) => target.admin.post('/state/plan', body, { query });
  const put = (body: unknown, query = {}) => target.admin.post('/state/import', body, { query });

  beforeAll(async () => {
    [source, target] = await Promise.all([createTestPlatform(), createTestPlatform()]);
    await fillState(source.admin);
    exported = await state(source.admin);
  });
  afterAll(async () => {
    await source?.close();
    await target?.close();
  });

  it('has references instead of secrets, and needs their values on an empty platform', async () => {
    for (const secret of Object.values(exampleSecrets)) expect(exported).not.toContain(secret);
    expect(JSON.parse(exported).configs.modules.authentication.google.clientSecret).toEqual({
      $secret: 'authentication.google.clientSecret',
    });
    const before = await state();
    const refused = await put(exported);
    expect(refused.status).toBe(400);
    expect(refused.body.errors[0].path).toBe('configs.modules.authentication.google.clientSecret');
    expect(refused.body.message).toContain('SECRET_AUTHENTICATION_GOOGLE_CLIENT_SECRET');
    expect(await state()).toBe(before);
  });

  it('plans without changing anything', async () => {
    const before = await state();
    const body = { ...JSON.parse(exported), secrets: exampleSecrets };
    const dry = await put(body, { dryRun: true });
    expect(dry.status).toBe(200);
    const { status, body: planned } = await plan(body);
    expect(status).toBe(200);
    expect(planned).toEqual(dry.body);
    expect(changesOf(planned)).toEqual(
      expect.arrayContaining([
        'create database.customEndpoints artistByName',
        'create authorization.roles editor',
        'update authentication.config authentication',
      ]),
    );
    expect(JSON.stringify(planned)).not.toContain('a-google-secret');
    expect(await state()).toBe(before);
  });

  it('gives the same bytes after an import into an empty platform, and a second import changes nothing', async () => {
    const body = { ...JSON.parse(exported), secrets: exampleSecrets };
    const imported = await put(body);
    expect(imported.body).toMatchObject({
      moduleResults: { database: { schemas: { failed: 0, errors: [] } } },
    });
    expect(imported.status).toBe(200);
    expect(await state()).toBe(exported);
    const again = await put(exported);
    expect(again.status).toBe(200);
    expect(changesOf((await plan(exported)).body)).toEqual([]);
    expect(again.body.moduleResults.authorization.roles).toMatchObject({
      created: 0,
      updated: 0,
      unchanged: 1,
    });
    // What was imported works.
    expect(
      (await target.client.get('/database/function/artistByName', { query: { name: 'Nobody' } }))
        .status,
    ).toBe(200);
  });

  it('is the same in YAML', async () => {
    const yaml = await target.admin.get('/state/export', { query: { format: 'yaml' } });
    expect(yaml.headers.get('content-type')).toContain('yaml');
    expect(parse(yaml.text)).toEqual(JSON.parse(exported));
  });

  it('keeps what a partial configuration does not name', async () => {
    const answer = await put({ configs: { modules: { router: { cors: { maxAge: 60 } } } } });
    expect(answer.body.configResults).toEqual({ router: { success: true } });
    const { cors } = (await target.admin.get('/config/router')).body.config;
    expect(cors).toMatchObject({ maxAge: 60, origin: 'https://app.example.com' });
    const drift = (await plan(exported)).body.plan.find(({ action }: Json) => action === 'update');
    expect(drift).toMatchObject({
      type: 'config',
      key: 'router',
      diff: [{ path: 'cors.maxAge', from: 60, to: 86_400 }],
    });
    await put(exported);
    expect(await state()).toBe(exported);
  });

  it('takes away only with the confirmation of the plan', async () => {
    await target.createSchema({
      name: 'Stray',
      fields: { name: 'String' },
      conduitOptions: { authorization: { enabled: true } },
    });
    await target.admin.post('/authorization/roles', { name: 'stray' });
    expect(changesOf((await plan(exported)).body)).toEqual([]);
    const planned = (await plan(exported, { prune: true })).body;
    expect(changesOf(planned)).toEqual([
      'delete authorization.resourceDefinitions Stray',
      'delete authorization.roles stray',
      'delete database.schemas Stray',
    ]);
    expect((await put(exported, { prune: true })).status).toBe(400);
    expect((await put(exported, { prune: true, confirm: 'f'.repeat(64) })).status).toBe(412);
    expect(
      (await target.admin.get('/database/schemas', { query: { search: 'Stray' } })).body.count,
    ).toBe(1);
    const done = await put(exported, { prune: true, confirm: planned.checksum });
    expect(done.body.moduleResults.database.schemas).toMatchObject({ deleted: 1, failed: 0 });
    expect(await state()).toBe(exported);
    // What something else needs stays.
    const none = { modules: { database: { schemas: [] } } };
    const needed = (await plan(none, { prune: true })).body;
    expect(needed.obstacles).toEqual([
      {
        path: 'modules.database.schemas',
        rule: 'in-use',
        message: expect.stringContaining('artistByName'),
      },
    ]);
    expect(await put(none, { prune: true, confirm: needed.checksum })).toMatchObject({
      status: 409,
      body: { message: expect.stringContaining('artistByName') },
    });
    // Only of the types that the document has.
    expect(
      changesOf((await plan({ modules: { authorization: { roles: [] } } }, { prune: true })).body),
    ).toEqual(['delete authorization.roles editor']);
  });

  it('overwrites, skips or refuses what is there with another content', async () => {
    const body = {
      modules: {
        authorization: { roles: [{ name: 'editor', description: 'Other', permissions: [] }] },
      },
    };
    expect((await put(body, { onConflict: 'fail' })).status).toBe(409);
    const skipped = await put(body, { onConflict: 'skip' });
    expect(skipped.body.moduleResults.authorization.roles).toMatchObject({
      skipped: 1,
      updated: 0,
    });
    expect(await state()).toBe(exported);
    expect((await put(body)).body.moduleResults.authorization.roles).toMatchObject({ updated: 1 });
    await put(exported);
    expect(await state()).toBe(exported);
  });

  it.each([
    ['a foreign document', { collections: [], version: 3 }, 'collections'],
    ['nothing', {}, 'modules'],
    ['a newer one', { formatVersion: 2, modules: {} }, 'formatVersion'],
    ['an unknown module', { modules: { spaceship: { engines: [] } } }, 'modules.spaceship.engines'],
    [
      'an unknown configuration',
      { configs: { modules: { spaceship: {} } } },
      'configs.modules.spaceship',
    ],
    ['an unknown type', { modules: { database: { tables: [] } } }, 'modules.database.tables'],
    ['no list', { modules: { database: { schemas: {} } } }, 'modules.database.schemas'],
    [
      'an unknown key',
      { modules: { authorization: { roles: [{ name: 'a', colour: 'red' }] } } },
      'modules.authorization.roles.0.colour',
    ],
    [
      'a wrong type',
      { modules: { authorization: { roles: [{ name: 7 }] } } },
      'modules.authorization.roles.0.name',
    ],
    [
      'twins',
      { modules: { authorization: { roles: [{ name: 'a' }, { name: 'a' }] } } },
      'modules.authorization.roles.1',
    ],
    [
      'a wrong field',
      { modules: { database: { schemas: [{ name: 'X', fields: { a: 'Nothing' } }] } } },
      'modules.database.schemas.0.fields.a.type',
    ],
    [
      'a wrong configuration',
      { configs: { modules: { router: { cors: { maxAge: -1 } } } } },
      'configs.modules.router.cors.maxAge',
    ],
    [
      'a stray secret',
      { configs: { modules: { router: { hostUrl: { $secret: 'a.b' } } } } },
      'configs.modules.router.hostUrl',
    ],
    [
      'a missing role',
      { modules: { authorization: { rules: [{ role: 'nobody', action: 'a', resource: 'b' }] } } },
      'modules.authorization.rules.0.role',
    ],
    [
      'a missing schema',
      {
        modules: {
          database: {
            customEndpoints: [{ name: 'e', operation: 0, selectedSchemaName: 'Nowhere' }],
          },
        },
      },
      'modules.database.customEndpoints.0.selectedSchemaName',
    ],
    [
      'a missing type',
      {
        modules: {
          authorization: {
            resourceDefinitions: [{ name: 'A', relations: { b: ['Nowhere'] }, permissions: {} }],
          },
        },
      },
      'modules.authorization.resourceDefinitions.0.relations.b[0]',
    ],
    [
      'a rule about what no record has',
      {
        modules: {
          authorization: {
            resourceDefinitions: [
              { name: 'A', relations: {}, permissions: { read: [{ rule: 'record.b == 1' }] } },
            ],
          },
        },
      },
      'modules.authorization.resourceDefinitions.0.permissions.read[0].rule',
    ],
    [
      'a missing parent',
      { modules: { authentication: { teams: [{ name: 'a', parentTeamName: 'Nowhere' }] } } },
      'modules.authentication.teams.0.parentTeamName',
    ],
    [
      'a template that is none',
      {
        modules: {
          communications: { emailTemplates: [{ name: 'a', subject: '{{#x}}', body: 'b' }] },
        },
      },
      'modules.communications.emailTemplates.0.subject',
    ],
  ])('refuses %s with its place, and changes nothing', async (_name, body, place) => {
    // Something valid beside it, which must not be written either.
    const modules = {
      ...(body as Json).modules,
      router: { securityClients: [{ alias: 'half', platform: 'IOS' }] },
    };
    const answer = await put((body as Json).modules === undefined ? body : { ...body, modules });
    expect(answer.status, answer.text).toBe(400);
    expect(answer.body.errors.map(({ path }: Json) => path)).toContain(place);
    expect(await state()).toBe(exported);
  });

  it('refuses what would leave records without a definition that serves them, before it writes anything', async () => {
    const schema = {
      name: 'Diary',
      fields: { text: 'String' },
      modelOptions: { conduit: { authorization: { enabled: true } } },
    };
    const definition = { name: 'Diary', relations: {}, permissions: {} };
    const answer = await put({
      modules: {
        database: { schemas: [schema] },
        authorization: { resourceDefinitions: [definition] },
      },
    });
    expect(answer.status).toBe(409);
    expect(answer.body.errors.map(({ path }: Json) => path)).toEqual(
      ['relations.owner', 'permissions.read', 'permissions.edit', 'permissions.delete'].map(
        (lost) => `modules.authorization.resourceDefinitions.0.${lost}`,
      ),
    );
    expect(await state()).toBe(exported);
  });

  it('lets one of two imports at once through, or both after one another', async () => {
    const answers = await Promise.all([put(exported), put(exported), put(exported)]);
    for (const { status, body } of answers) {
      expect([200, 409]).toContain(status);
      if (status === 409) expect(body.message).toContain('Another import');
    }
    expect(answers.map(({ status }) => status)).toContain(200);
    expect(await state()).toBe(exported);
  });

  it('finds secrets in the environment of the platform', async () => {
    const env = {
      SECRET_COMMUNICATIONS_EMAIL_TRANSPORT_SETTINGS_SMTP_AUTH_PASSWORD: 'from-the-environment',
      SECRET_SHARED: 'shared',
    };
    const other = await createTestPlatform({ env });
    try {
      const { configs } = JSON.parse(exported);
      configs.modules.authentication.google.clientSecret.$secret = 'shared';
      // Where secrets stand is for super admins.
      expectStatus(
        await other.admin.post('/admins', { username: 'plain', password: 'Correct-Horse-43' }),
        200,
        'admin',
      );
      const { token } = expectStatus(
        await other.admin.post('/login', { username: 'plain', password: 'Correct-Horse-43' }),
        200,
        'login',
      ).body;
      expect(
        (await other.adminAnonymous.post('/state/import', { configs }, { token })).status,
      ).toBe(403);
      expectStatus(await other.admin.post('/state/import', { configs }), 200, 'import');
      const { modules } = (await other.admin.get('/config', { query: { reveal: true } })).body
        .config;
      expect(modules.communications.email.transportSettings.smtp.auth.password).toBe(
        'from-the-environment',
      );
      expect(modules.authentication.google.clientSecret).toBe('shared');
      // A token of a super admin that is narrowed to modules gets no secret of others by naming it.
      const scopes = ['core', 'router', 'write'];
      const made = await other.admin.post('/api-tokens', { name: 'narrow', scopes });
      const narrow = other.adminAnonymous.with({ credential: made.body.token });
      const smtp = 'communications.email.transportSettings.smtp.auth.password';
      for (const $secret of [smtp, 'shared']) {
        const secretKey = { $secret };
        const taken = { configs: { modules: { router: { captcha: { secretKey } } } } };
        expect((await narrow.post('/state/import', taken)).body.errors).toMatchObject([
          { path: 'configs.modules.router.captcha.secretKey', rule: 'secret' },
        ]);
      }
    } finally {
      await other.close();
    }
  });

  it('exports a part, and nothing of modules outside of the scope of a token', async () => {
    const part = (await target.admin.get('/state/export', { query: { modules: 'authorization' } }))
      .body;
    expect(Object.keys(part.modules)).toEqual(['authorization']);
    expect(Object.keys(part.configs.modules)).toEqual(['authorization']);
    expect(
      (await target.admin.get('/state/export', { query: { modules: 'nowhere' } })).status,
    ).toBe(404);
    const { token } = (await target.admin.post('/api-tokens', { name: 'narrow', scopes: ['core'] }))
      .body;
    const narrow = target.adminAnonymous.with({ authorization: `Bearer ${token}` });
    expect(Object.keys((await narrow.get('/state/export')).body.modules)).toEqual([]);
    expect(
      (await narrow.post('/state/import', { modules: { authorization: { roles: [] } } })).status,
    ).toBe(403);
    expect((await narrow.get('/state/export', { query: { modules: 'database' } })).status).toBe(
      403,
    );
  });

  it('exports only the types that are asked for', async () => {
    const part = async (types: string) =>
      expectStatus(await target.admin.get('/state/export', { query: { types } }), 200, types).body;
    const { configs, modules } = await part('schemas,authorization.roles');
    expect([configs.modules, Object.keys(modules), Object.keys(modules.authorization)]).toEqual([
      {},
      ['authorization', 'database'],
      ['roles'],
    ]);
    expect((await part('config')).modules).toEqual({});
    expect(
      (await target.admin.get('/state/export', { query: { types: 'database.roles' } })).status,
    ).toBe(404);
  });

  it('names all configurations that are wrong at once, and where in the document', async () => {
    const wrong = {
      configs: { modules: { core: { env: 'moon' }, router: { cors: { enabled: 'x' } } } },
    };
    expect((await put(wrong)).body.errors.map(({ path }: Json) => path)).toEqual([
      'configs.modules.core.env',
      'configs.modules.router.cors.enabled',
    ]);
    const twins = ['Twin', 'twin'].map((name) => ({ name, fields: { a: 'String' } }));
    expect((await put({ modules: { database: { schemas: twins } } })).body.errors[0].path).toBe(
      'modules.database.schemas.1.name',
    );
  });

  it('takes a misspelt option for a mistake, and a secret that nothing refers to for one too', async () => {
    expect((await put({ modules: {} }, { dryrun: true })).body).toMatchObject({
      status: 400,
      errors: [{ path: 'dryrun', rule: 'unknown' }],
    });
    expect(
      (await put({ modules: {}, secrets: { 'router.captcha.secretkey': 'x' } })).body.warnings,
    ).toEqual([
      'secrets["router.captcha.secretkey"] is of no effect: nothing in the document refers to it',
    ]);
  });

  it('reveals secrets to super admins, writes that down, and takes them back', async () => {
    const revealed = await target.admin.get('/state/export', { query: { secrets: 'include' } });
    expect(revealed.text).toContain('an-smtp-password');
    for (const action of ['core.state.export', 'core.state.import']) {
      const { entries } = (await target.admin.get('/audit-logs', { query: { action, limit: 100 } }))
        .body;
      expect(entries.length).toBeGreaterThan(0);
      expect(JSON.stringify(entries)).not.toContain('an-smtp-password');
    }
    const imports = (
      await target.admin.get('/audit-logs', { query: { action: 'core.state.import', limit: 100 } })
    ).body.entries;
    expect(JSON.stringify(imports)).toContain('"what":"authorization.roles"');
    expect(changesOf((await plan(revealed.body)).body)).toEqual([]);
  });

  it('takes functions that stand before routes along with the routes that name them', async () => {
    const given = {
      name: 'no_tea',
      functionType: 'middleware',
      functionCode: "ctx.reject(403, '')",
    };
    expectStatus(await source.admin.post('/functions/upload', given), 200, 'function');
    const query = { path: '/authentication/user', action: 'GET' };
    const { middlewares } = (await source.admin.get('/router/route-middlewares', { query })).body;
    const names = { middlewares: [...middlewares, 'no_tea'] };
    const patched = await source.admin.patch('/router/patch-middleware', names, { query });
    expectStatus(patched, 200, 'middleware');
    const types = 'routeMiddlewares,functions.functions';
    const part = (await source.admin.get('/state/export', { query: { types } })).body;
    const { router } = part.modules;
    const alone = (await plan({ modules: { router } })).body;
    expect(alone.obstacles.map(({ path }: Json) => path.split('.').slice(0, 3).join('.'))).toEqual([
      'modules.router.routeMiddlewares',
    ]);
    expectStatus(await put(part), 200, 'import');
    expect((await target.admin.get('/router/route-middlewares', { query })).body).toEqual(
      (await source.admin.get('/router/route-middlewares', { query })).body,
    );
    expect(changesOf((await plan({ modules: { router } })).body)).toEqual([]);
  });

  it('takes back an endpoint that no longer fits its schema as it is', async () => {
    const { admin } = source;
    const fields = { label: { type: 'String' }, place: { type: 'String' } } as const;
    const { _id } = (await source.createSchema({ name: 'Crate', fields })) as Json;
    const byPlace = {
      ...{ name: 'crates_by_place', operation: 0, selectedSchemaName: 'Crate' },
      inputs: [{ name: 'place', type: 'String', location: 1 }],
      query: {
        schemaField: 'place',
        operation: 0,
        comparisonField: { type: 'Input', value: 'place' },
      },
    };
    expectStatus(await admin.post('/database/customEndpoints', byPlace), 200, 'endpoint');
    const shorter = { fields: { label: 'String' } };
    expectStatus(await admin.patch(`/database/schemas/${_id}`, shorter), 200, 'schema');
    const whole = (await admin.get('/state/export')).body;
    expectStatus(await admin.post('/state/import', whole), 200, 'its own export');
    const endpoint = whole.modules.database.customEndpoints.find(
      ({ name }: Json) => name === byPlace.name,
    );
    endpoint.paginated = true;
    const changed = await admin.post('/state/import', whole);
    expect(changed.status, changed.text).toBe(400);
    expect(changed.body.errors[0].path).toMatch(/^modules\.database\.customEndpoints\.\d+\.query/);
  });
});
