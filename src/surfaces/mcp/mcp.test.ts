import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Json } from '../../../test/support/api.ts';
import { testMasterKey } from '../../../test/support/node.ts';
import { liftLimits } from '../../../test/support/permissions.ts';
import { createTestPlatform, type TestPlatform } from '../../../test/support/platform.ts';
import { parseRaw, sendRaw } from '../../../test/support/raw-http.ts';

describe('MCP', () => {
  let platform: TestPlatform;
  const open: Client[] = [];

  beforeAll(async () => {
    platform = await createTestPlatform();
    await liftLimits(platform.admin);
  });
  afterAll(async () => {
    for (const client of open) await client.close();
    await platform.close();
  });

  /** The official client. `era`: which line of the protocol it speaks. */
  const connect = async (
    query = '',
    headers: Record<string, string> = { masterkey: platform.masterKey },
    era: 'legacy' | 'modern' = 'legacy',
  ) => {
    const mode = era === 'modern' ? { versionNegotiation: { mode: { pin: '2026-07-28' } } } : {};
    const client = new Client({ name: 'test', version: '1.0.0' }, mode as Json);
    const transport = new StreamableHTTPClientTransport(
      new URL(`/mcp${query}`, platform.addresses.admin),
      { requestInit: { headers } },
    );
    await client.connect(transport);
    open.push(client);
    return client;
  };
  const names = async (client: Client): Promise<string[]> =>
    (await client.listTools()).tools.map(({ name }) => name);
  const rpc = (body: unknown, headers: Record<string, string> = {}) =>
    platform.admin.post('/mcp', body, {
      headers: { accept: 'application/json, text/event-stream', ...headers },
    });
  const createToken = async (more: Json): Promise<string> =>
    (await platform.admin.post('/api-tokens', { name: 'agent', ...more })).body.token;

  describe.each(['legacy', 'modern'] as const)(
    'with the official client of the %s protocol',
    (era) => {
      test('lists the tools of core and no others', async () => {
        const found = await names(await connect('', undefined, era));
        for (const name of [
          'list_modules',
          'get_ready',
          'post_apitokens',
          'delete_apitokens_id',
          'get_config',
          'get_config_core',
        ]) {
          expect(found).toContain(name);
        }
        expect(
          found.filter((name) =>
            /login|password|twofa|qrcode|authorization|database|introspection/.test(name),
          ),
        ).toEqual([]);
      });

      test('loads modules for one address only', async () => {
        const found = await names(await connect('?modules=authorization', undefined, era));
        expect(found).toContain('post_authorization_relations_many');
        expect(found).toContain('patch_config_authorization');
        expect(await names(await connect('', undefined, era))).not.toContain(
          'post_authorization_relations_many',
        );
      });

      test('calls a tool: data is the body that HTTP answers', async () => {
        const client = await connect('?modules=database', undefined, era);
        const name = `Agent${era}`;
        const made: Json = await client.callTool({
          name: 'post_database_schemas',
          arguments: { name, fields: { title: 'String' } },
        });
        expect(made.structuredContent).toMatchObject({
          success: true,
          message: 'Executed POST /database/schemas',
          data: { name },
        });
        expect(JSON.parse(made.content[0].text)).toEqual(made.structuredContent);
        expect(
          (await platform.client.post(`/database/${name}`, { title: 'by a tool' })).status,
        ).toBe(200);
      });

      test('tells what an operation refuses, as HTTP does', async () => {
        const client = await connect('', undefined, era);
        const refused: Json = await client.callTool({
          name: 'delete_apitokens_id',
          arguments: { id: '00000000-0000-7000-8000-000000000000' },
        });
        expect(refused.isError).toBe(true);
        expect(JSON.parse(refused.content[0].text)).toMatchObject({
          status: 404,
          code: 'API_TOKEN_NOT_FOUND',
          requestId: expect.any(String),
        });
      });

      test.each([
        ['an unknown tool', 'get_nothing', {}, /no tool get_nothing/],
        ['a tool that is not loaded', 'get_authorization_resources', {}, /modules=authorization/],
      ])('refuses %s with -32602', async (_what, name, args, message) => {
        const client = await connect('', undefined, era);
        await expect(client.callTool({ name, arguments: args })).rejects.toMatchObject({
          code: -32_602,
          message: expect.stringMatching(message),
        });
      });

      test.each([
        ['a missing argument', 'post_apitokens', {}, { path: 'name', rule: 'required' }],
        [
          'a wrong argument',
          'post_apitokens',
          { name: 'a', expiresInDays: 'soon' },
          { path: 'expiresInDays', rule: 'type' },
        ],
        [
          'an unknown argument',
          'post_apitokens',
          { name: 'a', expiresInDay: 3 },
          {
            path: 'expiresInDay',
            rule: 'unknown',
            message: 'is not known here: did you mean expiresInDays?',
          },
        ],
        [
          'an argument of a tool that takes none',
          'list_modules',
          { module: 'x' },
          { path: 'module', rule: 'unknown' },
        ],
      ])('tells the model of %s in a result (SEP-1303)', async (_what, name, args, problem) => {
        const client = await connect('', undefined, era);
        const refused: Json = await client.callTool({ name, arguments: args });
        expect(refused.isError).toBe(true);
        expect(JSON.parse(refused.content[0].text)).toMatchObject({
          status: 400,
          errors: [problem],
        });
      });

      test('reads the documents', async () => {
        const client = await connect('', undefined, era);
        const { resources } = await client.listResources();
        expect(resources.map(({ uri }) => uri)).toEqual([
          'service://docs/admin-api/swagger',
          'service://docs/client-api/swagger',
          'service://docs/api-guide',
        ]);
        for (const { uri } of resources)
          expect((await client.readResource({ uri })).contents[0]).toMatchObject({ uri });
        const part: Json = await client.readResource({
          uri: 'service://docs/admin-api/authorization',
        });
        expect(Object.keys(JSON.parse(part.contents[0].text).paths)).toContain(
          '/authorization/relations',
        );
        await expect(client.readResource({ uri: 'service://docs/none' })).rejects.toMatchObject({
          code: -32_602,
        });
      });
    },
  );

  test('lists what there is to load', async () => {
    const client = await connect('?modules=database,nonsense');
    const { structuredContent }: Json = await client.callTool({
      name: 'list_modules',
      arguments: {},
    });
    expect(structuredContent.data).toMatchObject({
      loadedModules: expect.arrayContaining(['core', 'database']),
      unknown: ['nonsense'],
    });
    expect(
      structuredContent.data.modules.find(({ name }: Json) => name === 'authorization'),
    ).toMatchObject({ loaded: false });
  });

  test('every tool has a sound description', async () => {
    const { tools } = await (await connect('?modules=all')).listTools();
    expect(tools.length).toBeGreaterThan(60);
    for (const { name, description, inputSchema, annotations } of tools as Json[]) {
      expect(name).toMatch(/^[a-z0-9_]{1,64}$/);
      expect(description.length).toBeGreaterThan(5);
      expect(inputSchema).toMatchObject({ type: 'object', additionalProperties: false });
      expect(annotations.readOnlyHint).toBe(name.startsWith('get_') || annotations.readOnlyHint);
    }
    expect(tools.find(({ name }) => name === 'delete_apitokens_id')?.annotations).toMatchObject({
      destructiveHint: true,
      idempotentHint: true,
    });
    // What undoes or destroys says so, whatever its method.
    for (const name of [
      'post_state_import',
      'post_config_core_rollback',
      'post_database_schemas_schemaname_docs_purge',
    ])
      expect(tools.find((tool) => tool.name === name)?.annotations, name).toMatchObject({
        destructiveHint: true,
      });
    const patch: Json = tools.find(({ name }) => name === 'patch_config_authentication');
    expect(Object.keys(patch.inputSchema.properties)).toContain('local');
    expect(patch.inputSchema.required).toBeUndefined();
  });

  test('writes what a tool did to the audit log', async () => {
    const client = await connect();
    await client.callTool({
      name: 'patch_config_core',
      arguments: { audit: { retentionDays: 200 } },
    });
    const { entries } = (await platform.admin.get('/audit-logs?action=core.config.change')).body;
    expect(entries[0]).toMatchObject({
      outcome: 'success',
      target: 'module:core',
      changes: { differences: [{ path: 'audit.retentionDays', from: 365, to: 200 }] },
    });
  });

  test('writes down what a model reads, and which arguments it gave', async () => {
    const { token, id } = (
      await platform.admin.post('/api-tokens', { name: 'reader', scopes: ['read'] })
    ).body;
    const client = await connect('?modules=database', { credential: token });
    await client.callTool({ name: 'get_admins', arguments: { limit: 3 } });
    await client.callTool({ name: 'get_admins_id', arguments: { id } });
    await client.callTool({ name: 'get_live', arguments: {} });
    const { entries } = (await platform.admin.get('/audit-logs?action=core.')).body;
    const own = entries.filter(({ actor }: Json) => actor.tokenPrefix === token.slice(0, 12));
    expect(own).toMatchObject([
      {
        action: 'core.admins.get',
        target: `id:${id}`,
        outcome: 'refused',
        status: 404,
        changes: { arguments: ['id'] },
      },
      {
        action: 'core.admins.list',
        target: null,
        outcome: 'success',
        status: 200,
        changes: { arguments: ['limit'] },
      },
    ]);
  });

  test('loses nothing of what models have read when it stops right after', async () => {
    const going = await createTestPlatform({ databaseUrl: platform.databaseUrl ?? '' });
    const call = {
      jsonrpc: '2.0',
      id: 1,
      method: 'tools/call',
      params: { name: 'get_admins', arguments: { limit: 7 } },
    };
    const answer = await going.admin.post('/mcp', call, {
      headers: {
        accept: 'application/json, text/event-stream',
        'x-request-id': 'read-before-the-stop',
      },
    });
    await going.close();
    expect(answer.status).toBe(200);
    const { entries } = (await platform.admin.get('/audit-logs?action=core.admins.list')).body;
    expect(
      entries.filter(({ requestId }: Json) => requestId === 'read-before-the-stop'),
    ).toHaveLength(1);
  });

  test('imports state by a tool, as a rehearsal too', async () => {
    const client = await connect();
    const modules = { authorization: { roles: [{ name: 'by-agent', permissions: [] }] } };
    const run = async (more: Json): Promise<Json> =>
      (
        (await client.callTool({
          name: 'post_state_import',
          arguments: { modules, ...more },
        })) as Json
      ).structuredContent.data;
    expect((await run({ dryRun: true })).plan).toMatchObject([
      { action: 'create', key: 'by-agent' },
    ]);
    expect((await run({})).moduleResults.authorization.roles).toMatchObject({ created: 1 });
    expect((await run({})).moduleResults.authorization.roles).toMatchObject({
      created: 0,
      unchanged: 1,
    });
  });

  describe('over HTTP', () => {
    const ping = { jsonrpc: '2.0', id: 1, method: 'ping' };

    test('says where to read about credentials', async () => {
      const refused = await platform.adminAnonymous.post('/mcp', ping);
      expect(refused.status).toBe(401);
      const [, address = ''] =
        /resource_metadata="([^"]+)"/.exec(refused.headers.get('www-authenticate') ?? '') ?? [];
      // Clients compare it with the address that they were given.
      const resource = new URL('/mcp', platform.addresses.admin).href;
      expect((await (await fetch(address)).json()) as Json).toMatchObject({
        resource,
        bearer_methods_supported: ['header'],
      });
    });

    test.each(['GET', 'DELETE', 'PUT'])('answers %s with 405', async (method) => {
      const answer = await platform.admin.send(method, '/mcp');
      expect(answer.status).toBe(405);
      expect(answer.headers.get('allow')).toContain('POST');
    });

    test('answers JSON, keeps no session and takes notifications', async () => {
      const answer = await rpc(ping);
      expect(answer.headers.get('content-type')).toContain('application/json');
      expect(answer.headers.get('mcp-session-id')).toBeNull();
      expect(answer.body).toMatchObject({ id: 1, result: {} });
      const notified = await rpc({ jsonrpc: '2.0', method: 'notifications/initialized' });
      expect([notified.status, notified.text]).toEqual([202, '']);
    });

    test.each([
      ['no JSON', '{"jsonrpc"', 400, -32_700],
      ['no JSON-RPC', { hello: 'world' }, 400, undefined],
      ['an unknown method', { jsonrpc: '2.0', id: 1, method: 'tools/destroy' }, undefined, -32_601],
    ])('refuses %s', async (_what, body, status, code) => {
      const answer = await rpc(body);
      if (status !== undefined) expect(answer.status).toBe(status);
      expect(answer.status).toBeLessThan(500);
      if (code !== undefined) expect(answer.body.error.code).toBe(code);
    });

    test('takes batches only of the version that had them', async () => {
      const batch = [ping, { ...ping, id: 2 }];
      expect((await rpc(batch)).body).toHaveLength(2);
      expect((await rpc(batch, { 'mcp-protocol-version': '2025-03-26' })).body).toHaveLength(2);
      for (const version of ['2025-06-18', '2025-11-25', '2026-07-28']) {
        const refused = await rpc(batch, { 'mcp-protocol-version': version });
        expect([refused.status, refused.body.error.code], version).toEqual([400, -32_600]);
      }
    });

    test('takes no argument that list_modules does not have, and modules from wherever the address names them', async () => {
      const call = (args: Json) => ({
        jsonrpc: '2.0',
        id: 1,
        method: 'tools/call',
        params: { name: 'list_modules', arguments: args },
      });
      expect((await rpc(call({ module: 'x' }))).body.result.isError).toBe(true);
      const { text } = await platform.admin.post('/mcp?modules=database&modules=router', call({}), {
        headers: { accept: 'application/json' },
      });
      expect(JSON.parse(text).result.structuredContent.data.loadedModules).toEqual([
        'core',
        'database',
        'router',
      ]);
    });

    test('says what it offers to who asks without the protocol', async () => {
      const { body } = await platform.admin.get('/mcp/health?modules=database');
      expect(body).toMatchObject({
        status: 'healthy',
        version: '2026-07-28',
        serverInfo: { name: 'penstock-admin' },
      });
      expect(body.tools.enabled).toBeLessThan(body.tools.total);
      expect(body.modules.list.find(({ name }: Json) => name === 'database')).toMatchObject({
        loaded: true,
      });
      expect((await platform.adminAnonymous.get('/mcp/health')).status).toBe(401);
    });

    test('refuses a version of the protocol that nobody speaks', async () => {
      const answer = await rpc(
        { jsonrpc: '2.0', id: 1, method: 'tools/list' },
        { 'mcp-protocol-version': '1999-01-01' },
      );
      expect(answer.status).toBe(400);
    });

    test('refuses pages of other origins', async () => {
      await platform.admin.patch('/config/admin', { cors: { origin: 'https://panel.example' } });
      expect((await rpc(ping, { origin: 'https://evil.example' })).status).toBe(403);
      expect((await rpc(ping, { origin: 'https://panel.example' })).status).toBe(200);
      await platform.admin.patch('/config/admin', { cors: { origin: '*' } });
    });

    test('checks where a request comes from by default (CWE-350)', async () => {
      expect((await rpc(ping, { origin: 'http://evil.example.com' })).status).toBe(403);
      expect((await rpc(ping, { origin: 'http://localhost:6274' })).status).toBe(200);
      const { hostname, port } = new URL(platform.addresses.admin);
      const body = JSON.stringify(ping);
      const ask = (host: string): Promise<string> =>
        sendRaw(
          `http://${hostname}:${port}`,
          `POST /mcp HTTP/1.1\r\nHost: ${host}\r\nmasterkey: ${testMasterKey}\r\nContent-Type: application/json\r\nAccept: application/json\r\nContent-Length: ${body.length}\r\nConnection: close\r\n\r\n${body}`,
        );
      expect(parseRaw(await ask('evil.example.com')).status).toBe(403);
      for (const host of [`127.0.0.1:${port}`, 'localhost:3030', 'penstock:3030', '[::1]:3030']) {
        expect([host, parseRaw(await ask(host)).status]).toEqual([host, 200]);
      }
      await platform.admin.patch('/config/admin', { hostUrl: 'https://api.example.com' });
      expect(parseRaw(await ask('api.example.com')).status).toBe(200);
      expect((await rpc(ping, { origin: 'https://api.example.com' })).status).toBe(200);
      await platform.admin.patch('/config/admin', { hostUrl: '' });
    });

    test('refuses bodies that are too large, and answers that are not JSON', async () => {
      expect((await rpc({ ...ping, params: { text: 'x'.repeat(1_100_000) } })).status).toBe(413);
      expect((await rpc(ping, { accept: 'text/html' })).status).toBe(400);
    });

    test('stops a model that loops', async () => {
      const token = await createToken({ scopes: ['read'] });
      const call = {
        jsonrpc: '2.0',
        id: 1,
        method: 'tools/call',
        params: { name: 'list_modules', arguments: {} },
      };
      const statuses = await Promise.all(
        Array.from({ length: 70 }, () =>
          platform.adminAnonymous.post('/mcp', call, { headers: { credential: token } }),
        ),
      );
      const refused = statuses.filter(({ status }) => status === 429);
      expect(refused.length).toBeGreaterThan(0);
      expect(refused[0]?.body.error.message).toContain('60 in 10 seconds');
      const again = () =>
        platform.adminAnonymous.post('/mcp', call, { headers: { credential: token } });
      expect((await again()).status).toBe(429);
      await platform.admin.patch('/config/admin', { mcp: { callsPer10s: 100_000 } });
      expect((await again()).status).toBe(200);
      await platform.admin.patch('/config/admin', { mcp: { callsPer10s: 60 } });
    });

    test('is not there when it is switched off', async () => {
      await platform.admin.patch('/config/admin', { transports: { mcp: false } });
      expect((await rpc(ping)).status).toBe(404);
      await platform.admin.patch('/config/admin', { transports: { mcp: true } });
      expect((await rpc(ping)).status).toBe(200);
    });
  });

  test('reaches every tool without loading it, where operators allow that', async () => {
    await platform.admin.patch('/config/admin', { mcp: { dynamic: true } });
    const client = await connect();
    const { structuredContent }: Json = await client.callTool({
      name: 'search_tools',
      arguments: { query: 'relations', module: 'authorization' },
    });
    expect(structuredContent.data.tools.map(({ name }: Json) => name)).toContain(
      'get_authorization_relations',
    );
    const called: Json = await client.callTool({
      name: 'call_tool',
      arguments: { name: 'get_authorization_relations', arguments: { limit: 1 } },
    });
    expect(called.structuredContent).toMatchObject({ success: true });
    await platform.admin.patch('/config/admin', { mcp: { dynamic: false } });
  });

  test('keeps secrets from models, where operators want that', async () => {
    await platform.admin.patch('/config/router', { captcha: { secretKey: 'planted-captcha' } });
    await platform.admin.patch('/config/admin', { mcp: { allowSecrets: false } });
    const client = await connect();
    expect(await names(client)).not.toContain('post_apitokens');
    for (const [name, args] of [
      ['get_config', { reveal: true }],
      ['get_config_core', { reveal: true }],
      ['get_state_export', { secrets: 'include' }],
    ] as const) {
      const refused: Json = await client.callTool({ name, arguments: args });
      expect(refused).toMatchObject({
        isError: true,
        structuredContent: { error: { status: 403 } },
      });
      expect(JSON.stringify(refused)).not.toContain('planted');
    }
    await platform.admin.patch('/config/admin', { mcp: { allowSecrets: true } });
  });
});
