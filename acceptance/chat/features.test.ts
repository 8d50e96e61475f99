/** What the specification says of messages, moderation and operators beside the ways of every day (chat.md 2 to 7). */
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
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
  openSocket,
  refusalOf,
} from './clients.ts';

let platform: TestPlatform;
let metrics: Api;
let ann: TestUser;
let bob: TestUser;
let eve: TestUser;
/** Was there, and is not any more: known at the end, as others may come back within ten seconds. */
let gone: TestUser;

beforeAll(async () => {
  const port = await freePort();
  platform = await createTestPlatform({ env: { METRICS_PORT: String(port) } });
  metrics = createApi(`http://127.0.0.1:${port}`);
  await liftLimits(platform.admin);
  await configure(platform, { rateLimit: { messagesPer10s: 10_000, typingPer10s: 1_000 } });
  [ann, bob, eve, gone] = await Promise.all([
    platform.registerUser(),
    platform.registerUser(),
    platform.registerUser(),
    platform.registerUser(),
  ]);
  await makeRoom(ann, [gone]);
  const [a, short] = [await connectChat(platform, ann), await connectChat(platform, gone)];
  await waitFor(async () => (await presenceOf(a)).status === 'online');
  short.close();
  expect((await presenceOf(a)).status).toBe('online');
});
afterEach(closeClients);
afterAll(() => platform?.close());

const presenceOf = async (client: ChatClient): Promise<Json> =>
  (await client.ask('presenceSubscribe', { userIds: [gone.userId] })).users[0];
const say = async (user: TestUser, room: string, content: string): Promise<string> =>
  expectStatus(
    await user.api.post(`/chat/rooms/${room}/messages`, { contentType: 'text', content }),
    200,
    'message',
  ).body._id;
const both = async (room: string): Promise<readonly [ChatClient, ChatClient, string]> => [
  await connectChat(platform, ann),
  await connectChat(platform, bob),
  room,
];

describe('who connects', () => {
  it('is told why not in fixed words', async () => {
    const refused = async (token: string, code: string, message: string) =>
      expect(await refusalOf(openSocket(platform, { auth: { token } }))).toMatchObject({
        message,
        data: { code },
      });
    await refused('nothing', 'TOKEN_INVALID', 'Unauthorized');
    const [header, , signature] = ann.accessToken.split('.');
    const old = Buffer.from(JSON.stringify({ exp: 1_000_000_000 })).toString('base64url');
    await refused(`${header}.${old}.${signature}`, 'TOKEN_INVALID', 'Token expired');
    const dora = await platform.registerUser();
    await platform.admin.post(`/authentication/users/${dora.userId}/block`);
    const blocked = await refusalOf(openSocket(platform, { auth: { token: dora.accessToken } }));
    expect(['User blocked', 'Unauthorized']).toContain(blocked.message);
    expect([401, 403]).toContain(blocked.data?.status);
  });

  it('presents the header first, then `auth.token`, then `auth.authorization`', async () => {
    const extraHeaders = { authorization: `Bearer ${ann.accessToken}` };
    const { socket, ask } = await connectChat(platform, bob, { extraHeaders });
    const room = await makeRoom(ann, [eve]);
    expect(await ask('message', room, 'as ann')).toMatchObject({ ok: true });
    socket.close();
    const auth = { token: bob.accessToken, authorization: `Bearer ${ann.accessToken}` };
    const second = await connectChat(platform, bob, { auth });
    expect(await second.ask('message', room, 'as bob')).toMatchObject({ error: { status: 404 } });
  });

  it('waits for the second factor', async () => {
    const config = { twoFa: { enabled: true, required: true } };
    expectStatus(await platform.admin.patch('/config/authentication', { config }), 200, 'factors');
    const email = `pending-${Date.now()}@example.com`;
    const password = 'Battery-Staple-17';
    await platform.client.post('/authentication/local/new', { email, password });
    const { body } = await platform.client.post('/authentication/local', { email, password });
    await platform.admin.patch('/config/authentication', {
      config: { twoFa: { enabled: false, required: false } },
    });
    const refused = await refusalOf(openSocket(platform, { auth: { token: body.accessToken } }));
    expect(refused).toMatchObject({ message: 'Unauthorized', data: { status: 401 } });
  });
});

