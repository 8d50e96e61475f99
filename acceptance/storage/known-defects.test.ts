/**
 * The defects of the reference (specification storage.md 8), one by one: each is a test here or by the name of one that
 * stands elsewhere. And what of sections 5.2 and 7 no other file holds.
 */
import { randomUUID } from 'node:crypto';
import { access, mkdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createLinks } from '../../src/modules/storage/services/links.ts';
import { bareBucketOf } from '../../src/modules/storage/services/provider-source.ts';
import type { Json } from '../../test/support/api.ts';
import { expectStatus, type TestUser } from '../../test/support/node.ts';
import { createTestPlatform, type TestPlatform } from '../../test/support/platform.ts';
import { waitFor } from '../../test/support/wait-for.ts';
import { projectRoot } from '../routes.ts';
import { bearer, readContent, sendForm, sendTo } from './requests.ts';

let platform: TestPlatform;
let ann: TestUser;
let ben: TestUser;
beforeAll(async () => {
  platform = await createTestPlatform();
  // They are more than one address may send in a minute.
  const rateLimit = { maxRequests: 1_000_000 };
  expectStatus(await platform.admin.patch('/config/router', { rateLimit }), 200, 'limits');
  [ann, ben] = [await platform.registerUser(), await platform.registerUser()];
});
afterAll(() => platform?.close());

const base64 = (text: string) => Buffer.from(text).toString('base64');
const configure = async (change: Json) =>
  expectStatus(await platform.admin.patch('/config/storage', change), 200, 'configuration');
const newContainer = async (rules?: Json): Promise<{ _id: string; name: string }> => {
  const name = `c-${randomUUID()}`;
  const { body } = await platform.admin.post('/storage/containers', { name });
  if (rules)
    expectStatus(await platform.admin.patch(`/storage/containers/${body._id}`, rules), 200, name);
  return body;
};
const upload = async (
  fields: Record<string, string> = {},
  content = 'content',
): Promise<string> => {
  const { status, body } = await sendForm(platform, ann, [`${randomUUID()}.txt`, content], {
    fields,
  });
  expect(status, JSON.stringify(body)).toBe(200);
  return body.id;
};

/** Where the others are, by their numbers in section 8. */
const elsewhere: readonly (readonly [defect: string, file: string, text: string])[] = [
  ['1 shared container', 'uploads.security.test.ts', '200 uploads into 20 containers'],
  ['2 paths', 'uploads.security.test.ts', 'names that climb'],
  ['3 containers of users', 'admin.test.ts', 'are made by users only where that is allowed'],
  ['3 files of others', 'files.test.ts', 'is for the owner alone'],
  ['4 confirmed uploads', 'files.test.ts', 'leaves the old content until the new one has come'],
  ['4 length', 'uploads.security.test.ts', 'shorter and longer ones than announced are refused'],
  ['5 folders', 'admin.test.ts', 'of 2,500 files goes with all below it, and nothing beside it'],
  ['6 names', 'uploads.security.test.ts', '50 uploads of one name get 50 names with suffixes'],
  ['7 halves', '../../src/modules/storage/crash.test.ts', 'leaves one copy or none'],
  ['7 reconciling', 'admin.test.ts', 'objects without a file and files without their object'],
  ['8 html and svg', 'uploads.security.test.ts', 'contents that a browser would run'],
  ['9 memory', 'large.test.ts', 'go up and down within bounds'],
  ['9 ranges and tags', 'files.test.ts', 'answers ranges, tags, HEAD, and what is not changed'],
  ['11 statuses', 'refusals.test.ts', 'is 404 %s'],
  ['12 names in headers', 'uploads.security.test.ts', 'names never break out of their header'],
  ['13 tuples', 'rights.test.ts', 'belong to a team when they are made for it'],
  ['14 rename, copy', 'files.test.ts', 'renames, moves, replaces and copies'],
  ['14 own files', 'files.test.ts', 'lists the own files'],
  ['15 another provider', 'migration.test.ts', 'when forced serves them from where they are'],
  ['16 CDN', 'links.test.ts', 'a container behind a host of its own'],
  ['16 probe', 'stores.test.ts', 'cannot be used is not kept, and the field that decides it'],
  ['17 scanner', 'links.test.ts', 'keeps contents away until it has found them clean'],
  ['17 audit', 'links.test.ts', 'is in the audit log with who and which file'],
];

