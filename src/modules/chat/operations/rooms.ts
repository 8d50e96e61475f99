/** Rooms, as their members see them. */
import Type from 'typebox';
import type { Caller } from '../../../kernel/caller.ts';
import {
  defineOperation,
  type Operation,
  TextResult,
} from '../../../kernel/operations/operation.ts';
import { chatErrors } from '../errors.ts';
import { hiddenReaders, membersOf } from '../queries/members.ts';
import { readAsMember, userOf } from '../services/chat-parts.ts';
import type { ChatServices } from '../services/chat-services.ts';
import { populated } from '../services/populate.ts';
import { onWire } from '../services/presence.ts';
import { roomDocument } from '../services/wire.ts';
import {
  IdParams,
  Metadata,
  orNull,
  Paging,
  populateOf,
  Reference,
  Role,
  RoomDocument,
  RoomName,
  RoomParams,
  Time,
  Users,
  Uuid,
  userFacts,
} from './shapes.ts';

const populate = populateOf(['participants', 'creator']);
const notFound = [chatErrors.CHAT_ROOM_NOT_FOUND];
const addable = [
  chatErrors.CHAT_USER_UNKNOWN,
  chatErrors.CHAT_USER_BLOCKED,
  chatErrors.ROOM_LIMIT_EXCEEDED,
  chatErrors.CHAT_ROOM_FULL,
];

export const roomOperations = (services: ChatServices): readonly Operation[] => [
  createOperation(services),
  directOperation(services),
  listOperation(services),
  getOperation(services),
  updateOperation(services),
  addOperation(services),
  removeOperation(services),
  rolesOperation(services),
  leaveOperation(services),
  membersOperation(services),
];

const createOperation = ({ rooms }: ChatServices): Operation =>
  defineOperation({
    ...userFacts,
    id: 'chat.rooms.create',
    method: 'POST',
    path: '/chat/rooms',
    input: {
      body: Type.Object({ roomName: RoomName, users: Users, metadata: Type.Optional(Metadata) }),
    },
    output: Type.Object({ roomId: Uuid }),
    errors: addable,
    summary: 'Make a room',
    description:
      'You become its owner. The users are in it at once, or are invited where joins are explicit (`explicit_room_joins.enabled`).',
    handler: async (context, { body }) => ({
      roomId: await rooms.create(userOf(context), { ...body, name: body.roomName }),
    }),
  });

const directOperation = ({ rooms }: ChatServices): Operation =>
  defineOperation({
    ...userFacts,
    id: 'chat.rooms.direct',
    method: 'POST',
    path: '/chat/rooms/direct',
    input: { body: Type.Object({ user: Uuid }) },
    output: Type.Object({ roomId: Uuid }),
    errors: addable,
    summary: 'Get the room of you and another user',
    description: 'There is one for two users, whoever asks first and however often.',
    handler: async (context, { body }) => ({
      roomId: await rooms.direct(userOf(context), body.user),
    }),
  });

const listOperation = ({ rooms, parts }: ChatServices): Operation =>
  defineOperation({
    ...userFacts,
    id: 'chat.rooms.list',
    method: 'GET',
    path: '/chat/rooms',
    heavy: true,
    input: { query: Type.Object({ ...Paging, populate }) },
    output: Type.Object({
      rooms: Type.Array(RoomDocument),
      count: Type.Integer({ description: 'All rooms that you are in' }),
    }),
    summary: 'List your rooms',
    description: 'The most active first, with what you have not read.',
    async handler(context, { query: { populate: fields = [], ...page } }) {
      const { rows, count } = await rooms.list(userOf(context), page);
      const documents = rows.map(roomDocument);
      return {
        rooms: [...(await populated(parts, context.caller, documents, fields))],
        count,
      };
    },
  });

const getOperation = ({ rooms, parts }: ChatServices): Operation =>
  defineOperation({
    ...userFacts,
    id: 'chat.rooms.get',
    method: 'GET',
    path: '/chat/rooms/:id',
    input: { params: IdParams, query: Type.Object({ populate }) },
    output: RoomDocument,
    errors: notFound,
    summary: 'Read a room of yours',
    async handler(context, { params, query }) {
      const room = roomDocument(await rooms.get(userOf(context), params.id));
      const [filled] = await populated(parts, context.caller, [room], query.populate ?? []);
      return filled ?? room;
    },
  });

const updateOperation = ({ rooms }: ChatServices): Operation =>
  defineOperation({
    ...userFacts,
    id: 'chat.rooms.update',
    method: 'PATCH',
    path: '/chat/rooms/:id',
    input: {
      params: IdParams,
      body: Type.Object(
        { name: Type.Optional(RoomName), metadata: Type.Optional(orNull(Metadata)) },
        { minProperties: 1 },
      ),
    },
    output: RoomDocument,
    errors: [...notFound, chatErrors.ROOM_ROLE_REQUIRED, chatErrors.CHAT_WRITING_DENIED],
    summary: 'Change a room',
    description: 'For its owners and admins.',
    async handler(context, { params, body }) {
      const caller = userOf(context);
      await rooms.update(caller, params.id, body);
      return roomDocument(await rooms.get(caller, params.id));
    },
  });

