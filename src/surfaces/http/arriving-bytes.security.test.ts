/** Bodies that stop right before their end: https://cwe.mitre.org/data/definitions/770.html (memory for each, bounded for none). */
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import Type from 'typebox';
import { expect, test } from 'vitest';
import { startSurfaceFixture } from '../../../test/support/surface-fixture.ts';
import { defineOperation } from '../../kernel/operations/operation.ts';
import { ArrivingBytes } from './arriving-bytes.ts';

const bounds = { ofAddress: 10, ofAll: 15 };

test('one address may have so much on its way, all of them together so much, and what ended counts no more', () => {
  const held = new ArrivingBytes(bounds);
  expect(held.take('a', 10)).toBeUndefined();
  expect(held.take('a', 1)).toMatchObject({ status: 429, retryAfter: 1 });
  held.giveBack('a', 1);
  expect(held.take('b', 5)).toBeUndefined();
  expect(held.take('c', 1)).toMatchObject({ status: 503, retryAfter: 1 });
  held.giveBack('c', 1);
  held.giveBack('a', 10);
  expect(held.take('c', 10)).toBeUndefined();
});

test('the addresses of one IPv6 network are one', () => {
  const held = new ArrivingBytes(bounds);
  expect(held.take('2001:db8::1', 6)).toBeUndefined();
  expect(held.take('2001:db8::2', 6)).toMatchObject({ status: 429 });
});

const MEGABYTE = 1_048_576;
const echo = defineOperation({
  ...{ id: 'example.length', surface: 'client', method: 'POST', path: '/length', access: 'public' },
  ...{ limit: 'standard', summary: 'Example', bodyLimit: 2 * MEGABYTE },
  input: { body: Type.Object({ text: Type.String() }) },
  output: Type.Object({ length: Type.Integer() }),
  handler: (_context, { body }) => ({ length: body.text.length }),
});

test('whoever lets many bodies wait for their end is refused, and answered when they go on', async () => {
  const surfaces = await startSurfaceFixture({ operations: [echo] });
  const { hostname, port } = new URL(surfaces.clientAddress);
  const text = 'x'.repeat(1.5 * MEGABYTE);
  const body = JSON.stringify({ text });
  const head = `POST /length HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n`;
  const almost = async (): Promise<Socket> => {
    const socket = connect(Number(port), hostname).on('error', () => undefined);
    socket.write(head);
    await new Promise((resolve) => socket.write(body.slice(0, -1), resolve));
    return socket;
  };
  const sockets: Socket[] = [];
  try {
    for (let i = 0; i < 48; i += 1) sockets.push(await almost());
    const [refused] = (await Promise.race(sockets.map((one) => once(one, 'data')))) as [Buffer];
    expect(String(refused)).toMatch(/^HTTP\/1\.1 429 /);
    const [first] = sockets;
    first?.write('}');
    expect(String(await once(first as Socket, 'data'))).toMatch(/^HTTP\/1\.1 200 /);
    for (const socket of sockets) socket.destroy();
    const { status } = await surfaces.client('/length', {
      ...{ method: 'POST', body, headers: { 'content-type': 'application/json' } },
    });
    expect(status).toBe(200);
  } finally {
    for (const socket of sockets) socket.destroy();
    await surfaces.close();
  }
});