it.each(elsewhere)('%s: %s', async (_defect, file, text) => {
  expect(await readFile(join(projectRoot, 'acceptance/storage', file), 'utf8')).toContain(text);
});

describe('4: the address of an upload', () => {
  const begin = async (container: string) =>
    (await ann.api.post('/storage/upload', { name: randomUUID(), container })).body;

  it('is held to the quota of its container', async () => {
    const { name } = await newContainer({ quota: 5 });
    const { url, id } = await begin(name);
    expect(await sendTo(url, '123456')).toMatchObject({
      status: 413,
      body: { code: 'QUOTA_EXCEEDED' },
    });
    expect((await ann.api.get(`/storage/file/${id}`)).body.state).toBe('pending');
    expect((await sendTo(url, '12345')).status).toBe(200);
    const { perContainer } = (await platform.admin.get('/storage/stats')).body;
    expect(perContainer).toContainEqual({ name, files: 1, size: 5 });
  });

  it('is held to the types of its container, by the content', async () => {
    const { name } = await newContainer({ allowedMimeTypes: ['image/*'] });
    const { url } = await begin(name);
    expect(await sendTo(url, 'a text', { 'content-type': 'image/png' })).toMatchObject({
      status: 415,
      body: { code: 'UNSUPPORTED_TYPE' },
    });
    const picture = Buffer.from('89504e470d0a1a0a0000000d49484452', 'hex');
    expect((await sendTo(url, picture)).status).toBe(200);
  });
});

describe('8: addresses of contents', () => {
  it('of private files end, of public ones have no signature, and none names the store', async () => {
    const addressOf = async (id: string) =>
      new URL((await ann.api.get(`/storage/getFileUrl/${id}`)).body.result);
    const own = await addressOf(await upload());
    const expires = Number(own.searchParams.get('expires'));
    expect(expires * 1_000 - Date.now()).toBeLessThanOrEqual(3_600_000);
    expect((await readContent(platform, own.href)).status).toBe(200);
    for (const other of [1, expires + 1, 4_000_000_000]) {
      own.searchParams.set('expires', String(other));
      expect((await readContent(platform, own.href)).status).toBe(403);
    }
    const open = await addressOf(await upload({ isPublic: 'true' }));
    expect(open.search).toBe('');
    expect(open.origin).toBe(new URL(platform.addresses.client).origin);
  });

  it('work no longer when their time is over, however right their signature', () => {
    const settings = (urlExpiry: number) => ({
      local: { signingSecret: '', httpBaseUrl: '' },
      cdnConfiguration: {},
      download: { urlExpiry },
    });
    const check = (urlExpiry: number): void => {
      const config = () => settings(urlExpiry) as never;
      const links = createLinks({ config, clientUrl: () => 'http://host', ownKey: 'key' });
      const file = { _id: randomUUID(), container: 'c', isPublic: false };
      const { searchParams } = new URL(links.readUrl(file, false));
      const expires = Number(searchParams.get('expires'));
      const link = { fileId: file._id, expires, download: false };
      links.checkRead(link, searchParams.get('sig') ?? '');
    };
    expect(() => check(60)).not.toThrow();
    expect(() => check(-1)).toThrow(expect.objectContaining({ code: 'SIGNATURE_INVALID' }));
  });
});

it('10: the size follows every change of a content, up and down', async () => {
  const { name } = await newContainer();
  const id = await upload({ container: name }, '12345');
  const counted = async () =>
    (await platform.admin.get('/storage/stats')).body.perContainer.find(
      (one: Json) => one.name === name,
    );
  for (const content of ['1234567890', '1', '123']) {
    const { body } = await ann.api.patch(`/storage/file/${id}`, { data: base64(content) });
    expect(body.size).toBe(content.length);
    expect(await counted()).toEqual({ name, files: 1, size: content.length });
  }
  await ann.api.delete(`/storage/file/${id}`);
  expect(await counted()).toEqual({ name, files: 0, size: 0 });
});

