/** Rooms and messages as clients see them. REST and sockets have words of their own for the same things; both are kept. */
import type { ListedMessage, MessageRow } from '../queries/messages.ts';
import type { ListedRoom } from '../queries/rooms.ts';

export interface Emitted {
  readonly event: string;
  readonly data: unknown;
}

export type ChangedMessage = MessageRow & Partial<Pick<ListedMessage, 'reactions'>>;

/** A message on sockets. */
export const messageEvent = (row: MessageRow) => ({
  _id: row.id,
  ...(row.nonce === null ? {} : { nonce: row.nonce }),
  sender: row.sender,
  contentType: row.type,
  ...(row.content === null ? {} : { content: row.content }),
  ...(row.files.length === 0 ? {} : { files: row.files }),
  ...(row.mentions.length === 0 ? {} : { mentions: row.mentions }),
  ...(row.threadRoot === null ? {} : { threadRoot: row.threadRoot }),
  room: row.room,
  seq: row.seq,
  createdAt: row.createdAt.toISOString(),
});

export const editedEvent = ({ id, content, room }: MessageRow) => ({
  messageId: id,
  message: content,
  room,
});
export const deletedEvent = ({ id, room }: Pick<MessageRow, 'id' | 'room'>) => ({
  messageId: id,
  room,
});
export const reactedEvent = ({ id, room, reactions = [] }: ChangedMessage) => ({
  messageId: id,
  room,
  reactions,
});

/** What listeners are told of a stored change; nothing of a message that was gone before they heard of it. */
export function eventOf(row: ChangedMessage, isNew: boolean): Emitted | undefined {
  if (isNew) return row.deleted ? undefined : { event: 'message', data: messageEvent(row) };
  if (row.deleted) return { event: 'message-deleted', data: deletedEvent(row) };
  if (row.changeKind === 'reacted') return { event: 'message-reaction', data: reactedEvent(row) };
  return { event: 'message-edited', data: editedEvent(row) };
}

/** A message over REST. */
export const messageDocument = (row: ListedMessage) => ({
  _id: row.id,
  message: row.content,
  messageType: row.type,
  files: [...row.files],
  senderUser: row.sender,
  room: row.room,
  readBy: [...row.readBy],
  deleted: row.deleted,
  createdAt: row.createdAt.toISOString(),
  updatedAt: row.updatedAt.toISOString(),
  editedAt: row.editedAt?.toISOString() ?? null,
  threadRoot: row.threadRoot,
  replyCount: row.replyCount,
  reactions: row.reactions.map(({ emoji, count, users }) => ({ emoji, count, users: [...users] })),
  mentions: [...row.mentions],
  seq: row.seq,
});

export const roomDocument = (row: ListedRoom) => ({
  _id: row.id,
  name: row.name,
  participants: [...row.participants],
  participantCount: row.participantCount,
  creator: row.creator,
  participantsLog: [...row.participantsLog],
  deleted: row.deleted,
  isDirect: row.isDirect,
  metadata: row.metadata ?? null,
  createdAt: row.createdAt.toISOString(),
  updatedAt: row.updatedAt.toISOString(),
  lastMessageAt: row.lastMessageAt?.toISOString() ?? null,
  lastSeq: row.lastSeq,
  ...(row.role === null
    ? {}
    : {
        lastMessage: row.lastMessage && {
          ...row.lastMessage,
          createdAt: new Date(row.lastMessage.createdAt).toISOString(),
        },
        lastReadSeq: row.lastReadSeq ?? 0,
        unreadCount: row.unreadCount ?? 0,
        myRole: row.role,
        muted: row.muted ?? false,
      }),
});
