/** How members go out of a room, and what becomes of it when its owner or the last of them went. */
import type { Caller, UserCaller } from '../../../kernel/caller.ts';
import type { Transaction } from '../../../kernel/database/database.ts';
import { newId } from '../../../kernel/ids.ts';
import { chatErrors } from '../errors.ts';
import { dropInvitations } from '../queries/invitations.ts';
import {
  allMembers,
  countMembers,
  deleteMembers,
  membersAmong,
  setRoles,
} from '../queries/members.ts';
import {
  holdUsersOf,
  lockRoom,
  logParticipants,
  type RoomRow,
  removeRoom,
} from '../queries/rooms.ts';
import type { RoomRole } from '../schemas.ts';
import { type ChatParts, distinct, reaches, requireMember, requireRole } from './chat-parts.ts';
import type { Entry } from './room-entry.ts';

export interface RoomDepartures {
  removeUsers(caller: UserCaller, roomId: string, users: readonly string[]): Promise<void>;
  /** Does `ban` and takes the user out, where they are in the room: nobody who brings them in meanwhile undoes it. */
  keepOut(caller: UserCaller, roomId: string, user: string, ban: Ban): Promise<void>;
  removeAsServer(caller: Caller, roomId: string, users: readonly string[]): Promise<void>;
  leave(caller: UserCaller, roomId: string): Promise<void>;
}

type Ban = (transaction: Transaction) => Promise<void>;

/** What became of a room when members went. */
interface Departure {
  readonly room: RoomRow;
  readonly users: readonly string[];
  readonly deleted: boolean;
  /** Who owns the room from now on, where its last owner went. */
  readonly heir: string | undefined;
}

export function createRoomDepartures(parts: ChatParts): RoomDepartures {
  const { database, hub } = parts;
  const departing = createDeparting(parts);
  const departed = async (
    { room, users, deleted, heir }: Departure,
    by: string | null,
  ): Promise<void> => {
    await hub.membersChanged(room.id, users);
    hub.toRoom(room.id, 'participants-changed', { room: room.id, added: [], removed: users, by });
    tellHeir(parts, room.id, heir);
    if (deleted) await hub.roomDeleted(room.id, room.name);
  };

  return {
    async removeUsers(caller, roomId, requested) {
      requireRole(await requireMember(parts, roomId, caller.userId), 'admin');
      const users = distinct(requested);
      const gone = await database.transaction(async (transaction) => {
        const room = await lockDeparting(parts, transaction, roomId, users);
        const roles = await requireRemovable(parts, caller, roomId, users);
        if (roles.size === 0) throw chatErrors.CHAT_MEMBER_NOT_FOUND();
        return departing(transaction, caller, room, { users, action: 'remove' });
      });
      await departed(gone, caller.userId);
    },
    async keepOut(caller, roomId, user, ban) {
      const gone = await database.transaction(async (transaction) => {
        const room = await lockDeparting(parts, transaction, roomId, [user]);
        const roles = await requireRemovable(parts, caller, roomId, [user]);
        await ban(transaction);
        if (roles.size === 0) return undefined;
        return departing(transaction, caller, room, { users: [user], action: 'remove' });
      });
      if (gone) await departed(gone, caller.userId);
    },
    async removeAsServer(caller, roomId, requested) {
      const users = distinct(requested);
      const gone = await database.transaction(async (transaction) => {
        const room = await lockDeparting(parts, transaction, roomId, users);
        return departing(transaction, caller, room, { users, action: 'remove' });
      });
      await departed(gone, null);
    },
    async leave(caller, roomId) {
      const users = [caller.userId];
      const gone = await database.transaction(async (transaction) => {
        await requireMember({ database: parts.database }, roomId, caller.userId);
        const room = await lockDeparting(parts, transaction, roomId, users);
        return departing(transaction, caller, room, { users, action: 'leave' });
      });
      await departed(gone, caller.userId);
    },
  };
}

/** Locks a room, and everybody whom the departure touches before that. Throws CHAT_ROOM_NOT_FOUND. */
async function lockDeparting(
  { config }: Pick<ChatParts, 'config'>,
  transaction: Transaction,
  roomId: string,
  users: readonly string[],
): Promise<RoomRow> {
  const { auditMode, deleteEmptyRooms } = config();
  const last = deleteEmptyRooms ? users.length + 1 : users.length;
  await holdWhereItMayEnd(transaction, { roomId, last, audited: auditMode });
  const room = await lockRoom(transaction, roomId, users);
  if (!room) throw chatErrors.CHAT_ROOM_NOT_FOUND();
  return room;
}