describe('12: what somebody wrote', () => {
  it('is searched for as it is, for files and for folders of the first level', async () => {
    const { name: container } = await newContainer();
    const names = ['a.b', 'axb', '(a+)+$', '[x', '50%_x', 'A.B.c'];
    for (const name of names)
      await platform.admin.post('/storage/files', { data: '', name, container });
    for (const name of ['a.b', 'axb'])
      await platform.admin.post('/storage/folders', { name, container });
    const found = async (search: string) =>
      (await platform.admin.get('/storage/files', { query: { container, search } })).body.files
        .map(({ name }: Json) => name)
        .sort();
    expect(await found('a.b')).toEqual(['A.B.c', 'a.b']);
    expect(await found('(a+)+$')).toEqual(['(a+)+$']);
    expect(await found('[')).toEqual(['[x']);
    expect(await found('%_')).toEqual(['50%_x']);
    expect(await found('.*')).toEqual([]);
    const folders = await platform.admin.get('/storage/folders', {
      query: { container, parent: '', search: 'a.b' },
    });
    expect(folders.body.folders.map(({ name }: Json) => name)).toEqual(['a.b/']);
  });

  it('is read by its address, whatever the name means to addresses', async () => {
    for (const isPublic of ['true', 'false']) {
      const name = `ä b#c?d=1&e%41;+${randomUUID()}.txt`;
      const { body } = await sendForm(platform, ann, ['x.txt', name], {
        fields: { name, isPublic },
      });
      expect(body.name).toBe(name);
      const { result } = (await ann.api.get(`/storage/getFileUrl/${body.id}`)).body;
      expect((await readContent(platform, result)).bytes.toString()).toBe(name);
    }
  });
});

it('14: a file becomes public and private again, and keeps what an app says about it', async () => {
  const metadata = { tags: ['a', 'b'], at: { page: 3 } };
  const made = await ann.api.post('/storage/file', { data: '', name: randomUUID(), metadata });
  expect(made.body.metadata).toEqual(metadata);
  const path = `/storage/file/${made.body._id}`;
  expect((await ann.api.patch(path, { metadata: { n: 1 } })).body.metadata).toEqual({ n: 1 });
  const long = await ann.api.patch(path, { metadata: { text: 'x'.repeat(4_096) } });
  expect(long).toMatchObject({ status: 400, body: { errors: [{ path: 'metadata' }] } });
  for (const [isPublic, status] of [
    [true, 200],
    [false, 403],
  ] as const) {
    expect((await ann.api.patch(`${path}/visibility`, { isPublic })).body.isPublic).toBe(isPublic);
    expect((await platform.client.get(path)).status).toBe(status);
  }
});

it('15: the default container is there, also when it becomes another', async () => {
  const containers = async () =>
    (await platform.admin.get('/storage/containers')).body.containers.map(({ name }: Json) => name);
  expect(await containers()).toContain('penstock');
  const other = `c-${randomUUID()}`;
  await configure({ defaultContainer: other });
  try {
    const { body } = await ann.api.get(`/storage/file/${await upload()}`);
    expect(body).toMatchObject({ container: other, state: 'ready' });
  } finally {
    await configure({ defaultContainer: 'penstock' });
  }
});

it('16: a bucket is called by the account, and by none where there is none', async () => {
  const bucket = (aws: Json) =>
    bareBucketOf({ provider: 'aws', aws: { endpoint: 'http://s3', ...aws } } as never, 'pictures');
  expect(await bucket({ accountId: '' })).toBe('penstock-pictures');
  expect(await bucket({ accountId: '42' })).toBe('penstock-42-pictures');
});

it('17: sizes are not cut to 32 bits', async () => {
  await configure({ limits: { maxFileSize: 10_000_000_000 } });
  try {
    const size = 5_000_000_001;
    const { body } = await ann.api.post('/storage/upload', { name: randomUUID(), size });
    expect(body.size).toBe(size);
    expect((await ann.api.get(`/storage/file/${body.id}`)).body.size).toBe(size);
  } finally {
    await configure({ limits: { maxFileSize: 104_857_600 } });
  }
});

