/** A disk that is full: uploads are 503, nothing half is visible, nothing is left, and the platform goes on. */
import { randomBytes, randomUUID } from 'node:crypto';
import { mkdir, readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { TestUser } from '../../test/support/node.ts';
import { createTestPlatform, type TestPlatform } from '../../test/support/platform.ts';
import { mountSmallDisk, type SmallDisk } from '../../test/support/small-disk.ts';
import { temporaryFolder } from '../../test/support/temporary-folder.ts';
import { waitFor } from '../../test/support/wait-for.ts';
import { bearer, readContent, sendForm, sendTo } from './requests.ts';

const MEGABYTE = 1_048_576;
const folder = await temporaryFolder('small-disk');
const disk: SmallDisk | undefined = await mountSmallDisk(folder, 32);

let platform: TestPlatform;
let ann: TestUser;
beforeAll(async () => {
  if (!disk) return;
  platform = await createTestPlatform();
  ann = await platform.registerUser();
  const storagePath = join(folder, 'contents');
  await mkdir(storagePath);
  const set = await platform.admin.patch('/config/storage', { local: { storagePath } });
  expect(set.status, set.text).toBe(200);
});
afterAll(async () => {
  await platform?.close();
  await disk?.unmount();
});

/** Files below the folder of the contents. */
async function onDisk(): Promise<readonly string[]> {
  const entries = await readdir(join(folder, 'contents'), { recursive: true, withFileTypes: true });
  return entries.filter((entry) => entry.isFile()).map(({ name }) => name);
}
const count = async (): Promise<number> =>
  (await platform.admin.get('/admin/storage/files')).body.filesCount;

describe.skipIf(!disk)('a full disk', () => {
  it('refuses contents by every way, keeps what is there, and takes files again when there is room', async () => {
    const there = await sendForm(platform, ann, [`${randomUUID()}.txt`, 'there']);
    expect(there.status, JSON.stringify(there.body)).toBe(200);
    const begun = await ann.api.post('/storage/upload', { name: `${randomUUID()}.bin` });
    const [files, documents] = [(await onDisk()).length, await count()];
    await disk?.fill(MEGABYTE);
    const large = randomBytes(4 * MEGABYTE);
    const form = await sendForm(platform, ann, [`${randomUUID()}.bin`, large]);
    expect(form).toMatchObject({ status: 503, body: { code: 'STORAGE_FULL' } });
    expect(JSON.stringify(form.body)).not.toContain(folder);
    const data = await ann.api.post('/storage/file', { data: large.toString('base64') });
    expect(data).toMatchObject({ status: 503, body: { code: 'STORAGE_FULL' } });
    expect(await sendTo(begun.body.url, large)).toMatchObject({ status: 503 });
    const replaced = await ann.api.patch(`/storage/file/${there.body.id}`, {
      data: large.toString('base64'),
    });
    expect(replaced.status).toBe(503);
    const created = await fetch(new URL('/storage/resumable', platform.addresses.client), {
      method: 'POST',
      headers: {
        ...bearer(ann),
        'tus-resumable': '1.0.0',
        'upload-length': String(large.length),
        'content-type': 'application/offset+octet-stream',
      },
      body: new Uint8Array(large),
    });
    expect(created.status).toBe(503);
    // The bytes that were there are served, and nothing of the others is.
    const read = await readContent(platform, `/storage/download/${there.body.id}`, {
      headers: bearer(ann),
    });
    expect(read.bytes.toString()).toBe('there');
    expect((await ann.api.get(`/storage/file/${begun.body.id}`)).body.state).toBe('pending');
    expect(await count()).toBe(documents);
    await waitFor(async () => (await onDisk()).length === files);
    await disk?.free();
    expect((await sendTo(begun.body.url, large)).status).toBe(200);
    expect((await sendForm(platform, ann, [`${randomUUID()}.bin`, large])).status).toBe(200);
  }, 60_000);
});
