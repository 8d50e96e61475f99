/** Settings that work beside requests (pushes, retention) or far back in a conversation (history, large rooms). */
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import {
  closeClients,
  configure,
  connectChat,
  makeRoom,
} from '../../../acceptance/chat/clients.ts';
import type { Answer, Json } from '../../../test/support/api.ts';
import type { TestDatabase } from '../../../test/support/database.ts';
import {
  createTestNode,
  expectStatus,
  type TestNode,
  type TestUser,
  testAdminPassword,
  testMasterKey,
} from '../../../test/support/node.ts';
import { platformDatabase, testEnvironment } from '../../../test/support/platform.ts';
import { removeFolder, temporaryFolder } from '../../../test/support/temporary-folder.ts';
import { waitFor } from '../../../test/support/wait-for.ts';
import { readSettings } from '../../kernel/settings/settings.ts';
import { type Platform, startPlatform } from '../../platform.ts';

describe('settings of chat', () => {
  let database: TestDatabase;
  let dataDir: string;
  let platform: Platform;
  let node: TestNode;
  let ann: TestUser;
  let bob: TestUser;

  beforeAll(async () => {
    database = await platformDatabase('embedded');
    dataDir = await temporaryFolder('data');
    platform = await startPlatform({
      settings: readSettings(testEnvironment(dataDir, database.url)),
    });
    node = createTestNode(platform.addresses, {
      masterKey: testMasterKey,
      adminPassword: testAdminPassword,
    });
    [ann, bob] = [await node.registerUser(), await node.registerUser()];
  });
  afterEach(closeClients);
  afterAll(async () => {
    await platform?.close();
    await database?.drop();
    await removeFolder(dataDir);
  });

  const say = (user: TestUser, room: string, content: string) =>
    user.api.post(`/chat/rooms/${room}/messages`, { contentType: 'text', content });
  const run = (text: string, values: readonly unknown[] = []) =>
    platform.kernel.database.query<Json>({ text, values });

  it('a room that has lost its owner while nobody saw to it gets another', async () => {
    const room = await makeRoom(ann, [bob], 'Left alone');
    await run(`update "app"."ChatMember" set "role" = 'member' where "room" = $1`, [room]);
    await platform.kernel.jobs.enqueue('chat.tidy', {});
    await waitFor(async () => {
      const { members } = (await bob.api.get(`/chat/rooms/${room}/members`)).body;
      return members.filter(({ role }: Json) => role === 'owner').length === 1;
    });
  });

  it('offlinePush.enabled: one push for a room, to those without a socket who have not muted it and are not blocked', async () => {
    await configure(node, { offlinePush: { enabled: true } });
    const others = await Promise.all(['carl', 'dora', 'eve'].map(() => node.registerUser()));
    const [carl, dora, eve] = others as [TestUser, TestUser, TestUser];
    for (const user of [ann, bob, ...others])
      await user.api.post('/token', { token: `phone-${user.userId}`, platform: 'IOS' });
    const room = await makeRoom(ann, [bob, ...others], 'Pushed');
    await node.admin.post(`/authentication/users/${eve.userId}/block`);
    await connectChat(node, dora);
    await carl.api.put(`/chat/rooms/${room}/mute`, { muted: true });
    await waitFor(async () => (await run('select from penstock.chat_presence')).count > 0);
    for (const text of ['one', 'two', 'three']) await say(ann, room, text);
    const pushesTo = async (user: TestUser): Promise<number> =>
      (await node.admin.get('/communications/messages', { query: { recipient: user.userId } })).body
        .messages.length;
    await waitFor(async () => (await pushesTo(bob)) > 0, { timeoutMs: 30_000 });
    expect(await Promise.all([bob, ann, ...others].map(pushesTo))).toEqual([1, 0, 0, 0, 0]);
    await configure(node, { offlinePush: { enabled: false } });

    // What was written in a room is not for tokens that reach messages alone.
    const query = { recipient: bob.userId, status: 'captured' };
    const push = await waitFor(
      async () => (await node.admin.get('/communications/messages', { query })).body.messages[0],
    );
    const readBy = async (...scopes: string[]): Promise<Json> => {
      const { token: credential } = (
        await node.admin.post('/api-tokens', { name: scopes.join(), scopes })
      ).body;
      const api = node.adminAnonymous.with({ credential });
      return (await api.get(`/communications/messages/${push._id}`)).body;
    };
    expect((await readBy('communications')).code).toBe('SCOPE_EXCEEDED');
    expect((await readBy('communications', 'chat')).content.text).toContain('three');
  });

  it('offlinePush: waits for the end of the quiet hours of its receiver, whom it must concern then', async () => {
    await configure(node, { offlinePush: { enabled: true } });
    const receivers = await Promise.all([1, 2, 3, 4, 5, 6, 7].map(() => node.registerUser()));
    // The last of them stays.
    const [left, removed, read, muted, blocked, other] = receivers as [
      ...[TestUser, TestUser, TestUser],
      ...[TestUser, TestUser, TestUser],
    ];
    // All of the day but a minute that is twelve hours away.
    const clock = (ms: number) => new Date(ms).toISOString().slice(11, 16);
    const away = Date.now() + 43_200_000;
    const quietHours = { start: clock(away + 60_000), end: clock(away) };
    for (const { api, userId } of receivers) {
      await api.post('/token', { token: `phone-${userId}`, platform: 'IOS' });
      await api.patch('/notifications/preferences', { timezone: 'UTC', quietHours });
    }
    const pushTo = ({ userId: recipient }: TestUser): Promise<Json> =>
      waitFor(
        async () =>
          (await node.admin.get('/communications/messages', { query: { recipient } })).body
            .messages[0],
        { timeoutMs: 30_000 },
      );
    const room = await makeRoom(
      ann,
      receivers.filter((one) => one !== other),
      'Quiet',
    );
    const said = expectStatus(await say(ann, room, 'in the night'), 200, 'a message').body;
    const there = await makeRoom(ann, [other], 'Elsewhere');
    const again = expectStatus(await say(ann, there, 'taken back'), 200, 'a message').body;
    const waiting = await Promise.all(receivers.map(pushTo));
    const due = await run('select due_at > now() as waits from penstock.messages where id = $1', [
      waiting[0]?._id,
    ]);
    expect(due.rows).toEqual([{ waits: true }]);

    const done = async (answer: Promise<Answer>) => expectStatus(await answer, 200, 'a change');
    await done(left.api.put(`/chat/leave/${room}`));
    await done(ann.api.put(`/chat/rooms/${room}/removeUsers`, { users: [removed.userId] }));
    await done(read.api.put(`/chat/rooms/${room}/read`, { messageId: said._id }));
    await done(muted.api.put(`/chat/rooms/${room}/mute`, { muted: true }));
    await done(node.admin.post(`/authentication/users/${blocked.userId}/block`));
    await done(ann.api.delete(`/chat/messages/${again._id}`));
    const outcomeOf = async ({ _id: id }: Json): Promise<string> => {
      await platform.kernel.jobs.enqueue('communications.deliver', { id });
      return waitFor(async () => {
        const { status, error } = (await node.admin.get(`/communications/messages/${id}`)).body;
        return status === 'captured' ? status : (error ?? undefined);
      });
    };
    const stopped = 'the recipient gets no messages: it does not concern them any more';
    expect(await Promise.all(waiting.map(outcomeOf))).toEqual([
      ...Array(6).fill(stopped),
      'captured',
    ]);
    await configure(node, { offlinePush: { enabled: false } });
  });

  it('retention.days: what is older is deleted for good', async () => {
    const room = await makeRoom(ann, [bob]);
    for (const text of ['old', 'young']) await say(ann, room, text);
    await run(
      `update "app"."ChatMessage" set "createdAt" = now() - interval '40 days' where "room" = $1 and "message" = 'old'`,
      [room],
    );
    await configure(node, { retention: { days: 30 } });
    await platform.kernel.jobs.enqueue('chat.tidy', {});
    const messages = async (): Promise<Json> =>
      (await bob.api.get('/chat/messages', { query: { roomId: room } })).body;
    await waitFor(async () => (await messages()).count === 1, { timeoutMs: 30_000 });
    expect((await messages()).messages).toMatchObject([{ message: 'young', seq: 2 }]);
    await configure(node, { retention: { days: 0 } });
  });

  it('history "joined": members read what was written since they came, and files of it', async () => {
    const room = await makeRoom(ann, [bob]);
    await say(ann, room, 'before');
    await configure(node, { history: 'joined' });
    const eve = await node.registerUser();
    await ann.api.put(`/chat/rooms/${room}/addUsers`, { users: [eve.userId] });
    await say(ann, room, 'after');
    const query = { roomId: room };
    expect((await eve.api.get('/chat/messages', { query })).body).toMatchObject({
      count: 1,
      messages: [{ message: 'after' }],
    });
    expect((await eve.api.get('/chat/messages')).body).toMatchObject({ count: 1 });
    const e = await connectChat(node, eve);
    const missed = await e.ask('sync', { roomId: room, afterSeq: 0 });
    expect(missed.messages).toMatchObject([{ content: 'after' }]);
    const [after, before] = (await ann.api.get('/chat/messages', { query })).body.messages;
    for (const { _id } of [before, after])
      await ann.api.patch(`/chat/messages/${_id}`, { newMessage: `edited ${_id}` });
    await waitFor(() => e.of('message-edited').length > 0);
    expect(e.of('message-edited').map(({ messageId }) => messageId)).toEqual([after._id]);
    expect(await e.ask('react', { messageId: before._id, emoji: '+' })).toMatchObject({
      error: { status: 404 },
    });
    await configure(node, { history: 'shared' });
    expect((await eve.api.get('/chat/messages', { query })).body.count).toBe(2);
  });

  it('limits: members of a room, rooms of a user, who may add', async () => {
    await configure(node, {
      limits: { participantsPerRoom: 2 },
      permissions: { addUsers: 'creator' },
    });
    const eve = await node.registerUser();
    const room = await makeRoom(ann, [bob]);
    const add = { users: [eve.userId] };
    expect((await bob.api.put(`/chat/rooms/${room}/addUsers`, add)).body.code).toBe(
      'ROOM_ROLE_REQUIRED',
    );
    expect((await ann.api.put(`/chat/rooms/${room}/addUsers`, add)).body.code).toBe(
      'CHAT_ROOM_FULL',
    );
    await configure(node, { limits: { participantsPerRoom: 1_000, roomsPerUser: 1 } });
    expect(
      (await eve.api.post('/chat/rooms', { roomName: 'x', users: [bob.userId] })).body.code,
    ).toBe('ROOM_LIMIT_EXCEEDED');
    await configure(node, {
      limits: { roomsPerUser: 5_000 },
      permissions: { addUsers: 'anyMember' },
    });
  });

  it('invitations.ttlSeconds: who is late is not let in, by no way', async () => {
    await configure(node, { explicit_room_joins: { enabled: true, send_email: true } });
    const room = await makeRoom(ann, [bob], 'Late');
    const { _id } = (await bob.api.get('/chat/invitations/received')).body.invitations[0];
    await run(
      `update "app"."InvitationToken" set "expiresAt" = now() - interval '1 second' where "room" = $1`,
      [room],
    );
    expect((await bob.api.post(`/chat/invitations/${_id}/accept`)).status).toBe(404);
    expect((await bob.api.get(`/chat/invitations/accept/${_id}`)).status).toBe(404);
    expect((await bob.api.get('/chat/invitations/received')).body).toEqual({
      invitations: [],
      count: 0,
    });
    const kept = await run('select "token" from "app"."InvitationToken" where "room" = $1', [room]);
    expect(kept.rows[0]?.token).toMatch(/^[\w+/=-]{43,64}$/);
    await platform.kernel.jobs.enqueue('chat.tidy', {});
    await waitFor(
      async () =>
        (await run('select from "app"."InvitationToken" where "room" = $1', [room])).count === 0,
      { timeoutMs: 30_000 },
    );
    await configure(node, { explicit_room_joins: { enabled: false } });
  });

  it('tells the bus of everything that happens, with the change or not at all', async () => {
    const heard: { readonly topic: string; readonly payload: Json }[] = [];
    const stop = platform.kernel.events.subscribe('chat:*', ({ topic, payload = {} }) => {
      heard.push({ topic, payload });
    });
    const eve = await node.registerUser();
    const room = await makeRoom(ann, [bob], 'On the bus');
    await ann.api.put(`/chat/rooms/${room}/addUsers`, { users: [eve.userId] });
    const { _id } = (await say(ann, room, 'first')).body;
    await bob.api.put(`/chat/rooms/${room}/read`, {});
    await ann.api.patch(`/chat/messages/${_id}`, { newMessage: 'second' });
    await ann.api.delete(`/chat/messages/${_id}`);
    await eve.api.put(`/chat/leave/${room}`);
    await ann.api.put(`/chat/rooms/${room}/addUsers`, { users: [eve.userId, bob.userId] });
    await node.admin.delete('/chat/rooms', { query: { ids: room } });
    const ofRoom = () =>
      heard.filter(({ payload }) => JSON.stringify(payload).match(new RegExp(`${room}|${_id}`)));
    await waitFor(() => ofRoom().some(({ topic }) => topic === 'chat:deleteRoom:ChatRoom'));
    expect(ofRoom()).toMatchObject([
      {
        topic: 'chat:create:ChatRoom',
        payload: { _id: room, name: 'On the bus', participants: [ann.userId, bob.userId] },
      },
      { topic: 'chat:addParticipant:ChatRoom', payload: { _id: room, users: [eve.userId] } },
      {
        topic: 'chat:create:ChatMessage',
        payload: {
          _id,
          room,
          sender: ann.userId,
          contentType: 'text',
          seq: 1,
          createdAt: expect.any(String),
        },
      },
      { topic: 'chat:read:ChatRoom', payload: { roomId: room, user: bob.userId } },
      { topic: 'chat:edit:ChatMessage', payload: { id: _id, newMessage: 'second' } },
      { topic: 'chat:delete:ChatMessage', payload: { id: _id } },
      { topic: 'chat:leaveRoom:ChatRoom', payload: { roomId: room, user: eve.userId } },
      { topic: 'chat:deleteRoom:ChatRoom', payload: { roomId: room } },
    ]);
    stop();
  });

  it('owns its schemas: operators add fields, and make, change or delete no documents', async () => {
    const { schemas } = (await node.admin.get('/database/schemas', { query: { limit: 200 } })).body;
    const room = await makeRoom(ann, [bob]);
    for (const name of ['ChatRoom', 'ChatMessage', 'InvitationToken', 'ChatParticipantsLog']) {
      const { _id, modelOptions } = schemas.find((one: Json) => one.name === name);
      expect(modelOptions).toMatchObject({
        timestamps: true,
        conduit: {
          permissions: {
            extendable: true,
            canCreate: false,
            canModify: 'ExtensionOnly',
            canDelete: false,
          },
        },
      });
      const fields = { note: { type: 'String' } };
      expect(
        (await node.admin.post(`/database/schemas/${_id}/extensions`, { fields })).status,
      ).toBe(200);
      const made = await node.admin.post(`/database/schemas/${name}/docs`, {
        inputDocument: { name: 'x' },
      });
      expect(made.body.code).toBe('DOCUMENTS_READ_ONLY');
      expect((await ann.api.get(`/database/${name}`)).status).toBe(404);
    }
    const path = `/database/schemas/ChatRoom/docs/${room}`;
    const change = (changedDocument: Json) => node.admin.put(path, { changedDocument });
    expect((await node.admin.delete(path)).body.code).toBe('DOCUMENTS_READ_ONLY');
    expect((await change({ name: 'taken over' })).body.code).toBe('DOCUMENTS_READ_ONLY');
    expect((await change({ note: 'ours' })).status).toBe(200);
  });

  it('reads any page of 10,000 messages by an index, and counts what is unread exactly', async () => {
    const room = await makeRoom(ann, [bob]);
    await run(
      `insert into "app"."ChatMessage" ("_id", "room", "senderUser", "messageType", "message", "files", "mentions", "seq", "change",
        "changeKind", "replyCount", "deleted", "removed", "createdAt", "updatedAt", "__v")
       select gen_random_uuid(), $1, $2, 'text', 'm' || n, '{}', '{}', n, n, 'sent', 0, false, false, now(), now(), 0
       from generate_series(1, 10000) n`,
      [room, ann.userId],
    );
    await run(
      `update "app"."ChatRoom" set "lastSeq" = 10000, "lastChange" = 10000, "lastMessageAt" = now() where "_id" = $1`,
      [room],
    );
    expect((await bob.api.get(`/chat/rooms/${room}`)).body.unreadCount).toBe(10_000);
    const far = await bob.api.get('/chat/messages', { query: { roomId: room, before: 26 } });
    expect(far.body.messages.map(({ seq }: Json) => seq)).toEqual(
      Array.from({ length: 25 }, (_, n) => 25 - n),
    );
    const { rows } = await run(
      `explain (format json) select * from "app"."ChatMessage" t where t."room" = '${room}' and t."seq" > 0 and not t."deleted"
        and t."seq" < 26 order by t."seq" desc limit 25`,
    );
    expect(JSON.stringify(rows)).not.toContain('Seq Scan');
    await run(
      `update "app"."ChatMessage" set "deleted" = true where "room" = $1 and ("seq" % 7 = 0 or "seq" between 3000 and 3400)`,
      [room],
    );
    const left = Array.from({ length: 10_000 }, (_, n) => 10_000 - n).filter(
      (seq) => seq % 7 !== 0 && (seq < 3_000 || seq > 3_400),
    );
    for (const [skip, before] of [
      [1_000],
      [1_001],
      [5_654],
      [5_655],
      [5_700],
      [left.length - 3],
      [left.length],
      [1_500, 3_301],
      [1_001, 50_000],
    ] as const) {
      const pages = { roomId: room, limit: '5', skip, ...(before && { before }) };
      const page = await bob.api.get('/chat/messages', { query: pages });
      const expected = left.filter((seq) => before === undefined || seq < before);
      expect(page.body.messages.map(({ seq }: Json) => seq)).toEqual(
        expected.slice(skip, skip + 5),
      );
    }
    await run('update "app"."ChatMessage" set "deleted" = false where "room" = $1', [room]);
    const b = await connectChat(node, bob);
    const upTo = far.body.messages[0]._id;
    expect(await b.ask('messagesRead', room, { upTo })).toMatchObject({ unreadCount: 9_975 });
    await say(ann, room, 'one more');
    expect((await bob.api.get('/chat/unread')).body.rooms[room]).toBe(9_976);
  });
});
