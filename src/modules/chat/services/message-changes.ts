/** What becomes of messages that were sent: edits, reactions, removal. */
import type { Caller, UserCaller } from '../../../kernel/caller.ts';
import type { Transaction } from '../../../kernel/database/database.ts';
import { invalid } from '../../../kernel/errors.ts';
import { readWhile } from '../../../kernel/read-while.ts';
import { chatErrors } from '../errors.ts';
import {
  deleteMessage,
  type EditRow,
  editMessage,
  editsOf,
  nextChange,
  otherReactions,
  react,
  touchMessage,
} from '../queries/message-changes.ts';
import {
  type ListedMessage,
  type MessageRow,
  messageById,
  messageFor,
} from '../queries/messages.ts';
import {
  type ChatParts,
  distinct,
  reaches,
  requireMember,
  requireRole,
  requireWriter,
} from './chat-parts.ts';
import { deletedEvent, reactedEvent } from './wire.ts';

export interface MessageChanges {
  /** Throws CHAT_MESSAGE_NOT_FOUND, CHAT_WRITING_DENIED, CHAT_EDIT_EXPIRED. */
  edit(caller: UserCaller, messageId: string, content: string): Promise<void>;
  /** What it said before, the latest first: for its author and admins of the room. Throws ROOM_ROLE_REQUIRED. */
  edits(caller: UserCaller, messageId: string): Promise<readonly EditRow[]>;
  remove(caller: UserCaller, messageId: string): Promise<void>;
  /** For operators; those that are not there are left out. */
  removeAll(caller: Caller, messageIds: readonly string[]): Promise<void>;
  react(
    caller: UserCaller,
    messageId: string,
    emoji: string,
    remove: boolean,
  ): Promise<{ readonly reactions: ListedMessage['reactions'] }>;
}

export function createMessageChanges(parts: ChatParts): MessageChanges {
  const { database, events, config, hub } = parts;
  return {
    ...createRemoval(parts),
    async edits(caller, messageId) {
      const ask = async () => {
        const row = await readable(parts, caller, messageId);
        if (row.sender === caller.userId) return row;
        const member = await requireMember(parts, row.room, caller.userId);
        if (member.isDirect) throw chatErrors.ROOM_ROLE_REQUIRED();
        requireRole(member, 'admin');
        return row;
      };
      return readWhile(ask, (row) => editsOf(database, row.id));
    },
    async edit(caller, messageId, content) {
      const row = await readable(parts, caller, messageId);
      if (row.sender !== caller.userId || row.type === 'system')
        throw chatErrors.CHAT_MESSAGE_NOT_FOUND();
      await requireWriter(parts, row.room, caller.userId);
      requireText(content, config().limits.messageLength);
      const { windowSeconds, keepHistory } = config().edits;
      if (windowSeconds > 0 && Date.now() - row.createdAt.getTime() > windowSeconds * 1_000)
        throw chatErrors.CHAT_EDIT_EXPIRED();
      const change = await database.transaction(async (transaction) => {
        const next = await nextChange(transaction, row.room);
        if (
          next === undefined ||
          !(await editMessage(transaction, row.id, { content, change: next, keepHistory }))
        )
          throw chatErrors.CHAT_MESSAGE_NOT_FOUND();
        await events.emit(transaction, caller, {
          topic: 'chat:edit:ChatMessage',
          ids: [row.id],
          payload: { id: row.id, newMessage: content, room: row.room, change: next },
        });
        return next;
      });
      const data = { messageId: row.id, message: content, room: row.room };
      hub.stored(row.room, [{ change, event: 'message-edited', data, of: row.seq }]);
    },
    react: createReacting(parts),
  };
}

