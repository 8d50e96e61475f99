import { createServer, type Server as HttpServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Server } from 'socket.io';
import { io as connect, type Socket } from 'socket.io-client';
import { afterAll, beforeAll, expect, it, vi } from 'vitest';
import { waitFor } from '../../../test/support/wait-for.ts';
import { gatherPackets } from './packet-writes.ts';

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

it('gives all sockets the same piece of memory for what goes to all of them', async () => {
  const all = [await open('websocket'), await open('websocket'), await open('websocket')];
  for (const size of [10, 100_000]) {
    const writes = all.map(({ own }) => {
      const { socket } = own.conn.transport as unknown as OpenTransport;
      return vi.spyOn(socket._socket, '_write').mockClear();
    });
    const texts: string[] = [];
    for (const { client } of all) client.once('shared', (text: string) => texts.push(text));
    server.emit('shared', 'x'.repeat(size));
    await waitFor(() => texts.length === all.length);
    expect(texts).toEqual(all.map(() => 'x'.repeat(size)));
    const pieces = writes.map(({ mock }) => mock.calls.map(([piece]) => piece));
    expect(pieces.map((one) => one.length)).toEqual([1, 1, 1]);
    expect(new Set(pieces.flat()).size).toBe(1);
  }
});

it('frames texts and bytes of every length', async () => {
  const { client, own } = await open('websocket');
  const heard: (readonly [number, string])[] = [];
  client.on('sized', (text: string, bytes: Buffer) => heard.push([text.length, bytes.toString()]));
  // A frame says its length in 7, 16 or 64 bits; the event takes 14 characters beside the text.
  const lengths = [0, 1, 110, 111, 112, 113, 300, 65_520, 65_521, 65_522, 65_523, 80_000];
  for (const length of lengths) own.emit('sized', 'a'.repeat(length), Buffer.from('é'.repeat(90)));
  for (const length of lengths) {
    own.emit('alone', 'a'.repeat(length));
    client.once('alone', (text: string) => heard.push([text.length, '']));
    await waitFor(() => heard.at(-1)?.[1] === '' && heard.at(-1)?.[0] === length);
  }
  expect(heard).toEqual([
    ...lengths.map((length) => [length, 'é'.repeat(90)]),
    ...lengths.map((length) => [length, '']),
  ]);
});

it('frames bytes in whatever they are kept', async () => {
  const { client, own } = await open('websocket');
  const heard: string[] = [];
  client.on('kept', (bytes: Buffer) => heard.push(bytes.toString()));
  const whole = new TextEncoder().encode('[bytes]');
  const part = new Uint8Array(whole.buffer, 1, 5);
  const view = new DataView(whole.buffer, 1, 5);
  for (const bytes of [part, view, part.slice().buffer, new Uint8Array(40_000).fill(97)])
    own.emit('kept', bytes);
  await waitFor(() => heard.length === 4);
  expect(heard).toEqual(['bytes', 'bytes', 'bytes', 'a'.repeat(40_000)]);
});

it('says the last word to who is closed while they change to a WebSocket', async () => {
  const address = `127.0.0.1:${(http.address() as AddressInfo).port}/socket.io/?EIO=4`;
  const opened = await (await fetch(`http://${address}&transport=polling`)).text();
  const { sid } = JSON.parse(opened.slice(1)) as { readonly sid: string };
  const { clients: sessions } = server.engine as unknown as {
    readonly clients: Readonly<Record<string, { send(text: string): void; close(): void }>>;
  };
  const socket = new WebSocket(`ws://${address}&transport=websocket&sid=${sid}`);
  const heard: unknown[] = [];
  socket.onmessage = ({ data }) => void heard.push(data);
  await waitFor(() => socket.readyState === WebSocket.OPEN);
  socket.send('2probe');
  await waitFor(() => heard.includes('3probe'));
  sessions[sid]?.send('last');
  sessions[sid]?.close();
  socket.send('5');
  await waitFor(() => socket.readyState === WebSocket.CLOSED);
  expect(heard).toEqual(['3probe', '4last']);
});

it('answers polling clients, and says the last word to who is closed', async () => {
  const { client, heard, own } = await open('polling');
  for (let n = 0; n < 50; n += 1) own.emit('n', n);
  own.disconnect(true);
  await waitFor(() => !client.connected);
  expect(heard).toHaveLength(50);
});
