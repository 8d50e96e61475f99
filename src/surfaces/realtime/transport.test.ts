import { once } from 'node:events';
import { type AddressInfo, connect as dial } from 'node:net';
import type { Duplex } from 'node:stream';
import { expect, it } from 'vitest';
import { createPlainServer } from './transport.ts';

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
