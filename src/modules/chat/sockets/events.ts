/** What clients of the namespace `/chat/` send (specification chat.md 3.3). */
import Type from 'typebox';
import { defineSocketEvent, type SocketEvent } from '../../../kernel/sockets/socket-namespace.ts';
import { chatErrors } from '../errors.ts';
import { requireMember } from '../services/chat-parts.ts';
import type { ChatServices } from '../services/chat-services.ts';
import { ContentInput } from '../services/message-content.ts';
import { onWire } from '../services/presence.ts';
import { createSenderOrder } from '../services/sender-order.ts';

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

function messageEvent({ parts, messages, reads }: ChatServices): SocketEvent {
  const order = createSenderOrder();
  return defineSocketEvent({
    name: 'message',
    summary: 'Send a message: a text, or an object. Acknowledged when it is stored.',
    parameters: ['roomId', 'message'],
    input: Type.Object({
      roomId: Id,
      message: Type.Union([Type.String({ maxLength: 400_000 }), TypingInput, ContentInput]),
    }),
    async handler(connection, { roomId, message }) {
      if (typeof message === 'object' && message.contentType === 'typing') {
        const caller = await connection.caller();
        await reads.requireBudget(caller.userId, 'typing');
        await reads.typing(caller, roomId, 'start');
        return {};
      }
      const place = order.take(connection);
      try {
        const caller = await connection.caller();
        await reads.requireBudget(caller.userId, 'messages');
        const sent = await messages.send(caller, roomId, message, place);
        const { id, seq, createdAt, duplicate } = sent;
        return {
          ...{ _id: id, createdAt: createdAt.toISOString(), seq },
          ...(duplicate && { duplicate }),
        };
      } catch (error) {
        parts.refused(error);
        throw error;
      } finally {
        place.leave();
      }
    },
  });
}

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

const presenceEvents = ({ presence, reads }: ChatServices): readonly SocketEvent[] => [
  defineSocketEvent({
    name: 'presence',
    summary: 'Say how you are there.',
    input: Type.Object({
      status: Type.Enum(['online', 'away', 'busy']),
    }),
    async handler(connection, { status }) {
      const caller = await connection.caller();
      await reads.requireBudget(caller.userId, 'presence');
      await presence.set(caller, status);
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
