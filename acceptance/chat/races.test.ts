/** What holds while many change the same rooms at once: limits, invitations, and who waits for whom. */
import { randomUUID } from 'node:crypto';
import { Client } from 'pg';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Answer, Json } from '../../test/support/api.ts';
import type { TestUser } from '../../test/support/node.ts';
import { liftLimits } from '../../test/support/permissions.ts';
import { createTestPlatform, type TestPlatform } from '../../test/support/platform.ts';
import { waitFor } from '../../test/support/wait-for.ts';
import { closeClients, configure, connectChat, makeRoom } from './clients.ts';

let platform: TestPlatform;
let database: Client;
let ann: TestUser;
let bob: TestUser;
beforeAll(async () => {
  platform = await createTestPlatform();
  await liftLimits(platform.admin);
  [ann, bob] = await Promise.all([platform.registerUser(), platform.registerUser()]);
  database = new Client({ connectionString: platform.databaseUrl ?? '' });
  await database.connect();
});
afterAll(async () => {
  await database?.end();
  await platform?.close();
});

const roomsOf = async (user: TestUser): Promise<number> => {
  const { rows } = await database.query<{ count: number }>(
    'select count(*)::int as count from "app"."ChatMember" where "user" = $1',
    [user.userId],
  );
  return rows[0]?.count ?? 0;
};
/** Statements of the platform that wait for a lock. */
const waiting = async (): Promise<number> => {
  const { rows } = await database.query<{ count: number }>(
    `select count(*)::int as count from pg_locks l join pg_stat_activity a using (pid)
      where not l.granted and a.datname = current_database()`,
  );
  return rows[0]?.count ?? 0;
};

it('nobody comes into more rooms than they may, in whatever way and however many at once', async () => {
  await configure(platform, { limits: { roomsPerUser: 5 } });
  try {
    const rooms = await Promise.all(
      Array.from({ length: 4 }, () =>
        platform.admin.post('/chat/rooms', { name: 'Open', participants: [ann.userId] }),
      ),
    );
    for (const { status, text } of rooms) expect(status, text).toBe(200);
    const answers = await Promise.all([
      ...Array.from({ length: 10 }, (_, i) =>
        bob.api.post('/chat/rooms', { roomName: `Own ${i}`, users: [bob.userId] }),
      ),
      ...rooms.map(({ body }) =>
        platform.admin.put(`/chat/rooms/${body._id}/add`, { users: [bob.userId] }),
      ),
    ]);
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200, 409]));
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(5);
    expect(await roomsOf(bob)).toBe(5);
  } finally {
    await configure(platform, { limits: { roomsPerUser: 5_000 } });
  }
});

it('one room for two, however many open it at once, also while it is deleted', async () => {
  const open = (by: TestUser, other: TestUser) =>
    by.api.post('/chat/rooms/direct', { user: other.userId });
  const ids = new Set<string>();
  for (let round = 0; round < 3; round += 1) {
    const answers = await Promise.all(
      Array.from({ length: 12 }, (_, i) => (i % 2 ? open(ann, bob) : open(bob, ann))),
    );
    for (const { status, text } of answers) expect(status, text).toBe(200);
    const opened = new Set(answers.map(({ body }) => body.roomId as string));
    expect(opened.size).toBe(1);
    const [id = ''] = opened;
    ids.add(id);
    const [gone, ...again] = await Promise.all([
      platform.admin.delete('/chat/rooms', { query: { ids: id } }),
      ...Array.from({ length: 6 }, () => open(ann, bob)),
    ]);
    expect(gone.status, gone.text).toBe(200);
    for (const { status, text } of again) expect(status, text).toBe(200);
  }
  expect(ids.size).toBeGreaterThan(1);
});

it('who accepts waits for who deletes the room, and neither for the other in a circle', async () => {
  await configure(platform, { explicit_room_joins: { enabled: true } });
  const room = await makeRoom(ann, [bob], 'By invitation');
  const [invitation] = (await bob.api.get('/chat/invitations/received')).body.invitations as Json[];
  await database.query('begin');
  await database.query('select from "app"."ChatRoom" where "_id" = $1 for update', [room]);
  const accepted = bob.api.post(`/chat/invitations/${invitation!._id}/accept`);
  await waitFor(async () => (await waiting()) > 0);
  await database.query("set local lock_timeout = '5s'");
  await database.query('delete from "app"."InvitationToken" where "room" = $1', [room]);
  await database.query('commit');
  expect(await accepted).toMatchObject({
    status: 404,
    body: { code: 'CHAT_INVITATION_NOT_FOUND' },
  });
});

