import { once } from 'node:events';
import { createServer, type Server as HttpServer } from 'node:http';
import { type AddressInfo, connect as dial } from 'node:net';
import type { Duplex } from 'node:stream';
import { Server } from 'socket.io';
import { io as connect, type Socket } from 'socket.io-client';
import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import { waitFor } from '../../../test/support/wait-for.ts';
import { createPlainServer, gatherPackets } from './transport.ts';

let http: HttpServer;
let server: Server;
const clients: Socket[] = [];

beforeAll(async () => {
  http = createServer();
  server = new Server(http);
  gatherPackets(server);
  await new Promise<void>((resolve) => http.listen(0, '127.0.0.1', resolve));
});
afterAll(async () => {
  for (const client of clients) client.close();
  await server.close();
});

async function open(transport: 'websocket' | 'polling') {
  const origin = `http://127.0.0.1:${(http.address() as AddressInfo).port}`;
  const client = connect(origin, { transports: [transport], forceNew: true });
  clients.push(client);
  const heard: number[] = [];
  client.on('n', (n: number) => heard.push(n));
  await waitFor(() => client.connected);
  const own = await waitFor(() => server.sockets.sockets.get(client.id ?? ''));
  return { client, heard, own };
}

/** As the transport keeps it; not part of the types. */
interface OpenTransport {
  send(packets: readonly unknown[]): void;
  readonly socket: { readonly _socket: Record<'_write' | '_writev', (...args: unknown[]) => void> };
}

it('writes what a socket is sent in one turn at once, broadcasts and acknowledgements too', async () => {
  const { heard, own } = await open('websocket');
  const transport = own.conn.transport as unknown as OpenTransport;
  const sends = vi.spyOn(transport, 'send');
  const writes = (['_write', '_writev'] as const).map((name) =>
    vi.spyOn(transport.socket._socket, name),
  );
  for (let n = 0; n < 50; n += 1)
    if (n % 2 === 0) own.emit('n', n);
    else server.emit('n', n);
  await waitFor(() => heard.length === 50);
  expect(heard).toEqual(Array.from({ length: 50 }, (_, n) => n));
  expect(sends.mock.calls.map(([packets]) => packets.length)).toEqual([50]);
  expect(writes.map(({ mock }) => mock.calls.length)).toEqual([1, 0]);
});

it('writes large packets together too, as they are', async () => {
  const { heard, own } = await open('websocket');
  const text = 'wörter '.repeat(4_000);
  const texts: string[] = [];
  own.client.conn.transport.on('error', (error: Error) => texts.push(error.message));
  const client = clients.at(-1);
  client?.on('text', (one: string, n: number) => {
    texts.push(one);
    heard.push(n);
  });
  for (let n = 0; n < 4; n += 1)
    if (n % 2 === 0) own.emit('text', text, n);
    else server.emit('text', `${text}${n}`, n);
  await waitFor(() => heard.length === 4);
  expect(heard).toEqual([0, 1, 2, 3]);
  expect(texts).toEqual([text, `${text}1`, text, `${text}3`]);
});

it('answers polling clients, and says the last word to who is closed', async () => {
  const { client, heard, own } = await open('polling');
  for (let n = 0; n < 50; n += 1) own.emit('n', n);
  own.disconnect(true);
  await waitFor(() => !client.connected);
  expect(heard).toHaveLength(50);
});

it('outlives a connection that breaks while it is still asked about', async () => {
  const taken = Promise.withResolvers<Duplex>();
  const plain = createPlainServer({
    owns: () => true,
    request: (_request, response) => response.end(),
    upgrade: (_request, socket) => taken.resolve(socket),
  });
  plain.listen(0, '127.0.0.1');
  await once(plain, 'listening');
  const client = dial((plain.address() as AddressInfo).port, '127.0.0.1');
  await once(client, 'connect');
  client.write('GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n');
  const socket = await taken.promise;
  // Where nobody listens it is thrown, and ends the process.
  socket.emit('error', new Error('read ECONNRESET'));
  expect(socket.destroyed).toBe(true);
  client.destroy();
  plain.close();
});
