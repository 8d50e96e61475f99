/** The SQL of invitations. Values are always parameters. */
import type { Queryable } from '../../../kernel/database/database.ts';
import { sql } from '../../../kernel/database/sql.ts';
import type { RoomRole } from '../schemas.ts';

export interface InvitationRow {
  readonly id: string;
  readonly room: string;
  readonly roomName: string;
  readonly sender: string;
  readonly receiver: string;
  readonly expiresAt: Date;
  readonly createdAt: Date;
  readonly updatedAt: Date;
}

const columns = `i."_id" as id, i."room", r."name" as "roomName", i."sender", i."receiver", i."expiresAt", i."createdAt", i."updatedAt"`;
const from = `"app"."InvitationToken" i join "app"."ChatRoom" r on r."_id" = i."room" and not r."deleted"`;

export interface NewInvitation {
  readonly id: string;
  readonly receiver: string;
  /** SHA-256 of the secret. */
  readonly token: string;
}

/** One that is there gets the new sender, secret and time. */
export const putInvitations = (
  database: Queryable,
  {
    room,
    sender,
    ttlSeconds,
  }: { readonly room: string; readonly sender: string; readonly ttlSeconds: number },
  invitations: readonly NewInvitation[],
): Promise<unknown> =>
  database.query(sql`
    insert into "app"."InvitationToken" ("_id", "sender", "receiver", "room", "token", "expiresAt", "createdAt", "updatedAt", "__v")
    select x.id, ${sender}::uuid, x.receiver, ${room}::uuid, x.token, now() + ${ttlSeconds}::integer * interval '1 second', now(), now(), 0
    from unnest(${invitations.map(({ id }) => id)}::uuid[], ${invitations.map(({ receiver }) => receiver)}::uuid[],
      ${invitations.map(({ token }) => token)}::text[]) as x(id, receiver, token)
    on conflict ("room", "receiver") do update set "sender" = excluded."sender", "token" = excluded."token",
      "expiresAt" = excluded."expiresAt", "updatedAt" = now(), "__v" = "InvitationToken"."__v" + 1`);

/** Which of these users the sender has invited already. */
export const invitedAmong = async (
  database: Queryable,
  room: string,
  sender: string,
  receivers: readonly string[],
): Promise<readonly string[]> =>
  (
    await database.query<{ receiver: string }>(sql`
      select "receiver" from "app"."InvitationToken" where "room" = ${room}::uuid and "sender" = ${sender}::uuid
        and "receiver" = any(${receivers}::uuid[]) and "expiresAt" > now()`)
  ).rows.map(({ receiver }) => receiver);

interface Page {
  readonly skip: number;
  readonly limit: number;
}

interface InvitationPage {
  readonly rows: readonly InvitationRow[];
  readonly count: number;
}

/** A member with one of the roles whose account is not blocked. */
const inviterWith = (room: string, sender: string, roles: string): string =>
  `select from "app"."ChatMember" m join "app"."User" u on u."_id" = m."user" and u."active"
   where m."room" = ${room} and m."user" = ${sender} and m."role" = any(${roles}::text[])`;

/** Whether the sender of an invitation is still somebody who may send it. */
export const mayStillInvite = async (
  database: Queryable,
  {
    room,
    sender,
    roles,
  }: Pick<InvitationRow, 'room' | 'sender'> & { readonly roles: readonly RoomRole[] },
): Promise<boolean> =>
  (
    await database.query({
      text: inviterWith('$1::uuid', '$2::uuid', '$3'),
      values: [room, sender, roles],
    })
  ).rows.length > 0;

/**
 * Those to or from a user, or of a room, the newest first unless an order is given. `roles`: only of senders who are still
 * in the room with one of them.
 */
export async function invitationsWhere(
  database: Queryable,
  by: 'receiver' | 'sender' | 'room',
  id: string,
  {
    skip,
    limit,
    order = 'i."createdAt" desc',
    roles,
  }: Page & { readonly order?: string; readonly roles?: readonly RoomRole[] },
): Promise<InvitationPage> {
  const where = `i."${by}" = $1::uuid and i."expiresAt" > now()
    and ($2::text[] is null or exists (${inviterWith('i."room"', 'i."sender"', '$2')}))`;
  const [{ rows }, counted] = await Promise.all([
    database.query<InvitationRow>({
      text: `select ${columns} from ${from} where ${where} order by ${order}, i."_id" desc offset $3::integer limit $4::integer`,
      values: [id, roles ?? null, skip, limit],
    }),
    database.query<{ count: number }>({
      text: `select count(*)::integer as count from ${from} where ${where}`,
      values: [id, roles ?? null],
    }),
  ]);
  return { rows, count: counted.rows[0]?.count ?? 0 };
}

/** By its id, or by the hash of its secret; only while it can be taken. */
export async function openInvitation(
  database: Queryable,
  key: { readonly id: string } | { readonly hash: string },
): Promise<InvitationRow | undefined> {
  const [where, value] =
    'id' in key ? ['i."_id" = $1::uuid', key.id] : ['i."token" = $1', key.hash];
  const text = `select ${columns} from ${from} where ${where} and i."expiresAt" > now()`;
  return (await database.query<InvitationRow>({ text, values: [value] })).rows[0];
}

/** Takes it: of many who try at once, one does. */
export const takeInvitation = async (database: Queryable, id: string): Promise<boolean> =>
  (
    await database.query(
      sql`delete from "app"."InvitationToken" where "_id" = ${id}::uuid and "expiresAt" > now()`,
    )
  ).count > 0;

export const dropInvitations = async (
  database: Queryable,
  room: string,
  ids: readonly string[] | undefined,
): Promise<number> =>
  (
    await database.query(sql`
      delete from "app"."InvitationToken" where "room" = ${room}::uuid and (${ids === undefined} or "_id" = any(${ids ?? []}::uuid[]))`)
  ).count;

/** Of one user to one room. */
export const dropInvitationsTo = (
  database: Queryable,
  room: string,
  receiver: string,
): Promise<unknown> =>
  database.query(
    sql`delete from "app"."InvitationToken" where "room" = ${room}::uuid and "receiver" = ${receiver}::uuid`,
  );

export const purgeInvitations = async (database: Queryable, limit: number): Promise<number> =>
  (
    await database.query(sql`
      delete from "app"."InvitationToken" where "_id" in (
        select "_id" from "app"."InvitationToken" where "expiresAt" < now() order by "expiresAt" limit ${limit}::integer)`)
  ).count;
