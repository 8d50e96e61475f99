/** Which changes a user may hear of: those of records that he may read. Who may read is asked of the record engine alone. */

import { isRecordId } from '../../data/schema/language/record-key.ts';
import type { Kernel } from '../../host/kernel.ts';
import type { UserCaller } from '../../kernel/caller.ts';
import { errors, invalid } from '../../kernel/errors.ts';
import type { LostRelation } from '../../kernel/permissions.ts';
import { realtimeErrors } from './errors.ts';

export type AccessKernel = Pick<Kernel, 'bus' | 'schemas' | 'records'>;

export interface Hearing {
  readonly schema: string;
  readonly documentId?: string | undefined;
  /** The record is gone: finds the relations that went with it, so that only those hear of it who could read it until then. */
  readonly lost?: (() => Promise<readonly LostRelation[]>) | undefined;
}

/**
 * Throws unless the user may hear of changes of this record, or of all records without `documentId`: 404 for a schema
 * that is not served or not offered to subscribers, 403 without permission, 503 while nobody can tell.
 */
export async function assertMayHear({ schemas, records }: AccessKernel, caller: UserCaller, hearing: Hearing): Promise<void> {
  const { schema: name, documentId, lost } = hearing;
  const schema = schemas.get(name);
  if (!schema || schema.modelOptions.conduit.realtime?.enabled === false)
    throw errors.NOT_FOUND({ message: `There is no schema "${name}" whose changes you could hear` });
  const readable = await records.readable(caller, name);
  if (documentId !== undefined && !isRecordId(schema.key, documentId)) throw invalid('documentId', 'format', 'is not the id of a record');
  if (readable === 'all') return;
  if (documentId === undefined) throw realtimeErrors.DOCUMENT_REQUIRED();
  const allowed = await (lost ? records.couldRead(caller, name, documentId, await lost()) : records.mayRead(caller, name, documentId));
  if (!allowed) throw errors.FORBIDDEN({ message: 'You may not read this record' });
}
