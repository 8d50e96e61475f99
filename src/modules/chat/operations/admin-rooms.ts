/** Rooms and invitations, for operators. */
import Type from 'typebox';
import {
  defineOperation,
  type Operation,
  TextResult,
} from '../../../kernel/operations/operation.ts';
import { chatErrors } from '../errors.ts';
import { findRooms } from '../queries/rooms.ts';
import { distinct } from '../services/chat-parts.ts';
import type { ChatServices } from '../services/chat-services.ts';
import { populated } from '../services/populate.ts';
import { roomDocument } from '../services/wire.ts';
import { invitationDocument } from './invitations.ts';
import {
  adminFacts,
  IdParams,
  InvitationDocument,
  orderOf,
  Paging,
  populateOf,
  RoomDocument,
  RoomName,
  RoomParams,
  sortOf,
  Users,
  Uuid,
} from './shapes.ts';

const populate = populateOf(['participants', 'creator']);
const columns = {
  name: 'r."name"',
  createdAt: 'r."createdAt"',
  updatedAt: 'r."updatedAt"',
  lastMessageAt: 'r."lastMessageAt"',
  _id: 'r."_id"',
} as const;
const Ids = Type.Array(Uuid, { minItems: 1, maxItems: 1_000, description: 'Their ids' });

export const adminRoomOperations = (services: ChatServices): readonly Operation[] => [
  listOperation(services),
  getOperation(services),
  createOperation(services),
  deleteOperation(services),
  deleteOneOperation(services),
  addOperation(services),
  removeOperation(services),
  ...adminInvitationOperations(services),
];

const listOperation = ({ parts }: ChatServices): Operation =>
  defineOperation({
    ...adminFacts,
    id: 'chat.adminRooms.list',
    method: 'GET',
    path: '/chat/rooms',
    heavy: true,
    input: {
      query: Type.Object({
        ...Paging,
        sort: sortOf(Object.keys(columns)),
        search: Type.Optional(
          Type.String({ minLength: 1, maxLength: 200, description: 'A part of the name' }),
        ),
        users: Type.Optional(
          Type.Array(Uuid, { maxItems: 100, description: 'Rooms that one of them is in' }),
        ),
        deleted: Type.Optional(
          Type.Boolean({ description: 'Those that were deleted, instead of the others' }),
        ),
        populate,
      }),
    },
    output: Type.Object({
      chatRoomDocuments: Type.Array(RoomDocument),
      count: Type.Integer({ description: 'All that the filter finds' }),
    }),
    summary: 'List chat rooms',
    async handler({ caller }, { query: { populate: fields = [], sort, users, ...query } }) {
      const order = `${orderOf(sort, columns, 'r."createdAt" desc')}, r."_id" desc`;
      const { rows, count } = await findRooms(parts.database, {
        ...query,
        users: users && distinct(users),
        order,
      });
      const documents = rows.map(roomDocument);
      return {
        chatRoomDocuments: [...(await populated(parts, caller, documents, fields))],
        count,
      };
    },
  });

const getOperation = ({ parts }: ChatServices): Operation =>
  defineOperation({
    ...adminFacts,
    id: 'chat.adminRooms.get',
    method: 'GET',
    path: '/chat/rooms/:id',
    input: { params: IdParams, query: Type.Object({ populate }) },
    output: RoomDocument,
    errors: [chatErrors.CHAT_ROOM_NOT_FOUND],
    summary: 'Read a chat room',
    async handler({ caller }, { params, query }) {
      const page = { order: 'r."_id"', skip: 0, limit: 1 };
      const { rows } = await findRooms(parts.database, { ids: [params.id], ...page });
      const documents = rows.map(roomDocument);
      const [room] = await populated(parts, caller, documents, query.populate ?? []);
      if (!room) throw chatErrors.CHAT_ROOM_NOT_FOUND();
      return room;
    },
  });

const createOperation = ({ parts, rooms }: ChatServices): Operation =>
  defineOperation({
    ...adminFacts,
    id: 'chat.adminRooms.create',
    method: 'POST',
    path: '/chat/rooms',
    input: {
      body: Type.Object({
        name: RoomName,
        participants: Users,
        creator: Type.Optional({ ...Uuid, description: 'Becomes its owner' }),
      }),
    },
    output: RoomDocument,
    errors: [chatErrors.CHAT_USER_UNKNOWN, chatErrors.ROOM_LIMIT_EXCEEDED],
    summary: 'Make a chat room',
    description: 'Never invites: the users are in it at once.',
    async handler({ caller }, { body }) {
      const id = await rooms.createAsServer(caller, body);
      const page = { order: 'r."_id"', skip: 0, limit: 1 };
      const { rows } = await findRooms(parts.database, { ids: [id], ...page });
      const [room] = rows.map(roomDocument);
      if (!room) throw chatErrors.CHAT_ROOM_NOT_FOUND();
      return room;
    },
  });

