/** Fields of type File: whoever may read the record may read the file. */
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Answer, Api, Json } from '../../test/support/api.ts';
import type { TestUser } from '../../test/support/node.ts';
import { permissionsApi } from '../../test/support/permissions.ts';
import { createTestPlatform, type TestPlatform } from '../../test/support/platform.ts';
import { bearer, readContent, sendForm } from './requests.ts';

let platform: TestPlatform;
let ann: TestUser;
let ben: TestUser;
beforeAll(async () => {
  platform = await createTestPlatform();
  [ann, ben] = await Promise.all([platform.registerUser(), platform.registerUser()]);
  await platform.admin.patch('/config/storage', { access: { privateRead: 'owner' } });
  const made = await platform.admin.post('/database/schemas', {
    name: 'Report',
    fields: {
      title: 'String',
      cover: { type: 'File' },
      pages: ['File'],
      draft: { type: 'File', select: false },
    },
    conduitOptions: {
      cms: {
        enabled: true,
        crudOperations: {
          create: { enabled: true, authenticated: true },
          read: { enabled: true, authenticated: false },
          update: { enabled: true, authenticated: true },
          delete: { enabled: true, authenticated: true },
        },
      },
    },
  });
  expect(made.status, made.text).toBe(200);
});
afterAll(() => platform.close());

const upload = async (user: TestUser): Promise<string> =>
  (await sendForm(platform, user, [`${randomUUID()}.txt`, 'the cover'])).body.id;

describe('a field of type File', () => {
  it('takes files that the writer may read, and no others', async () => {
    const file = await upload(ann);
    const made = await ann.api.post('/database/Report', { title: 'a', cover: file, pages: [file] });
    expect(made.status, made.text).toBe(200);
    const theirs = await ben.api.post('/database/Report', { title: 'b', cover: file });
    expect(theirs.status).toBe(400);
    expect(theirs.body.errors).toEqual([expect.objectContaining({ path: 'cover' })]);
    const list = await ben.api.post('/database/Report', { title: 'b', pages: [file] });
    expect(list.body.errors).toEqual([expect.objectContaining({ path: 'pages.0' })]);
    const none = await ann.api.post('/database/Report', { title: 'c', cover: randomUUID() });
    expect(none.status).toBe(400);
  });

  it('shows what is public of the file, with where to get it, to whoever reads the record', async () => {
    const file = await upload(ann);
    expect((await ben.api.get(`/storage/file/${file}`)).status).toBe(403);
    const made = await ann.api.post('/database/Report', { title: 'x', cover: file, pages: [file] });
    const read = await platform.client.get(
      `/database/Report/${made.body._id}?populate=cover,pages`,
    );
    expect(read.status, read.text).toBe(200);
    expect(read.body.cover).toMatchObject({
      _id: file,
      mimeType: 'text/plain',
      size: 9,
      uri: `/storage/getFileUrl/${file}`,
    });
    expect(read.body.pages).toEqual([expect.objectContaining({ _id: file })]);
    expect(read.text).not.toMatch(/objectKey|bucket|owner|containerId/);
    const link = await ben.api.get(read.body.cover.uri);
    expect(link.status).toBe(200);
    expect((await readContent(platform, link.body.result)).bytes.toString()).toBe('the cover');
    const download = await readContent(platform, `/storage/download/${file}`, {
      headers: bearer(ben),
    });
    expect(download.status).toBe(200);
    expect((await platform.client.get(`/storage/getFileUrl/${file}`)).status).toBe(200);
    expect((await ben.api.delete(`/storage/file/${file}`)).status).toBe(403);
    // A field that is hidden shows nothing, and gives nothing.
    const hidden = await upload(ann);
    const changed = await platform.admin.put(`/database/schemas/Report/docs/${made.body._id}`, {
      changedDocument: { title: 'x', draft: hidden, cover: null, pages: [] },
    });
    expect(changed.status, changed.text).toBe(200);
    expect((await ben.api.get(`/storage/file/${hidden}`)).status).toBe(403);
    expect((await ben.api.get(`/storage/file/${file}`)).status).toBe(403);
  });

  it('keeps a file from being deleted while a record holds it', async () => {
    for (const field of [(id: string) => ({ cover: id }), (id: string) => ({ pages: [id] })]) {
      const file = await upload(ann);
      const made = await ann.api.post('/database/Report', { title: 'held', ...field(file) });
      const refused = await ann.api.delete(`/storage/file/${file}`);
      expect(refused).toMatchObject({ status: 409, body: { code: 'FILE_IN_USE' } });
      expect((await ann.api.get(`/storage/file/${file}`)).status).toBe(200);
      expect((await ann.api.delete(`/database/Report/${made.body._id}`)).status).toBe(200);
      expect((await ann.api.delete(`/storage/file/${file}`)).status).toBe(200);
    }
  });

  it.each<[string, (api: Api, file: string, record: string) => Promise<Answer<Json>>]>([
    ['is made', (api, file) => api.post('/database/Report', { pages: [file] })],
    [
      'is made among many',
      (api, file) =>
        api.post('/database/Report/many', { docs: [{ title: 'x' }, { pages: [file] }] }),
    ],
    ['is changed', (api, file, id) => api.patch(`/database/Report/${id}`, { pages: [file] })],
    [
      'gets one more',
      (api, file, id) => api.patch(`/database/Report/${id}`, { $push: { pages: file } }),
    ],
    [
      'is made in a batch',
      (api, file) =>
        api.post('/database/batch', {
          operations: [{ op: 'create', schema: 'Report', data: { pages: [file] } }],
        }),
    ],
  ])('keeps a file from being deleted while a record with a list %s', async (_what, write) => {
    for (let round = 0; round < 12; round += 1) {
      const file = await upload(ann);
      const { _id } = (await ann.api.post('/database/Report', { title: 'a list' })).body;
      const [deleted, written] = await Promise.all([
        ann.api.delete(`/storage/file/${file}`),
        write(ann.api, file, _id),
      ]);
      expect([200, 409], deleted.text).toContain(deleted.status);
      expect([200, 400], written.text).toContain(written.status);
      expect([deleted.status, written.status]).not.toEqual([200, 200]);
    }
  });
});

