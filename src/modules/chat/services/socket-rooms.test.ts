/** Which rooms a socket hears, where its user comes and goes while that is being read. */
import { expect, it } from 'vitest';
import type { Database, Statement } from '../../../kernel/database/database.ts';
import type { SocketConnection } from '../../../kernel/sockets/socket-namespace.ts';
import type { RoomFeeds } from './room-feeds.ts';
import { createListeners, createSocketRooms } from './socket-rooms.ts';

const room = 'room';
const user = 'user';

/**
 * A database that says who is in the room as `isIn` does; `reading` holds back what it said of the rooms of a user, and
 * `looking` what it said of a room, once each.
 */
function openRooms(reading: Promise<void>, looking: Promise<void>[] = []) {
  let isIn = true;
  const found = () => ({ room, name: 'A room', joinedSeq: 0, lastSeq: 0, lastChange: 0 });
  const query = async ({ text }: Statement) => {
    const rows = isIn ? [{ ...found(), users: [{ user, joinedSeq: 0 }] }] : [];
    if (text.includes('"joinedSeq", r."lastSeq"')) await reading;
    else await looking.shift();
    return { rows, count: rows.length };
  };
  const open = new Map<string, number>();
  const count = (by: number) => (name: string) => void open.set(name, (open.get(name) ?? 0) + by);
  const rooms = createSocketRooms({
    database: { query } as unknown as Database,
    listeners: createListeners(),
    feeds: { open: count(1), close: count(-1) } as unknown as RoomFeeds,
    emit: () => undefined,
  });
  return {
    ...rooms,
    feeds: () => open.get(room) ?? 0,
    set: (there: boolean) => {
      isIn = there;
      return rooms.reconcile(room, [user]);
    },
  };
}

function connect() {
  const channels = new Set<string>();
  const connection = {
    ...{ id: 'socket', userId: user, emit: () => undefined },
    join: (channel: string) => void channels.add(channel),
    leave: (channel: string) => void channels.delete(channel),
  } as unknown as SocketConnection;
  return { connection, channels };
}

it('who is removed while their socket comes in does not hear the room', async () => {
  const { promise: reading, resolve: read } = Promise.withResolvers<void>();
  const rooms = openRooms(reading);
  const { connection, channels } = connect();
  const admitted = rooms.admit(connection);
  await rooms.set(false);
  read();
  (await admitted).connected();
  expect([...channels]).toEqual([]);
  expect(rooms.feeds()).toBe(0);
});

it('who is removed and added again meanwhile hears it once', async () => {
  const { promise: reading, resolve: read } = Promise.withResolvers<void>();
  const rooms = openRooms(reading);
  const { connection, channels } = connect();
  const admitted = rooms.admit(connection);
  await rooms.set(false);
  await rooms.set(true);
  read();
  (await admitted).connected();
  expect([...channels]).toEqual([room]);
  expect(rooms.feeds()).toBe(1);
});

it('who is removed does not come back by what was read before', async () => {
  const { promise, resolve } = Promise.withResolvers<void>();
  const rooms = openRooms(Promise.resolve(), [promise]);
  const { connection, channels } = connect();
  (await rooms.admit(connection)).connected();
  // The first reading finds the user in the room, and is answered after the second, which does not.
  const added = rooms.set(true);
  const removed = rooms.set(false);
  await new Promise(setImmediate);
  resolve();
  await Promise.all([added, removed]);
  expect([...channels]).toEqual([]);
  expect(rooms.feeds()).toBe(0);
});

it('a socket that came into a room by its own word leaves it with its user', async () => {
  const rooms = openRooms(Promise.resolve());
  const { connection, channels } = connect();
  await rooms.set(false);
  (await rooms.admit(connection)).connected();
  // Its user was added and removed before this node heard of either.
  connection.join(room);
  await rooms.set(false);
  expect([...channels]).toEqual([]);
  expect(rooms.feeds()).toBe(0);
});
