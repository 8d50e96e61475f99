/** What happens to files by itself: their own end, the age that a container allows, the trash, uploads that never came. */
import { randomUUID } from 'node:crypto';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { readSettings } from '../../src/kernel/settings/settings.ts';
import { type Platform, startPlatform } from '../../src/platform.ts';
import type { Json } from '../../test/support/api.ts';
import type { TestDatabase } from '../../test/support/database.ts';
import {
  createTestNode,
  type TestNode,
  type TestUser,
  testAdminPassword,
  testMasterKey,
} from '../../test/support/node.ts';
import { platformDatabase, testEnvironment } from '../../test/support/platform.ts';
import { startS3Store, testAccess } from '../../test/support/servers/object-store.ts';
import { removeFolder, temporaryFolder } from '../../test/support/temporary-folder.ts';
import { waitFor } from '../../test/support/wait-for.ts';
import { bearer, readContent, sendForm, sendTo } from './requests.ts';

let platform: TestNode;
let running: Platform;
let server: TestDatabase;
let database: pg.Client;
let folder: string;
let ann: TestUser;
beforeAll(async () => {
  server = await platformDatabase('embedded');
  folder = await temporaryFolder('storage-jobs');
  running = await startPlatform({ settings: readSettings(testEnvironment(folder, server.url)) });
  platform = createTestNode(running.addresses, {
    masterKey: testMasterKey,
    adminPassword: testAdminPassword,
  });
  database = new pg.Client({ connectionString: server.url });
  await database.connect();
  ann = await platform.registerUser();
});
afterAll(async () => {
  await database?.end();
  await running?.close();
  await server?.drop();
  await removeFolder(folder);
});

/** Lets a job that has a schedule run now, and waits until it is over. */
async function run(name: string): Promise<void> {
  const { database: kernelDatabase, jobs } = running.kernel;
  await kernelDatabase.transaction((transaction) => jobs.enqueue(name, {}, { transaction }));
  await waitFor(
    async () => {
      const { rows } = await database.query(
        `select count(*) filter (where state < 'completed')::integer as open from penstock_jobs.job where name = $1`,
        [name],
      );
      return rows[0].open === 0;
    },
    { what: name },
  );
}
const upload = async (fields: Record<string, string> = {}): Promise<string> => {
  const sent = await sendForm(platform, ann, [`${randomUUID()}.txt`, 'x'], { fields });
  expect(sent.status, JSON.stringify(sent.body)).toBe(200);
  return sent.body.id;
};
const statusOf = async (id: string): Promise<number> =>
  (await ann.api.get(`/storage/file/${id}`)).status;

