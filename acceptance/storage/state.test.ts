/** Containers and folders as a document: exported, planned, imported into another platform, taken away. */
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Json } from '../../test/support/api.ts';
import { createTestPlatform, type TestPlatform } from '../../test/support/platform.ts';
import { sendForm } from './requests.ts';

let source: TestPlatform;
let target: TestPlatform;
beforeAll(async () => {
  [source, target] = await Promise.all([createTestPlatform(), createTestPlatform()]);
});
afterAll(async () => {
  await source?.close();
  await target?.close();
});

const exported = async ({ admin }: TestPlatform): Promise<Json> =>
  (await admin.get('/state/export', { query: { modules: 'storage' } })).body.modules.storage;
const put = (storage: Json, query = {}) =>
  target.admin.post('/state/import', { modules: { storage } }, { query });
const planned = async (storage: Json, query = {}): Promise<Json> =>
  (await target.admin.post('/state/plan', { modules: { storage } }, { query })).body;
const changesOf = ({ plan }: Json): readonly string[] =>
  plan
    .filter(({ action }: Json) => action !== 'noop')
    .map(({ action, type, key }: Json) => `${action} ${type} ${key}`);

describe('containers and folders as state', () => {
  const name = `c-${randomUUID()}`;
  let state: Json;

  it('are exported with what operators said about them, and nothing else', async () => {
    const { admin } = source;
    const made = await admin.post('/storage/containers', { name, isPublic: true });
    const rules = {
      maxFileSize: 5_000_000,
      allowedMimeTypes: ['image/*', 'text/plain'],
      quota: 9_000_000_000,
      lifecycle: { deleteAfterDays: 30 },
    };
    expect((await admin.patch(`/storage/containers/${made.body._id}`, rules)).status).toBe(200);
    await admin.post('/storage/folders', { name: 'a/b/', container: name });
    const ann = await source.registerUser();
    const sent = await sendForm(source, ann, ['x.txt', 'x'], {
      fields: { container: name, folder: 'of/a/user', isPublic: 'true' },
    });
    expect(sent.status).toBe(200);
    state = await exported(source);
    expect(state.containers).toContainEqual({ name, isPublic: true, ...rules });
    expect(state.folders).toEqual([
      { name: 'a/', container: name, isPublic: true },
      { name: 'a/b/', container: name, isPublic: true },
    ]);
    expect(JSON.stringify(state)).not.toMatch(/_id|bucket|usedBytes|of\/a\/user/);
  });

  it('are the same on another platform after an import, and take files there', async () => {
    expect(changesOf(await planned(state))).toEqual([
      `create containers ${name}`,
      `create folders ${name}: a/`,
      `create folders ${name}: a/b/`,
    ]);
    const imported = await put(state);
    expect(imported.status, imported.text).toBe(200);
    expect(await exported(target)).toEqual(state);
    expect(changesOf(await planned(state))).toEqual([]);
    const ben = await target.registerUser();
    const send = (type: string, content: string | Buffer) =>
      sendForm(target, ben, [randomUUID(), content], {
        fields: { container: name, folder: 'a/b', isPublic: 'true' },
        type,
      });
    expect((await send('text/plain', 'x')).status).toBe(200);
    expect((await send('application/pdf', '%PDF-1.7')).status).toBe(415);
  });

  it('change by it, and never so that private files become public', async () => {
    const other = `c-${randomUUID()}`;
    const withOther = (rest: Json) => ({
      containers: [...state.containers, { name: other, ...rest }],
      folders: [...state.folders, { name: 'made/by/a/user', container: other }],
    });
    expect((await put(withOther({ quota: 100 }))).status).toBe(200);
    const ben = await target.registerUser();
    const sent = await sendForm(target, ben, ['x.txt', 'x'], {
      fields: { container: other, folder: 'of/a/user' },
    });
    expect(sent.status).toBe(200);
    const refused = await put(withOther({ isPublic: true }));
    expect(refused).toMatchObject({ status: 400, body: { code: 'INVALID_ARGUMENTS' } });
    const place = `modules.storage.containers.${state.containers.length}`;
    expect(refused.body.errors).toEqual([expect.objectContaining({ path: place })]);
    expect(refused.body.message).toContain('private files');
    // What is not said has its default; a folder of a user becomes the operator's when a document names it.
    const named = withOther({});
    named.folders.push({ name: 'of/a/user', container: other });
    expect((await put(named)).status).toBe(200);
    const now = await exported(target);
    expect(now.containers).toContainEqual({ name: other, isPublic: false });
    expect(now.folders.filter(({ container }: Json) => container === other)).toEqual([
      { name: 'made/by/a/user/', container: other, isPublic: false },
      { name: 'of/a/user/', container: other, isPublic: false },
    ]);
    expect(changesOf(await planned(named))).toEqual([]);
  });

  it('go with a confirmed plan, but for those that hold files', async () => {
    const pruned = await planned(state, { prune: true });
    const gone = changesOf(pruned);
    expect(gone.filter((change) => change.startsWith('delete containers'))).toHaveLength(1);
    const refused = await put(state, { prune: true, confirm: pruned.checksum });
    expect(refused.status).toBe(409);
    expect(['CONTAINER_NOT_EMPTY', 'FOLDER_NOT_EMPTY']).toContain(refused.body.code);
    const { files } = (await target.admin.get('/admin/storage/files')).body;
    for (const { _id, folder } of files)
      if (folder === 'of/a/user/') await target.admin.delete(`/storage/files/${_id}`);
    const again = await planned(state, { prune: true });
    const done = await put(state, { prune: true, confirm: again.checksum });
    expect(done.status, done.text).toBe(200);
    expect(await exported(target)).toEqual(state);
    // The default container belongs to the platform.
    const none = await planned({ containers: [] }, { prune: true });
    expect(changesOf(none)).toEqual([`delete containers ${name}`]);
  });

  it.each([
    [{ containers: [{ name: '../x' }] }, 'modules.storage.containers.0'],
    [{ containers: [{ name: 'module-chat' }] }, 'modules.storage.containers.0.name'],
    [{ containers: [{ name: 'abc', quota: 0 }] }, 'modules.storage.containers.0.quota'],
    [
      { containers: [{ name: 'abc', allowedMimeTypes: ['nonsense'] }] },
      'modules.storage.containers.0',
    ],
    [{ folders: [{ name: '..', container: 'abc' }] }, 'modules.storage.folders.0'],
    [{ folders: [{ name: '/', container: 'abc' }] }, 'modules.storage.folders.0.name'],
    [{ folders: [{ name: 'a', container: 'nowhere' }] }, 'modules.storage.folders.0.container'],
  ])('%j is refused with its place', async (storage, place) => {
    const before = await exported(target);
    const answer = await put(storage);
    expect(answer.status, answer.text).toBe(400);
    expect(answer.body.errors[0].path.startsWith(place)).toBe(true);
    expect(await exported(target)).toEqual(before);
  });
});
