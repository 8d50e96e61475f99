/** Files as operators see them: the admin routes of both lines, the calls of the panel, reconciling. */
import { randomUUID } from 'node:crypto';
import { mkdir, readdir, rm, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Api, createApi } from '../../test/support/api.ts';
import { freePort } from '../../test/support/free-port.ts';
import type { TestUser } from '../../test/support/node.ts';
import { createTestPlatform, type TestPlatform } from '../../test/support/platform.ts';
import { waitFor } from '../../test/support/wait-for.ts';
import { readContent, sendForm } from './requests.ts';

let platform: TestPlatform;
let ann: TestUser;
let metrics: Api;
beforeAll(async () => {
  const metricsPort = await freePort();
  metrics = createApi(`http://127.0.0.1:${metricsPort}`);
  platform = await createTestPlatform({ env: { METRICS_PORT: String(metricsPort) } });
  // They are more than one address may send in a minute.
  const rateLimit = { maxRequests: 1_000_000 };
  expect((await platform.admin.patch('/config/router', { rateLimit })).status).toBe(200);
  ann = await platform.registerUser();
});
afterAll(() => platform.close());

const base64 = (text: string) => Buffer.from(text).toString('base64');
const newContainer = async (isPublic = false): Promise<{ _id: string; name: string }> => {
  const name = `c-${randomUUID()}`;
  return (await platform.admin.post('/storage/containers', { name, isPublic })).body;
};
/** Files on the disk of a container. */
const objectsOf = async (container: string): Promise<readonly string[]> => {
  const folder = join(platform.dataDir, 'storage', container);
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  return entries
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name));
};

describe('the calls of the panel', () => {
  it('list, upload, view and delete', async () => {
    const container = await newContainer();
    const { admin } = platform;
    const containers = await admin.get('/storage/containers', { query: { skip: 0, limit: 200 } });
    expect(containers.body.containers).toContainEqual(
      expect.objectContaining({ _id: container._id, name: container.name, isPublic: false }),
    );
    expect(containers.body.containersCount).toBe(containers.body.containers.length);
    const folder = await admin.post('/storage/folders', {
      name: 'a/b/',
      container: container.name,
      isPublic: false,
    });
    expect(folder.body).toMatchObject({ name: 'a/b/', container: container.name });
    const folders = (query: Record<string, string>) =>
      admin.get('/storage/folders', { query: { container: container.name, ...query } });
    const namesOf = async (query: Record<string, string>) =>
      (await folders(query)).body.folders.map(({ name }: { name: string }) => name);
    expect(await namesOf({})).toEqual(['a/', 'a/b/']);
    expect(await namesOf({ parent: '' })).toEqual(['a/']);
    expect(await namesOf({ parent: 'a' })).toEqual(['a/b/']);
    expect((await folders({})).body.folderCount).toBe(2);
    const made = await admin.post('/storage/files', {
      name: 'x.txt',
      data: base64('from the panel'),
      folder: 'a/b/',
      container: container.name,
      mimeType: 'text/plain',
      isPublic: false,
    });
    expect(made.status).toBe(200);
    const list = await admin.get('/storage/files', {
      query: { skip: 0, limit: 10, container: container.name, folder: 'a/b/', search: 'X.' },
    });
    expect(list.body).toMatchObject({
      filesCount: 1,
      files: [{ _id: made.body._id, name: 'x.txt', mimeType: 'text/plain', url: null }],
    });
    const root = await admin.get('/storage/files', { query: { container: container.name } });
    expect(root.body.filesCount).toBe(0);
    const url = await admin.get(`/storage/files/${made.body._id}/url`);
    expect(url.body.url).toBe(url.body.result);
    expect((await readContent(platform, url.body.url)).bytes.toString()).toBe('from the panel');
    const data = await admin.get(`/storage/files/${made.body._id}/data`);
    expect(data.body).toEqual({ data: base64('from the panel') });
    expect((await admin.delete(`/storage/files/${made.body._id}`)).body.success).toBe(true);
    expect((await admin.delete(`/storage/folders/${folder.body._id}`)).body).toEqual({
      result: 'OK',
    });
    expect((await admin.delete(`/storage/containers/${container._id}`)).body.name).toBe(
      container.name,
    );
    expect((await admin.delete(`/storage/containers/${container._id}`)).status).toBe(404);
  });

  it('set the configuration, and drop what is not known', async () => {
    const answer = await platform.admin.patch('/config/storage', {
      config: { storagePath: '/var/tmp', google: { bucketName: 'x' }, suffixOnNameConflict: false },
    });
    expect(answer.status).toBe(200);
    expect(answer.body.warnings).toEqual(
      expect.arrayContaining([expect.stringContaining('storagePath')]),
    );
  });
});

