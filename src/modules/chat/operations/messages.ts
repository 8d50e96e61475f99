/** Messages, as members of the rooms see them. */
import Type from 'typebox';
import type { Caller } from '../../../kernel/caller.ts';
import {
  defineOperation,
  type Operation,
  TextResult,
} from '../../../kernel/operations/operation.ts';
import { chatErrors } from '../errors.ts';
import { userOf } from '../services/chat-parts.ts';
import type { ChatServices } from '../services/chat-services.ts';
import { ContentInput } from '../services/message-content.ts';
import type { MessagePage } from '../services/messages.ts';
import { type Populate, populated } from '../services/populate.ts';
import { messageDocument } from '../services/wire.ts';
import {
  EditDocument,
  Emoji,
  editDocument,
  MessageDocument,
  MessageParams,
  Paging,
  populateOf,
  Reactions,
  RoomParams,
  Time,
  Uuid,
  userFacts,
} from './shapes.ts';

const populate = populateOf(['senderUser', 'room', 'files', 'readBy']);
const place = Type.Integer({ minimum: 0, maximum: 2_147_483_647 });
const filter = {
  ...Paging,
  before: Type.Optional({ ...place, description: 'Messages with a smaller `seq`; needs a room' }),
  after: Type.Optional({
    ...place,
    description: 'Messages with a larger `seq`, the oldest first; needs a room',
  }),
  threadRoot: Type.Optional({ ...Uuid, description: 'Answers to a message; needs a room' }),
  search: Type.Optional(
    Type.String({ minLength: 1, maxLength: 200, description: 'Words that they have' }),
  ),
  populate,
};
const Page = Type.Object({ messages: Type.Array(MessageDocument), count: Type.Integer() });
const notFound = [chatErrors.CHAT_MESSAGE_NOT_FOUND];

export const messageOperations = (services: ChatServices): readonly Operation[] => [
  listOperation(services),
  roomListOperation(services),
  sendOperation(services),
  getOperation(services),
  editOperation(services),
  editsOperation(services),
  deleteOperation(services),
  reactOperation(services),
  unreactOperation(services),
  readOperation(services),
  muteOperation(services),
  unreadOperation(services),
];

/** As if there were no such route. */
function requireFeature(isOn: boolean): void {
  if (!isOn) throw chatErrors.CHAT_FEATURE_DISABLED();
}

const answerOf = async (
  { parts }: ChatServices,
  caller: Caller,
  { rows, count }: MessagePage,
  fields: readonly Populate[] = [],
) => ({
  messages: [...(await populated(parts, caller, rows.map(messageDocument), fields))],
  count,
});

const listOperation = (services: ChatServices): Operation =>
  defineOperation({
    ...userFacts,
    id: 'chat.messages.list',
    method: 'GET',
    path: '/chat/messages',
    heavy: true,
    input: { query: Type.Object({ roomId: Type.Optional(Uuid), ...filter }) },
    output: Page,
    errors: [chatErrors.CHAT_ROOM_NOT_FOUND],
    summary: 'List messages',
    description:
      'Newest first; of one room, or of all that you are in. `before` and `after` cost the same however far.',
    async handler(context, { query: { populate: fields, ...query } }) {
      const page = await services.messages.list(userOf(context), query);
      return answerOf(services, context.caller, page, fields);
    },
  });

const roomListOperation = (services: ChatServices): Operation =>
  defineOperation({
    ...userFacts,
    id: 'chat.rooms.messages',
    method: 'GET',
    path: '/chat/rooms/:roomId/messages',
    legacy: true,
    heavy: true,
    input: { params: RoomParams, query: Type.Object(filter) },
    output: Page,
    errors: [chatErrors.CHAT_ROOM_NOT_FOUND],
    summary: 'List the messages of a room',
    async handler(context, { params, query: { populate: fields, ...query } }) {
      const page = await services.messages.list(userOf(context), { ...query, ...params });
      return answerOf(services, context.caller, page, fields);
    },
  });

