/**
 * Stores of Azure and Google that refuse, stand still or end in the middle, by the client surface: the specified error,
 * nothing half is visible, and nothing is left. What S3 does then: stores.test.ts. And what is asked of a store before its
 * configuration is kept.
 */
import { createHash, randomBytes, randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Json } from '../../test/support/api.ts';
import type { TestUser } from '../../test/support/node.ts';
import { createTestPlatform, type TestPlatform } from '../../test/support/platform.ts';
import { startTestAzure } from '../../test/support/servers/azure.ts';
import { startGoogleStore, startRefusingStore } from '../../test/support/servers/object-store.ts';
import { startTcpProxy } from '../../test/support/tcp-proxy.ts';
import { waitFor } from '../../test/support/wait-for.ts';
import { bearer, readContent, sendForm } from './requests.ts';

const MEGABYTE = 1_048_576;
const digest = (bytes: Buffer): string => createHash('sha256').update(bytes).digest('hex');

const ways: Record<string, () => Promise<FailingStore>> = {
  async azure() {
    const { connectionString, close } = await startTestAzure();
    const port = Number(/127\.0\.0\.1:(\d+)/.exec(connectionString)?.[1]);
    const way = await startTcpProxy(port);
    const config = (text: string): Json => ({
      provider: 'azure',
      azure: { connectionString: text.replace(`:${port}/`, `:${way.port}/`) },
    });
    return {
      way,
      port,
      good: config(connectionString),
      wrong: {
        'azure.connectionString': config(
          connectionString.replace(/AccountKey=[^;]*/, 'AccountKey=YW5vdGhlcg=='),
        ),
      },
      close: async () => {
        await way.close();
        await close();
      },
    };
  },
  async google() {
    const { endpoint, serviceAccount, close } = await startGoogleStore();
    const port = Number(new URL(endpoint).port);
    const way = await startTcpProxy(port);
    const address = `http://127.0.0.1:${way.port}`;
    const config = (key: object): Json => ({
      provider: 'google',
      google: {
        endpoint: address,
        serviceAccountKeyJson: JSON.stringify({
          ...serviceAccount,
          token_uri: `${address}/token`,
          ...key,
        }),
      },
    });
    return {
      way,
      port,
      good: config({}),
      wrong: {
        'google.serviceAccountKeyJson': config({ client_email: 'somebody@example.com' }),
      },
      close: async () => {
        await way.close();
        await close();
      },
    };
  },
};

interface FailingStore {
  readonly way: Awaited<ReturnType<typeof startTcpProxy>>;
  /** Of the store itself. */
  readonly port: number;
  readonly good: Json;
  /** Configurations with a credential that the store does not take, by the field that is wrong. */
  readonly wrong: Readonly<Record<string, Json>>;
  close(): Promise<void>;
}

