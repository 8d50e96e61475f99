/** Quotas of users and teams: exact whatever way files come and go, told to users and operators, mended when they are wrong. */
import { randomUUID } from 'node:crypto';
import { Readable } from 'node:stream';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { migrations } from '../../src/modules/storage/migrations.ts';
import { openTestConnection, type TestConnection } from '../../test/support/connection.ts';
import type { TestUser } from '../../test/support/node.ts';
import { createTestPlatform, type TestPlatform } from '../../test/support/platform.ts';
import { waitFor } from '../../test/support/wait-for.ts';
import { bearer, type FormOptions, sendForm, sendTo } from './requests.ts';

let platform: TestPlatform;
let sql: TestConnection;
beforeAll(async () => {
  platform = await createTestPlatform();
  sql = await openTestConnection(platform.databaseUrl ?? '');
});
afterAll(async () => {
  await sql.close();
  await platform.close();
});

const configure = async (config: object): Promise<void> => {
  const { status, text } = await platform.admin.patch('/config/storage', config);
  expect(status, text).toBe(200);
};
const quota = (perUserQuota: number, perTeamQuota = 0) =>
  configure({ limits: { perUserQuota, perTeamQuota } });
const upload = (user: TestUser, content: string, options: FormOptions = {}) =>
  sendForm(platform, user, [`${randomUUID()}.txt`, content], options);
const usage = async (user: TestUser) => (await user.api.get('/storage/usage')).body;
const newContainer = async (quotaOfIt: number | null = null) => {
  const { body } = await platform.admin.post('/storage/containers', { name: `q-${randomUUID()}` });
  if (quotaOfIt !== null)
    await platform.admin.patch(`/storage/containers/${body._id}`, { quota: quotaOfIt });
  return body;
};
const full = { status: 413, body: { code: 'QUOTA_EXCEEDED' } };
const base64 = (text: string) => Buffer.from(text).toString('base64');
const reconciled = async (dryRun: boolean) => {
  const started = (await platform.admin.post('/storage/reconcile', { dryRun })).body;
  expect(started.state).toBe('done');
  return started.progress;
};
/** What is there, against what is counted. */
const expectCounted = async () => expect((await reconciled(true)).wrongCounters).toBe(0);

