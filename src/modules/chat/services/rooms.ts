/** Rooms and who is in them. Every change is one transaction under the lock of the room; sockets follow before the call returns. */
import type { Caller, UserCaller } from '../../../kernel/caller.ts';
import { chatErrors } from '../errors.ts';
import { allMembers, membersAmong, setRoles } from '../queries/members.ts';
import {
  countRoomsOf,
  holdUsersOf,
  type ListedRoom,
  lockRoom,
  type RoomRow,
  roomOf,
  roomsOf,
  updateRoom,
} from '../queries/rooms.ts';
import type { RoomRole } from '../schemas.ts';
import {
  addingRole,
  type ChatParts,
  distinct,
  reaches,
  requireMember,
  requireRole,
  requireSmallMetadata,
  requireWriter,
} from './chat-parts.ts';
import type { Invitations } from './invitations.ts';
import { createRoomCreation, type RoomCreation } from './room-creation.ts';
import { createRoomDepartures, type RoomDepartures, takeAway } from './room-departures.ts';
import { type RoomEntry, requireAddable } from './room-entry.ts';

/* How users are added to a room that there is: at once, or by an invitation where joins are explicit. */

interface RoomAdditions {
  /** Answers whether they were invited instead. */
  addUsers(caller: UserCaller, roomId: string, users: readonly string[]): Promise<boolean>;
  addAsServer(caller: Caller, roomId: string, users: readonly string[]): Promise<void>;
}

function createRoomAdditions(
  parts: ChatParts,
  { enter, entered }: RoomEntry,
  invitations: Invitations,
): RoomAdditions {
  const { database, config } = parts;
  const add = async (
    caller: Caller,
    roomId: string,
    requested: readonly string[],
    by: string | null,
  ): Promise<void> => {
    const users = distinct(requested);
    await database.transaction(async (transaction) => {
      await requireAddable(parts, transaction, { roomId, users, by });
      const { isDirect } = await enter(transaction, caller, { roomId, users, action: 'add' });
      if (isDirect) throw chatErrors.DIRECT_ROOM_PROTECTED();
    });
    await entered(roomId, users, by);
  };

  return {
    async addUsers(caller, roomId, requested) {
      const member = await requireMember(parts, roomId, caller.userId);
      requireRole(member, addingRole(parts));
      if (!config().explicit_room_joins.enabled) {
        await add(caller, roomId, requested, caller.userId);
        return false;
      }
      const users = distinct(requested);
      await database.transaction(async (transaction) => {
        const room = await lockRoom(transaction, roomId, [caller.userId, ...users]);
        if (!room) throw chatErrors.CHAT_ROOM_NOT_FOUND();
        if (room.isDirect) throw chatErrors.DIRECT_ROOM_PROTECTED();
        await requireAddable(parts, transaction, { roomId, users, by: caller.userId });
        await invitations.invite(transaction, caller, room, users);
      });
      return true;
    },
    addAsServer: (caller, roomId, users) => add(caller, roomId, users, null),
  };
}

export interface RoomChange {
  readonly name?: string | undefined;
  readonly metadata?: unknown;
}

/** A room that is no more. */
export interface DeletedRoom {
  readonly _id: string;
  readonly name: string;
  readonly participants: readonly string[];
}

interface RoomUpkeep {
  update(caller: UserCaller, roomId: string, change: RoomChange): Promise<void>;
  setRoles(
    caller: UserCaller,
    roomId: string,
    users: readonly string[],
    role: RoomRole,
  ): Promise<void>;
  /** Those that are not there are left out. They are kept where the configuration audits. */
  removeRooms(caller: Caller, roomIds: readonly string[]): Promise<void>;
  /** For good, by another module. Throws CHAT_ROOM_NOT_FOUND. */
  deleteAsServer(caller: Caller, roomId: string): Promise<DeletedRoom>;
}

