/** Clients of earlier versions, and of none: the events of the interface, by socket.io-client 4.0 and 4.5 and by frames. */
import { io as newest } from 'socket.io-client';
// @ts-expect-error its package does not lead to its types
import { io as io40 } from 'socket.io-client-4.0';
import { io as io45 } from 'socket.io-client-4.5';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import type { Json } from '../../test/support/api.ts';
import type { TestUser } from '../../test/support/node.ts';
import { createTestPlatform, type TestPlatform } from '../../test/support/platform.ts';
import { waitFor } from '../../test/support/wait-for.ts';
import { makeRoom } from '../chat/clients.ts';

describe('clients of the interface', () => {
  let platform: TestPlatform;
  let ann: TestUser;
  let bob: TestUser;
  const open: { close(): void }[] = [];

  beforeAll(async () => {
    platform = await createTestPlatform();
    [ann, bob] = await Promise.all([platform.registerUser(), platform.registerUser()]);
  });
  afterEach(() => {
    for (const one of open.splice(0)) one.close();
  });
  afterAll(() => platform?.close());

  const clients = [
    ['4.0', io40 as unknown as typeof newest],
    ['4.5', io45 as unknown as typeof newest],
    ['the newest', newest],
  ] as const;

  it.each(clients)('run chat and notices: socket.io-client %s', async (_version, io) => {
    const room = await makeRoom(ann, [bob]);
    const connect = (user: TestUser, headers: boolean) => {
      const socket = io(`${platform.addresses.realtime}/chat/`, {
        path: '/realtime',
        forceNew: true,
        ...(headers
          ? { extraHeaders: { authorization: `Bearer ${user.accessToken}` } }
          : { auth: { token: user.accessToken } }),
      });
      open.push(socket);
      const messages: Json[] = [];
      socket.on('message', (message: Json) => messages.push(message));
      return { socket, messages };
    };
    const [a, b] = [connect(ann, true), connect(bob, false)];
    await waitFor(() => a.socket.connected && b.socket.connected);
    a.socket.emit('connectToRoom', room);
    a.socket.emit('message', room, 'plain text');
    await waitFor(() => b.messages.length === 1 && a.messages.length === 1);
    const ack = await new Promise<Json>((resolve) =>
      b.socket.emit('message', room, { contentType: 'text', content: 'object' }, resolve),
    );
    expect(ack).toMatchObject({ ok: true, seq: 2 });
    await waitFor(() => a.messages.length === 2);
    expect(b.messages[0]).toMatchObject({
      content: 'plain text',
      contentType: 'text',
      room,
      sender: ann.userId,
    });
    const read = new Promise<Json>((resolve) => a.socket.on('messagesRead', resolve));
    b.socket.emit('messagesRead', room);
    expect(await read).toMatchObject({ room, readBy: bob.userId });
  });

  /** A WebSocket that keeps what arrives and answers pings, as section 3.1 of the chat describes them. */
  const raw = async (path = '/realtime/?EIO=4&transport=websocket') => {
    const socket = new WebSocket(`${platform.addresses.realtime?.replace('http', 'ws')}${path}`);
    open.push(socket);
    const frames: string[] = [];
    socket.addEventListener('message', ({ data }) => {
      if (data === '2') socket.send('3');
      else frames.push(String(data));
    });
    await waitFor(() => frames.length === 1);
    const heard = async (prefix: string): Promise<string> => {
      await waitFor(() => frames.some((frame) => frame.startsWith(prefix)));
      return frames.find((frame) => frame.startsWith(prefix))?.slice(prefix.length) ?? '';
    };
    return { socket, frames, heard };
  };

  it.each(['/chat/', '/chat'])('run chat by frames, in the namespace %s', async (namespace) => {
    const room = await makeRoom(ann, [bob]);
    const { socket, frames, heard } = await raw();
    expect(JSON.parse(frames[0]?.slice(1) ?? '')).toMatchObject({
      pingInterval: 25_000,
      pingTimeout: 20_000,
      maxPayload: 1_000_000,
    });
    socket.send(`40${namespace},${JSON.stringify({ token: ann.accessToken })}`);
    expect(JSON.parse(await heard(`40${namespace},`))).toHaveProperty('sid');
    socket.send(`42${namespace},${JSON.stringify(['message', room, 'hi'])}`);
    expect(JSON.parse(await heard(`42${namespace},`))).toMatchObject([
      'message',
      { content: 'hi', room },
    ]);
    socket.send(`42${namespace},7${JSON.stringify(['message', room, 'again'])}`);
    expect(JSON.parse(await heard(`43${namespace},7`))).toMatchObject([{ ok: true, seq: 2 }]);
  });

  it('refuse by frames, with a reason', async () => {
    const { socket, heard } = await raw();
    socket.send('40/chat/,{"token":"wrong"}');
    expect(JSON.parse(await heard('44/chat/,'))).toMatchObject({ data: { status: 401 } });
  });

  it.each([
    ['no frame at all', 'x'],
    ['a broken packet', '42/chat/,{"a'],
    ['an ack of nothing', '43/chat/,99[1]'],
    ['binary that never comes', '451-/chat/,["message",{"_placeholder":true,"num":0}]'],
    ['a frame that is too large', `42/chat/,["message","${'x'.repeat(1_100_000)}"]`],
  ])('cost a connection at most: %s', async (_what, frame) => {
    const { socket, heard } = await raw();
    socket.send(`40/chat/,${JSON.stringify({ token: ann.accessToken })}`);
    await heard('40/chat/,');
    socket.send(frame);
    const other = await raw();
    other.socket.send(`40/chat/,${JSON.stringify({ token: ann.accessToken })}`);
    expect(JSON.parse(await other.heard('40/chat/,'))).toHaveProperty('sid');
  });
});
