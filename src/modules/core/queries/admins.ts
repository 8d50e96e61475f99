/** SQL over the admins. */
import type { Queryable, Statement } from '../../../kernel/database/database.ts';
import { sql, statementName } from '../../../kernel/database/sql.ts';

/** An admin as stored; the password's hash is read by the two queries that need it only. */
export interface AdminRow {
  readonly id: string;
  readonly username: string;
  readonly isSuperAdmin: boolean;
  readonly hasTwoFA: boolean;
  readonly active: boolean;
  readonly sessionVersion: number;
  readonly mustChangePassword: boolean;
  readonly lastLoginAt: Date | null;
  readonly createdAt: Date;
  readonly updatedAt: Date;
}

export interface AdminWithPassword extends AdminRow {
  readonly passwordHash: string;
}

const columns = `id, username, is_super_admin as "isSuperAdmin", has_two_fa as "hasTwoFA", active, session_version as "sessionVersion",
  must_change_password as "mustChangePassword", last_login_at as "lastLoginAt", created_at as "createdAt", updated_at as "updatedAt"`;

/** A statement over the columns above; the text comes from this file only. */
const prepared = (text: string, values: readonly unknown[]): Statement => ({
  text,
  name: statementName(text),
  values,
});

const one = (text: string, value: string): Statement => ({
  ...prepared(text, [value]),
  class: 'identity',
});

const byId = `select ${columns} from penstock.admins where id = $1`;
const byIdWithPassword = `select ${columns}, password_hash as "passwordHash" from penstock.admins where id = $1`;
const byNameWithPassword = `select ${columns}, password_hash as "passwordHash" from penstock.admins where username_key = $1`;

export async function findAdmin(database: Queryable, id: string): Promise<AdminRow | undefined> {
  return (await database.query<AdminRow>(one(byId, id))).rows[0];
}

const lockById = `${byId} for share`;

/** Nobody changes the admin before the transaction ends. */
export async function lockAdmin(transaction: Queryable, id: string): Promise<AdminRow | undefined> {
  return (await transaction.query<AdminRow>(prepared(lockById, [id]))).rows[0];
}

export async function findAdminPassword(
  database: Queryable,
  id: string,
): Promise<AdminWithPassword | undefined> {
  return (await database.query<AdminWithPassword>(one(byIdWithPassword, id))).rows[0];
}

export async function findAdminByName(
  database: Queryable,
  usernameKey: string,
): Promise<AdminWithPassword | undefined> {
  return (await database.query<AdminWithPassword>(one(byNameWithPassword, usernameKey))).rows[0];
}

/** Sortable fields of the list, and their columns. */
export const adminSortColumns: ReadonlyMap<string, string> = new Map([
  ['username', 'username_key'],
  ['isSuperAdmin', 'is_super_admin'],
  ['active', 'active'],
  ['lastLoginAt', 'last_login_at'],
  ['createdAt', 'created_at'],
  ['updatedAt', 'updated_at'],
]);

export interface AdminPage {
  readonly skip: number;
  readonly limit: number;
  /** Column of `adminSortColumns`. */
  readonly column: string;
  readonly descending: boolean;
}

export async function listAdmins(
  database: Queryable,
  page: AdminPage,
): Promise<{ rows: readonly AdminRow[]; count: number }> {
  const direction = page.descending ? 'desc' : 'asc';
  const text = `select ${columns} from penstock.admins order by ${page.column} ${direction}, id ${direction} limit $1 offset $2`;
  const [list, total] = await Promise.all([
    database.query<AdminRow>(prepared(text, [page.limit, page.skip])),
    database.query<{ count: number }>(sql`select count(*)::integer as count from penstock.admins`),
  ]);
  return { rows: list.rows, count: total.rows[0]?.count ?? 0 };
}

export async function anyAdmin(database: Queryable): Promise<boolean> {
  const { rows } = await database.query<{ found: boolean }>(
    sql`select exists (select from penstock.admins) as found`,
  );
  return rows[0]?.found === true;
}

