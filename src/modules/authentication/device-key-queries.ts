/** The SQL of device keys. Values are always parameters. */
import type { Queryable } from '../../kernel/database/database.ts';
import { identitySql, sql } from '../../kernel/database/sql.ts';

export interface NewDeviceKey {
  readonly id: string;
  readonly userId: string;
  /** DER (SPKI) in base64. */
  readonly publicKey: string;
  readonly userAgent: string | null;
}

/** Adds a key, for a user whose row the transaction has locked. */
export const insertDeviceKey = (database: Queryable, key: NewDeviceKey): Promise<unknown> =>
  database.query(sql`
    insert into penstock.device_keys (id, user_id, public_key, user_agent)
    values (${key.id}::uuid, ${key.userId}::uuid, ${key.publicKey}, ${key.userAgent})`);

export async function countDeviceKeys(database: Queryable, userId: string): Promise<number> {
  const { rows } = await database.query<{ count: number }>(
    sql`select count(*)::integer as count from penstock.device_keys where user_id = ${userId}::uuid`,
  );
  return rows[0]?.count ?? 0;
}

export async function deviceKey(database: Queryable, id: string): Promise<{ userId: string; publicKey: string } | undefined> {
  const { rows } = await database.query<{ userId: string; publicKey: string }>(
    identitySql`select user_id as "userId", public_key as "publicKey" from penstock.device_keys where id = ${id}::uuid`,
  );
  return rows[0];
}

/** Notes the use; false when the key was removed meanwhile. */
export const useDeviceKey = async (database: Queryable, id: string): Promise<boolean> =>
  (await database.query(sql`update penstock.device_keys set last_used_at = now() where id = ${id}::uuid`)).count > 0;

export interface ListedDevice {
  readonly _id: string;
  readonly userAgent: string | null;
  readonly createdAt: Date;
  readonly lastUsedAt: Date | null;
}

/** In the order in which they were added. */
export const deviceKeysOf = async (database: Queryable, userId: string): Promise<readonly ListedDevice[]> =>
  (
    await database.query<ListedDevice>(sql`
      select id as "_id", user_agent as "userAgent", created_at as "createdAt", last_used_at as "lastUsedAt"
      from penstock.device_keys where user_id = ${userId}::uuid order by created_at, id`)
  ).rows;

export const deleteDeviceKey = async (database: Queryable, userId: string, id: string): Promise<boolean> =>
  (await database.query(sql`delete from penstock.device_keys where id = ${id}::uuid and user_id = ${userId}::uuid`)).count > 0;

export const deleteDeviceKeysOf = (database: Queryable, userId: string): Promise<unknown> =>
  database.query(sql`delete from penstock.device_keys where user_id = ${userId}::uuid`);
