/** The SQL of bans, blocks and reports. Values are always parameters. */
import type { Queryable } from '../../../kernel/database/database.ts';
import { sql } from '../../../kernel/database/sql.ts';

export interface BanRow {
  readonly user: string;
  readonly bannedBy: string | null;
  readonly reason: string | null;
  readonly until: Date | null;
  readonly createdAt: Date;
}

export const putBan = (
  database: Queryable,
  roomId: string,
  { user, bannedBy, reason, until }: Omit<BanRow, 'createdAt'>,
): Promise<unknown> =>
  database.query(sql`
    insert into penstock.chat_bans (room_id, user_id, banned_by, reason, until)
    values (${roomId}::uuid, ${user}::uuid, ${bannedBy}::uuid, ${reason}, ${until}::timestamptz)
    on conflict (room_id, user_id) do update set banned_by = excluded.banned_by, reason = excluded.reason, until = excluded.until`);

export const dropBan = async (
  database: Queryable,
  roomId: string,
  userId: string,
): Promise<boolean> =>
  (
    await database.query(
      sql`delete from penstock.chat_bans where room_id = ${roomId}::uuid and user_id = ${userId}::uuid`,
    )
  ).count > 0;

export const bansOf = async (
  database: Queryable,
  roomId: string,
  { skip, limit }: { readonly skip: number; readonly limit: number },
): Promise<readonly BanRow[]> =>
  (
    await database.query<BanRow>(sql`
      select user_id as user, banned_by as "bannedBy", reason, until, created_at as "createdAt" from penstock.chat_bans
      where room_id = ${roomId}::uuid and (until is null or until > now()) order by created_at desc offset ${skip}::integer limit ${limit}::integer`)
  ).rows;

export const bannedAmong = async (
  database: Queryable,
  roomId: string,
  userIds: readonly string[],
): Promise<readonly string[]> =>
  (
    await database.query<{ user: string }>(sql`
      select user_id as user from penstock.chat_bans where room_id = ${roomId}::uuid and user_id = any(${userIds}::uuid[])
        and (until is null or until > now())`)
  ).rows.map(({ user }) => user);

/** Silences of members who have left, once they are over. */
export const purgeSilences = (database: Queryable): Promise<unknown> =>
  database.query(sql`delete from penstock.chat_silences where until < now()`);

export const putBlock = (
  database: Queryable,
  userId: string,
  blockedId: string,
): Promise<unknown> =>
  database.query(
    sql`insert into penstock.chat_blocks (user_id, blocked_id) values (${userId}::uuid, ${blockedId}::uuid) on conflict do nothing`,
  );

export const dropBlock = (
  database: Queryable,
  userId: string,
  blockedId: string,
): Promise<unknown> =>
  database.query(
    sql`delete from penstock.chat_blocks where user_id = ${userId}::uuid and blocked_id = ${blockedId}::uuid`,
  );

export const blocksOf = async (
  database: Queryable,
  userId: string,
  { skip, limit }: { readonly skip: number; readonly limit: number },
): Promise<readonly string[]> =>
  (
    await database.query<{ id: string }>(sql`
      select blocked_id as id from penstock.chat_blocks where user_id = ${userId}::uuid
      order by created_at desc, blocked_id offset ${skip}::integer limit ${limit}::integer`)
  ).rows.map(({ id }) => id);

export interface ReportRow {
  readonly id: string;
  readonly message: string;
  readonly room: string;
  readonly content: string | null;
  readonly sender: string | null;
  readonly reporter: string | null;
  readonly reason: string;
  readonly state: string;
  readonly createdAt: Date;
  readonly resolvedAt: Date | null;
  readonly resolvedBy: string | null;
}

/** One of a user about a message; a second one changes the reason, and is open again. Answers the id of the one that is kept. */
export const putReport = async (
  database: Queryable,
  report: {
    readonly id: string;
    readonly message: string;
    readonly reporter: string;
    readonly reason: string;
  },
): Promise<string> => {
  const { rows } = await database.query<{ id: string }>(sql`
    insert into penstock.chat_reports (id, message_id, reporter_id, reason)
    values (${report.id}::uuid, ${report.message}::uuid, ${report.reporter}::uuid, ${report.reason})
    on conflict (message_id, reporter_id) do update set reason = excluded.reason, state = 'open',
      resolved_at = null, resolved_by = null returning id`);
  return rows[0]?.id ?? report.id;
};

export async function reportsOf(
  database: Queryable,
  {
    state,
    skip,
    limit,
  }: { readonly state?: string | undefined; readonly skip: number; readonly limit: number },
): Promise<{ readonly rows: readonly ReportRow[]; readonly count: number }> {
  const [{ rows }, counted] = await Promise.all([
    database.query<ReportRow>(sql`
      select p.id, p.message_id as message, m."room", m."message" as content, m."senderUser" as sender, p.reporter_id as reporter,
        p.reason, p.state, p.created_at as "createdAt", p.resolved_at as "resolvedAt", p.resolved_by as "resolvedBy"
      from penstock.chat_reports p join "app"."ChatMessage" m on m."_id" = p.message_id
      where ${state ?? null}::text is null or p.state = ${state ?? null}
      order by p.id desc offset ${skip}::integer limit ${limit}::integer`),
    database.query<{ count: number }>(
      sql`select count(*)::integer as count from penstock.chat_reports where ${state ?? null}::text is null or state = ${state ?? null}`,
    ),
  ]);
  return { rows, count: counted.rows[0]?.count ?? 0 };
}

export const resolveReport = async (
  database: Queryable,
  id: string,
  by: string,
): Promise<boolean> =>
  (
    await database.query(sql`
      update penstock.chat_reports set state = 'resolved', resolved_at = now(), resolved_by = ${by}
      where id = ${id}::uuid and state = 'open'`)
  ).count > 0;
