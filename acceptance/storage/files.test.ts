/** Files over HTTP: uploads of both lines, reading, changing, deleting (specification storage.md sections 2 and 9). */
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { TestUser } from '../../test/support/node.ts';
import { createTestPlatform, type TestPlatform } from '../../test/support/platform.ts';
import { bearer, readContent, sendForm, sendTo } from './requests.ts';

let platform: TestPlatform;
let ann: TestUser;
let ben: TestUser;
beforeAll(async () => {
  platform = await createTestPlatform();
  ann = await platform.registerUser();
  ben = await platform.registerUser();
});
afterAll(() => platform.close());

const named = (end = '.txt') => `${randomUUID()}${end}`;

describe('an upload as a form', () => {
  it('answers id, url, name and size, and a public file is read by its url', async () => {
    const name = named();
    const sent = await sendForm(platform, ann, [name, 'Hello, world'], {
      fields: { folder: 'a/b', isPublic: 'true' },
    });
    expect(sent).toEqual({
      status: 200,
      body: { id: expect.any(String), url: expect.any(String), name, size: 12 },
    });
    const read = await readContent(platform, sent.body.url);
    expect(read.status).toBe(200);
    expect(read.bytes.toString()).toBe('Hello, world');
    expect(read.headers.get('content-length')).toBe('12');
    expect(read.headers.get('x-content-type-options')).toBe('nosniff');
    const part = await readContent(platform, sent.body.url, { headers: { range: 'bytes=0-4' } });
    expect(part.status).toBe(206);
    expect(part.headers.get('content-range')).toBe('bytes 0-4/12');
    expect(part.bytes.toString()).toBe('Hello');
    const file = await platform.client.get(`/storage/file/${sent.body.id}`);
    expect(file.body).toMatchObject({
      _id: sent.body.id,
      id: sent.body.id,
      folder: 'a/b/',
      isPublic: true,
      state: 'ready',
      size: 12,
      owner: `User:${ann.userId}`,
      url: sent.body.url,
    });
    expect(file.text).not.toMatch(/objectKey|bucket|sourceUrl/);
  });

  it('takes fields that stand behind the file', async () => {
    const name = named();
    const sent = await sendForm(platform, ann, ['other.txt', 'abc'], {
      fieldsAfter: { name, folder: 'behind', isPublic: 'true' },
    });
    expect(sent.status).toBe(200);
    const file = await ann.api.get(`/storage/file/${sent.body.id}`);
    expect(file.body).toMatchObject({ name, folder: 'behind/', isPublic: true });
  });

  it('takes an empty file, and refuses a second one of the name', async () => {
    const name = named();
    const sent = await sendForm(platform, ann, [name, '']);
    expect(sent.body).toMatchObject({ name, size: 0 });
    const read = await readContent(platform, `/storage/download/${sent.body.id}`, {
      headers: bearer(ann),
    });
    expect(read.status).toBe(200);
    expect(read.bytes.length).toBe(0);
    const again = await sendForm(platform, ann, [name, 'x']);
    expect(again).toMatchObject({ status: 409, body: { code: 'FILE_EXISTS' } });
  });
});

