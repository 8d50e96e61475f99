/** Messages: what may be sent, and what becomes of it. */
import { type Caller, callerKey, type UserCaller } from '../../../kernel/caller.ts';
import type { Transaction } from '../../../kernel/database/database.ts';
import { invalid } from '../../../kernel/errors.ts';
import { newId } from '../../../kernel/ids.ts';
import { chatErrors } from '../errors.ts';
import { membersAmong } from '../queries/members.ts';
import {
  changesAfter,
  countMessages,
  deleteMessage,
  editMessage,
  type ListedMessage,
  type MessageRow,
  messageById,
  messageFor,
  messagesOf,
  messagesOfAll,
  nextChange,
  react,
  touchMessage,
} from '../queries/messages.ts';
import type { MessageType } from '../schemas.ts';
import { type ChatParts, distinct, hiddenBefore, reaches, requireMember } from './chat-parts.ts';
import { type ContentInput, contentOf } from './message-content.ts';
import type { Sending, SentMessage } from './sending.ts';
import { deletedEvent, eventOf, messageEvent, reactedEvent } from './wire.ts';

export interface MessageQuery {
  readonly roomId?: string | undefined;
  readonly before?: number | undefined;
  readonly after?: number | undefined;
  readonly threadRoot?: string | undefined;
  readonly search?: string | undefined;
  readonly skip: number;
  readonly limit: number;
}

export interface MessagePage {
  readonly rows: readonly ListedMessage[];
  readonly count: number;
}

/** A message of an operator or of another module. */
export interface ServerMessage {
  readonly roomId: string;
  /** Nobody: the server itself. */
  readonly userId?: string | undefined;
  readonly content?: string | undefined;
  readonly contentType?: MessageType | undefined;
  readonly files?: readonly string[] | undefined;
  /** False: told, not stored. */
  readonly persist?: boolean | undefined;
}

export interface Messages {
  /** Throws 400, 403, 404. What comes a second time with its nonce is answered as it was, and told to the sender again. */
  send(caller: UserCaller, roomId: string, input: ContentInput | string): Promise<SentMessage>;
  sendAsServer(caller: Caller, message: ServerMessage): Promise<SentMessage | undefined>;
  list(caller: UserCaller, query: MessageQuery): Promise<MessagePage>;
  /** Throws CHAT_MESSAGE_NOT_FOUND. */
  get(caller: UserCaller, messageId: string): Promise<ListedMessage>;
  edit(caller: UserCaller, messageId: string, content: string): Promise<void>;
  remove(caller: UserCaller, messageId: string): Promise<void>;
  /** For operators; those that are not there are left out. */
  removeAll(caller: Caller, messageIds: readonly string[]): Promise<void>;
  react(
    caller: UserCaller,
    messageId: string,
    emoji: string,
    remove: boolean,
  ): Promise<{ readonly reactions: ListedMessage['reactions'] }>;
  /** What happened after a message, or after a change; `more`: ask again from the last one. */
  sync(
    caller: UserCaller,
    roomId: string,
    from: { readonly afterSeq?: number | undefined; readonly afterChange?: number | undefined },
  ): Promise<SyncAnswer>;
}

export interface SyncAnswer {
  readonly messages: readonly unknown[];
  readonly changes: readonly { readonly event: string; readonly data: unknown }[];
  readonly lastSeq: number;
  readonly lastChange: number;
  readonly more: boolean;
}

const MAX_MENTIONS = 50;
const SYNC_PAGE = 200;

