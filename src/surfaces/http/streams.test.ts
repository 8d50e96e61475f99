/** Forms, streamed bodies, streamed answers and cookies, as operations declare them. */
import { once } from 'node:events';
import { connect } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import Type from 'typebox';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { parseRaw, sendRaw } from '../../../test/support/raw-http.ts';
import { type SurfaceFixture, startSurfaceFixture } from '../../../test/support/surface-fixture.ts';
import { waitFor } from '../../../test/support/wait-for.ts';
import { errors } from '../../kernel/errors.ts';
import {
  anyType,
  defineOperation,
  type Operation,
  Reply,
  TextResult,
} from '../../kernel/operations/operation.ts';

/** What the handlers saw. */
const seen = {
  started: 0,
  pulled: 0,
  ended: 0,
  aborted: undefined as unknown,
  received: 0,
  uploads: 0,
  usedAgain: 0,
};

const common = {
  surface: 'client',
  access: 'public',
  limit: 'standard',
  summary: 'Example',
  mcp: false,
  graphql: false,
} as const;
const textStream = { 'text/plain': 'Lines' } as const;

async function* lines(count: number): AsyncGenerator<string> {
  seen.started++;
  try {
    for (let i = 0; i < count; i++) {
      seen.pulled++;
      yield `${i}\n`;
    }
  } finally {
    seen.ended++;
  }
}

/** One piece, whose memory is used for something else as soon as it may be. */
async function* onePiece(length: number): AsyncGenerator<Uint8Array> {
  seen.started++;
  const bytes = Buffer.alloc(length, 'x');
  try {
    yield bytes;
    bytes.fill('y');
    seen.usedAgain++;
  } finally {
    seen.ended++;
  }
}

