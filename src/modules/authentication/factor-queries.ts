/** The SQL of second factors. Values are always parameters. */
import type { Queryable, Transaction } from '../../kernel/database/database.ts';
import { sql } from '../../kernel/database/sql.ts';

/** What a second factor may be. */
export type SecondFactorMethod = 'authenticator' | 'sms' | 'passkey';

/** Stores a secret that is not confirmed yet, in the place of an earlier such one. False when a confirmed one stands. */
export const storePendingTotp = async (database: Queryable, userId: string, sealed: string): Promise<boolean> =>
  (
    await database.query(sql`
      insert into penstock.user_totp as stored (user_id, secret) values (${userId}::uuid, ${sealed})
      on conflict (user_id) do update set secret = excluded.secret, last_step = null, created_at = now() where not stored.confirmed`)
  ).count === 1;

/** The secret that is in force. */
export const totpSecret = (database: Queryable, userId: string): Promise<string | undefined> =>
  secretOf(database.query(sql`select secret from penstock.user_totp where user_id = ${userId}::uuid and confirmed`));

/** The one that waits for its proof: a quarter of an hour, so that what somebody has begun long ago is not finished by chance. */
export const pendingTotpSecret = (database: Queryable, userId: string): Promise<string | undefined> =>
  secretOf(
    database.query(sql`
      select secret from penstock.user_totp
      where user_id = ${userId}::uuid and not confirmed and created_at > now() - interval '15 minutes'`),
  );

const secretOf = async (result: Promise<{ readonly rows: readonly { readonly secret: string }[] }>): Promise<string | undefined> =>
  (await result).rows[0]?.secret;

/** Confirms the pending secret, if it is still this one, and takes its first step. */
export const confirmTotp = async (database: Queryable, userId: string, proof: { sealed: string; step: number }): Promise<boolean> =>
  (
    await database.query(sql`
      update penstock.user_totp set confirmed = true, last_step = ${proof.step}::bigint
      where user_id = ${userId}::uuid and not confirmed and secret = ${proof.sealed}`)
  ).count === 1;

/** Takes a time step: true for exactly one of all who try, and never for an earlier step. */
export const takeTotpStep = async (database: Queryable, userId: string, step: number): Promise<boolean> =>
  (
    await database.query(sql`
      update penstock.user_totp set last_step = ${step}::bigint
      where user_id = ${userId}::uuid and confirmed and (last_step is null or last_step < ${step}::bigint)`)
  ).count === 1;

export const deletePendingTotp = (database: Queryable, userId: string): Promise<unknown> =>
  database.query(sql`delete from penstock.user_totp where user_id = ${userId}::uuid and not confirmed`);

/** Secrets and codes of every method. */
export async function deleteSecondFactor(database: Queryable, userId: string): Promise<void> {
  await database.query(sql`delete from penstock.user_totp where user_id = ${userId}::uuid`);
  await database.query(sql`delete from penstock.user_backup_codes where user_id = ${userId}::uuid`);
}

/** A new set in the place of the old one, for a user whose row the transaction has locked. */
export async function replaceBackupCodes(transaction: Transaction, userId: string, digests: readonly string[]): Promise<void> {
  await transaction.query(sql`delete from penstock.user_backup_codes where user_id = ${userId}::uuid`);
  await transaction.query(sql`
    insert into penstock.user_backup_codes (user_id, digest) select ${userId}::uuid, unnest(${digests}::text[])`);
}

/** Uses up a backup code: true for exactly one of all who try. */
export const takeBackupCode = async (database: Queryable, userId: string, digest: string): Promise<boolean> =>
  (
    await database.query(sql`
      update penstock.user_backup_codes set used_at = now()
      where user_id = ${userId}::uuid and digest = ${digest} and used_at is null`)
  ).count === 1;

/** How many codes are left. */
export async function backupCodesLeft(database: Queryable, userId: string): Promise<number> {
  const { rows } = await database.query<{ left: number }>(
    sql`select count(*)::integer as left from penstock.user_backup_codes where user_id = ${userId}::uuid and used_at is null`,
  );
  return rows[0]?.left ?? 0;
}

/** The account asks for a second factor from now on. */
export const setSecondFactor = (transaction: Transaction, userId: string, method: SecondFactorMethod): Promise<unknown> =>
  transaction.query(sql`
    update "app"."User" set "hasTwoFA" = true, "twoFaMethod" = ${method}, "updatedAt" = now(), "__v" = "__v" + 1
    where "_id" = ${userId}::uuid`);

export async function phoneNumberOf(database: Queryable, userId: string): Promise<string | null> {
  const { rows } = await database.query<{ phoneNumber: string | null }>(
    sql`select "phoneNumber" from "app"."User" where "_id" = ${userId}::uuid`,
  );
  return rows[0]?.phoneNumber ?? null;
}

/** Sets the number and notes when, for whoever takes it back. The unique index refuses one that somebody else has. */
export const setPhoneNumber = (transaction: Transaction, userId: string, phoneNumber: string): Promise<unknown> =>
  transaction.query(sql`
    with noted as (
      insert into penstock.phone_changes (user_id) values (${userId}::uuid) on conflict (user_id) do update set changed_at = now()
    )
    update "app"."User" set "phoneNumber" = ${phoneNumber}, "updatedAt" = now(), "__v" = "__v" + 1 where "_id" = ${userId}::uuid`);
