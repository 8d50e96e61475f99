/** Files on their way out: their documents with what is said about them, their counters, and their bytes by a job. */
import Type from 'typebox';
import { fieldTest, literal } from '../../../data/conditions/condition.ts';
import { type Caller, system } from '../../../kernel/caller.ts';
import type { Queryable, Transaction } from '../../../kernel/database/database.ts';
import { PenstockError } from '../../../kernel/errors.ts';
import { defineJob, type JobDefinition } from '../../../kernel/jobs/jobs.ts';
import { storageErrors } from '../errors.ts';
import { fileEvent, filesGone } from '../events.ts';
import type { ObjectPlace, StorageProvider } from '../providers/provider.ts';
import { type FileRow, knownObjects } from '../queries/files.ts';
import { deleteLinksOf } from '../queries/links.ts';
import { keepInTrash } from '../queries/trash.ts';
import { deleteUploadsOf } from '../queries/uploads.ts';
import { fileSchema } from '../schemas.ts';
import { authorOf } from './access.ts';
import { placeOf, renditionPrefix } from './naming.ts';
import { uncount } from './quotas.ts';
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
    parts.knownFiles.changing(transaction, ids);
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

/** Files of one transaction. */
const AT_ONCE = 100;

/** Locks the next files, without those that stay. */
type FindFiles = (
  transaction: Transaction,
  question: { readonly limit: number; readonly except: readonly string[] },
) => Promise<readonly FileRow[]>;

interface RemovingContext {
  readonly signal: AbortSignal;
  readonly log: StorageParts['log'];
  /** Told of each that cannot go, outside of a transaction. */
  readonly stays?: (file: FileRow) => Promise<unknown>;
}

/**
 * Deletes batch by batch what is found. Where one cannot go (a record holds it), they go one by one, each in a transaction of
 * its own: one that deletes twice would lock a container after an owner.
 */
export async function removeFound(
  parts: StorageParts,
  caller: Caller,
  find: FindFiles,
  { signal, log, stays }: RemovingContext,
): Promise<void> {
  const removeAll = createRemoveAll(parts);
  const except: string[] = [];
  for (let limit = AT_ONCE; !signal.aborted; ) {
    let files: readonly FileRow[] = [];
    try {
      await parts.database.transaction(async (transaction) => {
        files = await find(transaction, { limit, except });
        await removeAll(transaction, caller, files);
      });
      if (files.length < limit) return;
    } catch (error) {
      const [file] = files;
      if (!file) throw error;
      if (limit === 1) {
        except.push(file._id);
        log.info({ err: error, file: file._id }, 'A file that is to be deleted stays');
        await stays?.(file);
      }
      limit = 1;
    }
  }
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

/* Bytes that nothing refers to any more: they are deleted by a job that exists exactly when the change does. */

const removalJob = 'storage.remove-objects';
/** Objects of one job. */
const BATCH = 200;
/** Attempts over about a day and a half, with growing pauses of up to an hour; what is left then is found by reconciling. */
const RETRIES = 40;

const Place = Type.Object({ bucket: Type.String(), key: Type.String() });

/** Takes places on the list of what is to be deleted. Keys are never used twice, so it may happen late and more than once. */
export async function enqueueRemoval(
  { jobs }: Pick<StorageParts, 'jobs'>,
  transaction: Queryable,
  places: readonly ObjectPlace[],
): Promise<void> {
  for (let i = 0; i < places.length; i += BATCH) {
    const objects = places.slice(i, i + BATCH).map(({ bucket, key }) => ({ bucket, key }));
    await jobs.enqueue(removalJob, { objects }, { transaction });
  }
}

export const createRemovalJob = ({
  provider,
  database,
}: Pick<StorageParts, 'provider' | 'database'>): JobDefinition =>
  defineJob({
    name: removalJob,
    data: Type.Object({ objects: Type.Array(Place) }),
    retries: RETRIES,
    async handler({ objects }, { signal }) {
      const store = await provider();
      for (const [bucket, keys] of byBucket(objects)) {
        // A change whose end nobody heard of may have been made after all.
        const known = await knownObjects(database, bucket, keys);
        for (const key of keys) {
          if (signal.aborted) throw signal.reason;
          if (!known.has(key)) await deleteWhole(store, { bucket, key });
        }
      }
    },
  });

/** The renditions first: they are found by their source. */
async function deleteWhole(store: StorageProvider, { bucket, key }: ObjectPlace): Promise<void> {
  let cursor: string | undefined;
  do {
    const page = await store.list(bucket, renditionPrefix(key), cursor);
    for (const rendition of page.objects) await store.delete({ bucket, key: rendition.key });
    cursor = page.cursor;
  } while (cursor !== undefined);
  await store.delete({ bucket, key });
}

function byBucket(places: readonly ObjectPlace[]): ReadonlyMap<string, readonly string[]> {
  const found = new Map<string, string[]>();
  for (const { bucket, key } of places) {
    const keys = found.get(bucket);
    if (keys) keys.push(key);
    else found.set(bucket, [key]);
  }
  return found;
}