const operations: readonly Operation[] = [
  defineOperation({
    ...common,
    id: 'streams.whole',
    method: 'GET',
    path: '/whole',
    input: { query: Type.Object({ length: Type.Integer() }) },
    output: TextResult,
    streams: textStream,
    handler: (_context, { query: { length } }) =>
      Reply.stream('text/plain', onePiece(length), { 'content-length': String(length) }),
  }),
  defineOperation({
    ...common,
    id: 'streams.either',
    method: 'POST',
    path: '/either',
    input: {
      body: Type.Object({ name: Type.String() }),
      stream: { contentTypes: ['multipart/form-data'], description: 'A form.', limit: 2_000_000 },
    },
    output: Type.Object({ parsed: Type.Unknown(), bytes: Type.Integer(), header: Type.String() }),
    async handler(_context, { body, stream }) {
      let bytes = 0;
      if (stream) for await (const chunk of stream) bytes += chunk.length;
      return { parsed: body ?? null, bytes, header: stream?.contentTypeHeader ?? '' };
    },
  }),
  defineOperation({
    ...common,
    id: 'streams.anything',
    method: 'PUT',
    path: '/anything',
    bodyLimit: 1_000,
    input: { stream: { contentTypes: [anyType], description: 'Bytes.', mayBeEmpty: true } },
    output: Type.Object({ bytes: Type.Integer(), contentType: Type.String() }),
    async handler(_context, { stream }) {
      let bytes = 0;
      for await (const chunk of stream) bytes += chunk.length;
      return { bytes, contentType: stream.contentType };
    },
  }),
  defineOperation({
    ...common,
    id: 'streams.part',
    method: 'GET',
    path: '/part',
    input: {},
    output: TextResult,
    streams: textStream,
    handler: () =>
      Reply.stream(
        'text/plain',
        lines(3),
        { 'content-length': '6', etag: '"v1"', 'content-range': 'bytes 0-5/9' },
        206,
      ),
  }),
  defineOperation({
    ...common,
    id: 'streams.form',
    method: 'POST',
    path: '/form',
    bodyTypes: ['form', 'json'],
    input: {
      body: Type.Object({
        name: Type.String(),
        age: Type.Optional(Type.Integer()),
        ok: Type.Optional(Type.Boolean()),
        tags: Type.Optional(Type.Array(Type.String())),
      }),
    },
    output: Type.Object({ body: Type.Record(Type.String(), Type.Unknown()) }),
    handler: (_context, { body }) => ({ body }),
  }),
  defineOperation({
    ...common,
    id: 'streams.upload',
    method: 'POST',
    path: '/upload',
    access: 'user',
    bodyLimit: 1_000_000,
    input: {
      query: Type.Object({ stopAfter: Type.Optional(Type.Integer()) }),
      stream: { contentTypes: ['text/csv', 'application/jsonl'], description: 'Rows.' },
    },
    output: Type.Object({
      bytes: Type.Integer(),
      contentType: Type.String(),
      length: Type.Optional(Type.Integer()),
    }),
    async handler({ signal }, { stream, query }) {
      seen.uploads++;
      signal.addEventListener('abort', () => {
        seen.aborted = signal.reason;
      });
      let bytes = 0;
      for await (const chunk of stream) {
        bytes += chunk.length;
        seen.received = bytes;
        if (bytes >= (query.stopAfter ?? Number.POSITIVE_INFINITY)) break;
      }
      return {
        bytes,
        contentType: stream.contentType,
        ...(stream.length === undefined ? {} : { length: stream.length }),
      };
    },
  }),
  defineOperation({
    ...common,
    id: 'streams.download',
    method: 'GET',
    path: '/download',
    input: { query: Type.Object({ count: Type.Integer() }) },
    output: TextResult,
    streams: textStream,
    handler: ({ signal }, { query }) => {
      signal.addEventListener('abort', () => {
        seen.aborted = signal.reason;
      });
      return Reply.stream('text/plain; charset=utf-8', lines(query.count), {
        'content-disposition': 'attachment',
      });
    },
  }),
  defineOperation({
    ...common,
    id: 'streams.broken',
    method: 'GET',
    path: '/broken',
    input: { query: Type.Object({ after: Type.Integer() }) },
    output: TextResult,
    streams: textStream,
    handler: (_context, { query }) =>
      Reply.stream(
        'text/plain',
        (async function* () {
          yield* lines(query.after);
          throw errors.CONFLICT({ message: 'Broken' });
        })(),
      ),
  }),
  defineOperation({
    ...common,
    id: 'streams.slow',
    method: 'GET',
    path: '/slow',
    deadlineMs: 80,
    input: { query: Type.Object({ first: Type.Boolean() }) },
    output: TextResult,
    streams: textStream,
    handler: (_context, { query }) =>
      Reply.stream(
        'text/plain',
        (async function* () {
          if (query.first) yield 'first\n';
          await new Promise(() => undefined);
        })(),
      ),
  }),
  defineOperation({
    ...common,
    id: 'streams.cookies',
    method: 'POST',
    path: '/cookies',
    idempotency: false,
    input: {},
    output: Type.Object({ user: Type.String() }),
    handler: () =>
      Reply.value({ user: 'ann', secret: 'never leaves' }).withCookies([
        { name: 'accessToken', value: 'a', maxAge: 60_000 },
        { name: 'refreshToken', value: 'r', sameSite: 'strict', path: '/renew' },
      ]),
  }),
];

type RequestBody = NonNullable<RequestInit['body']>;

let surfaces: SurfaceFixture;
beforeAll(async () => {
  surfaces = await startSurfaceFixture({ operations });
});
afterAll(() => surfaces.close());

const post = (
  path: string,
  body: RequestBody,
  contentType: string,
  headers: Record<string, string> = {},
) =>
  surfaces.client(path, {
    method: 'POST',
    body,
    headers: { 'content-type': contentType, ...headers },
  });

const upload = (body: RequestBody, contentType = 'text/csv', path = '/upload') =>
  surfaces.client(path, {
    method: 'POST',
    body,
    headers: { 'content-type': contentType, authorization: 'Bearer good' },
    ...(body instanceof ReadableStream ? { duplex: 'half' } : {}),
  } as RequestInit);

const form = 'application/x-www-form-urlencoded';

