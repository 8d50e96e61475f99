/** What the operations of core show, and who may call them. */
import Type, { type Static } from 'typebox';
import type { AdminCaller, Caller } from '../../../kernel/caller.ts';
import { errors, invalid } from '../../../kernel/errors.ts';
import { isId } from '../../../kernel/ids.ts';
import type { AdminRow } from '../queries/admins.ts';
import { masterPrincipal, maxPasswordLength, maxUsernameLength } from '../services/accounts.ts';

export const Timestamp = Type.String({ format: 'date-time' });
export const NullableTimestamp = Type.Union([Timestamp, Type.Null()]);
/** The answer of operations that have nothing to say but that it is done. */
export const Message = Type.Object({ message: Type.String() });

/** For a name that is looked up. Rules for new names are the service's. */
export const Username = Type.String({ minLength: 1, maxLength: maxUsernameLength });
/** For any password; the policy for new ones is the service's. */
export const Password = Type.String({ minLength: 1, maxLength: maxPasswordLength });
export const Code = Type.String({
  minLength: 6,
  maxLength: 32,
  description: 'Six digits of the authenticator app, or a recovery code',
});

export const Admin = Type.Object({
  _id: Type.String(),
  username: Type.String(),
  isSuperAdmin: Type.Boolean(),
  hasTwoFA: Type.Boolean(),
  active: Type.Boolean(),
  mustChangePassword: Type.Boolean(),
  lastLoginAt: NullableTimestamp,
  createdAt: NullableTimestamp,
  updatedAt: NullableTimestamp,
});

export const adminView = (row: AdminRow): Static<typeof Admin> => ({
  _id: row.id,
  username: row.username,
  isSuperAdmin: row.isSuperAdmin,
  hasTwoFA: row.hasTwoFA,
  active: row.active,
  mustChangePassword: row.mustChangePassword,
  lastLoginAt: iso(row.lastLoginAt),
  createdAt: iso(row.createdAt),
  updatedAt: iso(row.updatedAt),
});

/** The master key as `GET /admins/me` shows it: an operator that is stored nowhere. */
export const masterAdmin: Static<typeof Admin> = {
  _id: masterPrincipal.adminId,
  username: masterPrincipal.username,
  isSuperAdmin: true,
  hasTwoFA: false,
  active: true,
  mustChangePassword: false,
  lastLoginAt: null,
  createdAt: null,
  updatedAt: null,
};

export const iso = (date: Date | null): string | null => date?.toISOString() ?? null;

/** The surface lets only admins through; this says so to the compiler, and holds if it ever does not. */
export function adminOf(caller: Caller): AdminCaller {
  if (caller.kind !== 'admin') throw errors.FORBIDDEN();
  return caller;
}

/** An id of the path; anything that is none is 400. */
export function idOf(path: string, text: string): string {
  if (!isId(text)) throw invalid(path, 'format', 'must be an id');
  return text.toLowerCase();
}
