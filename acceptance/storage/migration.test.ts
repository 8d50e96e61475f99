/** Another store while files are there: refused, then forced, then brought over by a task, and back. */
import { randomUUID } from 'node:crypto';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { TestUser } from '../../test/support/node.ts';
import { createTestPlatform, type TestPlatform } from '../../test/support/platform.ts';
import {
  type ObjectStore,
  startS3Store,
  testAccess,
} from '../../test/support/servers/object-store.ts';
import { waitFor } from '../../test/support/wait-for.ts';
import { readContent, sendForm, sendTo } from './requests.ts';

let platform: TestPlatform;
let store: ObjectStore;
let ann: TestUser;
beforeAll(async () => {
  platform = await createTestPlatform();
  store = await startS3Store();
  ann = await platform.registerUser();
});
afterAll(async () => {
  await platform.close();
  await store.close();
});

const upload = async (content: string): Promise<string> => {
  const sent = await sendForm(platform, ann, [`${randomUUID()}.txt`, content]);
  expect(sent.status, JSON.stringify(sent.body)).toBe(200);
  return sent.body.id;
};
const read = async (id: string): Promise<string> => {
  const link = await ann.api.get(`/storage/getFileUrl/${id}`);
  return (await readContent(platform, link.body.result)).bytes.toString();
};
const migrated = async () => {
  const begun = await platform.admin.post('/storage/migration', {});
  expect(begun.status, begun.text).toBe(200);
  const task = () => platform.admin.get(`/storage/tasks/${begun.body._id}`);
  await waitFor(async () => (await task()).body.state === 'done');
  return (await task()).body.progress;
};

describe('a change of the provider', () => {
  it('is refused while files are there, and when forced serves them from where they are', async () => {
    const before = await upload('on the disk');
    const aws = {
      endpoint: store.endpoint,
      region: 'eu-central-1',
      ...testAccess,
      accountId: '1',
    };
    const refused = await platform.admin.patch('/config/storage', { provider: 'aws', aws });
    expect(refused).toMatchObject({ status: 409, body: { code: 'PROVIDER_IN_USE' } });
    expect((await platform.admin.get('/config/storage')).body.config.provider).toBe('local');
    const forced = await platform.admin.patch('/config/storage?force=true', {
      provider: 'aws',
      aws,
    });
    expect(forced.status, forced.text).toBe(200);
    expect(await read(before)).toBe('on the disk');
    const after = await upload('in the bucket');
    expect(await read(after)).toBe('in the bucket');
    expect(store.keys()).toHaveLength(1);
    // Signed uploads, ranges, copies and resumable bytes work there like on the disk.
    const begun = await ann.api.post('/storage/upload', { name: `${randomUUID()}.txt` });
    expect((await sendTo(begun.body.url, 'by address')).status).toBe(200);
    expect(await read(begun.body.id)).toBe('by address');
    const copied = await ann.api.post(`/storage/file/${before}/copy`, { name: 'copy.txt' });
    expect(copied.status, copied.text).toBe(200);
    expect(await read(copied.body._id)).toBe('on the disk');

    const progress = await migrated();
    expect(progress).toMatchObject({ files: 1, moved: 1, failed: 0, movedBytes: 11 });
    expect(store.keys()).toHaveLength(4);
    expect(await read(before)).toBe('on the disk');

    // And back, where the old name of the container's bucket still holds.
    const back = await platform.admin.patch('/config/storage?force=true', { provider: 'local' });
    expect(back.status, back.text).toBe(200);
    expect(await read(after)).toBe('in the bucket');
    expect(await migrated()).toMatchObject({ files: 4, moved: 4, failed: 0 });
    await waitFor(async () => store.keys().length === 0);
    for (const [id, content] of [
      [before, 'on the disk'],
      [after, 'in the bucket'],
    ] as const)
      expect(await read(id)).toBe(content);
    const moved = await platform.admin.patch('/config/storage', {
      local: { storagePath: join(platform.dataDir, 'elsewhere') },
    });
    expect(moved).toMatchObject({ status: 409, body: { code: 'PROVIDER_IN_USE' } });
  });

  it('takes the first uploads after it, which come at once', async () => {
    const local = { storagePath: join(platform.dataDir, 'elsewhere') };
    const set = await platform.admin.patch('/config/storage?force=true', { local });
    expect(set.status, set.text).toBe(200);
    const contents = Array.from({ length: 8 }, (_, index) => `one of many ${index}`);
    const ids = await Promise.all(contents.map(upload));
    expect(await Promise.all(ids.map(read))).toEqual(contents);
  });
});
