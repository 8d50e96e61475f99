/** The SQL of rooms. Values are always parameters. */
import type { Queryable, Statement } from '../../../kernel/database/database.ts';
import { shortSql, sql, statementName } from '../../../kernel/database/sql.ts';
import type { RoomRole } from '../schemas.ts';

/** A room as the module works with it. */
export interface RoomRow {
  readonly id: string;
  readonly name: string;
  readonly creator: string | null;
  readonly deleted: boolean;
  readonly isDirect: boolean;
  readonly lastSeq: number;
  readonly lastChange: number;
}

/** A room as a member sees it in a list. */
export interface ListedRoom extends RoomRow {
  readonly metadata: unknown;
  readonly lastMessageAt: Date | null;
  readonly createdAt: Date;
  readonly updatedAt: Date;
  readonly participants: readonly string[];
  readonly participantCount: number;
  readonly participantsLog: readonly string[];
  /** Of the member whose list it is; null for operators. */
  readonly role: RoomRole | null;
  readonly muted: boolean | null;
  readonly lastReadSeq: number | null;
  readonly unreadCount: number | null;
  readonly lastMessage: {
    readonly _id: string;
    readonly content: string | null;
    readonly contentType: string;
    readonly sender: string | null;
    readonly createdAt: string;
    readonly seq: number;
  } | null;
}

/** Members, and entries of the log, that a room shows; all members have a list of their own. */
const SHOWN = 1_000;
const SHOWN_LOG = 100;
/** Unread messages are counted up to here. */
export const COUNTED = 10_000;

const plain = `r."_id" as id, r."name", r."creator", r."deleted", r."directKey" is not null as "isDirect", r."lastSeq", r."lastChange"`;

const columns = `${plain}, r."metadata", r."lastMessageAt", r."createdAt", r."updatedAt",
  (select count(*)::integer from "app"."ChatMember" c where c."room" = r."_id") as "participantCount",
  array(select p."user" from "app"."ChatMember" p where p."room" = r."_id" order by p."joinedAt", p."user" limit ${SHOWN}) as participants,
  array(select l."_id" from "app"."ChatParticipantsLog" l where l."chatRoom" = r."_id" order by l."createdAt" desc, l."_id" desc limit ${SHOWN_LOG}) as "participantsLog"`;

/** Messages of others behind the cursor of member `m`. */
export const unreadOf = (room: string, member: string): string =>
  `(select count(*)::integer from (select from "app"."ChatMessage" u where u."room" = ${room} and u."seq" > ${member}."lastReadSeq"
    and not u."deleted" and u."senderUser" is distinct from ${member}."user" limit ${COUNTED}) x)`;

const forMember = `${columns}, m."role", m."muted", m."lastReadSeq", ${unreadOf('r."_id"', 'm')} as "unreadCount",
  (select json_build_object('_id', t."_id", 'content', t."message", 'contentType', t."messageType", 'sender', t."senderUser",
      'createdAt', t."createdAt", 'seq', t."seq")
    from "app"."ChatMessage" t where t."room" = r."_id" and not t."deleted" and t."seq" > case when $2::boolean then m."joinedSeq" else 0 end
    order by t."seq" desc limit 1) as "lastMessage"`;

const statement = (text: string, values: readonly unknown[]): Statement => ({
  text,
  values,
  name: statementName(text),
});

/** The rooms of a user, the most active first. `joinedOnly`: what was written before they joined is not shown. */
export async function roomsOf(
  database: Queryable,
  userId: string,
  { skip, limit, joinedOnly }: { skip: number; limit: number; joinedOnly: boolean },
): Promise<readonly ListedRoom[]> {
  const text = `with page as (
      select r."_id", coalesce(r."lastMessageAt", r."createdAt") as active from "app"."ChatMember" m
      join "app"."ChatRoom" r on r."_id" = m."room" where m."user" = $1::uuid and not r."deleted"
      order by active desc, r."_id" desc offset $3::integer limit $4::integer)
    select ${forMember} from page join "app"."ChatRoom" r on r."_id" = page."_id"
    join "app"."ChatMember" m on m."room" = r."_id" and m."user" = $1::uuid order by page.active desc, r."_id" desc`;
  return (await database.query<ListedRoom>(statement(text, [userId, joinedOnly, skip, limit])))
    .rows;
}

export async function roomOf(
  database: Queryable,
  userId: string,
  roomId: string,
  joinedOnly: boolean,
): Promise<ListedRoom | undefined> {
  const text = `select ${forMember} from "app"."ChatRoom" r join "app"."ChatMember" m on m."room" = r."_id" and m."user" = $1::uuid
    where r."_id" = $3::uuid and not r."deleted"`;
  return (await database.query<ListedRoom>(statement(text, [userId, joinedOnly, roomId]))).rows[0];
}

