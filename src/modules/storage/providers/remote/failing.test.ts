/** Stores that refuse, are slow, or die in the middle: every wait has an end, and nobody else pays for it. */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Readable } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, describe, expect, test } from 'vitest';
import { startS3Store, testAccess } from '../../../../../test/support/servers/object-store.ts';
import { startTcpProxy } from '../../../../../test/support/tcp-proxy.ts';
import { createAzureProvider } from '../azure.ts';
import { bytes, refused, type } from '../conformance/bench.ts';
import type { StorageProvider } from '../provider.ts';
import { createS3Provider } from '../s3.ts';

const limits = { connectMs: 500, idleMs: 300, attempts: 3 };
const place = { bucket: 'bucket', key: 'a/b' };
const unavailable = refused('UNAVAILABLE');

const s3 = (endpoint: string): StorageProvider =>
  createS3Provider({
    name: 'aws',
    region: 'us-east-1',
    ...testAccess,
    endpoint,
    usePathStyle: true,
    limits,
  });
const azure = (endpoint: string): StorageProvider =>
  createAzureProvider({
    connectionString: `AccountName=a;AccountKey=a2V5;BlobEndpoint=${endpoint}`,
    limits,
  });

const closing: (() => unknown)[] = [];
afterEach(async () => {
  for (const close of closing.splice(0)) await close();
});