export interface Rooms extends RoomCreation, RoomAdditions, RoomDepartures, RoomUpkeep {
  list(
    caller: UserCaller,
    page: { readonly skip: number; readonly limit: number },
  ): Promise<{ readonly rows: readonly ListedRoom[]; readonly count: number }>;
  /** Throws CHAT_ROOM_NOT_FOUND. */
  get(caller: UserCaller, roomId: string): Promise<ListedRoom>;
}

export function createRooms(parts: ChatParts, entry: RoomEntry, invitations: Invitations): Rooms {
  const { database, config } = parts;
  return {
    ...createRoomCreation(parts, entry, invitations),
    ...createRoomAdditions(parts, entry, invitations),
    ...createRoomDepartures(parts),
    ...upkeep(parts),
    async list({ userId }, page) {
      const joinedOnly = config().history === 'joined';
      const [rows, count] = await Promise.all([
        roomsOf(database, userId, { ...page, joinedOnly }),
        countRoomsOf(database, userId),
      ]);
      return { rows, count };
    },
    async get({ userId }, roomId) {
      const room = await roomOf(database, userId, roomId, config().history === 'joined');
      if (!room) throw chatErrors.CHAT_ROOM_NOT_FOUND();
      return room;
    },
  };
}

function upkeep(parts: ChatParts): RoomUpkeep {
  const { database, events, config, hub } = parts;
  return {
    async update(caller, roomId, change) {
      requireSmallMetadata(change.metadata);
      const member = await requireWriter(parts, roomId, caller.userId);
      requireRole(member, 'admin');
      await updateRoom(database, roomId, change);
      hub.toRoom(roomId, 'room-updated', { room: roomId, ...change });
    },
    async setRoles(caller, roomId, requested, role) {
      const users = distinct(requested);
      await database.transaction(async (transaction) => {
        const room = await lockRoom(transaction, roomId, users);
        if (!room) throw chatErrors.CHAT_ROOM_NOT_FOUND();
        const { role: own } = await requireMember(parts, roomId, caller.userId);
        if (!reaches(own, 'owner')) throw chatErrors.ROOM_ROLE_REQUIRED();
        const present = await membersAmong(transaction, roomId, users);
        if (present.size < users.length) throw chatErrors.CHAT_MEMBER_NOT_FOUND();
        await setRoles(transaction, roomId, users, role);
        const owners = (await allMembers(transaction, roomId)).filter(
          (one) => one.role === 'owner',
        );
        if (owners.length === 0) throw chatErrors.ROOM_OWNER_REQUIRED();
      });
      hub.toRoom(roomId, 'roles-changed', { room: roomId, users, role });
    },
    async removeRooms(caller, roomIds) {
      const audited = config().auditMode;
      const removed = await database.transaction(async (transaction) => {
        const rooms: RoomRow[] = [];
        const ids = [...distinct(roomIds)].sort();
        if (!audited) await holdUsersOf(transaction, ids);
        for (const id of ids) {
          const room = await lockRoom(transaction, id);
          if (!room) continue;
          await takeAway(transaction, caller, { room, audited, events });
          rooms.push(room);
        }
        return rooms;
      });
      for (const { id, name } of removed) await hub.roomDeleted(id, name);
    },
    deleteAsServer: createDeletion(parts),
  };
}

function createDeletion({ database, events, hub }: ChatParts): RoomUpkeep['deleteAsServer'] {
  return async (caller, roomId) => {
    const deleted = await database.transaction(async (transaction) => {
      await holdUsersOf(transaction, [roomId]);
      const room = await lockRoom(transaction, roomId);
      if (!room) throw chatErrors.CHAT_ROOM_NOT_FOUND();
      const participants = (await allMembers(transaction, room.id)).map(({ user }) => user);
      await takeAway(transaction, caller, { room, audited: false, events });
      const payload = { _id: room.id, name: room.name, participants };
      await events.emit(transaction, caller, {
        topic: 'chat:delete:ChatRoom',
        ids: [room.id],
        payload,
      });
      return payload;
    });
    await hub.roomDeleted(deleted._id, deleted.name);
    return deleted;
  };
}
