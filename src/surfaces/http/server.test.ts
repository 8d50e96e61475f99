import { lookup } from 'node:dns/promises';
import { once } from 'node:events';
import { type AddressInfo, connect, createServer } from 'node:net';
import type { Duplex } from 'node:stream';
import { describe, expect, it } from 'vitest';
import { sendRaw } from '../../../test/support/raw-http.ts';
import { startSurfaceFixture } from '../../../test/support/surface-fixture.ts';
import { defineOperation, TextResult } from '../../kernel/operations/operation.ts';
import type { OperationContext } from '../../kernel/operations/operation-input.ts';
import { defaultRequestSettings } from '../../kernel/pipeline/request-limits.ts';
import { createHttpServer } from './server.ts';

const slow = (handler: (context: OperationContext) => Promise<string>) =>
  defineOperation({
    id: 'test.slow',
    surface: 'client',
    method: 'GET',
    path: '/slow',
    access: 'public',
    limit: 'standard',
    summary: 'Slow',
    input: {},
    output: TextResult,
    handler,
  });

it('finishes running requests and refuses new connections when it closes', async () => {
  let finish = (): void => undefined;
  let started = (): void => undefined;
  const running = new Promise<void>((resolve) => {
    started = resolve;
  });
  const operation = slow(async () => {
    started();
    await new Promise<void>((resolve) => {
      finish = resolve;
    });
    return 'done';
  });
  const surfaces = await startSurfaceFixture({ operations: [operation], graceMs: 10_000 });
  const answer = surfaces.client('/slow');
  await running;
  const closed = surfaces.close();
  await expect(surfaces.client('/slow')).rejects.toThrow();
  finish();
  expect(await (await answer).json()).toEqual({ result: 'done' });
  await closed;
});

it.each(['203.0.113.1', 'fe80::1', 'no such name'])(
  'says that %s is no address of this machine',
  async (host) => {
    await expect(startSurfaceFixture({ operations: [], settings: { host } })).rejects.toThrow(
      `This machine has no address ${host}: set HOST`,
    );
  },
);

it('does not wait for connections that never sent anything', async () => {
  const surfaces = await startSurfaceFixture({ operations: [], graceMs: 60_000 });
  const { port, hostname } = new URL(surfaces.clientAddress);
  const silent = connect(Number(port), hostname);
  const ended = once(silent, 'close');
  await once(silent, 'connect');
  await surfaces.close();
  await ended;
});

it('answers 503 to what does not finish in the time given, and when to come back', async () => {
  const surfaces = await startSurfaceFixture({
    operations: [slow(() => new Promise(() => undefined))],
    graceMs: 50,
  });
  const answer = sendRaw(surfaces.clientAddress, 'GET /slow HTTP/1.1\r\nHost: x\r\n\r\n', 5_000);
  await surfaces.client('/nothing');
  await surfaces.close();
  expect(await answer).toMatch(
    /^HTTP\/1\.1 503 [\s\S]*connection: close[\s\S]*retry-after: \d+[\s\S]*The platform stops: send this again/i,
  );
});

it('answers 504 at the deadline and aborts the signal', async () => {
  let aborted: unknown;
  const operation = slow(({ signal }) => {
    signal.addEventListener('abort', () => {
      aborted = signal.reason;
    });
    return new Promise(() => undefined);
  });
  const surfaces = await startSurfaceFixture({
    operations: [operation],
    requests: () => ({ ...defaultRequestSettings, milliseconds: 500 }),
  });
  try {
    const response = await surfaces.client('/slow');
    expect([response.status, ((await response.json()) as { name: string }).name]).toEqual([
      504,
      'TIMEOUT',
    ]);
    expect(aborted).toMatchObject({ code: 'TIMEOUT' });
  } finally {
    await surfaces.close();
  }
});

it('aborts the signal when the client goes away', async () => {
  const gone = Promise.withResolvers<void>();
  const begun = Promise.withResolvers<void>();
  const operation = slow(async ({ signal }) => {
    signal.addEventListener('abort', () => gone.resolve());
    begun.resolve();
    await gone.promise;
    return 'late';
  });
  const surfaces = await startSurfaceFixture({ operations: [operation] });
  try {
    const controller = new AbortController();
    const call = surfaces.client('/slow', { signal: controller.signal });
    await begun.promise;
    controller.abort();
    await expect(call).rejects.toThrow();
    await gone.promise;
  } finally {
    await surfaces.close();
  }
});

it('says which port is in use and what to set', async () => {
  const other = createServer().listen(0, '127.0.0.1');
  await once(other, 'listening');
  const { port } = other.address() as AddressInfo;
  try {
    await expect(startSurfaceFixture({ settings: { adminHttpPort: port } })).rejects.toMatchObject({
      name: 'StartError',
      message: `Port ${port} on 127.0.0.1 is in use: stop the program that uses it, or set ADMIN_HTTP_PORT to another port`,
    });
  } finally {
    other.close();
  }
});

