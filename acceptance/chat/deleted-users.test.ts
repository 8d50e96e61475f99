/** Users who are deleted while rooms change: nobody waits in a circle, and nothing is left half-way. */
import pg from 'pg';
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { Json } from '../../test/support/api.ts';
import type { TestUser } from '../../test/support/node.ts';
import { liftLimits } from '../../test/support/permissions.ts';
import { createTestPlatform, type TestPlatform } from '../../test/support/platform.ts';
import { waitFor } from '../../test/support/wait-for.ts';
import { makeRoom } from './clients.ts';

let platform: TestPlatform;
/** Holds locks as long as a test wants. */
let hand: pg.Client;
let ann: TestUser;
let bob: TestUser;
let eve: TestUser;

beforeAll(async () => {
  platform = await createTestPlatform();
  await liftLimits(platform.admin);
  hand = new pg.Client({ connectionString: platform.databaseUrl });
  await hand.connect();
  [ann, bob, eve] = await Promise.all([
    platform.registerUser(),
    platform.registerUser(),
    platform.registerUser(),
  ]);
});
afterAll(async () => {
  await hand?.end();
  await platform?.close();
});

const somebodyWaits = (): Promise<unknown> =>
  waitFor(async () => {
    const { rows } = await hand.query(
      "select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'",
    );
    return rows.length > 0;
  });

it('who writes to a user who is deleted meanwhile is told, and nothing is left half-way', async () => {
  // Rooms are made once their users are held, so that the answer is about what is there then.
  const unknown = { status: 400, code: 'CHAT_USER_UNKNOWN' };
  const writes = [
    [(id: string) => ann.api.post('/chat/rooms/direct', { user: id }), unknown],
    [(id: string) => ann.api.post('/chat/rooms', { roomName: 'late', users: [id] }), unknown],
    [(id: string) => ann.api.put(`/chat/blocks/${id}`, {}), { status: 409, code: 'CONFLICT' }],
  ] as const;
  for (const [write, told] of writes) {
    const { userId } = await platform.registerUser();
    await hand.query('begin');
    await hand.query('delete from app."User" where _id = $1', [userId]);
    const answer = write(userId);
    await somebodyWaits();
    await hand.query('commit');
    expect((await answer).body).toMatchObject(told);
  }
  const { rooms } = (await ann.api.get('/chat/rooms', { query: { search: 'late' } })).body;
  expect(rooms.filter(({ name }: Json) => name === 'late')).toEqual([]);
});

it('who comes and goes is held before the room, as the deletion of a user does: no lock circle', async () => {
  const room = await makeRoom(ann, [bob, eve], 'held');
  const dora = await platform.registerUser();
  const changes: readonly (readonly [user: TestUser, change: () => Promise<{ status: number }>])[] =
    [
      [eve, () => eve.api.put(`/chat/leave/${room}`, {})],
      [bob, () => ann.api.put(`/chat/rooms/${room}/removeUsers`, { users: [bob.userId] })],
      [dora, () => ann.api.put(`/chat/rooms/${room}/addUsers`, { users: [dora.userId] })],
    ];
  for (const [user, change] of changes) {
    await hand.query('begin');
    await hand.query('select from app."User" where _id = $1 for update', [user.userId]);
    const answer = change();
    await somebodyWaits();
    // The room and its members are still free.
    await hand.query('select from app."ChatRoom" where _id = $1 for update nowait', [room]);
    await hand.query('select from app."ChatMember" where room = $1 for update nowait', [room]);
    await hand.query('commit');
    expect((await answer).status).toBe(200);
  }
});

it('everybody who has to do with a room is held before it goes, so that no deletion of a user waits in a circle', async () => {
  const dora = await platform.registerUser();
  const leave = ({ api }: TestUser, room: string) => api.put(`/chat/leave/${room}`, {});
  /** Dora has made it, and has left it. */
  const left = async (others: readonly TestUser[]): Promise<string> => {
    const room = await makeRoom(dora, others);
    expect((await leave(dora, room)).status).toBe(200);
    return room;
  };
  const remove = (room: string) => platform.admin.delete('/chat/rooms', { query: { ids: room } });
  const changes = [
    [dora, await left([ann, bob]), remove],
    [bob, await left([ann, bob]), remove],
    [dora, await left([ann]), (room: string) => leave(ann, room)],
  ] as const;
  for (const [user, room, change] of changes) {
    await hand.query('begin');
    await hand.query('select from app."User" where _id = $1 for update', [user.userId]);
    const answer = change(room);
    await somebodyWaits();
    for (const [table, field] of [
      ['ChatRoom', '_id'],
      ['ChatMember', 'room'],
    ])
      await hand.query(`select from app."${table}" where "${field}" = $1 for update nowait`, [
        room,
      ]);
    await hand.query('commit');
    expect((await answer).status).toBe(200);
    const { rows } = await hand.query('select from app."ChatRoom" where _id = $1', [room]);
    expect(rows).toHaveLength(0);
  }
});

it('a room whose owner is deleted gets another: the first of its admins, or of its members', async () => {
  for (const isAdmin of [true, false]) {
    const dora = await platform.registerUser();
    const room = await makeRoom(dora, [bob, eve]);
    const path = `/chat/rooms/${room}`;
    const admin = { users: [eve.userId], role: 'admin' };
    if (isAdmin) expect((await dora.api.put(`${path}/roles`, admin)).status).toBe(200);
    const { body } = await dora.api.get(`${path}/members`);
    const [first] = body.members.filter(({ role }: Json) => role === 'member');
    const heir = isAdmin ? eve.userId : first.user;
    await platform.admin.delete(`/authentication/users/${dora.userId}`);
    await waitFor(async () => {
      const { members } = (await bob.api.get(`${path}/members`)).body;
      return members.some(({ user, role }: Json) => user === heir && role === 'owner');
    });
  }
});