describe('containers', () => {
  it('keep their rules', async () => {
    const container = await newContainer();
    const set = (change: object) =>
      platform.admin.patch(`/storage/containers/${container._id}`, change);
    const send = (content: string, type = 'text/plain') =>
      sendForm(platform, ann, [`${randomUUID()}.txt`, content], {
        fields: { container: container.name },
        type,
      });
    expect((await set({ maxFileSize: 5 })).body).toMatchObject({ maxFileSize: 5 });
    expect((await send('12345')).status).toBe(200);
    expect(await send('123456')).toMatchObject({ status: 413, body: { code: 'FILE_TOO_LARGE' } });
    await set({ maxFileSize: null, quota: 10 });
    expect((await send('12345')).status).toBe(200);
    expect(await send('1')).toMatchObject({ status: 413, body: { code: 'QUOTA_EXCEEDED' } });
    await set({ quota: null, allowedMimeTypes: ['image/*'] });
    expect(await send('x')).toMatchObject({ status: 415, body: { code: 'UNSUPPORTED_TYPE' } });
    const stats = await platform.admin.get('/storage/stats');
    expect(stats.body.perContainer).toContainEqual({ name: container.name, files: 2, size: 10 });
    expect(await set({ allowedMimeTypes: ['nonsense'] })).toMatchObject({ status: 400 });
    await waitFor(async () => (await objectsOf(container.name)).length === 2);
  });

  it('that are public hold public files only', async () => {
    const container = await newContainer(true);
    const send = (fields: Record<string, string>) =>
      sendForm(platform, ann, [randomUUID(), 'x'], {
        fields: { container: container.name, ...fields },
      });
    expect(await send({})).toMatchObject({ status: 400, body: { code: 'PRIVATE_IN_PUBLIC' } });
    const sent = await send({ isPublic: 'true' });
    expect(sent.status).toBe(200);
    const hidden = await ann.api.patch(`/storage/file/${sent.body.id}/visibility`, {
      isPublic: false,
    });
    expect(hidden.body.code).toBe('PRIVATE_IN_PUBLIC');
  });

  it('are made by users only where that is allowed', async () => {
    const name = `c-${randomUUID()}`;
    const send = () =>
      sendForm(platform, ann, [randomUUID(), 'x'], { fields: { container: name } });
    expect(await send()).toMatchObject({
      status: 403,
      body: { message: 'Container creation is not allowed!' },
    });
    const allow = (allowContainerCreation: boolean) =>
      platform.admin.patch('/config/storage', { config: { allowContainerCreation } });
    await allow(true);
    expect((await send()).status).toBe(200);
    await allow(false);
  });

  it('are deleted with what is in them where that is said', async () => {
    const container = await newContainer();
    const { body } = await sendForm(platform, ann, ['a.txt', 'x'], {
      fields: { container: container.name, folder: 'a' },
    });
    const path = `/storage/containers/${container._id}`;
    expect((await platform.admin.delete(path)).body.code).toBe('CONTAINER_NOT_EMPTY');
    expect((await platform.admin.delete(path, { query: { force: true } })).status).toBe(200);
    expect((await ann.api.get(`/storage/file/${body.id}`)).status).toBe(404);
    await expect(readdir(join(platform.dataDir, 'storage', container.name))).rejects.toThrow();
    const again = await platform.admin.post('/storage/containers', { name: container.name });
    expect(again.status).toBe(200);
  });

  it('move files and their bytes', async () => {
    const [from, to] = [await newContainer(), await newContainer()];
    const { body } = await sendForm(platform, ann, ['a.txt', 'moving'], {
      fields: { container: from.name },
    });
    const moved = await ann.api.post(`/storage/file/${body.id}/move`, { container: to.name });
    expect(moved.body).toMatchObject({ container: to.name, size: 6 });
    expect((await ann.api.get(`/storage/file/data/${body.id}`)).body.data).toBe(base64('moving'));
    await waitFor(async () => (await objectsOf(from.name)).length === 0);
    expect(await objectsOf(to.name)).toHaveLength(1);
    const { perContainer } = (await platform.admin.get('/storage/stats')).body;
    expect(perContainer).toContainEqual({ name: from.name, files: 0, size: 0 });
    expect(perContainer).toContainEqual({ name: to.name, files: 1, size: 6 });
  });
});

