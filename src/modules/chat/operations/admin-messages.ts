/** Messages and reports, for operators. */
import Type from 'typebox';
import {
  defineOperation,
  type Operation,
  TextResult,
} from '../../../kernel/operations/operation.ts';
import { chatErrors } from '../errors.ts';
import { usersToAdd } from '../queries/members.ts';
import { editsOf } from '../queries/message-changes.ts';
import { findMessages } from '../queries/messages.ts';
import { findRooms } from '../queries/rooms.ts';
import type { ChatServices } from '../services/chat-services.ts';
import { populated } from '../services/populate.ts';
import { messageDocument } from '../services/wire.ts';
import {
  adminFacts,
  EditDocument,
  editDocument,
  IdParams,
  MessageDocument,
  MessageParams,
  orderOf,
  orNull,
  Paging,
  populateOf,
  RoomParams,
  sortOf,
  Time,
  Uuid,
} from './shapes.ts';

const columns = {
  createdAt: 't."createdAt"',
  updatedAt: 't."updatedAt"',
  seq: 't."seq"',
  _id: 't."_id"',
} as const;
const populate = populateOf(['senderUser', 'room', 'files', 'readBy']);
const Page = Type.Object({ messages: Type.Array(MessageDocument), count: Type.Integer() });
const filter = {
  ...Paging,
  sort: sortOf(Object.keys(columns)),
  search: Type.Optional(
    Type.String({ minLength: 1, maxLength: 200, description: 'Words that they have' }),
  ),
  populate,
};

export const adminMessageOperations = (services: ChatServices): readonly Operation[] => [
  listOperation(services),
  roomListOperation(services),
  deleteOperation(services),
  sendOperation(services),
  editsOperation(services),
  ...reportOperations(services),
];

interface Query {
  readonly roomId?: string;
  readonly senderUser?: string;
  readonly senderId?: string;
  readonly search?: string;
  readonly sort?: readonly string[];
  readonly populate?: readonly ('senderUser' | 'room' | 'files' | 'readBy')[];
  readonly skip: number;
  readonly limit: number;
}

async function pageOf(
  { parts }: ChatServices,
  caller: Parameters<typeof populated>[1],
  { roomId, senderUser, senderId, search, sort, populate: fields = [], skip, limit }: Query,
) {
  const { database } = parts;
  const sender = senderUser ?? senderId;
  if (sender !== undefined && (await usersToAdd(database, [sender], null)).length === 0)
    throw chatErrors.CHAT_MEMBER_NOT_FOUND({ message: 'There is no such user' });
  const one = { order: 'r."_id"', skip: 0, limit: 1 };
  if (roomId !== undefined && (await findRooms(database, { ids: [roomId], ...one })).count === 0)
    throw chatErrors.CHAT_ROOM_NOT_FOUND();
  const order = `${orderOf(sort, columns, 't."createdAt" desc')}, t."_id" desc`;
  const found = await findMessages(database, { sender, room: roomId, search, order, skip, limit });
  const documents = found.rows.map(messageDocument);
  return {
    messages: [...(await populated(parts, caller, documents, fields))],
    count: found.count,
  };
}

const listErrors = [chatErrors.CHAT_ROOM_NOT_FOUND, chatErrors.CHAT_MEMBER_NOT_FOUND];

const listOperation = (services: ChatServices): Operation =>
  defineOperation({
    ...adminFacts,
    id: 'chat.adminMessages.list',
    method: 'GET',
    path: '/chat/messages',
    heavy: true,
    input: {
      query: Type.Object({
        ...filter,
        roomId: Type.Optional({ ...Uuid, description: 'Id of the room' }),
        senderUser: Type.Optional({ ...Uuid, description: 'Id of the user who wrote them' }),
        senderId: Type.Optional({ ...Uuid, description: 'The same, as old panels write it' }),
      }),
    },
    output: Page,
    errors: listErrors,
    summary: 'List chat messages',
    description: 'Newest first, with deleted ones that the audit keeps.',
    handler: ({ caller }, { query }) => pageOf(services, caller, query),
  });

const roomListOperation = (services: ChatServices): Operation =>
  defineOperation({
    ...adminFacts,
    id: 'chat.adminRooms.messages',
    method: 'GET',
    path: '/chat/rooms/:roomId/messages',
    legacy: true,
    mcp: false,
    heavy: true,
    input: { params: RoomParams, query: Type.Object(filter) },
    output: Page,
    errors: listErrors,
    summary: 'List the messages of a chat room',
    handler: ({ caller }, { params, query }) => pageOf(services, caller, { ...query, ...params }),
  });

