/** Compressed answers: https://www.breachattack.com (what must not be), RFC 9110 8.4.1 and 12.5.3. */
import { request as sendRequest } from 'node:http';
import { brotliDecompressSync, gunzipSync } from 'node:zlib';
import Type from 'typebox';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { type SurfaceFixture, startSurfaceFixture } from '../../../test/support/surface-fixture.ts';
import { defineOperation, Reply } from '../../kernel/operations/operation.ts';

let surfaces: SurfaceFixture;
const long = JSON.stringify({ text: 'penstock '.repeat(2_000) });

const operation = (name: string, answer: () => Reply) =>
  defineOperation({
    id: `test.${name}`,
    surface: 'client',
    method: 'GET',
    path: `/${name}`,
    access: 'public',
    limit: 'standard',
    input: {},
    output: Type.Object({ text: Type.String() }),
    summary: name,
    handler: answer,
  });

beforeAll(async () => {
  surfaces = await startSurfaceFixture({
    operations: [
      operation('long', () => Reply.json(long)),
      operation('short', () => Reply.json('{"text":"a"}')),
      operation('strong', () => Reply.json(long, { etag: '"1"' })),
      operation('weak', () => Reply.json(long, { etag: 'W/"1"' })),
      operation('image', () => Reply.text('x'.repeat(9_000), 'image/png')),
    ],
  });
});
afterAll(() => surfaces?.close());

interface Raw {
  readonly status: number | undefined;
  readonly encoding: string | undefined;
  readonly vary: string | undefined;
  readonly length: number;
  readonly body: Buffer;
}

/** Without a client that unpacks by itself. */
const get = (
  path: string,
  headers: Record<string, string> = { 'accept-encoding': 'gzip, br' },
): Promise<Raw> =>
  new Promise((resolve, reject) => {
    sendRequest(`${surfaces.clientAddress}${path}`, { headers }, (response) => {
      const chunks: Buffer[] = [];
      response.on('data', (chunk: Buffer) => chunks.push(chunk));
      response.on('end', () => {
        const { statusCode: status, headers: got } = response;
        const { 'content-encoding': encoding, vary, 'content-length': length } = got;
        const body = Buffer.concat(chunks);
        resolve({ status, encoding, vary, length: Number(length), body });
      });
    })
      .on('error', reject)
      .end();
  });

it('go out as brotli, or as gzip, to those who ask', async () => {
  const brotli = await get('/long');
  expect(brotli).toMatchObject({ status: 200, encoding: 'br', length: brotli.body.length });
  expect(brotli.vary).toContain('Accept-Encoding');
  expect(brotliDecompressSync(brotli.body).toString()).toBe(long);
  expect(brotli.body.length).toBeLessThan(long.length / 4);
  const zipped = await get('/long', { 'accept-encoding': 'gzip, br;q=0' });
  expect(zipped.encoding).toBe('gzip');
  expect(gunzipSync(zipped.body).toString()).toBe(long);
});

it.each([
  ['short answers', '/short', {}],
  ['what is compressed already', '/image', {}],
  ['answers whose ETag promises the same bytes', '/strong', {}],
  ['answers to requests with cookies', '/long', { cookie: 'accessToken=secret' }],
  ['answers to those who do not ask', '/long', { 'accept-encoding': 'identity' }],
  ['answers to those who refuse', '/long', { 'accept-encoding': 'gzip;q=0, br;q=0.0' }],
])('but %s do not', async (_what, path, headers) => {
  const plain = await get(path, { 'accept-encoding': 'gzip, br', ...headers });
  expect(plain).toMatchObject({ status: 200, encoding: undefined, length: plain.body.length });
});

it('are the same version, which is asked for as before', async () => {
  expect((await get('/weak')).encoding).toBe('br');
  const again = await get('/weak', { 'accept-encoding': 'br', 'if-none-match': 'W/"1"' });
  expect(again).toMatchObject({ status: 304, encoding: undefined });
  expect(again.body).toHaveLength(0);
});