describe('the quota of a user', () => {
  it('is exact under 50 uploads at once, also together with that of a container', async () => {
    await quota(100);
    const [ann, ben] = [await platform.registerUser(), await platform.registerUser()];
    const tight = await newContainer(40);
    const send = (user: TestUser, fields: Record<string, string>) =>
      Promise.all(Array.from({ length: 50 }, () => upload(user, '0123456789', { fields })));
    for (const [user, fields, room] of [
      [ann, {}, 10],
      [ben, { container: tight.name }, 4],
      [ben, { folder: randomUUID() }, 6],
    ] as const) {
      const sent = await send(user, fields);
      expect(sent.filter(({ status }) => status === 200)).toHaveLength(room);
      for (const answer of sent.filter(({ status }) => status !== 200))
        expect(answer).toMatchObject(full);
    }
    for (const user of [ann, ben])
      expect(await usage(user)).toEqual({
        owner: `User:${user.userId}`,
        files: 10,
        size: 100,
        quota: 100,
        left: 0,
      });
    await expectCounted();
  });

  it('holds for every way in which bytes come', async () => {
    await quota(10);
    const ann = await platform.registerUser();
    const first = (await upload(ann, '12345678')).body;
    const files = async () => (await ann.api.get('/storage/files')).body.filesCount;
    const late = (await ann.api.post('/storage/upload', { name: randomUUID() })).body;
    const before = await files();
    const tus = await fetch(new URL('/storage/resumable', platform.addresses.client), {
      method: 'POST',
      headers: {
        ...bearer(ann),
        'tus-resumable': '1.0.0',
        'upload-length': '3',
        'upload-metadata': `filename ${base64(randomUUID())}`,
      },
    });
    expect([tus.status, ((await tus.json()) as { code: string }).code]).toEqual([
      413,
      'QUOTA_EXCEEDED',
    ]);
    for (const refused of [
      await upload(ann, '123'),
      await ann.api.post('/storage/file', { data: base64('123') }),
      await ann.api.post('/storage/upload', { size: 3 }),
      await ann.api.post(`/storage/file/${first.id}/copy`, { name: 'copy.txt' }),
      await ann.api.patch(`/storage/file/${first.id}`, { data: base64('12345678901') }),
      await upload(ann, '12345678901', { fields: { name: first.name, upsert: 'true' } }),
      await sendTo(late.url, '123'),
    ])
      expect({ status: refused.status, body: refused.body }).toMatchObject(full);
    expect(await files()).toBe(before);
    // What it has is kept, and what fits is taken.
    expect((await ann.api.get(`/storage/file/data/${first.id}`)).body.data).toBe(
      base64('12345678'),
    );
    expect((await sendTo(late.url, '12')).status).toBe(200);
    expect(await usage(ann)).toMatchObject({ files: 2, size: 10, left: 0 });
    expect((await ann.api.patch(`/storage/file/${first.id}`, { data: base64('1') })).status).toBe(
      200,
    );
    expect(await usage(ann)).toMatchObject({ files: 2, size: 3, left: 7 });
    await expectCounted();
  });

  it('holds for all uploads together that were begun and not ended', async () => {
    await quota(10);
    const ann = await platform.registerUser();
    const tus = async (method: string, path: string, headers: object, body = '') => {
      const url = new URL(path, platform.addresses.client);
      const given = { ...bearer(ann), 'tus-resumable': '1.0.0', ...headers };
      const response = await fetch(url, { method, headers: given, ...(body && { body }) });
      return { status: response.status, location: response.headers.get('location') ?? '' };
    };
    const begin = () =>
      tus('POST', '/storage/resumable', {
        'upload-length': '6',
        'upload-metadata': `filename ${base64(randomUUID())}`,
      });
    const send = (path: string, offset: number, body: string) => {
      const type = 'application/offset+octet-stream';
      return tus('PATCH', path, { 'upload-offset': String(offset), 'content-type': type }, body);
    };
    const [first, second] = [(await begin()).location, (await begin()).location];
    expect((await send(first, 0, '12345')).status).toBe(204);
    expect((await begin()).status).toBe(413);
    expect((await send(second, 0, '12345')).status).toBe(413);
    expect((await send(first, 5, '6')).status).toBe(204);
    expect(await usage(ann)).toMatchObject({ files: 1, size: 6, left: 4 });
    expect((await send(second, 0, '12345')).status).toBe(413);
    const { files } = (await ann.api.get('/storage/files')).body;
    expect((await ann.api.delete(`/storage/file/${files[0]._id}`)).status).toBe(200);
    expect((await send(second, 0, '123456')).status).toBe(204);
    await expectCounted();
  });

  it('follows a change of the configuration at once, and counts what was there before', async () => {
    await quota(0);
    const ann = await platform.registerUser();
    for (const content of ['1234', '567']) await upload(ann, content);
    expect(await usage(ann)).toMatchObject({ files: 2, size: 7, quota: null, left: null });
    await quota(8);
    expect(await upload(ann, '12')).toMatchObject(full);
    expect((await upload(ann, '1')).status).toBe(200);
    await quota(9);
    expect((await upload(ann, '1')).status).toBe(200);
    // Less than there is: nothing comes, everything may go.
    await quota(2);
    expect(await usage(ann)).toMatchObject({ size: 9, quota: 2, left: 0 });
    const { files } = (await ann.api.get('/storage/files')).body;
    expect((await ann.api.delete(`/storage/file/${files[0]._id}`)).status).toBe(200);
    await quota(0);
    expect((await upload(ann, '12345678901')).status).toBe(200);
    await expectCounted();
  });

  it('gets back what is deleted, what a container takes along, and nothing by a move', async () => {
    await quota(100);
    const ann = await platform.registerUser();
    const [from, to] = [await newContainer(50), await newContainer()];
    const fields = { container: from.name, folder: 'a/b' };
    const sent = [];
    for (let i = 0; i < 4; i += 1) sent.push((await upload(ann, '0123456789', { fields })).body);
    const [moved, gone, inFolder] = sent;
    const path = `/storage/file/${moved.id}/move`;
    expect((await ann.api.post(path, { container: to.name })).status).toBe(200);
    expect(await usage(ann)).toMatchObject({ files: 4, size: 40 });
    await ann.api.delete(`/storage/file/${gone.id}`);
    expect(await usage(ann)).toMatchObject({ files: 3, size: 30 });
    const folders = await platform.admin.get(`/storage/folders?container=${from.name}`);
    const folder = folders.body.folders.find(({ name }: { name: string }) => name === 'a/');
    expect((await platform.admin.delete(`/storage/folders/${folder._id}`)).status).toBe(200);
    expect((await ann.api.get(`/storage/file/${inFolder.id}`)).status).toBe(404);
    expect(await usage(ann)).toMatchObject({ files: 1, size: 10 });
    expect((await platform.admin.delete(`/storage/containers/${to._id}?force=true`)).status).toBe(
      200,
    );
    expect(await usage(ann)).toMatchObject({ files: 0, size: 0 });
    await expectCounted();
  });

  it('has what lies in the trash until it is gone for good', async () => {
    await quota(20);
    await configure({ trash: { days: 5 } });
    const ann = await platform.registerUser();
    const container = await newContainer();
    const [first, second] = [
      (await upload(ann, '0123456789')).body,
      (await upload(ann, '0123456789', { fields: { container: container.name } })).body,
    ];
    for (const { id } of [first, second]) await ann.api.delete(`/storage/file/${id}`);
    expect(await usage(ann)).toMatchObject({ files: 2, size: 20, left: 0 });
    expect(await upload(ann, '1')).toMatchObject(full);
    expect((await ann.api.post(`/storage/trash/${first.id}/restore`, {})).status).toBe(200);
    expect(await usage(ann)).toMatchObject({ files: 2, size: 20 });
    await ann.api.delete(`/storage/file/${first.id}`);
    expect((await ann.api.delete(`/storage/trash/${first.id}`)).status).toBe(200);
    expect(await usage(ann)).toMatchObject({ files: 1, size: 10 });
    await platform.admin.delete(`/storage/containers/${container._id}?force=true`);
    expect(await usage(ann)).toMatchObject({ files: 0, size: 0 });
    await configure({ trash: { days: 0 } });
    await expectCounted();
  });
});

