/** Resumable uploads with the official client, and with requests that it would never send. */
import { createHash, randomBytes, randomUUID } from 'node:crypto';
import { readdir } from 'node:fs/promises';
import { request as httpRequest } from 'node:http';
import { join } from 'node:path';
import { Upload } from 'tus-js-client';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { openTestConnection } from '../../test/support/connection.ts';
import type { TestNode, TestUser } from '../../test/support/node.ts';
import { createTestPlatform, type TestPlatform } from '../../test/support/platform.ts';
import { waitFor } from '../../test/support/wait-for.ts';
import { bearer, readContent } from './requests.ts';

let platform: TestPlatform;
let ann: TestUser;
let ben: TestUser;
beforeAll(async () => {
  platform = await createTestPlatform();
  ann = await platform.registerUser();
  ben = await platform.registerUser();
});
afterAll(() => platform?.close());

interface Sending {
  readonly chunkSize?: number;
  readonly uploadUrl?: string;
  readonly metadata?: Record<string, string>;
}

/** Answers the address of the upload. */
function send(node: TestNode, user: TestUser, content: Buffer, options: Sending = {}) {
  const { chunkSize = 3 * 1024 * 1024, uploadUrl, metadata = {} } = options;
  const { promise, resolve, reject } = Promise.withResolvers<string>();
  const upload = new Upload(content, {
    endpoint: new URL('/storage/resumable', node.addresses.client).href,
    headers: bearer(user),
    chunkSize,
    metadata: { filename: `${randomUUID()}.bin`, ...metadata },
    retryDelays: [100, 500, 1_000, 3_000],
    ...(uploadUrl !== undefined && { uploadUrl }),
    onError: reject,
    onSuccess: () => resolve(upload.url ?? ''),
  });
  upload.start();
  return promise;
}

const idOf = (url: string): string => url.slice(url.lastIndexOf('/') + 1);
const digest = (bytes: Buffer): string => createHash('sha256').update(bytes).digest('hex');
const stored = async (id: string): Promise<Buffer> =>
  (await readContent(platform, `/storage/download/${id}`, { headers: bearer(ann) })).bytes;

const tus = { 'tus-resumable': '1.0.0' };
const request = async (
  method: string,
  path: string,
  {
    headers = {},
    body,
    user = ann,
  }: { headers?: Record<string, string>; body?: Buffer; user?: TestUser } = {},
) => {
  const response = await fetch(new URL(path, platform.addresses.client), {
    method,
    headers: { ...tus, ...bearer(user), ...headers },
    ...(body && { body: new Uint8Array(body) }),
  });
  const text = await response.text();
  return {
    status: response.status,
    headers: response.headers,
    body: text ? JSON.parse(text) : undefined,
  };
};
const encode = (fields: Record<string, string>): string =>
  Object.entries(fields)
    .map(([key, value]) => `${key} ${Buffer.from(value).toString('base64')}`)
    .join(',');
async function begin(length: number, fields: Record<string, string> = {}): Promise<string> {
  const named = { filename: `${randomUUID()}.bin`, ...fields };
  const answer = await request('POST', '/storage/resumable', {
    headers: { 'upload-length': String(length), 'upload-metadata': encode(named) },
  });
  expect(answer.status, JSON.stringify(answer.body)).toBe(201);
  return answer.headers.get('location') ?? '';
}
const patch = (path: string, offset: number, body: Buffer, headers: Record<string, string> = {}) =>
  request('PATCH', path, {
    body,
    headers: {
      'content-type': 'application/offset+octet-stream',
      'upload-offset': String(offset),
      ...headers,
    },
  });

/** Announces a body of that length, sends its beginning, and goes away. */
function sendPart(path: string, length: number, beginning: Buffer): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  const sending = httpRequest(new URL(path, platform.addresses.client), {
    method: 'PATCH',
    headers: {
      ...tus,
      ...bearer(ann),
      'content-type': 'application/offset+octet-stream',
      'content-length': length,
      'upload-offset': 0,
    },
  });
  sending.on('error', () => undefined).once('close', resolve);
  sending.write(beginning, () => sending.destroy());
  return promise;
}

