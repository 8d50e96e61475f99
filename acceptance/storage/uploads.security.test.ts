/** Uploads that climb, lie, break off, collide or are too large: the specified error, and nothing left behind. */
import { randomUUID } from 'node:crypto';
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { TestUser } from '../../test/support/node.ts';
import { createTestPlatform, type TestPlatform } from '../../test/support/platform.ts';
import { sendRaw } from '../../test/support/raw-http.ts';
import { waitFor } from '../../test/support/wait-for.ts';
import { bearer, readContent, sendForm, sendTo } from './requests.ts';

let platform: TestPlatform;
let ann: TestUser;
beforeAll(async () => {
  platform = await createTestPlatform();
  ann = await platform.registerUser();
  await platform.admin.patch('/config/storage', {
    config: { limits: { maxFileSize: 2_000_000, maxJsonDataSize: 1_000_000 } },
  });
});
afterAll(() => platform.close());

/** Everything below the folder of the files. */
async function onDisk(): Promise<readonly string[]> {
  const entries = await readdir(join(platform.dataDir, 'storage'), {
    recursive: true,
    withFileTypes: true,
  });
  return entries.filter((entry) => entry.isFile()).map((entry) => entry.name);
}

const count = async (): Promise<number> =>
  (await platform.admin.get('/admin/storage/files')).body.filesCount;

/** What is there, also after jobs that take away what is given up. */
async function leavesNothing<T>(work: () => Promise<T>): Promise<T> {
  const [files, documents] = [(await onDisk()).length, await count()];
  const result = await work();
  await waitFor(async () => (await onDisk()).length === files);
  expect(await count()).toBe(documents);
  return result;
}

// https://cwe.mitre.org/data/definitions/22.html
describe('names that climb', () => {
  const climbing = [
    '..',
    '../..',
    '../../etc/x',
    '..\\..\\x',
    '%2e%2e%2fx',
    '%252e%252e%252fx',
    '.',
  ];
  it.each(climbing)('%j is refused everywhere', async (text) => {
    await leavesNothing(async () => {
      for (const [field, sent] of [
        ['name', { name: text }],
        ['folder', { folder: text }],
        ['container', { container: text }],
      ] as const) {
        const fields = { name: randomUUID(), ...sent };
        const form = await sendForm(platform, ann, ['x.txt', 'x'], { fields });
        const json = await ann.api.post('/storage/upload', fields);
        const data = await ann.api.post('/storage/file', { data: '', ...fields });
        for (const { status, body } of [form, json, data]) {
          expect([status, body.code]).toEqual([400, 'INVALID_NAME']);
          expect(body.errors[0].path).toBe(field);
        }
      }
      const folder = await ann.api.post('/storage/folder', { name: text });
      expect(folder.body.code).toBe('INVALID_NAME');
    });
  });

  it('in the file part are cut to their last part', async () => {
    const id = randomUUID();
    const sent = await sendForm(platform, ann, [`../../etc/${id}`, 'x']);
    expect(sent.body).toMatchObject({ name: id });
  });

  it('move nowhere either', async () => {
    const { body } = await sendForm(platform, ann, [randomUUID(), 'x']);
    for (const change of [{ folder: '../x' }, { name: 'a/b' }, { container: '..' }])
      expect((await ann.api.post(`/storage/file/${body.id}/move`, change)).status).toBe(400);
  });
});

