/** The SQL of second factors. Values are always parameters. */
import type { Queryable, Statement, Transaction } from '../../../../kernel/database/database.ts';
import { sql } from '../../../../kernel/database/sql.ts';
import { toldUpdate } from '../../changed-users.ts';

/** What a second factor may be. */
export type SecondFactorMethod = 'authenticator' | 'sms' | 'passkey';

/** Where the secrets of authenticator apps and the recovery codes of users are (kernel/security/second-factor). */
export const totpTable = { table: 'penstock.user_totp', owner: 'user_id' } as const;
export const recoveryCodeTable = { table: 'penstock.user_backup_codes', owner: 'user_id' } as const;

/** Secrets and codes of every method. */
export async function deleteSecondFactor(database: Queryable, userId: string): Promise<void> {
  await database.query(sql`delete from penstock.user_totp where user_id = ${userId}::uuid`);
  await database.query(sql`delete from penstock.user_backup_codes where user_id = ${userId}::uuid`);
}

/** The account asks for a second factor from now on. */
export const setSecondFactor = (
  transaction: Transaction,
  userId: string,
  method: SecondFactorMethod,
): Promise<unknown> =>
  transaction.query(
    toldUpdate(sql`
    update "app"."User" set "hasTwoFA" = true, "twoFaMethod" = ${method}, "updatedAt" = now(), "__v" = "__v" + 1
    where "_id" = ${userId}::uuid`),
  );

export async function phoneNumberOf(database: Queryable, userId: string): Promise<string | null> {
  const { rows } = await database.query<{ phoneNumber: string | null }>(
    sql`select "phoneNumber" from "app"."User" where "_id" = ${userId}::uuid`,
  );
  return rows[0]?.phoneNumber ?? null;
}

/** Sets the number and notes when, for whoever takes it back. The unique index refuses one that somebody else has. */
export const setPhoneNumber = (
  transaction: Transaction,
  userId: string,
  phoneNumber: string,
): Promise<unknown> =>
  transaction
    .query(
      sql`insert into penstock.phone_changes (user_id) values (${userId}::uuid) on conflict (user_id) do update set changed_at = now()`,
    )
    .then(() =>
      transaction.query(
        toldUpdate(sql`
        update "app"."User" set "phoneNumber" = ${phoneNumber}, "updatedAt" = now(), "__v" = "__v" + 1 where "_id" = ${userId}::uuid`),
      ),
    );

/* The SQL that takes back what was added to an account. Values are always parameters. */

/** Takes away every way in beside the password that was added since then (ms since the epoch), and a second factor that rests on it. */
export async function dropCredentialsSince(
  transaction: Transaction,
  userId: string,
  sinceMs: number,
): Promise<void> {
  const since = new Date(sinceMs).toISOString();
  for (const statement of removals(userId, since)) await transaction.query(statement);
  const { count } = await transaction.query(
    toldUpdate(sql`
    update "app"."User" u set "hasTwoFA" = false, "twoFaMethod" = null, "updatedAt" = now(), "__v" = "__v" + 1
    where u."_id" = ${userId}::uuid and u."hasTwoFA" and case u."twoFaMethod"
      when 'authenticator' then not exists (select 1 from penstock.user_totp t where t.user_id = u."_id" and t.confirmed)
      when 'passkey' then not exists (select 1 from penstock.passkeys k where k.user_id = u."_id")
      else u."phoneNumber" is null end`),
  );
  if (count > 0) await deleteSecondFactor(transaction, userId);
}

const removals = (userId: string, since: string): readonly Statement[] => [
  sql`delete from penstock.passkeys where user_id = ${userId}::uuid and created_at >= ${since}::timestamptz`,
  sql`delete from penstock.device_keys where user_id = ${userId}::uuid and created_at >= ${since}::timestamptz`,
  sql`delete from penstock.identities where user_id = ${userId}::uuid and linked_at >= ${since}::timestamptz`,
  sql`delete from penstock.user_totp where user_id = ${userId}::uuid and created_at >= ${since}::timestamptz`,
  sql`delete from penstock.user_backup_codes where user_id = ${userId}::uuid and made_at >= ${since}::timestamptz`,
  toldUpdate(sql`update "app"."User" set "phoneNumber" = null, "updatedAt" = now(), "__v" = "__v" + 1
      where "_id" = (select user_id from penstock.phone_changes where user_id = ${userId}::uuid and changed_at >= ${since}::timestamptz)`),
];