async function serve(
  answer: (request: IncomingMessage, response: ServerResponse) => void,
): Promise<string> {
  const server = createServer(answer);
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  closing.push(() => {
    server.closeAllConnections();
    server.close();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

async function* large(): AsyncGenerator<Buffer> {
  for (let at = 0; at < 64; at++) yield Buffer.alloc(512 * 1024);
}

describe.each([
  ['s3', s3],
  ['azure', azure],
])('%s', (_, open) => {
  const everyCall = async (provider: StorageProvider): Promise<void> => {
    const bodies = [
      [bytes('x'), type],
      [Readable.from(large()), type],
      [Readable.from(large()), { ...type, size: 32 * 1024 * 1024 }],
    ] as const;
    // At once: each of them waits for the limits of its own.
    const calls = [
      provider.head(place),
      provider.get(place),
      provider.list('bucket', ''),
      provider.copy(place, place),
      provider.probe(),
      ...bodies.map(([body, options]) => provider.put(place, body, options)),
    ];
    await Promise.all(calls.map((call) => expect(call).rejects.toEqual(unavailable)));
    expect(bodies.map(([body]) => body.destroyed)).toEqual([true, true, true]);
  };

  test('nobody listens', async () => {
    const proxy = await startTcpProxy(1);
    proxy.cut();
    closing.push(() => proxy.close());
    await everyCall(open(`http://127.0.0.1:${proxy.port}`));
  });

  test('somebody listens and never answers', async () => {
    await everyCall(open(await serve(() => undefined)));
  });

  test('every answer breaks off', async () => {
    await everyCall(open(await serve((request) => void request.socket.destroy())));
  });

  test('the reader learns that an object broke off', async () => {
    const endpoint = await serve((_request, response) => {
      response.writeHead(200, { 'content-length': 1000 });
      response.write('half', () => response.destroy());
    });
    await expect(open(endpoint).get(place).then(buffer)).rejects.toEqual(unavailable);
  });

  test('the reader learns that an object stands still', async () => {
    const endpoint = await serve((_request, response) => {
      response.writeHead(200, { 'content-length': 1000 });
      response.write('half');
    });
    await expect(open(endpoint).get(place).then(buffer)).rejects.toEqual(unavailable);
  });

  test('what passes is tried again, what is refused is not', async () => {
    const asked: string[] = [];
    const endpoint = await serve((request, response) => {
      asked.push(request.method ?? '');
      request.resume();
      const tries = asked.filter((method) => method === request.method).length;
      response.writeHead(request.method === 'DELETE' ? 403 : tries < 3 ? 503 : 200, {
        etag: '"e"',
        'last-modified': new Date().toUTCString(),
      });
      response.end();
    });
    const provider = open(endpoint);
    expect(await provider.put(place, bytes('x'), type)).toMatchObject({ etag: 'e' });
    expect(await provider.head(place)).toMatchObject({ etag: 'e' });
    await expect(provider.delete(place)).rejects.toEqual(refused('REFUSED'));
    expect(asked).toEqual(['PUT', 'PUT', 'PUT', 'HEAD', 'HEAD', 'HEAD', 'DELETE']);
  });

  test('a full store says so', async () => {
    const endpoint = await serve((request, response) => {
      request.resume();
      response.writeHead(507).end();
    });
    await expect(open(endpoint).put(place, bytes('x'), type)).rejects.toEqual(refused('NO_SPACE'));
  });
});

test('what makes an object says how the store shall encrypt it, and nothing else does', async () => {
  const told: string[] = [];
  const endpoint = await serve((request, response) => {
    request.resume();
    const {
      'x-amz-server-side-encryption': how,
      'x-amz-server-side-encryption-aws-kms-key-id': key,
    } = request.headers;
    told.push(`${request.method} ${how} ${key}`);
    request.once('end', () => {
      response.writeHead(200, { etag: '"e"', 'content-length': 0 });
      response.end();
    });
  });
  const provider = createS3Provider({
    name: 'aws',
    region: 'us-east-1',
    ...testAccess,
    endpoint,
    usePathStyle: true,
    encryption: { algorithm: 'aws:kms', keyId: 'key-1' },
    limits,
  });
  await provider.put(place, Buffer.from('x'), type);
  await provider.multipart.begin(place, type);
  await provider.head(place);
  await provider.createBucket('bucket');
  await provider.copy(place, { ...place, key: 'copy' });
  expect(told).toEqual([
    'PUT aws:kms key-1',
    'POST aws:kms key-1',
    'HEAD undefined undefined',
    'PUT undefined undefined',
    'HEAD undefined undefined',
    'PUT aws:kms key-1',
  ]);
  const { url, headers } = await provider.signWrite(place, { ...type, expiresInSeconds: 60 });
  expect(headers).toMatchObject({ 'x-amz-server-side-encryption': 'aws:kms' });
  expect(new URL(url).searchParams.get('X-Amz-SignedHeaders')).toContain(
    'x-amz-server-side-encryption',
  );
});

test('a slow sender and a slow reader are not a slow store', async () => {
  const store = await startS3Store();
  closing.push(() => store.close());
  const provider = s3(store.endpoint);
  await provider.createBucket('bucket');
  const part = Buffer.alloc(1024 * 1024, 1);
  const slow = Readable.from(
    (async function* () {
      for (let at = 0; at < 4; at++) {
        yield part;
        if (at === 2) await sleep(3 * limits.idleMs);
      }
    })(),
  );
  await provider.put(place, slow, { ...type, size: 4 * part.length });
  const reader = await provider.get(place);
  let read = 0;
  for await (const chunk of reader as AsyncIterable<Buffer>) {
    if (read === 0) await sleep(3 * limits.idleMs);
    read += chunk.length;
  }
  expect(read).toBe(4 * part.length);
});

test('a store that dies comes back', async () => {
  const store = await startS3Store();
  const proxy = await startTcpProxy(Number(new URL(store.endpoint).port));
  closing.push(
    () => proxy.close(),
    () => store.close(),
  );
  // Signatures name the host: the same port must answer.
  const provider = s3(`http://127.0.0.1:${proxy.port}`);
  await provider.createBucket('bucket');
  await provider.put(place, bytes('before'), type);
  const dying = Readable.from(
    (async function* () {
      yield Buffer.alloc(4 * 1024 * 1024);
      proxy.cut();
      yield Buffer.alloc(4 * 1024 * 1024);
    })(),
  );
  await expect(provider.put(place, dying, { ...type, size: 8 * 1024 * 1024 })).rejects.toEqual(
    unavailable,
  );
  proxy.mend();
  expect((await provider.get(place).then(buffer)).toString()).toBe('before');
});

test('what no store is at is never called', async () => {
  for (const endpoint of ['http://169.254.169.254', 'http://[fe80::1]', 'http://0.0.0.0'])
    await expect(s3(endpoint).head(place)).rejects.toEqual(refused('REFUSED'));
  expect(() => s3('ftp://127.0.0.1')).toThrow(refused('REFUSED') as never);
});
