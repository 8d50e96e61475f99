/**
 * Bodies are refused before they are read when they may be, and never crash anything.
 * Guards against: GHSA-9ccr-fpp6-78qf and GHSA-5j86-7r7m-p8h6 (prototype pollution), 50 MB bodies parsed
 * before authentication (spec/router.md 7, 6).
 */
import { once } from 'node:events';
import { connect } from 'node:net';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { parseRaw, sendRaw } from '../../../test/support/raw-http.ts';
import { type SurfaceFixture, startSurfaceFixture } from '../../../test/support/surface-fixture.ts';

let surfaces: SurfaceFixture;
beforeAll(async () => {
  surfaces = await startSurfaceFixture();
});
afterAll(() => surfaces.close());

const post = (
  body: string | Buffer | undefined,
  headers: Record<string, string> = { 'content-type': 'application/json' },
) =>
  surfaces.client('/notes', { method: 'POST', headers, ...(body === undefined ? {} : { body }) });

const codeOf = async (response: Response): Promise<[number, string]> => [
  response.status,
  ((await response.json()) as { code: string }).code,
];

/** Framing of a body that is not what it says (https://cwe.mitre.org/data/definitions/444.html): refused, and nothing behind it is read as a request. */
describe('broken chunks', () => {
  const request = (chunks: string, path = '/notes') =>
    `POST ${path} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n${chunks}`;
  const next = 'GET /notes HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n';

  it.each([
    ['a size that is none', 'ZZ\r\n{}\r\n0\r\n\r\n'],
    ['a size without end', 'FFFFFFFFFFFFFFFFF\r\n{}\r\n0\r\n\r\n'],
    ['an extension with a bare line end', '2;a\nx\r\n{}\r\n0\r\n\r\n'],
    ['a length in the trailer', '2\r\n{}\r\n0\r\nContent-Length: 5\r\n\r\n'],
  ])('%s is told', async (_what, chunks) => {
    const answer = await sendRaw(surfaces.clientAddress, request(chunks) + next);
    const { status, body } = parseRaw(answer);
    expect([status, JSON.parse(body || '{}').code]).toEqual([400, 'MALFORMED_REQUEST']);
    expect(answer.match(/HTTP\/1\.1/g)).toHaveLength(1);
  });

  it('are no answer to a request before them', async () => {
    const answer = await sendRaw(
      surfaces.clientAddress,
      next.replace('close', 'keep-alive') + request('ZZ\r\n'),
    );
    expect(parseRaw(answer).status).not.toBe(400);
  });
});

describe('JSON bodies', () => {
  it.each([
    '{',
    '{"title":',
    "{'title':1}",
    '{"title":"x"}}',
    'nonsense',
    '"',
    '[1,]',
    '\u0000',
    '{"title":NaN}',
  ])('%j is malformed', async (text) => {
    expect(await codeOf(await post(text))).toEqual([400, 'JSON_MALFORMED']);
  });

  it('says where malformed JSON goes wrong', async () => {
    expect(await (await post('{"title":"x",}')).json()).toMatchObject({
      message: 'The body is not valid JSON (at character 13)',
    });
  });

  it('refuses bytes that are not UTF-8', async () => {
    expect(await codeOf(await post(Buffer.from([0x7b, 0x22, 0xff, 0x22, 0x7d])))).toEqual([
      400,
      'JSON_MALFORMED',
    ]);
  });

  it.each([
    '{"__proto__":{"x":1},"title":"a"}',
    '{"title":"a","extra":{"__proto__":1}}',
    '{"title":"a","\\u005f_proto__":{}}',
    '{"constructor":{"prototype":{}},"title":"a"}',
  ])('%s is refused', async (text) => {
    expect(await codeOf(await post(text))).toEqual([400, 'INVALID_ARGUMENTS']);
    expect(Reflect.get({}, 'x')).toBeUndefined();
  });

  it('refuses NUL and half surrogates by name of the field', async () => {
    expect(await (await post('{"title":"a\\u0000b"}')).json()).toMatchObject({
      errors: [{ path: 'title', rule: 'text' }],
    });
    expect(await (await post('{"title":"\\ud800"}')).json()).toMatchObject({
      errors: [{ path: 'title', rule: 'text' }],
    });
  });

  it('takes a byte order mark, an empty body without type, and JSON subtypes', async () => {
    expect((await post('\ufeff{"title":"a"}')).status).toBe(200);
    expect(await (await post(undefined, {})).json()).toMatchObject({
      message: 'title: is required',
    });
    expect(
      (
        await post('{"title":"a"}', {
          'content-type': 'application/merge-patch+json; charset=UTF-8',
        })
      ).status,
    ).toBe(200);
  });

  it.each([
    'text/plain',
    'application/x-www-form-urlencoded',
    'multipart/form-data; boundary=x',
    'application/json; charset=latin1',
    ';;;',
    `application/${'j'.repeat(5_000)}`,
  ])('of type %s are 415', async (type) =>
    expect(await codeOf(await post('{"title":"a"}', { 'content-type': type }))).toEqual([
      415,
      'UNSUPPORTED_MEDIA_TYPE',
    ]),
  );

  it('that are compressed are 415', async () => {
    expect(
      (await post('x', { 'content-type': 'application/json', 'content-encoding': 'gzip' })).status,
    ).toBe(415);
  });

  it('of 64 KB strings are judged like any other', async () => {
    const long = await post(JSON.stringify({ title: 'x'.repeat(65_536) }));
    expect(await long.json()).toMatchObject({
      status: 400,
      message: 'title: must have at most 100 characters',
    });
  });

  it('are ignored where none is declared', async () => {
    expect((await surfaces.client('/ping', { method: 'POST', body: 'whatever' })).status).toBe(200);
  });
});