describe('teams', () => {
  it('have a quota of their own, and what is theirs counts for no member', async () => {
    await quota(10, 20);
    await configure({ authorization: { enabled: true } });
    const [ann, eve] = [await platform.registerUser(), await platform.registerUser()];
    const scope = `Team:${randomUUID()}`;
    const made = await platform.admin.post('/authorization/relations', {
      subject: `User:${ann.userId}`,
      relation: 'owner',
      resource: scope,
    });
    expect(made.status, made.text).toBeLessThan(300);
    const send = () => ann.api.post(`/storage/file?scope=${scope}`, { data: base64('0123456789') });
    for (const status of [200, 200, 413]) expect((await send()).status).toBe(status);
    expect(await usage(ann)).toMatchObject({ files: 0, left: 10 });
    const query = `/storage/usage?scope=${scope}`;
    expect((await ann.api.get(query)).body).toEqual({
      owner: scope,
      files: 2,
      size: 20,
      quota: 20,
      left: 0,
    });
    expect((await eve.api.get(query)).status).toBe(403);
    await quota(10);
    expect((await ann.api.get(query)).body).toMatchObject({ quota: 10, left: 0 });
    await configure({ authorization: { enabled: false } });
  });
});

describe('operators', () => {
  it('see who needs the space, and are bound by no quota', async () => {
    await quota(50_000);
    const ann = await platform.registerUser();
    const owner = `User:${ann.userId}`;
    await upload(ann, 'x'.repeat(40_000));
    expect(
      (await platform.admin.post('/storage/files', { data: base64('x'.repeat(60_000)) })).status,
    ).toBe(200);
    const row = { owner, files: 1, size: 40_000, quota: 50_000, left: 10_000 };
    const { owners } = (await platform.admin.get('/storage/insights')).body;
    expect(owners[0]).toEqual(row);
    expect((await platform.admin.get(`/storage/usage/${owner}`)).body).toEqual(row);
    expect((await platform.admin.get('/storage/usage/nobody')).status).toBe(400);
    expect((await platform.client.get('/storage/usage')).status).toBe(401);
  });

  it('have wrong counters told and mended, with a quota and without', async () => {
    const ann = await platform.registerUser();
    const owner = `User:${ann.userId}`;
    for (const limit of [0, 50]) {
      await quota(limit);
      const { id } = (await upload(ann, '01234')).body;
      await upload(ann, '56789');
      const right = await usage(ann);
      // Adds up what was written down.
      await platform.admin.get('/storage/insights');
      await sql.query('update penstock.storage_owners set bytes = bytes + 7 where owner = $1', [
        owner,
      ]);
      await sql.query('insert into penstock.storage_owners values ($1, 1000, 3)', [
        `User:${randomUUID()}`,
      ]);
      expect((await reconciled(true)).wrongCounters).toBe(2);
      expect((await reconciled(false)).wrongCounters).toBe(2);
      await expectCounted();
      expect(await usage(ann)).toEqual(right);
      await ann.api.delete(`/storage/file/${id}`);
    }
  });

  it('find what was there before counted after an upgrade', async () => {
    await quota(50);
    const ann = await platform.registerUser();
    await upload(ann, '01234');
    const before = await usage(ann);
    await platform.admin.get('/storage/insights');
    await sql.query('begin');
    await sql.query('alter table penstock.storage_growth drop column owner');
    await sql.query('drop table penstock.storage_owners');
    const upgrade = migrations.find(({ id }) => id === '0017-owners');
    await upgrade?.run({ query: ({ text }: { text: string }) => sql.query(text) } as never);
    await sql.query('commit');
    expect(await usage(ann)).toEqual(before);
    await expectCounted();
  });
});

