/** What no client of the library sends: packets that are made to exhaust the server (CWE-400, CWE-770, CWE-1284). */
import { once } from 'node:events';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { WebSocket } from 'ws';
import { type Api, createApi, type Json } from '../../test/support/api.ts';
import { freePort } from '../../test/support/free-port.ts';
import { expectStatus, type TestUser } from '../../test/support/node.ts';
import { liftLimits } from '../../test/support/permissions.ts';
import { createTestPlatform, type TestPlatform } from '../../test/support/platform.ts';
import { waitFor } from '../../test/support/wait-for.ts';
import {
  type ChatClient,
  closeClients,
  configure,
  connectChat,
  makeRoom,
} from '../chat/clients.ts';

describe('hostile frames', () => {
  let platform: TestPlatform;
  let metrics: Api;
  let user: TestUser;
  let other: TestUser;
  let room: string;
  let witness: ChatClient;
  const raw: WebSocket[] = [];

  beforeAll(async () => {
    const port = await freePort();
    platform = await createTestPlatform({ env: { METRICS_PORT: String(port) } });
    metrics = createApi(`http://127.0.0.1:${port}`);
    await liftLimits(platform.admin);
    // What is refused here is not what the budget of an address refuses.
    const realtime = { connectionsPer10s: 100_000 };
    expectStatus(
      await platform.admin.patch('/config/router', { config: { realtime } }),
      200,
      'router',
    );
    await configure(platform, { rateLimit: { messagesPer10s: 10_000 } });
    [user, other] = [await platform.registerUser(), await platform.registerUser()];
    room = await makeRoom(user, [other]);
  });
  afterEach(async () => {
    for (const socket of raw.splice(0)) socket.terminate();
    // Whatever was sent: somebody else is served, and nothing is left of who sent it.
    witness = await connectChat(platform, other);
    expect(await witness.ask('message', room, 'still here')).toMatchObject({ ok: true });
    closeClients();
    for (const name of [
      'realtime_sockets',
      'realtime_subscriptions',
      'realtime_live_listeners',
      'chat_connected_sockets',
    ])
      await waitFor(async () => (await gauge(name)) === 0, { what: `${name} to be 0` });
  });
  afterAll(() => platform?.close());

  const gauge = async (name: string): Promise<number> => {
    const { text } = await metrics.get('/metrics');
    const line = text.split('\n').find((one) => one.includes(name) && !one.startsWith('#'));
    return Number(line?.split(' ').at(-1));
  };

  /** A transport, in no namespace yet. */
  async function openRaw() {
    const address = platform.addresses.realtime?.replace('http', 'ws');
    const socket = new WebSocket(`${address}/realtime/?EIO=4&transport=websocket`, {
      perMessageDeflate: false,
    });
    raw.push(socket);
    const frames: string[] = [];
    let bytes = 0;
    socket.on('message', (data: Buffer) => {
      bytes += data.length;
      frames.push(data.subarray(0, 400).toString());
    });
    await once(socket, 'open');
    return {
      socket,
      frames,
      bytes: () => bytes,
      has: (text: string) => frames.some((frame) => frame.includes(text)),
      closed: () => waitFor(() => socket.readyState === WebSocket.CLOSED),
    };
  }

  async function openChat() {
    const opened = await openRaw();
    opened.socket.send(`40/chat/,${JSON.stringify({ token: user.accessToken })}`);
    await waitFor(() => opened.has('40/chat/,'));
    return opened;
  }

  it.each([
    ['an event', '42/chat/,'],
    ['an event with an acknowledgement', '42/chat/,7'],
    ['an acknowledgement', '43/chat/,7'],
  ])('%s of more arguments than the stack holds ends the connection alone', async (_name, head) => {
    const { socket, closed } = await openChat();
    socket.send(`${head}["message"${',1'.repeat(490_000)}]`);
    await closed();
  });

  it('an event of many arguments is refused in its acknowledgement', async () => {
    const { socket, frames, has } = await openChat();
    socket.send(`42/chat/,7["message"${',1'.repeat(200)}]`);
    await waitFor(() => has('43/chat/,7'));
    expect(frames.find((frame) => frame.startsWith('43/chat/,7'))).toContain('"status":400');
    expect(socket.readyState).toBe(WebSocket.OPEN);
  });

  it('levels that exhaust the stack are refused in the acknowledgement', async () => {
    const { socket, frames, has } = await openChat();
    const levels = 200_000;
    socket.send(`42/chat/,8["message","${room}",${'['.repeat(levels)}${']'.repeat(levels)}]`);
    await waitFor(() => has('43/chat/,8'));
    expect(frames.find((frame) => frame.startsWith('43/chat/,8'))).toContain('"status":400');
  });

  it('attachments are bounded in number and in bytes, and are no message', async () => {
    const placed = '"message","x",{"_placeholder":true,"num":0}';
    for (const head of ['45999999-/chat/,', '450-/chat/,', '45-1-/chat/,', '451e9-/chat/,']) {
      const { socket, closed } = await openChat();
      socket.send(`${head}[${placed}]`);
      await closed();
    }
    const many = await openChat();
    many.socket.send(`4510-/chat/,[${placed}]`);
    for (let n = 0; n < 3; n += 1) many.socket.send(Buffer.alloc(400_000));
    await many.closed();
    const orphan = await openChat();
    orphan.socket.send(Buffer.alloc(10));
    await orphan.closed();
    const { socket, frames, has } = await openChat();
    socket.send(`451-/chat/,9["message","${room}",{"_placeholder":true,"num":0}]`);
    socket.send(Buffer.alloc(100));
    await waitFor(() => has('43/chat/,9'));
    expect(frames.find((frame) => frame.startsWith('43/chat/,9'))).toContain('"status":400');
  });

  it('a connection that asks again and again to be let in is ended', async () => {
    const { socket, closed } = await openRaw();
    for (let n = 0; n < 300; n += 1) socket.send(`40/chat${n % 2 ? '' : '/'},{"token":"none"}`);
    await closed();
  });

  it('a payload of polling that holds thousands of packets is no way around it', async () => {
    const url = `${platform.addresses.realtime}/realtime/?EIO=4&transport=polling`;
    const { sid } = JSON.parse((await (await fetch(url)).text()).slice(1)) as Json;
    const send = (body: string) => fetch(`${url}&sid=${sid}`, { method: 'POST', body });
    expect((await send(Array.from({ length: 300 }, () => '40/chat/,{}').join('\x1e'))).status).toBe(
      200,
    );
    // What was answered is there to be read; then the session is none any more.
    await waitFor(async () => (await fetch(`${url}&sid=${sid}`)).status === 400);
    expect((await fetch(`${url}&sid=forged`)).status).toBe(400);
  });

  it('answers are not kept for who does not read them', async () => {
    for (let n = 0; n < 20; n += 1)
      await other.api.post(`/chat/rooms/${room}/messages`, {
        contentType: 'text',
        content: 'x'.repeat(8_000),
      });
    const reader = await openChat();
    reader.socket.pause();
    const before = await gauge('realtime_slow_readers_total');
    let asked = 0;
    await waitFor(
      async () => {
        for (let n = 0; n < 40; n += 1)
          reader.socket.send(`42/chat/,${asked++}["sync",{"roomId":"${room}","afterSeq":0}]`);
        return (await gauge('realtime_slow_readers_total')) > before;
      },
      { timeoutMs: 15_000 },
    );
    reader.socket.resume();
    await reader.closed();
    expect(reader.has('CONSUMER_TOO_SLOW')).toBe(true);
  });
});