export const countRoomsOf = async (database: Queryable, userId: string): Promise<number> =>
  (
    await database.query<{ count: number }>(sql`
      select count(*)::integer as count from "app"."ChatMember" m join "app"."ChatRoom" r on r."_id" = m."room"
      where m."user" = ${userId}::uuid and not r."deleted"`)
  ).rows[0]?.count ?? 0;

/** What operators look for. */
export interface RoomFilter {
  readonly ids?: readonly string[] | undefined;
  readonly search?: string | undefined;
  readonly users?: readonly string[] | undefined;
  readonly deleted?: boolean | undefined;
  /** SQL of an order, from a fixed set. */
  readonly order: string;
  readonly skip: number;
  readonly limit: number;
}

const matching = `($1::uuid[] is null or r."_id" = any($1)) and ($2::text is null or strpos(lower(r."name"), lower($2)) > 0)
  and ($3::boolean is null or r."deleted" = $3) and ($4::uuid[] is null or exists (
    select from "app"."ChatMember" f where f."room" = r."_id" and f."user" = any($4)))`;

export async function findRooms(
  database: Queryable,
  { ids, search, users, deleted, order, skip, limit }: RoomFilter,
): Promise<{ readonly rows: readonly ListedRoom[]; readonly count: number }> {
  const values = [ids ?? null, search ?? null, deleted ?? null, users ?? null];
  const text = `select ${columns}, null as role, null as muted, null as "lastReadSeq", null as "unreadCount", null as "lastMessage"
    from "app"."ChatRoom" r where ${matching} order by ${order} offset $5::integer limit $6::integer`;
  const [rows, counted] = await Promise.all([
    database.query<ListedRoom>({ text, values: [...values, skip, limit] }),
    database.query<{ count: number }>({
      text: `select count(*)::integer as count from "app"."ChatRoom" r where ${matching}`,
      values,
    }),
  ]);
  return { rows: rows.rows, count: counted.rows[0]?.count ?? 0 };
}

/**
 * Holds everybody whose deletion touches what goes with these rooms, before a room is locked: as `lockRoom` does with who
 * comes or goes. All of that goes with the rooms, so looking for it costs little beside.
 */
export const holdUsersOf = (transaction: Queryable, rooms: readonly string[]): Promise<unknown> =>
  transaction.query(sql`
    select from "app"."User" u where u."_id" in (
      select r."creator" from "app"."ChatRoom" r where r."_id" = any(${rooms}::uuid[])
      union select m."user" from "app"."ChatMember" m where m."room" = any(${rooms}::uuid[])
      union select t."senderUser" from "app"."ChatMessage" t where t."room" = any(${rooms}::uuid[])
      union select i."sender" from "app"."InvitationToken" i where i."room" = any(${rooms}::uuid[])
      union select i."receiver" from "app"."InvitationToken" i where i."room" = any(${rooms}::uuid[])
      union select l."user" from "app"."ChatParticipantsLog" l where l."chatRoom" = any(${rooms}::uuid[])
      union select b.user_id from penstock.chat_bans b where b.room_id = any(${rooms}::uuid[])
      union select s.user_id from penstock.chat_silences s where s.room_id = any(${rooms}::uuid[]))
    order by u."_id" for key share of u`);

/**
 * Holds users, in the order of their ids, until the transaction ends: how many rooms they are in can be counted, and
 * nobody deletes them. Always before a room is locked.
 */
export const holdUsers = (transaction: Queryable, users: readonly string[]): Promise<unknown> =>
  transaction.query(
    shortSql`select from "app"."User" where "_id" = any(${users}::uuid[]) order by "_id" for no key update`,
  );

/**
 * Locked until the transaction ends, against other changes of the room and its members. `users`: who comes or goes. They
 * are held first, as the deletion of a user begins with the user: neither waits for the other in a circle.
 */
export async function lockRoom(
  transaction: Queryable,
  roomId: string,
  users: readonly string[] = [],
): Promise<RoomRow | undefined> {
  if (users.length > 0) await holdUsers(transaction, users);
  const text = `select ${plain} from "app"."ChatRoom" r where r."_id" = $1::uuid and not r."deleted" for no key update`;
  return (await transaction.query<RoomRow>({ text, values: [roomId] })).rows[0];
}

/** Of a room that is there. */
export const roomName = async (database: Queryable, roomId: string): Promise<string | undefined> =>
  (
    await database.query<{ name: string }>(
      shortSql`select "name" from "app"."ChatRoom" where "_id" = ${roomId}::uuid and not "deleted"`,
    )
  ).rows[0]?.name;

