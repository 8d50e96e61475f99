/** The accounts of admins: list, create, change, delete, passwords. */

import { randomInt } from 'node:crypto';
import { requireAuthority } from '../../../kernel/authority.ts';
import type { AdminCaller } from '../../../kernel/caller.ts';
import type { Database, Queryable } from '../../../kernel/database/database.ts';
import { errors, invalid } from '../../../kernel/errors.ts';
import { isSuperAdmin } from '../../../kernel/identity.ts';
import { newId } from '../../../kernel/ids.ts';
import type { PasswordHasher } from '../../../kernel/security/password-hasher.ts';
import type { Logger } from '../../../kernel/telemetry/logger.ts';
import { coreErrors } from '../errors.ts';
import * as queries from '../queries/admins.ts';
import { anyAdmin, insertAdmin } from '../queries/admins.ts';
import {
  type Accounts,
  canonicalUsername,
  checkPassword,
  checkUsername,
  minPasswordLength,
  usernameKey,
} from './accounts.ts';
import type { FailureQuotas } from './failure-quotas.ts';
import { holdCredential } from './held-credentials.ts';
import type { TwoFactor } from './two-factor.ts';

/* The first admin: made when there is none at all, once for all nodes. */

/** A first password that nobody knows yet: the operator must be told, once. */
export interface Bootstrap {
  readonly username: string;
  readonly password: string;
}

/** Keeps a made password safe. Runs before the admin exists: a start that fails or is killed later loses no password. */
export type KeepPassword = (made: Bootstrap) => Promise<void>;

const USERNAME = 'admin';
const LOCK = 'core.first-admin';
/** Without characters that look alike. 20 of them are 98 bits. */
const ALPHABET = 'abcdefghjkmnpqrstuvwxyz23456789';

const newPassword = (): string =>
  Array.from({ length: 4 }, () =>
    Array.from({ length: 5 }, () => ALPHABET[randomInt(ALPHABET.length)]).join(''),
  ).join('-');

export interface BootstrapOptions {
  readonly database: Database;
  readonly passwords: PasswordHasher;
  readonly log: Logger;
  /** `ADMIN_INITIAL_PASSWORD`. */
  readonly initialPassword: string | undefined;
  readonly keep: KeepPassword;
}

/** Makes the first admin unless there is an admin already. */
export async function bootstrapAdmin({
  database,
  passwords,
  log,
  initialPassword,
  keep,
}: BootstrapOptions): Promise<void> {
  if (await anyAdmin(database)) return;
  await database.withLock(LOCK, async () => {
    if (await anyAdmin(database)) return;
    const password = initialPassword ?? newPassword();
    if (initialPassword === undefined) await keep({ username: USERNAME, password });
    await insertAdmin(database, {
      id: newId(),
      username: USERNAME,
      usernameKey: USERNAME,
      passwordHash: await passwords.hash(password),
      isSuperAdmin: true,
      mustChangePassword: true,
    });
    if (password.length < minPasswordLength) {
      log.warn(
        {},
        `ADMIN_INITIAL_PASSWORD has fewer than ${minPasswordLength} characters: change this password now`,
      );
    }
  });
}

export interface NewAdmin {
  readonly username: string;
  readonly password: string;
  readonly isSuperAdmin?: boolean | undefined;
}

export interface AdminChange {
  readonly isSuperAdmin?: boolean | undefined;
  readonly active?: boolean | undefined;
  /** Only `false`: takes the second factor from an admin who lost it. */
  readonly hasTwoFA?: false | undefined;
}

export interface Admins {
  list(page: {
    skip: number;
    limit: number;
    sort: string | undefined;
  }): Promise<{ rows: readonly queries.AdminRow[]; count: number }>;
  /** Throws 404. */
  get(id: string): Promise<queries.AdminRow>;
  create(caller: AdminCaller, input: NewAdmin): Promise<queries.AdminRow>;
  update(caller: AdminCaller, id: string, change: AdminChange): Promise<queries.AdminRow>;
  remove(caller: AdminCaller, id: string): Promise<void>;
  /** Ends all sessions of the caller; answers the admin for a new one. */
  changeOwnPassword(
    caller: AdminCaller,
    input: { oldPassword: string; newPassword: string },
  ): Promise<queries.AdminRow>;
  setPassword(caller: AdminCaller, id: string, newPassword: string): Promise<void>;
}

export interface AdminsOptions {
  readonly database: Database;
  readonly passwords: PasswordHasher;
  readonly accounts: Accounts;
  readonly twoFactor: TwoFactor;
  readonly quotas: FailureQuotas;
}

