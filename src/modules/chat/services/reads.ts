/** How far members have read, what they mute, and signs of life that are not stored. */
import type { UserCaller } from '../../../kernel/caller.ts';
import { errors } from '../../../kernel/errors.ts';
import type { LimitBucket } from '../../../kernel/limits/limits.ts';
import { chatErrors } from '../errors.ts';
import { hasBlockedIn, markRead, setMuted, unreadByRoom } from '../queries/members.ts';
import { messageById } from '../queries/messages.ts';
import { type ChatParts, requireWriter } from './chat-parts.ts';

type Budgeted = 'messages' | 'typing' | 'presence';

/** Each change of how somebody is there is written, and told to all who watch them. */
const PRESENCE_PER_10S = 20;

export interface Reads {
  /** Up to a message, or all. Answers what is unread then. */
  mark(
    caller: UserCaller,
    roomId: string,
    upTo?: string,
  ): Promise<{ readonly unreadCount: number }>;
  unread(caller: UserCaller): Promise<{
    readonly total: number;
    readonly rooms: Readonly<Record<string, number>>;
  }>;
  mute(caller: UserCaller, roomId: string, muted: boolean): Promise<void>;
  typing(caller: UserCaller, roomId: string, state: 'start' | 'stop'): Promise<void>;
  /** Throws RATE_LIMIT. */
  requireBudget(userId: string, what: Budgeted): Promise<void>;
}

export function createReads(parts: ChatParts): Reads {
  const { database, events, hub, limits, config } = parts;
  const bucket = (what: Budgeted): LimitBucket => {
    const { messagesPer10s, typingPer10s } = config().rateLimit;
    const max = { messages: messagesPer10s, typing: typingPer10s, presence: PRESENCE_PER_10S };
    return { name: `chat.${what}`, requests: max[what], seconds: 10 };
  };
  /** Signs of life of a member: in a direct room, the other one hears none of who has blocked them. */
  const isAlone = async (roomId: string, userId: string, isDirect: boolean): Promise<boolean> =>
    isDirect && (await hasBlockedIn(database, roomId, userId));
  return {
    async mark(caller, given, upTo) {
      const { userId } = caller;
      const roomId = given.toLowerCase();
      const message = upTo === undefined ? undefined : await messageById(database, upTo);
      if (upTo !== undefined && message?.room !== roomId) throw chatErrors.CHAT_MESSAGE_NOT_FOUND();
      const read = await database.transaction(async (transaction) => {
        const done = await markRead(transaction, roomId, userId, message?.seq);
        if (done?.moved)
          await events.emit(transaction, caller, {
            topic: 'chat:read:ChatRoom',
            ids: [roomId],
            payload: { roomId, user: userId },
          });
        return done;
      });
      if (!read) throw chatErrors.CHAT_ROOM_NOT_FOUND();
      const told = { room: roomId, readBy: userId };
      // What others know already is an echo for the reader alone: a room may have many members.
      const alone = !read.moved || (await isAlone(roomId, userId, read.isDirect));
      if (!alone) hub.toRoom(roomId, 'messagesRead', told);
      else hub.toUsers([userId], 'messagesRead', told);
      return { unreadCount: read.unreadCount };
    },
    async unread({ userId }) {
      const counts = await unreadByRoom(database, userId);
      return {
        total: counts.reduce((sum, { count }) => sum + count, 0),
        rooms: Object.fromEntries(counts.map(({ room, count }) => [room, count])),
      };
    },
    async mute({ userId }, roomId, muted) {
      if (!(await setMuted(database, roomId, userId, muted)))
        throw chatErrors.CHAT_ROOM_NOT_FOUND();
    },
    async typing({ userId }, roomId, state) {
      const { isDirect } = await requireWriter(parts, roomId, userId);
      const room = roomId.toLowerCase();
      const alone = await isAlone(room, userId, isDirect);
      const tell = (event: string, data: unknown): void =>
        alone ? hub.toUsers([userId], event, data) : hub.toRoom(room, event, data);
      if (state === 'start') tell('message', { sender: userId, contentType: 'typing', room });
      tell('typing', { room, user: userId, state });
    },
    async requireBudget(userId, what) {
      const state = await limits.consume(bucket(what), userId);
      if (!state.allowed)
        throw errors.RATE_LIMIT({ retryAfter: Math.max(1, Math.ceil(state.resetMs / 1_000)) });
    },
  };
}
