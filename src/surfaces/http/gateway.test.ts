import Type from 'typebox';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { sendRaw } from '../../../test/support/raw-http.ts';
import { type SurfaceFixture, startSurfaceFixture } from '../../../test/support/surface-fixture.ts';
import { createIdentity } from '../../kernel/identity.ts';
import { defineOperation, type Operation, TextResult } from '../../kernel/operations/operation.ts';

let surfaces: SurfaceFixture;
beforeAll(async () => {
  surfaces = await startSurfaceFixture();
});
afterAll(() => surfaces.close());

const json = (body: unknown): RequestInit => ({
  method: 'POST',
  headers: { 'content-type': 'application/json' },
  body: JSON.stringify(body),
});

const errorOf = async (response: Response): Promise<Record<string, unknown>> => {
  expect(response.headers.get('content-type')).toBe('application/json; charset=utf-8');
  return (await response.json()) as Record<string, unknown>;
};

describe('routing', () => {
  it('prefers literal segments, ignores one trailing slash and decodes parameters', async () => {
    expect(await (await surfaces.client('/notes/special')).json()).toEqual({ result: 'special' });
    expect(await (await surfaces.client('/notes/special/')).json()).toEqual({ result: 'special' });
    expect(await (await surfaces.client('/notes/a%2Fb%20c')).json()).toEqual({ id: 'a/b c' });
    expect((await surfaces.client('/notes/special//')).status).toBe(404);
    expect((await surfaces.client('/NOTES')).status).toBe(404);
  });

  it('answers unknown paths, wrong methods and broken addresses in JSON', async () => {
    const unknown = await surfaces.client('/nothing/here?x=1');
    expect(await errorOf(unknown)).toMatchObject({
      name: 'NOT_FOUND',
      status: 404,
      code: 'NOT_FOUND',
      conduitCode: 'NOT_FOUND',
    });
    const wrong = await surfaces.client('/notes', { method: 'DELETE' });
    expect(wrong.headers.get('allow')).toBe('GET, HEAD, POST, OPTIONS');
    expect(await errorOf(wrong)).toMatchObject({ name: 'METHOD_NOT_ALLOWED', status: 405 });
    expect(await errorOf(await surfaces.client('/%zz'))).toMatchObject({ status: 400 });
    expect((await surfaces.client('/notes', { method: 'PROPFIND' })).status).toBe(405);
    expect((await surfaces.client(`/notes/${'x'.repeat(65_000)}`)).status).toBe(404);
  });

  it('serves HEAD by GET, without a body', async () => {
    const response = await surfaces.client('/notes/abc', { method: 'HEAD' });
    expect([
      response.status,
      response.headers.get('content-length'),
      await response.text(),
    ]).toEqual([200, '12', '']);
  });

  it('does not mix the surfaces', async () => {
    expect((await surfaces.admin('/notes')).status).toBe(404);
    expect((await surfaces.client('/locked')).status).toBe(404);
  });
});

