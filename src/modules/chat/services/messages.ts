/** Messages: what may be sent, and what becomes of it. */
import { type Caller, callerKey, type UserCaller } from '../../../kernel/caller.ts';
import { newId } from '../../../kernel/ids.ts';
import { chatErrors } from '../errors.ts';
import { hiddenReaders, memberOf, membersAmong, type PresentMember } from '../queries/members.ts';
import {
  changesAfter,
  countMessages,
  type ListedMessage,
  messageById,
  messageFor,
  messagesOf,
  messagesOfAll,
} from '../queries/messages.ts';
import { roomName } from '../queries/rooms.ts';
import type { MessageType } from '../schemas.ts';
import { type ChatParts, distinct, hiddenBefore, readAsMember } from './chat-parts.ts';
import { createMessageChanges, type MessageChanges } from './message-changes.ts';
import { type ContentInput, contentOf } from './message-content.ts';
import type { SentMessage } from './room-queues.ts';
import type { Place } from './sender-order.ts';
import type { Sending } from './sending.ts';
import { eventOf, messageEvent } from './wire.ts';

/* What a client has missed of a room, page by page. */

interface MessageSync {
  /** What happened after a message, or after a change; `more`: ask again from the last one. */
  sync(
    caller: UserCaller,
    roomId: string,
    from: { readonly afterSeq?: number | undefined; readonly afterChange?: number | undefined },
  ): Promise<SyncAnswer>;
}

interface SyncAnswer {
  readonly messages: readonly unknown[];
  readonly changes: readonly { readonly event: string; readonly data: unknown }[];
  readonly lastSeq: number;
  readonly lastChange: number;
  readonly more: boolean;
}

const SYNC_PAGE = 200;

function createSync(parts: ChatParts): MessageSync['sync'] {
  return (caller, roomId, from) =>
    readAsMember(parts, roomId, caller.userId, (member) => missedBy(parts, member, roomId, from));
}

async function missedBy(
  parts: ChatParts,
  member: PresentMember,
  ...[roomId, { afterSeq, afterChange }]: readonly [
    roomId: string,
    from: Parameters<MessageSync['sync']>[2],
  ]
): Promise<SyncAnswer> {
  const { database } = parts;
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
    afterChange === undefined ? [] : await changesAfter(database, roomId, afterChange, SYNC_PAGE);
  const more = messages.length === SYNC_PAGE || changes.length === SYNC_PAGE;
  return {
    messages: messages.map(messageEvent),
    changes: changes.flatMap((row) => {
      const isNew = row.seq > (afterSeq ?? 0);
      const told = row.seq > hidden ? eventOf(row, isNew) : undefined;
      return told ? [told] : [];
    }),
    lastSeq:
      messages.at(-1)?.seq ??
      // A message stands where it was last changed: one of the first may come on a later page, and is new there.
      (more ? from : Math.max(from, member.lastSeq, ...changes.map(({ seq }) => seq))),
    lastChange: changes.at(-1)?.change ?? afterChange ?? member.lastChange,
    more,
  };
}

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

export interface Messages extends MessageChanges, MessageSync {
  /** Throws 400, 403, 404. What comes a second time with its nonce is answered as it was, and told to the sender again. */
  send(
    caller: UserCaller,
    roomId: string,
    input: ContentInput | string,
    place?: Place,
  ): Promise<SentMessage>;
  sendAsServer(caller: Caller, message: ServerMessage): Promise<SentMessage | undefined>;
  list(caller: UserCaller, query: MessageQuery): Promise<MessagePage>;
  /** Throws CHAT_MESSAGE_NOT_FOUND. */
  get(caller: UserCaller, messageId: string): Promise<ListedMessage>;
}

const MAX_MENTIONS = 50;

