import { Client } from 'pg';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import type { TestUser } from '../../test/support/node.ts';
import { createTestPlatform, type TestPlatform } from '../../test/support/platform.ts';
import { waitFor } from '../../test/support/wait-for.ts';
import { closeClients, configure, connectChat, makeRoom } from './clients.ts';

describe('chat', () => {
  let platform: TestPlatform;
  let ann: TestUser;
  let bob: TestUser;
  let eve: TestUser;

  beforeAll(async () => {
    platform = await createTestPlatform();
    [ann, bob, eve] = await Promise.all([
      platform.registerUser(),
      platform.registerUser(),
      platform.registerUser(),
    ]);
    await configure(platform, { rateLimit: { messagesPer10s: 10_000, typingPer10s: 100 } });
  });
  afterEach(closeClients);
  afterAll(() => platform?.close());

  it('makes rooms and lists them with what is unread', async () => {
    const room = await makeRoom(ann, [bob], 'Plans');
    const listed = await bob.api.get('/chat/rooms');
    expect(listed.status).toBe(200);
    expect(listed.body.rooms.find(({ _id }: { _id: string }) => _id === room)).toMatchObject({
      name: 'Plans',
      participants: expect.arrayContaining([ann.userId, bob.userId]),
      creator: ann.userId,
      deleted: false,
      unreadCount: 0,
      myRole: 'member',
    });
    for (const content of ['one', 'two'])
      await ann.api.post(`/chat/rooms/${room}/messages`, { contentType: 'text', content });
    expect((await bob.api.get(`/chat/rooms/${room}`)).body).toMatchObject({
      unreadCount: 2,
      lastMessage: { content: 'two', sender: ann.userId },
    });
    expect((await bob.api.get('/chat/unread')).body.rooms[room]).toBe(2);
    expect((await eve.api.get(`/chat/rooms/${room}`)).body).toMatchObject({
      code: 'CHAT_ROOM_NOT_FOUND',
      name: 'NOT_FOUND',
    });
    expect((await eve.api.get('/chat/messages', { query: { roomId: room } })).status).toBe(404);
  });

  it('refuses rooms without a name, without users, with users that are not there', async () => {
    const unknown = '00000000-0000-7000-8000-000000000000';
    for (const body of [
      { users: [bob.userId] },
      { roomName: 'x', users: [] },
      { roomName: 'x' },
      { roomName: 'x', users: [unknown] },
      { roomName: 'x', users: ['nobody'] },
    ])
      expect((await ann.api.post('/chat/rooms', body)).status, JSON.stringify(body)).toBe(400);
    expect((await platform.client.get('/chat/rooms')).status).toBe(401);
    expect((await ann.api.get('/chat/rooms', { query: { limit: -1 } })).status).toBe(400);
  });

  it('sends messages in order to all sockets of the room, the own ones too', async () => {
    const room = await makeRoom(ann, [bob]);
    const [a, b, e] = [
      await connectChat(platform, ann),
      await connectChat(platform, bob),
      await connectChat(platform, eve),
    ];
    const acks = await Promise.all(
      Array.from({ length: 40 }, (_, n) =>
        a.ask('message', room, { contentType: 'text', content: `m${n}` }),
      ),
    );
    expect(acks.every(({ ok }) => ok)).toBe(true);
    expect(acks.map(({ seq }) => seq)).toEqual(Array.from({ length: 40 }, (_, n) => n + 1));
    await waitFor(() => b.of('message').length === 40 && a.of('message').length === 40);
    expect(b.of('message').map(({ seq }) => seq)).toEqual(acks.map(({ seq }) => seq));
    expect(b.of('message')[0]).toMatchObject({
      _id: acks[0]!._id,
      sender: ann.userId,
      contentType: 'text',
      content: 'm0',
      room,
      createdAt: acks[0]!.createdAt,
    });
    expect(e.heard).toEqual([]);
    expect(await e.ask('message', room, 'hi')).toMatchObject({
      ok: false,
      error: { status: 404, code: 'CHAT_ROOM_NOT_FOUND' },
    });
    expect(e.of('chat_error')).toMatchObject([{ code: 'CHAT_ROOM_NOT_FOUND', event: 'message' }]);
    const page = await bob.api.get('/chat/messages', { query: { roomId: room, limit: 10 } });
    expect(page.body.count).toBe(40);
    expect(page.body.messages.map(({ message }: { message: string }) => message)).toEqual(
      Array.from({ length: 10 }, (_, n) => `m${39 - n}`),
    );
    const older = await bob.api.get('/chat/messages', { query: { roomId: room, before: 3 } });
    expect(older.body.messages.map(({ seq }: { seq: number }) => seq)).toEqual([2, 1]);
    const all = await bob.api.get('/chat/messages', { query: { limit: 3 } });
    expect(all.body.messages[0]).toMatchObject({ message: 'm39', room, senderUser: ann.userId });
  });

  it('stores a nonce once, however often it comes at the same time', async () => {
    const room = await makeRoom(ann, [bob]);
    const [a, b] = [await connectChat(platform, ann), await connectChat(platform, bob)];
    const message = { contentType: 'text', content: 'once', nonce: 'n-1' };
    const acks = await Promise.all(
      Array.from({ length: 20 }, () => a.ask('message', room, message)),
    );
    expect(new Set(acks.map(({ _id }) => _id)).size).toBe(1);
    expect(acks.filter(({ duplicate }) => !duplicate)).toHaveLength(1);
    await a.ask('message', room, 'last');
    await waitFor(() => b.of('message').some(({ content }) => content === 'last'));
    expect(b.of('message').filter(({ content }) => content === 'once')).toHaveLength(1);
    const again = a.of('message').filter(({ nonce, createdAt }) => nonce === 'n-1' && !createdAt);
    expect(again).toHaveLength(19);
  });

  it('refuses messages that are none', async () => {
    const room = await makeRoom(ann, [bob]);
    const a = await connectChat(platform, ann);
    const refused = async (message: unknown, status = 400) =>
      expect(await a.ask('message', room, message), JSON.stringify(message)).toMatchObject({
        ok: false,
        error: { status },
      });
    await refused('');
    await refused({ content: 'no type' });
    await refused({ contentType: 'shout', content: 'x' });
    await refused({ contentType: 'text', content: 'x', nonce: '' });
    await refused({ contentType: 'text', content: 'a\0b' });
    await refused({ contentType: 'file' });
    await refused({ contentType: 'text', content: 'x'.repeat(8_001) });
    await refused({ contentType: 'system', content: 'I am the platform' }, 403);
    await refused({ contentType: 'file', files: ['00000000-0000-7000-8000-000000000000'] }, 403);
    expect(await a.ask('message', 'no-id', 'x')).toMatchObject({ error: { status: 400 } });
    expect(await a.ask('shout', room)).toMatchObject({ error: { code: 'EVENT_UNKNOWN' } });
    expect((await ann.api.get('/chat/messages', { query: { roomId: room } })).body.count).toBe(0);
  });

  it('edits and deletes for the author alone, and tells the room', async () => {
    const room = await makeRoom(ann, [bob]);
    const [a, b] = [await connectChat(platform, ann), await connectChat(platform, bob)];
    const { _id } = await a.ask('message', room, 'first');
    expect((await bob.api.patch(`/chat/messages/${_id}`, { newMessage: 'mine' })).status).toBe(404);
    expect((await bob.api.delete(`/chat/messages/${_id}`)).status).toBe(404);
    const edited = await ann.api.patch(`/chat/messages/${_id}`, { newMessage: 'second' });
    expect(edited.body).toEqual({ result: 'Message updated successfully' });
    await waitFor(() => b.of('message-edited').length === 1);
    expect(b.of('message-edited')).toEqual([{ messageId: _id, message: 'second', room }]);
    const read = await bob.api.get(`/chat/messages/${_id}`);
    expect(read.body).toMatchObject({
      message: 'second',
      editedAt: expect.any(String),
      room: { _id: room },
    });
    const deleted = await ann.api.delete(`/chat/messages/${_id}`);
    expect(deleted.body).toEqual({ result: 'Message deleted successfully' });
    await waitFor(() => b.of('message-deleted').length === 1);
    expect(b.of('message-deleted')).toEqual([{ messageId: _id, room }]);
    expect((await ann.api.get(`/chat/messages/${_id}`)).status).toBe(404);
    expect((await ann.api.get('/chat/messages', { query: { roomId: room } })).body.count).toBe(0);
    const next = await a.ask('message', room, 'third');
    await configure(platform, { allowMessageEdit: false, allowMessageDelete: false });
    expect((await ann.api.patch(`/chat/messages/${next._id}`, { newMessage: 'x' })).status).toBe(
      404,
    );
    expect((await ann.api.delete(`/chat/messages/${next._id}`)).status).toBe(404);
    await configure(platform, { allowMessageEdit: true, allowMessageDelete: true });
    expect((await ann.api.put(`/chat/messages/${next._id}`, { newMessage: 'x' })).status).toBe(200);
    // The owner of the room may delete what others wrote.
    const bobs = await b.ask('message', room, 'by bob');
    expect((await ann.api.delete(`/chat/messages/${bobs._id}`)).status).toBe(200);
  });

  it('counts what is unread exactly, and derives who has read', async () => {
    const room = await makeRoom(ann, [bob]);
    const [a, b] = [await connectChat(platform, ann), await connectChat(platform, bob)];
    const sent = [];
    for (let n = 0; n < 5; n += 1) sent.push(await a.ask('message', room, `m${n}`));
    expect(await b.ask('messagesRead', room, { upTo: sent[1]!._id })).toMatchObject({
      ok: true,
      unreadCount: 3,
    });
    await b.ask('message', room, 'mine is not unread');
    expect((await bob.api.get('/chat/unread')).body.rooms[room]).toBe(3);
    await waitFor(() => a.of('messagesRead').length > 0);
    expect(a.of('messagesRead')[0]).toEqual({ room, readBy: bob.userId });
    const { body } = await ann.api.get('/chat/messages', { query: { roomId: room } });
    const readers = Object.fromEntries(
      body.messages.map(({ seq, readBy }: { seq: number; readBy: string[] }) => [seq, readBy]),
    );
    expect(readers).toMatchObject({ 1: [bob.userId], 2: [bob.userId], 3: [] });
    expect(await b.ask('messagesRead', room)).toMatchObject({ unreadCount: 0 });
    expect(await b.ask('messagesRead', room, { upTo: sent[0]!._id })).toMatchObject({
      unreadCount: 0,
    });
  });

  it('lets members in and out at once', async () => {
    const room = await makeRoom(ann, [bob], 'Doors');
    const [a, e] = [await connectChat(platform, ann), await connectChat(platform, eve)];
    const added = await ann.api.put(`/chat/rooms/${room}/addUsers`, { users: [eve.userId] });
    expect(added.body).toEqual({ result: 'Users added' });
    await waitFor(() => e.of('room-joined').length === 1);
    expect(e.of('room-joined')).toEqual([{ room, roomName: 'Doors' }]);
    expect(
      (await ann.api.put(`/chat/rooms/${room}/addUsers`, { users: [eve.userId] })).body.code,
    ).toBe('CHAT_MEMBER_EXISTS');
    await a.ask('message', room, 'hello');
    await waitFor(() => e.of('message').length === 1);
    expect(
      (await bob.api.put(`/chat/rooms/${room}/removeUsers`, { users: [eve.userId] })).status,
    ).toBe(403);
    expect(
      (await ann.api.put(`/chat/rooms/${room}/removeUsers`, { users: [eve.userId] })).status,
    ).toBe(200);
    await waitFor(() => e.of('room-left').length === 1);
    await a.ask('message', room, 'not for eve');
    expect(await e.ask('sync', { roomId: room, afterSeq: 0 })).toMatchObject({
      ok: false,
      error: { status: 404 },
    });
    expect(e.of('message')).toHaveLength(1);
    expect((await bob.api.put(`/chat/leave/${room}`)).body).toEqual({ result: 'Ok' });
    expect((await bob.api.put(`/chat/leave/${room}`)).status).toBe(404);
    await waitFor(() => a.of('participants-changed').length === 3);
  });

  it('gives two people one room, however often both ask', async () => {
    const asked = await Promise.all(
      Array.from({ length: 20 }, (_, n) =>
        n % 2 === 0
          ? bob.api.post('/chat/rooms/direct', { user: eve.userId })
          : eve.api.post('/chat/rooms/direct', { user: bob.userId }),
      ),
    );
    expect(new Set(asked.map(({ status, body }) => `${status} ${body.roomId}`)).size).toBe(1);
    const { roomId } = asked[0]!.body;
    const members = await bob.api.get(`/chat/rooms/${roomId}/members`);
    expect(members.body.members.map(({ user }: { user: string }) => user).sort()).toEqual(
      [bob.userId, eve.userId].sort(),
    );
    expect(
      (await bob.api.put(`/chat/rooms/${roomId}/addUsers`, { users: [ann.userId] })).body.code,
    ).toBe('DIRECT_ROOM_PROTECTED');
  });

  it('answers in sync what was missed: messages, and changes of earlier ones', async () => {
    const room = await makeRoom(ann, [bob]);
    const [a, b] = [await connectChat(platform, ann), await connectChat(platform, bob)];
    const first = await a.ask('message', room, 'one');
    await a.ask('message', room, 'two');
    const before = await b.ask('sync', { roomId: room, afterChange: 0 });
    // Who asks for messages alone learns from where on they can ask for changes.
    const loaded = await b.ask('sync', { roomId: room, afterSeq: 0 });
    expect(loaded.lastChange).toBe(before.lastChange);
    b.close();
    await ann.api.patch(`/chat/messages/${first._id}`, { newMessage: 'uno' });
    await a.ask('message', room, 'three');
    const again = await connectChat(platform, bob);
    const missed = await again.ask('sync', { roomId: room, afterSeq: 2 });
    expect(missed).toMatchObject({ ok: true, more: false, lastSeq: 3 });
    expect(missed.messages.map(({ content }: { content: string }) => content)).toEqual(['three']);
    const changes = await again.ask('sync', {
      roomId: room,
      afterSeq: 2,
      afterChange: before.lastChange,
    });
    expect(changes.changes).toMatchObject([
      { event: 'message-edited', data: { messageId: first._id, message: 'uno' } },
      { event: 'message', data: { content: 'three' } },
    ]);
  });

  it('answers in sync each message as new, also one that was changed after a page of others came', async () => {
    const room = await makeRoom(ann, [bob]);
    const b = await connectChat(platform, bob);
    const hand = new Client({ connectionString: platform.databaseUrl ?? '' });
    await hand.connect();
    // 250 messages, of which the first was the last to change.
    await hand.query(
      `insert into "app"."ChatMessage" ("_id", "room", "senderUser", "messageType", "message", "files", "mentions", "seq",
        "change", "changeKind", "replyCount", "deleted", "removed", "createdAt", "updatedAt", "__v")
      select gen_random_uuid(), $1, $2, 'text', n::text, '{}', '{}', n, case n when 1 then 251 else n end,
        case n when 1 then 'reacted' else 'sent' end, 0, false, false, now(), now(), 0 from generate_series(1, 250) n`,
      [room, ann.userId],
    );
    await hand.query(
      'update "app"."ChatRoom" set "lastSeq" = 250, "lastChange" = 251 where "_id" = $1',
      [room],
    );
    await hand.end();
    const heard: string[] = [];
    let answer = { lastSeq: 0, lastChange: 0, more: true };
    while (answer.more) {
      const { lastSeq: afterSeq, lastChange: afterChange } = answer;
      const page = await b.ask('sync', { roomId: room, afterSeq, afterChange });
      for (const { event, data } of page.changes) heard.push(`${event} ${data.content}`);
      answer = page;
    }
    expect(new Set(heard).size).toBe(250);
    expect(heard).toContain('message 1');
    expect(answer).toMatchObject({ lastSeq: 250, lastChange: 251 });
  });

  it('shows typing without storing it, reactions, answers, mentions and words', async () => {
    const room = await makeRoom(ann, [bob]);
    const [a, b] = [await connectChat(platform, ann), await connectChat(platform, bob)];
    expect(await a.ask('typing', { roomId: room, state: 'start' })).toEqual({ ok: true });
    await a.ask('message', room, { contentType: 'typing' });
    await waitFor(() => b.of('message').length === 2);
    expect(b.of('message')[0]).toEqual({ sender: ann.userId, contentType: 'typing', room });
    const root = await a.ask('message', room, 'the quick brown fox');
    const answer = await b.ask('message', room, {
      contentType: 'text',
      content: 'jumps',
      threadRoot: root._id,
      mentions: [ann.userId, eve.userId],
    });
    expect(answer.ok).toBe(true);
    await b.ask('react', { messageId: root._id, emoji: '👍' });
    await a.ask('react', { messageId: root._id, emoji: '👍' });
    await b.ask('react', { messageId: root._id, emoji: '👍', remove: true });
    await waitFor(() => a.of('message-reaction').length === 3);
    expect((await ann.api.get(`/chat/messages/${root._id}`)).body).toMatchObject({
      replyCount: 1,
      reactions: [{ emoji: '👍', count: 1, users: [ann.userId] }],
    });
    expect((await ann.api.get(`/chat/messages/${answer._id}`)).body.mentions).toEqual([ann.userId]);
    const found = await bob.api.get('/chat/messages', { query: { roomId: room, search: 'BROWN' } });
    expect(found.body).toMatchObject({ count: 1, messages: [{ _id: root._id }] });
    const everywhere = await bob.api.get('/chat/messages', { query: { search: 'fox' } });
    expect(everywhere.body.messages.map(({ _id }: { _id: string }) => _id)).toContain(root._id);
    const thread = await bob.api.get('/chat/messages', {
      query: { roomId: room, threadRoot: root._id },
    });
    expect(thread.body.messages.map(({ _id }: { _id: string }) => _id)).toEqual([answer._id]);
  });

  it('silences, bans, blocks and takes reports', async () => {
    const room = await makeRoom(ann, [bob]);
    const b = await connectChat(platform, bob);
    const until = new Date(Date.now() + 3_600_000).toISOString();
    const silence = `/chat/rooms/${room}/members/${bob.userId}/silence`;
    expect(
      (await bob.api.put(`/chat/rooms/${room}/members/${ann.userId}/silence`, { until })).status,
    ).toBe(403);
    expect((await ann.api.put(silence, { until })).status).toBe(200);
    expect(await b.ask('message', room, 'hm')).toMatchObject({
      error: { code: 'CHAT_WRITING_DENIED' },
    });
    expect((await ann.api.put(silence, { until: null })).status).toBe(200);
    const { _id } = await b.ask('message', room, 'rude');
    expect((await ann.api.post(`/chat/messages/${_id}/report`, { reason: 'rude' })).status).toBe(
      200,
    );
    const reports = await platform.admin.get('/chat/reports', { query: { state: 'open' } });
    const report = reports.body.reports.find(({ message }: { message: string }) => message === _id);
    expect(report).toMatchObject({ reason: 'rude', content: 'rude', sender: bob.userId });
    expect((await platform.admin.put(`/chat/reports/${report._id}/resolve`)).status).toBe(200);
    expect(
      (await ann.api.post(`/chat/rooms/${room}/bans`, { user: bob.userId, reason: 'rude' })).status,
    ).toBe(200);
    await waitFor(() => b.of('room-left').length === 1);
    expect(
      (await ann.api.put(`/chat/rooms/${room}/addUsers`, { users: [bob.userId] })).body.code,
    ).toBe('CHAT_USER_NOT_ALLOWED');
    expect((await ann.api.delete(`/chat/rooms/${room}/bans/${bob.userId}`)).status).toBe(200);
    expect((await bob.api.put(`/chat/blocks/${ann.userId}`)).status).toBe(200);
    expect(
      (await ann.api.put(`/chat/rooms/${room}/addUsers`, { users: [bob.userId] })).body.code,
    ).toBe('CHAT_USER_BLOCKED');
    expect((await bob.api.delete(`/chat/blocks/${ann.userId}`)).status).toBe(200);
    expect(
      (await ann.api.put(`/chat/rooms/${room}/addUsers`, { users: [bob.userId] })).status,
    ).toBe(200);
  });

  it('tells who is there to those who share a room', async () => {
    const [stranger, friend] = [await platform.registerUser(), await platform.registerUser()];
    await makeRoom(ann, [friend]);
    const a = await connectChat(platform, ann);
    const asked = await a.ask('presenceSubscribe', { userIds: [friend.userId, stranger.userId] });
    expect(asked.users).toEqual([{ userId: friend.userId, status: 'offline', lastSeen: null }]);
    const b = await connectChat(platform, friend);
    await waitFor(() => a.of('presence-changed').some(({ status }) => status === 'online'));
    await b.ask('presence', { status: 'busy' });
    await waitFor(() => a.of('presence-changed').some(({ status }) => status === 'busy'));
  });

  it('counts what one user sends', async () => {
    await configure(platform, { rateLimit: { messagesPer10s: 3 } });
    const room = await makeRoom(eve, [bob]);
    const e = await connectChat(platform, eve);
    const acks = [];
    for (let n = 0; n < 5; n += 1) acks.push(await e.ask('message', room, 'x'));
    expect(acks.some(({ error }) => error?.status === 429)).toBe(true);
    await configure(platform, { rateLimit: { messagesPer10s: 10_000 } });
  });
});
