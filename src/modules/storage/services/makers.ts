/** Who has made an address or a link that others may use without them: it gives what its maker may still give. */
import type { UserCaller } from '../../../kernel/caller.ts';
import type { Transaction } from '../../../kernel/database/database.ts';
import { PenstockError } from '../../../kernel/errors.ts';
import type { FileRow } from '../queries/files.ts';
import { isActiveUser } from '../queries/links.ts';
import type { FileAction } from './access.ts';
import type { StorageParts } from './storage-parts.ts';

export interface Maker {
  readonly userId: string;
  /** In which it was made. */
  readonly scope: string | null;
}

/** A right that ends is not kept by whoever it was passed on to; it decides at this moment. */
export async function makerMay(
  { database, access, schemas }: Pick<StorageParts, 'database' | 'access' | 'schemas'>,
  { userId, scope }: Maker,
  file: FileRow,
  actions: readonly FileAction[],
): Promise<boolean> {
  const users = schemas.get('User');
  if (users && !(await isActiveUser(database, users, userId))) return false;
  const maker = userOf(userId);
  try {
    for (const action of actions)
      if (!(await access.may(maker, action, file, scope ?? undefined))) return false;
    return true;
  } catch (error) {
    // They may not act for the team any more, or it is gone.
    if (error instanceof PenstockError && error.status < 500) return false;
    throw error;
  }
}

/** Whether the session goes on. It does so until the transaction ends. */
export async function sessionGoesOn(
  { identity }: Pick<StorageParts, 'identity'>,
  transaction: Transaction,
  { userId, sessionId }: Pick<UserCaller, 'userId' | 'sessionId'>,
): Promise<boolean> {
  try {
    await identity.client?.holdSession?.(transaction, userOf(userId, sessionId));
    return true;
  } catch (error) {
    if (error instanceof PenstockError && error.status === UNAUTHORIZED) return false;
    throw error;
  }
}

const UNAUTHORIZED = 401;

const userOf = (userId: string, sessionId = ''): UserCaller => ({
  ...{ kind: 'user', userId, sessionId, authenticatedAt: 0 },
  ...{ complete: true, clientId: '' },
});
