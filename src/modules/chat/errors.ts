/** What can go wrong in chat. */
import { defineErrors } from '../../kernel/errors.ts';

export const chatErrors = defineErrors({
  CHAT_USER_UNKNOWN: [400, 'There are no such users'],
  LOGIN_PAGE_MISSING: [400, 'Sign in first: no page to sign in at is configured'],
  SYSTEM_MESSAGE_REFUSED: [403, 'Messages of the type system come from the server alone'],
  FILE_REFUSED: [403, 'There is no such file, or you may not read it'],
  ROOM_ROLE_REQUIRED: [403, 'Your role in this room is not enough for that'],
  INVITATION_MISMATCH: [403, 'This invitation is for somebody else'],
  CHAT_USER_BLOCKED: [403, 'One of these users does not accept messages from you'],
  CHAT_USER_NOT_ALLOWED: [403, 'One of these users was banned from the room'],
  CHAT_EDIT_EXPIRED: [403, 'The message is too old to be changed'],
  CHAT_WRITING_DENIED: [403, 'You may not write in this room for now'],
  CHAT_ROOM_NOT_FOUND: [404, 'There is no such room, or you are not in it'],
  CHAT_MESSAGE_NOT_FOUND: [404, 'There is no such message'],
  CHAT_MEMBER_NOT_FOUND: [404, 'There is no such member'],
  CHAT_INVITATION_NOT_FOUND: [404, 'There is no such invitation, or it has expired'],
  CHAT_REPORT_NOT_FOUND: [404, 'There is no such report'],
  CHAT_FEATURE_DISABLED: [404, 'There is nothing here'],
  CHAT_MEMBER_EXISTS: [409, 'One of these users is in the room already'],
  CHAT_INVITATION_EXISTS: [409, 'You have invited one of these users already'],
  DIRECT_ROOM_PROTECTED: [409, 'A direct room keeps its two members'],
  ROOM_OWNER_REQUIRED: [409, 'A room needs an owner: give the role to somebody else first'],
  REACTIONS_FULL: [
    409,
    'This message has the maximum number of different reactions: remove one of yours first',
  ],
  CHAT_ROOM_FULL: [409, 'A room holds no more members'],
  ROOM_LIMIT_EXCEEDED: [409, 'One of these users is in as many rooms as they may be'],
});