describe('messages', () => {
  it('hold what their type says, within the limits that are set', async () => {
    const [a, b, room] = await both(await makeRoom(ann, [bob]));
    const file = async (name: string): Promise<string> =>
      (await ann.api.post('/storage/file', { name, data: Buffer.from(name).toString('base64') }))
        .body._id;
    const files = [await file('one.txt'), await file('two.txt')];
    await configure(platform, { limits: { messageLength: 10, filesPerMessage: 1 } });
    const refused = async (message: object, path: string) =>
      expect(await a.ask('message', room, message), JSON.stringify(message)).toMatchObject({
        error: { status: 400, errors: [{ path }] },
      });
    await refused({ contentType: 'multimedia', content: 'x' }, 'files');
    await refused({ contentType: 'multimedia', files: [files[0]] }, 'content');
    await refused({ contentType: 'file', files }, 'files');
    await refused({ contentType: 'text', content: 'éléments de texte' }, 'content');
    await configure(platform, { limits: { messageLength: 8_000, filesPerMessage: 10 } });
    await a.ask('message', room, { contentType: 'file', files });
    await a.ask('message', room, { contentType: 'multimedia', content: 'look', files });
    await a.ask('message', room, { contentType: 'text', content: 'plain', files: [bob.userId] });
    await waitFor(() => b.of('message').length === 3);
    expect(b.of('message').map(({ files: told = [] }) => told.length)).toEqual([2, 2, 0]);
  });

  it('are stored in the order in which a socket sends them, those with files and mentions too', async () => {
    const [a, b, room] = await both(await makeRoom(ann, [bob]));
    const data = Buffer.from('a photo').toString('base64');
    const { body } = await ann.api.post('/storage/file', { name: 'order.txt', data });
    const acks = await Promise.all(
      [
        { contentType: 'multimedia', content: 'one', files: [body._id] },
        { contentType: 'text', content: 'two', mentions: [bob.userId] },
        { contentType: 'file', files: [bob.userId] },
        'three',
      ].map((message) => a.ask('message', room, message)),
    );
    expect(acks.map(({ seq, error }) => seq ?? error.code)).toEqual([1, 2, 'FILE_REFUSED', 3]);
    await waitFor(() => b.of('message').length === 3);
    expect(b.of('message').map(({ content }) => content)).toEqual(['one', 'two', 'three']);
  });

  it('are heard by who was brought into a room whose id was written in capitals', async () => {
    const [a, , room] = await both(await makeRoom(ann, [bob]));
    const capitals = `/chat/rooms/${room.toUpperCase()}`;
    const e = await connectChat(platform, eve);
    const users = [eve.userId];
    expect((await ann.api.put(`${capitals}/addUsers`, { users })).status).toBe(200);
    await a.ask('message', room, 'welcome');
    expect((await ann.api.patch(capitals, { name: 'Renamed' })).status).toBe(200);
    await waitFor(() => e.of('room-updated').length === 1);
    expect(e.heard.map(({ event, data }) => [event, data.room])).toEqual(
      ['room-joined', 'participants-changed', 'message', 'room-updated'].map((one) => [one, room]),
    );
    const leave = `/chat/leave/${room.toUpperCase()}`;
    expect((await eve.api.put(leave)).status).toBe(200);
    await a.ask('message', room, 'farewell');
    await waitFor(() => a.of('message').length === 2);
    expect(e.of('message').map(({ content }) => content)).toEqual(['welcome']);
  });

  it('are heard where a socket wants them, by the events of the 0.16 line too', async () => {
    const [a, b, room] = await both(await makeRoom(ann, [bob]));
    expect(await b.ask('leave', room)).toEqual({ ok: true });
    await a.ask('message', room, 'unheard');
    expect(await b.ask('join', room)).toEqual({ ok: true });
    await a.ask('message', room, 'heard');
    await waitFor(() => b.of('message').length > 0);
    expect(b.of('message').map(({ content }) => content)).toEqual(['heard']);
    const e = await connectChat(platform, eve);
    for (const event of ['join', 'connectToRoom'])
      expect(await e.ask(event, room)).toMatchObject({ error: { status: 404 } });
    const listed = await bob.api.get(`/chat/rooms/${room}/messages`, { query: { limit: 1 } });
    expect(listed.body).toMatchObject({ count: 2, messages: [{ message: 'heard' }] });
    expect(listed.headers.get('cache-control')).toContain('no-store');
  });

  it('are edited and deleted over sockets as over REST, in their time, with what they said before', async () => {
    const [a, b, room] = await both(await makeRoom(bob, [ann, eve]));
    const { _id } = await a.ask('message', room, 'first');
    await configure(platform, { edits: { keepHistory: true } });
    expect(await a.ask('editMessage', { messageId: _id, message: 'second' })).toEqual({ ok: true });
    expect(await b.ask('editMessage', { messageId: _id, message: 'mine' })).toMatchObject({
      error: { status: 404 },
    });
    await ann.api.patch(`/chat/messages/${_id}`, { newMessage: 'third' });
    const said = [{ message: 'second' }, { message: 'first' }];
    for (const api of [ann.api, bob.api, platform.admin])
      expect((await api.get(`/chat/messages/${_id}/edits`)).body.edits).toMatchObject(said);
    expect((await eve.api.get(`/chat/messages/${_id}/edits`)).body.code).toBe('ROOM_ROLE_REQUIRED');
    await configure(platform, { edits: { keepHistory: false, windowSeconds: 1 } });
    await waitFor(
      async () =>
        (await ann.api.patch(`/chat/messages/${_id}`, { newMessage: 'late' })).body.code ===
        'CHAT_EDIT_EXPIRED',
    );
    await configure(platform, { edits: { windowSeconds: 0 }, allowMessageDelete: false });
    expect(await a.ask('deleteMessage', { messageId: _id })).toMatchObject({
      error: { code: 'CHAT_FEATURE_DISABLED' },
    });
    await configure(platform, { allowMessageDelete: true, allowMessageEdit: false });
    expect(await a.ask('editMessage', { messageId: _id, message: 'x' })).toMatchObject({
      error: { code: 'CHAT_FEATURE_DISABLED' },
    });
    await configure(platform, { allowMessageEdit: true });
    expect(await a.ask('deleteMessage', { messageId: _id })).toEqual({ ok: true });
    await waitFor(() => b.of('message-deleted').length === 1);
    expect((await platform.admin.get(`/chat/messages/${_id}/edits`)).body.edits).toEqual([]);
  });

  it('are read whole again by who left and came back', async () => {
    const room = await makeRoom(ann, [bob]);
    await say(ann, room, 'before');
    await bob.api.put(`/chat/leave/${room}`);
    await say(ann, room, 'meanwhile');
    await ann.api.put(`/chat/rooms/${room}/addUsers`, { users: [bob.userId] });
    const { body } = await bob.api.get('/chat/messages', { query: { roomId: room } });
    expect(body.messages.map(({ message }: Json) => message)).toEqual(['meanwhile', 'before']);
  });

  it('of all rooms are found behind rooms in which nothing is shown', async () => {
    await configure(platform, { history: 'joined' });
    try {
      const dora = await platform.registerUser();
      const [known, late] = [await makeRoom(ann, [dora]), await makeRoom(ann, [bob])];
      await say(ann, known, 'for dora too');
      await say(ann, late, 'before dora came');
      await ann.api.put(`/chat/rooms/${late}/addUsers`, { users: [dora.userId] });
      const { body } = await dora.api.get('/chat/messages', { query: { limit: 1 } });
      expect(body).toMatchObject({ messages: [{ message: 'for dora too' }], count: 1 });
    } finally {
      await configure(platform, { history: 'shared' });
    }
  });

  it('of one socket are counted by kind', async () => {
    const [a, , room] = await both(await makeRoom(ann, [bob]));
    await configure(platform, { rateLimit: { typingPer10s: 2 } });
    const signs = [];
    for (let n = 0; n < 4; n += 1)
      signs.push(await a.ask('typing', { roomId: room, state: 'start' }));
    expect(signs.some(({ error }) => error?.code === 'RATE_LIMIT')).toBe(true);
    expect(await a.ask('message', room, 'still')).toMatchObject({ ok: true });
    await configure(platform, { rateLimit: { typingPer10s: 1_000 } });
  });
});