export function createMessages(parts: ChatParts, sending: Sending): Messages {
  const { database, config } = parts;
  const joinedOnly = (): boolean => config().history === 'joined';
  const checked = async (
    caller: UserCaller,
    roomId: string,
    { type, content, files, nonce, threadRoot, mentions }: ReturnType<typeof contentOf>,
  ) => {
    await requireFiles(parts, caller, files);
    const meant = distinct(mentions).slice(0, MAX_MENTIONS);
    const called =
      meant.length === 0 ? [] : [...(await membersAmong(database, roomId, meant)).keys()];
    return {
      ...{ id: newId(), sender: caller.userId, asMember: true, type, content, files, nonce },
      ...{ threadRoot, mentions: called, actor: callerKey(caller) },
    };
  };

  return {
    ...changing(parts),
    async send(caller, roomId, input) {
      const content = contentOf(input, config().limits);
      if (content.type === 'system') throw chatErrors.SYSTEM_MESSAGE_REFUSED();
      const room = roomId.toLowerCase();
      const sent = await sending.send(room, await checked(caller, room, content));
      if (sent.duplicate) await tellAgain(parts, caller.userId, sent.id);
      return sent;
    },
    sendAsServer: (caller, message) => sendAsServer(parts, sending, caller, message),
    async list(caller, { roomId, ...query }) {
      if (roomId === undefined)
        return messagesOfAll(database, caller.userId, { ...query, joinedOnly: joinedOnly() });
      const member = await requireMember(parts, roomId, caller.userId);
      const page = { ...query, room: roomId, from: hiddenBefore(parts, member) };
      const [rows, count] = await Promise.all([
        messagesOf(database, page),
        countMessages(database, page),
      ]);
      return { rows, count };
    },
    async get(caller, messageId) {
      const found = await messageFor(database, caller.userId, messageId, joinedOnly());
      if (!found) throw chatErrors.CHAT_MESSAGE_NOT_FOUND();
      return found;
    },
    async sync(caller, roomId, { afterSeq, afterChange }) {
      const member = await requireMember(parts, roomId, caller.userId);
      const hidden = hiddenBefore(parts, member);
      const from = Math.max(hidden, afterSeq ?? 0);
      const messages =
        afterChange === undefined
          ? await messagesOf(database, {
              room: roomId,
              from,
              after: from,
              skip: 0,
              limit: SYNC_PAGE,
            })
          : [];
      const changes =
        afterChange === undefined
          ? []
          : await changesAfter(database, roomId, afterChange, SYNC_PAGE);
      return {
        messages: messages.map(messageEvent),
        changes: changes.flatMap((row) => {
          const isNew = row.seq > (afterSeq ?? 0);
          const told = row.seq > hidden ? eventOf(row, isNew) : undefined;
          return told ? [told] : [];
        }),
        lastSeq: messages.at(-1)?.seq ?? Math.max(from, ...changes.map(({ seq }) => seq)),
        lastChange: changes.at(-1)?.change ?? afterChange ?? 0,
        more: messages.length === SYNC_PAGE || changes.length === SYNC_PAGE,
      };
    },
  };

  async function tellAgain({ hub: to }: ChatParts, userId: string, id: string): Promise<void> {
    const row = await messageById(database, id);
    if (!row || row.deleted) return;
    const { createdAt: _createdAt, ...data } = messageEvent(row);
    to.toUsers([userId], 'message', data);
  }
}

type Changing = Pick<Messages, 'edit' | 'remove' | 'removeAll' | 'react'>;

