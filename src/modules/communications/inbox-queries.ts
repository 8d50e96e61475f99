/** The SQL of the inbox. Values are always parameters. The newest entry is the one with the largest id. */
import type { Queryable } from '../../kernel/database/database.ts';
import { instantText, shortSql, sql, statementName } from '../../kernel/database/sql.ts';
import { outboxTable } from '../../kernel/events/events.ts';

export interface NotificationRow {
  readonly id: string;
  readonly userId: string;
  readonly title: string;
  readonly body: string | null;
  readonly data: Readonly<Record<string, unknown>> | null;
  readonly platform: string | null;
  readonly category: string | null;
  readonly readAt: Date | null;
  readonly createdAt: Date;
}

export interface InboxFilter {
  readonly read?: boolean | undefined;
  readonly platform?: string | undefined;
  readonly category?: string | undefined;
  /** Entries older than this one. */
  readonly after?: string | undefined;
  readonly skip: number;
  readonly limit: number;
}

/** An entry as it goes out. */
const entry = `json_build_object('_id', id, 'user', user_id, 'title', title, 'body', body, 'data', data, 'platform', platform,
  'category', category, 'read', read_at is not null, 'readAt', ${instantText('read_at')}, 'createdAt', ${instantText('created_at')})::text`;

/** Entries of a page in the order of its index that is read about as fast as a single one. */
const SHORT_PAGE = 100;

/** Entries as JSON texts, rendered by PostgreSQL and passed through. */
export async function listInbox(
  database: Queryable,
  userId: string,
  { read, platform, category, after, skip, limit }: InboxFilter,
): Promise<readonly string[]> {
  const values: unknown[] = [userId, skip, limit];
  const given = (value: unknown): string => `$${values.push(value)}`;
  // Fixed pieces of text: each combination has its own plan and its own index.
  const conditions = [
    'user_id = $1::uuid',
    ...(read === undefined ? [] : [read ? 'read_at is not null' : 'read_at is null']),
    ...(platform === undefined ? [] : [`platform = ${given(platform)}`]),
    ...(category === undefined ? [] : [`category = ${given(category)}`]),
    ...(after === undefined ? [] : [`id < ${given(after)}::uuid`]),
  ];
  // What is passed over is not rendered.
  const text = `select ${entry} as entry from (
      select * from penstock.notifications where ${conditions.join(' and ')}
      order by id desc offset $2::integer limit $3::integer) page
    order by id desc`;
  const { rows } = await database.query<{ entry: string }>({
    text,
    values,
    name: statementName(text),
    class: skip + limit <= SHORT_PAGE ? 'list' : 'pooled',
  });
  return rows.map((row) => row.entry);
}

export interface InboxCounts {
  readonly total: number;
  readonly unread: number;
}

/** Kept by triggers; a few rows per user however many entries there are. */
export async function countInbox(
  database: Queryable,
  userId: string,
  { platform, category }: Pick<InboxFilter, 'platform' | 'category'>,
): Promise<InboxCounts> {
  const { rows } = await database.query<InboxCounts>(shortSql`
    select coalesce(sum(total), 0)::integer as total, coalesce(sum(unread), 0)::integer as unread from penstock.inbox_counts
    where user_id = ${userId}::uuid and (${platform ?? null}::text is null or platform = ${platform ?? null})
      and (${category ?? null}::text is null or category = ${category ?? null})`);
  return rows[0] ?? { total: 0, unread: 0 };
}

export type NewNotification = Omit<NotificationRow, 'readAt' | 'createdAt'>;

/** All of one call in one statement. */
export const insertNotifications = (
  database: Queryable,
  entries: readonly NewNotification[],
): Promise<unknown> =>
  database.query(sql`
    insert into penstock.notifications (id, user_id, title, body, data, platform, category)
    select * from unnest(${entries.map(({ id }) => id)}::uuid[], ${entries.map(({ userId }) => userId)}::uuid[],
      ${entries.map(({ title }) => title)}::text[], ${entries.map(({ body }) => body)}::text[],
      ${entries.map(({ data }) => (data === null ? null : JSON.stringify(data)))}::jsonb[],
      ${entries.map(({ platform }) => platform)}::text[], ${entries.map(({ category }) => category)}::text[])`);

/** Which of these are entries of the user. */
export const ownNotifications = async (
  database: Queryable,
  userId: string,
  ids: readonly string[],
): Promise<ReadonlySet<string>> =>
  new Set(
    (
      await database.query<{ id: string }>(
        sql`select id from penstock.notifications where user_id = ${userId}::uuid and id = any(${ids}::uuid[])`,
      )
    ).rows.map(({ id }) => id),
  );

/** Changes entries as the statement says, with one event for all that were read; answers how many changed. */
const marking = (change: string): string => `
  with changed as (${change} returning id),
  told as (
    insert into ${outboxTable} (topic, ids, payload, actor)
    select 'communications:read:Notification', array_agg(id::text), jsonb_build_object('userId', $1::uuid), 'user:' || $1::uuid
    from changed having $2::boolean and count(*) > 0)
  select count(*)::integer as count from changed`;

const mark = async (
  database: Queryable,
  text: string,
  values: readonly unknown[],
): Promise<number> =>
  (await database.query<{ count: number }>({ text, values })).rows[0]?.count ?? 0;

/** Marks these entries of the user; answers how many changed. */
export const markNotifications = (
  database: Queryable,
  userId: string,
  ids: readonly string[],
  read: boolean,
): Promise<number> =>
  mark(
    database,
    marking(`
      update penstock.notifications set read_at = case when $2::boolean then now() end
      where user_id = $1::uuid and id = any($3::uuid[]) and (read_at is not null) <> $2::boolean`),
    [userId, read, ids],
  );

/** A time after every entry that is there. By the clock that gave the entries theirs: that of a node may be behind. */
export async function afterLatest(database: Queryable): Promise<Date> {
  const { rows } = await database.query<{ at: Date }>(
    sql`select clock_timestamp() + interval '1 millisecond' as at`,
  );
  return rows[0]?.at ?? new Date();
}

/** Marks up to `limit` entries, all of them or those that are older than a time; answers how many changed. */
export const markSome = (
  database: Queryable,
  userId: string,
  {
    before,
    read,
    limit,
  }: { readonly before: Date | null; readonly read: boolean; readonly limit: number },
): Promise<number> => {
  const state = read ? 'read_at is null' : 'read_at is not null';
  return mark(
    database,
    marking(`
      update penstock.notifications set read_at = case when $2::boolean then now() end where id in (
        select id from penstock.notifications where user_id = $1::uuid and ${state}
          and ($3::timestamptz is null or created_at < $3::timestamptz) order by id desc limit $4::integer for update)`),
    [userId, read, before, limit],
  );
};

export const deleteNotification = async (
  database: Queryable,
  userId: string,
  id: string,
): Promise<boolean> =>
  (
    await database.query(
      sql`delete from penstock.notifications where user_id = ${userId}::uuid and id = ${id}::uuid`,
    )
  ).count > 0;

/** Deletes up to `limit` entries that are older than `maxAgeMs`, the oldest first; answers how many. */
export const purgeNotifications = async (
  database: Queryable,
  maxAgeMs: number,
  limit: number,
): Promise<number> =>
  (
    await database.query(sql`
      delete from penstock.notifications where id in (
        select id from penstock.notifications
        where created_at < now() - ${maxAgeMs}::double precision * interval '1 millisecond' order by id limit ${limit}::integer)`)
  ).count;
