/** The data that chat owns, in the schema language. */
import type { SchemaDefinition } from '../../data/schema/language/definition.ts';

/** Operators may add fields to them; documents themselves are made and changed by this module alone. */
const owned = {
  cms: { enabled: false },
  permissions: {
    extendable: true,
    canCreate: false,
    canModify: 'ExtensionOnly',
    canDelete: false,
  },
} as const;

const counter = (description: string) =>
  ({ type: 'Number', sqlType: 'INT', required: true, default: 0, description }) as const;
const flag = (description: string) =>
  ({ type: 'Boolean', required: true, default: false, description }) as const;
const link = (model: string) =>
  ({ type: 'Relation', model, required: true, onDelete: 'cascade' }) as const;

export const messageTypes = ['text', 'file', 'typing', 'multimedia', 'system'] as const;
export type MessageType = (typeof messageTypes)[number];

/** What a room's members may do; each can what those before it can. */
export const roomRoles = ['member', 'admin', 'owner'] as const;
export type RoomRole = (typeof roomRoles)[number];

/**
 * A room. `lastSeq` is the number of its last message, `lastChange` that of the last thing that happened to any of its
 * messages; both grow with the transaction that writes, so nobody sees a later number before an earlier one.
 */
export const roomSchema = {
  name: 'ChatRoom',
  fields: {
    name: { type: 'String', required: true },
    creator: { type: 'Relation', model: 'User', onDelete: 'setNull' },
    deleted: flag('Kept for the audit only.'),
    metadata: { type: 'JSON', description: 'What the app wants to keep with it.' },
    directKey: {
      type: 'String',
      select: false,
      description: 'The two users of a direct room, so that there is one only.',
    },
    lastSeq: counter('Number of the last message.'),
    lastChange: { ...counter('Number of the last change of any message.'), select: false },
    removedCount: { ...counter('Messages that were deleted.'), select: false },
    pushedSeq: { ...counter('Messages up to this one were pushed.'), select: false },
    lastMessageAt: { type: 'Date', description: 'When the last message that is there was sent.' },
  },
  modelOptions: {
    timestamps: true,
    indexes: [
      // None on what changes with each message: the row is then rewritten in place, without a touch of any index.
      { fields: ['directKey'], options: { unique: true } },
      { fields: ['createdAt'] },
    ],
    conduit: owned,
  },
} as const satisfies SchemaDefinition;

/** Who is in a room, and how far they have read. */
export const memberSchema = {
  name: 'ChatMember',
  fields: {
    room: link('ChatRoom'),
    user: link('User'),
    role: { type: 'String', required: true, default: 'member', enum: roomRoles },
    joinedAt: { type: 'Date', required: true },
    joinedSeq: counter('The last message before they joined.'),
    lastReadSeq: counter('They have read up to this message.'),
    lastReadAt: 'Date',
    muted: flag('They want no pushes about this room.'),
    silencedUntil: { type: 'Date', description: 'Until then they may not write.' },
  },
  modelOptions: {
    timestamps: false,
    indexes: [
      { fields: ['room', 'user'], options: { unique: true } },
      { fields: ['user', 'room'] },
      { fields: ['room', 'lastReadSeq'] },
    ],
    conduit: owned,
  },
} as const satisfies SchemaDefinition;

/** A message. One that was deleted stays as a tombstone, so that clients can reconcile. */
export const messageSchema = {
  name: 'ChatMessage',
  fields: {
    // Indexes below begin with these three: each message would be written into one more for each of them.
    room: { ...link('ChatRoom'), index: false },
    senderUser: { type: 'Relation', model: 'User', onDelete: 'setNull', index: false },
    messageType: { type: 'String', required: true, default: 'text', enum: messageTypes },
    message: 'String',
    files: [{ type: 'Relation', model: 'File' }],
    mentions: [{ type: 'Relation', model: 'User' }],
    seq: counter('Place in the room, without gaps.'),
    change: { ...counter('Place of its last change in the room.'), select: false },
    changeKind: { type: 'String', select: false },
    nonce: { type: 'String', select: false, description: 'Mark of the client, against doubles.' },
    threadRoot: { type: 'Relation', model: 'ChatMessage', onDelete: 'setNull', index: false },
    replyCount: counter('Messages that answer it.'),
    deleted: flag('It is a tombstone, or kept for the audit only.'),
    removed: { ...flag('Nothing of its content is kept.'), select: false },
    editedAt: 'Date',
    deletedAt: 'Date',
  },
  modelOptions: {
    timestamps: true,
    indexes: [
      { fields: ['room', 'seq'], options: { unique: true } },
      {
        fields: ['room', 'senderUser', 'nonce'],
        options: { unique: true },
        engine: { where: { nonce: { $exists: true } } },
      },
      { fields: ['room', 'change'] },
      { fields: ['threadRoot', 'seq'], engine: { where: { threadRoot: { $exists: true } } } },
      { fields: ['senderUser', 'createdAt'] },
      { fields: ['createdAt'] },
      { fields: ['files'], engine: { method: 'GIN' } },
      { fields: ['message'], types: 'Text' },
    ],
    conduit: owned,
  },
} as const satisfies SchemaDefinition;

/** An invitation that nobody has answered yet. */
export const invitationSchema = {
  name: 'InvitationToken',
  fields: {
    sender: link('User'),
    receiver: link('User'),
    room: link('ChatRoom'),
    token: { type: 'String', required: true, select: false, description: 'SHA-256 of the secret.' },
    expiresAt: { type: 'Date', required: true },
  },
  modelOptions: {
    timestamps: true,
    indexes: [
      { fields: ['room', 'receiver'], options: { unique: true } },
      { fields: ['receiver', 'createdAt'] },
      { fields: ['sender', 'createdAt'] },
      { fields: ['token'], options: { unique: true } },
      { fields: ['expiresAt'] },
    ],
    conduit: owned,
  },
} as const satisfies SchemaDefinition;

export const logActions = ['create', 'join', 'leave', 'add', 'remove'] as const;
export type LogAction = (typeof logActions)[number];

/** Who came and went. */
export const participantsLogSchema = {
  name: 'ChatParticipantsLog',
  fields: {
    action: { type: 'String', required: true, enum: logActions },
    user: link('User'),
    chatRoom: link('ChatRoom'),
  },
  modelOptions: {
    timestamps: true,
    indexes: [{ fields: ['chatRoom', 'createdAt'] }],
    conduit: owned,
  },
} as const satisfies SchemaDefinition;
