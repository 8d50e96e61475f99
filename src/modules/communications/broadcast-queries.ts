/** The SQL of broadcasts: one message to many. Values are always parameters. */
import type { Queryable } from '../../kernel/database/database.ts';
import { sql } from '../../kernel/database/sql.ts';
import type { Channel } from './queries.ts';

/** To whom: all who follow a topic, all users, or those who are listed. */
export type Audience = 'topic' | 'users' | 'listed';

export interface BroadcastRow {
  readonly id: string;
  readonly status: 'running' | 'done' | 'stopped';
  readonly channel: Channel;
  readonly audience: Audience;
  readonly topic: string | null;
  readonly contentSealed: string;
  /** The last user, or the last place in the list, that is done with. */
  readonly position: string | null;
  readonly place: string;
  readonly recipients: number;
  readonly queued: number;
  readonly skipped: number;
  readonly cancelled: number;
  readonly createdAt: Date;
  readonly finishedAt: Date | null;
}

const columns = `id, status, channel, audience, topic, content_sealed as "contentSealed", position, place::text, recipients,
  queued, skipped, cancelled, created_at as "createdAt", finished_at as "finishedAt"`;

/** What a message is about, as the module that writes it names it. */
export interface Subject {
  readonly module: string;
  readonly about: string;
}

export const insertBroadcast = (
  database: Queryable,
  broadcast: Pick<
    BroadcastRow,
    'id' | 'channel' | 'audience' | 'topic' | 'contentSealed' | 'recipients'
  >,
  subject: Subject | undefined,
): Promise<unknown> =>
  database.query(sql`
    insert into penstock.broadcasts (id, status, channel, audience, topic, content_sealed, recipients, module, subject)
    values (${broadcast.id}::uuid, 'running', ${broadcast.channel}, ${broadcast.audience}, ${broadcast.topic}, ${broadcast.contentSealed},
      ${broadcast.recipients}::integer, ${subject?.module ?? null}, ${subject?.about ?? null})`);

/** A user, or an address. */
export interface Listed {
  readonly userId: string | null;
  readonly address: string | null;
}

/** Writes down who is listed, and how many they are. Ids that are no users are left out, and addresses of users who are listed. */
export async function insertListed(
  transaction: Queryable,
  id: string,
  {
    userIds,
    addresses,
  }: { readonly userIds: readonly string[]; readonly addresses: readonly string[] },
): Promise<number> {
  const users =
    userIds.length === 0
      ? 0
      : (
          await transaction.query(sql`
      insert into penstock.broadcast_recipients (broadcast_id, place, user_id)
      select ${id}::uuid, row_number() over (order by u."_id"), u."_id" from "app"."User" u where u."_id" = any(${userIds}::uuid[])`)
        ).count;
  const others =
    addresses.length === 0
      ? 0
      : (
          await transaction.query(sql`
      insert into penstock.broadcast_recipients (broadcast_id, place, address)
      select ${id}::uuid, ${users}::bigint + given.place, given.address
      from unnest(${addresses}::text[]) with ordinality as given(address, place)
      left join (
        select k.address from penstock.broadcast_recipients r join "app"."User" u on u."_id" = r.user_id
          cross join lateral (values (lower(u."email")), (u."phoneNumber")) k(address)
        where r.broadcast_id = ${id}::uuid and k.address is not null) known on known.address = lower(given.address)
      where known.address is null`)
        ).count;
  await transaction.query(
    sql`update penstock.broadcasts set recipients = ${users + others}::integer where id = ${id}::uuid`,
  );
  return users + others;
}

/** Those who are listed behind a place, in order, with the place of each. */
export const listedAfter = async (
  database: Queryable,
  id: string,
  { place, limit }: { readonly place: string; readonly limit: number },
): Promise<readonly (Listed & { readonly place: string })[]> =>
  (
    await database.query<Listed & { place: string }>(sql`
      select user_id as "userId", address, place::text from penstock.broadcast_recipients
      where broadcast_id = ${id}::uuid and place > ${place}::bigint order by broadcast_recipients.place limit ${limit}::integer`)
  ).rows;

/** All users who are not blocked, in the order of their ids. */
export const usersAfter = async (
  database: Queryable,
  { after, limit }: { readonly after: string | null; readonly limit: number },
): Promise<readonly string[]> =>
  (
    await database.query<{ id: string }>(sql`
      select "_id" as id from "app"."User" where "active" is not false and (${after}::uuid is null or "_id" > ${after}::uuid) order by "_id" limit ${limit}::integer`)
  ).rows.map(({ id }) => id);

