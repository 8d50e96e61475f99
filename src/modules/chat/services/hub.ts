/**
 * The sockets of this node and what they hear. What is stored is delivered by its number in the room: a word from the
 * node that wrote it comes at once and may be lost, the event comes later and is not; whatever of it comes first, a gap
 * is filled from the database. So each socket hears each change of a room once and in order, whichever node wrote it.
 */
import type { Kernel } from '../../../host/kernel.ts';
import type { PublishedEvent } from '../../../kernel/events/events.ts';
import type { AdmittedSocket, SocketConnection } from '../../../kernel/sockets/socket-namespace.ts';
import type { Logger } from '../../../kernel/telemetry/logger.ts';
import { type FoundRoom, presentIn, roomsToHear } from '../queries/members.ts';
import { createRoomFeeds, type RoomFeeds, type StoredChange } from './room-feeds.ts';

export const namespaceName = '/chat';

export interface Hub extends Pick<RoomFeeds, 'stored'> {
  admit(connection: SocketConnection): Promise<AdmittedSocket>;
  /** What is not stored, to all sockets in a room. */
  toRoom(room: string, event: string, data: unknown): void;
  /** To all sockets of these users. */
  toUsers(users: readonly string[], event: string, data: unknown): void;
  /** Users came or went: holds on every node when it resolves. Call it after the commit. */
  membersChanged(room: string, users: readonly string[]): Promise<void>;
  /** Tells all who are in it, and lets nobody hear of it any more. */
  roomDeleted(room: string, roomName: string): Promise<void>;
  /** Users with a socket on this node. */
  hasUser(user: string): boolean;
  users(): readonly string[];
  sockets(): number;
  onUser(listener: (user: string, online: boolean) => void): void;
  stop(): void;
}

interface Listener {
  readonly connection: SocketConnection;
  readonly rooms: Set<string>;
  live: boolean;
}

type Word =
  | { readonly kind: 'stored'; readonly room: string; readonly changes: readonly StoredChange[] }
  | {
      readonly kind: 'room';
      readonly room: string;
      readonly event: string;
      readonly data: unknown;
    }
  | {
      readonly kind: 'users';
      readonly users: readonly string[];
      readonly event: string;
      readonly data: unknown;
    };

const wordsTopic = 'chat.words';
const membersTopic = 'chat.members';
const deletedTopic = 'chat.deleted';

interface Dependencies extends Pick<Kernel, 'database' | 'bus' | 'events' | 'sockets'> {
  readonly log: Logger;
}

