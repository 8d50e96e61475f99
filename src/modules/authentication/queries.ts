/** The SQL of authentication. Values are always parameters; times come back in ms since the epoch. */
import type { Queryable, Transaction } from '../../kernel/database/database.ts';
import { identitySql, sql, statementName } from '../../kernel/database/sql.ts';
import { toldUpdate } from './changed-users.ts';

const first = async <R>(result: Promise<{ readonly rows: readonly R[] }>): Promise<R | undefined> =>
  (await result).rows[0];

// --- Signing keys

/** How tokens are signed; a key serves one of them. */
export type SigningAlgorithm = 'EdDSA' | 'ES256' | 'RS256';

/** A public key as third parties read it (RFC 7517, RFC 8037): Ed25519, P-256 or RSA. */
export interface PublicJwk {
  readonly kty: 'OKP' | 'EC' | 'RSA';
  readonly crv?: string;
  readonly x?: string;
  readonly y?: string;
  readonly n?: string;
  readonly e?: string;
  readonly kid: string;
  readonly alg: SigningAlgorithm;
  readonly use: 'sig';
}

export interface NewSigningKey {
  readonly kid: string;
  readonly algorithm: SigningAlgorithm;
  /** What its tokens say under `iss`, and no others. */
  readonly issuer: string;
  readonly publicJwk: PublicJwk;
  readonly privateKeySealed: string;
}

export interface StoredSigningKey extends NewSigningKey {
  /** Ms since the epoch; until then others can learn the key, and the one before it signs. */
  readonly signsFrom: number;
  /** `null` for the key that signs now, or next. */
  readonly verifiesUntil: Date | null;
}

/** Keys that sign or may still verify, the newest first. */
export const keysInUse = async (database: Queryable): Promise<readonly StoredSigningKey[]> =>
  (
    await database.query<StoredSigningKey>(identitySql`
      select kid, algorithm, issuer, public_jwk as "publicJwk", private_key_sealed as "privateKeySealed",
             (extract(epoch from signs_from) * 1000)::double precision as "signsFrom", verifies_until as "verifiesUntil"
      from penstock.signing_keys where verifies_until is null or verifies_until > now() order by created_at desc, kid`)
  ).rows;

export const insertSigningKey = (
  database: Queryable,
  key: NewSigningKey,
  leadMs: number,
): Promise<unknown> =>
  database.query(sql`
    insert into penstock.signing_keys (kid, algorithm, issuer, public_jwk, private_key_sealed, signs_from)
    values (${key.kid}, ${key.algorithm}, ${key.issuer}, ${JSON.stringify(key.publicJwk)}::jsonb, ${key.privateKeySealed},
      now() + ${leadMs}::double precision * interval '1 millisecond')`);

/** Ends the signing time of a key that is older than `maxAgeMs`; false when it is younger. Forgets keys that verify nothing any more. */
export async function retireSigningKey(
  database: Queryable,
  maxAgeMs: number,
  verifiesForMs: number,
): Promise<boolean> {
  await database.query(
    sql`delete from penstock.signing_keys where verifies_until < now() - interval '1 day'`,
  );
  const { count } = await database.query(sql`
    update penstock.signing_keys set verifies_until = now() + ${verifiesForMs}::double precision * interval '1 millisecond'
    where verifies_until is null and created_at <= now() - ${maxAgeMs}::double precision * interval '1 millisecond'`);
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
  readonly isVerified: boolean;
  readonly isAnonymous: boolean;
  readonly hasTwoFA: boolean;
  readonly twoFaMethod: string | null;
  /** An operator wants a second factor of this user. */
  readonly requiresTwoFA: boolean;
}

const credentialColumns = `"_id" as "userId", "email", "username", "hashedPassword", "active" as active, "isVerified", "isAnonymous",
  "hasTwoFA", "twoFaMethod", "requiresTwoFA"`;
const credentials = `select ${credentialColumns} from "app"."User"`;

/** One prepared statement per way to name a user. */
const credentialsBy = (column: '"email"' | '"username"' | '"phoneNumber"' | '"_id"') => {
  const text = `${credentials} where ${column} = $1`;
  const name = statementName(text);
  return (database: Queryable, value: string): Promise<Credentials | undefined> =>
    first(database.query<Credentials>({ text, name, values: [value], class: 'identity' }));
};

export const credentialsByEmail = credentialsBy('"email"');
export const credentialsByUsername = credentialsBy('"username"');
export const credentialsByPhone = credentialsBy('"phoneNumber"');
export const credentialsById = credentialsBy('"_id"');

/** The same while the transaction holds the row: nobody changes the account in between. */
export const lockCredentials = (
  transaction: Transaction,
  userId: string,
): Promise<Credentials | undefined> =>
  first(
    transaction.query<Credentials>({
      text: `${credentials} where "_id" = $1 for update`,
      values: [userId],
    }),
  );

