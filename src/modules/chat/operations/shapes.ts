/** What requests and answers of chat look like. */
import Type from 'typebox';
import { standardLimit } from '../../../kernel/operations/operation.ts';
import { pagingQuery } from '../../../kernel/operations/paging.ts';
import type { EditRow } from '../queries/message-changes.ts';
import { messageTypes, roomRoles } from '../schemas.ts';

export const userFacts = { surface: 'client', access: 'user', limit: standardLimit } as const;
export const adminFacts = { surface: 'admin', access: 'admin', limit: standardLimit } as const;

export const Uuid = Type.String({ format: 'uuid' });
export const RoomParams = Type.Object({
  roomId: Type.String({ format: 'uuid', description: 'Id of the room' }),
});
export const IdParams = Type.Object({ id: Type.String({ format: 'uuid', description: 'Its id' }) });
export const MessageParams = Type.Object({
  messageId: { ...Uuid, description: 'Id of the message' },
});
export const Time = Type.String({ format: 'date-time' });
export const orNull = <T extends Type.TSchema>(schema: T) => Type.Union([schema, Type.Null()]);

export const Paging = {
  ...pagingQuery({ maxLimit: 200 }),
};

export const Users = Type.Array(Uuid, {
  minItems: 1,
  maxItems: 1_000,
  description: 'Ids of users',
});
export const RoomName = Type.String({
  minLength: 1,
  maxLength: 200,
  pattern: '\\S',
  description: 'What people call it',
});
export const Metadata = Type.Record(Type.String({ maxLength: 100 }), Type.Unknown(), {
  maxProperties: 50,
  description: 'What the app wants to keep with it: at most 65,536 bytes as JSON.',
});
export const Role = Type.Enum(roomRoles);
export const Emoji = Type.String({
  minLength: 1,
  maxLength: 64,
  pattern: '^[^\\u0000-\\u0020]+$',
  examples: ['👍'],
});

/** An id, or the document where it was populated. */
export const Reference = Type.Union([Uuid, Type.Record(Type.String(), Type.Unknown())]);

export const RoomDocument = Type.Object({
  _id: Uuid,
  name: Type.String(),
  participants: Type.Array(Reference, { description: 'At most 1,000 of them.' }),
  participantCount: Type.Integer(),
  creator: orNull(Reference),
  participantsLog: Type.Array(Uuid, { description: 'The last entries.' }),
  deleted: Type.Boolean(),
  isDirect: Type.Boolean(),
  metadata: Type.Unknown(),
  createdAt: Time,
  updatedAt: Time,
  lastMessageAt: orNull(Time),
  lastSeq: Type.Integer(),
  lastMessage: Type.Optional(
    orNull(
      Type.Object({
        _id: Uuid,
        content: orNull(Type.String()),
        contentType: Type.String(),
        sender: orNull(Uuid),
        createdAt: Time,
        seq: Type.Integer(),
      }),
    ),
  ),
  lastReadSeq: Type.Optional(Type.Integer({ description: 'You have read up to this message.' })),
  unreadCount: Type.Optional(Type.Integer({ description: 'Counted up to 10,000.' })),
  myRole: Type.Optional(Role),
  muted: Type.Optional(Type.Boolean()),
});

export const Reactions = Type.Array(
  Type.Object({
    emoji: Type.String(),
    count: Type.Integer(),
    users: Type.Array(Uuid, { description: 'The first 100.' }),
  }),
);

export const MessageDocument = Type.Object({
  _id: Uuid,
  message: orNull(Type.String()),
  messageType: Type.Enum(messageTypes),
  files: Type.Array(Reference),
  senderUser: orNull(Reference),
  room: Reference,
  readBy: Type.Array(Reference, { description: 'The first 100.' }),
  deleted: Type.Boolean(),
  createdAt: Time,
  updatedAt: Time,
  editedAt: orNull(Time),
  threadRoot: orNull(Uuid),
  replyCount: Type.Integer(),
  reactions: Reactions,
  mentions: Type.Array(Uuid),
  seq: Type.Integer({ description: 'Place in the room, without gaps.' }),
});

export const EditDocument = Type.Object({
  message: orNull(Type.String()),
  replacedAt: Type.String({ format: 'date-time', description: 'When it was changed' }),
});
export const editDocument = ({ message, replacedAt }: EditRow) => ({
  message,
  replacedAt: replacedAt.toISOString(),
});

export const InvitationDocument = Type.Object({
  _id: Uuid,
  room: Uuid,
  roomName: Type.String(),
  sender: Reference,
  receiver: Reference,
  expiresAt: Time,
  createdAt: Time,
  updatedAt: Time,
});

export const populateOf = <const N extends string>(names: readonly N[]) =>
  Type.Optional(
    Type.Array(Type.Enum(names), {
      maxItems: names.length,
      description: 'Relations to answer as records instead of ids',
    }),
  );

/** SQL of an order by these columns; the id last, so that pages are stable. */
export const orderOf = (
  sort: readonly string[] | undefined,
  columns: Readonly<Record<string, string>>,
  usual: string,
): string => {
  const parts = (sort ?? []).flatMap((name) => {
    const column = columns[name.replace(/^-/, '')];
    return column === undefined ? [] : [`${column} ${name.startsWith('-') ? 'desc' : 'asc'}`];
  });
  return parts.length === 0 ? usual : parts.join(', ');
};

export const sortOf = (names: readonly string[]) =>
  Type.Optional(
    Type.Array(Type.Enum(names.flatMap((name) => [name, `-${name}`])), {
      maxItems: 4,
      description: 'What to order by; - in front: descending',
    }),
  );