it('refuses to start with a proxy list that is none', async () => {
  await expect(
    startSurfaceFixture({ settings: { trustedProxies: ['proxy.local'] } }),
  ).rejects.toMatchObject({ name: 'StartError' });
});

describe('bytes after a whole request that are no request', () => {
  const asked = 'GET /slow HTTP/1.1\r\nHost: x\r\n\r\n';
  const statuses = (raw: string) => raw.match(/HTTP\/1\.1 \d{3}/g)?.map((line) => line.slice(-3));

  it.each([
    ['garbage', `${asked}garbage garbage\r\n\r\n`, ['200', '400']],
    ['garbage after two', `${asked}${asked}garbage garbage\r\n\r\n`, ['200', '200', '400']],
    [
      'a body that was not announced',
      'GET /slow HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n{"a":1}\r\n\r\n',
      ['200', '400'],
    ],
  ])('are refused after the answer: %s', async (_name, bytes, expected) => {
    const surfaces = await startSurfaceFixture({
      operations: [slow(() => new Promise((resolve) => setTimeout(resolve, 100, 'late')))],
    });
    const raw = await sendRaw(surfaces.clientAddress, bytes, 5_000);
    expect(statuses(raw)).toEqual(expected);
    expect(raw.indexOf('MALFORMED_REQUEST')).toBeGreaterThan(raw.lastIndexOf('late'));
    await surfaces.close();
  });

  it('end a connection whose client has gone', async () => {
    const begun = Promise.withResolvers<void>();
    const surfaces = await startSurfaceFixture({
      operations: [
        slow(({ signal }) => {
          begun.resolve();
          return new Promise((_, reject) => {
            signal.addEventListener('abort', () => reject(new Error('gone')));
          });
        }),
      ],
      graceMs: 10_000,
    });
    const { port, hostname } = new URL(surfaces.clientAddress);
    const client = connect(Number(port), hostname);
    client.on('error', () => undefined).write(`${asked}garbage\r\n\r\n`);
    await begun.promise;
    client.destroy();
    await surfaces.close();
  });
});

it('begins another protocol only when earlier requests have their answers', async () => {
  const server = createHttpServer((_request, response) => {
    setTimeout(() => response.end('first'), 100);
  });
  const upgraded: string[] = [];
  server.mount({
    owns: (url) => url === '/socket',
    request: (_request, response) => response.end('no socket'),
    upgrade(request, socket) {
      upgraded.push(request.url ?? '');
      socket.end('HTTP/1.1 101 Switching Protocols\r\n\r\n');
    },
  });
  const address = await server.listen({ port: 0, host: '127.0.0.1', portVariable: 'PORT' });
  const upgrade =
    'GET /socket HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n';
  const raw = await sendRaw(address, `GET /slow HTTP/1.1\r\nHost: x\r\n\r\n${upgrade}`, 500);
  expect(raw.match(/first|no socket|101/g)).toEqual(['first', 'no socket']);
  expect(await sendRaw(address, upgrade, 500)).toContain('101');
  expect(upgraded).toEqual(['/socket']);
  await server.close({ gentle: false, cutWhen: Promise.resolve() });
});

it('says that it is no proxy', async () => {
  const surfaces = await startSurfaceFixture({ operations: [] });
  const raw = await sendRaw(
    surfaces.clientAddress,
    'CONNECT 127.0.0.1:22 HTTP/1.1\r\nHost: x\r\n\r\n',
  );
  expect(raw).toMatch(/^HTTP\/1\.1 405 [\s\S]*"code":"METHOD_NOT_ALLOWED"/);
  await surfaces.close();
});

it('listens on every address of localhost', async () => {
  const server = createHttpServer((_request, response) => response.end('here'));
  const first = await server.listen({ port: 0, host: 'localhost', portVariable: 'PORT' });
  const { port } = new URL(first);
  for (const { address, family } of await lookup('localhost', { all: true })) {
    const host = family === 6 ? `[${address}]` : address;
    expect(await (await fetch(`http://${host}:${port}/`)).text()).toBe('here');
  }
  await server.close({ gentle: false, cutWhen: Promise.resolve() });
  await expect(fetch(first)).rejects.toThrow();
});

it('outlives a connection that breaks while its new owner still decides', async () => {
  const server = createHttpServer((_request, response) => response.end());
  const taken = Promise.withResolvers<Duplex>();
  server.mount({ owns: () => true, upgrade: (_request, socket) => taken.resolve(socket) });
  const { port, hostname } = new URL(
    await server.listen({ port: 0, host: '127.0.0.1', portVariable: 'PORT' }),
  );
  const client = connect(Number(port), hostname);
  await once(client, 'connect');
  client.write('GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n');
  const socket = await taken.promise;
  // As a reset says it: where nobody listens it is thrown, and ends the process.
  socket.emit('error', new Error('read ECONNRESET'));
  expect(socket.destroyed).toBe(true);
  client.destroy();
  await server.close({ gentle: false, cutWhen: Promise.resolve() });
});
