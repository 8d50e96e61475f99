/** Clients that send what they upload slowly, and keep places meanwhile: https://cwe.mitre.org/data/definitions/400.html (slow body). */
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { type SurfaceFixture, startSurfaceFixture } from '../../../test/support/surface-fixture.ts';
import { waitFor } from '../../../test/support/wait-for.ts';
import { anyType, defineOperation, TextResult } from '../../kernel/operations/operation.ts';
import { wholeBody } from '../../kernel/operations/operation-input.ts';
import { defaultRequestSettings } from '../../kernel/pipeline/request-limits.ts';
import { onAccount } from '../../kernel/request-account/request-account.ts';

/** Places of one caller, which are all that there are. */
const PLACES = 3;

let surfaces: SurfaceFixture;
let begun = 0;
const uploads: Socket[] = [];

const facts = {
  surface: 'client',
  access: 'public',
  limit: 'standard',
  idempotency: false,
  summary: 'Example',
  output: TextResult,
} as const;
const operations = [
  defineOperation({
    ...facts,
    id: 'example.ping',
    method: 'GET',
    path: '/ping',
    input: {},
    handler: () => 'pong',
  }),
  defineOperation({
    ...facts,
    id: 'example.upload',
    method: 'POST',
    path: '/upload',
    bodyLimit: 1_000,
    input: { stream: { contentTypes: [anyType], description: 'Bytes.' } },
    async handler(_context, { stream }) {
      begun += 1;
      let size = 0;
      for await (const piece of stream) size += piece.length;
      return String(size);
    },
  }),
  defineOperation({
    ...facts,
    id: 'example.keep',
    method: 'POST',
    path: '/keep',
    bodyLimit: 50_000_000,
    input: { stream: { contentTypes: [anyType], description: 'Bytes.', inMemory: true } },
    handler: async (_context, { stream }) => String((await wholeBody(stream)).length),
  }),
];

beforeEach(async () => {
  begun = 0;
  surfaces = await startSurfaceFixture({
    operations,
    requests: () => settings,
  });
});
afterEach(async () => {
  for (const socket of uploads.splice(0)) socket.destroy();
  await surfaces.close();
});

const settings = {
  ...defaultRequestSettings,
  ...{ callsAtOnce: PLACES, callsPerCaller: PLACES, maxWaitMs: 50 },
};

/** Announces more than it sends. Answers when the handler waits for the rest. */
async function uploadSlowly(): Promise<Socket> {
  const { hostname, port } = new URL(surfaces.clientAddress);
  const socket = connect(Number(port), hostname);
  uploads.push(socket);
  const before = begun;
  socket.write(
    'POST /upload HTTP/1.1\r\nHost: x\r\ncontent-type: text/plain\r\ncontent-length: 4\r\n\r\nab',
  );
  while (begun === before) await sleep(1);
  return socket;
}

test('whoever sends slowly keeps nobody else waiting, and is bounded among those who do the same', async () => {
  for (let i = 0; i < PLACES; i += 1) await uploadSlowly();
  expect((await surfaces.client('/ping')).status).toBe(200);
  const more = await surfaces.client('/upload', {
    method: 'POST',
    headers: { 'content-type': 'text/plain' },
    body: 'abcd',
  });
  expect([more.status, more.headers.get('retry-after')]).toEqual([429, '1']);

  const [first] = uploads;
  first?.write('cd');
  expect(String(await once(first as Socket, 'data'))).toContain('{"result":"4"}');
  await uploadSlowly();
});

test('a request of a protocol that never answers has its time, and keeps its place no longer', async () => {
  const { pipeline } = surfaces;
  const account = pipeline.accounts.openFor('client');
  account.giveUp();
  const asked = onAccount(account, () => pipeline.inTime(new Promise(() => undefined)));
  await expect(asked).rejects.toMatchObject({ status: 504 });
});

test('bodies that are kept whole count among those of their address that are on their way', async () => {
  const announced = 40_000_000;
  const send = (bytes: number): Promise<string> => {
    const socket = connect(Number(new URL(surfaces.clientAddress).port), '127.0.0.1');
    uploads.push(socket);
    // Who is refused may be told so while the rest of the body is still written.
    socket.on('error', () => undefined);
    const answered = new Promise<string>((resolve) => {
      socket.once('data', (answer) => resolve(String(answer).slice(0, 12)));
    });
    socket.write(`POST /keep HTTP/1.1\r\nHost: x\r\nContent-Length: ${announced}\r\n\r\n`);
    socket.write(Buffer.alloc(bytes));
    return answered;
  };
  // One stops right before its end, and the other one would be too much beside it.
  const waiting = send(announced - 1);
  expect(await Promise.race([waiting, send(announced - 1)])).toBe('HTTP/1.1 429');
  for (const socket of uploads.splice(0)) socket.destroy();
  await waitFor(async () => (await send(announced)) === 'HTTP/1.1 200' || undefined);
});
