/** The sockets of this node, and which rooms each of them hears: as its user comes and goes, and the rooms do. */
import type { Database } from '../../../kernel/database/database.ts';
import type { AdmittedSocket, SocketConnection } from '../../../kernel/sockets/socket-namespace.ts';
import {
  type FoundRoom,
  presentIn,
  type SubscribedRoom,
  subscribedRooms,
} from '../queries/members.ts';
import type { Emit, RoomFeeds } from './room-feeds.ts';

export interface SocketRooms {
  admit(connection: SocketConnection): Promise<AdmittedSocket>;
  /** Brings the sockets of these users in line with who is in the room. */
  reconcile(room: string, users: readonly string[]): Promise<void>;
  /** The room is no more. */
  drop(room: string, roomName: string): void;
}

interface Listener {
  readonly connection: SocketConnection;
  /** With the last message before its user joined. */
  readonly rooms: Map<string, number>;
  /** Rooms that its user left while the rooms of the user were read: what was read may be older. */
  readonly left: Set<string>;
  live: boolean;
}

interface Dependencies {
  readonly database: Database;
  readonly listeners: ReturnType<typeof createListeners>;
  readonly feeds: RoomFeeds;
  readonly emit: Emit;
}

export function createSocketRooms(dependencies: Dependencies): SocketRooms {
  const { database, listeners, feeds, emit } = dependencies;
  const greet = (listener: Listener, room: string, found: FoundRoom, joinedSeq: number): void => {
    if (enter(feeds, listener, room, { ...found, joinedSeq }))
      listener.connection.emit('room-joined', { room, roomName: found.name });
  };
  const follow = async (room: string, users: readonly string[]): Promise<void> => {
    const here = users.filter((user) => listeners.of(user).length > 0);
    if (here.length === 0) return;
    const found = await presentIn(database, room, here);
    const joined = new Map(found?.users.map(({ user, joinedSeq }) => [user, joinedSeq]));
    for (const listener of here.flatMap((user) => listeners.of(user))) {
      const user = listener.connection.userId;
      const joinedSeq = joined.get(user);
      if (found && joinedSeq !== undefined) greet(listener, room, found, joinedSeq);
      else if (exit(feeds, listener, room)) listener.connection.emit('room-left', { room, user });
    }
  };
  // What was read first is done first: an older reading must not bring back who was removed meanwhile.
  const inTurn = createTurns();
  const reconcile: SocketRooms['reconcile'] = (room, users) =>
    inTurn(room, () => follow(room, users));
  const drop = (room: string, roomName: string): void => {
    emit(room, 'room-deleted', { room, roomName });
    for (const listener of listeners.all()) exit(feeds, listener, room);
  };
  return { admit: (connection) => admit(dependencies, connection), reconcile, drop };
}

/** Runs what concerns one room one after the other. */
function createTurns(): (room: string, work: () => Promise<void>) => Promise<void> {
  const last = new Map<string, Promise<void>>();
  return (room, work) => {
    const result = (last.get(room) ?? Promise.resolve()).then(work);
    const done = result
      .catch(() => undefined)
      .then(() => {
        if (last.get(room) === done) last.delete(room);
      });
    last.set(room, done);
    return result;
  };
}

async function admit(
  { database, listeners, feeds }: Dependencies,
  connection: SocketConnection,
): Promise<AdmittedSocket> {
  const listener: Listener = { connection, rooms: new Map(), left: new Set(), live: false };
  // Registered first: who is added or removed while the rooms are read is not missed.
  listeners.add(listener);
  const closed = (): void => {
    listeners.remove(listener);
    for (const room of listener.rooms.keys()) feeds.close(room);
    listener.rooms.clear();
  };
  try {
    const rooms = await subscribedRooms(database, connection.userId);
    for (const found of rooms)
      if (!listener.left.has(found.room)) enter(feeds, listener, found.room, found);
  } catch (error) {
    closed();
    throw error;
  }
  return {
    connected() {
      listener.live = true;
      for (const room of listener.rooms.keys()) connection.join(room);
    },
    closed,
  };
}

/** False where the socket heard the room already. */
function enter(
  feeds: RoomFeeds,
  listener: Listener,
  room: string,
  { lastSeq, lastChange, joinedSeq }: Omit<SubscribedRoom, 'room'>,
): boolean {
  if (listener.rooms.has(room)) return false;
  listener.left.delete(room);
  listener.rooms.set(room, joinedSeq);
  feeds.open(room, { seq: lastSeq, change: lastChange }, joinedSeq);
  if (listener.live) listener.connection.join(room);
  return true;
}

/** False where the socket did not hear the room. */
function exit(feeds: RoomFeeds, listener: Listener, room: string): boolean {
  // The socket may have come into the room by its own word (`connectToRoom`) before this node heard that its user is in it.
  listener.connection.leave(room);
  if (!listener.live) listener.left.add(room);
  if (!listener.rooms.delete(room)) return false;
  feeds.close(room);
  return true;
}

/** By user. */
export function createListeners() {
  const byUser = new Map<string, Set<Listener>>();
  const told = new Set<(user: string, online: boolean) => void>();
  const none: readonly Listener[] = [];
  return {
    of: (user: string): readonly Listener[] => {
      const found = byUser.get(user);
      return found ? [...found] : none;
    },
    all: (): readonly Listener[] => [...byUser.values()].flatMap((each) => [...each]),
    users: (): readonly string[] => [...byUser.keys()],
    add(listener: Listener): void {
      const { userId } = listener.connection;
      const known = byUser.get(userId);
      byUser.set(userId, (known ?? new Set()).add(listener));
      if (!known) for (const tell of told) tell(userId, true);
    },
    remove(listener: Listener): void {
      const { userId } = listener.connection;
      const known = byUser.get(userId);
      if (!known?.delete(listener) || known.size > 0) return;
      byUser.delete(userId);
      for (const tell of told) tell(userId, false);
    },
    onUser: (listener: (user: string, online: boolean) => void): void => void told.add(listener),
  };
}
