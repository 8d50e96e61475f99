/** SQL over the API tokens of admins. */
import type { Queryable } from '../../../kernel/database/database.ts';
import { identitySql, sql } from '../../../kernel/database/sql.ts';

export interface ApiTokenRow {
  readonly id: string;
  readonly name: string;
  /** `null`: made with the master key. */
  readonly adminId: string | null;
  readonly tokenPrefix: string;
  /** `null`: everything. */
  readonly scopes: readonly string[] | null;
  readonly expiresAt: Date | null;
  readonly lastUsedAt: Date | null;
  readonly createdAt: Date;
}

export interface NewApiTokenRow {
  readonly id: string;
  readonly name: string;
  readonly adminId: string | null;
  readonly digest: string;
  readonly tokenPrefix: string;
  readonly scopes: readonly string[] | null;
  readonly expiresAt: Date | null;
}

/** `undefined` when another token has this prefix. */
export async function insertApiToken(
  database: Queryable,
  token: NewApiTokenRow,
): Promise<Date | undefined> {
  const { rows } = await database.query<{ createdAt: Date }>(sql`
    insert into penstock.admin_api_tokens (id, name, admin_id, token_digest, token_prefix, scopes, expires_at)
    values (${token.id}, ${token.name}, ${token.adminId}, ${token.digest}, ${token.tokenPrefix}, ${token.scopes}, ${token.expiresAt})
    on conflict (token_prefix) do nothing returning created_at as "createdAt"`);
  return rows[0]?.createdAt;
}

/** Whose tokens: of one admin, of the master key (`null`), or `all`. */
export type TokenOwner = string | null | 'all';

const ownerValues = (owner: TokenOwner) => ({
  all: owner === 'all',
  id: owner === 'all' ? null : owner,
});

/** Newest first; at most 1,000. */
export async function listApiTokens(
  database: Queryable,
  owner: TokenOwner,
): Promise<readonly ApiTokenRow[]> {
  const { all, id } = ownerValues(owner);
  const { rows } = await database.query<ApiTokenRow>(sql`
    select id, name, admin_id as "adminId", token_prefix as "tokenPrefix", scopes, expires_at as "expiresAt",
      last_used_at as "lastUsedAt", created_at as "createdAt"
    from penstock.admin_api_tokens where ${all}::boolean or admin_id is not distinct from ${id}::uuid
    order by created_at desc, id desc limit 1000`);
  return rows;
}

/** The prefix of the deleted token; `undefined` when the owner has none of this id. */
export async function deleteApiToken(
  database: Queryable,
  id: string,
  owner: TokenOwner,
): Promise<{ readonly tokenPrefix: string; readonly adminId: string | null } | undefined> {
  const { all, id: ownerId } = ownerValues(owner);
  const { rows } = await database.query<{ tokenPrefix: string; adminId: string | null }>(sql`
    delete from penstock.admin_api_tokens
    where id = ${id} and (${all}::boolean or admin_id is not distinct from ${ownerId}::uuid)
    returning token_prefix as "tokenPrefix", admin_id as "adminId"`);
  return rows[0];
}

/** Nobody revokes the token before the transaction ends. False: it is gone, or its time is over. */
export async function lockApiToken(transaction: Queryable, id: string): Promise<boolean> {
  const { rows } = await transaction.query(sql`
    select from penstock.admin_api_tokens where id = ${id} and (expires_at is null or expires_at > now()) for share`);
  return rows.length > 0;
}

export interface StoredApiToken {
  readonly id: string;
  readonly adminId: string | null;
  readonly digest: string;
  readonly tokenPrefix: string;
  readonly scopes: readonly string[] | null;
  readonly expiresAt: Date | null;
}

export async function findApiToken(
  database: Queryable,
  tokenPrefix: string,
): Promise<StoredApiToken | undefined> {
  const { rows } = await database.query<StoredApiToken>(identitySql`
    select id, admin_id as "adminId", token_digest as digest, token_prefix as "tokenPrefix", scopes, expires_at as "expiresAt"
    from penstock.admin_api_tokens where token_prefix = ${tokenPrefix}`);
  return rows[0];
}

export async function apiTokenExpiry(database: Queryable, id: string): Promise<Date | null> {
  const { rows } = await database.query<{ expiresAt: Date | null }>(
    identitySql`select expires_at as "expiresAt" from penstock.admin_api_tokens where id = ${id}`,
  );
  return rows[0]?.expiresAt ?? null;
}

/** At most one write a minute and token, whatever the nodes do. */
export async function noteApiTokenUse(database: Queryable, id: string): Promise<void> {
  await database.query(identitySql`
    update penstock.admin_api_tokens set last_used_at = now()
    where id = ${id} and (last_used_at is null or last_used_at < now() - interval '1 minute')`);
}

/** Tokens that expired 30 days ago need not be listed any longer. */
export async function deleteLongExpiredTokens(database: Queryable): Promise<number> {
  const { count } = await database.query(
    sql`delete from penstock.admin_api_tokens where expires_at < now() - interval '30 days'`,
  );
  return count;
}
