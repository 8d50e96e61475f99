/** The SQL of channels: who is there, under leases of their nodes, and the last messages of channels that keep some. */
import type { Queryable } from '../../../kernel/database/database.ts';
import { sql } from '../../../kernel/database/sql.ts';

/** Seconds after which those of a node that renews nothing are gone. */
const LEASE_SECONDS = 30;
/** Members that one answer names. */
const MAX_LISTED = 1_000;

export interface MemberRow {
  readonly id: string;
  readonly channel: string;
  readonly userId: string;
  /** JSON. */
  readonly state: string;
}

/** Writes that they are there, or still there. Answers the ids of those who were not. */
export async function putMembers(
  database: Queryable,
  nodeId: string,
  members: readonly MemberRow[],
): Promise<readonly string[]> {
  const { rows } = await database.query<{ id: string; fresh: boolean }>(sql`
    insert into penstock.channel_members (id, channel, node_id, user_id, state, expires_at)
    select x.id, x.channel, ${nodeId}, x.user_id, x.state, now() + ${LEASE_SECONDS}::integer * interval '1 second'
    from unnest(${members.map(({ id }) => id)}::uuid[], ${members.map(({ channel }) => channel)}::text[],
      ${members.map(({ userId }) => userId)}::uuid[], ${members.map(({ state }) => state)}::text[]) as x(id, channel, user_id, state)
    on conflict (id) do update set state = excluded.state, expires_at = excluded.expires_at
    returning id, xmax = 0 as fresh`);
  return rows.flatMap(({ id, fresh }) => (fresh ? [id] : []));
}

export const dropMembers = (database: Queryable, ids: readonly string[]): Promise<unknown> =>
  database.query(sql`delete from penstock.channel_members where id = any(${ids}::uuid[])`);

/** Takes away those whose node has died. Each is answered to one node. */
export const takeExpired = async (
  database: Queryable,
): Promise<readonly Omit<MemberRow, 'state'>[]> =>
  (
    await database.query<Omit<MemberRow, 'state'>>(sql`
      delete from penstock.channel_members where expires_at < now() returning id, channel, user_id as "userId"`)
  ).rows;

export async function membersOf(
  database: Queryable,
  channel: string,
): Promise<{
  readonly count: number;
  readonly rows: readonly Omit<MemberRow, 'channel'>[];
}> {
  const { rows } = await database.query<Omit<MemberRow, 'channel'> & { count: number }>(sql`
    select id, user_id as "userId", state, count(*) over ()::integer as count from penstock.channel_members
    where channel = ${channel} and expires_at > now() order by joined_at, id limit ${MAX_LISTED}::integer`);
  return { count: rows[0]?.count ?? 0, rows };
}

export interface KeptMessage {
  readonly seq: number;
  readonly sentAt: Date;
}

export interface MessageRow extends KeptMessage {
  readonly member: string;
  readonly userId: string;
  readonly event: string;
  /** JSON. */
  readonly data: string;
}

/** Keeps a message, and lets go of those before the last `history`. */
export async function keepMessage(
  database: Queryable,
  channel: string,
  history: number,
  message: Omit<MessageRow, keyof KeptMessage>,
): Promise<KeptMessage> {
  const { member, userId, event, data } = message;
  const { rows } = await database.query<KeptMessage>(sql`
    with gone as (delete from penstock.channel_messages where seq = any(array(
        select seq from penstock.channel_messages where channel = ${channel} and seq < (
          select seq from penstock.channel_messages where channel = ${channel} order by seq desc offset ${history}::integer limit 1)
        order by seq limit 100 for update skip locked)))
    insert into penstock.channel_messages (channel, member_id, user_id, event, data)
    values (${channel}, ${member}::uuid, ${userId}::uuid, ${event}, ${data})
    returning seq::float8 as seq, sent_at as "sentAt"`);
  const [kept] = rows;
  if (!kept) throw new Error('A message was not kept');
  return kept;
}

/** The last ones, oldest first. */
export const lastMessages = async (
  database: Queryable,
  channel: string,
  count: number,
): Promise<readonly MessageRow[]> =>
  (
    await database.query<MessageRow>(sql`
      select seq::float8 as seq, sent_at as "sentAt", member_id as member, user_id as "userId", event, data
      from penstock.channel_messages where channel = ${channel} and sent_at > now() - interval '1 day'
      order by channel_messages.seq desc limit ${count}::integer`)
  ).rows.toReversed();

/** Of users who are no more. */
export const forgetUsers = async (database: Queryable, users: readonly string[]): Promise<void> => {
  await database.query(
    sql`delete from penstock.channel_messages where user_id = any(${users}::uuid[])`,
  );
};

/** Deletes messages that are older than a day. Answers how many. */
export const purgeMessages = async (database: Queryable, max: number): Promise<number> =>
  (
    await database.query(sql`
      delete from penstock.channel_messages where seq = any(array(
        select seq from penstock.channel_messages where sent_at < now() - interval '1 day' order by sent_at limit ${max}::integer))`)
  ).count;
