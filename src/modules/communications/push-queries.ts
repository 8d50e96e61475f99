/** The SQL of devices and topics. Values are always parameters. */
import type { Queryable } from '../../kernel/database/database.ts';
import { shortSql, sql } from '../../kernel/database/sql.ts';

/** Keys of a browser's subscription, base64url. */
export interface WebKeys {
  readonly p256dh: string;
  readonly auth: string;
}

export interface DeviceRow {
  readonly id: string;
  readonly userId: string;
  readonly token: string;
  readonly platform: string;
  readonly deviceId: string | null;
  readonly locale: string | null;
  readonly appVersion: string | null;
  readonly environment: string | null;
  readonly webKeys: WebKeys | null;
  readonly endpointRef: string | null;
  readonly createdAt: Date;
  readonly updatedAt: Date;
}

const columns = `id, user_id as "userId", token, platform, device_id as "deviceId", locale, app_version as "appVersion",
  environment, web_keys as "webKeys", endpoint_ref as "endpointRef", created_at as "createdAt", updated_at as "updatedAt"`;

export type NewDevice = Omit<DeviceRow, 'createdAt' | 'updatedAt' | 'endpointRef'> & {
  readonly tokenHash: Buffer;
  /** The session that registers it. */
  readonly sessionId: string;
};

/**
 * A token that is known already moves to this user: the phone has a new owner. What is known of the same device (its own
 * id) under an older token goes, and so do the user's longest unseen devices beyond `max`.
 */
export async function saveDevice(
  transaction: Queryable,
  device: NewDevice,
  max: number,
): Promise<DeviceRow> {
  if (device.deviceId !== null)
    await transaction.query(sql`
      delete from penstock.push_devices where user_id = ${device.userId}::uuid and device_id = ${device.deviceId}
        and platform = ${device.platform} and token_hash <> ${device.tokenHash}`);
  const { rows } = await transaction.query<DeviceRow>({
    text: `insert into penstock.push_devices as d (id, user_id, token, token_hash, platform, device_id, locale, app_version, environment, web_keys, session_id)
      values ($1::uuid, $2::uuid, $3, $4, $5, $6, $7, $8, $9, $10::jsonb, $11::uuid)
      on conflict (token_hash) do update set user_id = excluded.user_id, platform = excluded.platform, device_id = excluded.device_id,
        locale = excluded.locale, app_version = excluded.app_version, environment = excluded.environment, web_keys = excluded.web_keys,
        session_id = excluded.session_id, updated_at = now(), created_at = case when d.user_id = excluded.user_id then d.created_at else now() end
      returning ${columns}`,
    values: [
      device.id,
      device.userId,
      device.token,
      device.tokenHash,
      device.platform,
      device.deviceId,
      device.locale,
      device.appVersion,
      device.environment,
      device.webKeys === null ? null : JSON.stringify(device.webKeys),
      device.sessionId,
    ],
  });
  await transaction.query(sql`
    delete from penstock.push_devices where id in (
      select id from penstock.push_devices where user_id = ${device.userId}::uuid
      order by updated_at desc, id desc offset ${max}::integer)`);
  const [saved] = rows;
  if (!saved) throw new Error('The database did not answer the device');
  return saved;
}

export const devicesOf = async (
  database: Queryable,
  userId: string,
  platform: string | null,
): Promise<readonly DeviceRow[]> =>
  (
    await database.query<DeviceRow>({
      text: `select ${columns} from penstock.push_devices where user_id = $1::uuid and ($2::text is null or platform = $2)
        order by updated_at desc, id desc limit 1000`,
      values: [userId, platform],
      class: 'short',
    })
  ).rows;

export const countDevices = async (
  database: Queryable,
  userId: string,
  platform: string | null,
): Promise<number> =>
  (
    await database.query<{ count: number }>(shortSql`
      select count(*)::integer as count from penstock.push_devices
      where user_id = ${userId}::uuid and (${platform}::text is null or platform = ${platform})`)
  ).rows[0]?.count ?? 0;

export const deleteDevicesOf = (
  database: Queryable,
  userId: string,
  { platform, tokenHash }: { readonly platform: string | null; readonly tokenHash: Buffer | null },
): Promise<unknown> =>
  database.query(sql`
    delete from penstock.push_devices where user_id = ${userId}::uuid
      and (${platform}::text is null or platform = ${platform}) and (${tokenHash}::bytea is null or token_hash = ${tokenHash})`);

/** Sessions of these users: some (`only`), or all but one. */
export interface EndedSessions {
  readonly userIds: readonly string[];
  readonly only?: readonly string[] | undefined;
  readonly except?: string | undefined;
}

/** Those that were registered in these sessions. */
export const deleteDevicesOfSessions = (
  transaction: Queryable,
  { userIds, only, except }: EndedSessions,
): Promise<unknown> =>
  transaction.query(sql`
    delete from penstock.push_devices where user_id = any(${userIds}::uuid[]) and session_id is not null
      and (${only ?? null}::uuid[] is null or session_id = any(${only ?? null}::uuid[]))
      and session_id is distinct from ${except ?? null}::uuid`);

