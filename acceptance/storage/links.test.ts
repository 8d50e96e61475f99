/** Links that are counted and taken back, the trash, files with an end, the scanner, and large folders. */
import { randomUUID } from 'node:crypto';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Json } from '../../test/support/api.ts';
import { openTestConnection, type TestConnection } from '../../test/support/connection.ts';
import type { TestUser } from '../../test/support/node.ts';
import { createTestPlatform, type TestPlatform } from '../../test/support/platform.ts';
import { waitFor } from '../../test/support/wait-for.ts';
import { readContent, sendForm } from './requests.ts';

let platform: TestPlatform;
let ann: TestUser;
let ben: TestUser;
let sql: TestConnection;
beforeAll(async () => {
  platform = await createTestPlatform();
  sql = await openTestConnection(platform.databaseUrl ?? '');
  [ann, ben] = await Promise.all([platform.registerUser(), platform.registerUser()]);
});
afterAll(async () => {
  await sql.close();
  await platform.close();
});

const upload = async (
  fields: Record<string, string> = {},
  content = 'given away',
): Promise<string> => {
  const sent = await sendForm(platform, ann, [`${randomUUID()}.txt`, content], { fields });
  expect(sent.status).toBe(200);
  return sent.body.id;
};
const configure = async (change: Json) => {
  const set = await platform.admin.patch('/config/storage', change);
  expect(set.status, set.text).toBe(200);
};

describe('a link', () => {
  const make = (id: string, options: Json = {}) =>
    ann.api.post(`/storage/file/${id}/links`, options);

  it('is used exactly as often as it says, by however many at once', async () => {
    const made = await make(await upload(), { maxUses: 7 });
    expect(made.status, made.text).toBe(200);
    const reads = await Promise.all(
      Array.from({ length: 50 }, () => readContent(platform, made.body.url)),
    );
    const statuses = reads.map(({ status }) => status);
    expect(statuses.filter((status) => status === 200)).toHaveLength(7);
    expect(statuses.filter((status) => status === 404)).toHaveLength(43);
    const list = await ann.api.get(`/storage/file/${made.body.link.fileId}/links`);
    expect(list.body.links).toEqual([expect.objectContaining({ uses: 7, maxUses: 7 })]);
    expect(list.text).not.toContain(new URL(made.body.url).pathname.split('/').at(-1));
  });

  it('gives the content with ranges, as a download where it says so, until it is taken back', async () => {
    const id = await upload();
    const made = await make(id, { download: true });
    const part = await readContent(platform, made.body.url, { headers: { range: 'bytes=0-4' } });
    expect([part.status, part.bytes.toString()]).toEqual([206, 'given']);
    expect(part.headers.get('content-disposition')).toMatch(/^attachment/);
    expect((await ben.api.get(`/storage/file/${id}/links`)).status).toBe(403);
    const path = `/storage/file/${id}/links/${made.body.link._id}`;
    expect((await ben.api.delete(path)).status).toBe(403);
    expect((await ann.api.delete(path)).status).toBe(200);
    expect((await readContent(platform, made.body.url)).status).toBe(404);
    expect((await ann.api.delete(path)).status).toBe(404);
    const other = await make(id);
    const all = await platform.admin.get('/storage/links');
    expect(all.body.links).toContainEqual(expect.objectContaining({ _id: other.body.link._id }));
    expect((await platform.admin.delete(`/storage/links/${other.body.link._id}`)).status).toBe(200);
    expect((await readContent(platform, other.body.url)).status).toBe(404);
  });

  it('is for those who may share the file', async () => {
    const id = await upload();
    expect((await ben.api.post(`/storage/file/${id}/links`, {})).status).toBe(403);
    expect((await platform.client.post(`/storage/file/${id}/links`, {})).status).toBe(401);
    const wrong = await make(id, { maxUses: 0 });
    expect(wrong.body.errors).toEqual([expect.objectContaining({ path: 'maxUses' })]);
  });
});