/** Locks the row of a user who is anonymous still; false when there is none. */
export const lockAnonymousUser = async (
  transaction: Transaction,
  userId: string,
): Promise<boolean> =>
  (
    await transaction.query(
      sql`select 1 from "app"."User" where "_id" = ${userId} and "isAnonymous" for update`,
    )
  ).count > 0;

/** Notes that the owner of the mailbox has proven themselves; false when it was noted before. */
export const markVerified = async (
  database: Queryable,
  userId: string,
  email: string,
): Promise<boolean> =>
  (
    await database.query(
      toldUpdate(sql`
      update "app"."User" set "isVerified" = true, "updatedAt" = now(), "__v" = "__v" + 1
      where "_id" = ${userId} and "email" = ${email} and not "isVerified"`),
    )
  ).count > 0;

/**
 * For the owner of a mailbox who proves themselves on an account whose address was never proven: the
 * password that somebody else may have set goes. False for an account with a second factor: a mailbox alone must
 * not take that off, and addresses of honest users are unproven too where nobody asks for the proof.
 */
export const claimUnverified = async (
  transaction: Transaction,
  userId: string,
  email: string,
): Promise<boolean> =>
  (
    await transaction.query(
      toldUpdate(sql`
      update "app"."User" set "isVerified" = true, "hashedPassword" = null, "updatedAt" = now(), "__v" = "__v" + 1
      where "_id" = ${userId} and "email" = ${email} and not "isVerified" and not "hasTwoFA"`),
    )
  ).count > 0;

/** Sets another address; false when the account does not have the expected one any more. */
export const replaceEmail = async (
  transaction: Transaction,
  userId: string,
  change: { readonly from: string | null; readonly to: string; readonly isVerified: boolean },
): Promise<boolean> =>
  (
    await transaction.query(
      toldUpdate(sql`
      update "app"."User" set "email" = ${change.to}, "isVerified" = ${change.isVerified}, "updatedAt" = now(), "__v" = "__v" + 1
      where "_id" = ${userId} and "email" is not distinct from ${change.from}`),
    )
  ).count > 0;

/** Stores a hash, but only in place of the one that was checked; false when it was changed meanwhile. */
export async function replacePassword(
  database: Queryable,
  userId: string,
  change: { from: string | null; to: string },
): Promise<boolean> {
  const { count } = await database.query(
    toldUpdate(sql`
    update "app"."User" set "hashedPassword" = ${change.to}, "updatedAt" = now(), "__v" = "__v" + 1
    where "_id" = ${userId} and "hashedPassword" is not distinct from ${change.from}`),
  );
  return count > 0;
}

/** Sets the hash whatever was there; `null` takes the password away. */
export const setPassword = (
  transaction: Transaction,
  userId: string,
  hash: string | null,
): Promise<unknown> =>
  transaction.query(
    toldUpdate(sql`
    update "app"."User" set "hashedPassword" = ${hash}, "updatedAt" = now(), "__v" = "__v" + 1 where "_id" = ${userId}`),
  );

/** What an operator's change of an account is checked against; the row stays locked. */
export const lockContact = (
  transaction: Transaction,
  userId: string,
): Promise<(Credentials & { readonly phoneNumber: string | null }) | undefined> =>
  first(
    transaction.query<Credentials & { readonly phoneNumber: string | null }>({
      text: `select ${credentialColumns}, "phoneNumber" from "app"."User" where "_id" = $1 for update`,
      values: [userId],
    }),
  );

/** The account signs in with one factor again. */
export const clearSecondFactor = (transaction: Transaction, userId: string): Promise<unknown> =>
  transaction.query(
    toldUpdate(sql`
    update "app"."User" set "hasTwoFA" = false, "twoFaMethod" = null, "updatedAt" = now(), "__v" = "__v" + 1
    where "_id" = ${userId}`),
  );

/** Blocks or unblocks those that are not so already; answers who was changed. */
export const setActive = async (
  database: Queryable,
  userIds: readonly string[],
  active: boolean,
): Promise<readonly string[]> =>
  (
    await database.query<{ id: string }>(
      toldUpdate(sql`
      update "app"."User" set "active" = ${active}, "updatedAt" = now(), "__v" = "__v" + 1
      where "_id" = any(${userIds}::uuid[]) and "active" <> ${active}`),
    )
  ).rows.map((row) => row.id);

/**
 * Which of these users exist. Their rows stay locked until the transaction ends, so that no login
 * opens a session behind the back of whoever blocks or deletes them.
 */
export const lockUsers = async (
  transaction: Transaction,
  userIds: readonly string[],
): Promise<readonly string[]> =>
  (
    await transaction.query<{ id: string }>(
      sql`select "_id" as id from "app"."User" where "_id" = any(${userIds}::uuid[]) order by "_id" for update`,
    )
  ).rows.map((row) => row.id);