describe('moderation', () => {
  it('keeps who was banned out, also with an invitation that they had', async () => {
    await configure(platform, { explicit_room_joins: { enabled: true } });
    const room = await makeRoom(ann, [bob, eve]);
    const invitationOf = async (user: TestUser): Promise<string> =>
      (await user.api.get('/chat/invitations/received')).body.invitations.find(
        (one: Json) => one.room === room,
      )?._id;
    const [ofBob, ofEve] = [await invitationOf(bob), await invitationOf(eve)];
    const ban = `/chat/rooms/${room}/bans`;
    expect((await ann.api.post(ban, { user: eve.userId, reason: 'spam' })).status).toBe(200);
    expect((await eve.api.post(`/chat/invitations/${ofEve}/accept`)).status).toBe(404);
    expect(
      (await ann.api.put(`/chat/rooms/${room}/addUsers`, { users: [eve.userId] })).body.code,
    ).toBe('CHAT_USER_NOT_ALLOWED');
    expect((await bob.api.post(`/chat/invitations/${ofBob}/accept`)).status).toBe(200);
    expect((await ann.api.get(ban)).body.bans).toMatchObject([
      { user: eve.userId, reason: 'spam' },
    ]);
    expect((await bob.api.get(ban)).status).toBe(403);
    await configure(platform, { explicit_room_joins: { enabled: false } });
  });

  it('lets nobody write to who has blocked them, in their direct room', async () => {
    const { roomId } = (await ann.api.post('/chat/rooms/direct', { user: eve.userId })).body;
    const a = await connectChat(platform, ann);
    expect(await a.ask('message', roomId, 'hello')).toMatchObject({ ok: true });
    await eve.api.put(`/chat/blocks/${ann.userId}`);
    expect((await eve.api.get('/chat/blocks')).body).toEqual({ users: [ann.userId] });
    expect(await a.ask('message', roomId, 'hello?')).toMatchObject({
      error: { code: 'CHAT_WRITING_DENIED' },
    });
    expect(await a.ask('typing', { roomId, state: 'start' })).toMatchObject({
      error: { code: 'CHAT_WRITING_DENIED' },
    });
    const shared = await makeRoom(bob, [ann, eve]);
    expect(await a.ask('message', shared, 'to both')).toMatchObject({ ok: true });
    expect(await a.ask('typing', { roomId: shared, state: 'start' })).toMatchObject({ ok: true });
    expect((await a.ask('presenceSubscribe', { userIds: [eve.userId] })).users).toEqual([]);
    // Nor do they hear how far the other one has read, and that they write.
    const e = await connectChat(platform, eve);
    const signs = () =>
      [a, e].map(({ heard }) =>
        heard
          .filter(({ event, data }) => /Read|typing/.test(event) && data.room === roomId)
          .map(({ event }) => event),
      );
    const said = () => a.of('message').some(({ content }) => content === 'the end of it');
    const asAnn = async () => {
      const { members } = (await ann.api.get(`/chat/rooms/${roomId}/members`)).body;
      const [message] = (await ann.api.get(`/chat/rooms/${roomId}/messages`)).body.messages;
      const [other] = members.filter(({ user }: { user: string }) => user === eve.userId);
      return { seq: other.lastReadSeq, at: other.lastReadAt, readBy: message.readBy };
    };
    await e.ask('messagesRead', roomId);
    await e.ask('typing', { roomId, state: 'start' });
    expect(await e.ask('message', roomId, 'the end of it')).toMatchObject({ ok: true });
    await waitFor(said);
    expect(signs()).toEqual([[], ['messagesRead', 'typing']]);
    expect(await asAnn()).toEqual({ seq: 0, at: null, readBy: [] });
    await eve.api.delete(`/chat/blocks/${ann.userId}`);
    expect(await a.ask('message', roomId, 'hello again')).toMatchObject({ ok: true });
  });

  it('follows roles: who adds, who changes the room, who gives roles', async () => {
    const room = await makeRoom(ann, [bob]);
    const add = { users: [eve.userId] };
    await configure(platform, { permissions: { addUsers: 'admins' } });
    expect((await bob.api.put(`/chat/rooms/${room}/addUsers`, add)).status).toBe(403);
    expect((await bob.api.patch(`/chat/rooms/${room}`, { name: 'mine' })).status).toBe(403);
    const [, b] = await both(room);
    const roles = `/chat/rooms/${room}/roles`;
    expect((await bob.api.put(roles, { users: [bob.userId], role: 'admin' })).status).toBe(403);
    expect((await ann.api.put(roles, { users: [bob.userId], role: 'admin' })).status).toBe(200);
    await waitFor(() => b.of('roles-changed').length === 1);
    expect((await bob.api.put(`/chat/rooms/${room}/addUsers`, add)).status).toBe(200);
    const metadata = { topic: 'plans' };
    expect(
      (await bob.api.patch(`/chat/rooms/${room}`, { name: 'Ours', metadata })).body,
    ).toMatchObject({ name: 'Ours', metadata, myRole: 'admin' });
    await waitFor(() => b.of('room-updated').length === 1);
    expect(
      (await bob.api.put(`/chat/rooms/${room}/removeUsers`, { users: [ann.userId] })).status,
    ).toBe(403);
    expect((await ann.api.put(roles, { users: [ann.userId], role: 'member' })).body.code).toBe(
      'ROOM_OWNER_REQUIRED',
    );
    // When the last owner goes, everybody hears who owns the room now.
    expect((await ann.api.put(`/chat/leave/${room}`)).status).toBe(200);
    const heir = { room, users: [bob.userId], role: 'owner' };
    await waitFor(() => b.of('roles-changed').some(({ role }) => role === 'owner'));
    expect(b.of('roles-changed').at(-1)).toEqual(heir);
    await configure(platform, { permissions: { addUsers: 'anyMember' } });
  });
});