describe('reading, where operators want it written down,', () => {
  it('is in the audit log with who and which file, and never with the token of a link', async () => {
    const id = await upload();
    const headers = { authorization: `Bearer ${ann.accessToken}` };
    const download = (): Promise<{ status: number }> =>
      readContent(platform, `/storage/download/${id}`, { headers });
    expect((await download()).status).toBe(200);
    const logged = async (action: string): Promise<readonly Json[]> =>
      (await platform.admin.get('/audit-logs', { query: { action, limit: 100 } })).body.entries;
    expect(await logged('storage.file.download')).toEqual([]);
    await configure({ audit: { downloads: true } });
    const { url, link } = (await ann.api.post(`/storage/file/${id}/links`, { maxUses: 1 })).body;
    await waitFor(async () => {
      await download();
      return (await logged('storage.file.download')).length > 0;
    });
    expect(await logged('storage.file.download')).toContainEqual(
      expect.objectContaining({
        status: 200,
        target: `fileId:${id}`,
        actor: expect.objectContaining({ type: 'user', id: ann.userId }),
      }),
    );
    expect((await readContent(platform, url)).status).toBe(200);
    expect((await readContent(platform, url)).status).toBe(404);
    const uses = await logged('storage.link.use');
    expect(uses.map(({ status, target }) => [status, target]).sort()).toEqual([
      [200, `id:${id} link:${link._id}`],
      [404, 'link'],
    ]);
    expect(JSON.stringify(uses)).not.toContain(new URL(url).pathname.split('/').at(-1));
    await configure({ audit: { downloads: false } });
  });
});

describe('the trash', () => {
  it('gives a file back as it was, with its owner, and only to whom it belonged', async () => {
    await configure({ trash: { days: 3 } });
    const id = await upload({ folder: 'kept', alias: 'Kept one' });
    const before = (await ann.api.get(`/storage/file/${id}`)).body;
    expect((await ann.api.delete(`/storage/file/${id}`)).status).toBe(200);
    expect((await ann.api.get(`/storage/file/${id}`)).status).toBe(404);
    const list = await ann.api.get('/storage/trash');
    expect(list.body.files).toEqual([expect.objectContaining({ _id: id, name: before.name })]);
    expect((await ben.api.get('/storage/trash')).body.files).toEqual([]);
    expect((await ben.api.post(`/storage/trash/${id}/restore`, {})).status).toBe(404);
    // Its name has been taken meanwhile.
    const taken = await sendForm(platform, ann, [before.name, 'other'], {
      fields: { folder: 'kept' },
    });
    expect(taken.status).toBe(200);
    const refused = await ann.api.post(`/storage/trash/${id}/restore`, {});
    expect(refused).toMatchObject({ status: 409, body: { code: 'FILE_EXISTS' } });
    const back = await ann.api.post(`/storage/trash/${id}/restore`, { name: 'again.txt' });
    expect(back.status, back.text).toBe(200);
    const { updatedAt: _at, name: _name, __v: _v, ...rest } = before;
    expect(back.body).toMatchObject({ ...rest, name: 'again.txt' });
    const link = await ann.api.get(`/storage/getFileUrl/${id}`);
    expect((await readContent(platform, link.body.result)).bytes.toString()).toBe('given away');
    // Its next content does not take the place of an earlier one.
    const next = await ann.api.patch(`/storage/file/${id}`, {
      data: Buffer.from('newer').toString('base64'),
    });
    expect(next.body.generation).toBe(before.generation + 1);
    expect((await ann.api.delete(`/storage/file/${id}`)).status).toBe(200);
    expect((await ann.api.delete(`/storage/trash/${id}`)).status).toBe(200);
    expect((await ann.api.delete(`/storage/trash/${id}`)).status).toBe(404);
    await configure({ trash: { days: 0 } });
  });

  it('gives no private file back into a container that is public by now', async () => {
    await configure({ trash: { days: 3 } });
    const { body: container } = await platform.admin.post('/storage/containers', {
      name: `c-${randomUUID()}`,
    });
    const id = await upload({ container: container.name });
    expect((await ann.api.delete(`/storage/file/${id}`)).status).toBe(200);
    const turn = (said: object) =>
      platform.admin.patch(`/storage/containers/${container._id}`, said);
    expect((await turn({ isPublic: true })).status).toBe(200);
    const restore = () => ann.api.post(`/storage/trash/${id}/restore`, {});
    expect(await restore()).toMatchObject({ status: 400, body: { code: 'PRIVATE_IN_PUBLIC' } });
    expect((await turn({ quota: 1_000_000 })).status).toBe(200);
    expect((await turn({ isPublic: false })).status).toBe(200);
    expect((await restore()).status).toBe(200);
    await configure({ trash: { days: 0 } });
  });
});

