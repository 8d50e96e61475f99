/** How rooms are made: by users, between two of them, by an operator or another module. */
import type { Caller, UserCaller } from '../../../kernel/caller.ts';
import type { Transaction } from '../../../kernel/database/database.ts';
import { invalid } from '../../../kernel/errors.ts';
import { newId } from '../../../kernel/ids.ts';
import { insertMembers, membersAmong } from '../queries/members.ts';
import { directRoom, insertRoom, lockRoom, logParticipants } from '../queries/rooms.ts';
import { type ChatParts, distinct, requireSmallMetadata } from './chat-parts.ts';
import type { Invitations } from './invitations.ts';
import { type RoomEntry, requireAddable } from './room-entry.ts';

export interface RoomCreation {
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
}

export function createRoomCreation(
  parts: ChatParts,
  entry: RoomEntry,
  invitations: Invitations,
): RoomCreation {
  const { database, config } = parts;
  return {
    direct: createDirect(parts, entry),
    async create(caller, { name, users: requested, metadata }) {
      requireSmallMetadata(metadata);
      const id = newId();
      const creator = caller.userId;
      const others = distinct(requested).filter((user) => user !== creator);
      requireCapacity(parts, others.length + 1);
      const explicit = config().explicit_room_joins.enabled;
      const users = explicit ? [creator] : [creator, ...others];
      await database.transaction(async (transaction) => {
        await requireAddable(parts, transaction, { users: [creator, ...others], by: creator });
        await makeRoom(parts, transaction, caller, { id, name, creator, metadata, users });
        const room = explicit && others.length > 0 ? await lockRoom(transaction, id) : undefined;
        if (room) await invitations.invite(transaction, caller, room, others);
      });
      await parts.hub.membersChanged(id, users);
      return id;
    },
    async createAsServer(caller, { name, participants, creator }) {
      const id = newId();
      const users = distinct(creator === undefined ? participants : [creator, ...participants]);
      requireCapacity(parts, users.length);
      await database.transaction(async (transaction) => {
        await requireAddable(parts, transaction, { users, by: null });
        await makeRoom(parts, transaction, caller, {
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

function createDirect(parts: ChatParts, { entered }: RoomEntry): RoomCreation['direct'] {
  const { database } = parts;
  return async (caller, requested) => {
    const other = requested.toLowerCase();
    if (other === caller.userId) throw invalid('user', 'self', 'name somebody else');
    const users = [caller.userId, other].sort();
    const directKey = users.join(':');
    const known = await directRoom(database, directKey);
    const { id, made } = await database.transaction(async (transaction) => {
      const creator = caller.userId;
      // Who deletes it meanwhile has the room; whoever waited for them makes another one.
      const held = known === undefined ? undefined : await lockRoom(transaction, known, users);
      if (!held) {
        await requireAddable(parts, transaction, { users, by: creator });
        const room = { id: newId(), name: 'Direct', creator, directKey, users };
        return { id: room.id, made: await makeRoom(parts, transaction, caller, room) };
      }
      const present = await membersAmong(transaction, held.id, users);
      await requireAddable(parts, transaction, { users, by: creator, present });
      // Who left it comes back when they write to each other again.
      const back = users.filter((user) => !present.has(user));
      await insertMembers(
        transaction,
        held.id,
        back.map((user) => ({ id: newId(), user, role: 'member' as const })),
      );
      return { id: held.id, made: back.length > 0 };
    });
    if (made) await entered(id, users, caller.userId);
    return made || id === known ? id : ((await directRoom(database, directKey)) ?? id);
  };
}

function requireCapacity({ config }: Pick<ChatParts, 'config'>, count: number): void {
  const { participantsPerRoom } = config().limits;
  if (count > participantsPerRoom)
    throw invalid('users', 'maxItems', `a room holds at most ${participantsPerRoom} members`);
}

interface Making {
  readonly id: string;
  readonly name: string;
  readonly creator: string | null;
  readonly metadata?: unknown;
  readonly directKey?: string;
  readonly users: readonly string[];
}

/** Stores a room with its first members. False when there is one with its direct key. */
async function makeRoom(
  { events }: Pick<ChatParts, 'events'>,
  transaction: Transaction,
  caller: Caller,
  { id, name, creator, metadata, directKey, users }: Making,
): Promise<boolean> {
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
}
