/** SQL over the second factor of admins. */
import type { Queryable } from '../../../kernel/database/database.ts';
import { sql } from '../../../kernel/database/sql.ts';

/** Stores a secret that is not confirmed yet, in the place of an earlier such one. False when a confirmed one stands. */
export async function storePendingSecret(
  database: Queryable,
  adminId: string,
  sealed: string,
): Promise<boolean> {
  const { count } = await database.query(sql`
    insert into penstock.admin_two_factor as stored (admin_id, secret) values (${adminId}, ${sealed})
    on conflict (admin_id) do update set secret = excluded.secret, last_step = null, created_at = now() where not stored.confirmed`);
  return count === 1;
}

export async function findSecret(
  database: Queryable,
  adminId: string,
  confirmed: boolean,
): Promise<string | undefined> {
  const { rows } = await database.query<{ secret: string }>(
    sql`select secret from penstock.admin_two_factor where admin_id = ${adminId} and confirmed = ${confirmed}`,
  );
  return rows[0]?.secret;
}

/** Confirms the pending secret and takes its first step; false when somebody else did. */
export async function confirmSecret(
  database: Queryable,
  adminId: string,
  step: number,
): Promise<boolean> {
  const { count } = await database.query(sql`
    update penstock.admin_two_factor set confirmed = true, last_step = ${step}::bigint
    where admin_id = ${adminId} and not confirmed`);
  return count === 1;
}

/** Takes a time step: true for exactly one of all who try, and never for an earlier step. */
export async function takeStep(
  database: Queryable,
  adminId: string,
  step: number,
): Promise<boolean> {
  const { count } = await database.query(sql`
    update penstock.admin_two_factor set last_step = ${step}::bigint
    where admin_id = ${adminId} and confirmed and (last_step is null or last_step < ${step}::bigint)`);
  return count === 1;
}

export async function insertBackupCodes(
  database: Queryable,
  adminId: string,
  digests: readonly string[],
): Promise<void> {
  await database.query(
    sql`insert into penstock.admin_backup_codes (admin_id, digest) select ${adminId}::uuid, unnest(${digests}::text[])`,
  );
}

/** Uses up a backup code: true for exactly one of all who try. */
export async function takeBackupCode(
  database: Queryable,
  adminId: string,
  digest: string,
): Promise<boolean> {
  const { count } = await database.query(sql`
    update penstock.admin_backup_codes set used_at = now()
    where admin_id = ${adminId} and digest = ${digest} and used_at is null`);
  return count === 1;
}

/** The backup codes go with the secret. */
export async function deleteSecret(database: Queryable, adminId: string): Promise<void> {
  await database.query(sql`delete from penstock.admin_two_factor where admin_id = ${adminId}`);
}
