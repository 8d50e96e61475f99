/** What keeps a conversation bearable: silence, bans, blocks and reports. */
import { type Caller, callerKey, type UserCaller } from '../../../kernel/caller.ts';
import { invalid } from '../../../kernel/errors.ts';
import { newId } from '../../../kernel/ids.ts';
import { readWhile } from '../../../kernel/read-while.ts';
import { chatErrors } from '../errors.ts';
import { dropInvitationsTo } from '../queries/invitations.ts';
import { memberOf, setSilenced, usersToAdd } from '../queries/members.ts';
import { messageFor } from '../queries/messages.ts';
import {
  type BanRow,
  bansOf,
  blocksOf,
  dropBan,
  dropBlock,
  putBan,
  putBlock,
  putReport,
  type ReportRow,
  reportsOf,
  resolveReport,
} from '../queries/moderation.ts';
import { type ChatParts, reaches, requireMember, requireRole } from './chat-parts.ts';
import type { Rooms } from './rooms.ts';

interface Page {
  readonly skip: number;
  readonly limit: number;
}

export interface Ban {
  readonly user: string;
  readonly reason?: string | undefined;
  readonly until?: Date | undefined;
}

export interface Moderation {
  /** Until then the member may read but not write; nothing ends it. */
  silence(caller: UserCaller, roomId: string, user: string, until: Date | null): Promise<void>;
  /** Removes them, and keeps them out. */
  ban(caller: UserCaller, roomId: string, ban: Ban): Promise<void>;
  unban(caller: UserCaller, roomId: string, user: string): Promise<void>;
  bans(caller: UserCaller, roomId: string, page: Page): Promise<readonly BanRow[]>;
  /** Who is blocked cannot bring the caller into a room. */
  block(caller: UserCaller, user: string): Promise<void>;
  unblock(caller: UserCaller, user: string): Promise<void>;
  blocks(caller: UserCaller, page: Page): Promise<readonly string[]>;
  report(caller: UserCaller, messageId: string, reason: string): Promise<void>;
  reports(page: Page & { readonly state?: string | undefined }): Promise<{
    readonly rows: readonly ReportRow[];
    readonly count: number;
  }>;
  resolve(caller: Caller, reportId: string): Promise<void>;
}

export function createModeration(parts: ChatParts, rooms: Pick<Rooms, 'keepOut'>): Moderation {
  const { database, hub } = parts;
  /** Throws unless the caller is above the other. */
  const requireAbove = async (caller: UserCaller, roomId: string, user: string) => {
    const member = await requireMember(parts, roomId, caller.userId);
    requireRole(member, 'admin');
    // Nobody is above the other there, whoever opened it: who wants no more of it leaves, or blocks.
    if (member.isDirect) throw chatErrors.DIRECT_ROOM_PROTECTED();
    const other = await memberOf(database, roomId, user);
    if (other && (user === caller.userId || reaches(other.role, member.role)))
      throw chatErrors.ROOM_ROLE_REQUIRED();
    return other;
  };
  const requireUser = async (user: string): Promise<void> => {
    if ((await usersToAdd(database, [user], null)).length === 0)
      throw chatErrors.CHAT_USER_UNKNOWN();
  };

  return {
    async silence(caller, roomId, user, until) {
      if (!(await requireAbove(caller, roomId, user))) throw chatErrors.CHAT_MEMBER_NOT_FOUND();
      await setSilenced(database, roomId, user, until);
      hub.toUsers([user], 'silenced', { room: roomId, until: until?.toISOString() ?? null });
    },
    async ban(caller, roomId, { user, reason, until }) {
      await requireAbove(caller, roomId, user);
      await requireUser(user);
      const ban = { user, bannedBy: caller.userId, reason: reason ?? null, until: until ?? null };
      await rooms.keepOut(caller, roomId, user, async (transaction) => {
        await putBan(transaction, roomId, ban);
        await dropInvitationsTo(transaction, roomId, user);
      });
    },
    async unban(caller, roomId, user) {
      requireRole(await requireMember(parts, roomId, caller.userId), 'admin');
      if (!(await dropBan(database, roomId, user))) throw chatErrors.CHAT_MEMBER_NOT_FOUND();
    },
    async bans(caller, roomId, page) {
      const ask = async () =>
        requireRole(await requireMember(parts, roomId, caller.userId), 'admin');
      return readWhile(ask, () => bansOf(database, roomId, page));
    },
    async block({ userId }, user) {
      // They could make no room, and say nothing in a direct one.
      if (user === userId) throw invalid('userId', 'self', 'name somebody else');
      await requireUser(user);
      await putBlock(database, userId, user);
    },
    unblock: async ({ userId }, user) => void (await dropBlock(database, userId, user)),
    blocks: ({ userId }, page) => blocksOf(database, userId, page),
    ...createReporting(parts),
  };
}

/** What members say of messages, and what operators do about it. */
function createReporting({
  database,
  events,
  config,
}: ChatParts): Pick<Moderation, 'report' | 'reports' | 'resolve'> {
  return {
    async report(caller, messageId, reason) {
      const { userId } = caller;
      const joinedOnly = config().history === 'joined';
      const found = await messageFor(database, userId, messageId, joinedOnly);
      if (!found) throw chatErrors.CHAT_MESSAGE_NOT_FOUND();
      await database.transaction(async (transaction) => {
        const given = { id: newId(), message: messageId, reporter: userId, reason };
        const report = await putReport(transaction, given);
        const payload = { report, message: messageId, room: found.room };
        const topic = 'chat:report:ChatMessage';
        await events.emit(transaction, caller, { topic, ids: [messageId], payload });
      });
    },
    reports: (page) => reportsOf(database, page),
    async resolve(caller, reportId) {
      await database.transaction(async (transaction) => {
        if (!(await resolveReport(transaction, reportId, callerKey(caller))))
          throw chatErrors.CHAT_REPORT_NOT_FOUND();
        const payload = { report: reportId };
        const topic = 'chat:resolve:report';
        await events.emit(transaction, caller, { topic, ids: [reportId], payload });
      });
    },
  };
}