describe('an upload in two steps', () => {
  it('stores what is sent to the address, with its real size', async () => {
    const name = named('.png');
    const begun = await ann.api.post('/storage/upload', { name, mimeType: 'image/png' });
    expect(begun.body).toMatchObject({
      file: { state: 'pending', name },
      id: begun.body.file._id,
      name,
      size: 0,
      method: 'PUT',
    });
    const pending = await ann.api.get(`/storage/getFileUrl/${begun.body.id}`);
    expect(pending).toMatchObject({ status: 409, body: { code: 'FILE_PENDING' } });
    const bytes = Buffer.from('89504e470d0a1a0a0000000d49484452', 'hex');
    expect(await sendTo(begun.body.url, bytes, begun.body.headers)).toMatchObject({
      status: 200,
      body: { size: 16 },
    });
    const { body: found } = await ann.api.get(`/storage/getFileUrl/${begun.body.id}`);
    const read = await readContent(platform, found.result);
    expect(read.bytes).toEqual(bytes);
    expect(read.headers.get('content-type')).toBe('image/png');
    const done = await ann.api.post(`/storage/upload/${begun.body.id}/complete`);
    expect(done.body).toMatchObject({ state: 'ready', size: 16, mimeType: 'image/png' });
  });

  it('works once, and leaves the old content until the new one has come', async () => {
    const name = named();
    const { body: first } = await sendForm(platform, ann, [name, 'first']);
    const tooLarge = { name: named(), size: 1e12 };
    const refused = await ann.api.patch(`/storage/upload/${first.id}`, tooLarge);
    expect(refused).toMatchObject({ status: 413, body: { code: 'FILE_TOO_LARGE' } });
    expect((await ann.api.get(`/storage/file/${first.id}`)).body.name).toBe(name);
    const again = await ann.api.patch(`/storage/upload/${first.id}`, { size: 6 });
    expect(again.status).toBe(200);
    const read = () =>
      readContent(platform, `/storage/download/${first.id}`, { headers: bearer(ann) });
    expect((await read()).bytes.toString()).toBe('first');
    expect(await sendTo(again.body.url, 'wrong length')).toMatchObject({ status: 400 });
    expect((await read()).bytes.toString()).toBe('first');
    expect(await sendTo(again.body.url, 'second')).toMatchObject({ status: 200 });
    expect((await read()).bytes.toString()).toBe('second');
    expect(await sendTo(again.body.url, 'third!')).toMatchObject({
      status: 409,
      body: { code: 'UPLOAD_CLOSED' },
    });
    expect((await read()).bytes.toString()).toBe('second');
  });

  it('is bound to what the address was given out for', async () => {
    const { body } = await ann.api.post('/storage/upload', {
      name: named(),
      mimeType: 'image/png',
    });
    const { body: other } = await ann.api.post('/storage/upload', { name: named() });
    const code = 'SIGNATURE_INVALID';
    for (const url of [
      body.url.replace(/sig=\w{4}/, 'sig=0000'),
      body.url.replace(/expires=\d+/, 'expires=9999999999'),
      body.url.replace(body.id, other.id),
    ])
      expect(await sendTo(url, 'x')).toMatchObject({ status: 403, body: { code } });
    expect(await sendTo(body.url, 'x', { 'content-type': 'text/html' })).toMatchObject({
      status: 400,
      body: { code: 'INVALID_MIME' },
    });
  });
});

