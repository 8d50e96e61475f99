/** The events of the namespace `/chat/`: what clients send, and what they are sent (specification chat.md 3.3, 3.4). */
import Type from 'typebox';
import {
  defineSocketEvent,
  type SentEvent,
  type SocketEvent,
} from '../../../kernel/sockets/socket-namespace.ts';
import { chatErrors } from '../errors.ts';
import { requireMember } from '../services/chat-parts.ts';
import type { ChatServices } from '../services/chat-services.ts';
import { ContentInput } from '../services/message-content.ts';
import { onWire } from '../services/presence.ts';

const Id = Type.String({ format: 'uuid' });
const Emoji = Type.String({ minLength: 1, maxLength: 64, pattern: '^[^\\u0000-\\u0020]+$' });
const Sequence = Type.Integer({ minimum: 0, maximum: 2_147_483_647 });
const TypingInput = Type.Object({ contentType: Type.Literal('typing') });

export const chatEvents = (services: ChatServices): readonly SocketEvent[] => [
  ...roomEvents(services),
  messageEvent(services),
  readEvent(services),
  typingEvent(services),
  syncEvent(services),
  ...changeEvents(services),
  ...presenceEvents(services),
];

/** A socket hears all rooms of its user; these take one out and in again. */
function roomEvents({ parts }: ChatServices): readonly SocketEvent[] {
  const enter = (name: string, summary: string): SocketEvent =>
    defineSocketEvent({
      name,
      summary,
      parameters: ['roomId'],
      input: Type.Object({ roomId: Id }),
      async handler(connection, { roomId }) {
        const room = roomId.toLowerCase();
        await requireMember(parts, room, connection.userId);
        connection.join(room);
        // Who was removed in between was told to leave before they came in.
        await requireMember(parts, room, connection.userId).catch((error: unknown) => {
          connection.leave(room);
          throw error;
        });
        return {};
      },
    });
  return [
    enter('connectToRoom', 'Hear of a room (again). Rooms of yours are heard from the start.'),
    enter('join', 'The same as `connectToRoom`, for clients of the 0.16 line.'),
    defineSocketEvent({
      name: 'leave',
      summary: 'Hear no more of a room on this socket. You stay in it.',
      parameters: ['roomId'],
      input: Type.Object({ roomId: Id }),
      async handler(connection, { roomId }) {
        connection.leave(roomId.toLowerCase());
        return {};
      },
    }),
  ];
}

const messageEvent = ({ parts, messages, reads }: ChatServices): SocketEvent =>
  defineSocketEvent({
    name: 'message',
    summary: 'Send a message: a text, or an object. Acknowledged when it is stored.',
    parameters: ['roomId', 'message'],
    input: Type.Object({
      roomId: Id,
      message: Type.Union([Type.String({ maxLength: 400_000 }), TypingInput, ContentInput]),
    }),
    async handler(connection, { roomId, message }) {
      const caller = await connection.caller();
      if (typeof message === 'object' && message.contentType === 'typing') {
        await reads.requireBudget(caller.userId, 'typing');
        await reads.typing(caller, roomId, 'start');
        return {};
      }
      try {
        await reads.requireBudget(caller.userId, 'messages');
        const sent = await messages.send(caller, roomId, message);
        const { id, seq, createdAt, duplicate } = sent;
        return {
          ...{ _id: id, createdAt: createdAt.toISOString(), seq },
          ...(duplicate && { duplicate }),
        };
      } catch (error) {
        parts.refused(error);
        throw error;
      }
    },
  });

const readEvent = ({ reads }: ChatServices): SocketEvent =>
  defineSocketEvent({
    name: 'messagesRead',
    summary: 'You have read a room: up to a message, or all of it.',
    parameters: ['roomId', 'options'],
    input: Type.Object({
      roomId: Id,
      options: Type.Optional(Type.Union([Type.Null(), Type.Object({ upTo: Type.Optional(Id) })])),
    }),
    async handler(connection, { roomId, options }) {
      return reads.mark(await connection.caller(), roomId.toLowerCase(), options?.upTo);
    },
  });

const typingEvent = ({ reads }: ChatServices): SocketEvent =>
  defineSocketEvent({
    name: 'typing',
    summary: 'You are writing, or no more.',
    input: Type.Object({
      roomId: Id,
      state: Type.Union([Type.Literal('start'), Type.Literal('stop')]),
    }),
    async handler(connection, { roomId, state }) {
      const caller = await connection.caller();
      await reads.requireBudget(caller.userId, 'typing');
      await reads.typing(caller, roomId, state);
      return {};
    },
  });

const syncEvent = ({ messages }: ChatServices): SocketEvent =>
  defineSocketEvent({
    name: 'sync',
    summary:
      'What you missed in a room: messages after a number, or all changes after one. Ask again while `more`.',
    heavy: true,
    input: Type.Object({
      roomId: Id,
      afterSeq: Type.Optional(Sequence),
      afterChange: Type.Optional(Sequence),
    }),
    async handler(connection, { roomId, ...from }) {
      return { ...(await messages.sync(await connection.caller(), roomId.toLowerCase(), from)) };
    },
  });

/** What REST does too. */
const changeEvents = ({ parts, messages }: ChatServices): readonly SocketEvent[] => [
  defineSocketEvent({
    name: 'react',
    summary: 'Put a sign on a message, or take it away.',
    input: Type.Object({ messageId: Id, emoji: Emoji, remove: Type.Optional(Type.Boolean()) }),
    async handler(connection, { messageId, emoji, remove = false }) {
      return messages.react(await connection.caller(), messageId, emoji, remove);
    },
  }),
  defineSocketEvent({
    name: 'editMessage',
    summary: 'Change what you wrote.',
    input: Type.Object({ messageId: Id, message: Type.String({ maxLength: 400_000 }) }),
    async handler(connection, { messageId, message }) {
      if (!parts.config().allowMessageEdit) throw chatErrors.CHAT_FEATURE_DISABLED();
      await messages.edit(await connection.caller(), messageId, message);
      return {};
    },
  }),
  defineSocketEvent({
    name: 'deleteMessage',
    summary: 'Delete what you wrote, or as an admin of the room what others wrote.',
    input: Type.Object({ messageId: Id }),
    async handler(connection, { messageId }) {
      if (!parts.config().allowMessageDelete) throw chatErrors.CHAT_FEATURE_DISABLED();
      await messages.remove(await connection.caller(), messageId);
      return {};
    },
  }),
];

const presenceEvents = ({ presence }: ChatServices): readonly SocketEvent[] => [
  defineSocketEvent({
    name: 'presence',
    summary: 'Say how you are there.',
    input: Type.Object({
      status: Type.Enum(['online', 'away', 'busy']),
    }),
    async handler(connection, { status }) {
      await presence.set(await connection.caller(), status);
      return {};
    },
  }),
  defineSocketEvent({
    name: 'presenceSubscribe',
    summary: 'Who of these is there, now and from now on; only those you share a room with.',
    input: Type.Object({ userIds: Type.Array(Id, { minItems: 1, maxItems: 200 }) }),
    async handler(connection, { userIds }) {
      await connection.caller();
      return { users: (await presence.watch(connection, userIds)).map(onWire) };
    },
  }),
];

const Time = Type.String({ format: 'date-time' });
const optional = Type.Optional;

/** What clients are sent. */
export const sentEvents: readonly SentEvent[] = [
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
