import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Json } from '../../../test/support/api.ts';
import { liftLimits } from '../../../test/support/permissions.ts';
import { createTestPlatform, type TestPlatform } from '../../../test/support/platform.ts';

let platform: TestPlatform;
const open: Client[] = [];

beforeAll(async () => {
  platform = await createTestPlatform();
  await liftLimits(platform.admin);
});
afterAll(async () => {
  for (const client of open) await client.close();
  await platform?.close();
});

const connect = async (
  query = '',
  headers: Record<string, string> = { masterkey: platform.masterKey },
): Promise<Client> => {
  const client = new Client({ name: 'test', version: '1.0.0' });
  const address = new URL(`/mcp${query}`, platform.addresses.admin);
  await client.connect(new StreamableHTTPClientTransport(address, { requestInit: { headers } }));
  open.push(client);
  return client;
};
const toolsOf = async (query: string): Promise<readonly Json[]> =>
  (await (await connect(query)).listTools()).tools as Json[];
const call = async (client: Client, name: string, args: Json): Promise<Json> =>
  client.callTool({ name, arguments: args });

describe('what a list of tools says', () => {
  test('describes every argument of every tool', async () => {
    const undescribed = (await toolsOf('?modules=all')).flatMap(({ name, inputSchema }) =>
      Object.entries(inputSchema.properties as Json)
        .filter(([, { description = '' }]: Json) => description.trim().length < 3)
        .map(([argument]) => `${name} ${argument}`),
    );
    expect(undescribed).toEqual([]);
  });

  test('says of every tool what it answers', async () => {
    for (const { name, outputSchema } of await toolsOf('?modules=all')) {
      expect(outputSchema, name).toMatchObject({ type: 'object', required: ['success'] });
      expect(Object.keys(outputSchema.properties), name).toContain('data');
    }
    const schemas = (await toolsOf('?modules=database')).find(
      ({ name }) => name === 'get_database_schemas',
    );
    expect(schemas?.outputSchema.properties.data.properties).toMatchObject({
      count: { type: 'integer' },
      schemas: { type: 'array', items: { properties: { name: { type: 'string' } } } },
    });
  });

  /** Four bytes are about one token. */
  const tokens = (value: unknown): number => Math.ceil(JSON.stringify(value).length / 4);

  test('is small enough for a model', async () => {
    expect(tokens(await toolsOf(''))).toBeLessThan(15_000);
    expect(tokens(await toolsOf('?modules=database,authorization'))).toBeLessThan(50_000);
    const all = await toolsOf('?modules=all');
    expect(tokens(all) / all.length).toBeLessThan(450);
  });

  test('leaves the rest to describe_tool, whether the tool is loaded or not', async () => {
    const listed = (await toolsOf('?modules=database')).find(
      ({ name }) => name === 'post_database_schemas',
    );
    expect(listed?.inputSchema.required).toContain('fields');
    expect(listed?.inputSchema.properties.fields.description).toContain('describe_tool');
    const whole = await call(await connect(), 'describe_tool', { name: 'post_database_schemas' });
    const { inputSchema, module } = whole.structuredContent.data;
    expect(module).toBe('database');
    expect(JSON.stringify(inputSchema)).toContain('onDelete');
    const unknown = await call(await connect(), 'describe_tool', { name: 'post_nothing' });
    expect(unknown).toMatchObject({ isError: true });
    expect(unknown.content[0].text).toContain('there is no tool post_nothing');
  });

  test('tells a narrow token nothing of tools that it may not use', async () => {
    const { token } = (
      await platform.admin.post('/api-tokens', { name: 'narrow', scopes: ['core', 'read'] })
    ).body;
    const client = await connect('', { credential: token });
    expect(await call(client, 'describe_tool', { name: 'post_database_schemas' })).toMatchObject({
      isError: true,
    });
  });

  test('is kept by the answers, as the official client checks', async () => {
    const client = await connect('?modules=all');
    await client.listTools();
    const reading = [
      ...['get_ready', 'get_live', 'get_config', 'get_config_modules', 'get_config_core'],
      ...['get_admins', 'get_apitokens', 'get_auditlogs', 'get_state_export', 'list_modules'],
      ...['get_database_schemas', 'get_database_customendpoints', 'get_database_insights'],
      ...['get_authorization_resources', 'get_authorization_roles', 'get_functions'],
      ...['get_authentication_users', 'get_communications_messages', 'get_communications_health'],
      ...['get_storage_files', 'get_storage_insights', 'get_routes', 'get_webhooks_endpoints'],
      ...['get_chat_rooms', 'get_forms', 'get_embeddings_status', 'get_router_middlewares'],
    ];
    const known = new Set((await client.listTools()).tools.map(({ name }) => name));
    for (const name of reading.filter((one) => known.has(one)))
      expect([name, (await call(client, name, {})).isError]).toEqual([name, undefined]);
    expect(reading.filter((one) => known.has(one)).length).toBeGreaterThan(20);
    const made = await call(client, 'post_database_schemas', {
      name: 'Checked',
      fields: { title: 'String' },
    });
    expect(made.structuredContent).toMatchObject({ success: true, data: { name: 'Checked' } });
  });
});

