/**
 * Files on stores outside, by the client surface: the same calls on each of them, and stores that are away, refuse, are
 * slow or end in the middle. Then nothing half is visible, and nothing is left.
 */
import { createHash, randomBytes, randomUUID } from 'node:crypto';
import pg from 'pg';
import sharp from 'sharp';
import { Upload } from 'tus-js-client';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Json } from '../../test/support/api.ts';
import type { TestUser } from '../../test/support/node.ts';
import { createTestPlatform, type TestPlatform } from '../../test/support/platform.ts';
import { startTestAzure } from '../../test/support/servers/azure.ts';
import {
  startGoogleStore,
  startRefusingStore,
  startS3Store,
  testAccess,
} from '../../test/support/servers/object-store.ts';
import { startTcpProxy } from '../../test/support/tcp-proxy.ts';
import { waitFor } from '../../test/support/wait-for.ts';
import { bearer, readContent, sendForm, sendTo } from './requests.ts';

const MEGABYTE = 1_048_576;
const digest = (bytes: Buffer): string => createHash('sha256').update(bytes).digest('hex');

interface OpenStore {
  readonly config: Json;
  close(): Promise<void>;
}

const stores: Record<string, () => Promise<OpenStore>> = {
  async s3() {
    const { endpoint, close } = await startS3Store();
    const aws = { endpoint, region: 'eu-central-1', ...testAccess, accountId: '1' };
    return { config: { provider: 'aws', aws }, close };
  },
  async azure() {
    const { connectionString, close } = await startTestAzure();
    return { config: { provider: 'azure', azure: { connectionString } }, close };
  },
  async google() {
    const { endpoint, serviceAccount, close } = await startGoogleStore();
    const google = { endpoint, serviceAccountKeyJson: JSON.stringify(serviceAccount) };
    return { config: { provider: 'google', google }, close };
  },
};

const sendResumable = (node: TestPlatform, user: TestUser, content: Buffer, name: string) => {
  const { promise, resolve, reject } = Promise.withResolvers<string>();
  const upload = new Upload(content, {
    endpoint: new URL('/storage/resumable', node.addresses.client).href,
    headers: bearer(user),
    chunkSize: 5 * MEGABYTE,
    metadata: { filename: name },
    retryDelays: [100, 500, 1_000],
    onError: reject,
    onSuccess: () => resolve((upload.url ?? '').split('/').at(-1) ?? ''),
  });
  upload.start();
  return promise;
};

