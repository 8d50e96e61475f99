/**
 * SHA-256 of contents that did not pass this process in one piece: resumable uploads, and uploads to the address of a
 * store. A job that exists exactly when the content does reads it once, from the store.
 */
import { createHash } from 'node:crypto';
import { pipeline } from 'node:stream/promises';
import Type from 'typebox';
import type { Queryable } from '../../../kernel/database/database.ts';
import { defineJob, type JobDefinition } from '../../../kernel/jobs/jobs.ts';
import { setChecksum } from '../queries/file-writes.ts';
import { type FileRow, fileById } from '../queries/files.ts';
import { placeOf } from './places.ts';
import { isMissingObject, type StorageParts } from './storage-parts.ts';

const checksumJob = 'storage.checksum';
const RETRIES = 20;
/** A file of a terabyte is read in this time at 150 MB/s. */
const LONGEST_SECONDS = 2 * 3_600;

/** Asks for the checksum of a content that has none, with the change that made it. */
export async function enqueueChecksum(
  { jobs }: Pick<StorageParts, 'jobs'>,
  transaction: Queryable,
  { _id, objectKey, checksum }: FileRow,
): Promise<void> {
  if (checksum !== null || objectKey === null) return;
  await jobs.enqueue(checksumJob, { id: _id, objectKey }, { transaction });
}

export const createChecksumJob = ({ database, provider }: StorageParts): JobDefinition =>
  defineJob({
    name: checksumJob,
    data: Type.Object({ id: Type.String({ format: 'uuid' }), objectKey: Type.String() }),
    retries: RETRIES,
    expireInSeconds: LONGEST_SECONDS,
    async handler({ id, objectKey }, { signal }) {
      const file = await fileById(database, id);
      if (!file || file.objectKey !== objectKey || file.checksum !== null) return;
      const hash = createHash('sha256');
      try {
        const content = await (await provider()).get(placeOf(file), undefined, signal);
        await pipeline(content, hash, { signal });
      } catch (error) {
        // It was replaced or deleted meanwhile, or reconciling will say that it is missing.
        if (isMissingObject(error)) return;
        throw error;
      }
      await setChecksum(database, { id, objectKey, checksum: hash.digest('hex') });
    },
  });
