/** The SQL of linked accounts at other providers. Values are always parameters. */
import type { Queryable, Transaction } from '../../kernel/database/database.ts';
import { sql } from '../../kernel/database/sql.ts';

const first = async <R>(result: Promise<{ readonly rows: readonly R[] }>): Promise<R | undefined> => (await result).rows[0];

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

export interface NewIdentity extends IdentityKey, IdentityFacts {
  readonly id: string;
  readonly userId: string;
}

/** Until the transaction ends nobody else links or signs in with this account of the provider. */
export const lockIdentity = (transaction: Transaction, { provider, subject }: IdentityKey): Promise<unknown> =>
  transaction.query(sql`select pg_advisory_xact_lock(hashtextextended(${`identity\n${provider}\n${subject}`}, 0))`);

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
export const identitiesOf = async (database: Queryable, userId: string): Promise<readonly ListedIdentity[]> =>
  (
    await database.query<ListedIdentity>(sql`
      select id as "_id", provider, subject, email, email_verified as "emailVerified", data, linked_at as "linkedAt", last_used_at as "lastUsedAt"
      from penstock.identities where user_id = ${userId} order by linked_at, id limit 200`)
  ).rows;

export const deleteIdentity = async (transaction: Queryable, userId: string, id: string): Promise<boolean> =>
  (await transaction.query(sql`delete from penstock.identities where id = ${id}::uuid and user_id = ${userId}::uuid`)).count > 0;

/** All of a user: somebody else may have linked them. */
export const deleteIdentitiesOf = async (transaction: Queryable, userId: string): Promise<number> =>
  (await transaction.query(sql`delete from penstock.identities where user_id = ${userId}::uuid`)).count;

/** Second factor and phone number: what else signs in beside password and identities, as far as it is in the account itself. */
export const dropFactors = (transaction: Queryable, userId: string): Promise<unknown> =>
  transaction.query(sql`
    update "app"."User" set "hasTwoFA" = false, "twoFaMethod" = null, "phoneNumber" = null, "updatedAt" = now(), "__v" = "__v" + 1
    where "_id" = ${userId}::uuid and ("hasTwoFA" or "phoneNumber" is not null)`);