describe('forms', () => {
  it('are decoded by the declared types', async () => {
    const answer = await post(
      '/form',
      'name=Ann+B%C3%A9&age=7&ok=true&tags=a&tags=b&tags=c,d&unknown=1',
      form,
    );
    expect(await answer.json()).toEqual({
      body: { name: 'Ann Bé', age: 7, ok: true, tags: ['a', 'b', 'c', 'd'] },
    });
    expect((await post('/form', 'name=a', `${form}; charset=UTF-8`)).status).toBe(200);
    expect((await post('/form', '{"name":"a"}', 'application/json')).status).toBe(200);
  });

  it.each([
    [
      'age=x',
      [
        { path: 'name', rule: 'required' },
        { path: 'age', rule: 'type' },
      ],
    ],
    ['name=a&name=b', [{ path: 'name', rule: 'single' }]],
    ['name=%zz', [{ path: 'name', rule: 'encoding' }]],
    ['name=%00', [{ path: 'name', rule: 'text' }]],
    ['name[x]=1', [{ path: 'name', rule: 'nested' }]],
    ['__proto__[x]=1', [{ path: 'name', rule: 'required' }]],
  ])('%s is refused by name', async (text, problems) => {
    const answer = await post('/form', text, form);
    const body = (await answer.json()) as { errors: unknown[] };
    expect(answer.status).toBe(400);
    expect(body.errors).toHaveLength(problems.length);
    expect(body.errors).toEqual(
      expect.arrayContaining(problems.map((problem) => expect.objectContaining(problem))),
    );
  });

  it('are taken only where they are declared, and only up to the limit', async () => {
    expect((await post('/cookies', 'a=b', form)).status).toBe(200);
    expect((await post('/form', 'a', 'text/plain')).status).toBe(415);
    expect((await post('/form', `name=${'x'.repeat(1_100_000)}`, form)).status).toBe(413);
  });
});

describe('streamed bodies', () => {
  it('reach the handler piece by piece, with what was announced', async () => {
    const answer = await upload('x'.repeat(300_000), 'Text/CSV; charset=utf-8');
    expect(await answer.json()).toEqual({
      bytes: 300_000,
      contentType: 'text/csv',
      length: 300_000,
    });
    expect(answer.headers.get('connection')).toBe('keep-alive');
  });

  it('keep their connection when they were read to the end, and end it when they were not', async () => {
    const body = 'x'.repeat(70_000);
    const one = (query: string) =>
      `POST /upload${query} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer good\r\nContent-Type: text/csv\r\nContent-Length: ${body.length}\r\n\r\n${body}`;
    const answers = async (text: string) =>
      (await sendRaw(surfaces.clientAddress, text, 1_000)).split('HTTP/1.1 200').length - 1;
    expect(await answers(one('') + one('') + one('?stopAfter=1') + one(''))).toBe(3);
  });

  it('are refused before a byte is read: caller, type, length, absence, other input', async () => {
    const before = seen.uploads;
    const statusOf = async (head: string) =>
      parseRaw(
        await sendRaw(
          surfaces.clientAddress,
          `POST ${head}\r\nHost: x\r\nConnection: close\r\n\r\n`,
          300,
        ),
      ).status;
    const good = 'HTTP/1.1\r\nAuthorization: Bearer good';
    const csv = 'Content-Type: text/csv';
    const expects = 'Content-Length: 10\r\nExpect: 100-continue';
    expect(await statusOf(`/upload HTTP/1.1\r\n${csv}\r\n${expects}`)).toBe(401);
    expect(await statusOf(`/upload ${good}\r\nContent-Type: text/plain\r\n${expects}`)).toBe(415);
    expect(
      await statusOf(`/upload ${good}\r\n${csv}\r\nContent-Encoding: gzip\r\n${expects}`),
    ).toBe(415);
    expect(
      await statusOf(
        `/upload ${good}\r\n${csv}\r\nContent-Length: 1000001\r\nExpect: 100-continue`,
      ),
    ).toBe(413);
    expect(await statusOf(`/upload?stopAfter=x ${good}\r\n${csv}\r\n${expects}`)).toBe(400);
    expect(await statusOf(`/upload ${good}\r\n${csv}`)).toBe(400);
    expect(seen.uploads).toBe(before);
  });

  it('are cut off at the limit while they arrive', async () => {
    const endless = new ReadableStream({
      pull: (controller) => controller.enqueue(new Uint8Array(50_000)),
    });
    const answer = await upload(endless).catch((error: Error) => error);
    // The client may still be sending when it is told; either it reads why, or it sees the connection end.
    if (answer instanceof Response) expect(answer.status).toBe(413);
    expect(seen.received).toBeLessThanOrEqual(1_000_000);
  });

  it('may be answered before they were read', async () => {
    const answer = await upload('x'.repeat(600_000), 'text/csv', '/upload?stopAfter=1');
    expect(answer.status).toBe(200);
    expect(((await answer.json()) as { bytes: number }).bytes).toBeLessThan(600_000);
  });

  it('end the work when the client goes away', async () => {
    seen.aborted = undefined;
    const before = seen.uploads;
    const socket = connect(Number(new URL(surfaces.clientAddress).port), '127.0.0.1');
    await once(socket, 'connect');
    socket.write(
      'POST /upload HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer good\r\nContent-Type: text/csv\r\nContent-Length: 500000\r\n\r\nabc',
    );
    await waitFor(() => seen.uploads > before);
    socket.destroy();
    await waitFor(() => seen.aborted !== undefined);
    expect(surfaces.lines.filter(({ level }) => level === 'error')).toEqual([]);
  });
});