export interface NewAdminRow {
  readonly id: string;
  readonly username: string;
  readonly usernameKey: string;
  readonly passwordHash: string;
  readonly isSuperAdmin: boolean;
  readonly mustChangePassword: boolean;
}

const insert = `insert into penstock.admins (id, username, username_key, password_hash, is_super_admin, must_change_password)
  values ($1, $2, $3, $4, $5, $6) on conflict (username_key) do nothing returning ${columns}`;

/** `undefined` when the name is taken. */
export async function insertAdmin(
  database: Queryable,
  admin: NewAdminRow,
): Promise<AdminRow | undefined> {
  const values = [
    admin.id,
    admin.username,
    admin.usernameKey,
    admin.passwordHash,
    admin.isSuperAdmin,
    admin.mustChangePassword,
  ];
  return (await database.query<AdminRow>(prepared(insert, values))).rows[0];
}

export interface AdminRights {
  readonly isSuperAdmin?: boolean | undefined;
  readonly active?: boolean | undefined;
}

const updateRights = `update penstock.admins set is_super_admin = coalesce($2, is_super_admin), active = coalesce($3, active), updated_at = now(),
  session_version = session_version + case when active and $3 = false then 1 else 0 end
  where id = $1 returning ${columns}`;

/** What is not given stays. Deactivation ends the sessions. */
export async function setAdminRights(
  database: Queryable,
  id: string,
  rights: AdminRights,
): Promise<AdminRow | undefined> {
  const values = [id, rights.isSuperAdmin ?? null, rights.active ?? null];
  return (await database.query<AdminRow>(prepared(updateRights, values))).rows[0];
}

export async function deleteAdmin(database: Queryable, id: string): Promise<boolean> {
  return (await database.query(sql`delete from penstock.admins where id = ${id}`)).count === 1;
}

/**
 * Whether `id` is the only active super admin. Until the transaction ends, nobody else gets an answer:
 * whoever may take such a right away asks first.
 */
export async function isLastSuperAdmin(database: Queryable, id: string): Promise<boolean> {
  await database.query(
    sql`select pg_advisory_xact_lock(hashtextextended('penstock.core.super-admins', 0))`,
  );
  const { rows } = await database.query<{ id: string }>(
    sql`select id from penstock.admins where is_super_admin and active limit 2`,
  );
  return rows.length === 1 && rows[0]?.id === id;
}

const updatePassword = `update penstock.admins set password_hash = $2, must_change_password = false, updated_at = now(),
  session_version = session_version + 1 where id = $1 and ($3::text is null or password_hash = $3) returning ${columns}`;

/** Ends the sessions. With `before`, only while that is still the stored hash. */
export async function setAdminPassword(
  database: Queryable,
  id: string,
  hash: string,
  before?: string,
): Promise<AdminRow | undefined> {
  return (await database.query<AdminRow>(prepared(updatePassword, [id, hash, before ?? null])))
    .rows[0];
}

/** The same password under newer hash parameters: sessions go on. */
export async function replaceHash(
  database: Queryable,
  id: string,
  hash: string,
  before: string,
): Promise<void> {
  await database.query(
    sql`update penstock.admins set password_hash = ${hash} where id = ${id} and password_hash = ${before}`,
  );
}

export async function noteLogin(database: Queryable, id: string): Promise<void> {
  await database.query(sql`update penstock.admins set last_login_at = now() where id = ${id}`);
}

/** Ends all sessions of an admin. */
export async function raiseSessionVersion(database: Queryable, id: string): Promise<void> {
  await database.query(
    sql`update penstock.admins set session_version = session_version + 1 where id = ${id}`,
  );
}

const updateTwoFactor = `update penstock.admins set has_two_fa = $2, session_version = session_version + 1, updated_at = now()
  where id = $1 returning ${columns}`;

/** Ends the sessions. */
export async function setHasTwoFactor(
  database: Queryable,
  id: string,
  has: boolean,
): Promise<AdminRow | undefined> {
  return (await database.query<AdminRow>(prepared(updateTwoFactor, [id, has]))).rows[0];
}