function changing(parts: ChatParts): Changing {
  const { database, events, config, hub } = parts;
  const own = async (caller: UserCaller, messageId: string): Promise<ListedMessage> => {
    const found = await messageFor(database, caller.userId, messageId, false);
    if (!found) throw chatErrors.CHAT_MESSAGE_NOT_FOUND();
    return found;
  };
  const removeOne = async (
    transaction: Transaction,
    caller: Caller,
    row: MessageRow,
  ): Promise<number | undefined> => {
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
  };
  const tellRemoved = (row: MessageRow, change: number): void =>
    hub.stored(row.room, [{ change, event: 'message-deleted', data: deletedEvent(row) }]);

  return {
    async edit(caller, messageId, content) {
      const row = await own(caller, messageId);
      if (row.sender !== caller.userId || row.type === 'system')
        throw chatErrors.CHAT_MESSAGE_NOT_FOUND();
      requireText(content, config().limits.messageLength);
      const change = await database.transaction(async (transaction) => {
        const next = await nextChange(transaction, row.room);
        if (
          next === undefined ||
          !(await editMessage(transaction, row.id, { content, change: next }))
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
      hub.stored(row.room, [{ change, event: 'message-edited', data }]);
    },
    async remove(caller, messageId) {
      const row = await own(caller, messageId);
      if (row.sender !== caller.userId) {
        const { role } = await requireMember(parts, row.room, caller.userId);
        if (!reaches(role, 'admin')) throw chatErrors.CHAT_MESSAGE_NOT_FOUND();
      }
      const change = await database.transaction((transaction) =>
        removeOne(transaction, caller, row),
      );
      if (change === undefined) throw chatErrors.CHAT_MESSAGE_NOT_FOUND();
      tellRemoved(row, change);
    },
    async removeAll(caller, messageIds) {
      const removed = await database.transaction(async (transaction) => {
        const done: [MessageRow, number][] = [];
        for (const id of [...distinct(messageIds)].sort()) {
          const row = await messageById(transaction, id);
          const change = row && (await removeOne(transaction, caller, row));
          if (row && change !== undefined) done.push([row, change]);
        }
        return done;
      });
      for (const [row, change] of removed) tellRemoved(row, change);
    },
    async react(caller, messageId, emoji, remove) {
      const row = await own(caller, messageId);
      const change = await database.transaction(async (transaction) => {
        const next = await nextChange(transaction, row.room);
        const what = { id: row.id, userId: caller.userId, emoji };
        if (next === undefined || !(await react(transaction, what, remove))) return undefined;
        await touchMessage(transaction, row.id, next);
        await events.emit(transaction, caller, {
          topic: 'chat:react:ChatMessage',
          ids: [row.id],
          payload: { id: row.id, room: row.room, change: next },
        });
        return next;
      });
      const { reactions } = await own(caller, messageId);
      if (change !== undefined)
        hub.stored(row.room, [
          { change, event: 'message-reaction', data: reactedEvent({ ...row, reactions }) },
        ]);
      return { reactions };
    },
  };
}

function requireText(content: string, longest: number): void {
  if (content.trim() === '') throw invalid('newMessage', 'minLength', 'must not be empty');
  if ([...content].length > longest)
    throw invalid('newMessage', 'maxLength', `has at most ${longest} characters`);
}

/** Throws FILE_REFUSED unless the sender may read all of them. */
async function requireFiles(
  { storage }: Pick<ChatParts, 'storage'>,
  caller: UserCaller,
  files: readonly string[],
): Promise<void> {
  if (files.length === 0) return;
  const readable = await storage.current()?.readable(caller, files);
  const refused = files.findIndex((id) => !readable?.has(id));
  if (refused < 0) return;
  const message = 'there is no such file, or you may not read it';
  throw chatErrors.FILE_REFUSED({
    message: `files.${refused}: ${message}`,
    errors: [{ path: `files.${refused}`, rule: 'access', message }],
  });
}

async function sendAsServer(
  { config, hub }: ChatParts,
  sending: Sending,
  caller: Caller,
  { roomId, userId, content, contentType = 'text', files, persist = true }: ServerMessage,
): Promise<SentMessage | undefined> {
  const checked = contentOf({ contentType, content, files: files && [...files] }, config().limits);
  const room = roomId.toLowerCase();
  const sender = userId?.toLowerCase() ?? null;
  if (!persist) {
    const { type: told, content: text, files: list } = checked;
    hub.toRoom(room, 'message', {
      ...{ sender, contentType: told, room, createdAt: new Date().toISOString() },
      ...(text === null ? {} : { content: text, message: text }),
      ...(list.length === 0 ? {} : { files: list }),
    });
    return undefined;
  }
  return sending.send(room, {
    ...{ id: newId(), sender, asMember: sender !== null, type: checked.type },
    ...{ content: checked.content, files: checked.files, mentions: [], nonce: null },
    ...{ threadRoot: null, actor: callerKey(caller) },
  });
}