describe('5.2: markers of folders that the reference left', () => {
  it('are no files for anybody, and stay where they are', async () => {
    const { name: container } = await newContainer();
    const id = await upload({ container, folder: 'a' });
    const bucket = join(platform.dataDir, 'storage', container);
    const markers = [join(bucket, 'f-.keep.txt'), join(bucket, 'd-a', 'f-.keep.txt')];
    await mkdir(join(bucket, 'd-a'), { recursive: true });
    for (const marker of markers) await writeFile(marker, 'keep');
    const { body } = await platform.admin.post('/storage/reconcile', { dryRun: false });
    await waitFor(async () => {
      const { state } = (await platform.admin.get(`/storage/tasks/${body._id}`)).body;
      return state === 'done';
    });
    const { progress } = (await platform.admin.get(`/storage/tasks/${body._id}`)).body;
    expect(progress).toMatchObject({ foreignObjects: 2 });
    for (const marker of markers) await access(marker);
    const query = { container, folder: 'a' };
    const listed = await platform.admin.get('/storage/files', { query });
    expect(listed.body.files.map(({ _id }: Json) => _id)).toEqual([id]);
    const root = await platform.admin.get('/storage/files', { query: { container, folder: '/' } });
    expect(root.body.filesCount).toBe(0);
  });
});

describe('7: what somebody may not see, where that is hidden,', () => {
  const calls: readonly (readonly [string, (id: string) => string, Json?])[] = [
    ['GET', (id) => `/storage/file/${id}`],
    ['GET', (id) => `/storage/file/data/${id}`],
    ['GET', (id) => `/storage/getFileUrl/${id}`],
    ['GET', (id) => `/storage/download/${id}`],
    ['GET', (id) => `/storage/file/${id}/image?w=10`],
    ['GET', (id) => `/storage/file/${id}/links`],
    ['PATCH', (id) => `/storage/file/${id}`, { alias: 'x' }],
    ['PATCH', (id) => `/storage/file/${id}/visibility`, { isPublic: true }],
    ['PATCH', (id) => `/storage/upload/${id}`, {}],
    ['POST', (id) => `/storage/upload/${id}/complete`],
    ['POST', (id) => `/storage/file/${id}/copy`, { name: 'x' }],
    ['POST', (id) => `/storage/file/${id}/move`, { folder: 'x' }],
    ['POST', (id) => `/storage/file/${id}/links`, {}],
    ['DELETE', (id) => `/storage/file/${id}`],
  ];
  let own: string;
  let open: string;
  beforeAll(async () => {
    await configure({ access: { hideForbidden: true, privateRead: 'owner' } });
    [own, open] = [await upload(), await upload({ isPublic: 'true' })];
  });
  afterAll(() => configure({ access: { hideForbidden: false, privateRead: 'authenticated' } }));

  it.each(calls)('is answered like what is not there: %s %s', async (method, path, body) => {
    const [hidden, none] = [
      await ben.api.send(method, path(own), body),
      await ben.api.send(method, path(randomUUID()), body),
    ];
    expect([hidden.status, hidden.body.code], hidden.text).toEqual([404, 'FILE_NOT_FOUND']);
    expect({ ...hidden.body, requestId: '' }).toEqual({ ...none.body, requestId: '' });
  });

  it('is so for visitors, and no more than that', async () => {
    for (const path of [`/storage/file/${own}`, `/storage/getFileUrl/${own}`])
      expect((await platform.client.get(path)).body.code).toBe('FILE_NOT_FOUND');
    const headers = bearer(ann);
    expect((await readContent(platform, `/storage/download/${own}`, { headers })).status).toBe(200);
    // What may be read is no secret.
    expect((await ben.api.delete(`/storage/file/${open}`)).body.code).toBe('FILE_ACCESS_DENIED');
    expect((await platform.client.get(`/storage/file/${open}`)).status).toBe(200);
    const name = `${randomUUID()}.txt`;
    await sendForm(platform, ann, [name, 'x']);
    const fields = { upsert: 'true' };
    expect(await sendForm(platform, ben, [name, 'x'], { fields })).toMatchObject({
      status: 403,
      body: { code: 'FILE_ACCESS_DENIED' },
    });
  });
});
