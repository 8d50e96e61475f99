import { createServer, type Server as HttpServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Server } from 'socket.io';
import { io as connect, type Socket } from 'socket.io-client';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { waitFor } from '../../../test/support/wait-for.ts';
import { gatherPackets } from './packet-writes.ts';
import { createStopping, spreadOf } from './stopping.ts';

let http: HttpServer;
let server: Server;
const clients: Socket[] = [];

beforeAll(async () => {
  http = createServer();
  server = new Server(http);
  gatherPackets(server);
  server.of('/other');
  await new Promise<void>((resolve) => http.listen(0, '127.0.0.1', resolve));
});
afterAll(async () => {
  for (const client of clients) client.close();
  await server.close();
});

it('gives many connections more time than few, and never more than a minute', () => {
  expect([1, 500, 5_000, 1_000_000].map(spreadOf)).toEqual([1_000, 1_000, 10_000, 60_000]);
});

it('tells each connection once and at one time, and closes all of them within the pause', async () => {
  const origin = `http://127.0.0.1:${(http.address() as AddressInfo).port}`;
  const heard: [string, number][] = [];
  const reasons: string[] = [];
  for (let n = 0; n < 10; n += 1) {
    const manager = connect(origin, {
      transports: ['websocket'],
      reconnection: false,
      forceNew: true,
    });
    for (const socket of [manager, manager.io.socket('/other')]) {
      clients.push(socket);
      socket.on('server-stopping', ({ reconnectInMs }) => heard.push([`${n}`, reconnectInMs]));
      socket.on('disconnect', (reason) => reasons.push(reason));
      socket.connect();
    }
  }
  await waitFor(() => clients.every(({ connected }) => connected));
  const stopping = createStopping(server);
  await stopping.drain(300);
  stopping.tell();
  await waitFor(() => reasons.length === 20);
  expect(new Set(reasons)).toEqual(new Set(['transport close']));
  expect(heard).toHaveLength(20);
  const times = new Map(heard);
  // Both namespaces of a connection, and ten connections that are not told the same.
  for (const [n, ms] of heard) expect(times.get(n)).toBe(ms);
  expect(new Set(times.values()).size).toBeGreaterThan(1);
});
