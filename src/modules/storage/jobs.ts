/** Background work on files. */
import Type from 'typebox';
import { defineJob, type JobDefinition } from '../../kernel/jobs/jobs.ts';
import { expiredResumable } from './queries/resumable.ts';
import { expiredUploads } from './queries/uploads.ts';
import { createRemovalJob } from './services/removal.ts';
import type { StorageParts } from './services/storage-parts.ts';
import type { StorageServices } from './services/storage-services.ts';

const BATCH = 100;

export const storageJobs = (
  parts: StorageParts,
  services: StorageServices,
): readonly JobDefinition[] => [
  createRemovalJob(parts),
  expireUploads(parts, services),
  expireResumable(parts, services),
  ...services.tasks.jobs,
];

/** Ends uploads whose time is over. */
const expireUploads = (
  { database }: StorageParts,
  { signedUploads }: StorageServices,
): JobDefinition =>
  defineJob({
    name: 'storage.expire-uploads',
    data: Type.Object({}),
    schedule: '*/5 * * * *',
    async handler(_data, { signal, log }) {
      let total = 0;
      for (let found = BATCH; found === BATCH && !signal.aborted; total += found) {
        const uploads = await expiredUploads(database, BATCH);
        for (const upload of uploads) await signedUploads.expire(upload);
        found = uploads.length;
      }
      if (total > 0) log.info({ uploads: total }, 'Ended uploads whose time was over');
    },
  });

/** Ends resumable uploads whose time is over. Those that have become files are only forgotten. */
const expireResumable = (
  { database }: StorageParts,
  { resumable }: StorageServices,
): JobDefinition =>
  defineJob({
    name: 'storage.expire-resumable',
    data: Type.Object({}),
    schedule: '*/5 * * * *',
    async handler(_data, { signal }) {
      for (let found = BATCH; found === BATCH && !signal.aborted; ) {
        const uploads = await expiredResumable(database, BATCH);
        for (const upload of uploads) await resumable.remove(upload);
        found = uploads.length;
      }
    },
  });
