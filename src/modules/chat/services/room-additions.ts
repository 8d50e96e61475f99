/** How users are added to a room that there is: at once, or by an invitation where joins are explicit. */
import type { Caller, UserCaller } from '../../../kernel/caller.ts';
import { chatErrors } from '../errors.ts';
import { lockRoom } from '../queries/rooms.ts';
import { type ChatParts, distinct, requireMember, requireRole } from './chat-parts.ts';
import type { Invitations } from './invitations.ts';
import { type RoomEntry, requireAddable } from './room-entry.ts';

export interface RoomAdditions {
  /** Answers whether they were invited instead. */
  addUsers(caller: UserCaller, roomId: string, users: readonly string[]): Promise<boolean>;
  addAsServer(caller: Caller, roomId: string, users: readonly string[]): Promise<void>;
}

export function createRoomAdditions(
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
      const { addUsers } = config().permissions;
      if (addUsers !== 'anyMember') requireRole(member, addUsers === 'admins' ? 'admin' : 'owner');
      if (!config().explicit_room_joins.enabled) {
        await add(caller, roomId, requested, caller.userId);
        return false;
      }
      const users = distinct(requested);
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
  };
}