/** Those that a provider called dead; a device that was registered again since then stays. */
export const deleteDeadDevices = (
  database: Queryable,
  ids: readonly string[],
  seenBefore: Date,
): Promise<unknown> =>
  database.query(sql`
    delete from penstock.push_devices where id = any(${ids}::uuid[]) and updated_at <= ${seenBefore}`);

/** What a provider calls these devices. One statement, however many there are. */
export const noteEndpoints = (
  database: Queryable,
  devices: readonly { readonly id: string; readonly endpointRef: string }[],
): Promise<unknown> =>
  database.query(sql`
    update penstock.push_devices d set endpoint_ref = n.endpoint_ref
    from unnest(${devices.map(({ id }) => id)}::uuid[], ${devices.map(({ endpointRef }) => endpointRef)}::text[]) as n(id, endpoint_ref)
    where d.id = n.id and d.endpoint_ref is distinct from n.endpoint_ref`);

export interface DeviceFilter {
  readonly skip: number;
  readonly limit: number;
  /** Id of a device or of a user. */
  readonly search?: string | undefined;
  readonly platform?: string | undefined;
}

export async function listDevices(
  database: Queryable,
  { skip, limit, search, platform }: DeviceFilter,
): Promise<{ readonly rows: readonly DeviceRow[]; readonly count: number }> {
  const where = `($1::uuid is null or id = $1 or user_id = $1) and ($2::text is null or platform = $2)`;
  const values = [search ?? null, platform ?? null];
  const { rows } = await database.query<DeviceRow>({
    text: `select ${columns} from penstock.push_devices where ${where} order by id desc offset $3 limit $4`,
    values: [...values, skip, limit],
  });
  const counted = await database.query<{ count: number }>({
    text: `select count(*)::integer as count from penstock.push_devices where ${where}`,
    values,
  });
  return { rows, count: counted.rows[0]?.count ?? 0 };
}

export const deviceById = async (database: Queryable, id: string): Promise<DeviceRow | undefined> =>
  (
    await database.query<DeviceRow>({
      text: `select ${columns} from penstock.push_devices where id = $1::uuid`,
      values: [id],
    })
  ).rows[0];

export const deleteDevice = async (database: Queryable, id: string): Promise<boolean> =>
  (await database.query(sql`delete from penstock.push_devices where id = ${id}::uuid`)).count > 0;

/* Topics. */

/** False for one that the user follows already. */
export const subscribeTopic = async (
  database: Queryable,
  userId: string,
  topic: string,
): Promise<boolean> =>
  (
    await database.query(sql`
      insert into penstock.push_topics (topic, user_id) values (${topic}, ${userId}::uuid) on conflict do nothing`)
  ).count > 0;

export const unsubscribeTopic = (
  database: Queryable,
  userId: string,
  topic: string,
): Promise<unknown> =>
  database.query(sql`
    delete from penstock.push_topics where topic = ${topic} and user_id = ${userId}::uuid`);

export const countTopicsOf = async (database: Queryable, userId: string): Promise<number> =>
  (
    await database.query<{ count: number }>(
      sql`select count(*)::integer as count from penstock.push_topics where user_id = ${userId}::uuid`,
    )
  ).rows[0]?.count ?? 0;

export const countSubscribers = async (database: Queryable, topic: string): Promise<number> =>
  (
    await database.query<{ count: number }>(
      sql`select count(*)::integer as count from penstock.push_topics where topic = ${topic}`,
    )
  ).rows[0]?.count ?? 0;

/** The next subscribers behind `after`, in the order of their ids. */
export const subscribersAfter = async (
  database: Queryable,
  topic: string,
  { after, limit }: { readonly after: string | null; readonly limit: number },
): Promise<readonly string[]> =>
  (
    await database.query<{ id: string }>(sql`
      select user_id as id from penstock.push_topics where topic = ${topic} and (${after}::uuid is null or user_id > ${after}::uuid)
      order by user_id limit ${limit}::integer`)
  ).rows.map(({ id }) => id);

/* Users: the schema belongs to another module and may not be there. */

/** Those of these ids that are users. */
export const existingUsers = async (
  database: Queryable,
  ids: readonly string[],
): Promise<readonly string[]> =>
  (
    await database.query<{ id: string }>(
      sql`select "_id" as id from "app"."User" where "_id" = any(${ids}::uuid[])`,
    )
  ).rows.map(({ id }) => id);

/** Those of these users who have a device. */
export const usersWithDevices = async (
  database: Queryable,
  ids: readonly string[],
): Promise<ReadonlySet<string>> =>
  new Set(
    (
      await database.query<{ id: string }>(
        sql`select distinct user_id as id from penstock.push_devices where user_id = any(${ids}::uuid[])`,
      )
    ).rows.map(({ id }) => id),
  );

/* Users who go. */

export async function forgetPushOf(database: Queryable, userIds: readonly string[]): Promise<void> {
  for (const table of [
    'push_devices',
    'push_topics',
    'notifications',
    'inbox_counts',
    'broadcast_recipients',
  ])
    await database.query({
      text: `delete from penstock.${table} where user_id = any($1::uuid[])`,
      values: [userIds],
    });
}