const addOperation = ({ rooms }: ChatServices): Operation =>
  defineOperation({
    ...userFacts,
    id: 'chat.rooms.addUsers',
    method: 'PUT',
    path: '/chat/rooms/:roomId/addUsers',
    destructive: false,
    input: { params: RoomParams, body: Type.Object({ users: Users }) },
    output: TextResult,
    errors: [
      ...notFound,
      ...addable,
      chatErrors.CHAT_USER_NOT_ALLOWED,
      chatErrors.ROOM_ROLE_REQUIRED,
      chatErrors.CHAT_MEMBER_EXISTS,
      chatErrors.CHAT_INVITATION_EXISTS,
      chatErrors.DIRECT_ROOM_PROTECTED,
    ],
    summary: 'Bring users into a room',
    description: 'Or invite them, where joins are explicit. All of them, or none.',
    handler: async (context, { params, body }) =>
      (await rooms.addUsers(userOf(context), params.roomId, body.users))
        ? 'Invitations sent'
        : 'Users added',
  });

const removeOperation = ({ rooms }: ChatServices): Operation =>
  defineOperation({
    ...userFacts,
    id: 'chat.rooms.removeUsers',
    method: 'PUT',
    path: '/chat/rooms/:roomId/removeUsers',
    input: { params: RoomParams, body: Type.Object({ users: Users }) },
    output: TextResult,
    errors: [
      ...notFound,
      chatErrors.CHAT_MEMBER_NOT_FOUND,
      chatErrors.ROOM_ROLE_REQUIRED,
      chatErrors.DIRECT_ROOM_PROTECTED,
    ],
    summary: 'Remove members from a room',
    description: 'For its owners and admins; admins are removed by owners alone.',
    async handler(context, { params, body }) {
      await rooms.removeUsers(userOf(context), params.roomId, body.users);
      return 'Ok';
    },
  });

const rolesOperation = ({ rooms }: ChatServices): Operation =>
  defineOperation({
    ...userFacts,
    id: 'chat.rooms.setRoles',
    method: 'PUT',
    path: '/chat/rooms/:roomId/roles',
    input: { params: RoomParams, body: Type.Object({ users: Users, role: Role }) },
    output: TextResult,
    errors: [
      ...notFound,
      chatErrors.CHAT_MEMBER_NOT_FOUND,
      chatErrors.ROOM_ROLE_REQUIRED,
      chatErrors.ROOM_OWNER_REQUIRED,
    ],
    summary: 'Give members a role',
    description: 'For owners. A room keeps at least one.',
    async handler(context, { params, body }) {
      await rooms.setRoles(userOf(context), params.roomId, body.users, body.role);
      return 'Ok';
    },
  });

const leaveOperation = ({ rooms }: ChatServices): Operation =>
  defineOperation({
    ...userFacts,
    id: 'chat.rooms.leave',
    method: 'PUT',
    path: '/chat/leave/:roomId',
    input: { params: RoomParams },
    output: TextResult,
    errors: [...notFound, chatErrors.CHAT_MEMBER_NOT_FOUND],
    summary: 'Leave a room',
    async handler(context, { params }) {
      await rooms.leave(userOf(context), params.roomId);
      return 'Ok';
    },
  });

const Member = Type.Object({
  user: Reference,
  role: Role,
  joinedAt: Time,
  lastReadSeq: Type.Integer(),
  lastReadAt: orNull(Time),
  silencedUntil: orNull(Time),
  presence: Type.Object({ status: Type.String(), lastSeen: orNull(Time) }),
});

const membersOperation = ({ parts, presence }: ChatServices): Operation =>
  defineOperation({
    ...userFacts,
    id: 'chat.rooms.members',
    method: 'GET',
    path: '/chat/rooms/:roomId/members',
    heavy: true,
    input: {
      params: RoomParams,
      query: Type.Object({ ...Paging, populate: populateOf(['user']) }),
    },
    output: Type.Object({ members: Type.Array(Member), count: Type.Integer() }),
    errors: notFound,
    summary: 'List who is in a room, and whether they are there',
    async handler(context, { params, query: { populate: fields = [], ...page } }) {
      const { userId } = userOf(context);
      const { database } = parts;
      const { rows, count, silent, there } = await readAsMember(
        parts,
        params.roomId,
        userId,
        async () => {
          const found = await membersOf(database, params.roomId, page);
          const users = found.rows.map(({ user }) => user);
          const hidden = (await hiddenReaders(database, userId, [params.roomId])).values();
          const states = await presence.read(userId, users);
          return {
            ...found,
            silent: new Set(hidden),
            there: new Map(states.map((row) => [row.userId, onWire(row)] as const)),
          };
        },
      );
      const documents = rows.map((row) => ({
        user: row.user,
        role: row.role,
        joinedAt: row.joinedAt.toISOString(),
        lastReadSeq: silent.has(row.user) ? 0 : row.lastReadSeq,
        lastReadAt: (!silent.has(row.user) && row.lastReadAt?.toISOString()) || null,
        silencedUntil: row.silencedUntil?.toISOString() ?? null,
        presence: {
          status: there.get(row.user)?.status ?? 'offline',
          lastSeen: there.get(row.user)?.lastSeen ?? null,
        },
      }));
      const members = await populated(parts, context.caller as Caller, documents, fields);
      return { members: [...members], count };
    },
  });
