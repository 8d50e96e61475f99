/** Clients that ask for much and read nothing, so that answers pile up: https://cwe.mitre.org/data/definitions/400.html (slow read). */
import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { Exchange } from './exchange.ts';
import { STALL_MS } from './streams.ts';

let server: Server;
let client: Socket;
beforeEach(async () => {
  server = createServer({ keepAliveTimeout: 1_234 });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  client = connect((server.address() as AddressInfo).port, '127.0.0.1');
});
afterEach(() => {
  client.destroy();
  server.closeAllConnections();
  server.close();
});

/** Sends a body to a client that reads nothing. Answers the connection, and when the answer is out. */
async function answerWith(
  body: string,
): Promise<{ readonly socket: Socket; readonly out: Promise<unknown> }> {
  client.pause().write('GET / HTTP/1.1\r\nHost: x\r\n\r\n');
  const [request, response] = (await once(server, 'request')) as [IncomingMessage, ServerResponse];
  const out = once(response, 'finish');
  const exchange = new Exchange({
    surface: 'client',
    request,
    response,
    url: '/',
    address: '127.0.0.1',
  });
  exchange.send([], { status: 200, headers: {}, body, json: true });
  return { socket: request.socket, out };
}

test('a client that does not read its answer is given up after a while', async () => {
  const { socket, out } = await answerWith(`"${'x'.repeat(50_000_000)}"`);
  expect(socket.timeout).toBe(STALL_MS);
  // Who reads on has all the time of an idle connection afterwards.
  client.resume();
  await out;
  expect(socket.timeout).toBeGreaterThanOrEqual(1_234);
  expect(socket.timeout).toBeLessThan(STALL_MS);
});

test('an answer that the network takes at once needs no such care', async () => {
  const { socket, out } = await answerWith('"x"');
  expect(socket.timeout ?? 0).toBe(0);
  await out;
});

test('Node destroys a connection whose time is over, and nobody else listens for that', async () => {
  const { socket } = await answerWith(`"${'x'.repeat(50_000_000)}"`);
  const closed = once(socket, 'close');
  socket.setTimeout(1);
  await closed;
});