/* The SQL of linked accounts at other providers. Values are always parameters. */

const first = async <R>(result: Promise<{ readonly rows: readonly R[] }>): Promise<R | undefined> =>
  (await result).rows[0];

/** The key of an account at a provider. */
export interface IdentityKey {
  readonly provider: string;
  readonly subject: string;
}

/** What the provider said last. */
export interface IdentityFacts {
  readonly email: string | null;
  readonly emailVerified: boolean;
  /** Name, user name and picture. */
  readonly data: Readonly<Record<string, string>>;
}

interface NewIdentity extends IdentityKey, IdentityFacts {
  readonly id: string;
  readonly userId: string;
}

/** Until the transaction ends nobody else links or signs in with this account of the provider. */
export const lockIdentity = (
  transaction: Transaction,
  { provider, subject }: IdentityKey,
): Promise<unknown> =>
  transaction.query(
    sql`select pg_advisory_xact_lock(hashtextextended(${`identity\n${provider}\n${subject}`}, 0))`,
  );

/** Notes what the provider says now, and that the identity was used; answers whose it is. */
export const useIdentity = async (
  transaction: Queryable,
  { provider, subject }: IdentityKey,
  facts: IdentityFacts,
): Promise<string | undefined> =>
  (
    await first(
      transaction.query<{ userId: string }>(sql`
        update penstock.identities
        set email = ${facts.email}, email_verified = ${facts.emailVerified}::boolean, data = ${JSON.stringify(facts.data)}::jsonb, last_used_at = now()
        where provider = ${provider} and subject = ${subject} returning user_id as "userId"`),
    )
  )?.userId;

export const insertIdentity = (transaction: Queryable, identity: NewIdentity): Promise<unknown> =>
  transaction.query(sql`
    insert into penstock.identities (id, provider, subject, user_id, email, email_verified, data)
    values (${identity.id}::uuid, ${identity.provider}, ${identity.subject}, ${identity.userId}::uuid, ${identity.email},
      ${identity.emailVerified}::boolean, ${JSON.stringify(identity.data)}::jsonb)`);

/** An identity as its owner sees it. */
export interface ListedIdentity {
  readonly _id: string;
  readonly provider: string;
  readonly subject: string;
  readonly email: string | null;
  readonly emailVerified: boolean;
  readonly data: Readonly<Record<string, string>>;
  readonly linkedAt: Date;
  readonly lastUsedAt: Date;
}

/** In the order in which they were linked; at most 200. */
export const identitiesOf = async (
  database: Queryable,
  userId: string,
): Promise<readonly ListedIdentity[]> =>
  (
    await database.query<ListedIdentity>(sql`
      select id as "_id", provider, subject, email, email_verified as "emailVerified", data, linked_at as "linkedAt", last_used_at as "lastUsedAt"
      from penstock.identities where user_id = ${userId} order by linked_at, id limit 200`)
  ).rows;

export const deleteIdentity = async (
  transaction: Queryable,
  userId: string,
  id: string,
): Promise<boolean> =>
  (
    await transaction.query(
      sql`delete from penstock.identities where id = ${id}::uuid and user_id = ${userId}::uuid`,
    )
  ).count > 0;

/** All of a user: somebody else may have linked them. */
export const deleteIdentitiesOf = async (transaction: Queryable, userId: string): Promise<number> =>
  (await transaction.query(sql`delete from penstock.identities where user_id = ${userId}::uuid`))
    .count;

/** Second factor and phone number: what else signs in beside password and identities, as far as it is in the account itself. */
export const dropFactors = (transaction: Queryable, userId: string): Promise<unknown> =>
  transaction.query(
    toldUpdate(sql`
    update "app"."User" set "hasTwoFA" = false, "twoFaMethod" = null, "phoneNumber" = null, "updatedAt" = now(), "__v" = "__v" + 1
    where "_id" = ${userId}::uuid and ("hasTwoFA" or "phoneNumber" is not null)`),
  );
