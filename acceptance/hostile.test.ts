/** Bad input on both surfaces: a typed 4xx in JSON that names the place, and nothing half done. */
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Answer, Api } from '../test/support/api.ts';
import { createTestPlatform, type TestPlatform } from '../test/support/platform.ts';
import { parseRaw, sendRaw } from '../test/support/raw-http.ts';

const nul = String.fromCharCode(0);
const large = 'x'.repeat(65_536);
const tooLarge = JSON.stringify({ text: 'x'.repeat(3_000_000) });

const expectError = (answer: Answer, status: number) => {
  expect(answer.headers.get('content-type')).toMatch(/^application\/json/);
  expect({ status: answer.status, text: answer.text.slice(0, 300) }).toMatchObject({ status });
  expect(answer.body).toMatchObject({
    name: expect.any(String),
    status,
    message: expect.any(String),
    code: expect.any(String),
    requestId: expect.any(String),
  });
  expect(answer.text).not.toMatch(/\n\s+at |node_modules|SELECT |INSERT |syntax error/);
};

describe('hostile input', () => {
  let platform: TestPlatform;
  let user: Api;
  beforeAll(async () => {
    platform = await createTestPlatform();
    user = (await platform.registerUser()).api;
    await platform.createSchema({
      name: 'Note',
      fields: {
        text: { type: 'String', required: true },
        data: 'JSON',
        other: { type: 'Relation', model: 'Note' },
      },
    });
  });
  afterAll(() => platform.close());

  /** The same malformed request to a writing route of each surface. */
  const onBoth = (body: string, headers: Record<string, string> = {}) =>
    Promise.all([
      user.post('/database/Note', body, { headers }),
      platform.admin.post('/database/schemas', body, { headers }),
    ]);

  it.each([
    ['malformed JSON', '{"text": ', 400],
    ['no object', '[]', 400],
    ['null', 'null', 400],
    ['text', '"text"', 400],
    ['nothing', '', 400],
    ['a prototype key', '{"text":"x","name":"X","fields":{},"__proto__":{"polluted":true}}', 400],
    ['a body over the limit', tooLarge, 413],
    ['nesting without end', `{"text":"x","data":${'['.repeat(50_000)}${']'.repeat(50_000)}}`, 400],
  ])('refuses %s', async (_, body, status) => {
    for (const answer of await onBoth(body)) expectError(answer, status);
    expect(Object.prototype).not.toHaveProperty('polluted');
  });

  it('refuses another content type', async () => {
    for (const answer of await onBoth('text=x', {
      'content-type': 'application/x-www-form-urlencoded',
    }))
      expectError(answer, 415);
  });

  it('names the field that has the wrong type or a NUL', async () => {
    for (const text of [1, null, {}, ['x'], `a${nul}b`]) {
      const answer = await user.post('/database/Note', { text });
      expectError(answer, 400);
      expect(answer.body.errors[0].path).toBe('text');
    }
    const inside = await user.post('/database/Note', { text: 'x', data: { deep: [`a${nul}b`] } });
    expectError(inside, 400);
    expect(inside.body.errors[0].path).toContain('data');
  });

  it('stores long and odd text as it is', async () => {
    const odd = [
      '__proto__',
      'constructor',
      `'; DROP TABLE "Note"; --`,
      '\u202e\u2066',
      '😀',
      large,
    ];
    for (const text of odd)
      expect((await user.post('/database/Note', { text })).body.text).toBe(text);
  });

  it.each([
    '__proto__',
    'constructor',
    'toString',
    'Note"',
    "Note'--",
    `Note${nul}`,
    '../',
    large.slice(0, 8000),
  ])('does not know the schema %j', async (name) => {
    for (const path of [
      `/database/${encodeURIComponent(name)}`,
      `/database/${encodeURIComponent(name)}/${randomUUID()}`,
    ]) {
      const answer = await user.get(path);
      expect(answer.status).toBeOneOf([400, 404, 414, 431]);
      expectError(answer, answer.status);
    }
  });

  it.each([
    '__proto__',
    'constructor',
    'a b',
    'x"y',
    "x'y",
    `x${nul}y`,
    '',
    '1a',
    'x'.repeat(200),
    'function',
    'many',
  ])('refuses a schema called %j', async (name) => {
    expectError(
      await platform.admin.post('/database/schemas', { name, fields: { text: 'String' } }),
      400,
    );
  });

  it.each([
    '__proto__',
    'constructor',
    'a"b',
    "a'b",
    `a${nul}b`,
    '$where',
    'x'.repeat(200),
    '_id',
    '__v',
  ])('refuses a field called %j', async (field) => {
    const body = `{"name":"Bad${randomUUID().slice(0, 8)}","fields":{${JSON.stringify(field)}:"String"}}`;
    expectError(await platform.admin.post('/database/schemas', body), 400);
  });

  it('does not take ids that are none', async () => {
    for (const id of [
      '1',
      'null',
      "1' OR '1'='1",
      `${nul}`,
      large.slice(0, 4000),
      '00000000-0000-0000-0000-00000000000g',
    ]) {
      const answer = await user.get(`/database/Note/${encodeURIComponent(id)}`);
      expect(answer.status).toBeOneOf([400, 404]);
      expectError(answer, answer.status);
    }
    expectError(await user.post('/database/Note', { text: 'x', other: 'not-an-id' }), 400);
  });

  it('answers 405 with Allow for a wrong method and 404 for an unknown path', async () => {
    const wrong = await user.put('/authentication/local', {});
    expectError(wrong, 405);
    expect(wrong.headers.get('allow')).toContain('POST');
    expectError(await platform.admin.delete('/login'), 405);
    for (const api of [user, platform.admin]) expectError(await api.get('/no/such/path'), 404);
  });

  it('refuses credentials that are malformed, with 401 and not an error of ours', async () => {
    for (const authorization of [
      'Bearer',
      'Bearer  ',
      'bearer',
      'Basic YTpi',
      `Bearer ${large.slice(0, 10_000)}`,
      'Bearer a b c',
      'Bearer é',
    ]) {
      expectError(
        await platform.client.get('/authentication/user', { headers: { authorization } }),
        401,
      );
      expectError(
        await platform.adminAnonymous.get('/config', { headers: { authorization } }),
        401,
      );
    }
  });

  it('answers JSON also to what is hardly HTTP', async () => {
    for (const url of [platform.addresses.client, platform.addresses.admin]) {
      const requests = [
        'GET /%zz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n',
        `GET /${'x'.repeat(20_000)} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n`,
        `GET /nothing HTTP/1.1\r\nHost: x\r\nX-Long: ${'x'.repeat(40_000)}\r\nConnection: close\r\n\r\n`,
        'BREW /coffee HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n',
        'nonsense\r\n\r\n',
      ];
      for (const request of requests) {
        const { status, body } = parseRaw(await sendRaw(url, request));
        expect({ request: request.slice(0, 40), status }).toMatchObject({
          status: expect.toSatisfy((code: number) => code >= 400 && code < 500),
        });
        expect(JSON.parse(body.slice(body.indexOf('{'), body.lastIndexOf('}') + 1))).toMatchObject({
          status,
          message: expect.any(String),
        });
      }
    }
  });

  it('stops reading a chunked body that is too large', async () => {
    const chunk = `${(65_536).toString(16)}\r\n${large}\r\n`;
    const head = `POST /authentication/local HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n`;
    const { status } = parseRaw(await sendRaw(platform.addresses.client, head + chunk.repeat(60)));
    expect(status).toBe(413);
  });

  it('keeps secrets out of error answers', async () => {
    const answers = await Promise.all([
      platform.adminAnonymous.post(
        '/login',
        { username: 'admin', password: 'guess-password-1' },
        { headers: { masterkey: platform.masterKey } },
      ),
      platform.client.post('/authentication/local', {
        email: 'a@example.com',
        password: 'guess-password-1',
      }),
      platform.admin.patch('/config/admin', { cors: 'guess-password-1' }),
    ]);
    for (const { text } of answers) {
      expect(text).not.toContain('guess-password-1');
      expect(text).not.toContain(platform.masterKey);
    }
  });
});
