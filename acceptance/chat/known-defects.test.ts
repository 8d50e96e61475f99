/**
 * The defects of the reference (specification chat.md 8), one by one: each is a test here or by the name of one that
 * stands elsewhere.
 */
import { glob, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { createApi, type Json } from '../../test/support/api.ts';
import type { TestDatabase } from '../../test/support/database.ts';
import { freePort } from '../../test/support/free-port.ts';
import type { TestUser } from '../../test/support/node.ts';
import { liftLimits } from '../../test/support/permissions.ts';
import { platformDatabase } from '../../test/support/platform.ts';
import { type SpawnedPlatform, spawnPlatform } from '../../test/support/spawn.ts';
import { waitFor } from '../../test/support/wait-for.ts';
import { projectRoot } from '../routes.ts';
import {
  closeClients,
  configure,
  connectChat,
  makeRoom,
  openSocket,
  refusalOf,
} from './clients.ts';

let database: TestDatabase;
let platform: SpawnedPlatform;
let metrics: ReturnType<typeof createApi>;
let ann: TestUser;
let bob: TestUser;
let eve: TestUser;
beforeAll(async () => {
  const port = await freePort();
  database = await platformDatabase('embedded', {});
  const env = { LOG_LEVEL: 'info', METRICS_PORT: String(port), DATABASE_URL: database.url };
  platform = await spawnPlatform({ env });
  metrics = createApi(`http://127.0.0.1:${port}`);
  await liftLimits(platform.admin);
  await configure(platform, { rateLimit: { messagesPer10s: 10_000 } });
  [ann, bob, eve] = await Promise.all([
    platform.registerUser(),
    platform.registerUser(),
    platform.registerUser(),
  ]);
});
afterEach(closeClients);
afterAll(async () => {
  await platform?.dispose();
  await database?.drop();
});

const unknown = '00000000-0000-7000-8000-000000000000';
const say = (user: TestUser, room: string, content: string) =>
  user.api.post(`/chat/rooms/${room}/messages`, { contentType: 'text', content });

/** Where the others are, by their numbers in section 8. */
const elsewhere: readonly (readonly [defect: string, file: string, text: string])[] = [
  ['1 failed writes', '../../src/modules/chat/services/sending.test.ts', 'cannot be stored'],
  ['2 nonces', 'chat.test.ts', 'stores a nonce once, however often it comes at the same time'],
  ['2 on two nodes', 'nodes.test.ts', 'stores a nonce once, also when both nodes get it'],
  ['3 system messages', 'chat.test.ts', "contentType: 'system', content: 'I am the platform'"],
  ['4 files', 'sockets.security.test.ts', 'attach only files that the sender may read'],
  ['5 sessions', 'sockets.security.test.ts', 'end with the session, and live on with another'],
  ['5 expiry', '../realtime/nodes.test.ts', 'ends a socket with its token'],
  ['6 accepted invitations', 'invitations.test.ts', "'here I am'"],
  ['8 the other node', 'nodes.test.ts', 'on the other node before the call returns'],
  ['9 joined, then told', 'nodes.test.ts', "['room-joined', 'message']"],
  ['10 cursor', 'chat.test.ts', 'counts what is unread exactly, and derives who has read'],
  ['11 pages', '../../src/modules/chat/settings.test.ts', 'reads any page of 10,000 messages'],
  ['12 profiles', 'sockets.security.test.ts', 'show of others what is public, and nothing else'],
  ['14 hook', 'invitations.test.ts', 'nothing changes without a token'],
  ['15 once', 'invitations.test.ts', 'many answers at once count once'],
  ['16 audit', 'admin.test.ts', 'speaks as the system, reads and deletes messages'],
  ['16 retention', '../../src/modules/chat/settings.test.ts', 'what is older is deleted for good'],
  ['17 messages of a user', 'chat.test.ts', 'counts what one user sends'],
  ['17 events of a socket', '../realtime/bounds.test.ts', 'takes as many events of a socket'],
  ['17 sizes', 'sockets.security.test.ts', 'end at a frame that is too large or none'],
  ['20 moderation', 'chat.test.ts', 'silences, bans, blocks and takes reports'],
  ['21 gaps', 'chat.test.ts', 'answers in sync what was missed'],
  ['21 killed nodes', 'nodes.test.ts', 'loses no acknowledged message when a node is killed'],
];

it.each(elsewhere)('%s: %s', async (_defect, file, text) => {
  expect(await readFile(join(projectRoot, 'acceptance/chat', file), 'utf8')).toContain(text);
});

it('1: what is heard is stored: whoever hears of a message can read it', async () => {
  const room = await makeRoom(ann, [bob]);
  const [a, b] = [await connectChat(platform, ann), await connectChat(platform, bob)];
  const read: Promise<{ readonly status: number }>[] = [];
  b.socket.on('message', ({ _id }: Json) => read.push(bob.api.get(`/chat/messages/${_id}`)));
  const acks = await Promise.all(
    Array.from({ length: 30 }, (_, n) => a.ask('message', room, `m${n}`)),
  );
  await waitFor(() => read.length === acks.length);
  expect((await Promise.all(read)).map(({ status }) => status)).toEqual(acks.map(() => 200));
});

describe('5: a connection that was lost', () => {
  it('is not taken up without its token', async () => {
    const dora = await platform.registerUser();
    const first = await connectChat(platform, dora);
    const engine = first.socket as unknown as { readonly _pid?: string };
    expect(engine._pid).toBeUndefined();
    first.socket.io.engine.close();
    await dora.api.post('/authentication/logout');
    const auth = { token: dora.accessToken, pid: first.socket.id, offset: '0' };
    expect(await refusalOf(openSocket(platform, { auth }))).toMatchObject({
      message: 'Unauthorized',
      data: { status: 401 },
    });
  });
});

it('6: a room that is deleted takes no message more', async () => {
  const room = await makeRoom(ann, [bob]);
  const b = await connectChat(platform, bob);
  expect(await b.ask('message', room, 'before')).toMatchObject({ ok: true });
  await platform.admin.delete('/chat/rooms', { query: { ids: room } });
  expect(await b.ask('message', room, 'after')).toMatchObject({
    error: { code: 'CHAT_ROOM_NOT_FOUND' },
  });
});

it('7: members who come and go at the same time are all counted', async () => {
  const users = await Promise.all(Array.from({ length: 12 }, () => platform.registerUser()));
  const [staying, going, coming] = [users.slice(0, 4), users.slice(4, 8), users.slice(8)];
  const room = await makeRoom(ann, [...staying, ...going]);
  const done = await Promise.all([
    ...going.map(({ api }) => api.put(`/chat/leave/${room}`)),
    ...coming.map(({ userId }, n) =>
      (staying[n] as TestUser).api.put(`/chat/rooms/${room}/addUsers`, { users: [userId] }),
    ),
  ]);
  expect(done.map(({ status }) => status)).toEqual(done.map(() => 200));
  const { body } = await ann.api.get(`/chat/rooms/${room}`);
  expect([...body.participants].sort()).toEqual(
    [ann, ...staying, ...coming].map(({ userId }) => userId).sort(),
  );
  expect(body.participantCount).toBe(9);
});

it('8: no push to a user looks through the sockets of all nodes', async () => {
  const calls: string[] = [];
  for await (const file of glob('src/**/*.ts', { cwd: projectRoot })) {
    const text = await readFile(join(projectRoot, file), 'utf8');
    if (/\b(fetchSockets|allSockets|socketsJoin|serverSideEmit)\b/.test(text)) calls.push(file);
  }
  expect(calls).toEqual([]);
});

it('10: reading a room changes none of its messages', async () => {
  const room = await makeRoom(ann, [bob]);
  for (const text of ['one', 'two', 'three']) await say(ann, room, text);
  const listed = async (): Promise<Json[]> =>
    (await ann.api.get('/chat/messages', { query: { roomId: room } })).body.messages;
  const before = await listed();
  await ann.api.delete(`/chat/messages/${before[1]!._id}`);
  expect((await bob.api.put(`/chat/rooms/${room}/read`, {})).body).toEqual({ unreadCount: 0 });
  const after = await listed();
  expect(after.map(({ readBy }) => readBy)).toEqual([[bob.userId], [bob.userId]]);
  expect(after.map(({ updatedAt }) => updatedAt)).toEqual([
    before[0]!.updatedAt,
    before[2]!.updatedAt,
  ]);
});

it('11: lists have a bound, and rooms come by their last message with what it says', async () => {
  const dora = await platform.registerUser();
  const rooms: string[] = [];
  for (const name of ['first', 'second', 'third']) rooms.push(await makeRoom(dora, [bob], name));
  await say(dora, rooms[1] as string, 'hello');
  await say(bob, rooms[0] as string, 'newest');
  const { body } = await dora.api.get('/chat/rooms', { query: { limit: 2 } });
  expect(body).toMatchObject({
    count: 3,
    rooms: [
      { _id: rooms[0], unreadCount: 1, lastMessage: { content: 'newest', sender: bob.userId } },
      { _id: rooms[1], unreadCount: 0, lastMessage: { content: 'hello' } },
    ],
  });
  for (const [path, query] of [
    ['/chat/rooms', { limit: 201 }],
    ['/chat/rooms', { skip: -1 }],
    ['/chat/messages', { limit: 0 }],
    ['/chat/messages', { limit: 1.5 }],
    ['/chat/messages', { roomId: 'room' }],
    ['/chat/messages', { roomId: rooms[0] as string, populate: 'password' }],
  ] as const)
    expect((await dora.api.get(path, { query })).status, JSON.stringify(query)).toBe(400);
});

it('12: populated rooms and invitations show nothing private of others', async () => {
  const room = await makeRoom(ann, [bob]);
  const query = { populate: 'participants,creator' };
  const answers = [
    await bob.api.get(`/chat/rooms/${room}`, { query }),
    await bob.api.get('/chat/rooms', { query }),
    await bob.api.get(`/chat/rooms/${room}/members`),
  ];
  await configure(platform, { explicit_room_joins: { enabled: true } });
  await makeRoom(ann, [bob], 'by invitation');
  answers.push(await bob.api.get('/chat/invitations/received'));
  await configure(platform, { explicit_room_joins: { enabled: false } });
  for (const { status, text } of answers) {
    expect(status).toBe(200);
    expect(text).not.toContain(ann.email);
    expect(text).not.toContain('token');
  }
});

it('13: what is not there is 404, what is unknown 400, what is there already 409', async () => {
  const room = await makeRoom(ann, [bob]);
  const message = (await say(ann, room, 'here')).body._id;
  const statuses = [
    await ann.api.get(`/chat/rooms/${unknown}`),
    await ann.api.put(`/chat/rooms/${unknown}/addUsers`, { users: [eve.userId] }),
    await ann.api.put(`/chat/leave/${unknown}`),
    await ann.api.get('/chat/messages', { query: { roomId: unknown } }),
    await ann.api.get(`/chat/messages/${unknown}`),
    await eve.api.get(`/chat/messages/${message}`),
    await ann.api.patch(`/chat/messages/${unknown}`, { newMessage: 'x' }),
    await ann.api.delete(`/chat/messages/${unknown}`),
    await platform.admin.put(`/chat/rooms/${unknown}/add`, { users: [eve.userId] }),
    await platform.admin.get('/chat/messages', { query: { senderUser: unknown } }),
    await platform.admin.get(`/chat/invitations/${unknown}`),
    await ann.api.put(`/chat/rooms/${room}/addUsers`, { users: [unknown] }),
    await ann.api.put(`/chat/rooms/${room}/addUsers`, { users: [] }),
    await ann.api.get('/chat/rooms/5f1f1f1f1f1f1f1f1f1f1f1f'),
    await platform.admin.post('/chat/rooms', { name: 'x', participants: [unknown] }),
    await platform.admin.post('/chat/rooms', { name: 'x', participants: [] }),
    await platform.admin.delete('/chat/messages', { query: { ids: '' } }),
    await ann.api.put(`/chat/rooms/${room}/addUsers`, { users: [bob.userId, eve.userId] }),
    await platform.admin.put(`/chat/rooms/${room}/add`, { users: [eve.userId, bob.userId] }),
  ].map(({ status }) => status);
  expect(statuses).toEqual([...Array(11).fill(404), ...Array(6).fill(400), 409, 409]);
  // All of them, or none.
  expect((await ann.api.get(`/chat/rooms/${room}`)).body.participantCount).toBe(2);
});

it('15: invitations end, their secrets are nowhere, and a batch leaves nothing half-way', async () => {
  await configure(platform, {
    explicit_room_joins: { enabled: true },
    invitations: { ttlSeconds: 60 },
  });
  const room = await makeRoom(ann, [bob, eve], 'short');
  const { body } = await bob.api.get('/chat/invitations/received', { query: { limit: 1 } });
  expect(new Date(body.invitations[0].expiresAt).getTime() - Date.now()).toBeLessThan(61_000);
  const sent = await ann.api.get('/chat/invitations/sent', { query: { limit: 1 } });
  expect(sent.body.invitations).toHaveLength(1);
  expect(sent.body.count).toBeGreaterThan(1);
  const rooms = async (): Promise<number> => (await ann.api.get('/chat/rooms')).body.count;
  const before = await rooms();
  const half = { roomName: 'half', users: [bob.userId, unknown] };
  expect((await ann.api.post('/chat/rooms', half)).status).toBe(400);
  const dora = await platform.registerUser();
  const again = { users: [dora.userId, eve.userId] };
  expect((await ann.api.put(`/chat/rooms/${room}/addUsers`, again)).body.code).toBe(
    'CHAT_INVITATION_EXISTS',
  );
  expect((await dora.api.get('/chat/invitations/received')).body.count).toBe(0);
  expect(await rooms()).toBe(before);
  await configure(platform, {
    explicit_room_joins: { enabled: false },
    invitations: { ttlSeconds: 604_800 },
  });
});

it('18: sockets stay while chat is configured anew and its schemas grow', async () => {
  const room = await makeRoom(ann, [bob]);
  const [a, b] = [await connectChat(platform, ann), await connectChat(platform, bob)];
  const { id } = b.socket;
  await configure(platform, { limits: { messageLength: 9_000 } });
  const { schemas } = (await platform.admin.get('/database/schemas', { query: { limit: 200 } }))
    .body;
  const { _id } = schemas.find(({ name }: Json) => name === 'ChatRoom');
  const fields = { color: { type: 'String' } };
  const extended = await platform.admin.post(`/database/schemas/${_id}/extensions`, { fields });
  expect(extended.status, extended.text).toBe(200);
  await a.ask('message', room, 'still here');
  await waitFor(() => b.of('message').length === 1);
  expect(b.socket.id).toBe(id);
  expect(b.of('message')).toHaveLength(1);
});

it('17, 19: neither events nor disconnects are logged as such, and none is an error', async () => {
  const room = await makeRoom(ann, [bob]);
  expect(platform.stdout()).toContain('"level"');
  const lines = () => platform.stdout().split('\n').length;
  const clients = [await connectChat(platform, ann), await connectChat(platform, bob)];
  await say(ann, room, 'warm');
  const before = lines();
  for (let n = 0; n < 20; n += 1) await clients[n % 2]!.ask('message', room, `m${n}`);
  await clients[0]!.ask('typing', { roomId: room, state: 'start' });
  for (const client of clients) client.close();
  await waitFor(async () => (await metrics.get('/metrics')).text.match(/chat_connected_sockets 0/));
  const logged = platform.stdout().split('\n').slice(before).join('\n');
  expect(logged).not.toMatch(/typing|disconnect|"level":"?(50|error)/i);
  expect(lines() - before).toBeLessThan(20);
});