describe('answers', () => {
  it('gives text as result, projects objects and redirects', async () => {
    expect(await (await surfaces.client('/ping', { method: 'POST' })).json()).toEqual({
      result: 'pong',
    });
    expect(
      await (await surfaces.client('/notes', json({ title: 'a', author: { name: 'b' } }))).json(),
    ).toEqual({ body: { title: 'a' } });
    const away = await surfaces.client('/away', { redirect: 'manual' });
    expect([away.status, away.headers.get('location')]).toEqual([302, '/notes']);
  });

  it.each(['plain', 'Zoë', '漢字 🚲', `${'x'.repeat(50)}é`])(
    'sends what it is given, by its length in bytes (%#)',
    async (title) => {
      const response = await surfaces.client('/notes', {
        ...json({ title }),
        headers: { 'content-type': 'application/json', 'accept-encoding': 'identity' },
      });
      const expected = JSON.stringify({ body: { title } });
      expect(response.headers.get('content-length')).toBe(String(Buffer.byteLength(expected)));
      expect(await response.text()).toBe(expected);
    },
  );

  it('sends security headers, no-store and the request id with everything', async () => {
    for (const path of ['/notes', '/nothing', '/who/user', '/crash']) {
      const { headers } = await surfaces.client(path, { headers: { 'x-request-id': 'my-id.1' } });
      expect(headers.get('x-content-type-options')).toBe('nosniff');
      expect(headers.get('content-security-policy')).toContain("default-src 'none'");
      expect(headers.get('x-frame-options')).toBe('DENY');
      expect(headers.get('cache-control')).toBe('no-store');
      expect([headers.get('x-request-id'), headers.get('request-id')]).toEqual([
        'my-id.1',
        'my-id.1',
      ]);
    }
  });

  it('replaces request ids that are not short and safe', async () => {
    for (const id of ['a'.repeat(65), 'a b', '<x>']) {
      const { headers } = await surfaces.client('/notes', { headers: { 'x-request-id': id } });
      expect(headers.get('x-request-id')).toMatch(/^[0-9a-f-]{36}$/);
    }
  });

  it('sends an ETag when the handler set one, and 304 to whoever has it', async () => {
    const first = await surfaces.client('/notes/abc');
    expect(first.headers.get('etag')).toBe('"7"');
    const again = await surfaces.client('/notes/abc', {
      headers: { 'if-none-match': 'W/"1", "7"' },
    });
    expect([again.status, await again.text()]).toEqual([304, '']);
    expect(
      (await surfaces.client('/notes/abc', { headers: { 'if-none-match': '"8"' } })).status,
    ).toBe(200);
  });

  it('shows detail on the admin surface, and of a problem nothing but its id', async () => {
    const locked = await surfaces.admin('/locked');
    expect(locked.headers.get('retry-after')).toBe('3');
    expect(await errorOf(locked)).toMatchObject({ code: 'NOTE_LOCKED', detail: 'by job 7' });
    const crash = await errorOf(
      await surfaces.client('/crash', { headers: { 'x-request-id': 'crash-1' } }),
    );
    expect(crash).toEqual({
      name: 'INTERNAL_SERVER_ERROR',
      status: 500,
      message: 'Something went wrong on our side; the log has this request id',
      code: 'INTERNAL_SERVER_ERROR',
      conduitCode: 'INTERNAL_SERVER_ERROR',
      requestId: 'crash-1',
    });
    expect(surfaces.lines).toContainEqual(
      expect.objectContaining({
        level: 'error',
        fields: expect.objectContaining({ requestId: 'crash-1' }),
      }),
    );
  });

  it('sends no header that would break the response, and lives', async () => {
    const response = await surfaces.client('/bad-header', { redirect: 'manual' });
    expect([response.status, response.headers.get('set-cookie')]).toEqual([500, null]);
    await expect(surfaces.client('/bad-error-header')).rejects.toThrow();
    expect((await surfaces.client('/notes')).status).toBe(200);
  });

  it('answers what comes at once each by itself and in its order, whatever one of them answers', async () => {
    const paths = Array.from({ length: 40 }, (_, i) => `/notes/${i}`);
    paths[20] = '/bad-header';
    const requests = paths.map((path, i) =>
      [
        ...[`GET ${path} HTTP/1.1`, 'Host: test', `X-Request-Id: at-once-${i}`],
        ...(i === paths.length - 1 ? ['Connection: close'] : []),
        ...['', ''],
      ].join('\r\n'),
    );
    const text = await sendRaw(surfaces.clientAddress, requests.join(''));
    const heads = text.split('HTTP/1.1 ').slice(1);
    expect(heads.map((head) => head.slice(0, 3))).toEqual(
      paths.map((path) => (path === '/bad-header' ? '500' : '200')),
    );
    expect(heads.map((head) => /x-request-id: at-once-(\d+)/.exec(head)?.[1])).toEqual(
      paths.map((_, i) => String(i)),
    );
  });

  it('lists every problem of the input', async () => {
    const body = await errorOf(await surfaces.client('/notes?limit=x', json({ pages: 'x' })));
    expect(body).toMatchObject({
      status: 400,
      message: 'title: is required; pages: must be a whole number',
      errors: [
        { path: 'title', rule: 'required', message: 'is required' },
        { path: 'pages', rule: 'type', message: 'must be a whole number' },
      ],
    });
  });

  it('counts requests by template', async () => {
    await surfaces.client('/notes/some-secret-id');
    const text = await surfaces.metrics.expose();
    expect(text).toMatch(
      /test_http_request_duration_seconds_count\{surface="client",method="GET",route="\/notes\/:id",code="200"\} [1-9]/,
    );
    expect(text).not.toContain('some-secret-id');
    expect(text).toMatch(/test_client_routes_total\{module_name="router",transport="rest"\} \d\d/);
  });
});

describe('a route set that changes', () => {
  it('is swapped at once: no request sees a mixture, and the new route is live when replace returns', async () => {
    const route = (name: string, answer: string): Operation =>
      defineOperation({
        id: `swap.${name}`,
        surface: 'client',
        method: 'GET',
        path: `/swap/${name}`,
        access: 'public',
        limit: 'standard',
        summary: 'Swap',
        input: {},
        output: TextResult,
        handler: () => answer,
      });
    const versions = Array.from({ length: 20 }, (_, i) => String(i));
    let current = '';
    for (const version of versions) {
      surfaces.registry.replace('swap', [route('a', version), route('b', version)]);
      current = version;
      const answers = await Promise.all(
        ['a', 'b', 'a', 'b'].map(
          async (name) =>
            ((await (await surfaces.client(`/swap/${name}`)).json()) as { result: string }).result,
        ),
      );
      expect(answers).toEqual([current, current, current, current]);
    }
    surfaces.registry.replace('swap', []);
    expect((await surfaces.client('/swap/a')).status).toBe(404);
  });

  it('serves thousands of routes', async () => {
    const many = Array.from({ length: 3_000 }, (_, i) =>
      defineOperation({
        id: `many.${i}`,
        surface: 'client',
        method: 'GET',
        path: `/many/s${i}/:id`,
        access: 'public',
        limit: 'standard',
        summary: 'Many',
        input: { params: Type.Object({ id: Type.String() }) },
        output: TextResult,
        handler: (_context, { params }) => `${i} ${params.id}`,
      }),
    );
    surfaces.registry.replace('many', many);
    expect(await (await surfaces.client('/many/s2999/x')).json()).toEqual({ result: '2999 x' });
    surfaces.registry.replace('many', []);
  });
});

describe('while a module that checks credentials does not run', () => {
  it('answers 503 with Retry-After, and serves what is public', async () => {
    const alone = await startSurfaceFixture({ identity: createIdentity() });
    try {
      const user = await alone.client('/who/user', { headers: { authorization: 'Bearer good' } });
      expect([user.status, user.headers.get('retry-after')]).toEqual([503, '2']);
      expect((await alone.admin('/who/admin', { headers: { masterkey: 'master' } })).status).toBe(
        503,
      );
      expect((await alone.client('/who/public')).status).toBe(200);
    } finally {
      await alone.close();
    }
  });
});
