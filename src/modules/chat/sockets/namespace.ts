/** The namespace `/chat/`, and what its clients are sent (specification chat.md 3.4). */
import Type from 'typebox';
import { invalidInput } from '../../../kernel/operations/problems.ts';
import { isUuid } from '../../../kernel/operations/uuid-spelling.ts';
import type { SentEvent, SocketNamespace } from '../../../kernel/sockets/socket-namespace.ts';
import { requireMember } from '../services/chat-parts.ts';
import type { ChatServices } from '../services/chat-services.ts';
import { namespaceName } from '../services/hub.ts';
import { chatEvents } from './events.ts';

const Id = Type.String({ format: 'uuid' });
const Sequence = Type.Integer({ minimum: 0, maximum: 2_147_483_647 });
const Time = Type.String({ format: 'date-time' });
const optional = Type.Optional;

/** What clients are sent. */
const sentEvents: readonly SentEvent[] = [
  {
    name: 'message',
    summary: 'A new message, also one of your own; or a typing sign, which has no id.',
    payload: Type.Object({
      _id: optional(Id),
      nonce: optional(Type.String()),
      sender: Type.Union([Id, Type.Null()]),
      contentType: Type.String(),
      content: optional(Type.String()),
      files: optional(Type.Array(Id)),
      mentions: optional(Type.Array(Id)),
      threadRoot: optional(Id),
      room: Id,
      seq: optional(Sequence),
      createdAt: optional(Time),
    }),
  },
  {
    name: 'message-edited',
    summary: 'A message says something else now.',
    payload: Type.Object({ messageId: Id, message: Type.String(), room: Id }),
  },
  {
    name: 'message-deleted',
    summary: 'A message is gone.',
    payload: Type.Object({ messageId: Id, room: Id }),
  },
  {
    name: 'message-reaction',
    summary: 'The signs on a message changed.',
    payload: Type.Object({ messageId: Id, room: Id, reactions: Type.Array(Type.Unknown()) }),
  },
  {
    name: 'messagesRead',
    summary: 'A member has read a room.',
    payload: Type.Object({ room: Id, readBy: Id }),
  },
  {
    name: 'typing',
    summary: 'A member is writing, or no more.',
    payload: Type.Object({ room: Id, user: Id, state: Type.String() }),
  },
  {
    name: 'room-joined',
    summary: 'You are in a room from now on.',
    payload: Type.Object({ room: Id, roomName: Type.String() }),
  },
  {
    name: 'room-left',
    summary: 'You are in a room no more.',
    payload: Type.Object({ room: Id, user: Id }),
  },
  {
    name: 'room-deleted',
    summary: 'A room is gone.',
    payload: Type.Object({ room: Id, roomName: Type.String() }),
  },
  {
    name: 'room-updated',
    summary: 'A room has another name or other metadata.',
    payload: Type.Object({
      room: Id,
      name: optional(Type.String()),
      metadata: optional(Type.Unknown()),
    }),
  },
  {
    name: 'room-invitation',
    summary: 'Somebody invites you.',
    payload: Type.Object({ room: Id, roomName: Type.String(), sender: Id }),
  },
  {
    name: 'participants-changed',
    summary: 'Members came or went.',
    payload: Type.Object({
      room: Id,
      added: Type.Array(Id),
      removed: Type.Array(Id),
      by: Type.Union([Id, Type.Null()]),
    }),
  },
  {
    name: 'roles-changed',
    summary: 'Members have another role.',
    payload: Type.Object({ room: Id, users: Type.Array(Id), role: Type.String() }),
  },
  {
    name: 'silenced',
    summary: 'You may not write in a room until then; null: again.',
    payload: Type.Object({ room: Id, until: Type.Union([Time, Type.Null()]) }),
  },
  {
    name: 'presence-changed',
    summary: 'Somebody you asked about came or went.',
    payload: Type.Object({
      userId: Id,
      status: Type.String(),
      lastSeen: Type.Union([Time, Type.Null()]),
    }),
  },
  {
    name: 'gap',
    summary: 'Too much happened to be told: load the room again, or `sync` after this number.',
    payload: Type.Object({ room: Id, afterSeq: Sequence }),
  },
];

/** As `connectToRoom` does. Throws 400 and CHAT_ROOM_NOT_FOUND. */
async function requireRoom({ parts }: ChatServices, userId: string, room: string): Promise<void> {
  if (!isUuid(room))
    throw invalidInput([{ path: 'room', rule: 'format', message: 'must be a UUID' }]);
  await requireMember(parts, room, userId);
}

export const chatNamespace = (services: ChatServices): SocketNamespace => ({
  name: namespaceName,
  summary: 'Conversations: a socket hears all rooms of its user.',
  errorEvent: 'chat_error',
  events: chatEvents(services),
  sends: sentEvents,
  graphql: {
    field: 'chatEvents',
    by: 'room',
    requireChoice: ({ userId }, room) => requireRoom(services, userId, room),
  },
  async admit(connection) {
    const { parts, presence } = services;
    const { connected, closed } = await parts.hub.admit(connection);
    return {
      connected,
      closed() {
        presence.forget(connection);
        closed();
      },
    };
  },
});