const sendOperation = ({ messages, reads, parts }: ChatServices): Operation =>
  defineOperation({
    ...userFacts,
    id: 'chat.messages.send',
    method: 'POST',
    path: '/chat/rooms/:roomId/messages',
    input: { params: RoomParams, body: ContentInput },
    output: Type.Object({
      _id: Uuid,
      seq: Type.Integer(),
      createdAt: Time,
      duplicate: Type.Boolean({ description: 'The nonce was known: it is stored once' }),
    }),
    errors: [
      chatErrors.CHAT_ROOM_NOT_FOUND,
      chatErrors.CHAT_MESSAGE_NOT_FOUND,
      chatErrors.SYSTEM_MESSAGE_REFUSED,
      chatErrors.FILE_REFUSED,
      chatErrors.CHAT_WRITING_DENIED,
    ],
    summary: 'Send a message without a socket',
    async handler(context, { params, body }) {
      const caller = userOf(context);
      try {
        await reads.requireBudget(caller.userId, 'messages');
        const { id, seq, createdAt, duplicate } = await messages.send(caller, params.roomId, body);
        return { _id: id, seq, createdAt: createdAt.toISOString(), duplicate };
      } catch (error) {
        parts.refused(error);
        throw error;
      }
    },
  });

const getOperation = ({ messages, parts }: ChatServices): Operation =>
  defineOperation({
    ...userFacts,
    id: 'chat.messages.get',
    method: 'GET',
    path: '/chat/messages/:messageId',
    input: { params: MessageParams, query: Type.Object({ populate }) },
    output: MessageDocument,
    errors: notFound,
    summary: 'Read a message',
    description: 'With its room, as a document.',
    async handler(context, { params, query }) {
      const document = messageDocument(await messages.get(userOf(context), params.messageId));
      const fields: Populate[] = [...new Set<Populate>(['room', ...(query.populate ?? [])])];
      const [filled] = await populated(parts, context.caller, [document], fields);
      return filled ?? document;
    },
  });

const editOperation = ({ messages, parts }: ChatServices): Operation =>
  defineOperation({
    ...userFacts,
    id: 'chat.messages.edit',
    method: 'PATCH',
    path: '/chat/messages/:messageId',
    aliases: [{ method: 'PUT', path: '/chat/messages/:messageId' }],
    input: {
      params: MessageParams,
      body: Type.Object({ newMessage: Type.String({ minLength: 1, maxLength: 400_000 }) }),
    },
    output: TextResult,
    errors: [
      ...notFound,
      chatErrors.CHAT_FEATURE_DISABLED,
      chatErrors.CHAT_WRITING_DENIED,
      chatErrors.CHAT_EDIT_EXPIRED,
    ],
    summary: 'Change what you wrote',
    description:
      'Not there while `allowMessageEdit` is off; within `edits.windowSeconds` where that is set.',
    async handler(context, { params, body }) {
      requireFeature(parts.config().allowMessageEdit);
      await messages.edit(userOf(context), params.messageId, body.newMessage);
      return 'Message updated successfully';
    },
  });

const editsOperation = ({ messages }: ChatServices): Operation =>
  defineOperation({
    ...userFacts,
    id: 'chat.messages.edits',
    method: 'GET',
    path: '/chat/messages/:messageId/edits',
    input: { params: MessageParams },
    output: Type.Object({ edits: Type.Array(EditDocument) }),
    errors: [...notFound, chatErrors.ROOM_ROLE_REQUIRED],
    summary: 'List what a message said before',
    description:
      'For its author, and owners and admins of the room; the latest first, where `edits.keepHistory` is on.',
    handler: async (context, { params }) => ({
      edits: (await messages.edits(userOf(context), params.messageId)).map(editDocument),
    }),
  });