describe('reading', () => {
  it('is refused to visitors of private files, and data needs a login', async () => {
    const { body: sent } = await sendForm(platform, ann, [named(), 'private']);
    const anonymous = await platform.client.get(`/storage/file/${sent.id}`);
    expect(anonymous).toMatchObject({
      status: 403,
      body: { message: 'File access is not public' },
    });
    expect((await platform.client.get(`/storage/file/data/${sent.id}`)).status).toBe(401);
    expect((await platform.client.get(`/storage/getFileUrl/${sent.id}`)).status).toBe(403);
    const data = await ben.api.get(`/storage/file/data/${sent.id}`);
    expect(Buffer.from(data.body.data, 'base64').toString()).toBe('private');
    const unknown = await platform.client.get(`/storage/getUrl/${randomUUID()}`);
    const hidden = await platform.client.get(`/storage/getUrl/${sent.id}`);
    expect(hidden.status).toBe(404);
    expect({ ...hidden.body, requestId: '' }).toEqual({ ...unknown.body, requestId: '' });
    expect((await readContent(platform, `/storage/blob/${sent.id}`)).status).toBe(404);
  });

  it('follows the owner where private files are for owners', async () => {
    const { body: sent } = await sendForm(platform, ann, [named(), 'private']);
    const set = (privateRead: string) =>
      platform.admin.patch('/config/storage', { config: { access: { privateRead } } });
    await set('owner');
    try {
      expect((await ben.api.get(`/storage/file/${sent.id}`)).status).toBe(403);
      expect((await ann.api.get(`/storage/file/${sent.id}`)).status).toBe(200);
    } finally {
      await set('authenticated');
    }
  });

  it('answers ranges, tags, HEAD, and what is not changed', async () => {
    const { body: sent } = await sendForm(platform, ann, ['ä "q".txt', '0123456789'], {
      fields: { name: named(), alias: 'ä "q".txt' },
    });
    const path = `/storage/download/${sent.id}`;
    const ask = (headers: Record<string, string>, method = 'GET') =>
      readContent(platform, path, { headers: { ...bearer(ann), ...headers }, method });
    const whole = await ask({});
    expect(whole.headers.get('content-disposition')).toBe(
      `attachment; filename="a_ _q_.txt"; filename*=UTF-8''%C3%A4%20%22q%22.txt`,
    );
    const etag = whole.headers.get('etag') ?? '';
    expect((await ask({ 'if-none-match': etag })).status).toBe(304);
    const head = await ask({}, 'HEAD');
    expect(head.headers.get('content-length')).toBe('10');
    expect(head.bytes.length).toBe(0);
    const ranges: [string, number, string][] = [
      ['bytes=2-4', 206, '234'],
      ['bytes=7-', 206, '789'],
      ['bytes=-3', 206, '789'],
      ['bytes=8-100', 206, '89'],
      ['bytes=4-2', 200, '0123456789'],
      ['bytes=0-1,4-5', 200, '0123456789'],
      ['lines=1-2', 200, '0123456789'],
      ['bytes=abc', 200, '0123456789'],
    ];
    for (const [range, status, text] of ranges) {
      const answer = await ask({ range });
      expect([range, answer.status, answer.bytes.toString()]).toEqual([range, status, text]);
    }
    for (const range of ['bytes=10-', 'bytes=-0', 'bytes=999999999999-']) {
      const answer = await ask({ range });
      expect(answer.status).toBe(416);
      expect(answer.headers.get('content-range')).toBe('bytes */10');
    }
    expect((await ask({ range: 'bytes=0-1', 'if-range': etag })).status).toBe(206);
    expect((await ask({ range: 'bytes=0-1', 'if-range': '"old"' })).status).toBe(200);
  });
});

describe('changing', () => {
  it('is for the owner alone', async () => {
    const { body: sent } = await sendForm(platform, ann, [named(), 'mine'], {
      fields: { isPublic: 'true' },
    });
    const answers = await Promise.all([
      ben.api.delete(`/storage/file/${sent.id}`),
      ben.api.patch(`/storage/file/${sent.id}`, { name: 'x' }),
      ben.api.patch(`/storage/upload/${sent.id}`, {}),
      ben.api.patch(`/storage/file/${sent.id}/visibility`, { isPublic: false }),
      ben.api.post(`/storage/file/${sent.id}/move`, { folder: 'x' }),
    ]);
    for (const { status, body } of answers)
      expect([status, body.code]).toEqual([403, 'FILE_ACCESS_DENIED']);
    expect((await ann.api.delete(`/storage/file/${sent.id}`)).body).toMatchObject({
      success: true,
    });
    expect((await ann.api.get(`/storage/file/${sent.id}`)).body).toMatchObject({
      status: 404,
      message: 'File does not exist',
    });
  });

  it('renames, moves, replaces and copies', async () => {
    const data = (text: string) => Buffer.from(text).toString('base64');
    const made = await ann.api.post('/storage/file', { data: data('one'), name: named() });
    expect(made.status).toBe(200);
    const { _id: id } = made.body;
    const name = named();
    const moved = await ann.api.post(`/storage/file/${id}/move`, { name, folder: 'moved/here' });
    expect(moved.body).toMatchObject({ name, folder: 'moved/here/', generation: 1 });
    const replaced = await ann.api.patch(`/storage/file/${id}`, { data: data('three') });
    expect(replaced.body).toMatchObject({ size: 5, generation: 2, name });
    const read = await ann.api.get(`/storage/file/data/${id}`);
    expect(read.body).toEqual({ data: data('three') });
    const copy = await ben.api.post(`/storage/file/${id}/copy`, { name: named() });
    expect(copy.body).toMatchObject({
      folder: 'moved/here/',
      size: 5,
      owner: `User:${ben.userId}`,
    });
    expect((await ben.api.get(`/storage/file/data/${copy.body._id}`)).body).toEqual(read.body);
    const taken = await ann.api.post('/storage/file', { data: '', name: named() });
    const clash = await ann.api.patch(`/storage/file/${taken.body._id}`, {
      name,
      folder: 'moved/here',
    });
    expect(clash).toMatchObject({ status: 409, body: { code: 'FILE_EXISTS' } });
  });

  it('overwrites where that is asked for, by the owner', async () => {
    const name = named();
    const first = await sendForm(platform, ann, [name, 'first']);
    const prefer = { prefer: 'handling=overwrite' };
    const second = await sendForm(platform, ann, [name, 'second'], { headers: prefer });
    expect(second).toMatchObject({ status: 200, body: { id: first.body.id, size: 6 } });
    const data = Buffer.from('theirs').toString('base64');
    const foreign = await ben.api.post('/storage/file', { data, name, upsert: true });
    expect(foreign).toMatchObject({ status: 403, body: { code: 'FILE_ACCESS_DENIED' } });
  });
});