export function createMessages(parts: ChatParts, sending: Sending): Messages {
  const { database, config } = parts;
  const joinedOnly = (): boolean => config().history === 'joined';
  return {
    ...createMessageChanges(parts),
    async send(caller, roomId, input, place) {
      const content = contentOf(input, config().limits);
      if (content.type === 'system') throw chatErrors.SYSTEM_MESSAGE_REFUSED();
      const room = roomId.toLowerCase();
      const message = await memberMessage(parts, caller, { ...content, room });
      await place?.before;
      const storing = sending.send(room, message);
      place?.leave();
      const sent = await storing;
      if (sent.duplicate) await tellAgain(parts, caller.userId, sent.id);
      return sent;
    },
    sendAsServer: (caller, message) => sendAsServer(parts, sending, caller, message),
    async list(caller, { roomId, ...query }) {
      const { userId } = caller;
      if (roomId === undefined) {
        const found = await messagesOfAll(database, userId, { ...query, joinedOnly: joinedOnly() });
        return { ...found, rows: await withoutHiddenReaders(database, userId, found.rows) };
      }
      return readAsMember(parts, roomId, userId, async (member) => {
        const page = { ...query, room: roomId, from: hiddenBefore(parts, member) };
        const [rows, count] = await Promise.all([
          messagesOf(database, page),
          countMessages(database, page),
        ]);
        const isPlain = !member.isDirect;
        return { rows: isPlain ? rows : await withoutHiddenReaders(database, userId, rows), count };
      });
    },
    async get(caller, messageId) {
      const found = await messageFor(database, caller.userId, messageId, joinedOnly());
      if (!found) throw chatErrors.CHAT_MESSAGE_NOT_FOUND();
      return (await withoutHiddenReaders(database, caller.userId, [found]))[0] ?? found;
    },
    sync: createSync(parts),
  };
}

interface Draft extends ReturnType<typeof contentOf> {
  readonly room: string;
}

/** The message of a member as it is stored. Throws FILE_REFUSED; who is mentioned and not in the room is left out. */
async function memberMessage(
  parts: ChatParts,
  caller: UserCaller,
  { room, type, content, files, nonce, threadRoot, mentions }: Draft,
) {
  await requireFiles(parts, caller, files);
  const meant = distinct(mentions).slice(0, MAX_MENTIONS);
  const called =
    meant.length === 0 ? [] : [...(await membersAmong(parts.database, room, meant)).keys()];
  return {
    ...{ id: newId(), sender: caller.userId, asMember: true, type, content, files, nonce },
    ...{ threadRoot, mentions: called, actor: callerKey(caller) },
  };
}

/** In direct rooms, the user is not told how far those have read who have blocked them. */
async function withoutHiddenReaders(
  database: ChatParts['database'],
  userId: string,
  rows: readonly ListedMessage[],
): Promise<readonly ListedMessage[]> {
  const hidden = await hiddenReaders(database, userId, distinct(rows.map(({ room }) => room)));
  if (hidden.size === 0) return rows;
  return rows.map((row) => ({
    ...row,
    readBy: row.readBy.filter((reader) => reader !== hidden.get(row.room)),
  }));
}

/** Tells the sender alone of a message that is stored already. */
async function tellAgain({ database, hub }: ChatParts, userId: string, id: string): Promise<void> {
  const row = await messageById(database, id);
  if (!row || row.deleted) return;
  const { createdAt: _createdAt, ...data } = messageEvent(row);
  hub.toUsers([userId], 'message', data);
}

/** Throws FILE_REFUSED unless the sender may have the content of all of them, as those who get the message may. */
async function requireFiles(
  { storage }: Pick<ChatParts, 'storage'>,
  caller: Caller,
  files: readonly string[],
): Promise<void> {
  if (files.length === 0) return;
  const readable = await storage.current()?.readable(caller, files, 'content');
  const refused = files.findIndex((id) => !readable?.has(id));
  if (refused < 0) return;
  const message = 'there is no such file, or you may not read it';
  throw chatErrors.FILE_REFUSED({
    message: `files.${refused}: ${message}`,
    errors: [{ path: `files.${refused}`, rule: 'access', message }],
  });
}

async function sendAsServer(
  parts: ChatParts,
  sending: Sending,
  caller: Caller,
  { roomId, userId, content, contentType = 'text', files, persist = true }: ServerMessage,
): Promise<SentMessage | undefined> {
  const { config, hub, database } = parts;
  const checked = contentOf({ contentType, content, files: files && [...files] }, config().limits);
  await requireFiles(parts, caller, checked.files);
  const room = roomId.toLowerCase();
  const sender = userId?.toLowerCase() ?? null;
  if (!persist) {
    const isThere =
      sender === null ? await roomName(database, room) : await memberOf(database, room, sender);
    if (isThere === undefined) throw chatErrors.CHAT_ROOM_NOT_FOUND();
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
