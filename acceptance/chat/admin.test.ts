import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import type { TestUser } from '../../test/support/node.ts';
import { createTestPlatform, type TestPlatform } from '../../test/support/platform.ts';
import { waitFor } from '../../test/support/wait-for.ts';
import { closeClients, configure, connectChat, makeRoom } from './clients.ts';

describe('chat for operators', () => {
  let platform: TestPlatform;
  let ann: TestUser;
  let bob: TestUser;

  beforeAll(async () => {
    platform = await createTestPlatform();
    [ann, bob] = await Promise.all([platform.registerUser(), platform.registerUser()]);
  });
  afterEach(closeClients);
  afterAll(() => platform?.close());

  it('makes, finds, changes and deletes rooms', async () => {
    const a = await connectChat(platform, ann);
    const made = await platform.admin.post('/chat/rooms', {
      name: 'Support 50%',
      participants: [ann.userId],
    });
    expect(made.body).toMatchObject({
      name: 'Support 50%',
      participants: [ann.userId],
      deleted: false,
    });
    const { _id } = made.body;
    await waitFor(() => a.of('room-joined').length === 1);
    const found = await platform.admin.get('/chat/rooms', {
      query: { search: '50%', populate: 'participants', sort: '-createdAt' },
    });
    expect(found.body).toMatchObject({
      count: 1,
      chatRoomDocuments: [{ _id, participants: [{ _id: ann.userId, email: ann.email }] }],
    });
    expect((await platform.admin.get('/chat/rooms', { query: { search: '.*' } })).body.count).toBe(
      0,
    );
    const add = { users: [bob.userId] };
    expect((await platform.admin.put(`/chat/rooms/${_id}/add`, add)).body).toEqual({
      result: 'Users added',
    });
    expect((await platform.admin.put(`/chat/rooms/${_id}/add`, add)).status).toBe(409);
    expect(
      (await platform.admin.get('/chat/rooms', { query: { users: bob.userId } })).body.count,
    ).toBe(1);
    expect((await platform.admin.put(`/chat/room/${_id}/remove`, add)).body).toEqual({
      result: 'Ok',
    });
    expect((await platform.admin.put(`/chat/room/${_id}/remove`, add)).status).toBe(404);
    expect((await platform.admin.delete('/chat/rooms', { query: { ids: '' } })).status).toBe(400);
    const gone = await platform.admin.delete('/chat/rooms', {
      query: { ids: `${_id},${bob.userId}` },
    });
    expect(gone.body).toEqual({ result: 'Done' });
    await waitFor(() => a.of('room-deleted').length === 1);
    expect(a.of('room-deleted')).toEqual([{ room: _id, roomName: 'Support 50%' }]);
    expect((await platform.admin.get(`/chat/rooms/${_id}`)).status).toBe(404);
  });

  it('speaks as the system, reads and deletes messages', async () => {
    const room = await makeRoom(ann, [bob]);
    const [a, b] = [await connectChat(platform, ann), await connectChat(platform, bob)];
    const said = await platform.admin.post(`/chat/rooms/${room}/messages`, {
      content: 'Maintenance at 5',
    });
    expect(said.status).toBe(200);
    await waitFor(() => b.of('message').length === 1);
    expect(b.of('message')[0]).toMatchObject({ contentType: 'system', sender: null });
    const { _id } = await a.ask('message', room, 'find this needle');
    const query = {
      roomId: room,
      senderUser: ann.userId,
      search: 'needle',
      populate: 'senderUser',
    };
    const found = await platform.admin.get('/chat/messages', { query });
    expect(found.body).toMatchObject({
      count: 1,
      messages: [{ _id, senderUser: { email: ann.email } }],
    });
    expect(
      (await platform.admin.get('/chat/messages', { query: { roomId: bob.userId } })).status,
    ).toBe(404);
    await platform.admin.delete('/chat/messages', { query: { ids: _id } });
    await waitFor(() => b.of('message-deleted').length === 1);
    expect(
      (await platform.admin.get('/chat/messages', { query: { roomId: room } })).body.count,
    ).toBe(1);
    await configure(platform, { auditMode: true });
    const kept = await a.ask('message', room, 'kept');
    await platform.admin.delete('/chat/messages', { query: { ids: kept._id } });
    const audited = await platform.admin.get('/chat/messages', { query: { roomId: room } });
    expect(audited.body.messages[0]).toMatchObject({
      _id: kept._id,
      message: 'kept',
      deleted: true,
    });
    expect((await ann.api.get(`/chat/messages/${kept._id}`)).status).toBe(404);
    await configure(platform, { auditMode: false });
  });

  it.each([
    [false, false],
    [false, true],
    [true, false],
    [true, true],
  ])('empties rooms: deleteEmptyRooms %s, auditMode %s', async (deleteEmptyRooms, auditMode) => {
    await configure(platform, { deleteEmptyRooms, auditMode });
    const room = await makeRoom(ann, [bob], 'Short');
    const b = await connectChat(platform, bob);
    await ann.api.put(`/chat/leave/${room}`);
    if (deleteEmptyRooms) {
      await waitFor(() => b.of('room-deleted').length === 1);
    } else {
      expect((await bob.api.get(`/chat/rooms/${room}`)).body).toMatchObject({ myRole: 'owner' });
      await bob.api.put(`/chat/leave/${room}`);
    }
    expect((await bob.api.get(`/chat/rooms/${room}`)).status).toBe(404);
    const left = await platform.admin.get(`/chat/rooms/${room}`);
    expect(left.status).toBe(auditMode ? 200 : 404);
    if (auditMode) expect(left.body.deleted).toBe(true);
    await configure(platform, { deleteEmptyRooms: false, auditMode: false });
  });

  it('loses nothing of a conversation when an account goes', async () => {
    const gone = await platform.registerUser();
    const room = await makeRoom(gone, [ann]);
    const { body } = await gone.api.post(`/chat/rooms/${room}/messages`, {
      contentType: 'text',
      content: 'bye',
    });
    await platform.admin.delete(`/authentication/users/${gone.userId}`);
    const read = await ann.api.get(`/chat/messages/${body._id}`);
    expect(read.body).toMatchObject({ message: 'bye', senderUser: null });
    expect((await ann.api.get(`/chat/rooms/${room}`)).body.participants).toEqual([ann.userId]);
  });

  it('gives files to rooms only with a credential that reaches them', async () => {
    const { _id } = (await bob.api.post('/storage/file', { name: 'of-bob.txt', data: btoa('x') }))
      .body;
    const room = await makeRoom(ann, [bob]);
    const scopes = { name: 'chat alone', scopes: ['chat', 'write'] };
    const { token } = (await platform.admin.post('/api-tokens', scopes)).body;
    const narrowed = platform.adminAnonymous.with({ credential: token });
    const path = `/chat/rooms/${room}/messages`;
    const message = { contentType: 'file', files: [_id] };
    for (const more of [{}, { userId: ann.userId }, { persist: false }])
      expect(await narrowed.post(path, { ...message, ...more })).toMatchObject({
        status: 403,
        body: { code: 'FILE_REFUSED', errors: [{ path: 'files.0' }] },
      });
    expect((await narrowed.post(path, { content: 'without' })).status).toBe(200);
    expect((await platform.admin.post(path, message)).status).toBe(200);
  });

  it('shows accounts to a credential that reaches them, and their ids to others', async () => {
    const room = await makeRoom(ann, [bob]);
    await ann.api.post(`/chat/rooms/${room}/messages`, { contentType: 'text', content: 'hello' });
    const members = { path: `/chat/rooms/${room}`, query: { populate: 'participants' } };
    const words = { path: '/chat/messages', query: { roomId: room, populate: 'senderUser' } };
    for (const [scopes, isShown] of [
      [['chat', 'read'], false],
      [['chat', 'authentication', 'read'], true],
    ] as const) {
      const { token } = (await platform.admin.post('/api-tokens', { name: 'reader', scopes })).body;
      const reader = platform.adminAnonymous.with({ credential: token });
      for (const { path, query } of [members, words]) {
        const { text } = await reader.get(path, { query });
        expect(text).toContain(ann.userId);
        expect(text.includes(ann.email)).toBe(isShown);
      }
    }
  });

  it('is there for models too', async () => {
    const list = await platform.admin.post(
      '/mcp?modules=chat',
      { jsonrpc: '2.0', id: 1, method: 'tools/list' },
      {
        headers: { accept: 'application/json, text/event-stream' },
      },
    );
    for (const name of [
      'get_chat_rooms',
      'post_chat_rooms',
      'delete_chat_rooms',
      'put_chat_rooms_roomid_add',
      'get_chat_messages',
      'delete_chat_messages',
    ])
      expect(list.text).toContain(`"${name}"`);
  });
});
