/** Rooms and who is in them. Every change is one transaction under the lock of the room; sockets follow before the call returns. */
import type { Caller, UserCaller } from '../../../kernel/caller.ts';
import type { Transaction } from '../../../kernel/database/database.ts';
import { invalid } from '../../../kernel/errors.ts';
import { newId } from '../../../kernel/ids.ts';
import { chatErrors } from '../errors.ts';
import { dropInvitations } from '../queries/invitations.ts';
import {
  allMembers,
  countMembers,
  deleteMembers,
  insertMembers,
  membersAmong,
  setRoles,
} from '../queries/members.ts';
import {
  countRoomsOf,
  directRoom,
  insertRoom,
  type ListedRoom,
  lockRoom,
  logParticipants,
  type RoomRow,
  removeRoom,
  roomOf,
  roomsOf,
  updateRoom,
} from '../queries/rooms.ts';
import type { RoomRole } from '../schemas.ts';
import { type ChatParts, distinct, reaches, requireMember, requireRole } from './chat-parts.ts';
import type { Invitations } from './invitations.ts';
import { type Entry, type RoomEntry, requireAddable } from './room-entry.ts';

export interface RoomChange {
  readonly name?: string | undefined;
  readonly metadata?: unknown;
}

export interface Rooms {
  list(
    caller: UserCaller,
    page: { readonly skip: number; readonly limit: number },
  ): Promise<{ readonly rows: readonly ListedRoom[]; readonly count: number }>;
  /** Throws CHAT_ROOM_NOT_FOUND. */
  get(caller: UserCaller, roomId: string): Promise<ListedRoom>;
  /** Answers its id. Where joins are explicit the users are invited. */
  create(
    caller: UserCaller,
    room: { readonly name: string; readonly users: readonly string[]; readonly metadata?: unknown },
  ): Promise<string>;
  /** The one room of two users, made when it is not there. */
  direct(caller: UserCaller, other: string): Promise<string>;
  /** By an operator or another module: never invites. */
  createAsServer(
    caller: Caller,
    room: {
      readonly name: string;
      readonly participants: readonly string[];
      readonly creator?: string | undefined;
    },
  ): Promise<string>;
  /** Answers whether they were invited instead. */
  addUsers(caller: UserCaller, roomId: string, users: readonly string[]): Promise<boolean>;
  addAsServer(caller: Caller, roomId: string, users: readonly string[]): Promise<void>;
  removeUsers(caller: UserCaller, roomId: string, users: readonly string[]): Promise<void>;
  removeAsServer(caller: Caller, roomId: string, users: readonly string[]): Promise<void>;
  leave(caller: UserCaller, roomId: string): Promise<void>;
  update(caller: UserCaller, roomId: string, change: RoomChange): Promise<void>;
  setRoles(
    caller: UserCaller,
    roomId: string,
    users: readonly string[],
    role: RoomRole,
  ): Promise<void>;
  /** Those that are not there are left out. `audited`: whether they are kept; as configured unless given. */
  removeRooms(caller: Caller, roomIds: readonly string[], audited?: boolean): Promise<void>;
}

/** What became of a room when members went. */
interface Departure {
  readonly room: RoomRow;
  readonly users: readonly string[];
  readonly deleted: boolean;
}