describe('the jobs of files', () => {
  it('delete files whose own time is over, and no others', async () => {
    const [over, later, kept] = [await upload(), await upload(), await upload()];
    const soon = new Date(Date.now() + 3_600_000).toISOString();
    await ann.api.patch(`/storage/file/${later}`, { expiresAt: soon });
    await database.query(`update "app"."File" set "expiresAt" = now() where "_id" = $1`, [over]);
    expect(await statusOf(over)).toBe(404);
    await run('storage.expire-files');
    const { rows } = await database.query('select 1 from "app"."File" where "_id" = $1', [over]);
    expect(rows).toEqual([]);
    expect([await statusOf(later), await statusOf(kept)]).toEqual([200, 200]);
  });

  it('delete files that are older than their container allows, but for those that records hold', async () => {
    const name = `c-${randomUUID()}`;
    const { _id } = (await platform.admin.post('/storage/containers', { name })).body;
    await platform.admin.patch(`/storage/containers/${_id}`, { lifecycle: { deleteAfterDays: 2 } });
    const [old, young, held, elsewhere] = await Promise.all([
      upload({ container: name }),
      upload({ container: name }),
      upload({ container: name }),
      upload(),
    ]);
    await platform.createSchema({ name: 'Holder', fields: { file: { type: 'File' } } });
    expect((await ann.api.post('/database/Holder', { file: held })).status).toBe(200);
    await database.query(
      `update "app"."File" set "createdAt" = now() - interval '3 days' where "_id" = any($1::uuid[])`,
      [[old, held, elsewhere]],
    );
    await run('storage.expire-files');
    expect(await Promise.all([old, young, held, elsewhere].map(statusOf))).toEqual([
      404, 200, 200, 200,
    ]);
    const { body } = await platform.admin.get('/storage/stats');
    expect(body.perContainer).toContainEqual({ name, files: 2, size: 2 });
  });

  it('empty the trash when its time is over, and only then', async () => {
    await platform.admin.patch('/config/storage', { trash: { days: 1 } });
    const [over, kept] = [await upload(), await upload()];
    for (const id of [over, kept]) await ann.api.delete(`/storage/file/${id}`);
    await database.query(`update penstock.storage_trash set expires_at = now() where id = $1`, [
      over,
    ]);
    await run('storage.purge-trash');
    const { files } = (await ann.api.get('/storage/trash')).body;
    expect(files.map((file: { _id: string }) => file._id)).toEqual([kept]);
    expect((await ann.api.post(`/storage/trash/${over}/restore`)).status).toBe(404);
    expect((await ann.api.post(`/storage/trash/${kept}/restore`)).status).toBe(200);
    const { _id } = (await platform.admin.post('/storage/containers', { name: 'shelf' })).body;
    const lost = await upload({ container: 'shelf' });
    await ann.api.delete(`/storage/file/${lost}`);
    const refused = await platform.admin.delete(`/storage/containers/${_id}`);
    expect([refused.status, refused.body.code]).toEqual([409, 'CONTAINER_NOT_EMPTY']);
    expect(refused.body.message).toContain('in the trash');
    const types = 'storage.containers';
    const { modules } = (await platform.admin.get('/state/export', { query: { types } })).body;
    const containers = modules.storage.containers.filter((one: Json) => one.name !== 'shelf');
    const pruned = { modules: { storage: { containers } } };
    const planned = (await platform.admin.post('/state/plan?prune=true', pruned)).body;
    expect(JSON.stringify(planned.obstacles)).toContain('in the trash');
    const forced = await platform.admin.delete(`/storage/containers/${_id}?force=true`);
    expect(forced.status, forced.text).toBe(200);
    await platform.admin.patch('/config/storage', { trash: { days: 0 } });
    await waitFor(async () => {
      const { progress } = (await platform.admin.post('/storage/reconcile', { dryRun: true })).body;
      return progress.orphanObjects === 0 && progress.missingObjects === 0;
    });
  });

  it('end uploads that never came, and keep what had come before', async () => {
    const never = await ann.api.post('/storage/upload', { name: randomUUID() });
    const file = await upload();
    const again = await ann.api.patch(`/storage/upload/${file}`, {});
    const created = await fetch(new URL('/storage/resumable', platform.addresses.client), {
      method: 'POST',
      headers: {
        authorization: `Bearer ${ann.accessToken}`,
        'tus-resumable': '1.0.0',
        'upload-length': '10',
      },
    });
    expect(created.status).toBe(201);
    await database.query('update penstock.storage_uploads set expires_at = now()');
    await database.query('update penstock.storage_resumable set expires_at = now()');
    await run('storage.expire-uploads');
    await run('storage.expire-resumable');
    expect(await statusOf(never.body.id)).toBe(404);
    expect((await ann.api.get(`/storage/file/${file}`)).body).toMatchObject({
      state: 'ready',
      size: 1,
    });
    expect((await sendTo(again.body.url, 'late')).status).toBe(409);
    const { rows } = await database.query(
      'select id from penstock.storage_uploads union all select id from penstock.storage_resumable',
    );
    expect(rows).toEqual([]);
  });

  const onDirectStore = async (work: () => Promise<void>): Promise<void> => {
    const { endpoint, close } = await startS3Store();
    const aws = { endpoint, region: 'eu-central-1', ...testAccess, accountId: '1' };
    const store = { provider: 'aws', aws, upload: { direct: true } };
    await platform.admin.patch('/config/storage?force=true', store);
    try {
      await work();
    } finally {
      const back = { provider: 'local', upload: { direct: false } };
      await platform.admin.patch('/config/storage?force=true', back);
      await close();
    }
  };
  const send = async ({ url, headers }: Json, body: string) =>
    expect((await fetch(url, { method: 'PUT', headers, body })).status).toBeLessThan(300);
  const contentOf = async (id: string) => {
    const { status, bytes } = await readContent(platform, `/storage/download/${id}`, {
      headers: bearer(ann),
    });
    return [status, status === 200 ? bytes.toString() : ''];
  };

  it('take what came by an older address, and go on waiting for the younger one', () =>
    onDirectStore(async () => {
      const older = (await ann.api.post('/storage/upload', { name: `${randomUUID()}.txt` })).body;
      const younger = (await ann.api.patch(`/storage/upload/${older.id}`, {})).body;
      await send(older, 'older');
      await database.query(
        'update penstock.storage_uploads set expires_at = now() where generation = 1',
      );
      await run('storage.expire-uploads');
      expect(await contentOf(older.id)).toEqual([200, 'older']);
      await send(younger, 'younger');
      expect(await contentOf(older.id)).toEqual([200, 'younger']);
    }));

  it('take nothing of whom may not send it any more, and delete it at the end of its time', () =>
    onDirectStore(async () => {
      const eve = await platform.registerUser();
      const begin = async () =>
        (await eve.api.post('/storage/upload', { name: `${randomUUID()}.txt` })).body;
      const [looked, waited] = [await begin(), await begin()];
      await send(looked, 'looked');
      await send(waited, 'waited');
      const user = `/authentication/users/${eve.userId}`;
      expect((await platform.admin.post(`${user}/block`)).status).toBe(200);
      expect(await contentOf(looked.id)).toEqual([409, '']);
      await database.query(
        `update penstock.storage_uploads set expires_at = now() where file_id = '${waited.id}'`,
      );
      await run('storage.expire-uploads');
      expect(await statusOf(waited.id)).toBe(404);
      expect((await platform.admin.post(`${user}/unblock`)).status).toBe(200);
      expect(await contentOf(looked.id)).toEqual([200, 'looked']);
    }));
});