describe('prompts', () => {
  /** Arguments that fit, by prompt. */
  const fitting: Readonly<Record<string, Record<string, string>>> = {
    design_data_model: { purpose: 'A library lends books to its members', constraints: 'ISBN' },
    import_data: { schema: 'Book', source: 'books.csv: title, isbn, year', key: 'isbn' },
    set_permissions: { schema: 'Loan', rules: 'Members see their own loans, staff see all' },
    explain_access: { schema: 'Loan', record: 'loan-1', user: 'user-1', action: 'edit' },
    write_function: { task: 'Adds the fines of a member up', kind: 'request', name: 'fines' },
    debug_message: { recipient: 'ann@example.com' },
  };
  const textOf = async (client: Client, name: string, given: Record<string, string>) => {
    const { messages }: Json = await client.getPrompt({ name, arguments: given });
    expect(messages).toMatchObject([{ role: 'user', content: { type: 'text' } }]);
    return messages[0].content.text as string;
  };

  test('are there for the common jobs, each argument described', async () => {
    const { prompts } = await (await connect()).listPrompts();
    expect(prompts.map(({ name }) => name)).toEqual(Object.keys(fitting).sort());
    for (const { name, title = '', description = '', arguments: asked = [] } of prompts) {
      expect([name, title, description].every((text) => text.length > 5)).toBe(true);
      expect(
        asked.every((one) => (one.description ?? '').length > 5),
        name,
      ).toBe(true);
      for (const { name: argument, required } of asked)
        if (required) expect(Object.keys(fitting[name] ?? {})).toContain(argument);
    }
  });

  test('name tools that exist, and all that they need', async () => {
    const client = await connect('?modules=all');
    const tools = new Set((await client.listTools()).tools.map(({ name }) => name));
    for (const [name, given] of Object.entries(fitting)) {
      const text = await textOf(client, name, given);
      const named = [...text.matchAll(/`((?:get|post|put|patch|delete)_[a-z_]+)`/g)].map(
        ([, tool = '']) => tool,
      );
      expect(named.length, name).toBeGreaterThan(3);
      expect(
        named.filter((tool) => !tools.has(tool)),
        name,
      ).toEqual([]);
      expect(text).toContain('All of them are loaded.');
      expect(text).not.toMatch(/undefined|\[object/);
    }
  });

  test('hold what was given, and say which modules to load', async () => {
    const text = await textOf(await connect('?modules=database'), 'set_permissions', {
      schema: 'Loan',
      rules: 'Members see their own loans, staff see all',
    });
    expect(text).toContain('# Set permissions for Loan');
    expect(text).toContain('staff see all');
    expect(text).toContain('?modules=core,database,authorization');
  });

  test.each([
    ['a prompt that is not there', 'dance', {}, /no prompt dance/],
    ['a missing argument', 'import_data', { schema: 'Book' }, /source: is required/],
    ['an empty one', 'import_data', { schema: 'Book', source: ' ' }, /source: is required/],
    ['a wrong one', 'import_data', { schema: 'a b', source: 'x' }, /schema: must match/],
    [
      'a kind that is none',
      'write_function',
      { task: 'Adds fines up', kind: 'dance' },
      /kind: must be one of/,
    ],
    [
      'an unknown one',
      'explain_access',
      { schema: 'A', record: 'b', user: 'c', recrod: 'd' },
      /recrod: is not known here: did you mean record/,
    ],
  ])('refuse %s with -32602', async (_what, name, given: Record<string, string>, message) => {
    const client = await connect();
    await expect(client.getPrompt({ name, arguments: given })).rejects.toMatchObject({
      code: -32_602,
      message: expect.stringMatching(message),
    });
  });

  test('are those whose tools the token may use', async () => {
    const { token } = (
      await platform.admin.post('/api-tokens', { name: 'reader', scopes: ['read'] })
    ).body;
    const client = await connect('', { credential: token });
    expect((await client.listPrompts()).prompts.map(({ name }) => name)).toEqual([
      'explain_access',
    ]);
    await expect(
      client.getPrompt({ name: 'write_function', arguments: fitting.write_function ?? {} }),
    ).rejects.toMatchObject({ code: -32_602 });
  });

  test('go with their module', async () => {
    const client = await connect();
    await platform.admin.patch('/config/functions', { active: false });
    expect((await client.listPrompts()).prompts.map(({ name }) => name)).not.toContain(
      'write_function',
    );
    await platform.admin.patch('/config/functions', { active: true });
    expect((await client.listPrompts()).prompts.map(({ name }) => name)).toContain(
      'write_function',
    );
  });
});