export function createRooms(
  parts: ChatParts,
  { enter, entered }: RoomEntry,
  invitations: Invitations,
): Rooms {
  const { database, config, hub } = parts;
  const departing = createDeparting(parts);
  const departed = async (
    { room, users, deleted }: Departure,
    by: string | null,
  ): Promise<void> => {
    await hub.membersChanged(room.id, users);
    hub.toRoom(room.id, 'participants-changed', { room: room.id, added: [], removed: users, by });
    if (deleted) await hub.roomDeleted(room.id, room.name);
  };
  const add = async (
    caller: Caller,
    roomId: string,
    wanted: readonly string[],
    by: string | null,
  ): Promise<void> => {
    const users = distinct(wanted);
    await database.transaction(async (transaction) => {
      await requireAddable(parts, transaction, { roomId, users, by });
      const { isDirect } = await enter(transaction, caller, { roomId, users, action: 'add' });
      if (isDirect) throw chatErrors.DIRECT_ROOM_PROTECTED();
    });
    await entered(roomId, users, by);
  };

  return {
    ...creation(parts, entered, invitations),
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
    async addUsers(caller, roomId, wanted) {
      const member = await requireMember(parts, roomId, caller.userId);
      const { addUsers } = config().permissions;
      if (addUsers !== 'anyMember') requireRole(member, addUsers === 'admins' ? 'admin' : 'owner');
      if (!config().explicit_room_joins.enabled) {
        await add(caller, roomId, wanted, caller.userId);
        return false;
      }
      const users = distinct(wanted);
      await database.transaction(async (transaction) => {
        const room = await lockRoom(transaction, roomId);
        if (!room) throw chatErrors.CHAT_ROOM_NOT_FOUND();
        if (room.isDirect) throw chatErrors.DIRECT_ROOM_PROTECTED();
        await requireAddable(parts, transaction, { roomId, users, by: caller.userId });
        await invitations.invite(transaction, caller, room, users);
      });
      return true;
    },
    addAsServer: (caller, roomId, users) => add(caller, roomId, users, null),
    async removeUsers(caller, roomId, wanted) {
      const member = await requireMember(parts, roomId, caller.userId);
      requireRole(member, 'admin');
      const users = distinct(wanted);
      const gone = await database.transaction(async (transaction) => {
        const roles = await membersAmong(transaction, roomId, users);
        if (roles.size === 0) throw chatErrors.CHAT_MEMBER_NOT_FOUND();
        // Who has the same role is no less: only an owner removes admins, and nobody another owner.
        for (const [user, role] of roles)
          if (
            user !== caller.userId &&
            (role === 'owner' || (role === 'admin' && member.role !== 'owner'))
          )
            throw chatErrors.ROOM_ROLE_REQUIRED();
        return departing(transaction, caller, { roomId, users, action: 'remove' });
      });
      await departed(gone, caller.userId);
    },
    async removeAsServer(caller, roomId, users) {
      const entry = { roomId, users: distinct(users), action: 'remove' } as const;
      const gone = await database.transaction((transaction) =>
        departing(transaction, caller, entry),
      );
      await departed(gone, null);
    },
    async leave(caller, roomId) {
      const entry = { roomId, users: [caller.userId], action: 'leave' } as const;
      const gone = await database.transaction(async (transaction) => {
        await requireMember({ database: parts.database }, roomId, caller.userId);
        return departing(transaction, caller, entry);
      });
      await departed(gone, caller.userId);
    },
  };
}

/** Takes members out, and the room with the last of them. Throws CHAT_MEMBER_NOT_FOUND when none was in it. */
function createDeparting({ events, config }: ChatParts) {
  return async (
    transaction: Transaction,
    caller: Caller,
    { roomId, users, action }: Entry,
  ): Promise<Departure> => {
    const room = await lockRoom(transaction, roomId);
    if (!room) throw chatErrors.CHAT_ROOM_NOT_FOUND();
    const gone = await deleteMembers(transaction, roomId, users);
    if (gone.length === 0) throw chatErrors.CHAT_MEMBER_NOT_FOUND();
    const entries = gone.map((user) => ({ id: newId(), user, action }));
    await logParticipants(transaction, roomId, entries);
    for (const user of gone)
      await events.emit(transaction, caller, {
        topic: 'chat:leaveRoom:ChatRoom',
        ids: [roomId],
        payload: { roomId, user, users: [user] },
      });
    const left = await countMembers(transaction, roomId);
    const deleted = left === 0 || (left === 1 && config().deleteEmptyRooms);
    if (deleted) await takeAway(transaction, caller, { room, audited: config().auditMode, events });
    else await ensureOwner(transaction, roomId);
    return { room, users: gone, deleted };
  };
}

/** When the last owner went, the longest of those with the highest role takes over. */
async function ensureOwner(transaction: Transaction, roomId: string): Promise<void> {
  const members = await allMembers(transaction, roomId);
  if (members.some(({ role }) => role === 'owner')) return;
  const heir = members.find(({ role }) => role === 'admin') ?? members[0];
  if (heir) await setRoles(transaction, roomId, [heir.user], 'owner');
}

interface TakingAway extends Pick<ChatParts, 'events'> {
  readonly room: RoomRow;
  readonly audited: boolean;
}

async function takeAway(
  transaction: Transaction,
  caller: Caller,
  { room, audited, events }: TakingAway,
): Promise<void> {
  await dropInvitations(transaction, room.id, undefined);
  await removeRoom(transaction, room.id, audited);
  await events.emit(transaction, caller, {
    topic: 'chat:deleteRoom:ChatRoom',
    ids: [room.id],
    payload: { roomId: room.id, name: room.name },
  });
}

