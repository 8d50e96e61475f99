/** The SQL of authentication. Values are always parameters; times come back in ms since the epoch. */
import type { Queryable, Transaction } from '../../kernel/database/database.ts';
import { sql } from '../../kernel/database/sql.ts';

const first = async <R>(result: Promise<{ readonly rows: readonly R[] }>): Promise<R | undefined> => (await result).rows[0];

// --- Signing keys

/** A public key as third parties read it (RFC 8037). */
export interface PublicJwk {
  readonly kty: 'OKP';
  readonly crv: 'Ed25519';
  readonly x: string;
  readonly kid: string;
  readonly alg: 'EdDSA';
  readonly use: 'sig';
}

export interface StoredSigningKey {
  readonly kid: string;
  readonly algorithm: string;
  readonly publicJwk: PublicJwk;
  readonly privateKeySealed: string;
  /** `null` for the key that signs. */
  readonly verifiesUntil: Date | null;
}

/** Keys that sign or may still verify. */
export const keysInUse = async (database: Queryable): Promise<readonly StoredSigningKey[]> =>
  (
    await database.query<StoredSigningKey>(sql`
      select kid, algorithm, public_jwk as "publicJwk", private_key_sealed as "privateKeySealed", verifies_until as "verifiesUntil"
      from penstock.signing_keys where verifies_until is null or verifies_until > now() order by created_at desc`)
  ).rows;

export const insertSigningKey = (database: Queryable, key: StoredSigningKey): Promise<unknown> =>
  database.query(sql`
    insert into penstock.signing_keys (kid, algorithm, public_jwk, private_key_sealed)
    values (${key.kid}, ${key.algorithm}, ${JSON.stringify(key.publicJwk)}::jsonb, ${key.privateKeySealed})`);

/** Ends the signing time of a key that is older than `maxAgeMs`; false when it is younger. Forgets keys that verify nothing any more. */
export async function retireSigningKey(database: Queryable, maxAgeMs: number, tokenLifetimeMs: number): Promise<boolean> {
  await database.query(sql`delete from penstock.signing_keys where verifies_until < now() - interval '1 day'`);
  const { count } = await database.query(sql`
    update penstock.signing_keys set verifies_until = now() + ${tokenLifetimeMs}::double precision * interval '1 millisecond'
    where verifies_until is null and created_at < now() - ${maxAgeMs}::double precision * interval '1 millisecond'`);
  return count > 0;
}

// --- Users

/** What a login needs to know about an account. */
export interface Credentials {
  readonly userId: string;
  readonly email: string | null;
  readonly username: string | null;
  readonly hashedPassword: string | null;
  readonly active: boolean;
  readonly hasTwoFA: boolean;
  readonly twoFaMethod: string | null;
}

export const credentialsByEmail = (database: Queryable, email: string): Promise<Credentials | undefined> =>
  first(
    database.query<Credentials>(sql`
      select "_id" as "userId", "email", "username", "hashedPassword", "active" as active,
             "hasTwoFA", "twoFaMethod"
      from "app"."User" where "email" = ${email}`),
  );

export const credentialsById = (database: Queryable, userId: string): Promise<Credentials | undefined> =>
  first(
    database.query<Credentials>(sql`
      select "_id" as "userId", "email", "username", "hashedPassword", "active" as active,
             "hasTwoFA", "twoFaMethod"
      from "app"."User" where "_id" = ${userId}`),
  );

/** Stores a hash, but only in place of the one that was checked; false when it was changed meanwhile. */
export async function replacePassword(database: Queryable, userId: string, change: { from: string | null; to: string }): Promise<boolean> {
  const { count } = await database.query(sql`
    update "app"."User" set "hashedPassword" = ${change.to}, "updatedAt" = now(), "__v" = "__v" + 1
    where "_id" = ${userId} and "hashedPassword" is not distinct from ${change.from}`);
  return count > 0;
}

/** Blocks or unblocks those that are not so already; answers who was changed. */
export const setActive = async (database: Queryable, userIds: readonly string[], active: boolean): Promise<readonly string[]> =>
  (
    await database.query<{ id: string }>(sql`
      update "app"."User" set "active" = ${active}, "updatedAt" = now(), "__v" = "__v" + 1
      where "_id" = any(${userIds}::uuid[]) and "active" <> ${active} returning "_id" as id`)
  ).rows.map((row) => row.id);

/**
 * Which of these users exist. Their rows stay locked until the transaction ends, so that no login
 * opens a session behind the back of whoever blocks or deletes them.
 */
export const lockUsers = async (transaction: Transaction, userIds: readonly string[]): Promise<readonly string[]> =>
  (
    await transaction.query<{ id: string }>(
      sql`select "_id" as id from "app"."User" where "_id" = any(${userIds}::uuid[]) order by "_id" for update`,
    )
  ).rows.map((row) => row.id);
