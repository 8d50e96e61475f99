/**
 * What is stored may be damaged: by a hand in the database, by a restore, by another version. The platform starts without
 * it, says what is left out, serves everything else, and lets operators mend it.
 */
import { randomUUID } from 'node:crypto';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Api, Json } from '../test/support/api.ts';
import type { TestDatabase } from '../test/support/database.ts';
import { expectStatus } from '../test/support/node.ts';
import {
  createTestPlatform,
  platformDatabase,
  type TestPlatform,
} from '../test/support/platform.ts';
import { fillState } from './state-example.ts';

type Row = Readonly<Record<string, unknown>>;

/** What takes the place of a value, at every place; `undefined`: it is not there. */
const wrong: readonly unknown[] = [null, {}, [], 'x', -7, undefined, [null], { x: null }];
/** Copies of one column. */
const MOST = 60;

/** `value`, each time with one part of it that is something else. */
function* damaged(value: unknown): Generator<unknown> {
  yield* wrong;
  if (typeof value !== 'object' || value === null) return;
  for (const [key, part] of Object.entries(value)) {
    for (const other of damaged(part)) {
      const copy = structuredClone(value) as Record<string, unknown>;
      if (other === undefined && !Array.isArray(copy)) delete copy[key];
      else copy[key] = other ?? null;
      yield copy;
    }
  }
}

/** Spread over the whole of a long list. */
const some = <T>(all: readonly T[]): readonly T[] =>
  all.filter((_, i) => i % Math.ceil(all.length / MOST) === 0);

/** Where definitions are kept (in `penstock` unless another schema is named), which of them are copied, and what of the copies is damaged. */
const kinds: readonly (readonly [table: string, where: string, columns: readonly string[]])[] = [
  [
    'declared_schemas',
    "name = 'Note'",
    ['fields', 'extensions', 'model_options', 'layout', 'dropped', 'changes'],
  ],
  ['functions', "name <> 'guard'", ['definition', 'kind']],
  ['custom_endpoints', 'true', ['definition', 'schema_name']],
  ['forms', 'true', ['definition']],
  ['webhook_endpoints', 'true', ['url', 'condition', 'events', 'schemas', 'payload', 'secret']],
  ['chain_definitions', 'true', ['steps']],
  [
    'resource_definitions',
    "name = 'Shelf'",
    ['relations', 'permissions', 'conditions', 'fields', 'act_as'],
  ],
  ['roles', "name = 'editor'", ['permissions']],
  ['role_rules', 'true', ['conditions']],
  ['embeddings_configs', 'true', ['schema_name', 'generation_id', 'next_generation_id']],
  [
    'embeddings_generations',
    'true',
    ['source_fields', 'provider', 'model', 'dimensions', 'similarity', 'language', 'field_options'],
  ],
  ['route_middlewares', 'true', ['middlewares']],
  ['pending_schemas', 'true', ['inferred', 'edits']],
  ['app.EmailTemplate', 'not "builtIn"', ['subject', 'body', 'variables', 'translations']],
  ['message_partials', 'true', ['body']],
  ['event_relays', 'true', ['message_template', 'bus_event', 'permission']],
  ['openid_clients', 'true', ['kind', 'redirect_uris', 'scopes', 'consent']],
];

const qualified = (table: string): string => {
  const [schema, name] = table.includes('.') ? table.split('.') : ['penstock', table];
  return `"${schema}"."${name}"`;
};

/** Configuration documents that are none, or have a secret that nobody can open. */
const configs: Readonly<Record<string, unknown>> = {
  authentication: { google: { clientSecret: { $sealed: 'x' } }, teams: { enabled: true } },
  communications: 'x',
  functions: { limits: 5 },
  router: [],
  storage: null,
};

let stored: TestDatabase;
let client: pg.Client;
let platform: TestPlatform;
let admin: Api;

/** Puts damaged copies beside the rows; answers how many the table has taken. */
async function damage([table, where, columns]: (typeof kinds)[number]): Promise<number> {
  const { rows } = await client.query<{ row: Row }>(
    `select to_jsonb(t) as row from ${qualified(table)} t where ${where}`,
  );
  let taken = 0;
  for (const { row } of rows)
    for (const column of columns)
      for (const value of some([...damaged(row[column])]))
        taken += (await insertCopy(table, row, { [column]: value }, `${column}${taken}`)) ? 1 : 0;
  return taken;
}