describe('a field of type File that some records show', () => {
  const statusOf = async (user: TestUser, file: string, scope?: string) =>
    (await user.api.get(`/storage/getFileUrl/${file}`, { query: { ...(scope && { scope }) } }))
      .status;
  let record: string;
  let scan: string;
  let proofs: string[];
  let cover: string;
  const team = `Team:${randomUUID()}`;

  beforeAll(async () => {
    const permissions = permissionsApi(platform.admin);
    await permissions.define({
      name: 'Claim',
      version: 1,
      relations: { owner: ['User', 'Team'], auditor: ['User', 'Team'], reader: ['User'] },
      permissions: {
        read: ['owner', 'auditor', 'reader'],
        edit: ['owner'],
        delete: ['owner'],
        audit: ['auditor'],
      },
    });
    await platform.createSchema({
      name: 'Claim',
      fields: {
        cover: { type: 'File' },
        scan: { type: 'File', access: { read: 'owner' } },
        proofs: { type: ['File'], access: { read: 'action:audit' } },
      },
      conduitOptions: { authorization: { enabled: true } },
    });
    [cover, scan] = await Promise.all([upload(ann), upload(ann)]);
    proofs = await Promise.all([upload(ann), upload(ann)]);
    const made = await ann.api.post('/database/Claim', { cover, scan });
    expect(made.status, made.text).toBe(200);
    record = made.body._id;
    const changed = { changedDocument: { proofs } };
    await platform.admin.put(`/database/schemas/Claim/docs/${record}`, changed);
    await platform.admin.post('/database/schemas/Claim/docs/move', {
      ids: [record],
      to: `User:${ben.userId}`,
    });
  });

  it('gives the file to whoever sees the field in a record, and to nobody else', async () => {
    const [cyd, dan] = [await platform.registerUser(), await platform.registerUser()];
    await permissionsApi(platform.admin).relate(
      `User:${cyd.userId} auditor Claim:${record}`,
      `User:${dan.userId} reader Claim:${record}`,
    );
    const seen = async (user: TestUser): Promise<Json> => {
      const { body } = await user.api.get(`/database/Claim/${record}`);
      return { cover: body.cover, scan: body.scan, proofs: body.proofs };
    };
    expect(await Promise.all([ben, cyd, dan].map(seen))).toEqual([
      { cover, scan, proofs: undefined },
      { cover, scan: undefined, proofs },
      { cover, scan: undefined, proofs: undefined },
    ]);
    const given = (user: TestUser) =>
      Promise.all([cover, scan, ...proofs].map((file) => statusOf(user, file)));
    expect(await Promise.all([ben, cyd, dan].map(given))).toEqual([
      [200, 200, 403, 403],
      [200, 403, 200, 200],
      [200, 403, 403, 403],
    ]);
  });

  it('gives it to who acts for a team that sees the field', async () => {
    const [eve, fay] = [await platform.registerUser(), await platform.registerUser()];
    await permissionsApi(platform.admin).relate(
      `${team} auditor Claim:${record}`,
      `User:${eve.userId} owner ${team}`,
    );
    expect([
      await statusOf(eve, cover),
      await statusOf(eve, cover, team),
      await statusOf(eve, scan, team),
      await statusOf(fay, cover, team),
    ]).toEqual([403, 200, 403, 403]);
    await platform.admin.post('/database/schemas/Claim/docs/move', { ids: [record], to: team });
    expect([await statusOf(eve, scan, team), await statusOf(ben, scan)]).toEqual([200, 403]);
  });
});

