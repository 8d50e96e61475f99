/** Who reads contents gets files from memory: whatever changes them holds for the next read, at every node. */
import { randomUUID } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { expectStatus, type TestNode, type TestUser } from '../../test/support/node.ts';
import { describeWithPostgres15 } from '../../test/support/servers/fixtures.ts';
import { startTwoNodes, type TwoNodes } from '../../test/support/two-nodes.ts';
import { bearer, type ReadContent, readContent, sendForm, sendTo } from './requests.ts';

const base64 = (text: string): string => Buffer.from(text).toString('base64');

await describeWithPostgres15('files that are read part by part', () => {
  let nodes: TwoNodes;
  let folder: string;
  let owner: TestUser;
  let other: TestUser;
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'storage-known-'));
    nodes = await startTwoNodes({ redis: false });
    const config = { local: { storagePath: folder }, access: { privateRead: 'owner' } };
    const change = await nodes.first.admin.patch('/config/storage', { config });
    expectStatus(change, 200, 'shared folder');
    owner = await nodes.first.registerUser();
    other = await nodes.first.registerUser();
  }, 120_000);
  afterAll(async () => {
    await nodes?.close();
    await rm(folder, { recursive: true, force: true });
  }, 60_000);

  const newFile = async (fields: Record<string, string> = {}): Promise<string> => {
    const name = `${randomUUID()}.txt`;
    const { status, body } = await sendForm(nodes.first, owner, [name, 'first content'], {
      fields,
    });
    expect(status).toBe(200);
    return String(body.id);
  };
  const part = (node: TestNode, user: TestUser, id: string): Promise<ReadContent> =>
    readContent(node, `/storage/download/${id}`, {
      headers: { ...bearer(user), range: 'bytes=0-4' },
    });
  const open = (node: TestNode, id: string): Promise<ReadContent> =>
    readContent(node, `/storage/blob/${id}`, { headers: { range: 'bytes=0-4' } });
  /** What both nodes answer, which read the file a moment ago. */
  const atBoth = async <T>(read: (node: TestNode) => Promise<T>): Promise<readonly T[]> =>
    Promise.all([read(nodes.first), read(nodes.second)]);
  const statuses = (id: string, user = owner): Promise<readonly number[]> =>
    atBoth(async (node) => (await part(node, user, id)).status);
  const texts = (id: string): Promise<readonly string[]> =>
    atBoth(async (node) => (await part(node, owner, id)).bytes.toString());

  it('have their new content after a replacement, in one step or in two', async () => {
    const id = await newFile();
    expect(await texts(id)).toEqual(['first', 'first']);
    const data = base64('other content');
    expectStatus(await owner.api.patch(`/storage/file/${id}`, { data }), 200, 'replace');
    expect(await texts(id)).toEqual(['other', 'other']);
    const begun = await owner.api.patch(`/storage/upload/${id}`, { size: 13 });
    expectStatus(begun, 200, 'begin');
    expect(await texts(id)).toEqual(['other', 'other']);
    expect((await sendTo(begun.body.url, 'third content')).status).toBe(200);
    expect(await texts(id)).toEqual(['third', 'third']);
  });

  it('are public, and no longer, from the very next read on', async () => {
    const id = await newFile({ isPublic: 'true' });
    for (const isPublic of [false, true, false]) {
      const before = await atBoth(async (node) => (await open(node, id)).status);
      expect(before).toEqual(isPublic ? [404, 404] : [206, 206]);
      const change = await owner.api.patch(`/storage/file/${id}/visibility`, { isPublic });
      expectStatus(change, 200, 'visibility');
      const after = await atBoth(async (node) => (await open(node, id)).status);
      expect(after).toEqual(isPublic ? [206, 206] : [404, 404]);
      expect(await statuses(id, other)).toEqual(isPublic ? [206, 206] : [403, 403]);
    }
  });

  it('have the name that they were given last, wherever they were moved', async () => {
    const id = await newFile();
    expect(await statuses(id)).toEqual([206, 206]);
    const moved = { alias: 'New name.txt', folder: 'elsewhere/' };
    expectStatus(await owner.api.patch(`/storage/file/${id}`, moved), 200, 'rename');
    const names = await atBoth(async (node) =>
      (await part(node, owner, id)).headers.get('content-disposition'),
    );
    expect(names).toEqual(Array(2).fill('attachment; filename="New name.txt"'));
    const { name } = (
      await nodes.first.admin.post('/storage/containers', { name: `c-${randomUUID()}` })
    ).body;
    const change = await nodes.first.admin.patch(`/storage/files/${id}`, { container: name });
    expectStatus(change, 200, 'move');
    expect(await texts(id)).toEqual(['first', 'first']);
  });

  it.each([
    ['by their owner', (id: string) => owner.api.delete(`/storage/file/${id}`)],
    ['by an operator', (id: string) => nodes.first.admin.delete(`/storage/files/${id}`)],
  ])('are gone at once when they are deleted %s', async (_who, remove) => {
    const id = await newFile({ isPublic: 'true' });
    expect(await statuses(id)).toEqual([206, 206]);
    expectStatus(await remove(id), 200, 'delete');
    expect(await statuses(id)).toEqual([404, 404]);
    expect(await atBoth(async (node) => (await open(node, id)).status)).toEqual([404, 404]);
  });

  it('are gone with their folder', async () => {
    const name = randomUUID();
    const made = await owner.api.post('/storage/folder', { name, isPublic: false });
    expectStatus(made, 200, 'folder');
    const ids = [await newFile({ folder: name }), await newFile({ folder: name })];
    for (const id of ids) expect(await statuses(id)).toEqual([206, 206]);
    const gone = await owner.api.delete(`/storage/folder/${made.body._id}?recursive=true`);
    expectStatus(gone, 200, 'delete');
    for (const id of ids) expect(await statuses(id)).toEqual([404, 404]);
  });

  it('change once for all who read meanwhile: nobody is told the old after the new', async () => {
    const id = await newFile();
    let isChanged = false;
    const seen: string[] = [];
    const readers = Array.from({ length: 4 }, async (_, n) => {
      for (let left = 3; left > 0; ) {
        const since = isChanged;
        const [text] = await texts(id).then((both) => [both[n % 2] ?? '']);
        if (since) {
          seen.push(text ?? '');
          left -= 1;
        }
      }
    });
    const data = base64('other content');
    expectStatus(await owner.api.patch(`/storage/file/${id}`, { data }), 200, 'replace');
    isChanged = true;
    await Promise.all(readers);
    expect(new Set(seen)).toEqual(new Set(['other']));
  });
});
