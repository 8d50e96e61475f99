/** The SQL of who has a socket open, on which node, and when they last had one. */
import type { Queryable } from '../../../kernel/database/database.ts';
import { sql } from '../../../kernel/database/sql.ts';

/** Those that are new to this node, or still there. */
export const putPresence = (
  database: Queryable,
  nodeId: string,
  users: readonly { readonly user: string; readonly status: string }[],
  ttlSeconds: number,
): Promise<unknown> =>
  database.query(sql`
    insert into penstock.chat_presence (user_id, node_id, status, expires_at)
    select x.id, ${nodeId}, x.status, now() + ${ttlSeconds}::integer * interval '1 second'
    from unnest(${users.map(({ user }) => user)}::uuid[], ${users.map(({ status }) => status)}::text[]) as x(id, status)
    on conflict (user_id, node_id) do update set status = excluded.status, expires_at = excluded.expires_at`);

/** They have gone, were it a moment after they came. */
export const dropPresence = (
  database: Queryable,
  nodeId: string,
  users: readonly string[],
): Promise<unknown> =>
  database.query(sql`
    with gone as (delete from penstock.chat_presence where node_id = ${nodeId} and user_id = any(${users}::uuid[]))
    insert into penstock.chat_last_seen (user_id, seen_at)
    select u."_id", now() from "app"."User" u where u."_id" = any(${users}::uuid[])
    on conflict (user_id) do update set seen_at = excluded.seen_at`);

export interface PresenceRow {
  readonly userId: string;
  readonly status: string;
  readonly lastSeen: Date | null;
}

/** The best of what the nodes say; `offline` for those without a socket. */
export const presenceOf = async (
  database: Queryable,
  users: readonly string[],
): Promise<readonly PresenceRow[]> =>
  (
    await database.query<PresenceRow>(sql`
      select x.id as "userId", l.seen_at as "lastSeen", coalesce((select case when bool_or(p.status = 'online') then 'online' else min(p.status) end
        from penstock.chat_presence p where p.user_id = x.id and p.expires_at > now()), 'offline') as status
      from unnest(${users}::uuid[]) as x(id) left join penstock.chat_last_seen l on l.user_id = x.id`)
  ).rows;

export const purgePresence = (database: Queryable): Promise<unknown> =>
  database.query(
    sql`delete from penstock.chat_presence where expires_at < now() - interval '1 hour'`,
  );

/** What a push about a room is made of. */
export interface PushRow {
  readonly roomName: string;
  readonly isDirect: boolean;
  readonly messageId: string;
  readonly sender: string | null;
  readonly senderName: string | null;
  readonly content: string | null;
  readonly type: string;
  readonly receivers: readonly string[];
}

/**
 * The last message that was not pushed yet, and who is to get one: members without a socket who have not read it, and
 * have not muted the room unless it calls them. Marks the room as pushed.
 */
export async function takePush(
  transaction: Queryable,
  roomId: string,
): Promise<PushRow | undefined> {
  const { rows } = await transaction.query<PushRow>(sql`
    with room as (select "_id", "name", "directKey", "lastSeq", "pushedSeq" from "app"."ChatRoom"
        where "_id" = ${roomId}::uuid and not "deleted" and "lastSeq" > "pushedSeq" for no key update),
      pushed as (update "app"."ChatRoom" r set "pushedSeq" = room."lastSeq" from room where r."_id" = room."_id"),
      fresh as (select t.* from "app"."ChatMessage" t join room on t."room" = room."_id"
        where t."seq" > room."pushedSeq" and not t."deleted"),
      latest as (select * from fresh order by "seq" desc limit 1)
    select room."name" as "roomName", room."directKey" is not null as "isDirect", latest."_id" as "messageId",
      latest."senderUser" as sender, u."username" as "senderName", latest."message" as content, latest."messageType" as type,
      array(select m."user" from "app"."ChatMember" m where m."room" = room."_id" and m."lastReadSeq" < latest."seq"
        and exists (select from fresh f where f."senderUser" is distinct from m."user")
        and exists (select from "app"."User" a where a."_id" = m."user" and a."active" is not false)
        and (not m."muted" or exists (select from fresh f where m."user" = any(f."mentions")))
        and not exists (select from penstock.chat_presence p where p.user_id = m."user" and p.expires_at > now())) as receivers
    from room cross join latest left join "app"."User" u on u."_id" = latest."senderUser"`);
  return rows[0];
}

/** Of these users, members who have not read the message, which is still there, and may be told of it. */
export const stillToPush = async (
  database: Queryable,
  messageId: string,
  users: readonly string[],
): Promise<ReadonlySet<string>> =>
  new Set(
    (
      await database.query<{ user: string }>(sql`
        select m."user" from "app"."ChatMessage" t
          join "app"."ChatRoom" r on r."_id" = t."room" and not r."deleted"
          join "app"."ChatMember" m on m."room" = t."room" and m."user" = any(${users}::uuid[])
        where t."_id" = ${messageId}::uuid and not t."deleted" and m."lastReadSeq" < t."seq" and m."joinedSeq" < t."seq"
          and exists (select from "app"."User" a where a."_id" = m."user" and a."active" is not false)
          and (not m."muted" or exists (select from "app"."ChatMessage" f where f."room" = t."room" and not f."deleted"
            and f."seq" > m."lastReadSeq" and f."seq" <= t."seq" and m."user" = any(f."mentions")))`)
    ).rows.map(({ user }) => user),
  );