describe.each(Object.keys(stores))('files on %s', (kind) => {
  let platform: TestPlatform;
  let ann: TestUser;
  let store: OpenStore;
  beforeAll(async () => {
    store = (await stores[kind]?.()) as OpenStore;
    platform = await createTestPlatform();
    ann = await platform.registerUser();
    const set = await platform.admin.patch('/config/storage?force=true', store.config);
    expect(set.status, set.text).toBe(200);
  }, 60_000);
  afterAll(async () => {
    await platform?.close();
    await store?.close();
  });
  const read = (id: string, headers: Record<string, string> = {}) =>
    readContent(platform, `/storage/download/${id}`, { headers: { ...bearer(ann), ...headers } });

  it('go up and down, in parts, and are copied, moved, replaced and deleted', async () => {
    const content = randomBytes(3 * MEGABYTE);
    const sent = await sendForm(platform, ann, [`${randomUUID()}.bin`, content]);
    expect(sent.status, JSON.stringify(sent.body)).toBe(200);
    const { id } = sent.body;
    expect(digest((await read(id)).bytes)).toBe(digest(content));
    const part = await read(id, { range: 'bytes=1000000-1000009' });
    expect(part.status).toBe(206);
    expect(part.bytes.equals(content.subarray(1_000_000, 1_000_010))).toBe(true);
    expect((await read(id, { range: `bytes=${content.length}-` })).status).toBe(416);
    const copied = await ann.api.post(`/storage/file/${id}/copy`, { name: 'copy.bin' });
    expect(copied.status, copied.text).toBe(200);
    const container = `c-${randomUUID()}`;
    await platform.admin.post('/storage/containers', { name: container });
    const moved = await ann.api.post(`/storage/file/${id}/move`, { container });
    expect(moved.status, moved.text).toBe(200);
    expect((await ann.api.delete(`/storage/file/${copied.body._id}`)).status).toBe(200);
    expect(digest((await read(id)).bytes)).toBe(digest(content));
    const again = await ann.api.patch(`/storage/upload/${id}`, {});
    expect((await sendTo(again.body.url, 'new')).status).toBe(200);
    expect((await read(id)).bytes.toString()).toBe('new');
    expect((await ann.api.delete(`/storage/file/${id}`)).status).toBe(200);
    expect((await read(id)).status).toBe(404);
    await waitFor(async () => {
      const { body } = await platform.admin.post('/storage/reconcile', { dryRun: true });
      return (
        body.state === 'done' && body.progress.objects === 0 && body.progress.orphanObjects === 0
      );
    });
  }, 60_000);

  it('take bytes at addresses of their own, with what the answer says to send', async () => {
    const direct = async (given: boolean) =>
      expect(
        (await platform.admin.patch('/config/storage', { config: { upload: { direct: given } } }))
          .status,
      ).toBe(200);
    await direct(true);
    const send = async (begun: Json, content: string) =>
      (await fetch(begun.url, { method: 'PUT', headers: begun.headers, body: content })).status;
    const begun = await ann.api.post('/storage/upload', {
      ...{ name: `${randomUUID()}.txt`, mimeType: 'text/plain', size: 5 },
    });
    expect(begun.status, begun.text).toBe(200);
    const { id } = begun.body;
    expect(new URL(begun.body.url).host).not.toBe(new URL(platform.addresses.client).host);
    const complete = () => ann.api.post(`/storage/upload/${id}/complete`);
    expect((await complete()).body.code).toBe('FILE_PENDING');
    expect(await send(begun.body, 'first')).toBeLessThan(300);
    expect((await complete()).body).toMatchObject({ state: 'ready', size: 5 });
    expect((await read(id)).bytes.toString()).toBe('first');
    const again = await ann.api.patch(`/storage/upload/${id}`, { mimeType: 'text/plain' });
    expect(await send(again.body, 'the second')).toBeLessThan(300);
    // The first reader finds it, where nobody has said that it is there.
    expect((await read(id)).bytes.toString()).toBe('the second');
    await direct(false);
  }, 60_000);

  it('come in pieces that are resumed, and get their checksum', async () => {
    const content = randomBytes(18 * MEGABYTE);
    const id = await sendResumable(platform, ann, content, `${randomUUID()}.bin`);
    expect(digest((await read(id)).bytes)).toBe(digest(content));
    const file = async (): Promise<Json> => (await ann.api.get(`/storage/file/${id}`)).body;
    await waitFor(async () => (await file()).checksum !== null);
    expect(await file()).toMatchObject({ size: content.length, checksum: digest(content) });
  }, 60_000);

  it('have pictures that are kept on the store, and go with their source', async () => {
    const picture = await sharp({
      create: { width: 300, height: 200, channels: 3, background: '#a04020' },
    })
      .png()
      .toBuffer();
    const { body } = await sendForm(platform, ann, [`${randomUUID()}.png`, picture], {
      type: 'image/png',
    });
    const path = `/storage/file/${body.id}/image?w=60&format=webp`;
    const [first, second] = [
      await readContent(platform, path, { headers: bearer(ann) }),
      await readContent(platform, path, { headers: bearer(ann) }),
    ];
    expect([first.status, second.bytes.equals(first.bytes)]).toEqual([200, true]);
    const objects = async (): Promise<number> =>
      (await platform.admin.post('/storage/reconcile', { dryRun: true })).body.progress.objects;
    const before = await objects();
    expect((await ann.api.delete(`/storage/file/${body.id}`)).status).toBe(200);
    await waitFor(async () => (await objects()) === before - 2);
  }, 60_000);
});