describe('a file with an end', () => {
  it('is gone at that time', async () => {
    const soon = new Date(Date.now() + 4_000).toISOString();
    const id = await upload({ expiresAt: soon, isPublic: 'true' });
    expect((await ann.api.get(`/storage/file/${id}`)).body.expiresAt).toBe(soon);
    await waitFor(async () => (await ann.api.get(`/storage/file/${id}`)).status === 404);
    expect((await platform.client.get(`/storage/blob/${id}`)).status).toBe(404);
    const later = await upload();
    const set = await ann.api.patch(`/storage/file/${later}`, { expiresAt: soon });
    expect(set.body.expiresAt).toBe(soon);
  });
});

describe('a container behind a host of its own', () => {
  it('has it in all addresses of its files, which the platform itself answers too', async () => {
    const container = `c-${randomUUID()}`;
    expect((await platform.admin.post('/storage/containers', { name: container })).status).toBe(
      200,
    );
    const [open, own] = [
      await upload({ container, isPublic: 'true' }),
      await upload({ container }),
    ];
    const addresses = async (): Promise<readonly string[]> => [
      (await platform.client.get(`/storage/file/${open}`)).body.url,
      (await ann.api.get(`/storage/getFileUrl/${own}`)).body.result,
    ];
    const pathOf = (address: string): string => address.slice(new URL(address).origin.length);
    const before = await addresses();
    await configure({ cdnConfiguration: { [container]: 'files.example.com' } });
    for (const address of await addresses()) {
      expect(new URL(address).origin).toBe('https://files.example.com');
      expect((await readContent(platform, pathOf(address))).status).toBe(200);
    }
    await configure({ cdnConfiguration: { [container]: '' } });
    expect((await addresses()).map((address) => new URL(address).origin)).toEqual(
      before.map((address) => new URL(address).origin),
    );
  });
});

