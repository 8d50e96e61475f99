/** The SQL of passkeys. Values are always parameters. */
import type { Queryable } from '../../../../kernel/database/database.ts';
import { identitySql, sql } from '../../../../kernel/database/sql.ts';

/* The SQL of device keys. Values are always parameters. */

interface NewDeviceKey {
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

export async function deviceKey(
  database: Queryable,
  id: string,
): Promise<{ userId: string; publicKey: string } | undefined> {
  const { rows } = await database.query<{ userId: string; publicKey: string }>(
    identitySql`select user_id as "userId", public_key as "publicKey" from penstock.device_keys where id = ${id}::uuid`,
  );
  return rows[0];
}

/** Notes the use; false when the key was removed meanwhile. */
export const useDeviceKey = async (database: Queryable, id: string): Promise<boolean> =>
  (
    await database.query(
      sql`update penstock.device_keys set last_used_at = now() where id = ${id}::uuid`,
    )
  ).count > 0;

export interface ListedDevice {
  readonly _id: string;
  readonly userAgent: string | null;
  readonly createdAt: Date;
  readonly lastUsedAt: Date | null;
}

/** In the order in which they were added. */
export const deviceKeysOf = async (
  database: Queryable,
  userId: string,
): Promise<readonly ListedDevice[]> =>
  (
    await database.query<ListedDevice>(sql`
      select id as "_id", user_agent as "userAgent", created_at as "createdAt", last_used_at as "lastUsedAt"
      from penstock.device_keys where user_id = ${userId}::uuid order by created_at, id`)
  ).rows;

export const deleteDeviceKey = async (
  database: Queryable,
  userId: string,
  id: string,
): Promise<boolean> =>
  (
    await database.query(
      sql`delete from penstock.device_keys where id = ${id}::uuid and user_id = ${userId}::uuid`,
    )
  ).count > 0;

/** Answers how many there were. */
export const deleteDeviceKeysOf = async (database: Queryable, userId: string): Promise<number> =>
  (await database.query(sql`delete from penstock.device_keys where user_id = ${userId}::uuid`))
    .count;

const first = async <R>(result: Promise<{ readonly rows: readonly R[] }>): Promise<R | undefined> =>
  (await result).rows[0];

export interface NewPasskey {
  readonly id: string;
  readonly userId: string;
  /** Base64url, as the authenticator chose it. */
  readonly credentialId: string;
  /** COSE. */
  readonly publicKey: Uint8Array;
  readonly counter: number;
  readonly transports: readonly string[];
  /** Whether it may be copied to other devices of its owner. */
  readonly multiDevice: boolean;
  readonly backedUp: boolean;
  /** Which model of authenticator says it made it; not proven. */
  readonly aaguid: string;
  readonly name: string;
}

/** False when the credential is known already. */
export const insertPasskey = async (database: Queryable, key: NewPasskey): Promise<boolean> =>
  (
    await database.query(sql`
      insert into penstock.passkeys (id, user_id, credential_id, public_key, counter, transports, multi_device, backed_up, aaguid, name)
      values (${key.id}::uuid, ${key.userId}::uuid, ${key.credentialId}, ${Buffer.from(key.publicKey)}::bytea, ${key.counter}::bigint,
        ${key.transports}::text[], ${key.multiDevice}::boolean, ${key.backedUp}::boolean, ${key.aaguid}, ${key.name})
      on conflict (credential_id) do nothing`)
  ).count > 0;

/** How authenticators know the user: the stored name, or this one from now on. */
export async function passkeyHandle(
  database: Queryable,
  userId: string,
  fresh: string,
): Promise<string> {
  const row = await first(
    database.query<{ handle: string }>(sql`
      insert into penstock.passkey_handles as stored (user_id, handle) values (${userId}::uuid, ${fresh})
      on conflict (user_id) do update set handle = stored.handle returning handle`),
  );
  if (!row) throw new Error('The handle was not stored');
  return row.handle;
}

/** A passkey as a sign-in needs it. */
export interface StoredPasskey {
  readonly id: string;
  readonly userId: string;
  readonly handle: string;
  readonly credentialId: string;
  readonly publicKey: Uint8Array<ArrayBuffer>;
  readonly counter: number;
  readonly transports: readonly string[];
  readonly multiDevice: boolean;
}

const stored = `
  select k.id, k.user_id as "userId", h.handle, k.credential_id as "credentialId", k.public_key as "publicKey",
         k.counter::double precision as counter, k.transports, k.multi_device as "multiDevice"
  from penstock.passkeys k join penstock.passkey_handles h on h.user_id = k.user_id`;

export const passkeyByCredential = (
  database: Queryable,
  credentialId: string,
): Promise<StoredPasskey | undefined> =>
  first(
    database.query<StoredPasskey>({
      text: `${stored} where k.credential_id = $1`,
      values: [credentialId],
    }),
  );

export const storedPasskeysOf = async (
  database: Queryable,
  userId: string,
): Promise<readonly StoredPasskey[]> =>
  (
    await database.query<StoredPasskey>({
      text: `${stored} where k.user_id = $1::uuid order by k.created_at, k.id`,
      values: [userId],
    })
  ).rows;

/**
 * Notes a use with the counter that came with it. False when the counter did not rise (it stays 0 at
 * authenticators that do not count): of two that present the same one, at most one is the real one.
 */
export const notePasskeyUse = async (
  database: Queryable,
  use: { readonly id: string; readonly counter: number; readonly backedUp: boolean },
): Promise<boolean> =>
  (
    await database.query(sql`
      update penstock.passkeys set counter = ${use.counter}::bigint, backed_up = ${use.backedUp}::boolean, last_used_at = now()
      where id = ${use.id}::uuid and (counter < ${use.counter}::bigint or (counter = 0 and ${use.counter}::bigint = 0))`)
  ).count > 0;

/** A passkey as its owner sees it. */
export interface ListedPasskey {
  readonly _id: string;
  readonly name: string;
  readonly multiDevice: boolean;
  readonly backedUp: boolean;
  readonly transports: readonly string[];
  readonly createdAt: Date;
  readonly lastUsedAt: Date | null;
}

const listed = `id as "_id", name, multi_device as "multiDevice", backed_up as "backedUp", transports,
  created_at as "createdAt", last_used_at as "lastUsedAt"`;

/** In the order in which they were added. */
export const passkeysOf = async (
  database: Queryable,
  userId: string,
): Promise<readonly ListedPasskey[]> =>
  (
    await database.query<ListedPasskey>({
      text: `select ${listed} from penstock.passkeys where user_id = $1::uuid order by created_at, id`,
      values: [userId],
    })
  ).rows;

export const renamePasskey = (
  database: Queryable,
  userId: string,
  change: { id: string; name: string },
): Promise<ListedPasskey | undefined> =>
  first(
    database.query<ListedPasskey>({
      text: `update penstock.passkeys set name = $3 where id = $1::uuid and user_id = $2::uuid returning ${listed}`,
      values: [change.id, userId, change.name],
    }),
  );

/** Answers its name; nothing when the user has no such passkey. */
export const deletePasskey = async (
  database: Queryable,
  userId: string,
  id: string,
): Promise<string | undefined> =>
  (
    await first(
      database.query<{ name: string }>(
        sql`delete from penstock.passkeys where id = ${id}::uuid and user_id = ${userId}::uuid returning name`,
      ),
    )
  )?.name;

/** All of a user, with the name under which authenticators know them. */
export async function deletePasskeysOf(database: Queryable, userId: string): Promise<void> {
  await database.query(sql`delete from penstock.passkeys where user_id = ${userId}::uuid`);
  await database.query(sql`delete from penstock.passkey_handles where user_id = ${userId}::uuid`);
}