/** Listening to the bus cannot be ended: one hub per process, whose module comes and goes. */
export function createHub(dependencies: Dependencies): Hub {
  const { database, bus, events, sockets } = dependencies;
  const listeners = createListeners();
  const feeds = createRoomFeeds({
    ...dependencies,
    emit: (room, event, data) => sockets.broadcast(namespaceName, room, event, data),
  });

  const enter = (
    listener: Listener,
    room: string,
    lastSeq: number,
    lastChange: number,
  ): boolean => {
    if (listener.rooms.has(room)) return false;
    listener.rooms.add(room);
    feeds.open(room, { seq: lastSeq, change: lastChange });
    if (listener.live) listener.connection.join(room);
    return true;
  };
  const exit = (listener: Listener, room: string): boolean => {
    if (!listener.rooms.delete(room)) return false;
    feeds.close(room);
    listener.connection.leave(room);
    return true;
  };

  const greet = (listener: Listener, room: string, { name, lastSeq, lastChange }: FoundRoom) => {
    if (enter(listener, room, lastSeq, lastChange))
      listener.connection.emit('room-joined', { room, roomName: name });
  };
  const reconcile = async (room: string, users: readonly string[]): Promise<void> => {
    const here = users.filter((user) => listeners.of(user).length > 0);
    if (here.length === 0) return;
    const found = await presentIn(database, room, here);
    const isIn = new Set(found?.users);
    for (const listener of here.flatMap((user) => listeners.of(user))) {
      const user = listener.connection.userId;
      if (found && isIn.has(user)) greet(listener, room, found);
      else if (exit(listener, room)) listener.connection.emit('room-left', { room, user });
    }
  };
  const drop = (room: string, roomName: string): void => {
    sockets.broadcast(namespaceName, room, 'room-deleted', { room, roomName });
    for (const listener of listeners.all()) exit(listener, room);
  };
  const hear = (word: Word): void => {
    if (word.kind === 'stored') feeds.offer(word.room, word.changes);
    else if (word.kind === 'room')
      sockets.broadcast(namespaceName, word.room, word.event, word.data);
    else
      for (const user of word.users)
        for (const { connection } of listeners.of(user)) connection.emit(word.event, word.data);
  };
  const say = createWords(bus, hear);
  bus.subscribe(membersTopic, (payload) => {
    const { room, users } = payload as { room: string; users: readonly string[] };
    return reconcile(room, users);
  });
  bus.subscribe(deletedTopic, (payload) => {
    const { room, roomName } = payload as { room: string; roomName: string };
    drop(room, roomName);
  });
  const unfollow = events.subscribe('chat:*', (event) => follow(event, { feeds, reconcile, drop }));

  return {
    admit: (connection) => admit(connection),
    stored: (room, changes) => {
      feeds.offer(room, changes);
      say({ kind: 'stored', room, changes });
    },
    toRoom: (room, event, data) => say({ kind: 'room', room, event, data }),
    toUsers: (users, event, data) => say({ kind: 'users', users, event, data }),
    async membersChanged(room, users) {
      await reconcile(room, users);
      await bus.announce(membersTopic, { room, users });
    },
    async roomDeleted(room, roomName) {
      drop(room, roomName);
      await bus.announce(deletedTopic, { room, roomName });
    },
    hasUser: (user) => listeners.of(user).length > 0,
    users: () => listeners.users(),
    sockets: () => listeners.all().length,
    onUser: listeners.onUser,
    stop: unfollow,
  };

  async function admit(connection: SocketConnection): Promise<AdmittedSocket> {
    const listener: Listener = { connection, rooms: new Set(), live: false };
    // Registered first: who is added or removed while the rooms are read is not missed.
    listeners.add(listener);
    const closed = (): void => {
      listeners.remove(listener);
      for (const room of listener.rooms) feeds.close(room);
      listener.rooms.clear();
    };
    try {
      const rooms = await roomsToHear(database, connection.userId);
      for (const { room, lastSeq, lastChange } of rooms) enter(listener, room, lastSeq, lastChange);
    } catch (error) {
      closed();
      throw error;
    }
    return {
      connected() {
        listener.live = true;
        for (const room of listener.rooms) connection.join(room);
      },
      closed,
    };
  }
}

/** By user. */
function createListeners() {
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

/** Says things to this node at once, and to the others with all that is said in the same turn. */
function createWords(bus: Kernel['bus'], hear: (word: Word) => void): (word: Word) => void {
  let waiting: Word[] = [];
  const flush = (): void => {
    const words = waiting;
    waiting = [];
    // Whoever misses it fills the gap when the event comes; what is not stored may be lost.
    void bus.publish(wordsTopic, words).catch(() => undefined);
  };
  bus.subscribe(wordsTopic, (payload) => {
    for (const word of payload as readonly Word[]) hear(word);
  });
  return (word) => {
    if (word.kind !== 'stored') hear(word);
    if (waiting.push(word) === 1) setImmediate(flush);
  };
}

interface Following {
  readonly feeds: RoomFeeds;
  readonly reconcile: (room: string, users: readonly string[]) => Promise<void>;
  readonly drop: (room: string, roomName: string) => void;
}

/** Events are not lost: what a word did not bring is found here. */
async function follow(
  { topic, payload = {} }: PublishedEvent,
  { feeds, reconcile, drop }: Following,
): Promise<void> {
  const { room, change, users, roomId, name } = payload as {
    room?: string;
    change?: number;
    users?: readonly string[];
    roomId?: string;
    name?: string;
  };
  if (topic === 'chat:deleteRoom:ChatRoom' && roomId !== undefined) {
    if (feeds.isOpen(roomId)) drop(roomId, name ?? '');
  } else if (users !== undefined && roomId !== undefined) await reconcile(roomId, users);
  else if (room !== undefined && change !== undefined) feeds.reached(room, change);
}
