/** Files on their way out: their documents with what is said about them, their counters, and their bytes by a job. */
import { fieldTest, literal } from '../../../data/conditions/condition.ts';
import type { Caller } from '../../../kernel/caller.ts';
import { system } from '../../../kernel/caller.ts';
import type { Transaction } from '../../../kernel/database/database.ts';
import { PenstockError } from '../../../kernel/errors.ts';
import { storageErrors } from '../errors.ts';
import { fileEvent, filesGone } from '../events.ts';
import type { ObjectPlace } from '../providers/provider.ts';
import type { FileRow } from '../queries/files.ts';
import { deleteLinksOf } from '../queries/links.ts';
import { keepInTrash } from '../queries/trash.ts';
import { deleteUploadsOf } from '../queries/uploads.ts';
import { fileSchema } from '../schemas.ts';
import { authorOf } from './access.ts';
import { placeOf } from './places.ts';
import { uncount } from './quotas.ts';
import { enqueueRemoval } from './removal.ts';
import type { StorageParts } from './storage-parts.ts';

export interface RemoveOptions {
  /** Their bytes go too, whatever the trash keeps. */
  readonly forGood?: boolean;
}

export type RemoveAll = (
  transaction: Transaction,
  caller: Caller,
  files: readonly FileRow[],
  options?: RemoveOptions,
) => Promise<void>;

const asModule = system('storage');

/** Deletes locked files inside a transaction. Asks nothing of the caller. Throws FILE_IN_USE. */
export function createRemoveAll(parts: StorageParts): RemoveAll {
  const { events, config } = parts;
  return async (transaction, caller, files, { forGood = false } = {}) => {
    if (files.length === 0) return;
    const ids = files.map(({ _id }) => _id);
    const uploads = await deleteUploadsOf(transaction, ids);
    await deleteLinksOf(transaction, ids);
    await deleteDocuments(parts, ids);
    const places: ObjectPlace[] = uploads.map(({ bucket, objectKey: key }) => ({ bucket, key }));
    const { days } = config().trash;
    const kept = files.filter(({ generation }) => !forGood && days > 0 && generation > 0);
    await keepInTrash(transaction, kept, { days, deletedBy: authorOf(caller) });
    for (const file of files)
      if (file.generation > 0 && !kept.includes(file)) places.push(placeOf(file));
    await uncount(parts, transaction, files, kept);
    await enqueueRemoval(parts, transaction, places);
    const [only, ...more] = files;
    const event = only && more.length === 0 ? fileEvent('delete', only) : filesGone(files);
    await events.emit(transaction, caller, event);
  };
}

/** By the record engine: what refers to a file is settled, and what is said about it goes, in the same transaction. */
async function deleteDocuments(
  { records, recordsWithFiles }: StorageParts,
  ids: readonly string[],
): Promise<void> {
  const list = await recordsWithFiles.holding(ids);
  if (list !== undefined) throw inUse(list);
  const filter = fieldTest('_id', { kind: 'in', right: literal(ids) });
  try {
    await records.removeWhere(asModule, fileSchema.name, { filter });
  } catch (error) {
    if (error instanceof PenstockError && error.code === 'RECORD_IN_USE')
      throw storageErrors.FILE_IN_USE({ cause: error });
    throw error;
  }
}

const inUse = (schema: string) =>
  storageErrors.FILE_IN_USE({ message: `Records of ${schema} hold this file: change them first` });