describe('with the official client', () => {
  test.each([
    ['in one request', 100_000_000],
    ['in parts smaller than those of the store', 3 * 1024 * 1024],
    ['in parts larger than those of the store', 9 * 1024 * 1024],
  ])('a file arrives whole, %s', async (_, chunkSize) => {
    const content = randomBytes(20 * 1024 * 1024 + 17);
    const name = `${randomUUID()}.bin`;
    const url = await send(platform, ann, content, {
      chunkSize,
      metadata: { filename: name, folder: 'a/b', isPublic: 'true' },
    });
    const file = (await ann.api.get(`/storage/file/${idOf(url)}`)).body;
    expect(file).toMatchObject({
      name,
      folder: 'a/b/',
      isPublic: true,
      size: content.length,
      state: 'ready',
    });
    expect(digest(await stored(idOf(url)))).toBe(digest(content));
  });

  test('an empty file is a file', async () => {
    const url = await send(platform, ann, Buffer.alloc(0));
    expect((await ann.api.get(`/storage/file/${idOf(url)}`)).body).toMatchObject({
      size: 0,
      state: 'ready',
    });
  });

  test('a client that goes away goes on where it was', async () => {
    const content = randomBytes(25 * 1024 * 1024);
    const path = await begin(content.length);
    const url = new URL(path, platform.addresses.client).href;
    await sendPart(path, content.length, content.subarray(0, 12 * 1024 * 1024));
    expect((await ann.api.get(`/storage/file/${idOf(url)}`)).status).toBe(404);
    await send(platform, ann, content, { uploadUrl: url });
    expect(digest(await stored(idOf(url)))).toBe(digest(content));
  });
});