/** False where the table itself refuses it. */
async function insertCopy(table: string, row: Row, change: Row, name: string): Promise<boolean> {
  const named = 'name' in row ? { name: `${String(row.name).replace(/\W/g, '')}_${name}` } : {};
  const route = 'route' in row ? { route: `${String(row.route)}/${name}` } : {};
  const other = Object.fromEntries(
    ['id', '_id', 'client_id', 'source_table'].flatMap((key) =>
      key in row ? [[key, key.endsWith('id') ? randomUUID() : name]] : [],
    ),
  );
  const copy = { ...row, ...other, ...named, ...route, ...change };
  try {
    await client.query(
      `insert into ${qualified(table)} (${Object.keys(copy)
        .map((one) => `"${one}"`)
        .join()})
       select ${Object.keys(copy)
         .map((one) => `r."${one}"`)
         .join()} from json_populate_record(null::${qualified(table)}, $1::json) r`,
      [JSON.stringify(copy)],
    );
    if (table === 'declared_schemas')
      await client.query(`create table app."${copy.name}" (like app."${row.name}" including all)`);
    return true;
  } catch {
    return false;
  }
}

async function fill({ admin: api }: TestPlatform): Promise<void> {
  const send = async (method: string, path: string, body: unknown): Promise<Json> =>
    expectStatus(await api.send(method, path, body), 200, path).body;
  await fillState(api);
  const plain = { functionCode: 'module.exports = async () => ({ ok: true })' };
  const inputs = {
    request: {
      method: 'POST',
      urlParams: { id: 'String' },
      bodyParams: { a: ['String'], b: { type: 'Number', required: true } },
    },
    webhook: { method: 'POST' },
    middleware: {},
    socket: { event: 'said' },
    event: { event: 'database:create:Note' },
    cron: { event: '0 0 1 1 *' },
    hook: { trigger: { schema: 'Artist', op: 'create', when: 'after' } },
    workflow: {},
  };
  for (const [functionType, one] of Object.entries(inputs))
    await send('POST', '/functions/upload', {
      name: `fn-${functionType}`,
      functionType,
      inputs: one,
      ...plain,
    });
  await send('POST', '/functions/upload', {
    ...{ name: 'guard', functionType: 'hook', functionCode: 'module.exports = async () => {}' },
    inputs: { trigger: { schema: 'Genre', op: 'create', when: 'before' } },
  });
  await send('POST', '/webhooks/endpoints', {
    name: 'hook',
    url: 'https://example.com/x',
    events: ['*'],
  });
  await send('POST', '/embeddings/configs', {
    schemaName: 'Note',
    targetField: 'meaning',
    sourceFields: ['text'],
  });
  await send('PUT', '/communications/chain-definitions/first', {
    steps: [{ channel: 'email', timeout: 1000 }],
  });
  await send('PUT', '/communications/partials/foot', { body: '<hr>' });
  await send('POST', '/storage/containers', { name: 'boxes' });
  await send('POST', '/router/event-relays', {
    ...{ name: 'artists', busEvent: 'database:create:Artist', socketEvent: 'artist' },
    ...{ resourceType: 'Shelf', permission: 'read', messageTemplate: { id: '{{id}}' } },
  });
  await send('PATCH', '/config/authentication', {
    config: {
      accessTokens: { issuer: 'https://api.example.com' },
      openidProvider: { enabled: true },
    },
  });
  await send('POST', '/authentication/openid/clients', {
    ...{ clientId: 'app', name: 'App', kind: 'web', redirectUris: ['https://app.example.com/in'] },
  });
  await client.query('create table public.elder (id serial primary key, text text)');
  await send('POST', '/database/introspection', {});
  const route = 'path=/database/function/artistByName&action=GET';
  await send('PATCH', `/router/patch-middleware?${route}`, { middlewares: ['authMiddleware'] });
}