describe('a folder', () => {
  it('of 2,500 files goes with all below it, and nothing beside it', async () => {
    const container = await newContainer();
    const put = (folder: string, name: string) =>
      platform.admin.post('/storage/files', {
        data: '',
        name,
        folder,
        container: container.name,
      });
    const jobs = Array.from({ length: 2_500 }, (_, i) => () => put(i % 2 ? 'a' : 'a/deep', `${i}`));
    await Promise.all(
      Array.from({ length: 20 }, async () => {
        for (let job = jobs.pop(); job; job = jobs.pop()) await job();
      }),
    );
    for (const folder of ['aa', 'b/a']) await put(folder, 'kept');
    const inside = { container: container.name };
    const { folders } = (await platform.admin.get('/storage/folders', { query: inside })).body;
    const { _id } = folders.find(({ name }: { name: string }) => name === 'a/');
    expect((await platform.admin.delete(`/storage/folders/${_id}`)).status).toBe(200);
    const after = await platform.admin.get('/storage/folders', { query: inside });
    expect(after.body.folders.map(({ name }: { name: string }) => name)).toEqual([
      'aa/',
      'b/',
      'b/a/',
    ]);
    await waitFor(async () => (await objectsOf(container.name)).length === 2);
    const stats = await platform.admin.get('/storage/stats');
    expect(stats.body.perContainer).toContainEqual({ name: container.name, files: 2, size: 0 });
  }, 240_000);
});

describe('reconciling', () => {
  it('finds and mends objects without a file and files without their object', async () => {
    const container = await newContainer();
    const send = (name: string) =>
      sendForm(platform, ann, [name, name], { fields: { container: container.name } });
    const [kept, lost] = [await send('kept'), await send('lost')];
    const [first = ''] = await objectsOf(container.name);
    // Another generation of the same file, which nobody knows of.
    const orphan = first.replace(/1$/, '99');
    await writeFile(orphan, 'orphan');
    const bytesOf = (id: string) => ann.api.get(`/storage/file/data/${id}`);
    const { body: lostFile } = await ann.api.get(`/storage/file/${lost.body.id}`);
    const objects = await objectsOf(container.name);
    const lostObject = objects.find((path) => path.includes(lostFile._id)) ?? '';
    await rm(lostObject);
    const reconcile = async (dryRun: boolean) =>
      (await platform.admin.post('/storage/reconcile', { dryRun })).body;
    const dry = await reconcile(true);
    expect(dry).toMatchObject({
      state: 'done',
      progress: { dryRun: true, orphanObjects: 1, missingObjects: 1 },
    });
    expect(dry.progress.missing).toEqual([{ container: container.name, what: lostFile._id }]);
    expect(await objectsOf(container.name)).toContain(orphan);
    await reconcile(false);
    expect(await objectsOf(container.name)).not.toContain(orphan);
    expect((await ann.api.get(`/storage/file/${lostFile._id}`)).body).toMatchObject({
      state: 'failed',
      failure: 'OBJECT_MISSING',
    });
    expect((await bytesOf(lostFile._id)).status).toBe(502);
    expect((await bytesOf(kept.body.id)).status).toBe(200);
    await mkdir(dirname(lostObject), { recursive: true });
    await writeFile(lostObject, 'lost');
    expect((await reconcile(false)).progress).toMatchObject({ foundAgain: 1, missingObjects: 0 });
    expect((await bytesOf(lostFile._id)).status).toBe(200);
    const { tasks } = (await platform.admin.get('/storage/tasks')).body;
    expect(tasks[0]).toMatchObject({ kind: 'reconcile', state: 'done' });
  });
});