// https://cwe.mitre.org/data/definitions/79.html
describe('contents that a browser would run', () => {
  it.each([
    ['text/html', 'x.html', '<script>alert(1)</script>'],
    ['image/svg+xml', 'x.svg', '<svg xmlns="http://www.w3.org/2000/svg" onload="alert(1)"/>'],
    ['image/svg+xml;x=', 'x.png', '<svg xmlns="http://www.w3.org/2000/svg"/>'],
    ['application/xhtml+xml', 'x.xhtml', '<html xmlns="http://www.w3.org/1999/xhtml"/>'],
    ['text/xml', 'x.xml', '<?xml-stylesheet href="x"?><a/>'],
    ['application/javascript', 'x.js', 'alert(1)'],
    ['application/unknown', 'x.unknown', 'MZ\0\u0001'],
    ['', 'x', '<html>'],
  ])('%s is only downloaded', async (type, name, content) => {
    const fields = { name: `${randomUUID()}-${name}`, isPublic: 'true' };
    const { body } = await sendForm(platform, ann, [name, content], { fields, type });
    const read = await readContent(platform, body.url);
    expect(read.headers.get('content-disposition')).toMatch(/^attachment;/);
    expect(read.headers.get('x-content-type-options')).toBe('nosniff');
    expect(read.headers.get('content-security-policy')).toMatch(/sandbox/);
  });

  it('names never break out of their header', async () => {
    const paths = ['../../etc/passwd', '..\\..\\x.dll', 'C:\\x', '..', ' '];
    for (const alias of ['a"; filename=x.html', 'a\\', 'é\u{1f600}%', "'*", ...paths]) {
      const data = Buffer.from('x').toString('base64');
      const { body } = await ann.api.post('/storage/file', { data, alias });
      const { headers } = await readContent(platform, `/storage/download/${body._id}`, {
        headers: bearer(ann),
      });
      expect(headers.get('content-disposition')).toMatch(
        /^attachment; filename="[^"\\/]+"(; filename\*=UTF-8''[\w%!#$&+.^`|~-]*)?$/,
      );
      // And lead to no other folder, for programs that save under them.
      expect(headers.get('content-disposition')).not.toMatch(/%2F|%5C|"(?:\.\.?| )"/i);
    }
    for (const alias of ['a\r\nx: y', 'a\0'])
      expect((await ann.api.post('/storage/file', { data: '', alias })).status).toBe(400);
  });
});

describe('bodies that are not what they say', () => {
  it('too large ones are 413, announced or not', async () => {
    await leavesNothing(async () => {
      const large = Buffer.alloc(2_000_001);
      const form = await sendForm(platform, ann, ['x', large]);
      expect(form).toMatchObject({ status: 413, body: { code: 'FILE_TOO_LARGE' } });
      const announced = await ann.api.post('/storage/upload', { size: 2_000_001 });
      expect(announced).toMatchObject({ status: 413, body: { code: 'FILE_TOO_LARGE' } });
      const huge = await sendForm(platform, ann, ['x', Buffer.alloc(4_000_000)]);
      expect(huge.status).toBe(413);
      const data = Buffer.alloc(1_000_001).toString('base64');
      expect((await ann.api.post('/storage/file', { data })).status).toBe(413);
    });
    const { body } = await ann.api.post('/storage/upload', { name: randomUUID() });
    expect((await sendTo(body.url, Buffer.alloc(2_000_001))).status).toBe(413);
    expect((await ann.api.get(`/storage/file/${body.id}`)).body.state).toBe('pending');
  });

  it('shorter and longer ones than announced are refused', async () => {
    const { body } = await ann.api.post('/storage/upload', { name: randomUUID(), size: 5 });
    for (const content of ['1234', '123456', ''])
      expect(await sendTo(body.url, content)).toMatchObject({
        status: 400,
        body: { code: 'LENGTH_MISMATCH' },
      });
    expect((await sendTo(body.url, '12345')).status).toBe(200);
  });

  it.each(['@@@@', 'a', 'aaaaa', 'aa=a', 'aa==a', '====', 'äöü=', 'YQ==\n'])(
    'base64 %j is none',
    async (data) => {
      const answer = await ann.api.post('/storage/file', { data });
      expect(answer).toMatchObject({ status: 400, body: { code: 'INVALID_BASE64' } });
    },
  );
});

const boundary = 'XBOUNDARYX';
const part = (headers: string, content: string) =>
  `--${boundary}\r\n${headers}\r\n\r\n${content}\r\n`;
const file = (name: string, content = 'x') =>
  part(`Content-Disposition: form-data; name="file"; filename="${name}"`, content);
const field = (name: string, value: string) =>
  part(`Content-Disposition: form-data; name="${name}"`, value);
const end = `--${boundary}--\r\n`;