const deleteOperation = ({ messages, parts }: ChatServices): Operation =>
  defineOperation({
    ...userFacts,
    id: 'chat.messages.delete',
    method: 'DELETE',
    path: '/chat/messages/:messageId',
    input: { params: MessageParams },
    output: TextResult,
    errors: [...notFound, chatErrors.CHAT_FEATURE_DISABLED],
    summary: 'Delete a message',
    description:
      'Not there while `allowMessageDelete` is off. One of yours; owners and admins of a room delete those of others too.',
    async handler(context, { params }) {
      requireFeature(parts.config().allowMessageDelete);
      await messages.remove(userOf(context), params.messageId);
      return 'Message deleted successfully';
    },
  });

const Reacted = Type.Object({ reactions: Reactions });
const reactionsView = (
  reactions: readonly {
    readonly emoji: string;
    readonly count: number;
    readonly users: readonly string[];
  }[],
) => ({
  reactions: reactions.map(({ emoji, count, users }) => ({ emoji, count, users: [...users] })),
});

const reactOperation = ({ messages }: ChatServices): Operation =>
  defineOperation({
    ...userFacts,
    id: 'chat.messages.react',
    method: 'PUT',
    path: '/chat/messages/:messageId/reactions',
    destructive: false,
    input: { params: MessageParams, body: Type.Object({ emoji: Emoji }) },
    output: Reacted,
    errors: [...notFound, chatErrors.CHAT_WRITING_DENIED, chatErrors.REACTIONS_FULL],
    summary: 'Put a sign on a message',
    async handler(context, { params, body }) {
      const { reactions } = await messages.react(
        userOf(context),
        params.messageId,
        body.emoji,
        false,
      );
      return reactionsView(reactions);
    },
  });

const unreactOperation = ({ messages }: ChatServices): Operation =>
  defineOperation({
    ...userFacts,
    id: 'chat.messages.unreact',
    method: 'DELETE',
    path: '/chat/messages/:messageId/reactions',
    input: { params: MessageParams, query: Type.Object({ emoji: Emoji }) },
    output: Reacted,
    errors: notFound,
    summary: 'Take a sign off a message',
    async handler(context, { params, query }) {
      const { reactions } = await messages.react(
        userOf(context),
        params.messageId,
        query.emoji,
        true,
      );
      return reactionsView(reactions);
    },
  });

const readOperation = ({ reads }: ChatServices): Operation =>
  defineOperation({
    ...userFacts,
    id: 'chat.rooms.read',
    method: 'PUT',
    path: '/chat/rooms/:roomId/read',
    destructive: false,
    input: {
      params: RoomParams,
      body: Type.Object({
        upTo: Type.Optional({ ...Uuid, description: 'A message; all of them without it' }),
      }),
    },
    output: Type.Object({ unreadCount: Type.Integer() }),
    errors: [chatErrors.CHAT_ROOM_NOT_FOUND, chatErrors.CHAT_MESSAGE_NOT_FOUND],
    summary: 'Say that you have read a room',
    handler: (context, { params, body }) => reads.mark(userOf(context), params.roomId, body.upTo),
  });

const muteOperation = ({ reads }: ChatServices): Operation =>
  defineOperation({
    ...userFacts,
    id: 'chat.rooms.mute',
    method: 'PUT',
    path: '/chat/rooms/:roomId/mute',
    destructive: false,
    input: { params: RoomParams, body: Type.Object({ muted: Type.Boolean() }) },
    output: TextResult,
    errors: [chatErrors.CHAT_ROOM_NOT_FOUND],
    summary: 'Get no pushes about a room',
    async handler(context, { params, body }) {
      await reads.mute(userOf(context), params.roomId, body.muted);
      return 'Ok';
    },
  });

const unreadOperation = ({ reads }: ChatServices): Operation =>
  defineOperation({
    ...userFacts,
    id: 'chat.unread',
    method: 'GET',
    path: '/chat/unread',
    heavy: true,
    input: {},
    output: Type.Object({
      total: Type.Integer(),
      rooms: Type.Record(Type.String(), Type.Integer(), {
        description: 'By the id of the room; only rooms with some',
      }),
    }),
    summary: 'Count what you have not read',
    handler: async (context) => {
      const { total, rooms } = await reads.unread(userOf(context));
      return { total, rooms: { ...rooms } };
    },
  });