describe('insights', () => {
  it('name what needs space, and what the last reconciliation found', async () => {
    const container = await newContainer();
    await platform.admin.patch(`/storage/containers/${container._id}`, { quota: 4_000_000 });
    const large = await sendForm(platform, ann, ['large.bin', Buffer.alloc(1_000_000)], {
      fields: { container: container.name },
    });
    await ann.api.post('/storage/upload', { name: randomUUID() });
    const orphan = join(platform.dataDir, 'storage', container.name, 'd-00', 'd-00');
    await mkdir(orphan, { recursive: true });
    const name = `f-${encodeURIComponent(`${randomUUID()}~1`).replace('~', '%7e')}`;
    await writeFile(join(orphan, name), 'nobody knows');
    const run = await platform.admin.post('/storage/reconcile', { dryRun: true });
    const { body } = await platform.admin.get('/storage/insights', { query: { limit: 1 } });
    expect(body.containers).toEqual([
      expect.objectContaining({ name: container.name, files: 1, size: 1_000_000, full: 0.25 }),
    ]);
    expect(body.containers[0].share).toBeGreaterThan(0.5);
    expect(body.largest).toEqual([expect.objectContaining({ _id: large.body.id })]);
    expect(body.uploads).toBeGreaterThan(0);
    expect(body.reconciled).toMatchObject({
      task: run.body._id,
      dryRun: true,
      orphanObjects: run.body.progress.orphanObjects,
    });
    expect(body.reconciled.orphanObjects).toBeGreaterThan(0);
    // Monitoring has them too, by the names that panels of before know.
    const { text: figures } = await metrics.get('/metrics');
    const names = ['containers_total', 'folders_total', 'files_total', 'storage_size_bytes_total'];
    for (const gauge of names)
      expect(figures.includes(`_${gauge}{module_name="storage"}`), gauge).toBe(true);
    expect(/storage_upload_seconds_count\{[^}]*\} [1-9]/.test(figures)).toBe(true);
    const client = await ann.api.get('/storage/insights');
    expect(client.status).toBe(404);
  });
});

describe('the routes of the 0.16 line', () => {
  it('answer on the admin port, and nowhere else', async () => {
    const { body } = await sendForm(platform, ann, [randomUUID(), 'x']);
    const files = await platform.admin.get('/admin/storage/files', { query: { limit: 200 } });
    expect(files.body.files).toContainEqual(expect.objectContaining({ _id: body.id, id: body.id }));
    expect(files.body.count).toBe(files.body.filesCount);
    const folders = await platform.admin.get('/admin/storage/folders');
    expect(folders.body).toMatchObject({ folderCount: folders.body.count });
    const stats = await platform.admin.get('/admin/storage/stats');
    expect(stats.body.files).toBe(stats.body.publicFiles + stats.body.privateFiles);
    await platform.admin.put('/admin/storage/config', {
      local: { signingSecret: 'ab'.repeat(32) },
    });
    const config = await platform.admin.get('/admin/storage/config');
    expect(config.body).toMatchObject({ provider: 'local', local: { signingSecret: '********' } });
    const wrong = await platform.admin.put('/admin/storage/config', {
      local: { signingSecret: 'short' },
    });
    expect(wrong.status).toBe(400);
    for (const path of ['files', 'folders', 'stats', 'config']) {
      const headers = { masterkey: platform.masterKey };
      expect((await platform.client.get(`/admin/storage/${path}`, { headers })).status).toBe(404);
      const anonymous = await platform.adminAnonymous.get(`/admin/storage/${path}`);
      expect(anonymous.status).toBe(401);
    }
  });
});