const deleteOperation = ({ messages }: ChatServices): Operation =>
  defineOperation({
    ...adminFacts,
    id: 'chat.adminMessages.delete',
    method: 'DELETE',
    path: '/chat/messages',
    input: {
      query: Type.Object({
        ids: Type.Array(Uuid, { minItems: 1, maxItems: 200, description: 'Their ids' }),
      }),
    },
    output: TextResult,
    summary: 'Delete chat messages',
    description:
      'As the configuration wants it: for good, or kept for the audit. Members are told.',
    async handler({ caller }, { query }) {
      await messages.removeAll(caller, query.ids);
      return 'Done';
    },
  });

/** Of which kind and in whose name; what it says is not for the audit log. */
function withoutContent(body: unknown): object {
  const { content: _content, ...rest } = body as Readonly<Record<string, unknown>>;
  return rest;
}

const sendOperation = ({ messages }: ChatServices): Operation =>
  defineOperation({
    ...adminFacts,
    id: 'chat.adminMessages.send',
    method: 'POST',
    path: '/chat/rooms/:roomId/messages',
    openWorld: true,
    auditChanges: ({ body }) => withoutContent(body),
    input: {
      params: RoomParams,
      body: Type.Object({
        content: Type.Optional(
          Type.String({ minLength: 1, maxLength: 400_000, description: 'What it says' }),
        ),
        contentType: Type.Optional(
          Type.Enum(['system', 'text', 'file', 'multimedia'], {
            description: '`system`: a note of the app itself; `file` and `multimedia` with files',
          }),
        ),
        files: Type.Optional(Type.Array(Uuid, { maxItems: 100, description: 'Ids of files' })),
        userId: Type.Optional({ ...Uuid, description: 'A member in whose name it is sent' }),
        persist: Type.Optional(
          Type.Boolean({
            description: 'false: told to who is there, and not stored. Then it has no id',
          }),
        ),
      }),
    },
    output: Type.Object({ _id: orNull(Uuid), seq: orNull(Type.Integer()), createdAt: Time }),
    errors: [
      chatErrors.CHAT_ROOM_NOT_FOUND,
      chatErrors.CHAT_WRITING_DENIED,
      chatErrors.FILE_REFUSED,
    ],
    summary: 'Send a message to a chat room as the server',
    description: 'Of the type `system`, unless it says another one.',
    async handler({ caller }, { params, body }) {
      const { contentType = 'system' } = body;
      const sent = await messages.sendAsServer(caller, { ...body, ...params, contentType });
      if (!sent) return { _id: null, seq: null, createdAt: new Date().toISOString() };
      return { _id: sent.id, seq: sent.seq, createdAt: sent.createdAt.toISOString() };
    },
  });

const editsOperation = ({ parts }: ChatServices): Operation =>
  defineOperation({
    ...adminFacts,
    id: 'chat.adminMessages.edits',
    method: 'GET',
    path: '/chat/messages/:messageId/edits',
    input: { params: MessageParams },
    output: Type.Object({ edits: Type.Array(EditDocument) }),
    summary: 'List what a chat message said before',
    description: 'The latest first, where `edits.keepHistory` is on.',
    handler: async (_context, { params }) => ({
      edits: (await editsOf(parts.database, params.messageId)).map(editDocument),
    }),
  });

const Report = Type.Object({
  _id: Uuid,
  message: Uuid,
  room: Uuid,
  content: orNull(Type.String({ description: 'What it says' })),
  sender: orNull(Uuid),
  reporter: orNull(Uuid),
  reason: Type.String(),
  state: Type.String({ description: '`open` or `resolved`' }),
  createdAt: Time,
  resolvedAt: orNull(Time),
  resolvedBy: orNull(Type.String()),
});

const reportOperations = ({ moderation }: ChatServices): readonly Operation[] => [
  defineOperation({
    ...adminFacts,
    id: 'chat.reports.list',
    method: 'GET',
    path: '/chat/reports',
    heavy: true,
    input: {
      query: Type.Object({
        ...Paging,
        state: Type.Optional(
          Type.Union([Type.Literal('open'), Type.Literal('resolved')], {
            description: 'Open ones, or those that were dealt with',
          }),
        ),
      }),
    },
    output: Type.Object({ reports: Type.Array(Report), count: Type.Integer() }),
    summary: 'List messages that users have reported',
    async handler(_context, { query }) {
      const { rows, count } = await moderation.reports(query);
      return {
        reports: rows.map(({ id, ...row }) => ({
          _id: id,
          ...row,
          createdAt: row.createdAt.toISOString(),
          resolvedAt: row.resolvedAt?.toISOString() ?? null,
        })),
        count,
      };
    },
  }),
  defineOperation({
    ...adminFacts,
    id: 'chat.reports.resolve',
    method: 'PUT',
    path: '/chat/reports/:id/resolve',
    destructive: false,
    input: { params: IdParams },
    output: TextResult,
    errors: [chatErrors.CHAT_REPORT_NOT_FOUND],
    summary: 'Settle a report',
    async handler({ caller }, { params }) {
      await moderation.resolve(caller, params.id);
      return 'Done';
    },
  }),
];
