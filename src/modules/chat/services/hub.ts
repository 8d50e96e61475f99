/**
 * The sockets of this node and what they hear. What is stored is delivered by its number in the room: a notice from the
 * node that wrote it comes at once and may be lost, the event comes later and is not; whatever of it comes first, a gap
 * is filled from the database. So each socket hears each change of a room once and in order, whichever node wrote it.
 */
import type { Kernel } from '../../../host/kernel.ts';
import type { PublishedEvent } from '../../../kernel/events/events.ts';
import { createNodeBroadcast } from '../../../kernel/events/node-broadcast.ts';
import type { Logger } from '../../../kernel/telemetry/logger.ts';
import { createRoomFeeds, type Emit, type RoomFeeds, type StoredChange } from './room-feeds.ts';
import { createListeners, createSocketRooms, type SocketRooms } from './socket-rooms.ts';

export const namespaceName = '/chat';

export interface Hub extends Pick<SocketRooms, 'admit'> {
  /** Changes of a room that this node has stored, in their order. Call it after the commit. */
  stored(room: string, changes: readonly StoredChange[]): void;
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
  /** Rooms that somebody on this node hears. */
  rooms(): number;
  onUser(listener: (user: string, online: boolean) => void): void;
  stop(): void;
}

type NodeNotice =
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

const noticesTopic = 'chat.words';
const membersTopic = 'chat.members';
const deletedTopic = 'chat.deleted';

interface Dependencies extends Pick<Kernel, 'database' | 'bus' | 'events' | 'sockets' | 'metrics'> {
  readonly log: Logger;
  /** Whether members hear only of what was written since they joined. */
  readonly joinedOnly: () => boolean;
}

/** Listening to the bus cannot be ended: one hub per process, whose module comes and goes. */
export function createHub(dependencies: Dependencies): Hub {
  const { database, bus, events, sockets } = dependencies;
  const listeners = createListeners();
  const emit: Emit = (room, event, data, of) => {
    if (of === undefined || !dependencies.joinedOnly() || !feeds.hasJoinedAfter(room, of))
      sockets.broadcast(namespaceName, room, event, data);
    else
      for (const { connection, rooms } of listeners.all())
        if ((rooms.get(room) ?? of) < of && connection.hears(room)) connection.emit(event, data);
  };
  const feeds = createRoomFeeds({ ...dependencies, emit });
  const { admit, reconcile, drop } = createSocketRooms({ database, listeners, feeds, emit });

  const receive = (notice: NodeNotice): void => {
    if (notice.kind === 'stored') feeds.offer(notice.room, notice.changes);
    else if (notice.kind === 'room') emit(notice.room, notice.event, notice.data);
    else
      for (const user of notice.users)
        for (const { connection } of listeners.of(user)) connection.emit(notice.event, notice.data);
  };
  const broadcast = createBroadcast(dependencies, receive);
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
    admit,
    stored: (room, changes) => {
      feeds.offer(room, changes);
      broadcast({ kind: 'stored', room, changes });
    },
    toRoom: (room, event, data) => broadcast({ kind: 'room', room, event, data }),
    toUsers: (users, event, data) => broadcast({ kind: 'users', users, event, data }),
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
    rooms: feeds.count,
    onUser: listeners.onUser,
    stop: unfollow,
  };
}

/** Says things to this node at once, and to the others with all that is said in the same turn. */
function createBroadcast(
  { bus, metrics }: Pick<Dependencies, 'bus' | 'metrics'>,
  receive: (notice: NodeNotice) => void,
): (notice: NodeNotice) => void {
  const dropped = metrics.counter(
    'chat_words_dropped_total',
    'What sockets of other nodes should have heard at once: of what is stored they hear later',
  );
  // Whoever misses it fills the gap when the event comes; what is not stored may be lost.
  const tellOthers = createNodeBroadcast<NodeNotice>({
    bus,
    topic: noticesTopic,
    receive,
    onDropped: (count) => dropped.inc({}, count),
  });
  return (notice) => {
    if (notice.kind !== 'stored') receive(notice);
    tellOthers(notice, sizeOf(notice));
  };
}

/** Bytes of what is told beside the text of a message. */
const BESIDE_TEXT = 400;

const sizeOf = (notice: NodeNotice): number =>
  notice.kind === 'stored'
    ? notice.changes.reduce((sum, { data }) => sum + sizeOfData(data), 0)
    : sizeOfData(notice.data);

function sizeOfData(data: unknown): number {
  const { content, message } = (data ?? {}) as { content?: unknown; message?: unknown };
  const text = content ?? message;
  return BESIDE_TEXT + (typeof text === 'string' ? text.length : 0);
}

interface Following extends Pick<SocketRooms, 'reconcile' | 'drop'> {
  readonly feeds: RoomFeeds;
}

/** Events are not lost: what a notice did not bring is found here. */
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