describe('an operator whose credential is for the database alone', () => {
  const narrowed = async (...scopes: string[]): Promise<Api> => {
    const made = await platform.admin.post('/api-tokens', { name: randomUUID(), scopes });
    return platform.adminAnonymous.with({ credential: made.body.token });
  };
  const documents = '/database/schemas/Report/docs';
  const recordOf = async (fields: Json): Promise<string> =>
    (await ann.api.post('/database/Report', { title: 'x', ...fields })).body._id;
  /** Every way by which an operator writes a record. */
  const writes = (api: Api, record: string, file: string) => [
    () => api.post(documents, { inputDocument: { title: 'x', cover: file } }),
    () => api.post(documents, { inputDocument: { title: 'x', draft: file } }),
    () => api.post(`${documents}/many`, { inputDocuments: [{ title: 'x', pages: [file] }] }),
    () => api.put(`${documents}/${record}`, { changedDocument: { cover: file } }),
    () => api.put(documents, { changedDocuments: [{ _id: record, pages: [file] }] }),
    () =>
      api.post(`${documents}/import`, `${JSON.stringify({ title: 'x', cover: file })}\n`, {
        headers: { 'content-type': 'application/x-ndjson' },
      }),
  ];

  it('gives private files to no reader of records, and may keep those that are there', async () => {
    const database = await narrowed('database', 'write');
    const [file, kept] = [await upload(ann), await upload(ann)];
    const record = await recordOf({ cover: kept, pages: [kept] });
    for (const write of writes(database, record, file)) {
      const { status, text } = await write();
      expect(status, text).toBe(400);
      expect(text).toContain('there is no such record of File');
    }
    expect((await ben.api.get(`/storage/file/${file}`)).status).toBe(403);
    const again = { title: 'y', cover: kept, pages: [kept] };
    const changed = await database.put(`${documents}/${record}`, { changedDocument: again });
    expect(changed.status, changed.text).toBe(200);
  });

  it('may name what everybody reads, and with authority over files any', async () => {
    const database = await narrowed('database', 'write');
    const form = { fields: { isPublic: 'true' } };
    const open = (await sendForm(platform, ann, [`${randomUUID()}.txt`, 'open'], form)).body.id;
    const both = await narrowed('database', 'storage', 'write');
    const file = await upload(ann);
    const record = await recordOf({});
    for (const write of [
      ...writes(database, record, open),
      ...writes(both, record, file),
      ...writes(await narrowed('write'), record, file),
    ]) {
      const { status, text } = await write();
      expect(status, text).toBe(200);
    }
  });

  it('makes no endpoint that gives them', async () => {
    const database = await narrowed('database', 'write');
    const value = await upload(ann);
    const body = {
      name: 'givesAFile',
      operation: 1,
      selectedSchemaName: 'Report',
      inputs: [],
      assignments: [
        { schemaField: 'cover', action: 0, assignmentField: { type: 'Custom', value } },
      ],
    };
    const path = '/database/customEndpoints';
    expect(await database.post(path, body)).toMatchObject({
      status: 403,
      body: { code: 'SCOPE_EXCEEDED' },
    });
    const made = await platform.admin.post(path, body);
    expect(made.status, made.text).toBe(200);
  });
});
