/**
 * Whatever arrives, the answer is JSON with a request id and never a 5xx, and the process lives.
 * Guards against: exceptions on unusual headers, addresses and queries (the class of GHSA-8fpg-xm3f-6cx3).
 */
import fc from 'fast-check';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { parseRaw, sendRaw } from '../../../test/support/raw-http.ts';
import { type SurfaceFixture, startSurfaceFixture } from '../../../test/support/surface-fixture.ts';

let surfaces: SurfaceFixture;
beforeAll(async () => {
  surfaces = await startSurfaceFixture({ settings: { trustedProxies: ['127.0.0.1'] } });
});
afterAll(() => surfaces.close());

/** Bytes that a header line or an address may hold: everything but line ends. */
const bytes = (maxLength: number): fc.Arbitrary<Buffer> =>
  fc
    .uint8Array({ maxLength })
    .map((values) => Buffer.from(values.filter((value) => value !== 0x0a && value !== 0x0d)));

const headerName = fc.constantFrom(
  'Authorization',
  'Cookie',
  'masterkey',
  'credential',
  'X-Request-Id',
  'X-Forwarded-For',
  'Origin',
  'If-None-Match',
  'Idempotency-Key',
  'Content-Type',
  'Content-Encoding',
  'User-Agent',
  'Access-Control-Request-Method',
);
const headers = fc.array(fc.tuple(headerName, bytes(60)), { maxLength: 6 });
const nasty = fc.constantFrom(
  '__proto__',
  'constructor',
  'toString',
  '%00',
  '%',
  '..%2f',
  '[]',
  '[a][b]',
  ',',
  '\u{1f600}',
  '\'";--',
  '\ud800',
);
const segment = fc
  .oneof(fc.string({ maxLength: 20 }), nasty)
  .map((text) => encodeURI(text.toWellFormed()).replaceAll('#', '%23'));

async function expectOrderly(raw: string): Promise<void> {
  const { status, head, body } = parseRaw(raw);
  expect(status).toBeGreaterThanOrEqual(200);
  expect(status).toBeLessThan(500);
  expect(head).toContain('x-content-type-options: nosniff');
  if (status >= 400)
    expect(JSON.parse(body)).toMatchObject({
      status,
      code: expect.any(String),
      requestId: expect.any(String),
    });
}

it('survives any headers', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.constantFrom(
        'GET /who/user',
        'GET /who/optionalUser',
        'GET /notes',
        'OPTIONS /notes',
        'POST /ping',
      ),
      headers,
      async (start, fields) => {
        const lines = fields.map(([name, value]) =>
          Buffer.concat([Buffer.from(`${name}: `), value, Buffer.from('\r\n')]),
        );
        const request = Buffer.concat([
          Buffer.from(`${start} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n`),
          ...lines,
          Buffer.from('\r\n'),
        ]);
        await expectOrderly(await sendRaw(surfaces.clientAddress, request));
      },
    ),
    { numRuns: 300 },
  );
});

it('survives any path and query', async () => {
  const query = fc.array(
    fc.tuple(
      fc.constantFrom('limit', 'text', 'flag', 'sort', 'sizes', 'price', 'zz'),
      segment,
      segment,
    ),
    {
      maxLength: 5,
    },
  );
  await fc.assert(
    fc.asyncProperty(fc.array(segment, { maxLength: 3 }), query, async (segments, pairs) => {
      const path = `/notes${segments.map((one) => `/${one}`).join('')}`;
      const search = pairs
        .map(([name, suffix, value]) => `${name}${suffix.startsWith('[') ? suffix : ''}=${value}`)
        .join('&');
      const address = `${path}?${search}`.replaceAll(' ', '%20');
      await expectOrderly(
        await sendRaw(
          surfaces.clientAddress,
          `GET ${address} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n`,
        ),
      );
    }),
    { numRuns: 300 },
  );
});

it('survives any JSON body', async () => {
  await fc.assert(
    fc.asyncProperty(fc.jsonValue({ maxDepth: 6 }), async (value) => {
      const response = await surfaces.client('/notes', {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({
          title: 'a',
          pages: value,
          tags: value,
          author: value,
          extra: value,
          kind: value,
          [JSON.stringify(value)]: value,
        }),
      });
      expect([200, 400]).toContain(response.status);
      await response.json();
    }),
    { numRuns: 200 },
  );
});

it('has logged no problem', () => {
  expect(surfaces.lines).toEqual([]);
});
