/** Which changes a user may hear of: those of records that he may read. */
import type { UserCaller } from '../../kernel/caller.ts';
import { errors, invalid } from '../../kernel/errors.ts';
import type { Kernel } from '../../kernel/kernel.ts';
import { isRecordId, platformKey } from '../../kernel/schema/mapping/key.ts';
import { realtimeErrors } from './errors.ts';

export type AccessKernel = Pick<Kernel, 'bus' | 'schemas' | 'permissions' | 'records'>;

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
  { schemas, permissions, records }: AccessKernel,
  caller: UserCaller,
  { schema: name, documentId, gone = false }: Hearing,
): void | Promise<void> {
  const schema = schemas.get(name);
  const options = schema?.modelOptions.conduit;
  if (options?.cms?.enabled !== true || options.cms.crudOperations?.read?.enabled !== true) {
    throw errors.NOT_FOUND({ message: `There is no schema "${name}" that you could read` });
  }
  if (documentId !== undefined && !isRecordId(schema?.key ?? platformKey, documentId))
    throw invalid('documentId', 'format', 'is not the id of a record');
  const owned = options.owner?.limit?.includes('read') === true;
  if (options.authorization?.enabled !== true && !owned) return undefined;
  if (documentId === undefined) throw realtimeErrors.DOCUMENT_REQUIRED();
  if (gone) return undefined;
  // The record itself says whose it is; reading it asks for every rule at once.
  if (owned) return records.get(caller, name, documentId).then(() => undefined);
  if (!permissions.engine) throw errors.UNAVAILABLE({ message: 'Permissions cannot be checked now: try again shortly' });
  return permissions.engine.check(caller, 'read', `${name}:${documentId}`).then((allowed) => {
    if (!allowed) throw errors.FORBIDDEN({ message: 'You may not read this record' });
  });
}
