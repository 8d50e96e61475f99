/**
 * Deletes uploads that failed. What made an upload fail often keeps its row from being deleted too: a full disk, no file
 * descriptor for a connection, a database that is away. The deletion is retried until it succeeds; rows of a process that
 * dies meanwhile expire.
 */
import { AsyncLocalStorage } from 'node:async_hooks';
import { offAccount } from '../../../kernel/request-account/request-account.ts';
import { takeUpload, type UploadRow } from '../queries/uploads.ts';
import { enqueueRemoval } from './removing.ts';
import type { StorageParts } from './storage-parts.ts';

/** Milliseconds between two attempts. */
const PAUSE_MS = 10_000;
/** Uploads that are retried; further ones expire. */
const MAX_LEFT = 1_000;

type AbandonedUpload = Pick<UploadRow, 'id' | 'bucket' | 'objectKey'>;

/** Never rejects, also when the request is over or its transaction has failed. */
export function createAbandonUpload(
  parts: Pick<StorageParts, 'database' | 'jobs' | 'log'>,
): (upload: AbandonedUpload) => Promise<void> {
  const { database, log } = parts;
  const outside = AsyncLocalStorage.snapshot();
  const left = new Map<string, AbandonedUpload>();
  let isComing = false;

  const end = ({ id, bucket, objectKey }: AbandonedUpload): Promise<void> =>
    database.transaction(async (transaction) => {
      if (await takeUpload(transaction, id, objectKey))
        await enqueueRemoval(parts, transaction, [{ bucket, key: objectKey }]);
    });
  const later = (): void => {
    if (isComing) return;
    isComing = true;
    setTimeout(() => void again(), PAUSE_MS).unref();
  };
  const again = async (): Promise<void> => {
    isComing = false;
    try {
      for (const [id, upload] of left) {
        await end(upload);
        left.delete(id);
      }
    } catch {
      later();
    }
  };

  return (upload) =>
    offAccount(() => database.outside(() => end(upload))).catch((error: unknown) => {
      log.warn(
        { err: error, upload: upload.id },
        'An upload that failed could not be given up yet: it is tried again',
      );
      if (left.size >= MAX_LEFT) return;
      left.set(upload.id, upload);
      outside(later);
    });
}