describe('a body that is parsed or streamed', () => {
  it('goes by its content type, with a limit of its own', async () => {
    const parsed = await post('/either', '{"name":"a"}', 'application/json');
    expect(await parsed.json()).toEqual({ parsed: { name: 'a' }, bytes: 0, header: '' });
    const type = 'multipart/form-data; boundary=XyZ';
    const streamed = await post('/either', 'x'.repeat(1_500_000), type);
    expect(await streamed.json()).toEqual({ parsed: null, bytes: 1_500_000, header: type });
    expect((await post('/either', 'x'.repeat(2_000_001), type)).status).toBe(413);
    expect((await post('/either', '{}', 'application/json')).status).toBe(400);
    expect((await post('/either', 'x', 'text/plain')).status).toBe(415);
    const huge = `{"name":"${'x'.repeat(1_500_000)}"}`;
    expect((await post('/either', huge, 'application/json')).status).toBe(413);
  });

  it('may be of any type, and empty, where the declaration says so', async () => {
    const put = (init: RequestInit) => surfaces.client('/anything', { method: 'PUT', ...init });
    expect(await (await put({})).json()).toEqual({ bytes: 0, contentType: '' });
    const headers = { 'content-type': 'Image/PNG; q=1' };
    expect(await (await put({ body: 'abc', headers })).json()).toEqual({
      bytes: 3,
      contentType: 'image/png',
    });
  });
});

describe('parts of streamed answers', () => {
  it('have the status and the length that the handler says', async () => {
    const answer = await surfaces.client('/part');
    expect(answer.status).toBe(206);
    expect(answer.headers.get('content-length')).toBe('6');
    expect(answer.headers.get('content-range')).toBe('bytes 0-5/9');
    expect(await answer.text()).toBe('0\n1\n2\n');
  });

  it('are not made for HEAD, nor for who has them', async () => {
    const before = seen.started;
    const head = await surfaces.client('/part', { method: 'HEAD' });
    expect(head.status).toBe(206);
    expect(head.headers.get('content-length')).toBe('6');
    const known = await surfaces.client('/part', { headers: { 'if-none-match': '"v0", "v1"' } });
    expect(known.status).toBe(304);
    expect(known.headers.get('etag')).toBe('"v1"');
    expect(seen.started).toBe(before);
  });
});

describe('answers of one large piece', () => {
  it('give their memory back when the system has it, and not before', async () => {
    Object.assign(seen, { usedAgain: 0 });
    const length = 3_000_000;
    const read = async () =>
      (await surfaces.client(`/whole?length=${length}`)).text().then((text) => new Set(text));
    for (const letters of await Promise.all(Array.from({ length: 8 }, read)))
      expect([...letters]).toEqual(['x']);
    await waitFor(() => seen.usedAgain === 8);
  });

  it('end, and use nothing again, where the reader went away', async () => {
    const { started, ended, usedAgain } = seen;
    const socket = connect(Number(new URL(surfaces.clientAddress).port), '127.0.0.1');
    await once(socket, 'connect');
    socket.pause();
    socket.write('GET /whole?length=50000000 HTTP/1.1\r\nHost: x\r\n\r\n');
    // More than the system takes: what is left waits.
    await waitFor(() => seen.started > started);
    socket.destroy();
    await waitFor(() => seen.ended > ended);
    expect(seen.usedAgain).toBe(usedAgain);
  });
});

