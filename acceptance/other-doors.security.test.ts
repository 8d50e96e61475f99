// GraphQL, MCP and sockets refuse what HTTP refuses: patterns that would stop the process, half characters, NUL,
// nesting without end (security review 2026-11-22, D1 and D2).
import { io, type Socket } from 'socket.io-client';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Json } from '../test/support/api.ts';
import { createTestPlatform, type TestPlatform } from '../test/support/platform.ts';
import { waitFor } from '../test/support/wait-for.ts';

const bomb = '(?:(?:(?:){9999}){9999}){9999}';
/** As JSON text, so that escapes reach the server as they are written. */
const texts: readonly (readonly [string, string])[] = [
  ['half a character', '"a\\ud83d"'],
  ['NUL', '"a\\u0000"'],
  ['nesting', `${'['.repeat(5_000)}${']'.repeat(5_000)}`],
  ['a prototype', '{"__proto__":{"polluted":true}}'],
];

describe('the other doors', () => {
  let platform: TestPlatform;
  let socket: Socket;
  beforeAll(async () => {
    platform = await createTestPlatform();
    const cms = { query: { enabled: true, fields: ['title'], operators: ['$regex'] } };
    await platform.createSchema({
      name: 'Door',
      fields: { title: 'String', data: 'JSON' },
      conduitOptions: { cms },
    });
    const { accessToken } = await platform.registerUser();
    const options = {
      path: '/realtime',
      transports: ['websocket'],
      forceNew: true,
      auth: { token: accessToken },
    };
    socket = io(`${platform.addresses.realtime}/database/`, options);
    await waitFor(() => socket.connected);
  });
  afterAll(async () => {
    socket?.disconnect();
    await platform?.close();
  });

  const expectAlive = async () => {
    expect((await platform.client.get('/live')).status).toBe(200);
    expect(Object.prototype).not.toHaveProperty('polluted');
  };

  it.each(texts)('of GraphQL refuses %s', async (_, json) => {
    const document =
      'mutation ($data: JSONObject) { postDatabaseDoor(params: { title: "x", data: $data }) { _id } }';
    const body = `{"query":${JSON.stringify(document)},"variables":{"data":${json}}}`;
    const answer = await platform.client.post('/graphql', body, {
      headers: { 'content-type': 'application/json' },
    });
    expect({ status: answer.status, text: answer.text }).toMatchObject({ status: 400 });
    expect(answer.text).not.toContain('GRAPHQL_VALIDATION_FAILED');
    await expectAlive();
  });

  it('of GraphQL takes what is sound', async () => {
    const query =
      'mutation ($data: JSONObject) { postDatabaseDoor(params: { title: "x", data: $data }) { title } }';
    const answer = await platform.client.post('/graphql', {
      query,
      variables: { data: { a: '\u{1f600}' } },
    });
    expect(answer.body).toEqual({ data: { postDatabaseDoor: { title: 'x' } } });
  });

  it('of GraphQL refuses a pattern that would stop it', async () => {
    const document =
      'mutation ($query: JSONObject) { postDatabaseDoorQuery(params: { query: $query }) { count } }';
    const answer = await platform.client.post('/graphql', {
      query: document,
      variables: { query: { title: { $regex: bomb } } },
    });
    expect(answer.text).toContain('the pattern is too large');
    expect(answer.status).toBeLessThan(500);
    await expectAlive();
  });

  const call = (args: string) =>
    platform.admin.post(
      '/mcp?modules=database',
      `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"post_database_schemas_schemaname_query","arguments":${args}}}`,
      { headers: { 'content-type': 'application/json' } },
    );

  it('of MCP refuse a pattern that would stop them', async () => {
    const { body } = await call(`{"schemaName":"Door","query":{"title":{"$regex":"${bomb}"}}}`);
    expect(body).toMatchObject({ result: { isError: true } });
    expect(JSON.stringify(body)).toContain('the pattern is too large');
    await expectAlive();
  });

  it.each(texts)('of MCP refuse %s', async (_, json) => {
    const answer = await call(`{"schemaName":"Door","query":{"data":{"$eq":${json}}}}`);
    expect(answer.status).toBeLessThan(500);
    expect(
      answer.status >= 400 ||
        answer.body.error !== undefined ||
        answer.body.result?.isError === true,
    ).toBe(true);
    await expectAlive();
  });

  it.each([
    ['half a character', 'a\ud83d'],
    ['NUL', 'a\0'],
    ['a pattern', bomb],
    ['no text', { $regex: bomb }],
    ['a long text', 'x'.repeat(100_000)],
    ['nesting', Array.from({ length: 2_000 }).reduce<unknown>((inner) => [inner], 1)],
  ])('of sockets refuse %s', async (_, value) => {
    for (const input of [
      { schema: value },
      { schema: 'Door', documentId: value },
      { schema: 'Door', since: value },
    ]) {
      const answer: Json = await socket.timeout(20_000).emitWithAck('subscribe', input);
      expect(answer.ok).not.toBe(true);
      expect(answer.status ?? answer.error?.status).toBeLessThan(500);
    }
    expect(socket.connected).toBe(true);
    await expectAlive();
  });
});