describe('folders', () => {
  it('list what is in them, and go with it where that is said', async () => {
    const top = randomUUID();
    const made = await ann.api.post('/storage/folder', { name: `${top}/sub`, isPublic: false });
    expect(made.body).toMatchObject({ name: `${top}/sub/`, parent: `${top}/` });
    expect((await ann.api.post('/storage/folder', { name: `${top}/sub/` })).body.code).toBe(
      'FOLDER_EXISTS',
    );
    const { body: file } = await sendForm(platform, ann, ['a.txt', 'a'], {
      fields: { folder: `${top}/sub` },
    });
    await ann.api.post('/storage/folder', { name: `${top}/sub/deep` });
    const path = `/storage/folder/${made.body._id}`;
    expect((await ann.api.get(path)).body).toMatchObject({
      folder: { _id: made.body._id },
      files: [{ _id: file.id }],
      folders: [{ name: `${top}/sub/deep/` }],
      filesCount: 1,
      foldersCount: 1,
    });
    expect((await ann.api.delete(path)).body.code).toBe('FOLDER_NOT_EMPTY');
    expect((await ben.api.delete(path, { query: { recursive: true } })).status).toBe(403);
    expect((await ann.api.delete(path, { query: { recursive: true } })).body.success).toBe(true);
    expect((await ann.api.get(`/storage/file/${file.id}`)).status).toBe(404);
    expect((await ann.api.get(path)).status).toBe(404);
  });
});

it('lists the own files', async () => {
  const cleo = await platform.registerUser();
  const folder = randomUUID();
  for (const name of ['b%.txt', 'a.txt', 'c_.txt'])
    await sendForm(platform, cleo, [name, name], { fields: { folder } });
  const list = (query: Record<string, string | number>) =>
    cleo.api.get('/storage/files', { query });
  const { body } = await list({ sort: '-name' });
  expect(body.filesCount).toBe(3);
  expect(body.files.map((file: { name: string }) => file.name)).toEqual([
    'c_.txt',
    'b%.txt',
    'a.txt',
  ]);
  expect((await list({ search: '%' })).body.filesCount).toBe(1);
  expect((await list({ search: 'A.T' })).body.filesCount).toBe(1);
  expect((await list({ folder, limit: 1, skip: 1 })).body.files.length).toBe(1);
  expect((await ann.api.get('/storage/files', { query: { folder } })).body.filesCount).toBe(0);
});
