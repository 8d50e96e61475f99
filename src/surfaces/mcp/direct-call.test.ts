import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Json } from '../../../test/support/api.ts';
import { createTestPlatform, type TestPlatform } from '../../../test/support/platform.ts';

/** What the short way leaves to the library. */
const forLibrary = { progressToken: 1 };

describe('the short way of a tool call', () => {
  let platform: TestPlatform;
  beforeAll(async () => {
    platform = await createTestPlatform();
  });
  afterAll(() => platform.close());

  const send = async (message: Json, headers: Record<string, string>): Promise<Json> => {
    const answer = await platform.admin.post('/mcp', message, {
      headers: { accept: 'application/json, text/event-stream', ...headers },
    });
    return { status: answer.status, type: answer.headers.get('content-type'), body: answer.body };
  };
  const stateless = { 'mcp-protocol-version': '2026-07-28', 'mcp-method': 'tools/call' };
  const meta = {
    'io.modelcontextprotocol/protocolVersion': '2026-07-28',
    'io.modelcontextprotocol/clientInfo': { name: 'test', version: '1' },
    'io.modelcontextprotocol/clientCapabilities': {},
  };
  const call = (name: string, args: Json, id: number, more: Json = {}) => ({
    jsonrpc: '2.0',
    id,
    method: 'tools/call',
    params: { name, arguments: args, ...more },
  });
  const withoutTimes = (text: string): string =>
    text.replace(/"(requestId|timestamp|latencyMs)\\?":(\\?"[^"]*\\?"|[\d.]+)/g, '');

  test.each([
    ['get_admins', {}],
    ['get_config_core', {}],
    ['delete_apitokens_id', { id: '00000000-0000-7000-8000-000000000000' }],
    ['get_nothing', {}],
    ['post_apitokens', {}],
    ['post_apitokens', { name: 'x', more: true }],
  ])('answers %s %j as the library does, in both lines of the protocol', async (name, args) => {
    for (const [headers, more] of [
      [{}, { _meta: undefined }],
      [{ 'mcp-protocol-version': '2025-06-18' }, { _meta: undefined }],
      [{ ...stateless, 'mcp-name': name }, { _meta: meta }],
    ] as const) {
      const short = await send(call(name, args, 7, more), headers);
      const library = await send(
        call(name, args, 7, { _meta: { ...more._meta, ...forLibrary } }),
        headers,
      );
      expect(withoutTimes(JSON.stringify(short))).toBe(withoutTimes(JSON.stringify(library)));
    }
  });

  test('leaves to the library what says one thing in the header and another in the message', async () => {
    const other = await send(call('get_admins', {}, 1, { _meta: meta }), {
      ...stateless,
      'mcp-name': 'get_ready',
    });
    expect(other).toMatchObject({ status: 400, body: { error: { code: -32_020 } } });
  });
});
