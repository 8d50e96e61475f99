/** The SQL of who is in a room, and of who may not be. */
import type { Queryable } from '../../../kernel/database/database.ts';
import { shortSql, sql } from '../../../kernel/database/sql.ts';
import type { RoomRole } from '../schemas.ts';
import { unreadOf } from './rooms.ts';

export interface MemberRow {
  readonly user: string;
  readonly role: RoomRole;
  readonly joinedAt: Date;
  readonly joinedSeq: number;
  readonly lastReadSeq: number;
  readonly lastReadAt: Date | null;
  readonly muted: boolean;
  readonly silencedUntil: Date | null;
}

/** With what they need to know of the room. */
export interface PresentMember extends MemberRow {
  readonly roomName: string;
  readonly lastSeq: number;
  readonly lastChange: number;
  readonly isDirect: boolean;
}

const columns = `m."user", m."role", m."joinedAt", m."joinedSeq", m."lastReadSeq", m."lastReadAt", m."muted", m."silencedUntil"`;

/** The member, if the room is there and they are in it. */
export async function memberOf(
  database: Queryable,
  roomId: string,
  userId: string,
): Promise<PresentMember | undefined> {
  const { rows } = await database.query<PresentMember>(shortSql`
    select m."user", m."role", m."joinedAt", m."joinedSeq", m."lastReadSeq", m."lastReadAt", m."muted", m."silencedUntil",
      r."name" as "roomName", r."lastSeq", r."lastChange", r."directKey" is not null as "isDirect"
    from "app"."ChatMember" m join "app"."ChatRoom" r on r."_id" = m."room"
    where m."room" = ${roomId}::uuid and m."user" = ${userId}::uuid and not r."deleted"`);
  return rows[0];
}

/** Whether the other one of a direct room has blocked the user: they hear nothing from them there. */
export const isBlockedIn = async (
  database: Queryable,
  roomId: string,
  userId: string,
): Promise<boolean> =>
  (
    await database.query(shortSql`
      select from "app"."ChatMember" o join penstock.chat_blocks b on b.user_id = o."user" and b.blocked_id = ${userId}::uuid
      where o."room" = ${roomId}::uuid limit 1`)
  ).rows.length > 0;

/** Whether the user has blocked the other one of a direct room. */
export const hasBlockedIn = async (
  database: Queryable,
  roomId: string,
  userId: string,
): Promise<boolean> =>
  (
    await database.query(shortSql`
      select from "app"."ChatMember" o join penstock.chat_blocks b on b.user_id = ${userId}::uuid and b.blocked_id = o."user"
      where o."room" = ${roomId}::uuid limit 1`)
  ).rows.length > 0;

/** Those who have blocked the user, by direct room: how far they have read is not for the user. */
export const hiddenReaders = async (
  database: Queryable,
  userId: string,
  rooms: readonly string[],
): Promise<ReadonlyMap<string, string>> =>
  new Map(
    rooms.length === 0
      ? []
      : (
          await database.query<{ room: string; user: string }>(shortSql`
            select o."room", o."user" from penstock.chat_blocks b join "app"."ChatMember" o on o."user" = b.user_id
            join "app"."ChatRoom" r on r."_id" = o."room" and r."directKey" is not null
            where b.blocked_id = ${userId}::uuid and o."room" = any(${rooms}::uuid[])`)
        ).rows.map(({ room, user }) => [room, user]),
  );

export async function membersOf(
  database: Queryable,
  roomId: string,
  { skip, limit }: { readonly skip: number; readonly limit: number },
): Promise<{ readonly rows: readonly MemberRow[]; readonly count: number }> {
  const text = `select ${columns} from "app"."ChatMember" m where m."room" = $1::uuid
    order by m."joinedAt", m."user" offset $2::integer limit $3::integer`;
  const [{ rows }, counted] = await Promise.all([
    database.query<MemberRow>({ text, values: [roomId, skip, limit] }),
    countMembers(database, roomId),
  ]);
  return { rows, count: counted };
}

export const countMembers = async (database: Queryable, roomId: string): Promise<number> =>
  (
    await database.query<{ count: number }>(
      shortSql`select count(*)::integer as count from "app"."ChatMember" where "room" = ${roomId}::uuid`,
    )
  ).rows[0]?.count ?? 0;

/** Those of these users that are in the room, with their roles. */
export const membersAmong = async (
  database: Queryable,
  roomId: string,
  userIds: readonly string[],
): Promise<ReadonlyMap<string, RoomRole>> =>
  new Map(
    (
      await database.query<{ user: string; role: RoomRole }>(
        sql`select "user", "role" from "app"."ChatMember" where "room" = ${roomId}::uuid and "user" = any(${userIds}::uuid[])`,
      )
    ).rows.map(({ user, role }) => [user, role]),
  );