describe('the scanner', () => {
  let scanner: Server;
  const seen: string[] = [];
  let answer: string | undefined;
  beforeAll(async () => {
    scanner = createServer((request, response) => {
      const chunks: Buffer[] = [];
      request.on('data', (chunk: Buffer) => chunks.push(chunk));
      request.on('end', () => {
        const content = Buffer.concat(chunks).toString();
        seen.push(`${request.headers.authorization} ${content}`);
        if (answer === undefined) response.writeHead(500).end();
        else
          response.end(JSON.stringify({ result: content.includes('virus') ? 'infected' : answer }));
      });
    });
    await new Promise<void>((resolve) => scanner.listen(0, '127.0.0.1', resolve));
    const { port } = scanner.address() as AddressInfo;
    await configure({ scan: { url: `http://127.0.0.1:${port}/scan`, secret: 'let me in' } });
  });
  afterAll(async () => {
    await configure({ scan: { url: '' } });
    scanner.closeAllConnections();
    await new Promise((resolve) => scanner.close(resolve));
  });

  const urlStatus = async (id: string) => (await ann.api.get(`/storage/getFileUrl/${id}`)).status;

  it('keeps contents away until it has found them clean, and those in which it found something', async () => {
    answer = undefined;
    const waiting = await upload({ isPublic: 'true' });
    expect((await ann.api.get(`/storage/getFileUrl/${waiting}`)).body.code).toBe('FILE_EXAMINED');
    expect((await readContent(platform, `/storage/blob/${waiting}`)).status).toBe(409);
    answer = 'clean';
    const clean = await upload();
    await waitFor(async () => (await urlStatus(clean)) === 200);
    expect(seen).toContain('Bearer let me in given away');
    const infected = await upload({ isPublic: 'true' }, 'a virus');
    await waitFor(async () => (await urlStatus(infected)) === 403);
    expect((await readContent(platform, `/storage/blob/${infected}`)).status).toBe(403);
    const copied = await ann.api.post(`/storage/file/${infected}/copy`, { name: 'copy.txt' });
    expect(copied).toMatchObject({ status: 403, body: { code: 'FILE_INFECTED' } });
    expect((await ann.api.get(`/storage/file/${infected}`)).body.scan).toBe('infected');
    expect((await ann.api.delete(`/storage/file/${infected}`)).status).toBe(200);
  });

  it('takes no use from a link that was asked for too early', async () => {
    answer = undefined;
    const id = await upload();
    const made = await ann.api.post(`/storage/file/${id}/links`, { maxUses: 1 });
    const use = () => readContent(platform, made.body.url);
    expect((await use()).status).toBe(409);
    answer = 'clean';
    await waitFor(async () => (await urlStatus(id)) === 200);
    expect(
      (await readContent(platform, made.body.url, { headers: { range: 'bytes=99-' } })).status,
    ).toBe(416);
    expect((await use()).status).toBe(200);
    expect((await use()).status).toBe(404);
  });

  it('looks at a file where it lies now, when it was moved meanwhile', async () => {
    const name = `c-${randomUUID()}`;
    expect((await platform.admin.post('/storage/containers', { name })).status).toBe(200);
    answer = undefined;
    const id = await upload({}, 'another virus');
    await waitFor(() => seen.some((one) => one.includes('another virus')));
    answer = 'clean';
    const moved = await ann.api.post(`/storage/file/${id}/move`, { container: name });
    expect(moved.status, moved.text).toBe(200);
    await waitFor(async () => (await urlStatus(id)) === 403);
    expect((await ann.api.get(`/storage/file/${id}`)).body).toMatchObject({
      scan: 'infected',
      container: name,
    });
  });
});

describe('a large folder', () => {
  it('is deleted by a task that tells how far it is, and can be paused', async () => {
    await upload({ folder: 'large/a' });
    await sql.query(`insert into "app"."File" ("_id", "name", "folder", "container", "size", "isPublic", "state", "generation", "lastGeneration", "owner", "createdBy", "folderIds", "containerId", "createdAt", "updatedAt", "__v")
        select gen_random_uuid(), 'f' || n, f."folder", f."container", 0, false, 'pending', 0, 0, f."owner", f."createdBy", f."folderIds", f."containerId", now(), now(), 0
        from "app"."File" f, generate_series(1, 5500) n where f."folder" = 'large/a/'`);
    const folders = await platform.admin.get('/storage/folders?search=large&limit=10');
    const top = folders.body.folders.find(({ name }: { name: string }) => name === 'large/');
    expect((await ben.api.delete(`/storage/folder/${top._id}?recursive=true`)).status).toBe(403);
    const gone = await ann.api.delete(`/storage/folder/${top._id}?recursive=true`);
    expect(gone.body).toMatchObject({ success: true, task: expect.any(String) });
    const task = () => platform.admin.get(`/storage/tasks/${gone.body.task}`);
    await waitFor(async () => (await task()).body.state === 'done');
    expect((await task()).body.progress).toEqual({ deleted: 5_501 });
    const left = await platform.admin.get('/storage/folders?search=large&limit=10');
    expect(left.body.folders).toEqual([]);
    const turned = await platform.admin.post(`/storage/tasks/${gone.body.task}/pause`, {});
    expect(turned).toMatchObject({ status: 409, body: { code: 'TASK_STATE_INVALID' } });
  });
});
