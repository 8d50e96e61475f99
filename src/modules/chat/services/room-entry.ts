/** How users come into rooms: by being added, by an invitation, by an operator. */
import type { Caller } from '../../../kernel/caller.ts';
import type { Transaction } from '../../../kernel/database/database.ts';
import { newId } from '../../../kernel/ids.ts';
import { chatErrors } from '../errors.ts';
import { countMembers, insertMembers, membersAmong, usersToAdd } from '../queries/members.ts';
import { bannedAmong } from '../queries/moderation.ts';
import { holdUsers, lockRoom, logParticipants, type RoomRow } from '../queries/rooms.ts';
import type { LogAction } from '../schemas.ts';
import type { ChatParts } from './chat-parts.ts';

export interface Entry {
  readonly roomId: string;
  readonly users: readonly string[];
  readonly action: LogAction;
}

export interface RoomEntry {
  /** Lets them in, inside of a transaction; throws 409 when the room is full. Answers the room. */
  enter(transaction: Transaction, caller: Caller, entry: Entry): Promise<RoomRow>;
  /** Tells sockets that users came. Call it after the commit. */
  entered(roomId: string, users: readonly string[], by: string | null): Promise<void>;
}

export function createRoomEntry(parts: ChatParts): RoomEntry {
  const { hub } = parts;
  return {
    enter: createEnter(parts),
    async entered(room, users, by) {
      await hub.membersChanged(room, users);
      hub.toRoom(room, 'participants-changed', { room, added: users, removed: [], by });
    },
  };
}

export interface Addable {
  /** Absent: a new room. */
  readonly roomId?: string;
  readonly users: readonly string[];
  /** The user who adds them; nobody for operators and modules. */
  readonly by: string | null;
  /** Who is in the room already and needs no place among their rooms. */
  readonly present?: ReadonlyMap<string, unknown>;
}

/**
 * Throws 400 for users that there are not, 403 for those that may not or do not want to, 409 for those with too many rooms.
 * Holds the users, so that their rooms are counted one after the other: call it before a room is locked.
 */
export async function requireAddable(
  { config }: ChatParts,
  transaction: Transaction,
  { roomId, users, by, present = new Map() }: Addable,
): Promise<void> {
  await holdUsers(transaction, users);
  const known = await usersToAdd(transaction, users, by);
  const there = new Set(known.map(({ id }) => id));
  const missing = users.findIndex((id) => !there.has(id));
  if (missing >= 0)
    throw chatErrors.CHAT_USER_UNKNOWN({
      message: `users.${missing}: there is no such user`,
      errors: [{ path: `users.${missing}`, rule: 'exists', message: 'there is no such user' }],
    });
  if (by !== null && known.some(({ blocked }) => blocked)) throw chatErrors.CHAT_USER_BLOCKED();
  if (known.some(({ id, rooms }) => !present.has(id) && rooms >= config().limits.roomsPerUser))
    throw chatErrors.ROOM_LIMIT_EXCEEDED();
  if (roomId !== undefined && by !== null) {
    if ((await bannedAmong(transaction, roomId, users)).length > 0)
      throw chatErrors.CHAT_USER_NOT_ALLOWED();
  }
}

/** Throws like `requireAddable` for somebody who comes by an invitation that is older than a ban. */
export async function requireEnterable(
  parts: ChatParts,
  transaction: Transaction,
  roomId: string,
  user: string,
): Promise<void> {
  await requireAddable(parts, transaction, { roomId, users: [user], by: null });
  if ((await bannedAmong(transaction, roomId, [user])).length > 0)
    throw chatErrors.CHAT_USER_NOT_ALLOWED();
}

function createEnter({ events, config }: ChatParts): RoomEntry['enter'] {
  return async (transaction, caller, { roomId, users, action }) => {
    const room = await lockRoom(transaction, roomId, users);
    if (!room) throw chatErrors.CHAT_ROOM_NOT_FOUND();
    if ((await membersAmong(transaction, roomId, users)).size > 0)
      throw chatErrors.CHAT_MEMBER_EXISTS();
    const count = await countMembers(transaction, roomId);
    if (count + users.length > config().limits.participantsPerRoom)
      throw chatErrors.CHAT_ROOM_FULL();
    await insertMembers(
      transaction,
      roomId,
      users.map((user) => ({ id: newId(), user, role: 'member' as const })),
    );
    const entries = users.map((user) => ({ id: newId(), user, action }));
    await logParticipants(transaction, roomId, entries);
    await events.emit(transaction, caller, {
      topic: 'chat:addParticipant:ChatRoom',
      ids: [roomId],
      payload: { _id: roomId, name: room.name, roomId, users },
    });
    return room;
  };
}