describe('streamed answers', () => {
  it('arrive whole, without an announced length', async () => {
    const answer = await surfaces.client('/download?count=1000');
    expect([
      answer.headers.get('content-length'),
      answer.headers.get('content-disposition'),
    ]).toEqual([null, 'attachment']);
    expect(answer.headers.get('x-content-type-options')).toBe('nosniff');
    expect((await answer.text()).split('\n')).toHaveLength(1_001);
    expect(await (await surfaces.client('/download?count=0')).text()).toBe('');
  });

  it('are made at the pace of the reader, and end when it goes away', async () => {
    Object.assign(seen, { pulled: 0, aborted: undefined });
    const ended = seen.ended;
    const socket = connect(Number(new URL(surfaces.clientAddress).port), '127.0.0.1');
    await once(socket, 'connect');
    socket.pause();
    socket.write('GET /download?count=100000000 HTTP/1.1\r\nHost: x\r\n\r\n');
    await waitFor(() => seen.pulled > 100);
    const isOver = async (): Promise<boolean> => {
      const before = seen.pulled;
      await sleep(100);
      return seen.pulled === before;
    };
    await waitFor(isOver);
    expect(seen.ended).toBe(ended);
    socket.destroy();
    await waitFor(() => seen.ended > ended && seen.aborted !== undefined);
  });

  it('are not begun for HEAD', async () => {
    const before = seen.started;
    const answer = await surfaces.client('/download?count=5', { method: 'HEAD' });
    expect([answer.status, answer.headers.get('content-type'), await answer.text()]).toEqual([
      200,
      'text/plain; charset=utf-8',
      '',
    ]);
    expect(seen.started).toBe(before);
  });

  it('are errors like any other while nothing was sent, and cut off afterwards', async () => {
    const early = await surfaces.client('/broken?after=0');
    expect([early.status, await early.json()]).toEqual([
      409,
      expect.objectContaining({ message: 'Broken' }),
    ]);
    const late = await surfaces.client('/broken?after=3');
    expect(late.status).toBe(200);
    await expect(late.text()).rejects.toThrow();
    expect(surfaces.lines).toContainEqual(
      expect.objectContaining({ level: 'error', message: 'An answer broke off' }),
    );
  });

  it('have a deadline', async () => {
    expect((await surfaces.client('/slow?first=false')).status).toBe(504);
    const late = await surfaces.client('/slow?first=true');
    expect(late.status).toBe(200);
    await expect(late.text()).rejects.toThrow();
  });
});

describe('cookies', () => {
  it('are headers of their own, and the value is projected as ever', async () => {
    const answer = await surfaces.client('/cookies', { method: 'POST' });
    expect(await answer.json()).toEqual({ user: 'ann' });
    expect(answer.headers.getSetCookie()).toEqual([
      'accessToken=a; Path=/; Max-Age=60; HttpOnly; Secure; SameSite=Lax',
      'refreshToken=r; Path=/renew; HttpOnly; Secure; SameSite=Strict',
    ]);
  });
});

describe('the API description', () => {
  it('names the media types of bodies and answers', async () => {
    const { paths } = (await (await surfaces.client('/swagger.json')).json()) as {
      paths: Record<string, Record<string, unknown>>;
    };
    expect(paths['/form']?.post).toMatchObject({
      requestBody: { content: { 'application/json': {}, 'application/x-www-form-urlencoded': {} } },
    });
    expect(paths['/upload']?.post).toMatchObject({
      requestBody: {
        required: true,
        content: { 'text/csv': { schema: { type: 'string', contentEncoding: 'binary' } } },
      },
      responses: { 413: {}, 415: {} },
    });
    expect(JSON.stringify(paths['/upload'])).not.toContain('IdempotencyKey');
    expect(paths['/download']?.get).toMatchObject({
      responses: { 200: { content: { 'text/plain': {} } } },
    });
  });
});

describe('contradictions', () => {
  const define = (part: Partial<Operation>) => () =>
    defineOperation({
      ...common,
      id: 'x',
      method: 'POST',
      path: '/x',
      input: {},
      output: TextResult,
      handler: () => '',
      ...part,
    } as never);
  const stream = { contentTypes: ['text/csv'], description: 'Rows.' };

  it.each([
    ['a stream without a limit', { input: { stream } }],
    ['a stream of GET', { method: 'GET', input: { stream }, bodyLimit: 1 }],
    [
      'a form that is no object',
      { input: { body: Type.Array(Type.String()) }, bodyTypes: ['form'] },
    ],
    ['types of no body', { bodyTypes: ['form'] }],
    ['a deadline of a day', { deadlineMs: 86_400_000 }],
  ] as const)('%s is refused at start', (_name, part) => {
    expect(define(part as Partial<Operation>)).toThrow(/^Operation x: /);
  });
});
