/**
 * What outlives a request may not be made by an operator whose credential ends meanwhile: a request that was let in before
 * its token was revoked would leave another token, admin or session behind.
 */
import type { AdminCaller } from '../../../kernel/caller.ts';
import type { Queryable } from '../../../kernel/database/database.ts';
import { errors } from '../../../kernel/errors.ts';
import { coreErrors } from '../errors.ts';
import { lockAdmin } from '../queries/admins.ts';
import { lockApiToken } from '../queries/api-tokens.ts';
import { masterPrincipal } from './accounts.ts';

/**
 * Keeps the credential of this caller from ending before the transaction does. Throws 401 where it has ended, and 403 for
 * an admin who is none of the super admins any more.
 */
export async function holdCredential(transaction: Queryable, caller: AdminCaller): Promise<void> {
  // First the admin, as whoever deletes one does.
  if (caller.adminId !== masterPrincipal.adminId) await holdAdmin(transaction, caller);
  const { tokenId } = caller;
  if (tokenId !== undefined && !(await lockApiToken(transaction, tokenId)))
    throw coreErrors.ADMIN_TOKEN_INVALID();
}

async function holdAdmin(
  transaction: Queryable,
  { adminId, isSuperAdmin, sessionVersion }: AdminCaller,
): Promise<void> {
  const admin = await lockAdmin(transaction, adminId);
  if (!admin?.active) throw coreErrors.ADMIN_UNKNOWN();
  if (sessionVersion !== undefined && admin.sessionVersion !== sessionVersion)
    throw coreErrors.ADMIN_TOKEN_EXPIRED({ message: 'This session has ended: sign in again' });
  if (isSuperAdmin && !admin.isSuperAdmin)
    throw errors.FORBIDDEN({ message: 'Only a super admin may do this' });
}
