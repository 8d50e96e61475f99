/** The SQL of what users chose. Values are always parameters. */
import type { Queryable } from '../../kernel/database/database.ts';
import { sql } from '../../kernel/database/sql.ts';

export interface ChoicesRow {
  readonly userId: string;
  readonly locale: string | null;
  readonly timezone: string | null;
  /** Minutes of the day. */
  readonly quietStart: number | null;
  readonly quietEnd: number | null;
  readonly preferences: readonly Preference[];
}

export interface Preference {
  readonly category: string;
  readonly channel: string;
  readonly enabled: boolean;
}

/** Of those users who chose anything, or have a device that says its language. One statement for all of them. */
export const choicesOf = async (
  database: Queryable,
  userIds: readonly string[],
): Promise<readonly ChoicesRow[]> =>
  (
    await database.query<ChoicesRow>(sql`
      select u.id as "userId", coalesce(s.locale, device.locale) as locale, s.timezone, s.quiet_start as "quietStart",
        s.quiet_end as "quietEnd", coalesce(p.all, '[]'::jsonb) as preferences
      from unnest(${userIds}::uuid[]) as u(id)
      left join penstock.message_settings s on s.user_id = u.id
      left join lateral (select locale from penstock.push_devices d where d.user_id = u.id and d.locale is not null
        order by d.updated_at desc limit 1) device on true
      left join lateral (select jsonb_agg(jsonb_build_object('category', category, 'channel', channel, 'enabled', enabled) order by category, channel) as all
        from penstock.message_preferences p where p.user_id = u.id) p on true`)
  ).rows;

export const saveSettings = (
  database: Queryable,
  userId: string,
  { locale, timezone, quietStart, quietEnd }: Omit<ChoicesRow, 'userId' | 'preferences'>,
): Promise<unknown> =>
  database.query(sql`
    insert into penstock.message_settings (user_id, locale, timezone, quiet_start, quiet_end)
    values (${userId}::uuid, ${locale}, ${timezone}, ${quietStart}::integer, ${quietEnd}::integer)
    on conflict (user_id) do update set locale = excluded.locale, timezone = excluded.timezone,
      quiet_start = excluded.quiet_start, quiet_end = excluded.quiet_end`);

/** Locked until the transaction ends, also where the user has said nothing before: the row is made then. */
export async function lockSettings(
  transaction: Queryable,
  userId: string,
): Promise<Omit<ChoicesRow, 'userId' | 'preferences'> | undefined> {
  await transaction.query(sql`
    insert into penstock.message_settings (user_id) values (${userId}::uuid) on conflict do nothing`);
  const { rows } = await transaction.query<Omit<ChoicesRow, 'userId' | 'preferences'>>(sql`
    select locale, timezone, quiet_start as "quietStart", quiet_end as "quietEnd" from penstock.message_settings
    where user_id = ${userId}::uuid for update`);
  return rows[0];
}

export const savePreferences = (
  database: Queryable,
  userId: string,
  preferences: readonly Preference[],
): Promise<unknown> =>
  database.query(sql`
    insert into penstock.message_preferences (user_id, category, channel, enabled)
    select ${userId}::uuid, * from unnest(${preferences.map(({ category }) => category)}::text[],
      ${preferences.map(({ channel }) => channel)}::text[], ${preferences.map(({ enabled }) => enabled)}::boolean[])
    on conflict (user_id, category, channel) do update set enabled = excluded.enabled`);

export const countPreferences = async (database: Queryable, userId: string): Promise<number> =>
  (
    await database.query<{ count: number }>(
      sql`select count(*)::integer as count from penstock.message_preferences where user_id = ${userId}::uuid`,
    )
  ).rows[0]?.count ?? 0;

export async function forgetChoicesOf(
  database: Queryable,
  userIds: readonly string[],
): Promise<void> {
  for (const table of ['message_settings', 'message_preferences'])
    await database.query({
      text: `delete from penstock.${table} where user_id = any($1::uuid[])`,
      values: [userIds],
    });
}

/* Users: the schema belongs to another module and may not be there. */

export interface UserAddress {
  readonly id: string;
  readonly email: string | null;
  readonly phone: string | null;
}

export const addressesOf = async (
  database: Queryable,
  userIds: readonly string[],
): Promise<readonly UserAddress[]> =>
  (
    await database.query<UserAddress>(sql`
      select "_id" as id, "email", "phoneNumber" as phone from "app"."User" where "_id" = any(${userIds}::uuid[])`)
  ).rows;

/** False where there is no such user; one that there is stays until the transaction ends. */
export const lockUser = async (transaction: Queryable, userId: string): Promise<boolean> =>
  (
    await transaction.query(
      sql`select from "app"."User" where "_id" = ${userId}::uuid for key share`,
    )
  ).rows.length > 0;

/** Those of these that are users, the same way. In one order for all who lock several. */
export const lockUsers = async (
  transaction: Queryable,
  userIds: readonly string[],
  withBlocked: boolean,
): Promise<ReadonlySet<string>> =>
  new Set(
    (
      await transaction.query<{ id: string }>(
        sql`select "_id" as id from "app"."User" where "_id" = any(${userIds}::uuid[])
          and (${withBlocked}::boolean or "active" is not false) order by "_id" for key share`,
      )
    ).rows.map(({ id }) => id),
  );

/** Waits for whoever is writing to these users; nobody else does until the transaction ends. */
export const lockLeavingUsers = (
  transaction: Queryable,
  userIds: readonly string[],
): Promise<unknown> =>
  transaction.query(
    sql`select from "app"."User" where "_id" = any(${userIds}::uuid[]) order by "_id" for update`,
  );

/** Who wants a kind of message again is no longer refused it by an earlier click in a mail. */
export const liftUnsubscribes = (
  database: Queryable,
  userId: string,
  lifted: readonly Preference[],
): Promise<unknown> =>
  database.query(sql`
    delete from penstock.suppressions s using "app"."User" u
    where u."_id" = ${userId}::uuid and s.reason = 'unsubscribe'
      and s.address = lower(case s.channel when 'email' then u."email" when 'sms' then u."phoneNumber" end)
      and (s.channel, s.scope) in (select * from unnest(${lifted.map(({ channel }) => channel)}::text[], ${lifted.map(({ category }) => category)}::text[]))`);