describe('limits', () => {
  test('the type is that of the content', async () => {
    const path = await begin(6, { filename: 'a.png', filetype: 'image/png', upsert: 'true' });
    const last = await patch(path, 0, Buffer.from('<html>'));
    expect(last.status).toBe(204);
    const id = last.headers.get('x-file-id') ?? '';
    expect((await ann.api.get(`/storage/file/${id}`)).body.mimeType).toBe('text/html');
  });

  test('too large, badly named, taken, and without a sign-in: refused before a byte is sent', async () => {
    const post = (length: string, fields: Record<string, string>) =>
      request('POST', '/storage/resumable', {
        headers: { 'upload-length': length, 'upload-metadata': encode(fields) },
      });
    expect((await post('999999999999', { filename: 'x' })).status).toBe(413);
    expect((await post('5', { filename: '../x' })).body.code).toBe('INVALID_NAME');
    expect((await post('5', { filename: 'x', folder: '../..' })).body.code).toBe('INVALID_NAME');
    expect((await post('5', { filename: 'x', isPublic: 'maybe' })).status).toBe(400);
    expect((await post('-5', { filename: 'x' })).status).toBe(400);
    const name = `${randomUUID()}.bin`;
    const path = await begin(1, { filename: name });
    await patch(path, 0, Buffer.from('x'));
    expect((await post('5', { filename: name })).body.code).toBe('FILE_EXISTS');
    const bare = await fetch(new URL('/storage/resumable', platform.addresses.client), {
      method: 'POST',
      headers: { ...tus, 'upload-length': '5' },
    });
    expect(bare.status).toBe(401);
  });

  test('browsers may send and read the headers of the protocol from another origin', async () => {
    const asked = [
      'authorization',
      'content-type',
      'tus-resumable',
      'upload-length',
      'upload-metadata',
      'upload-offset',
      'upload-checksum',
    ];
    const preflight = await fetch(new URL('/storage/resumable', platform.addresses.client), {
      method: 'OPTIONS',
      headers: {
        origin: 'https://app.example.com',
        'access-control-request-method': 'POST',
        'access-control-request-headers': asked.join(','),
      },
    });
    const listed = (name: string) => preflight.headers.get(name)?.split(',') ?? [];
    expect(listed('access-control-allow-methods')).toEqual(
      expect.arrayContaining(['POST', 'PATCH', 'HEAD', 'DELETE']),
    );
    expect(listed('access-control-allow-headers')).toEqual(expect.arrayContaining(asked));
    expect(listed('access-control-expose-headers')).toEqual(
      expect.arrayContaining(['location', 'upload-offset', 'upload-length', 'x-file-id']),
    );
  });

  test("another user's upload is nobody's", async () => {
    const path = await begin(10);
    for (const method of ['HEAD', 'DELETE'])
      expect((await request(method, path, { user: ben })).status).toBe(404);
    const foreign = await request('PATCH', path, {
      user: ben,
      body: Buffer.from('x'),
      headers: { 'content-type': 'application/offset+octet-stream', 'upload-offset': '0' },
    });
    expect(foreign.status).toBe(404);
    expect((await request('HEAD', path)).headers.get('upload-offset')).toBe('0');
  });

  test('the protocol is kept', async () => {
    const path = await begin(10);
    expect((await patch(path, 4, Buffer.from('x'))).body.code).toBe('UPLOAD_CONFLICT');
    expect((await patch(path, 0, Buffer.from('12345678901'))).status).toBe(413);
    expect((await request('HEAD', path, { headers: { 'tus-resumable': '0.2.0' } })).status).toBe(
      412,
    );
    expect((await patch(path, 0, Buffer.from('12345'))).headers.get('upload-offset')).toBe('5');
    const head = await request('HEAD', path);
    expect(head.headers.get('upload-offset')).toBe('5');
    expect(head.headers.get('upload-length')).toBe('10');
    expect(head.headers.get('cache-control')).toBe('no-store');
    expect((await patch(path, 5, Buffer.from('67890'))).status).toBe(204);
    expect((await stored(idOf(path))).toString()).toBe('1234567890');
    expect((await patch(path, 10, Buffer.from('x'))).status).toBe(413);
  });

  test('OPTIONS says what the server can, without a login, and follows the limit', async () => {
    const path = await begin(10);
    const ask = async (where: string) => {
      const url = new URL(where, platform.addresses.client);
      const { status, headers } = await fetch(url, { method: 'OPTIONS' });
      const said = ['version', 'extension', 'checksum-algorithm', 'max-size', 'resumable'];
      return [status, ...said.map((name) => headers.get(`tus-${name}`))];
    };
    const extensions = 'creation,creation-with-upload,termination,expiration,checksum';
    const says = (size: string) => [204, '1.0.0', extensions, 'sha1,sha256,md5', size, '1.0.0'];
    const before = (await platform.admin.get('/config/storage')).body.config.limits.maxFileSize;
    for (const where of ['/storage/resumable', path])
      expect(await ask(where)).toEqual(says(String(before)));
    expect((await ask('/storage/files')).slice(1)).toEqual([null, null, null, null, null]);
    const limit = (maxFileSize: number) =>
      platform.admin.patch('/config/storage', { limits: { maxFileSize } });
    await limit(1_234_567);
    expect(await ask('/storage/resumable')).toEqual(says('1234567'));
    expect(
      (await request('POST', '/storage/resumable', { headers: { 'upload-length': '1234568' } }))
        .status,
    ).toBe(413);
    await limit(before);
  });

  test('a body that is not what its checksum says counts for nothing', async () => {
    const path = await begin(5);
    const sum = createHash('sha1').update('hello').digest('base64');
    const wrong = await patch(path, 0, Buffer.from('hellO'), { 'upload-checksum': `sha1 ${sum}` });
    expect(wrong.status).toBe(460);
    expect((await request('HEAD', path)).headers.get('upload-offset')).toBe('0');
    expect(
      (await patch(path, 0, Buffer.from('hello'), { 'upload-checksum': 'crc32 x' })).status,
    ).toBe(400);
    const right = await patch(path, 0, Buffer.from('hello'), { 'upload-checksum': `sha1 ${sum}` });
    expect(right.status).toBe(204);
    expect((await stored(idOf(path))).toString()).toBe('hello');
  });

  test('an upload that is given up is gone', async () => {
    const path = await begin(20);
    await patch(path, 0, Buffer.from('1234567890'));
    expect((await request('DELETE', path)).status).toBe(204);
    expect((await request('HEAD', path)).status).toBe(404);
    expect((await patch(path, 10, Buffer.from('1234567890'))).status).toBe(404);
  });

  test('the time of an upload ends', async () => {
    const path = await begin(20);
    await patch(path, 0, Buffer.from('1234567890'));
    const sql = await openTestConnection(platform.databaseUrl ?? '');
    await sql.query(
      "update penstock.storage_resumable set created_at = now() - interval '60 days' where id = $1",
      [idOf(path)],
    );
    await sql.close();
    expect((await request('HEAD', path)).status).toBe(410);
    expect((await patch(path, 10, Buffer.from('1234567890'))).body.code).toBe('UPLOAD_GONE');
  });

  test('nothing stays on the disk of an upload that is given up', async () => {
    const path = await begin(30 * 1024 * 1024);
    await patch(path, 0, randomBytes(9 * 1024 * 1024));
    const root = join(platform.dataDir, 'storage');
    const left = async () => [
      ...(await readdir(join(root, '.uploads'))),
      ...(await readdir(join(root, 'penstock'), { recursive: true })).filter((name) =>
        name.includes(idOf(path)),
      ),
    ];
    expect(await left()).toHaveLength(2);
    expect((await request('DELETE', path)).status).toBe(204);
    await waitFor(async () => (await left()).length === 0);
  });

  test('of parallel requests for one offset, one counts', async () => {
    const path = await begin(10);
    const sent = await Promise.all(
      Array.from({ length: 10 }, () => patch(path, 0, Buffer.from('1234567890'))),
    );
    expect(sent.filter(({ status }) => status === 204)).toHaveLength(1);
    for (const { status } of sent) expect([204, 409, 413]).toContain(status);
    expect((await stored(idOf(path))).toString()).toBe('1234567890');
  });
});
