/** Settings that work beside requests (pushes, retention) or far back in a conversation (history, large rooms). */
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import {
  closeClients,
  configure,
  connectChat,
  makeRoom,
} from '../../../acceptance/chat/clients.ts';
import type { Json } from '../../../test/support/api.ts';
import { createTestDatabase, type TestDatabase } from '../../../test/support/database.ts';
import {
  createTestNode,
  type TestNode,
  type TestUser,
  testAdminPassword,
  testMasterKey,
} from '../../../test/support/node.ts';
import { testEnvironment } from '../../../test/support/platform.ts';
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
    database = await createTestDatabase({ server: 'embedded' });
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

  it('offlinePush.enabled: one push for a room, to those without a socket who have not muted it', async () => {
    await configure(node, { offlinePush: { enabled: true } });
    const [carl, dora] = [await node.registerUser(), await node.registerUser()];
    for (const user of [ann, bob, carl, dora])
      await user.api.post('/token', { token: `phone-${user.userId}`, platform: 'IOS' });
    const room = await makeRoom(ann, [bob, carl, dora], 'Pushed');
    await connectChat(node, dora);
    await carl.api.put(`/chat/rooms/${room}/mute`, { muted: true });
    await waitFor(async () => (await run('select from penstock.chat_presence')).count > 0);
    for (const text of ['one', 'two', 'three']) await say(ann, room, text);
    const pushesTo = async (user: TestUser): Promise<number> =>
      (await node.admin.get('/communications/messages', { query: { recipient: user.userId } })).body
        .messages.length;
    await waitFor(async () => (await pushesTo(bob)) > 0, { timeoutMs: 30_000 });
    expect(await Promise.all([bob, carl, dora, ann].map(pushesTo))).toEqual([1, 0, 0, 0]);
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