it('is not passed by resumable uploads that are continued at once', async () => {
  await quota(1_000);
  const ann = await platform.registerUser();
  const headers = { ...bearer(ann), 'tus-resumable': '1.0.0' };
  const begin = async (): Promise<string> => {
    const made = await fetch(new URL('/storage/resumable', platform.addresses.client), {
      ...{ method: 'POST', headers: { ...headers, 'upload-length': '800' } },
    });
    expect(made.status).toBe(201);
    return new URL(made.headers.get('location') ?? '', platform.addresses.client).href;
  };
  const uploads = await Promise.all(Array.from({ length: 6 }, begin));
  const gate = Promise.withResolvers<void>();
  let answered = 0;
  const send = async (url: string): Promise<number> => {
    async function* slowly() {
      yield Buffer.alloc(400);
      await gate.promise;
      yield Buffer.alloc(399);
    }
    const type = { 'content-type': 'application/offset+octet-stream', 'upload-offset': '0' };
    const { status } = await fetch(url, {
      ...{ method: 'PATCH', headers: { ...headers, ...type }, duplex: 'half' },
      body: Readable.toWeb(Readable.from(slowly())) as never,
    } as RequestInit);
    answered += 1;
    return status;
  };
  const sent = uploads.map(send);
  await waitFor(() => answered >= 5, { timeoutMs: 4_000 }).catch(() => undefined);
  gate.resolve();
  expect((await Promise.all(sent)).sort()).toEqual([204, 413, 413, 413, 413, 413]);
  const [row] = await sql.query(
    `select sum("offset")::int as bytes from penstock.storage_resumable where caller = $1`,
    [`user:${ann.userId}`],
  );
  expect(row?.bytes).toBe(799);
});
