/** The SQL that takes back what was added to an account. Values are always parameters. */
import type { Statement, Transaction } from '../../kernel/database/database.ts';
import { sql } from '../../kernel/database/sql.ts';
import { deleteSecondFactor } from './factor-queries.ts';

/** Takes away every way in beside the password that was added since then (ms since the epoch), and a second factor that rests on it. */
export async function dropCredentialsSince(transaction: Transaction, userId: string, sinceMs: number): Promise<void> {
  const since = new Date(sinceMs).toISOString();
  for (const statement of removals(userId, since)) await transaction.query(statement);
  const { count } = await transaction.query(sql`
    update "app"."User" u set "hasTwoFA" = false, "twoFaMethod" = null, "updatedAt" = now(), "__v" = "__v" + 1
    where u."_id" = ${userId}::uuid and u."hasTwoFA" and case u."twoFaMethod"
      when 'authenticator' then not exists (select 1 from penstock.user_totp t where t.user_id = u."_id" and t.confirmed)
      when 'passkey' then not exists (select 1 from penstock.passkeys k where k.user_id = u."_id")
      else u."phoneNumber" is null end`);
  if (count > 0) await deleteSecondFactor(transaction, userId);
}

const removals = (userId: string, since: string): readonly Statement[] => [
  sql`delete from penstock.passkeys where user_id = ${userId}::uuid and created_at >= ${since}::timestamptz`,
  sql`delete from penstock.device_keys where user_id = ${userId}::uuid and created_at >= ${since}::timestamptz`,
  sql`delete from penstock.identities where user_id = ${userId}::uuid and linked_at >= ${since}::timestamptz`,
  sql`delete from penstock.user_totp where user_id = ${userId}::uuid and created_at >= ${since}::timestamptz`,
  sql`delete from penstock.user_backup_codes where user_id = ${userId}::uuid and made_at >= ${since}::timestamptz`,
  sql`update "app"."User" set "phoneNumber" = null, "updatedAt" = now(), "__v" = "__v" + 1
      where "_id" = (select user_id from penstock.phone_changes where user_id = ${userId}::uuid and changed_at >= ${since}::timestamptz)`,
];
