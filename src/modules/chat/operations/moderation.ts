/** Silence, bans, blocks and reports, for users. */
import Type from 'typebox';
import type { Caller } from '../../../kernel/caller.ts';
import { invalid } from '../../../kernel/errors.ts';
import {
  defineOperation,
  type Operation,
  TextResult,
} from '../../../kernel/operations/operation.ts';
import { chatErrors } from '../errors.ts';
import { userOf } from '../services/chat-parts.ts';
import type { ChatServices } from '../services/chat-services.ts';
import { populated } from '../services/populate.ts';
import {
  MessageParams,
  orNull,
  Paging,
  populateOf,
  Reference,
  RoomParams,
  Time,
  Uuid,
  userFacts,
} from './shapes.ts';

const Reason = Type.String({ minLength: 1, maxLength: 1_000 });
const MemberParams = Type.Object({ roomId: Uuid, userId: Uuid });
const UserParams = Type.Object({ userId: Uuid });
const roomErrors = [
  chatErrors.DIRECT_ROOM_PROTECTED,
  chatErrors.CHAT_ROOM_NOT_FOUND,
  chatErrors.CHAT_MEMBER_NOT_FOUND,
  chatErrors.ROOM_ROLE_REQUIRED,
];

export const moderationOperations = (services: ChatServices): readonly Operation[] => [
  silenceOperation(services),
  listBansOperation(services),
  addBanOperation(services),
  endBanOperation(services),
  ...blockOperations(services),
  reportOperation(services),
];

/** Throws 400 for a time that has passed. */
function laterThanNow(time: string | null | undefined): Date | undefined {
  if (time === null || time === undefined) return undefined;
  const until = new Date(time);
  if (until <= new Date()) throw invalid('until', 'minimum', 'must be in the future');
  return until;
}

const silenceOperation = ({ moderation }: ChatServices): Operation =>
  defineOperation({
    ...userFacts,
    id: 'chat.members.silence',
    method: 'PUT',
    path: '/chat/rooms/:roomId/members/:userId/silence',
    destructive: false,
    input: { params: MemberParams, body: Type.Object({ until: orNull(Time) }) },
    output: TextResult,
    errors: roomErrors,
    summary: 'Keep a member from writing',
    description: 'Until a time; null lets them write again. For roles above theirs.',
    async handler(context, { params, body }) {
      const until = laterThanNow(body.until) ?? null;
      const userId = params.userId.toLowerCase();
      await moderation.silence(userOf(context), params.roomId, userId, until);
      return 'Ok';
    },
  });

const listBansOperation = ({ moderation, parts }: ChatServices): Operation =>
  defineOperation({
    ...userFacts,
    id: 'chat.bans.list',
    method: 'GET',
    path: '/chat/rooms/:roomId/bans',
    input: {
      params: RoomParams,
      query: Type.Object({ ...Paging, populate: populateOf(['user', 'bannedBy']) }),
    },
    output: Type.Object({
      bans: Type.Array(
        Type.Object({
          user: Reference,
          bannedBy: orNull(Reference),
          reason: orNull(Type.String()),
          until: orNull(Time),
          createdAt: Time,
        }),
      ),
    }),
    errors: roomErrors,
    summary: 'List who is banned from a room',
    async handler(context, { params, query: { populate: fields = [], ...page } }) {
      const rows = await moderation.bans(userOf(context), params.roomId, page);
      const documents = rows.map((row) => ({
        ...row,
        until: row.until?.toISOString() ?? null,
        createdAt: row.createdAt.toISOString(),
      }));
      return { bans: [...(await populated(parts, context.caller as Caller, documents, fields))] };
    },
  });

const addBanOperation = ({ moderation }: ChatServices): Operation =>
  defineOperation({
    ...userFacts,
    id: 'chat.bans.add',
    method: 'POST',
    path: '/chat/rooms/:roomId/bans',
    input: {
      params: RoomParams,
      body: Type.Object({
        user: Uuid,
        reason: Type.Optional(Reason),
        until: Type.Optional(Time),
      }),
    },
    output: TextResult,
    errors: [...roomErrors, chatErrors.CHAT_USER_UNKNOWN],
    summary: 'Ban somebody from a room',
    description: 'They are removed, and nobody but an operator brings them back meanwhile.',
    async handler(context, { params, body: { user, reason, until } }) {
      const ban = { user: user.toLowerCase(), reason, until: laterThanNow(until) };
      await moderation.ban(userOf(context), params.roomId, ban);
      return 'Ok';
    },
  });

const endBanOperation = ({ moderation }: ChatServices): Operation =>
  defineOperation({
    ...userFacts,
    id: 'chat.bans.remove',
    method: 'DELETE',
    path: '/chat/rooms/:roomId/bans/:userId',
    input: { params: MemberParams },
    output: TextResult,
    errors: roomErrors,
    summary: 'End a ban',
    async handler(context, { params }) {
      await moderation.unban(userOf(context), params.roomId, params.userId);
      return 'Ok';
    },
  });

const blockOperations = ({ moderation, parts }: ChatServices): readonly Operation[] => [
  defineOperation({
    ...userFacts,
    id: 'chat.blocks.list',
    method: 'GET',
    path: '/chat/blocks',
    input: { query: Type.Object({ ...Paging, populate: populateOf(['users']) }) },
    output: Type.Object({ users: Type.Array(Reference) }),
    summary: 'List whom you have blocked',
    async handler(context, { query: { populate: fields = [], ...page } }) {
      const users = [...(await moderation.blocks(userOf(context), page))];
      const [filled] = await populated(parts, context.caller as Caller, [{ users }], fields);
      return filled ?? { users };
    },
  }),
  defineOperation({
    ...userFacts,
    id: 'chat.blocks.add',
    method: 'PUT',
    path: '/chat/blocks/:userId',
    destructive: false,
    input: { params: UserParams },
    output: TextResult,
    errors: [chatErrors.CHAT_USER_UNKNOWN],
    summary: 'Block a user',
    description: 'They can no longer bring you into rooms, nor open a direct one.',
    async handler(context, { params }) {
      await moderation.block(userOf(context), params.userId);
      return 'Ok';
    },
  }),
  defineOperation({
    ...userFacts,
    id: 'chat.blocks.remove',
    method: 'DELETE',
    path: '/chat/blocks/:userId',
    input: { params: UserParams },
    output: TextResult,
    summary: 'Unblock a user',
    async handler(context, { params }) {
      await moderation.unblock(userOf(context), params.userId);
      return 'Ok';
    },
  }),
];

const reportOperation = ({ moderation }: ChatServices): Operation =>
  defineOperation({
    ...userFacts,
    id: 'chat.messages.report',
    method: 'POST',
    path: '/chat/messages/:messageId/report',
    input: { params: MessageParams, body: Type.Object({ reason: Reason }) },
    output: TextResult,
    errors: [chatErrors.CHAT_MESSAGE_NOT_FOUND],
    summary: 'Report a message to the operators',
    async handler(context, { params, body }) {
      await moderation.report(userOf(context), params.messageId, body.reason);
      return 'Ok';
    },
  });