export const allMembers = async (
  database: Queryable,
  roomId: string,
): Promise<readonly { readonly user: string; readonly role: RoomRole }[]> =>
  (
    await database.query<{ user: string; role: RoomRole }>(
      sql`select "user", "role" from "app"."ChatMember" where "room" = ${roomId}::uuid order by "joinedAt", "user"`,
    )
  ).rows;

export interface NewMember {
  readonly id: string;
  readonly user: string;
  readonly role: RoomRole;
}

/**
 * What was written before is theirs to read, but not unread. Members who are there stay as they are, and who was silenced
 * before they left still is.
 */
export const insertMembers = (
  database: Queryable,
  roomId: string,
  members: readonly NewMember[],
): Promise<unknown> =>
  database.query(sql`
    insert into "app"."ChatMember" ("_id", "room", "user", "role", "joinedAt", "joinedSeq", "lastReadSeq", "muted",
      "silencedUntil", "__v")
    select x.id, r."_id", x.member, x.role, clock_timestamp(), r."lastSeq", r."lastSeq", false,
      (select s.until from penstock.chat_silences s where s.room_id = r."_id" and s.user_id = x.member and s.until > now()), 0
    from unnest(${members.map(({ id }) => id)}::uuid[], ${members.map(({ user }) => user)}::uuid[],
      ${members.map(({ role }) => role)}::text[]) as x(id, member, role) cross join "app"."ChatRoom" r
    where r."_id" = ${roomId}::uuid on conflict ("room", "user") do nothing`);

/** Answers those who were in it. Who may not write now may not after they have come back either. */
export const deleteMembers = async (
  database: Queryable,
  roomId: string,
  userIds: readonly string[],
): Promise<readonly string[]> =>
  (
    await database.query<{ user: string }>(sql`
      with gone as (delete from "app"."ChatMember" where "room" = ${roomId}::uuid and "user" = any(${userIds}::uuid[])
          returning "room", "user", "silencedUntil"),
        kept as (insert into penstock.chat_silences (room_id, user_id, until)
          select "room", "user", "silencedUntil" from gone where "silencedUntil" > now()
          on conflict (room_id, user_id) do update set until = excluded.until)
      select "user" from gone`)
  ).rows.map(({ user }) => user);

export const setRoles = (
  database: Queryable,
  roomId: string,
  userIds: readonly string[],
  role: RoomRole,
): Promise<unknown> =>
  database.query(
    sql`update "app"."ChatMember" set "role" = ${role} where "room" = ${roomId}::uuid and "user" = any(${userIds}::uuid[])`,
  );

export const setMuted = async (
  database: Queryable,
  roomId: string,
  userId: string,
  muted: boolean,
): Promise<boolean> =>
  (
    await database.query(
      shortSql`update "app"."ChatMember" set "muted" = ${muted} where "room" = ${roomId}::uuid and "user" = ${userId}::uuid`,
    )
  ).count > 0;

export const setSilenced = (
  database: Queryable,
  roomId: string,
  userId: string,
  until: Date | null,
): Promise<unknown> =>
  database.query(
    shortSql`with before as (delete from penstock.chat_silences where room_id = ${roomId}::uuid and user_id = ${userId}::uuid)
      update "app"."ChatMember" set "silencedUntil" = ${until}::timestamptz where "room" = ${roomId}::uuid and "user" = ${userId}::uuid`,
  );

interface ReadMark {
  readonly moved: boolean;
  readonly unreadCount: number;
  readonly isDirect: boolean;
}

/** Moves the cursor forward, never back. Answers what is unread then; nothing when they are no member. */
export async function markRead(
  database: Queryable,
  roomId: string,
  userId: string,
  upTo: number | undefined,
): Promise<ReadMark | undefined> {
  const text = `with before as (
      select m."lastReadSeq", r."lastSeq", r."directKey" is not null as "isDirect" from "app"."ChatMember" m join "app"."ChatRoom" r on r."_id" = m."room"
      where m."room" = $1::uuid and m."user" = $2::uuid and not r."deleted" for update of m),
    moved as (
      update "app"."ChatMember" m set "lastReadSeq" = greatest(m."lastReadSeq", least(coalesce($3::integer, b."lastSeq"), b."lastSeq")),
        "lastReadAt" = clock_timestamp()
      from before b where m."room" = $1::uuid and m."user" = $2::uuid returning m."room", m."user", m."lastReadSeq")
    select moved."lastReadSeq" > before."lastReadSeq" as moved, ${unreadOf('moved."room"', 'moved')} as "unreadCount", before."isDirect"
    from moved cross join before`;
  return (
    await database.query<ReadMark>({
      text,
      values: [roomId, userId, upTo ?? null],
      name: 'chat_mark_read',
      class: 'short',
    })
  ).rows[0];
}