export interface NewRoom {
  readonly id: string;
  readonly name: string;
  readonly creator: string | null;
  readonly metadata?: unknown;
  readonly directKey?: string | undefined;
}

/** Nothing when the direct room is there already. */
export const insertRoom = async (
  database: Queryable,
  { id, name, creator, metadata, directKey }: NewRoom,
): Promise<boolean> =>
  (
    await database.query(sql`
      insert into "app"."ChatRoom" ("_id", "name", "creator", "deleted", "metadata", "directKey", "lastSeq", "lastChange",
        "removedCount", "pushedSeq", "createdAt", "updatedAt", "__v")
      values (${id}::uuid, ${name}, ${creator}::uuid, false, ${metadata === undefined ? null : JSON.stringify(metadata)}::jsonb,
        ${directKey ?? null}, 0, 0, 0, 0, now(), now(), 0)
      on conflict ("directKey") do nothing`)
  ).count > 0;

export const directRoom = async (
  database: Queryable,
  directKey: string,
): Promise<string | undefined> =>
  (
    await database.query<{ id: string }>(
      shortSql`select "_id" as id from "app"."ChatRoom" where "directKey" = ${directKey}`,
    )
  ).rows[0]?.id;

export const updateRoom = (
  database: Queryable,
  roomId: string,
  { name, metadata }: { readonly name?: string | undefined; readonly metadata?: unknown },
): Promise<unknown> =>
  database.query(sql`
    update "app"."ChatRoom" set "name" = coalesce(${name ?? null}, "name"), "updatedAt" = now(), "__v" = "__v" + 1,
      "metadata" = case when ${metadata === undefined} then "metadata" else ${JSON.stringify(metadata ?? null)}::jsonb end
    where "_id" = ${roomId}::uuid`);

/** Takes a room away: for good, or out of sight while its members stay on record. */
export const removeRoom = (
  database: Queryable,
  roomId: string,
  audited: boolean,
): Promise<unknown> =>
  audited
    ? database.query(
        sql`update "app"."ChatRoom" set "deleted" = true, "directKey" = null, "updatedAt" = now() where "_id" = ${roomId}::uuid`,
      )
    : database.query(sql`delete from "app"."ChatRoom" where "_id" = ${roomId}::uuid`);

export const logParticipants = (
  database: Queryable,
  roomId: string,
  entries: readonly {
    readonly id: string;
    readonly user: string;
    readonly action: string;
  }[],
): Promise<unknown> =>
  database.query(sql`
    insert into "app"."ChatParticipantsLog" ("_id", "action", "user", "chatRoom", "createdAt", "updatedAt", "__v")
    select x.id, x.action, x.member, ${roomId}::uuid, now(), now(), 0
    from unnest(${entries.map(({ id }) => id)}::uuid[], ${entries.map(({ action }) => action)}::text[],
      ${entries.map(({ user }) => user)}::uuid[]) as x(id, action, member)`);

/** Rooms in which nobody is, as when the last member's account was deleted. */
export const emptyRooms = async (
  database: Queryable,
  limit: number,
): Promise<readonly { readonly id: string; readonly name: string }[]> =>
  (
    await database.query<{ id: string; name: string }>(sql`
      select r."_id" as id, r."name" from "app"."ChatRoom" r where not r."deleted"
        and not exists (select from "app"."ChatMember" m where m."room" = r."_id") limit ${limit}::integer`)
  ).rows;

/** Rooms with members and without an owner, as when the owner's account was deleted. */
export const ownerlessRooms = async (
  database: Queryable,
  limit: number,
): Promise<readonly string[]> =>
  (
    await database.query<{ id: string }>(sql`
      select r."_id" as id from "app"."ChatRoom" r where not r."deleted"
        and exists (select from "app"."ChatMember" m where m."room" = r."_id")
        and not exists (select from "app"."ChatMember" m where m."room" = r."_id" and m."role" = 'owner') limit ${limit}::integer`)
  ).rows.map(({ id }) => id);

/** Rooms that have no owner beside these users, behind one. */
export const roomsOwnedBy = async (
  database: Queryable,
  users: readonly string[],
  { after, limit }: { readonly after: string | null; readonly limit: number },
): Promise<readonly string[]> =>
  (
    await database.query<{ id: string }>(sql`
      select distinct m."room" as id from "app"."ChatMember" m
      where m."user" = any(${users}::uuid[]) and m."role" = 'owner' and (${after}::uuid is null or m."room" > ${after}::uuid)
        and not exists (select from "app"."ChatMember" o where o."room" = m."room" and o."role" = 'owner'
          and o."user" <> all(${users}::uuid[]))
      order by m."room" limit ${limit}::integer`)
  ).rows.map(({ id }) => id);
