/** Which changes a user may hear of: those of records that he may read. */
import type { UserCaller } from '../../kernel/caller.ts';
import { errors } from '../../kernel/errors.ts';
import type { Kernel } from '../../kernel/kernel.ts';
import { realtimeErrors } from './errors.ts';

export type AccessKernel = Pick<Kernel, 'schemas' | 'permissions'>;

export interface Hearing {
  readonly schema: string;
  readonly documentId?: string | undefined;
  /** The record is gone, and with it every permission on it: who was admitted until now may hear of that. */
  readonly gone?: boolean | undefined;
}

/**
 * Throws unless the user may hear of changes of this record, or of all records without `documentId`:
 * 404 for a schema that is not served, 403 without permission, 503 while nobody can tell.
 */
export function assertMayHear(
  { schemas, permissions }: AccessKernel,
  caller: UserCaller,
  { schema: name, documentId, gone = false }: Hearing,
): void | Promise<void> {
  const options = schemas.get(name)?.modelOptions.conduit;
  if (options?.cms?.enabled !== true || options.cms.crudOperations?.read?.enabled !== true) {
    throw errors.NOT_FOUND({ message: `There is no schema "${name}" that you could read` });
  }
  if (options.authorization?.enabled !== true) return undefined;
  if (documentId === undefined) throw realtimeErrors.DOCUMENT_REQUIRED();
  if (gone) return undefined;
  if (!permissions.engine) throw errors.UNAVAILABLE({ message: 'Permissions cannot be checked now: try again shortly' });
  return permissions.engine.check(caller, 'read', `${name}:${documentId}`).then((allowed) => {
    if (!allowed) throw errors.FORBIDDEN({ message: 'You may not read this record' });
  });
}