describe('presence', () => {
  it('is told to who shares a room, as long as they do', async () => {
    const [dora, emil] = [await platform.registerUser(), await platform.registerUser()];
    const room = await makeRoom(dora, [emil]);
    const d = await connectChat(platform, dora);
    await d.ask('presenceSubscribe', { userIds: [emil.userId] });
    const e = await connectChat(platform, emil);
    const online = () =>
      d.of('presence-changed').filter(({ status }) => status === 'online').length;
    await waitFor(() => online() === 1);
    await e.ask('presence', { status: 'away' });
    await waitFor(() => d.of('presence-changed').some(({ status }) => status === 'away'));
    await emil.api.put(`/chat/leave/${room}`);
    await e.ask('presence', { status: 'busy' });
    // What follows it has come: the next one is behind it.
    await dora.api.put(`/chat/rooms/${room}/addUsers`, { users: [emil.userId] });
    await e.ask('presence', { status: 'online' });
    await waitFor(() => online() === 2);
    expect(d.of('presence-changed').map(({ status }) => status)).not.toContain('busy');
    // Nor is it told to whom they have blocked, whatever was asked before.
    await emil.api.put(`/chat/blocks/${dora.userId}`);
    await e.ask('presence', { status: 'busy' });
    await emil.api.delete(`/chat/blocks/${dora.userId}`);
    await e.ask('presence', { status: 'online' });
    await waitFor(() => online() === 3);
    expect(d.of('presence-changed').map(({ status }) => status)).not.toContain('busy');
  });
});