export const countUsers = async (database: Queryable): Promise<number> =>
  (
    await database.query<{ count: number }>(
      sql`select count(*)::integer as count from "app"."User" where "active" is not false`,
    )
  ).rows[0]?.count ?? 0;

/** Locked, so that one worker at a time moves it on and a stop waits for the page that is being written. */
export const lockBroadcast = async (
  database: Queryable,
  id: string,
): Promise<BroadcastRow | undefined> =>
  (
    await database.query<BroadcastRow>({
      text: `select ${columns} from penstock.broadcasts where id = $1::uuid for update`,
      values: [id],
    })
  ).rows[0];

/** Notes a page. One that is done no longer knows whom it went to. */
export const moveBroadcast = (
  database: Queryable,
  id: string,
  step: {
    readonly position: string | null;
    readonly place: string | null;
    readonly queued: number;
    readonly skipped: number;
    readonly done: boolean;
  },
): Promise<unknown> =>
  database.query(sql`
    with forgotten as (
      delete from penstock.broadcast_recipients where ${step.done}::boolean and broadcast_id = ${id}::uuid)
    update penstock.broadcasts set position = coalesce(${step.position}::uuid, position), place = coalesce(${step.place}::bigint, place),
      queued = queued + ${step.queued}::integer, skipped = skipped + ${step.skipped}::integer,
      status = case when ${step.done}::boolean then 'done' else status end, finished_at = case when ${step.done}::boolean then now() end
    where id = ${id}::uuid`);

export const stopBroadcast = async (database: Queryable, id: string): Promise<boolean> =>
  (
    await database.query(sql`
      update penstock.broadcasts set status = 'stopped', finished_at = now() where id = ${id}::uuid and status <> 'stopped'`)
  ).count > 0;

/** Takes back up to `limit` messages of a broadcast that have not gone out; answers how many. */
export const cancelSome = async (
  transaction: Queryable,
  id: string,
  limit: number,
): Promise<number> => {
  const { count } = await transaction.query(sql`
    with gone as (
      update penstock.messages set status = 'cancelled', content_sealed = null, finished_at = now() where id in (
        select id from penstock.messages where broadcast_id = ${id}::uuid and status = 'queued' order by id limit ${limit}::integer for update skip locked)
      returning id)
    insert into penstock.message_events (message_id, kind, detail) select id, 'cancelled', 'the broadcast was stopped' from gone`);
  await transaction.query(sql`
    with forgotten as (delete from penstock.broadcast_recipients where broadcast_id = ${id}::uuid)
    update penstock.broadcasts set cancelled = cancelled + ${count}::integer where id = ${id}::uuid`);
  return count;
};

export const broadcastById = async (
  database: Queryable,
  id: string,
): Promise<BroadcastRow | undefined> =>
  (
    await database.query<BroadcastRow>({
      text: `select ${columns} from penstock.broadcasts where id = $1::uuid`,
      values: [id],
    })
  ).rows[0];

/** The newest first. */
export async function listBroadcasts(
  database: Queryable,
  { skip, limit }: { readonly skip: number; readonly limit: number },
): Promise<{ readonly rows: readonly BroadcastRow[]; readonly count: number }> {
  const { rows } = await database.query<BroadcastRow>({
    text: `select ${columns} from penstock.broadcasts order by created_at desc, id desc offset $1 limit $2`,
    values: [skip, limit],
  });
  const counted = await database.query<{ count: number }>(
    sql`select count(*)::integer as count from penstock.broadcasts`,
  );
  return { rows, count: counted.rows[0]?.count ?? 0 };
}

/** Those that began so long ago and are still under way. */
export const unendedBroadcasts = async (
  database: Queryable,
  hours: number,
): Promise<readonly string[]> =>
  (
    await database.query<{ id: string }>(sql`
      select id from penstock.broadcasts where status = 'running' and created_at < now() - ${hours}::integer * interval '1 hour' limit 1000`)
  ).rows.map(({ id }) => id);

/** One stays as long as any of its messages: those that wait for their time can be taken back until then. */
export const purgeBroadcasts = async (database: Queryable, maxAgeMs: number): Promise<void> =>
  void (await database.query(sql`
    delete from penstock.broadcasts b where status <> 'running'
      and created_at < now() - ${maxAgeMs}::double precision * interval '1 millisecond'
      and not exists (select from penstock.messages m where m.broadcast_id = b.id)`));