function creation(
  parts: ChatParts,
  entered: RoomEntry['entered'],
  invitations: Invitations,
): Pick<Rooms, 'create' | 'direct' | 'createAsServer'> {
  const { database, events, config } = parts;
  const make = async (
    transaction: Transaction,
    caller: Caller,
    { id, name, creator, metadata, directKey, users }: Making,
  ): Promise<boolean> => {
    if (!(await insertRoom(transaction, { id, name, creator, metadata, directKey }))) return false;
    await insertMembers(
      transaction,
      id,
      users.map((user, at) => ({
        id: newId(),
        user,
        role: user === creator || (creator === null && at === 0) ? 'owner' : 'member',
      })),
    );
    const entries = users.map((user) => ({
      id: newId(),
      user,
      action: user === creator ? 'create' : 'join',
    }));
    await logParticipants(transaction, id, entries);
    await events.emit(transaction, caller, {
      topic: 'chat:create:ChatRoom',
      ids: [id],
      payload: { _id: id, name, participants: users, roomId: id, users },
    });
    return true;
  };
  const requireRoom = (count: number): void => {
    const { participantsPerRoom } = config().limits;
    if (count > participantsPerRoom)
      throw invalid('users', 'maxItems', `a room holds at most ${participantsPerRoom} members`);
  };

  return {
    async create(caller, { name, users: wanted, metadata }) {
      const id = newId();
      const creator = caller.userId;
      const others = distinct(wanted).filter((user) => user !== creator);
      requireRoom(others.length + 1);
      const explicit = config().explicit_room_joins.enabled;
      const users = explicit ? [creator] : [creator, ...others];
      await database.transaction(async (transaction) => {
        await requireAddable(parts, transaction, { users: [creator, ...others], by: creator });
        await make(transaction, caller, { id, name, creator, metadata, users });
        const room = explicit && others.length > 0 ? await lockRoom(transaction, id) : undefined;
        if (room) await invitations.invite(transaction, caller, room, others);
      });
      await parts.hub.membersChanged(id, users);
      return id;
    },
    async direct(caller, wanted) {
      const other = wanted.toLowerCase();
      if (other === caller.userId) throw invalid('user', 'self', 'name somebody else');
      const users = [caller.userId, other].sort();
      const directKey = users.join(':');
      const known = await directRoom(database, directKey);
      const id = known ?? newId();
      const made = await database.transaction(async (transaction) => {
        await requireAddable(parts, transaction, { users, by: caller.userId });
        const creator = caller.userId;
        if (!known)
          return make(transaction, caller, { id, name: 'Direct', creator, directKey, users });
        // Who left it comes back when they write to each other again.
        const present = await membersAmong(transaction, id, users);
        const back = users.filter((user) => !present.has(user));
        await insertMembers(
          transaction,
          id,
          back.map((user) => ({ id: newId(), user, role: 'member' as const })),
        );
        return back.length > 0;
      });
      if (!made && !known) return (await directRoom(database, directKey)) ?? id;
      if (made) await entered(id, users, caller.userId);
      return id;
    },
    async createAsServer(caller, { name, participants, creator }) {
      const id = newId();
      const users = distinct(creator === undefined ? participants : [creator, ...participants]);
      requireRoom(users.length);
      await database.transaction(async (transaction) => {
        await requireAddable(parts, transaction, { users, by: null });
        await make(transaction, caller, {
          id,
          name,
          creator: creator?.toLowerCase() ?? null,
          users,
        });
      });
      await parts.hub.membersChanged(id, users);
      return id;
    },
  };
}

interface Making {
  readonly id: string;
  readonly name: string;
  readonly creator: string | null;
  readonly metadata?: unknown;
  readonly directKey?: string;
  readonly users: readonly string[];
}

function upkeep(parts: ChatParts): Pick<Rooms, 'update' | 'setRoles' | 'removeRooms'> {
  const { database, events, config, hub } = parts;
  return {
    async update(caller, roomId, change) {
      const member = await requireMember(parts, roomId, caller.userId);
      requireRole(member, 'admin');
      await updateRoom(database, roomId, change);
      hub.toRoom(roomId, 'room-updated', { room: roomId, ...change });
    },
    async setRoles(caller, roomId, wanted, role) {
      const users = distinct(wanted);
      await database.transaction(async (transaction) => {
        if (!(await lockRoom(transaction, roomId))) throw chatErrors.CHAT_ROOM_NOT_FOUND();
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
    async removeRooms(caller, roomIds, audited = config().auditMode) {
      const removed = await database.transaction(async (transaction) => {
        const rooms: RoomRow[] = [];
        for (const id of [...distinct(roomIds)].sort()) {
          const room = await lockRoom(transaction, id);
          if (!room) continue;
          await takeAway(transaction, caller, { room, audited, events });
          rooms.push(room);
        }
        return rooms;
      });
      for (const { id, name } of removed) await hub.roomDeleted(id, name);
    },
  };
}
