/** What is refused, each with its status and code (specification storage.md 7). */
import { createHash, randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Json } from '../../test/support/api.ts';
import type { TestUser } from '../../test/support/node.ts';
import { createTestPlatform, type TestPlatform } from '../../test/support/platform.ts';
import { bearer, readContent, sendForm, sendTo } from './requests.ts';

let platform: TestPlatform;
let ann: TestUser;
let file: Json;
beforeAll(async () => {
  platform = await createTestPlatform();
  ann = await platform.registerUser();
  const data = Buffer.from('content').toString('base64');
  file = (await ann.api.post('/storage/file', { data, name: 'a.txt' })).body;
});
afterAll(() => platform.close());

const sha256 = (text: string) => createHash('sha256').update(text);
const none = randomUUID();

interface Asked {
  readonly status: number;
  readonly body: Json;
  readonly text: string;
}

describe('what is not there', () => {
  it.each<[code: string, ask: () => Promise<Asked>]>([
    ['FILE_NOT_FOUND', () => ann.api.get(`/storage/file/${none}`)],
    ['FILE_NOT_FOUND', () => ann.api.get(`/storage/file/data/${none}`)],
    ['FILE_NOT_FOUND', () => ann.api.get(`/storage/getFileUrl/${none}`)],
    ['FILE_NOT_FOUND', () => ann.api.get(`/storage/download/${none}`)],
    ['FILE_NOT_FOUND', () => ann.api.get(`/storage/getUrl/${none}`)],
    ['FILE_NOT_FOUND', () => ann.api.patch(`/storage/file/${none}`, { alias: 'x' })],
    ['FILE_NOT_FOUND', () => ann.api.patch(`/storage/upload/${none}`, {})],
    ['FILE_NOT_FOUND', () => ann.api.post(`/storage/file/${none}/copy`, {})],
    ['FILE_NOT_FOUND', () => ann.api.delete(`/storage/file/${none}`)],
    ['FILE_NOT_FOUND', () => platform.admin.get(`/storage/files/${none}`)],
    ['FILE_NOT_FOUND', () => platform.admin.get(`/storage/files/${none}/data`)],
    ['FOLDER_NOT_FOUND', () => ann.api.get(`/storage/folder/${none}`)],
    ['FOLDER_NOT_FOUND', () => platform.admin.delete(`/storage/folders/${none}`)],
    ['CONTAINER_NOT_FOUND', () => platform.admin.delete(`/storage/containers/${none}`)],
    ['CONTAINER_NOT_FOUND', () => platform.admin.patch(`/storage/containers/${none}`, {})],
    ['LINK_NOT_FOUND', () => platform.admin.delete(`/storage/links/${none}`)],
    ['LINK_NOT_FOUND', () => ann.api.get(`/storage/link/${'x'.repeat(43)}`)],
    ['TRASHED_FILE_NOT_FOUND', () => platform.admin.delete(`/storage/trash/${none}`)],
  ])('is 404 %s', async (code, ask) => {
    const { status, body, text } = await ask();
    expect([status, body.code], text).toEqual([404, code]);
  });
});

describe('what is there already', () => {
  it('is 409, by its kind', async () => {
    const name = `c-${randomUUID()}`;
    for (const expected of [200, 409]) {
      const made = await platform.admin.post('/storage/containers', { name });
      expect(made.status).toBe(expected);
      if (expected === 409) expect(made.body.code).toBe('CONTAINER_EXISTS');
    }
    const folder = { name: 'x/', container: name };
    await platform.admin.post('/storage/folders', folder);
    const again = await platform.admin.post('/storage/folders', folder);
    expect(again).toMatchObject({ status: 409, body: { code: 'FOLDER_EXISTS' } });
    const taken = await ann.api.post('/storage/file', { data: '', name: 'a.txt' });
    expect(taken).toMatchObject({ status: 409, body: { code: 'FILE_EXISTS' } });
  });
});

describe('what may not be', () => {
  it('is 403, with the words that apps of before look for', async () => {
    const path = `/storage/file/${file._id}`;
    expect(await platform.client.get(path)).toMatchObject({
      status: 403,
      body: { code: 'FILE_NOT_PUBLIC', message: 'File access is not public' },
    });
    const fields = { data: '', container: `c-${randomUUID()}` };
    expect(await ann.api.post('/storage/file', fields)).toMatchObject({
      status: 403,
      body: {
        code: 'CONTAINER_CREATION_DENIED',
        message: 'Container creation is not allowed!',
      },
    });
    const bob = await platform.registerUser();
    expect(await bob.api.delete(path)).toMatchObject({
      status: 403,
      body: { code: 'FILE_ACCESS_DENIED' },
    });
  });

  it.each(['bytes=7-', 'bytes=100-200', 'bytes=-0'])('a range %s is 416', async (range) => {
    const read = await readContent(platform, `/storage/download/${file._id}`, {
      headers: { ...bearer(ann), range },
    });
    expect(read.status).toBe(416);
    expect(read.headers.get('content-range')).toBe('bytes */7');
  });
});

describe('a content with a checksum', () => {
  const right = sha256('content').digest('hex');
  const wrong = sha256('other').digest('hex');
  const count = async (): Promise<number> =>
    (await platform.admin.get('/storage/files')).body.filesCount;

  it('is taken when it has it, before the file or behind it, and is 422 otherwise', async () => {
    const before = await count();
    for (const place of ['fields', 'fieldsAfter'] as const) {
      const refused = await sendForm(platform, ann, [randomUUID(), 'content'], {
        [place]: { checksum: wrong },
      });
      expect(refused).toMatchObject({ status: 422, body: { code: 'CHECKSUM_MISMATCH' } });
      const odd = await sendForm(platform, ann, [randomUUID(), 'content'], {
        [place]: { checksum: 'abc' },
      });
      expect(odd).toMatchObject({ status: 400, body: { errors: [{ path: 'checksum' }] } });
    }
    const data = Buffer.from('content').toString('base64');
    for (const api of [ann.api, platform.admin]) {
      const path = api === ann.api ? '/storage/file' : '/storage/files';
      const refused = await api.post(path, { data, checksum: wrong });
      expect(refused).toMatchObject({ status: 422, body: { code: 'CHECKSUM_MISMATCH' } });
      expect((await api.post(path, { data, checksum: 'abc' })).status).toBe(400);
    }
    expect(await count()).toBe(before);
    const fields = { checksum: right.toUpperCase() };
    const taken = await sendForm(platform, ann, [randomUUID(), 'content'], { fieldsAfter: fields });
    expect(taken.status).toBe(200);
    expect((await ann.api.post('/storage/file', { data, checksum: right })).body).toMatchObject({
      checksum: right,
    });
  });

  it('at a signed address says it as Content-Digest, and the address works on', async () => {
    const { body } = await ann.api.post('/storage/upload', { name: randomUUID() });
    const digest = (text: string) => `sha-256=:${sha256(text).digest('base64')}:`;
    const send = (value: string) => sendTo(body.url, 'content', { 'content-digest': value });
    expect(await send(digest('other'))).toMatchObject({
      status: 422,
      body: { code: 'CHECKSUM_MISMATCH' },
    });
    expect(await send('sha-256=:abc:')).toMatchObject({
      status: 400,
      body: { errors: [{ path: 'content-digest' }] },
    });
    expect((await ann.api.get(`/storage/file/${body.id}`)).body.state).toBe('pending');
    expect((await send(`md5=:x:, ${digest('content')}`)).status).toBe(200);
    expect((await ann.api.get(`/storage/file/${body.id}`)).body.checksum).toBe(right);
  });
});