describe('forms that are none', () => {
  const post = async (body: string, type = `multipart/form-data; boundary=${boundary}`) => {
    const response = await fetch(new URL('/storage/upload', platform.addresses.client), {
      method: 'POST',
      body,
      headers: { ...bearer(ann), 'content-type': type },
    });
    return { status: response.status, body: JSON.parse(await response.text()) };
  };

  it.each([
    ['no file', field('folder', 'a') + end],
    ['two files', file(randomUUID()) + file(randomUUID()) + end],
    ['another part with the file', file('a').replace('name="file"', 'name="upload"') + end],
    ['a file without a name', file('') + end],
    ['a form that ends in the file', file('a', 'x'.repeat(200_000)).slice(0, -50)],
    ['a form that ends before its end', file('a')],
    ['nothing but an end', end],
    ['no part at all', 'nonsense'],
    ['too many fields', Array.from({ length: 50 }, (_, i) => field(`f${i}`, 'x')).join('') + end],
    ['a field without a name', part('Content-Disposition: form-data', 'x') + file('a') + end],
    [
      'a field without a name that is too long',
      part('Content-Disposition: form-data', 'x'.repeat(20_000)) + file('a') + end,
    ],
    ['a field that is too long', field('folder', 'x'.repeat(20_000)) + file('a') + end],
  ])('%s is 400', async (_name, body) => {
    await leavesNothing(async () => {
      const answer = await post(body);
      expect(answer).toMatchObject({ status: 400, body: { code: 'UPLOAD_INVALID' } });
    });
  });

  it('a type without a boundary, a switch that is none, another type', async () => {
    await leavesNothing(async () => {
      expect((await post(file('a') + end, 'multipart/form-data')).status).toBe(400);
      const wrong = await post(field('isPublic', 'maybe') + file('a') + end);
      expect(wrong).toMatchObject({ status: 400, body: { errors: [{ path: 'isPublic' }] } });
      for (const time of ['-271821-04-20T00:00:00.000Z', '+275760-09-13T00:00:00.000Z', 'x'])
        expect(await post(field('expiresAt', time) + file('a') + end)).toMatchObject({
          status: 400,
          body: { errors: [{ path: 'expiresAt' }] },
        });
      const late = await post(file(randomUUID()) + field('isPublic', 'maybe') + end);
      expect(late.status).toBe(400);
      expect((await post('a=b', 'application/x-www-form-urlencoded')).status).toBe(415);
    });
  });

  it('an upload that breaks off leaves nothing', async () => {
    await leavesNothing(async () => {
      const { authorization } = bearer(ann);
      const head = [
        'POST /storage/upload HTTP/1.1',
        'Host: 127.0.0.1',
        `Authorization: ${authorization}`,
        `Content-Type: multipart/form-data; boundary=${boundary}`,
        'Content-Length: 1000000',
        '',
        '',
      ].join('\r\n');
      // It is closed by us when nothing comes for so long.
      await sendRaw(platform.addresses.client, head + file('a', 'x'.repeat(300_000)), 300);
    });
  });
});