const deleteOperation = ({ rooms }: ChatServices): Operation =>
  defineOperation({
    ...adminFacts,
    id: 'chat.adminRooms.delete',
    method: 'DELETE',
    path: '/chat/rooms',
    input: { query: Type.Object({ ids: Ids }) },
    output: TextResult,
    summary: 'Delete chat rooms',
    description: 'Those that are not there are passed over. Members are told.',
    async handler({ caller }, { query }) {
      await rooms.removeRooms(caller, query.ids);
      return 'Done';
    },
  });

const deleteOneOperation = ({ rooms }: ChatServices): Operation =>
  defineOperation({
    ...adminFacts,
    id: 'chat.adminRooms.deleteOne',
    method: 'DELETE',
    path: '/chat/rooms/:id',
    legacy: true,
    mcp: false,
    input: { params: IdParams },
    output: TextResult,
    summary: 'Delete a chat room',
    async handler({ caller }, { params }) {
      await rooms.removeRooms(caller, [params.id]);
      return 'Done';
    },
  });

const addOperation = ({ rooms }: ChatServices): Operation =>
  defineOperation({
    ...adminFacts,
    id: 'chat.adminRooms.add',
    method: 'PUT',
    path: '/chat/rooms/:roomId/add',
    destructive: false,
    input: { params: RoomParams, body: Type.Object({ users: Users }) },
    output: TextResult,
    errors: [
      chatErrors.CHAT_ROOM_NOT_FOUND,
      chatErrors.CHAT_USER_UNKNOWN,
      chatErrors.CHAT_MEMBER_EXISTS,
      chatErrors.DIRECT_ROOM_PROTECTED,
      chatErrors.CHAT_ROOM_FULL,
      chatErrors.ROOM_LIMIT_EXCEEDED,
    ],
    summary: 'Put users into a chat room',
    async handler({ caller }, { params, body }) {
      await rooms.addAsServer(caller, params.roomId, body.users);
      return 'Users added';
    },
  });

const removeOperation = ({ rooms }: ChatServices): Operation =>
  defineOperation({
    ...adminFacts,
    id: 'chat.adminRooms.remove',
    method: 'PUT',
    path: '/chat/room/:roomId/remove',
    aliases: [{ method: 'PUT', path: '/chat/rooms/:roomId/remove' }],
    input: { params: RoomParams, body: Type.Object({ users: Users }) },
    output: TextResult,
    errors: [chatErrors.CHAT_ROOM_NOT_FOUND, chatErrors.CHAT_MEMBER_NOT_FOUND],
    summary: 'Take users out of a chat room',
    async handler({ caller }, { params, body }) {
      await rooms.removeAsServer(caller, params.roomId, body.users);
      return 'Ok';
    },
  });

const invitationColumns = {
  createdAt: 'i."createdAt"',
  expiresAt: 'i."expiresAt"',
  _id: 'i."_id"',
} as const;

const adminInvitationOperations = ({ parts, invitations }: ChatServices): readonly Operation[] => [
  defineOperation({
    ...adminFacts,
    id: 'chat.adminInvitations.list',
    method: 'GET',
    path: '/chat/invitations/:roomId',
    heavy: true,
    input: {
      params: RoomParams,
      query: Type.Object({
        ...Paging,
        sort: sortOf(Object.keys(invitationColumns)),
        populate: populateOf(['sender', 'receiver']),
      }),
    },
    output: Type.Object({
      invitations: Type.Array(InvitationDocument),
      count: Type.Integer(),
    }),
    errors: [chatErrors.CHAT_ROOM_NOT_FOUND],
    summary: 'List the open invitations to a chat room',
    description: 'Never with their secrets.',
    async handler({ caller }, { params, query: { sort, populate: fields = [], ...page } }) {
      const one = { order: 'r."_id"', skip: 0, limit: 1 };
      const found = await findRooms(parts.database, { ids: [params.roomId], ...one });
      if (found.count === 0) throw chatErrors.CHAT_ROOM_NOT_FOUND();
      const order = orderOf(sort, invitationColumns, 'i."createdAt" desc');
      const { rows, count } = await invitations.ofRoom(params.roomId, { ...page, order });
      const documents = rows.map(invitationDocument);
      return { invitations: [...(await populated(parts, caller, documents, fields))], count };
    },
  }),
  defineOperation({
    ...adminFacts,
    id: 'chat.adminInvitations.delete',
    method: 'DELETE',
    path: '/chat/invitations/:roomId',
    input: { params: RoomParams, query: Type.Object({ invitations: Ids }) },
    output: TextResult,
    errors: [chatErrors.CHAT_INVITATION_NOT_FOUND],
    summary: 'Take invitations to a chat room back',
    async handler(_context, { params, query }) {
      await invitations.drop(params.roomId, query.invitations);
      return 'Done';
    },
  }),
];