describe('oversized bodies', () => {
  it('are refused by their announced length, without reading them', async () => {
    const raw = await sendRaw(
      surfaces.clientAddress,
      'POST /notes HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 900000000\r\n\r\n{"title":',
    );
    const { status, head, body } = parseRaw(raw);
    expect([status, (JSON.parse(body) as { code: string }).code]).toEqual([
      413,
      'PAYLOAD_TOO_LARGE',
    ]);
    expect(head.toLowerCase()).toContain('connection: close');
  });

  it('are refused while they arrive in chunks, and the client reads why', async () => {
    const socket = connect(Number(new URL(surfaces.clientAddress).port), '127.0.0.1');
    const received: Buffer[] = [];
    socket.on('data', (chunk) => received.push(chunk)).on('error', () => undefined);
    await once(socket, 'connect');
    socket.write(
      'POST /notes HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n',
    );
    const chunk = `8000\r\n${'x'.repeat(0x8000)}\r\n`;
    for (let i = 0; i < 20 && socket.writable; i++) socket.write(chunk);
    await once(socket, 'close');
    expect(parseRaw(Buffer.concat(received).toString()).status).toBe(413);
  });

  it('are not asked for when the caller is refused', async () => {
    const raw = await sendRaw(
      surfaces.clientAddress,
      'PUT /notes/1 HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: 50\r\nExpect: 100-continue\r\n\r\n',
      300,
    );
    expect(parseRaw(raw).status).toBe(401);
  });

  it('are asked for when the caller expects to be', async () => {
    const raw = await sendRaw(
      surfaces.clientAddress,
      'POST /notes HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: 13\r\nExpect: 100-continue\r\n\r\n{"title":"a"}',
    );
    expect(raw.startsWith('HTTP/1.1 100 Continue')).toBe(true);
    expect(raw).toContain('HTTP/1.1 200 OK');
  });

  it('do not spoil a connection that is kept', async () => {
    const small = `POST /notes HTTP/1.1\r\nHost: x\r\nContent-Type: text/plain\r\nContent-Length: 5\r\n\r\nhello`;
    const raw = await sendRaw(
      surfaces.clientAddress,
      `${small}GET /notes/special HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n`,
    );
    expect(raw.match(/HTTP\/1\.1 \d{3}/g)).toEqual(['HTTP/1.1 415', 'HTTP/1.1 200']);
  });
});

describe('requests that are no HTTP', () => {
  it.each([
    ['nonsense', 'hello\r\n\r\n', 400],
    ['a bad header', 'GET / HTTP/1.1\r\nHost: x\r\nbad header\r\n\r\n', 400],
    [
      'two lengths',
      'POST /notes HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab',
      400,
    ],
    [
      'length and chunks',
      'POST /notes HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n',
      400,
    ],
    ['headers of 200 KB', `GET / HTTP/1.1\r\nHost: x\r\nX: ${'y'.repeat(200_000)}\r\n\r\n`, 431],
  ])('%s is answered in JSON', async (_name, bytes, status) => {
    const answer = parseRaw(await sendRaw(surfaces.clientAddress, bytes));
    expect(answer.status).toBe(status);
    expect(JSON.parse(answer.body)).toMatchObject({ status, requestId: expect.any(String) });
    expect(answer.head).toContain('x-content-type-options: nosniff');
  });

  it('refuses requests without Host, but for those of HTTP/1.0', async () => {
    const status = async (version: string): Promise<number> =>
      parseRaw(
        await sendRaw(
          surfaces.clientAddress,
          `GET /notes/special HTTP/${version}\r\nConnection: close\r\n\r\n`,
        ),
      ).status;
    expect(await status('1.1')).toBe(400);
    expect(await status('1.0')).toBe(200);
  });
});