/**
 * Throws unless the caller may take them out: roles as they are now that the room is locked. Answers those of the members
 * among them.
 */
async function requireRemovable(
  parts: Pick<ChatParts, 'database'>,
  caller: UserCaller,
  roomId: string,
  users: readonly string[],
): Promise<ReadonlyMap<string, RoomRole>> {
  const member = await requireMember(parts, roomId, caller.userId);
  requireRole(member, 'admin');
  if (member.isDirect) throw chatErrors.DIRECT_ROOM_PROTECTED();
  const roles = await membersAmong(parts.database, roomId, users);
  // Who has the same role is no less: only an owner removes admins, and nobody another owner.
  for (const [user, role] of roles)
    if (user !== caller.userId && reaches(role, member.role)) throw chatErrors.ROOM_ROLE_REQUIRED();
  return roles;
}

/** Takes members out of a locked room, and the room with the last of them. Throws CHAT_MEMBER_NOT_FOUND when none was in it. */
function createDeparting({ events, config }: ChatParts) {
  return async (
    transaction: Transaction,
    caller: Caller,
    room: RoomRow,
    { users, action }: Omit<Entry, 'roomId'>,
  ): Promise<Departure> => {
    const { auditMode, deleteEmptyRooms } = config();
    const roomId = room.id;
    const gone = await deleteMembers(transaction, roomId, users);
    if (gone.length === 0) throw chatErrors.CHAT_MEMBER_NOT_FOUND();
    const entries = gone.map((user) => ({ id: newId(), user, action }));
    await logParticipants(transaction, roomId, entries);
    for (const user of gone) await events.emit(transaction, caller, leftRoom(roomId, user));
    const left = await countMembers(transaction, roomId);
    const deleted = left === 0 || (left === 1 && deleteEmptyRooms);
    if (deleted) await takeAway(transaction, caller, { room, audited: auditMode, events });
    const heir = deleted ? undefined : await ensureOwner(transaction, roomId);
    return { room, users: gone, deleted, heir };
  };
}

const leftRoom = (roomId: string, user: string) => ({
  topic: 'chat:leaveRoom:ChatRoom',
  ids: [roomId],
  payload: { roomId, user, users: [user] },
});

/** Holds the users of a room of at most `last` members, unless rooms are kept: perhaps it goes with all that is in it. */
async function holdWhereItMayEnd(
  transaction: Transaction,
  { roomId, last, audited }: { roomId: string; last: number; audited: boolean },
): Promise<void> {
  if (!audited && (await countMembers(transaction, roomId)) <= last)
    await holdUsersOf(transaction, [roomId]);
}

/** When the last owner went, the longest of those with the highest role takes over. Answers who that is. */
async function ensureOwner(transaction: Transaction, roomId: string): Promise<string | undefined> {
  const members = await allMembers(transaction, roomId);
  if (members.some(({ role }) => role === 'owner')) return undefined;
  const heir = members.find(({ role }) => role === 'admin') ?? members[0];
  if (heir) await setRoles(transaction, roomId, [heir.user], 'owner');
  return heir?.user;
}

function tellHeir({ hub }: Pick<ChatParts, 'hub'>, room: string, heir: string | undefined): void {
  if (heir !== undefined) hub.toRoom(room, 'roles-changed', { room, users: [heir], role: 'owner' });
}

/** Rooms whose owners' accounts are gone get others, each under its lock. */
export async function giveOwners(
  parts: Pick<ChatParts, 'database' | 'hub'>,
  roomIds: readonly string[],
): Promise<void> {
  for (const id of roomIds) {
    const heir = await parts.database.transaction(async (transaction) =>
      (await lockRoom(transaction, id)) ? ensureOwner(transaction, id) : undefined,
    );
    tellHeir(parts, id, heir);
  }
}

interface TakingAway extends Pick<ChatParts, 'events'> {
  readonly room: RoomRow;
  readonly audited: boolean;
}

/** Deletes a room that is locked, with its invitations. Sockets are told after the commit. */
export async function takeAway(
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