describe('operators', () => {
  it('say what is not stored, and send files', async () => {
    const [a, b, room] = await both(await makeRoom(ann, [bob]));
    const send = (body: object) => platform.admin.post(`/chat/rooms/${room}/messages`, body);
    const unstored = { content: 'soon', contentType: 'text', persist: false };
    expect((await send({ ...unstored, userId: eve.userId })).status).toBe(404);
    expect((await send({ ...unstored, userId: ann.userId })).body).toMatchObject({ _id: null });
    await waitFor(() => b.of('message').length === 1);
    expect(b.of('message')[0]).toMatchObject({
      sender: ann.userId,
      content: 'soon',
      message: 'soon',
    });
    expect(b.of('message')[0]).not.toHaveProperty('_id');
    expect((await send({ content: 'x'.repeat(8_001) })).status).toBe(400);
    expect((await send({ contentType: 'file' })).status).toBe(400);
    expect((await a.ask('sync', { roomId: room, afterSeq: 0 })).messages).toEqual([]);
  });

  it('find rooms that were deleted, in an order, and messages by who and what', async () => {
    await configure(platform, { auditMode: true });
    const rooms: string[] = [];
    for (const name of ['zoo B', 'zoo A', 'zoo C']) rooms.push(await makeRoom(ann, [bob], name));
    await platform.admin.delete('/chat/rooms', { query: { ids: rooms[2] as string } });
    const named = async (query: Readonly<Record<string, string>>): Promise<string[]> =>
      (
        await platform.admin.get('/chat/rooms', { query: { search: 'ZOO', ...query } })
      ).body.chatRoomDocuments.map(({ name }: Json) => name);
    expect(await named({ deleted: 'false', sort: 'name' })).toEqual(['zoo A', 'zoo B']);
    expect(await named({ deleted: 'true' })).toEqual(['zoo C']);
    expect(await named({ sort: '-name', limit: '2', skip: '1' })).toEqual(['zoo B', 'zoo A']);
    await configure(platform, { auditMode: false });
    const creator = await platform.admin.post('/chat/rooms', {
      name: 'made',
      participants: [ann.userId],
      creator: ann.userId,
    });
    expect(creator.body).toMatchObject({ participants: [ann.userId], creator: ann.userId });
    expect((await ann.api.get(`/chat/rooms/${creator.body._id}`)).body.myRole).toBe('owner');
    for (const sort of ['password', 'name;drop'])
      expect((await platform.admin.get('/chat/rooms', { query: { sort } })).status).toBe(400);
  });

  it('take invitations back, and everything that they change is in the audit log', async () => {
    await configure(platform, { explicit_room_joins: { enabled: true } });
    const room = await makeRoom(ann, [bob, eve]);
    const path = `/chat/invitations/${room}`;
    const listed = await platform.admin.get(path, {
      query: { populate: 'receiver', sort: 'createdAt' },
    });
    expect(listed.body).toMatchObject({
      count: 2,
      invitations: [{ receiver: { _id: expect.any(String) } }, {}],
    });
    const invitations: string = listed.body.invitations[0]._id;
    expect((await platform.admin.delete(path, { query: { invitations } })).body).toEqual({
      result: 'Done',
    });
    expect((await platform.admin.delete(path, { query: { invitations } })).status).toBe(404);
    await configure(platform, { explicit_room_joins: { enabled: false } });
    const message = await say(ann, room, 'to be deleted');
    await platform.admin.put(`/chat/rooms/${room}/add`, { users: [bob.userId] });
    await platform.admin.put(`/chat/rooms/${room}/remove`, { users: [bob.userId] });
    await platform.admin.post(`/chat/rooms/${room}/messages`, { content: 'noted' });
    await platform.admin.delete('/chat/messages', { query: { ids: message } });
    await platform.admin.delete('/chat/rooms', { query: { ids: room } });
    const { entries } = (await platform.admin.get('/audit-logs', { query: { limit: 100 } })).body;
    const actions = entries.map(({ action }: Json) => action);
    for (const action of [
      'chat.adminInvitations.delete',
      'chat.adminRooms.create',
      'chat.adminRooms.add',
      'chat.adminRooms.remove',
      'chat.adminMessages.send',
      'chat.adminMessages.delete',
      'chat.adminRooms.delete',
    ])
      expect(actions).toContain(action);
  });

  it('have a tool of models for each operation of the interface', async () => {
    const { text } = await platform.admin.post(
      '/mcp?modules=chat,core',
      { jsonrpc: '2.0', id: 1, method: 'tools/list' },
      { headers: { accept: 'application/json, text/event-stream' } },
    );
    const tools = ['get_chat_rooms', 'get_chat_rooms_id', 'post_chat_rooms', 'delete_chat_rooms'];
    tools.push('put_chat_rooms_roomid_add', 'put_chat_room_roomid_remove');
    tools.push('get_chat_invitations_roomid', 'delete_chat_invitations_roomid');
    tools.push('get_chat_messages', 'delete_chat_messages', 'get_config_chat', 'patch_config_chat');
    for (const name of tools) expect(text, name).toContain(`"${name}"`);
  });

  it('see what is measured: rooms, messages, refusals, times, sockets', async () => {
    const [a, , room] = await both(await makeRoom(ann, [bob]));
    await a.ask('message', room, 'counted');
    await a.ask('message', room, { contentType: 'system', content: 'no' });
    const { text } = await metrics.get('/metrics');
    const sample = (name: string): number =>
      Number(
        text
          .split('\n')
          .find((line) => line.includes(name) && !line.startsWith('#'))
          ?.split(' ')
          .at(-1),
      );
    expect(sample('chat_connected_sockets')).toBe(2);
    expect(sample('messages_sent_total')).toBeGreaterThan(0);
    expect(sample('chat_rooms_total')).toBeGreaterThan(0);
    expect(sample('chat_messages_rejected_total{reason="SYSTEM_MESSAGE_REFUSED"}')).toBe(1);
    expect(sample('chat_message_persist_seconds_count')).toBeGreaterThan(0);
    expect(sample('chat_message_fanout_seconds_count')).toBeGreaterThan(0);
  });
});

it('who is gone for ten seconds is offline, with the time', async () => {
  const a = await connectChat(platform, ann);
  await waitFor(async () => (await presenceOf(a)).status === 'offline', { timeoutMs: 30_000 });
  expect(await presenceOf(a)).toEqual({
    userId: gone.userId,
    status: 'offline',
    lastSeen: expect.any(String),
  });
});