describe('many at once', () => {
  beforeAll(async () => {
    // They are more than one address may send in a minute.
    const rateLimit = { maxRequests: 1_000_000 };
    expect((await platform.admin.patch('/config/router', { rateLimit })).status).toBe(200);
  });

  it('200 uploads into 20 containers lie where they belong', async () => {
    const names = Array.from({ length: 20 }, () => `c-${randomUUID()}`);
    for (const name of names) await platform.admin.post('/storage/containers', { name });
    const sent = await Promise.all(
      Array.from({ length: 200 }, async (_, i) => {
        const container = names[i % 20] ?? '';
        const content = `${container} ${i}`;
        const fields = { container };
        return { content, ...(await sendForm(platform, ann, [`${i}.txt`, content], { fields })) };
      }),
    );
    for (const { status, body, content } of sent) {
      expect(status).toBe(200);
      const read = await readContent(platform, `/storage/download/${body.id}`, {
        headers: bearer(ann),
      });
      expect(read.bytes.toString()).toBe(content);
    }
    const { perContainer } = (await platform.admin.get('/storage/stats')).body;
    for (const name of names)
      expect(perContainer).toContainEqual(expect.objectContaining({ name, files: 10 }));
  });

  it('leave no places behind that are held for uploads, and their container can go at once', async () => {
    const container = `c-${randomUUID()}`;
    const made = (await platform.admin.post('/storage/containers', { name: container })).body;
    const sent = await Promise.all(
      Array.from({ length: 60 }, (_, i) =>
        sendForm(platform, ann, [`${i}.txt`, `${i}`], { fields: { container } }),
      ),
    );
    expect(new Set(sent.map(({ body }) => body.id)).size).toBe(60);
    const gone = await platform.admin.delete(`/storage/containers/${made._id}?force=true`);
    expect(gone.status, gone.text).toBe(200);
    const database = new pg.Client({ connectionString: platform.databaseUrl ?? '' });
    await database.connect();
    try {
      await waitFor(async () => {
        // Those that somebody has an address for are held for them.
        const { rows } = await database.query(
          'select id from penstock.storage_uploads where not signed',
        );
        return rows.length === 0;
      });
    } finally {
      await database.end();
    }
  });

  it('50 uploads of one name get 50 names with suffixes, and one without', async () => {
    const set = (suffixOnNameConflict: boolean) =>
      platform.admin.patch('/config/storage', { config: { suffixOnNameConflict } });
    const send = (folder: string) =>
      Promise.all(
        Array.from({ length: 50 }, (_, i) =>
          sendForm(platform, ann, ['same.txt', `${i}`], { fields: { folder } }),
        ),
      );
    await set(true);
    const folder = randomUUID();
    const all = await send(folder);
    const names = new Set(all.map(({ body }) => body.name));
    expect(names.size).toBe(50);
    expect(names).toContain('same.txt');
    expect(names).toContain('same (49).txt');
    const contents = await Promise.all(
      all.map(async ({ body }) => (await ann.api.get(`/storage/file/data/${body.id}`)).body.data),
    );
    expect(new Set(contents).size).toBe(50);
    const hole = all.find(({ body }) => body.name === 'same (7).txt');
    await ann.api.delete(`/storage/file/${hole?.body.id}`);
    const next = await sendForm(platform, ann, ['same.txt', 'x'], { fields: { folder } });
    expect(next.body.name).toBe('same (50).txt');
    await set(false);
    const statuses = (await send(randomUUID())).map(({ status }) => status).sort();
    expect(statuses).toEqual([200, ...Array.from({ length: 49 }, () => 409)]);
  });

  it('50 requests for one address store one content', async () => {
    const { body } = await ann.api.post('/storage/upload', { name: randomUUID() });
    const sent = await Promise.all(
      Array.from({ length: 50 }, (_, i) => sendTo(body.url, `content ${i}`)),
    );
    const done = sent.filter(({ status }) => status === 200);
    expect(done).toHaveLength(1);
    expect(sent.filter(({ status }) => status === 409)).toHaveLength(49);
    const { body: data } = await ann.api.get(`/storage/file/data/${body.id}`);
    expect(sent.findIndex(({ status }) => status === 200)).toBe(
      Number(Buffer.from(data.data, 'base64').toString().slice(8)),
    );
    await waitFor(
      async () => (await onDisk()).filter((name) => name.includes(body.id)).length === 1,
    );
  });

  it('a quota holds', async () => {
    const name = `c-${randomUUID()}`;
    const { body } = await platform.admin.post('/storage/containers', { name });
    await platform.admin.patch(`/storage/containers/${body._id}`, { quota: 100 });
    const sent = await Promise.all(
      Array.from({ length: 50 }, (_, i) =>
        sendForm(platform, ann, [`${i}`, '0123456789'], { fields: { container: name } }),
      ),
    );
    expect(sent.filter(({ status }) => status === 200)).toHaveLength(10);
    expect(
      sent.filter(({ status, body: b }) => status === 413 && b.code === 'QUOTA_EXCEEDED'),
    ).toHaveLength(40);
    const { perContainer } = (await platform.admin.get('/storage/stats')).body;
    expect(perContainer).toContainEqual({ name, files: 10, size: 100 });
  });
});