it('a ban holds, and roles protect, also while the room changes', async () => {
  await configure(platform, { explicit_room_joins: { enabled: false } });
  const [dora, eve] = await Promise.all([platform.registerUser(), platform.registerUser()]);
  const room = await makeRoom(ann, [bob, eve], 'Changing');
  const path = `/chat/rooms/${room}`;
  const roles = { users: [bob.userId], role: 'admin' };
  expect((await ann.api.put(`${path}/roles`, roles)).status).toBe(200);
  const held = async (work: () => Promise<void>): Promise<void> => {
    await database.query('begin');
    await database.query('select from "app"."ChatRoom" where "_id" = $1 for no key update', [room]);
    await work();
    await database.query('commit');
  };
  const answers: Promise<{ status: number; body: Json }>[] = [];
  await held(async () => {
    answers.push(ann.api.put(`${path}/addUsers`, { users: [dora.userId] }));
    await waitFor(async () => (await waiting()) === 1);
    answers.push(ann.api.post(`${path}/bans`, { user: dora.userId }));
    // Behind the addition, or at once.
    await Promise.race([answers[1], waitFor(async () => (await waiting()) === 2)]);
  });
  for (const answer of await Promise.all(answers)) expect(answer.status).toBe(200);
  expect((await dora.api.get(path)).status).toBe(404);
  expect((await ann.api.put(`${path}/addUsers`, { users: [dora.userId] })).body).toMatchObject({
    code: 'CHAT_USER_NOT_ALLOWED',
  });

  let removal: Promise<{ status: number; body: Json }> | undefined;
  await held(async () => {
    removal = bob.api.put(`${path}/removeUsers`, { users: [eve.userId] });
    await waitFor(async () => (await waiting()) > 0);
    await database.query(
      `update "app"."ChatMember" set "role" = 'owner' where "room" = $1 and "user" = $2`,
      [room, eve.userId],
    );
  });
  expect(await removal).toMatchObject({ status: 403, body: { code: 'ROOM_ROLE_REQUIRED' } });
});

describe('a message with files', () => {
  let [room, path] = ['', ''];
  beforeAll(async () => {
    await configure(platform, { rateLimit: { messagesPer10s: 1_000 } });
    room = await makeRoom(ann, [bob], 'Files');
    path = `/chat/rooms/${room}/messages`;
  });
  const upload = async (): Promise<string> =>
    (await ann.api.post('/storage/file', { name: `${randomUUID()}.txt`, data: 'eA==' })).body._id;
  const text = (content: string) => ({ contentType: 'text', content });
  const message = (file: string, content: string) => ({
    ...{ contentType: 'multimedia', content, files: [file] },
  });

  it.each(['alone', 'among others'])('keeps them from being deleted meanwhile: %s', async (how) => {
    for (let round = 0; round < 15; round += 1) {
      const file = await upload();
      const sent = ann.api.post(path, message(file, 'with a file'));
      const others =
        how === 'alone' ? [] : ['a', 'b', 'c'].map((word) => bob.api.post(path, text(word)));
      const [deleted, written, ...rest] = await Promise.all([
        ann.api.delete(`/storage/file/${file}`),
        sent,
        ...others,
      ]);
      expect([200, 409], deleted.text).toContain(deleted.status);
      expect([200, 403], written.text).toContain(written.status);
      expect([deleted.status, written.status]).not.toEqual([200, 200]);
      for (const { status, text: why } of rest) expect(status, why).toBe(200);
    }
  });

  it('waits with what follows it in its room, and holds up no other room', async () => {
    const [file, other] = [await upload(), await makeRoom(ann, [bob], 'Elsewhere')];
    const started: Promise<Answer<Json>>[] = [];
    await database.query('begin');
    await database.query('select from "app"."File" where "_id" = $1 for update', [file]);
    const before = ann.api.post(path, text('before'));
    started.push(before, ann.api.post(path, message(file, 'held up')));
    await waitFor(async () => (await waiting()) > 0);
    started.push(ann.api.post(path, text('behind')));
    expect((await ann.api.post(`/chat/rooms/${other}/messages`, text('free'))).status).toBe(200);
    expect((await before).status).toBe(200);
    await database.query('commit');
    for (const { status, text: why } of await Promise.all(started)) expect(status, why).toBe(200);
    const { messages } = (await ann.api.get('/chat/messages', { query: { roomId: room } })).body;
    const last = (messages as Json[]).slice(0, 3).map(({ message: word }) => word);
    expect(last).toEqual(['behind', 'held up', 'before']);
  });
});

describe('what is said once somebody has left', () => {
  const path = (room: string) => `/chat/messages?roomId=${room}`;
  /** Runs a request whose statement about messages waits until bob is out and something else was said. */
  const readWhileLeaving = async <T>(room: string, read: () => Promise<T>): Promise<T> => {
    await database.query('begin');
    await database.query('lock table "app"."ChatMessage" in access exclusive mode');
    const answer = read();
    await waitFor(async () => (await waiting()) > 0);
    await database.query('delete from "app"."ChatMember" where "room" = $1 and "user" = $2', [
      room,
      bob.userId,
    ]);
    await database.query('update "app"."ChatMessage" set "message" = $2 where "room" = $1', [
      room,
      'secret',
    ]);
    await database.query('commit');
    return answer;
  };
  const roomOfBob = async (): Promise<string> => {
    const room = await makeRoom(ann, [bob], 'Left');
    const sent = await ann.api.post(`/chat/rooms/${room}/messages`, {
      contentType: 'text',
      content: 'open',
    });
    expect(sent.status, sent.text).toBe(200);
    return room;
  };

  it('is not in a page that was under way', async () => {
    const room = await roomOfBob();
    expect((await bob.api.get(path(room))).text).toContain('open');
    const answer = await readWhileLeaving(room, () => bob.api.get(path(room)));
    expect(answer.text).not.toContain('secret');
    expect(answer.status).toBe(404);
  });

  it('is not in what somebody has missed', async () => {
    const room = await roomOfBob();
    const client = await connectChat(platform, bob);
    const sync = () => client.ask('sync', { roomId: room, afterSeq: 0 });
    expect(JSON.stringify(await sync())).toContain('open');
    const answer = await readWhileLeaving(room, sync);
    expect(JSON.stringify(answer)).not.toContain('secret');
    closeClients();
  });
});
