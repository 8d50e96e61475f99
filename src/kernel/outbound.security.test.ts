/** Server-side request forgery: GHSA-5rr4-8452-hf4v (better-auth), CVE-2026-35409 (Directus), OWASP API7. */
import { createServer, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { addressClass, createOutboundFetch } from './outbound.ts';

let server: Server;
let url: string;
let answer: (response: ServerResponse, path: string) => void;
beforeAll(async () => {
  server = createServer((request, response) => answer(response, request.url ?? ''));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});
afterAll(async () => {
  server.closeAllConnections();
  await new Promise((resolve) => server.close(resolve));
});

const fetchWith = (options: { internal?: boolean; timeoutMs?: number; maxBytes?: number }) =>
  createOutboundFetch({
    allowInternal: () => options.internal ?? true,
    timeoutMs: options.timeoutMs ?? 5_000,
    maxBytes: options.maxBytes ?? 1_000,
  });

describe('addresses', () => {
  test.each([
    ['8.8.8.8', 'public'],
    ['2606:4700:4700::1111', 'public'],
    ['127.0.0.1', 'internal'],
    ['127.255.255.254', 'internal'],
    ['10.1.2.3', 'internal'],
    ['172.16.0.1', 'internal'],
    ['172.32.0.1', 'public'],
    ['192.168.1.1', 'internal'],
    ['100.64.0.1', 'internal'],
    ['::1', 'internal'],
    ['fd12:3456::1', 'internal'],
    ['::ffff:127.0.0.1', 'internal'],
    ['::ffff:7f00:1', 'internal'],
    ['::ffff:8.8.8.8', 'public'],
    ['0.0.0.0', 'forbidden'],
    ['169.254.169.254', 'forbidden'],
    ['::ffff:169.254.169.254', 'forbidden'],
    ['::ffff:a9fe:a9fe', 'forbidden'],
    ['64:ff9b::a9fe:a9fe', 'forbidden'],
    ['2002:a9fe:a9fe::1', 'forbidden'],
    ['fe80::1', 'forbidden'],
    ['fe80::1%eth0', 'forbidden'],
    ['fd00:ec2::254', 'forbidden'],
    ['::', 'forbidden'],
    ['::127.0.0.1', 'internal'],
    ['::7f00:1', 'internal'],
    ['::a9fe:a9fe', 'forbidden'],
    ['::ffff:0:10.0.0.1', 'internal'],
    ['::2', 'forbidden'],
    ['64:ff9b:1::a9fe:a9fe', 'forbidden'],
    ['2001:0:a9fe:a9fe::1', 'forbidden'],
    ['2001:4860:4860::8888', 'public'],
    ['fec0::1', 'internal'],
    ['192.88.99.1', 'forbidden'],
    ['224.0.0.1', 'forbidden'],
    ['255.255.255.255', 'forbidden'],
    ['not an address', 'forbidden'],
  ])('%s is %s', (address, kind) => expect(addressClass(address)).toBe(kind));
});

describe('refused before anything is sent', () => {
  const fetch = fetchWith({ internal: false });
  test.each([
    ['https://127.0.0.1/', 'address'],
    ['https://127.1/', 'address'],
    ['https://0x7f000001/', 'address'],
    ['https://2130706433/', 'address'],
    ['https://[::1]/', 'address'],
    ['https://[::ffff:127.0.0.1]/', 'address'],
    ['https://localhost/', 'address'],
    ['https://[::7f00:1]/', 'address'],
    ['https://0177.0.0.1/', 'address'],
    ['https://127.0.0.1.:443/', 'address'],
    ['https://①②⑦.0.0.1/', 'address'],
    ['https://169.254.169.254/latest/meta-data', 'address'],
    ['http://example.com/', 'insecure'],
    ['file:///etc/passwd', 'insecure'],
    ['gopher://127.0.0.1/', 'insecure'],
    ['nonsense', 'address'],
  ])('%s', async (address, failure) => {
    await expect(fetch(address)).rejects.toMatchObject({ name: 'OutboundError', failure });
  });

  test('the metadata service of clouds stays closed in an opened network', async () => {
    for (const address of ['http://169.254.169.254/', 'http://[fe80::1]/', 'http://0.0.0.0/']) {
      await expect(fetchWith({ internal: true })(address)).rejects.toMatchObject({
        failure: 'address',
      });
    }
  });
});

test('redirects are not followed', async () => {
  const seen: string[] = [];
  answer = (response, path) => {
    seen.push(path);
    response.writeHead(302, { location: '/secret' }).end();
  };
  expect((await fetchWith({})(`${url}/start`)).status).toBe(302);
  expect(seen).toEqual(['/start']);
});

test('a body that is too large, and one that never ends, are given up', async () => {
  answer = (response) => response.end('a'.repeat(1_001));
  await expect(fetchWith({})(url)).rejects.toMatchObject({ failure: 'tooLarge' });
  answer = (response) => response.end('a'.repeat(1_000));
  expect(await (await fetchWith({})(url)).text()).toHaveLength(1_000);
  answer = (response) => void response.write('a');
  await expect(fetchWith({ timeoutMs: 50 })(url)).rejects.toMatchObject({ failure: 'timeout' });
  answer = () => undefined;
  await expect(fetchWith({ timeoutMs: 50 })(url)).rejects.toMatchObject({ failure: 'timeout' });
});

test('a connection that breaks says which host, never which path', async () => {
  answer = (response) => response.destroy();
  const failure = await fetchWith({})(`${url}/secret?token=1`).catch((error: Error) => error);
  expect(failure).toMatchObject({ failure: 'unreachable' });
  expect((failure as Error).message).not.toMatch(/secret|token/);
});

test('a receiver that changes the protocol is given up at once', async () => {
  answer = (response) =>
    response.socket?.write(
      'HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: other\r\n\r\n',
    );
  await expect(fetchWith({})(url)).rejects.toMatchObject({ failure: 'unreachable', sent: true });
});

test.each(['GET', 'POST', 'DELETE', 'OPTIONS'])(
  'the body of %s is a part of it',
  async (method) => {
    const seen: string[] = [];
    answer = (response, path) => {
      seen.push(path);
      const chunks: Buffer[] = [];
      response.req.on('data', (chunk: Buffer) => chunks.push(chunk));
      response.req.on('end', () => response.end(Buffer.concat(chunks)));
    };
    const body = 'POST /inner HTTP/1.1\r\nhost: inner\r\ncontent-length: 0\r\n\r\nä';
    const response = await fetchWith({})(`${url}/outer`, { method, body });
    expect([await response.text(), seen]).toEqual([body, ['/outer']]);
  },
);