describe('a store that', () => {
  let platform: TestPlatform;
  let ann: TestUser;
  let database: pg.Client;
  let store: Awaited<ReturnType<typeof startS3Store>>;
  let way: Awaited<ReturnType<typeof startTcpProxy>>;
  beforeAll(async () => {
    store = await startS3Store();
    way = await startTcpProxy(Number(new URL(store.endpoint).port));
    platform = await createTestPlatform();
    ann = await platform.registerUser();
    database = new pg.Client({ connectionString: platform.databaseUrl ?? '' });
    await database.connect();
    await use({ ...testAccess });
  }, 60_000);
  afterAll(async () => {
    await database?.end();
    await platform?.close();
    await way?.close();
    await store?.close();
  });
  const use = async (keys: Json) => {
    const aws = {
      endpoint: `http://127.0.0.1:${way.port}`,
      region: 'eu-central-1',
      accountId: '1',
      ...keys,
    };
    const set = await platform.admin.patch('/config/storage?force=true', { provider: 'aws', aws });
    expect(set.status, set.text).toBe(200);
  };
  const send = (content: string | Buffer = 'x') =>
    sendForm(platform, ann, [`${randomUUID()}.txt`, content]);
  const count = async (): Promise<number> =>
    (await platform.admin.get('/admin/storage/files')).body.filesCount;
  /** Documents, objects and uploads are what they were, after the jobs that take away what is given up. */
  const leavesNothing = async (work: () => Promise<unknown>) => {
    const before = [await count(), store.keys().length];
    await work();
    await waitFor(
      async () => {
        const { rows } = await database.query('select id from penstock.storage_uploads');
        return rows.length === 0 && store.keys().length === before[1];
      },
      { timeoutMs: 60_000 },
    );
    expect(await count()).toBe(before[0]);
  };

  it('cannot be used is not kept, and the field that decides it is named', async () => {
    const kept = (await platform.admin.get('/config/storage')).body;
    const nobody = await startTcpProxy(1);
    nobody.cut();
    const wrong: readonly (readonly [string, Json])[] = [
      ['aws.accessKeyId', { aws: { accessKeyId: 'ANOTHER' } }],
      ['aws.secretAccessKey', { aws: { secretAccessKey: 'another/secret' } }],
      ['aws.endpoint', { aws: { endpoint: `http://127.0.0.1:${nobody.port}` } }],
      ['azure.connectionString', { provider: 'azure', azure: { connectionString: 'none' } }],
      [
        'google.serviceAccountKeyJson',
        { provider: 'google', google: { serviceAccountKeyJson: '{}' } },
      ],
      ['local.storagePath', { provider: 'local', local: { storagePath: '/proc/none' } }],
    ];
    for (const [path, change] of wrong) {
      const set = await platform.admin.patch('/config/storage?force=true', change);
      expect(set.body, path).toMatchObject({ status: 400, errors: [{ path, rule: 'store' }] });
    }
    await nobody.close();
    expect((await platform.admin.get('/config/storage')).body).toEqual(kept);
  });

  it('is away is 503 by every call that needs it, and serves when it is back', async () => {
    const { body } = await send('there');
    way.cut();
    await leavesNothingWhileAway(async () => {
      const uploaded = await send();
      expect(uploaded).toMatchObject({ status: 503, body: { code: 'PROVIDER_UNAVAILABLE' } });
      expect(JSON.stringify(uploaded.body)).not.toMatch(/127\.0\.0\.1|ECONN/);
      const data = await ann.api.post('/storage/file', { data: 'eA==', name: randomUUID() });
      expect(data.status).toBe(503);
      const begun = await ann.api.post('/storage/upload', { name: randomUUID() });
      expect(begun.status).toBe(200);
      expect((await sendTo(begun.body.url, 'x')).status).toBe(503);
      await ann.api.delete(`/storage/file/${begun.body.id}`);
      for (const path of [`/storage/download/${body.id}`, `/storage/file/data/${body.id}`])
        expect((await ann.api.get(path)).status).toBe(503);
      const copied = await ann.api.post(`/storage/file/${body.id}/copy`, { name: 'c' });
      expect(copied.status).toBe(503);
      const metadata = await ann.api.get(`/storage/file/${body.id}`);
      expect(metadata.body).toMatchObject({ state: 'ready', size: 5 });
    });
    way.mend();
    expect((await send()).status).toBe(200);
    expect((await ann.api.get(`/storage/file/data/${body.id}`)).status).toBe(200);
  }, 120_000);
  const leavesNothingWhileAway = async (work: () => Promise<unknown>) => {
    const before = await count();
    await work();
    expect(await count()).toBe(before);
  };

  it('refuses is 502, and says why in the log alone', async () => {
    await leavesNothing(async () => {
      const refusing = await startRefusingStore();
      way.lead(refusing.port);
      const refused = await send();
      expect(refused).toMatchObject({ status: 502, body: { code: 'PROVIDER_ERROR' } });
      expect(JSON.stringify(refused.body)).not.toMatch(/127\.0\.0\.1|TESTKEY|Key of/);
      way.lead(Number(new URL(store.endpoint).port));
      await refusing.close();
    });
    expect((await send()).status).toBe(200);
  }, 60_000);

  it('ends in the middle of an upload leaves nothing, and in the middle of a download ends that', async () => {
    const large = randomBytes(24 * MEGABYTE);
    const { body } = await send(large);
    await leavesNothing(async () => {
      const sending = send(randomBytes(24 * MEGABYTE));
      setTimeout(() => way.cut(), 150);
      const sent = await sending;
      way.mend();
      if (sent.status === 200) await ann.api.delete(`/storage/file/${sent.body.id}`);
      else expect([502, 503]).toContain(sent.status);
    });
    const url = new URL(`/storage/download/${body.id}`, platform.addresses.client);
    const answer = await fetch(url, { headers: bearer(ann) });
    const reader = answer.body?.getReader();
    await reader?.read();
    way.cut();
    const rest = (async () => {
      for (let got = await reader?.read(); got && !got.done; got = await reader?.read());
      return 'whole';
    })();
    await expect(rest).rejects.toThrow();
    way.mend();
    const whole = await readContent(platform, url.href, { headers: bearer(ann) });
    expect(digest(whole.bytes)).toBe(digest(large));
  }, 120_000);
});