function createReacting(parts: ChatParts): MessageChanges['react'] {
  const { database, events, hub } = parts;
  return async (caller, messageId, emoji, remove) => {
    const row = await readable(parts, caller, messageId);
    if (!remove) await requireWriter(parts, row.room, caller.userId);
    const change = await database.transaction(async (transaction) => {
      const next = await nextChange(transaction, row.room);
      const what = { id: row.id, userId: caller.userId, emoji };
      if (!remove) await requireSpace(transaction, what);
      if (next === undefined || !(await react(transaction, what, remove))) return undefined;
      await touchMessage(transaction, row.id, next);
      await events.emit(transaction, caller, {
        topic: 'chat:react:ChatMessage',
        ids: [row.id],
        payload: { id: row.id, room: row.room, change: next },
      });
      return next;
    });
    const { reactions } = await readable(parts, caller, messageId);
    if (change !== undefined)
      hub.stored(row.room, [
        {
          ...{ change, of: row.seq, event: 'message-reaction' },
          data: reactedEvent({ ...row, reactions }),
        },
      ]);
    return { reactions };
  };
}

function createRemoval(parts: ChatParts): Pick<MessageChanges, 'remove' | 'removeAll'> {
  const { database, hub } = parts;
  const tellRemoved = (row: MessageRow, change: number): void =>
    hub.stored(row.room, [
      { change, of: row.seq, event: 'message-deleted', data: deletedEvent(row) },
    ]);

  return {
    async remove(caller, messageId) {
      const row = await readable(parts, caller, messageId);
      if (row.sender !== caller.userId) {
        const { role, isDirect } = await requireMember(parts, row.room, caller.userId);
        if (isDirect || !reaches(role, 'admin')) throw chatErrors.CHAT_MESSAGE_NOT_FOUND();
      }
      const change = await database.transaction((transaction) =>
        removeOne(parts, transaction, caller, row),
      );
      if (change === undefined) throw chatErrors.CHAT_MESSAGE_NOT_FOUND();
      tellRemoved(row, change);
    },
    async removeAll(caller, messageIds) {
      const removed = await database.transaction(async (transaction) => {
        const done: [MessageRow, number][] = [];
        for (const id of [...distinct(messageIds)].sort()) {
          const row = await messageById(transaction, id);
          const change = row && (await removeOne(parts, transaction, caller, row));
          if (row && change !== undefined) done.push([row, change]);
        }
        return done;
      });
      for (const [row, change] of removed) tellRemoved(row, change);
    },
  };
}

/** Throws CHAT_MESSAGE_NOT_FOUND unless the caller may read it. */
async function readable(
  { database, config }: Pick<ChatParts, 'database' | 'config'>,
  caller: UserCaller,
  messageId: string,
): Promise<ListedMessage> {
  const joinedOnly = config().history === 'joined';
  const found = await messageFor(database, caller.userId, messageId, joinedOnly);
  if (!found) throw chatErrors.CHAT_MESSAGE_NOT_FOUND();
  return found;
}

/** Different signs of one user on a message, and of all users: each comes with every answer about it. */
const MAX_OWN_REACTIONS = 20;
const MAX_REACTIONS = 100;

/** Throws REACTIONS_FULL where one more sign is one too many; the room is locked. */
async function requireSpace(
  transaction: Transaction,
  { id, userId, emoji }: { readonly id: string; readonly userId: string; readonly emoji: string },
): Promise<void> {
  const { own, all } = await otherReactions(transaction, { id, userId, emoji });
  if (own >= MAX_OWN_REACTIONS || all >= MAX_REACTIONS) throw chatErrors.REACTIONS_FULL();
}

/** Answers the number of the change; undefined when it is gone already. */
async function removeOne(
  { events, config }: Pick<ChatParts, 'events' | 'config'>,
  transaction: Transaction,
  caller: Caller,
  row: MessageRow,
): Promise<number | undefined> {
  const change = await nextChange(transaction, row.room);
  if (change === undefined) return undefined;
  const audited = config().auditMode;
  if (!(await deleteMessage(transaction, row, { change, audited }))) return undefined;
  const payload = { id: row.id, room: row.room, change };
  await events.emit(transaction, caller, {
    topic: 'chat:delete:ChatMessage',
    ids: [row.id],
    payload,
  });
  return change;
}

function requireText(content: string, longest: number): void {
  if (content.trim() === '') throw invalid('newMessage', 'minLength', 'must not be empty');
  if ([...content].length > longest)
    throw invalid('newMessage', 'maxLength', `has at most ${longest} characters`);
}