/** Unread messages of a user by room; only rooms that have some. */
export async function unreadByRoom(
  database: Queryable,
  userId: string,
): Promise<readonly { readonly room: string; readonly count: number }[]> {
  const text = `select m."room", ${unreadOf('m."room"', 'm')} as count from "app"."ChatMember" m
    join "app"."ChatRoom" r on r."_id" = m."room"
    where m."user" = $1::uuid and not r."deleted" and r."lastSeq" > m."lastReadSeq"`;
  const { rows } = await database.query<{ room: string; count: number }>({
    text,
    values: [userId],
  });
  return rows.filter(({ count }) => count > 0);
}

export interface SubscribedRoom {
  readonly room: string;
  readonly lastSeq: number;
  readonly lastChange: number;
  /** The last message before the user joined. */
  readonly joinedSeq: number;
}

/** Rooms of a user for a socket: as many as one may be in. */
export const subscribedRooms = async (
  database: Queryable,
  userId: string,
): Promise<readonly SubscribedRoom[]> =>
  (
    await database.query<SubscribedRoom>(sql`
      select m."room", m."joinedSeq", r."lastSeq", r."lastChange" from "app"."ChatMember" m
      join "app"."ChatRoom" r on r."_id" = m."room" where m."user" = ${userId}::uuid and not r."deleted"`)
  ).rows;

export interface FoundRoom {
  readonly name: string;
  readonly lastSeq: number;
  readonly lastChange: number;
  /** Those that are in it, with the last message before they joined. */
  readonly users: readonly { readonly user: string; readonly joinedSeq: number }[];
}

/** Which of these users are in the room now, and what it is called; nothing when it is gone. */
export async function presentIn(
  database: Queryable,
  roomId: string,
  userIds: readonly string[],
): Promise<FoundRoom | undefined> {
  const { rows } = await database.query<FoundRoom>(shortSql`
    select r."name", r."lastSeq", r."lastChange", coalesce((select json_agg(json_build_object('user', m."user", 'joinedSeq', m."joinedSeq"))
      from "app"."ChatMember" m where m."room" = r."_id" and m."user" = any(${userIds}::uuid[])), '[]') as users
    from "app"."ChatRoom" r where r."_id" = ${roomId}::uuid and not r."deleted"`);
  return rows[0];
}

/** Whether the users share a room with `userId` and have not blocked them; those that do. */
export const sharingRoom = async (
  database: Queryable,
  userId: string,
  userIds: readonly string[],
): Promise<readonly string[]> =>
  (
    await database.query<{ user: string }>(sql`
      select distinct o."user" from "app"."ChatMember" m join "app"."ChatMember" o on o."room" = m."room"
      join "app"."ChatRoom" r on r."_id" = m."room" and not r."deleted"
      where m."user" = ${userId}::uuid and o."user" = any(${userIds}::uuid[]) and not exists (
        select from penstock.chat_blocks b where b.user_id = o."user" and b.blocked_id = m."user")`)
  ).rows.map(({ user }) => user);

/** Those of these pairs of users that share a room now, as `watcher watched`; none where the watched one has blocked the other. */
export const pairsSharingRoom = async (
  database: Queryable,
  pairs: readonly (readonly [watcher: string, watched: string])[],
): Promise<ReadonlySet<string>> =>
  new Set(
    (
      await database.query<{ watcher: string; watched: string }>(sql`
        select p.watcher, p.watched
        from unnest(${pairs.map(([watcher]) => watcher)}::uuid[], ${pairs.map(([, watched]) => watched)}::uuid[]) as p(watcher, watched)
        where exists (select from "app"."ChatMember" m join "app"."ChatMember" o on o."room" = m."room"
          join "app"."ChatRoom" r on r."_id" = m."room" and not r."deleted"
          where m."user" = p.watcher and o."user" = p.watched)
          and not exists (select from penstock.chat_blocks b where b.user_id = p.watched and b.blocked_id = p.watcher)`)
    ).rows.map(({ watcher, watched }) => `${watcher} ${watched}`),
  );

export interface UserToAdd {
  readonly id: string;
  readonly email: string | null;
  readonly username: string | null;
  readonly rooms: number;
  /** They, or the one who asks, have blocked the other. */
  readonly blocked: boolean;
}

/** Those of these users that exist, with what decides whether they can be added to a room. */
export const usersToAdd = async (
  database: Queryable,
  userIds: readonly string[],
  by: string | null,
): Promise<readonly UserToAdd[]> =>
  (
    await database.query<UserToAdd>(sql`
      select u."_id" as id, u."email", u."username",
        (select count(*)::integer from "app"."ChatMember" m join "app"."ChatRoom" r on r."_id" = m."room"
          where m."user" = u."_id" and not r."deleted") as rooms,
        exists (select from penstock.chat_blocks b where b.user_id = u."_id" and b.blocked_id = ${by}::uuid) as blocked
      from "app"."User" u where u."_id" = any(${userIds}::uuid[])`)
  ).rows;
