/** Who gets a socket, how long it lives, and what frames do to it: specification chat.md 3.1, 3.2 and 9. */

import { randomBytes } from 'node:crypto';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import type { Json } from '../../test/support/api.ts';
import type { TestUser } from '../../test/support/node.ts';
import { createTestPlatform, type TestPlatform } from '../../test/support/platform.ts';
import { waitFor } from '../../test/support/wait-for.ts';
import {
  closeClients,
  configure,
  connectChat,
  makeRoom,
  openSocket,
  refusalOf,
} from './clients.ts';

describe('sockets of chat', () => {
  let platform: TestPlatform;
  let ann: TestUser;
  let bob: TestUser;
  const raw: WebSocket[] = [];

  beforeAll(async () => {
    platform = await createTestPlatform();
    [ann, bob] = await Promise.all([platform.registerUser(), platform.registerUser()]);
  });
  afterEach(() => {
    closeClients();
    for (const socket of raw.splice(0)) socket.close();
  });
  afterAll(() => platform?.close());

  it.each([
    ['a header', () => ({ extraHeaders: { authorization: `Bearer ${ann.accessToken}` } })],
    ['auth.token', () => ({ auth: { token: ann.accessToken } })],
    ['auth.token with Bearer', () => ({ auth: { token: `Bearer ${ann.accessToken}` } })],
    ['auth.accessToken', () => ({ auth: { accessToken: ann.accessToken } })],
    ['auth.authorization', () => ({ auth: { authorization: `Bearer ${ann.accessToken}` } })],
    ['long polling', () => ({ auth: { token: ann.accessToken }, transports: ['polling'] })],
  ])('open with %s, in both spellings of the namespace', async (_name, options) => {
    for (const namespace of ['/chat/', '/chat']) {
      const socket = openSocket(platform, options(), namespace);
      await waitFor(() => socket.connected);
    }
  });

  it('are refused without a token, with a wrong one and to blocked users', async () => {
    expect(await refusalOf(openSocket(platform, {}))).toMatchObject({ data: { status: 401 } });
    const wrong = openSocket(platform, { auth: { token: `${ann.accessToken}x` } });
    expect(await refusalOf(wrong)).toMatchObject({ data: { status: 401 } });
    const blocked = await platform.registerUser();
    const { socket } = await connectChat(platform, blocked);
    await platform.admin.post(`/authentication/users/${blocked.userId}/block`);
    await waitFor(() => !socket.connected);
    const again = openSocket(platform, { auth: { token: blocked.accessToken } });
    expect((await refusalOf(again)).data?.status).toBeGreaterThanOrEqual(401);
  });

  it('take no text that the database does not take', async () => {
    const { ask } = await connectChat(platform, ann);
    const room = await makeRoom(ann, [bob]);
    for (const text of ['a\0b', '\ud800', 'x'])
      for (const message of [text, { contentType: 'text', content: text }])
        expect(await ask('message', room, message)).toMatchObject(
          text === 'x' ? { ok: true } : { ok: false, error: { status: 400 } },
        );
    const { _id: messageId } = await ask('message', room, 'x');
    expect(await ask('editMessage', { messageId, message: 'a\0b' })).toMatchObject({
      error: { status: 400, errors: [{ path: 'message', rule: 'text' }] },
    });
  });

  it('end with the session, and live on with another token of the same user', async () => {
    const carl = await platform.registerUser();
    const { ask, socket } = await connectChat(platform, carl);
    const other = await platform.login(carl.email, carl.password);
    expect(await ask('authenticate', { token: bob.accessToken })).toMatchObject({
      ok: false,
      error: { code: 'USER_MISMATCH' },
    });
    const refused = await ask('authenticate', { token: `${other.accessToken}x` });
    expect(refused).toMatchObject({ ok: false, error: { status: 401 } });
    for (const token of ['', 7, null, 'x'.repeat(10_000)])
      expect(await ask('authenticate', { token })).toMatchObject({ error: { status: 400 } });
    expect(socket.connected).toBe(true);
    expect(await ask('authenticate', { token: other.accessToken })).toEqual({ ok: true });
    await other.api.post('/authentication/logout');
    await waitFor(() => !socket.connected);
    expect(
      await refusalOf(openSocket(platform, { auth: { token: other.accessToken } })),
    ).toMatchObject({
      data: { status: 401 },
    });
  });

  const connectRaw = async (token: string): Promise<{ socket: WebSocket; frames: string[] }> => {
    const address = platform.addresses.realtime?.replace('http', 'ws');
    const socket = new WebSocket(`${address}/realtime/?EIO=4&transport=websocket`);
    raw.push(socket);
    const frames: string[] = [];
    socket.addEventListener('message', ({ data }) => frames.push(String(data)));
    await waitFor(() => frames.length === 1);
    socket.send(`40/chat/,${JSON.stringify({ token })}`);
    await waitFor(() => frames.length === 2);
    return { socket, frames };
  };

  it('speak the frames of the interface', async () => {
    const room = await makeRoom(ann, [bob]);
    const { socket, frames } = await connectRaw(ann.accessToken);
    expect(JSON.parse(frames[0]!.slice(1))).toMatchObject({
      pingInterval: 25_000,
      pingTimeout: 20_000,
      maxPayload: 1_000_000,
    });
    expect(frames[1]).toMatch(/^40\/chat\/,\{"sid":"[^"]+"/);
    socket.send(`42/chat/,7["message","${room}","hi"]`);
    await waitFor(() => frames.length === 4);
    const told = frames.find((frame) => frame.startsWith('42/chat/,'))!;
    expect(JSON.parse(told.slice('42/chat/,'.length))).toMatchObject([
      'message',
      { sender: ann.userId, contentType: 'text', content: 'hi', room },
    ]);
    const ack = frames.find((frame) => frame.startsWith('43/chat/,7'))!;
    expect(JSON.parse(ack.slice('43/chat/,7'.length))).toMatchObject([{ ok: true, seq: 1 }]);
    const refused = await connectRaw('nothing');
    expect(refused.frames[1]).toMatch(/^44\/chat\/,\{"message":/);
  });

  it('end at a frame that is too large or none, and nobody else feels it', async () => {
    const room = await makeRoom(ann, [bob]);
    const b = await connectChat(platform, bob);
    const frames = [
      `42/chat/,["message","${room}","${'x'.repeat(1_100_000)}"]`,
      '42/chat/,["message"',
      '42/chat/,{}',
      '99999',
      randomBytes(64),
    ];
    for (const frame of frames) {
      const { socket } = await connectRaw(ann.accessToken);
      socket.send(frame);
      await waitFor(() => socket.readyState === WebSocket.CLOSED, {
        what: String(frame).slice(0, 40),
      });
    }
    const a = await connectChat(platform, ann);
    expect(await a.ask('message', room, 'still here')).toMatchObject({ ok: true });
    await waitFor(() => b.of('message').length === 1);
  });

  it('stand hostile arguments', async () => {
    const { ask, socket } = await connectChat(platform, ann);
    const hostile = [
      null,
      1,
      [],
      {},
      '__proto__',
      { roomId: { $ne: null } },
      'x'.repeat(10_000),
      [[[[]]]],
    ];
    const events = [
      'message',
      'messagesRead',
      'sync',
      'react',
      'typing',
      'presenceSubscribe',
      'editMessage',
    ];
    for (const event of events) {
      const answers = await Promise.all(hostile.slice(0, 4).map((one) => ask(event, one, one)));
      for (const answer of answers) expect(answer.error?.status ?? 0, event).toBeLessThan(500);
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
    for (const one of hostile)
      expect((await ask('message', one, one)).error.status).toBeLessThan(500);
    expect(socket.connected).toBe(true);
  });

  it('attach only files that the sender may read, and let members read them', async () => {
    const upload = async (user: TestUser, name: string) =>
      (await user.api.post('/storage/file', { name, data: Buffer.from(name).toString('base64') }))
        .body;
    await platform.admin.patch('/config/storage', { config: { access: { privateRead: 'owner' } } });
    const [own, foreign] = [await upload(ann, 'own.txt'), await upload(bob, 'foreign.txt')];
    const room = await makeRoom(ann, [bob]);
    const a = await connectChat(platform, ann);
    expect(
      await a.ask('message', room, { contentType: 'file', files: [own._id, foreign._id] }),
    ).toMatchObject({ error: { code: 'FILE_REFUSED', errors: [{ path: 'files.1' }] } });
    expect((await bob.api.get(`/storage/file/${own._id}`)).status).toBe(403);
    const { _id } = await a.ask('message', room, { contentType: 'file', files: [own._id] });
    expect((await bob.api.get(`/storage/file/${own._id}`)).status).toBe(200);
    const read = await bob.api.get(`/chat/messages/${_id}`, { query: { populate: 'files' } });
    expect(read.body.files).toMatchObject([{ _id: own._id, name: 'own.txt' }]);
    await ann.api.delete(`/chat/messages/${_id}`);
    expect((await bob.api.get(`/storage/file/${own._id}`)).status).toBe(403);
  });

  it('show of others what is public, and nothing else', async () => {
    const room = await makeRoom(ann, [bob]);
    await ann.api.post(`/chat/rooms/${room}/messages`, { contentType: 'text', content: 'x' });
    const query = { roomId: room, populate: 'senderUser,room' };
    const hidden = await bob.api.get('/chat/messages', { query });
    expect(hidden.text).not.toContain(ann.email);
    expect(hidden.body.messages[0].senderUser).toBe(ann.userId);
    await platform.admin.patch('/config/authentication', {
      config: { profiles: { fields: ['email'] } },
    });
    const listed = await bob.api.get('/chat/messages', { query });
    const shown = { _id: ann.userId, email: ann.email };
    expect(listed.body.messages[0].senderUser).toEqual(shown);
    const populate = 'user';
    const { body } = await bob.api.get(`/chat/rooms/${room}/members`, { query: { populate } });
    expect(body.members.map(({ user }: Json) => user)).toContainEqual(shown);
    await bob.api.put(`/chat/blocks/${ann.userId}`);
    const blocks = await bob.api.get('/chat/blocks', { query: { populate: 'users' } });
    expect(blocks.body).toEqual({ users: [shown] });
    await bob.api.delete(`/chat/blocks/${ann.userId}`);
    const ban = `/chat/rooms/${room}/bans`;
    await ann.api.post(ban, { user: bob.userId });
    const bans = await ann.api.get(ban, { query: { populate: 'user,bannedBy' } });
    expect(bans.body.bans).toMatchObject([
      { user: { _id: bob.userId, email: bob.email }, bannedBy: shown },
    ]);
    await platform.admin.patch('/config/authentication', { config: { profiles: { fields: [] } } });
  });

  it('are gone with the module, and come back with it', async () => {
    const { socket } = await connectChat(platform, ann);
    await configure(platform, { active: false });
    await waitFor(() => !socket.connected);
    expect((await ann.api.get('/chat/rooms')).status).toBe(503);
    expect(
      await refusalOf(openSocket(platform, { auth: { token: ann.accessToken } })),
    ).toMatchObject({
      data: { status: 404 },
    });
    await configure(platform, { active: true });
    await connectChat(platform, ann);
  });
});
