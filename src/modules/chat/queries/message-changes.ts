/** The SQL of what becomes of messages that were sent: edits, reactions, deletion. Each is a change with its own number in the room. */
import type { Queryable } from '../../../kernel/database/database.ts';
import { sql } from '../../../kernel/database/sql.ts';
import type { MessageRow } from './messages.ts';

/** The next number of a change; keeps others from changing messages of the room until the transaction ends. */
export const nextChange = async (
  transaction: Queryable,
  room: string,
): Promise<number | undefined> =>
  (
    await transaction.query<{ change: number }>(sql`
      update "app"."ChatRoom" set "lastChange" = "lastChange" + 1 where "_id" = ${room}::uuid and not "deleted"
      returning "lastChange" as change`)
  ).rows[0]?.change;

interface Edit {
  readonly content: string;
  readonly change: number;
  /** What it said before is kept. */
  readonly keepHistory: boolean;
}

export const editMessage = async (
  transaction: Queryable,
  id: string,
  { content, change, keepHistory }: Edit,
): Promise<boolean> => {
  if (keepHistory)
    await transaction.query(sql`
      insert into penstock.chat_edits (message_id, change, content) select "_id", ${change}::integer, "message"
      from "app"."ChatMessage" where "_id" = ${id}::uuid and not "deleted"`);
  const { count } = await transaction.query(sql`
      update "app"."ChatMessage" set "message" = ${content}, "editedAt" = clock_timestamp(), "updatedAt" = now(), "__v" = "__v" + 1,
        "change" = ${change}::integer, "changeKind" = 'edited' where "_id" = ${id}::uuid and not "deleted"`);
  return count > 0;
};

export interface EditRow {
  readonly message: string | null;
  /** When it was replaced. */
  readonly replacedAt: Date;
}

/** Earlier texts of a message that are listed. */
const MAX_EDITS = 100;

export const editsOf = async (
  database: Queryable,
  messageId: string,
): Promise<readonly EditRow[]> =>
  (
    await database.query<EditRow>(sql`
      select content as message, replaced_at as "replacedAt" from penstock.chat_edits
      where message_id = ${messageId}::uuid order by change desc limit ${MAX_EDITS}::integer`)
  ).rows;

export const touchMessage = (
  transaction: Queryable,
  id: string,
  change: number,
): Promise<unknown> =>
  transaction.query(
    sql`update "app"."ChatMessage" set "change" = ${change}::integer, "changeKind" = 'reacted' where "_id" = ${id}::uuid`,
  );

/** Leaves a tombstone. `audited`: operators can still read what it said. */
export async function deleteMessage(
  transaction: Queryable,
  { id, room, threadRoot }: Pick<MessageRow, 'id' | 'room' | 'threadRoot'>,
  { change, audited }: { readonly change: number; readonly audited: boolean },
): Promise<boolean> {
  const { count } = await transaction.query(sql`
    update "app"."ChatMessage" set "deleted" = true, "deletedAt" = clock_timestamp(), "updatedAt" = now(),
      "change" = ${change}::integer, "changeKind" = 'deleted', "removed" = ${!audited}::boolean,
      "message" = case when ${audited} then "message" end, "files" = case when ${audited} then "files" else '{}' end,
      "mentions" = case when ${audited} then "mentions" else '{}' end
    where "_id" = ${id}::uuid and not "deleted"`);
  if (count === 0) return false;
  if (threadRoot !== null)
    await transaction.query(
      sql`update "app"."ChatMessage" set "replyCount" = greatest("replyCount" - 1, 0) where "_id" = ${threadRoot}::uuid`,
    );
  await transaction.query(sql`delete from penstock.chat_reactions where message_id = ${id}::uuid`);
  if (!audited)
    await transaction.query(sql`delete from penstock.chat_edits where message_id = ${id}::uuid`);
  await transaction.query(sql`
    update "app"."ChatRoom" r set "removedCount" = r."removedCount" + 1, "lastMessageAt" = (select t."createdAt"
      from "app"."ChatMessage" t where t."room" = r."_id" and not t."deleted" order by t."seq" desc limit 1)
    where r."_id" = ${room}::uuid`);
  return true;
}

/** How many signs other than this one a user has put on a message, and how many everybody has. */
export const otherReactions = async (
  transaction: Queryable,
  { id, userId, emoji }: { readonly id: string; readonly userId: string; readonly emoji: string },
): Promise<{ readonly own: number; readonly all: number }> =>
  (
    await transaction.query<{ own: number; all: number }>(sql`
      select count(distinct emoji) filter (where user_id = ${userId}::uuid)::integer as own,
        count(distinct emoji)::integer as all
      from penstock.chat_reactions where message_id = ${id}::uuid and emoji <> ${emoji}`)
  ).rows[0] ?? { own: 0, all: 0 };

/** Answers whether anything changed. */
export const react = async (
  transaction: Queryable,
  { id, userId, emoji }: { readonly id: string; readonly userId: string; readonly emoji: string },
  remove: boolean,
): Promise<boolean> =>
  (
    await transaction.query(
      remove
        ? sql`delete from penstock.chat_reactions where message_id = ${id}::uuid and emoji = ${emoji} and user_id = ${userId}::uuid`
        : sql`insert into penstock.chat_reactions (message_id, emoji, user_id) values (${id}::uuid, ${emoji}, ${userId}::uuid)
            on conflict do nothing`,
    )
  ).count > 0;