export function createAdmins(options: AdminsOptions): Admins {
  const { database, accounts, passwords } = options;

  return {
    list: ({ skip, limit, sort }) =>
      queries.listAdmins(database, { skip, limit, ...orderOf(sort) }),
    async get(id) {
      return (await queries.findAdmin(database, id)) ?? absent();
    },
    async create(caller, input) {
      requireSuperAdmin(caller);
      checkUsername(input.username);
      checkPassword('password', input.password, input.username);
      const row = {
        id: newId(),
        username: canonicalUsername(input.username),
        usernameKey: usernameKey(input.username),
        passwordHash: await passwords.hash(input.password),
        isSuperAdmin: input.isSuperAdmin === true,
        mustChangePassword: false,
      };
      const created = await database.transaction(async (transaction) => {
        await holdCredential(transaction, caller);
        return queries.insertAdmin(transaction, row);
      });
      if (!created) throw coreErrors.ADMIN_EXISTS();
      return created;
    },
    update(caller, id, change) {
      requireSuperAdmin(caller);
      return accounts.change(id, async (transaction) => {
        await holdOther(transaction, caller, id);
        return applyChange(options, transaction, id, change);
      });
    },
    async remove(caller, id) {
      requireSuperAdmin(caller);
      if (caller.adminId === id) throw coreErrors.SELF_DELETION_FORBIDDEN();
      await accounts.change(id, async (transaction) => {
        await holdOther(transaction, caller, id);
        await keepOneSuperAdmin(transaction, id);
        if (!(await queries.deleteAdmin(transaction, id)))
          throw coreErrors.ADMIN_NOT_FOUND({ message: 'Admin not found' });
      });
    },
    changeOwnPassword: (caller, input) => changeOwnPassword(options, caller, input),
    async setPassword(caller, id, newPassword) {
      requireSuperAdmin(caller);
      const admin = (await queries.findAdmin(database, id)) ?? absent();
      checkPassword('newPassword', newPassword, admin.username);
      const hash = await passwords.hash(newPassword);
      await accounts.change(id, async (transaction) => {
        await holdOther(transaction, caller, id);
        return (await queries.setAdminPassword(transaction, id, hash)) ?? absent();
      });
    },
  };
}

const absent = (): never => {
  throw coreErrors.ADMIN_NOT_FOUND();
};

/** Whoever changes themselves has their own row already. */
const holdOther = async (
  transaction: Queryable,
  caller: AdminCaller,
  id: string,
): Promise<void> => {
  if (caller.adminId !== id) await holdCredential(transaction, caller);
};

/** Holds whatever surface a call comes from. */
function requireSuperAdmin(caller: AdminCaller): void {
  requireAuthority(caller, { kind: 'credentials' });
  if (!isSuperAdmin(caller)) throw errors.FORBIDDEN({ message: 'Only a super admin may do this' });
}

function orderOf(sort: string | undefined): { column: string; descending: boolean } {
  const descending = sort?.startsWith('-') === true;
  const field = (descending ? sort?.slice(1) : sort) ?? 'createdAt';
  const column = queries.adminSortColumns.get(field);
  if (!column)
    throw invalid(
      'sort',
      'enum',
      `must be one of ${[...queries.adminSortColumns.keys()].join(', ')}, with - before it to turn the order`,
    );
  return { column, descending };
}

/** Throws 409 when `id` is the only active super admin. Others who want to remove one wait here. */
async function keepOneSuperAdmin(transaction: Queryable, id: string): Promise<void> {
  if (await queries.isLastSuperAdmin(transaction, id))
    throw coreErrors.LAST_SUPER_ADMIN_PROTECTED();
}

async function applyChange(
  { twoFactor }: AdminsOptions,
  transaction: Queryable,
  id: string,
  change: AdminChange,
): Promise<queries.AdminRow> {
  if (change.isSuperAdmin === false || change.active === false)
    await keepOneSuperAdmin(transaction, id);
  const after = (await queries.setAdminRights(transaction, id, change)) ?? absent();
  if (change.hasTwoFA !== false || !after.hasTwoFA) return after;
  await twoFactor.remove(transaction, id);
  return (await queries.setHasTwoFactor(transaction, id, false)) ?? absent();
}

async function changeOwnPassword(
  { database, accounts, passwords, quotas }: AdminsOptions,
  caller: AdminCaller,
  { oldPassword, newPassword }: { oldPassword: string; newPassword: string },
): Promise<queries.AdminRow> {
  const admin = (await queries.findAdminPassword(database, caller.adminId)) ?? absent();
  await quotas.beforeProof(admin.id);
  if (!(await passwords.verify(admin.passwordHash, oldPassword)))
    throw coreErrors.PASSWORD_INCORRECT();
  await quotas.proofSucceeded(admin.id);
  checkPassword('newPassword', newPassword, admin.username);
  if (newPassword.normalize('NFKC') === oldPassword.normalize('NFKC'))
    throw invalid('newPassword', 'different', 'must differ from the old one');
  const hash = await passwords.hash(newPassword);
  return accounts.change(admin.id, async (transaction) => {
    const changed = await queries.setAdminPassword(transaction, admin.id, hash, admin.passwordHash);
    if (!changed) throw coreErrors.ADMIN_PASSWORD_CHANGED();
    return changed;
  });
}
