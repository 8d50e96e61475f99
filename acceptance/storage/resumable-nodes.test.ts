/** One resumable upload over two nodes, the first of which is killed in the middle of it. `npm run test:large`: with a file of 2 GB. */
import { createHash, randomUUID } from 'node:crypto';
import { createReadStream, createWriteStream } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { Upload } from 'tus-js-client';
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { Json } from '../../test/support/api.ts';
import { expectStatus } from '../../test/support/node.ts';
import { describeWithPostgres15 } from '../../test/support/servers/fixtures.ts';
import { startTwoNodes, type TwoNodes } from '../../test/support/two-nodes.ts';
import { waitFor } from '../../test/support/wait-for.ts';
import { bearer } from './requests.ts';

const MEGABYTE = 1_048_576;
const megabytes = Number(process.env.RESUMABLE_MEGABYTES ?? 64);
const size = megabytes * MEGABYTE;

/** The bytes from `start` on, made while they are read: every megabyte is another. */
function content(start = 0): Readable {
  return Readable.from(
    (function* () {
      for (let at = Math.floor(start / MEGABYTE); at < megabytes; at++) {
        const piece = Buffer.alloc(MEGABYTE, createHash('sha256').update(String(at)).digest());
        yield at === Math.floor(start / MEGABYTE) ? piece.subarray(start % MEGABYTE) : piece;
      }
    })(),
    { objectMode: false },
  );
}

async function digest(source: AsyncIterable<Uint8Array>): Promise<string> {
  const hash = createHash('sha256');
  for await (const chunk of source) hash.update(chunk);
  return hash.digest('hex');
}

await describeWithPostgres15('a resumable upload over two nodes', () => {
  let nodes: TwoNodes;
  let folder: string;
  beforeAll(async () => {
    folder = await mkdtemp(join(tmpdir(), 'storage-shared-'));
    nodes = await startTwoNodes({ redis: false });
    const body = {
      config: { local: { storagePath: folder }, limits: { maxFileSize: 4_096 * MEGABYTE } },
    };
    expectStatus(await nodes.first.admin.patch('/config/storage', body), 200, 'shared folder');
  }, 120_000);
  afterAll(async () => {
    await nodes?.close();
    await rm(folder, { recursive: true, force: true });
  }, 60_000);

  it('is told to be in danger while each keeps files in a folder of its own', async () => {
    const { first, second } = nodes;
    const headers = { accept: 'application/json' };
    const statuses = () =>
      Promise.all(
        [first, second].map(async ({ admin }) => {
          const { checks } = (await admin.get('/ready', { headers })).body;
          return checks.find(({ name }: Json) => name === 'storage.folder').status;
        }),
      );
    const keepIn = async (storagePath: string) => {
      const body = { config: { local: { storagePath } } };
      const set = await first.admin.patch('/config/storage?force=true', body);
      expectStatus(set, 200, 'another folder');
    };
    await keepIn('');
    await waitFor(async () => (await statuses()).every((status) => status === 'warn'));
    expect(second.stdout()).toContain('Set local.storagePath to a folder that all nodes share');
    await keepIn(folder);
    await waitFor(async () => (await statuses()).every((status) => status === 'pass'));
  });

  it('goes on at the second when the first is killed, and the file is whole', async () => {
    const user = await nodes.first.registerUser();
    const path = '/storage/resumable';
    const metadata = `filename ${Buffer.from(`${randomUUID()}.bin`).toString('base64')}`;
    const headers = { ...bearer(user), 'tus-resumable': '1.0.0' };
    const begun = await fetch(new URL(path, nodes.first.addresses.client), {
      method: 'POST',
      headers: { ...headers, 'upload-length': String(size), 'upload-metadata': metadata },
    });
    expect(begun.status).toBe(201);
    const place = begun.headers.get('location') ?? '';

    let sent = 0;
    const counted = (async function* () {
      for await (const chunk of content()) {
        sent += (chunk as Buffer).length;
        if (sent > size / 2) await nodes.first.kill();
        yield chunk as Buffer;
      }
    })();
    const broken = fetch(new URL(place, nodes.first.addresses.client), {
      method: 'PATCH',
      headers: {
        ...headers,
        'upload-offset': '0',
        'content-type': 'application/offset+octet-stream',
      },
      body: Readable.toWeb(Readable.from(counted)) as never,
      duplex: 'half',
    } as RequestInit);
    await expect(broken).rejects.toThrow();

    const { promise, resolve, reject } = Promise.withResolvers<void>();
    const second = new URL(place, nodes.second.addresses.client);
    const source = join(folder, 'source.bin');
    await pipeline(content(), createWriteStream(source));
    const upload = new Upload(createReadStream(source) as never, {
      uploadUrl: second.href,
      headers: bearer(user),
      chunkSize: 16 * MEGABYTE,
      retryDelays: [1_000, 3_000, 5_000, 10_000, 10_000],
      onError: reject,
      onSuccess: () => resolve(),
    });
    upload.start();
    await promise;

    const id = place.slice(place.lastIndexOf('/') + 1);
    const read = await fetch(new URL(`/storage/download/${id}`, second), { headers: bearer(user) });
    expect(read.status).toBe(200);
    expect(Number(read.headers.get('content-length'))).toBe(size);
    expect(await digest(read.body as never)).toBe(await digest(content()));
  }, 600_000);
});