beforeAll(async () => {
  stored = await platformDatabase('embedded', {});
  client = new pg.Client({ connectionString: stored.url });
  await client.connect();
  const first = await createTestPlatform({ databaseUrl: stored.url });
  await fill(first).finally(() => first.close());
  for (const kind of kinds) expect([kind[0], await damage(kind)]).not.toEqual([kind[0], 0]);
  await client.query(
    "update penstock.functions set definition = jsonb_set(definition::jsonb, '{timeout}', '-1')::json where name = 'guard'",
  );
  await client.query("update penstock.declared_schemas set fields = '[]' where name = 'Folder'");
  // One that cannot sign, and one that can verify nothing.
  await client.query("update penstock.signing_keys set private_key_sealed = 'x'");
  await client.query(`insert into penstock.signing_keys (kid, algorithm, public_jwk, private_key_sealed, verifies_until, issuer)
    values ('odd', 'EdDSA', '{}', 'x', now() + interval '1 day', 'penstock')`);
  for (const [name, config] of Object.entries(configs))
    await client.query(
      'insert into penstock.config (name, config, version, updated_by) values ($1, $2, 1, $3) on conflict (name) do update set config = excluded.config',
      [name, JSON.stringify(config), 'a hand'],
    );
  platform = await createTestPlatform({ databaseUrl: stored.url });
  admin = platform.admin;
});

afterAll(async () => {
  await platform?.close();
  await client?.end();
  await stored?.drop();
});

const listOf = async (path: string, key: string): Promise<readonly Json[]> =>
  expectStatus(await admin.get(path, { query: { limit: 200 } }), 200, path).body[key];
const named = async (path: string, key: string, start: string): Promise<Json> =>
  (await listOf(path, key)).find(({ name }) => String(name).startsWith(start));

describe('a platform with damaged definitions of every kind', () => {
  it('is ready, and says what is left out', async () => {
    const ready = await admin.get('/ready', { headers: { accept: 'application/json' } });
    expect(ready.status, ready.text).toBe(200);
    const check = ready.body.checks.find(({ name }: Json) => name === 'stored.definitions');
    expect(check).toMatchObject({ status: 'warn' });
    for (const kind of [
      ...['schemas', 'functions', 'endpoints', 'resource definitions'],
      ...['forms.forms', 'webhooks.endpoints', 'communications.messageChains'],
      ...['communications.emailTemplates', 'authorization.roles', 'authorization.rules'],
      ...['router.routeMiddlewares', 'router.eventRelays', 'signing keys'],
    ])
      expect(check.message).toContain(`${kind}: `);
  });

  it.each([
    ['/database/schemas', 'schemas'],
    ['/database/customEndpoints', 'customEndpoints'],
    ['/functions', 'functions'],
    ['/admin/forms', 'forms'],
    ['/webhooks/endpoints', 'endpoints'],
    ['/communications/chain-definitions', 'chains'],
    ['/authorization/resources', 'resources'],
    ['/authorization/roles', 'roles'],
    ['/authorization/rules', 'rules'],
    ['/embeddings/configs', 'configs'],
    ['/router/security/client', 'clients'],
    ['/router/event-relays', 'relays'],
    ['/email/templates', 'templateDocuments'],
    ['/storage/containers', 'containers'],
    ['/authentication/openid/clients', 'clients'],
    ['/database/introspection/schemas', 'schemas'],
  ])('lists %s', async (path, key) => {
    expect((await listOf(path, key)).length).toBeGreaterThan(0);
  });

  it('answers the documents of both surfaces, the state, the routes and the configuration', async () => {
    for (const path of ['/state/export', '/router/routes', '/swagger.json', '/config/router'])
      expect([path, (await admin.get(path)).status]).toEqual([path, 200]);
    for (const path of ['/swagger.json'])
      expect([path, (await platform.client.get(path)).status]).toEqual([path, 200]);
  });

  it('serves what is whole', async () => {
    const { client: visitor } = platform;
    const { api } = await platform.registerUser();
    expect((await api.post('/database/Artist', { name: 'Coltrane' })).status).toBe(200);
    expect((await visitor.get('/database/Artist')).body.count).toBe(1);
    const called = await visitor.post('/functions/fn-request/7', { a: ['x'], b: 1 });
    expect(called.status, called.text).toBe(200);
    expect((await api.get('/database/Note')).status).toBe(200);
    expect((await api.get('/authentication/user')).status).toBe(200);
  });

  it('lets nothing through where a hook that is asked first cannot be read', async () => {
    const { api } = await platform.registerUser();
    const refused = await api.post('/database/Genre', { name: 'Jazz' });
    expect(refused.body.message).toContain('guard');
    expect((await platform.client.get('/database/Genre')).body.count).toBe(0);
  });

  it('brings schemas of modules back', async () => {
    const made = await admin.post('/storage/containers', { name: 'things' });
    expect(made.status, made.text).toBe(200);
    const folder = await admin.post('/storage/folders', { name: 'a/', container: 'things' });
    expect(folder.status, folder.text).toBe(200);
  });
});