describe.each(Object.keys(ways))('%s that fails', (kind) => {
  let platform: TestPlatform;
  let ann: TestUser;
  let store: FailingStore;
  beforeAll(async () => {
    store = (await ways[kind]?.()) as FailingStore;
    platform = await createTestPlatform();
    ann = await platform.registerUser();
    await use(store.good);
  }, 60_000);
  afterAll(async () => {
    await platform?.close();
    await store?.close();
  });
  const use = async (config: Json) => {
    const set = await platform.admin.patch('/config/storage?force=true', config);
    expect(set.status, set.text).toBe(200);
  };
  const send = (content: string | Buffer = 'x') =>
    sendForm(platform, ann, [`${randomUUID()}.bin`, content]);
  const read = (id: string) =>
    readContent(platform, `/storage/download/${id}`, { headers: bearer(ann) });
  /** What lies on the store, and how many files there are. */
  const present = async () => {
    const { body } = await platform.admin.post('/storage/reconcile', { dryRun: true });
    const { filesCount } = (await platform.admin.get('/admin/storage/files')).body;
    return { state: body.state, objects: body.progress.objects, files: filesCount };
  };

  it('refuses is 502, and says why in the log alone', async () => {
    expect((await send()).status).toBe(200);
    const before = await present();
    const refusing = await startRefusingStore();
    store.way.lead(refusing.port);
    const sent = await send();
    expect(sent).toMatchObject({ status: 502, body: { code: 'PROVIDER_ERROR' } });
    expect(JSON.stringify(sent.body)).not.toMatch(/127\.0\.0\.1|Signature|Key|token/i);
    store.way.lead(store.port);
    await refusing.close();
    await waitFor(async () => JSON.stringify(await present()) === JSON.stringify(before));
    expect((await send()).status).toBe(200);
  }, 60_000);

  it('whose credential is wrong is not kept, and the field is named', async () => {
    const kept = (await platform.admin.get('/config/storage')).body;
    for (const [path, config] of Object.entries(store.wrong)) {
      const set = await platform.admin.patch('/config/storage?force=true', config);
      expect(set.status, set.text).toBe(400);
      expect(set.body).toMatchObject({
        code: 'INVALID_ARGUMENTS',
        errors: [{ path, rule: 'store' }],
      });
      expect(set.text).not.toMatch(/somebody@|YW5vdGhlcg|127\.0\.0\.1/);
    }
    expect((await platform.admin.get('/config/storage')).body).toEqual(kept);
  }, 60_000);

  it('stands still for longer than it may is 503, and leaves nothing', async () => {
    const { body } = await send('there');
    const before = await present();
    await use({ connection: { timeout: 1, attempts: 2 } });
    store.way.stop();
    expect(await send()).toMatchObject({ status: 503, body: { code: 'PROVIDER_UNAVAILABLE' } });
    expect(await read(body.id)).toMatchObject({ status: 503 });
    store.way.mend();
    await use({ connection: { timeout: 30, attempts: 4 } });
    await waitFor(async () => JSON.stringify(await present()) === JSON.stringify(before), {
      timeoutMs: 60_000,
    });
  }, 120_000);

  it('stands still: who gives up leaves nothing, and nobody else waits', async () => {
    const { body } = await send('there');
    const before = await present();
    store.way.stop();
    const form = new FormData();
    form.set('file', new Blob([randomBytes(MEGABYTE) as never]), `${randomUUID()}.bin`);
    const url = new URL('/storage/upload', platform.addresses.client);
    const signal = AbortSignal.timeout(1_000);
    const sending = fetch(url, { method: 'POST', body: form, headers: bearer(ann), signal });
    await expect(sending).rejects.toMatchObject({ name: 'TimeoutError' });
    const metadata = await ann.api.get(`/storage/file/${body.id}`);
    expect(metadata.body).toMatchObject({ state: 'ready', size: 5 });
    store.way.mend();
    await waitFor(async () => JSON.stringify(await present()) === JSON.stringify(before), {
      timeoutMs: 60_000,
    });
    expect((await read(body.id)).bytes.toString()).toBe('there');
  }, 120_000);

  it('ends in the middle of an upload and of a download leaves nothing half', async () => {
    const large = randomBytes(24 * MEGABYTE);
    const { body } = await send(large);
    const before = await present();
    const sending = send(randomBytes(24 * MEGABYTE));
    setTimeout(() => store.way.cut(), 150);
    const sent = await sending;
    store.way.mend();
    if (sent.status === 200) await ann.api.delete(`/storage/file/${sent.body.id}`);
    else expect([502, 503]).toContain(sent.status);
    await waitFor(async () => JSON.stringify(await present()) === JSON.stringify(before), {
      timeoutMs: 60_000,
    });
    const url = new URL(`/storage/download/${body.id}`, platform.addresses.client);
    const reader = (await fetch(url, { headers: bearer(ann) })).body?.getReader();
    await reader?.read();
    store.way.cut();
    const rest = (async () => {
      for (let got = await reader?.read(); got && !got.done; got = await reader?.read());
    })();
    await expect(rest).rejects.toThrow();
    store.way.mend();
    expect(digest((await read(body.id)).bytes)).toBe(digest(large));
  }, 120_000);
});