describe('operators mend', () => {
  it('pending schemas, by another introspection', async () => {
    const path = '/database/introspection/schemas';
    const listed = await listOf(path, 'schemas');
    expect(
      listed.filter(({ warnings }) => String(warnings).includes('again')).length,
    ).toBeGreaterThan(0);
    expectStatus(await admin.post('/database/introspection'), 200, 'introspection');
    expect(await listOf(path, 'schemas')).toMatchObject([
      { name: expect.any(String), warnings: [] },
    ]);
  });

  it('schemas, by declaring their fields anew; others come and go beside them', async () => {
    await platform.createSchema({ name: 'Fresh', fields: { text: 'String' } });
    expect((await platform.client.post('/database/Fresh', { text: 'a' })).status).toBe(200);
    const leftOut = (await listOf('/database/schemas?search=Note_', 'schemas')).filter(
      ({ warnings }) => String(warnings[0]).startsWith('It is left out'),
    );
    const [bad, other] = ['Note_fields', 'Note_model'].map((start) =>
      leftOut.find(({ name }) => name.startsWith(start)),
    );
    const removed = await admin.delete(`/database/schemas/${bad._id}`);
    expect(removed.status, removed.text).toBe(200);
    const mended = await admin.put(`/database/schemas/${other._id}`, {
      fields: { text: 'String' },
    });
    expect(mended.status, mended.text).toBe(200);
    expect(mended.body.warnings.join()).not.toContain('left out');
  });

  it('functions', async () => {
    const { _id, problem, state } = await named('/functions?search=guard', 'functions', 'guard');
    expect({ problem, state }).toMatchObject({
      problem: expect.stringContaining('timeout'),
      state: 'error',
    });
    expectStatus(await admin.patch(`/functions/${_id}`, { timeout: 10_000 }), 200, 'mend');
    expect(await named('/functions?search=guard', 'functions', 'guard')).toMatchObject({
      problem: null,
      state: 'active',
    });
    const { api } = await platform.registerUser();
    const made = await api.post('/database/Genre', { name: 'Jazz' });
    expect(made.status, made.text).toBe(200);
  });

  it('endpoints', async () => {
    const search = '/database/customEndpoints?search=artistByName_definition';
    const bad = await named(search, 'customEndpoints', 'artistByName_definition');
    expect(bad.warnings).toHaveLength(1);
    const body = { selectedSchemaName: 'Artist', query: {}, inputs: [], authentication: false };
    expectStatus(await admin.patch(`/database/customEndpoints/${bad._id}`, body), 200, 'mend');
    expect((await platform.client.get(`/database/function/${bad.name}`)).status).toBe(200);
  });

  it('resource definitions, forms, chains and configuration', async () => {
    const definition = { relations: { owner: ['User'] }, permissions: { read: ['owner'] } };
    const { name } = await named('/authorization/resources?search=Shelf_', 'resources', 'Shelf_');
    expectStatus(await admin.patch(`/authorization/resources/${name}`, definition), 200, name);
    const form = (await listOf('/admin/forms?search=Contact_', 'forms'))[0];
    const fields = [{ name: 'text', type: 'text' }];
    const mended = { name: 'Mended', fields, forwardTo: null, emailField: null, autoReply: false };
    expectStatus(await admin.patch(`/admin/forms/${form._id}`, mended), 200, 'form');
    const chain = await named(
      '/communications/chain-definitions?search=first_',
      'chains',
      'first_',
    );
    const steps = [{ channel: 'email', timeout: 1000 }];
    expectStatus(
      await admin.put(`/communications/chain-definitions/${chain.name}`, { steps }),
      200,
      'chain',
    );
    for (const [module, config] of Object.entries({
      router: { cors: { maxAge: 60 } },
      communications: { email: { sendingDomain: 'example.com' } },
      authentication: { google: { clientSecret: 'new' } },
    }))
      expectStatus(await admin.patch(`/config/${module}`, { config }), 200, module);
  });
});
