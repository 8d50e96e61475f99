/** Background work on files. */
import Type from 'typebox';
import { system } from '../../kernel/caller.ts';
import { defineJob, type JobDefinition } from '../../kernel/jobs/jobs.ts';
import { addGrowth } from './queries/counters.ts';
import { expiredFiles } from './queries/files.ts';
import { purgeLinks } from './queries/links.ts';
import { expiredResumable } from './queries/resumable.ts';
import { expiredUploads } from './queries/uploads.ts';
import { createBucketRemovalJob } from './services/buckets.ts';
import { createRemovalJob, removeFound } from './services/removing.ts';
import { createChecksumJob, createScanJob } from './services/scanning.ts';
import type { StorageParts } from './services/storage-parts.ts';
import type { StorageServices } from './services/storage-services.ts';

const BATCH = 100;

export const storageJobs = (
  parts: StorageParts,
  services: StorageServices,
): readonly JobDefinition[] => [
  createRemovalJob(parts),
  createBucketRemovalJob(parts),
  services.goneOwners.job,
  expireUploads(parts, services),
  expireResumable(parts, services),
  createScanJob(parts),
  createChecksumJob(parts),
  expireFiles(parts),
  purgeTrash(services),
  countGrowth(parts),
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

/**
 * Deletes files whose time is over: their own, or that of the files of their container (`lifecycle.deleteAfterDays`). One
 * that a record holds stays, and is tried again the next time.
 */
const expireFiles = (parts: StorageParts): JobDefinition =>
  defineJob({
    name: 'storage.expire-files',
    data: Type.Object({}),
    schedule: '*/5 * * * *',
    handler: (_data, context) =>
      removeFound(parts, system('storage.expire-files'), expiredFiles, context),
  });

/** Keeps short what operators wait for when they ask how much is in a container. */
const countGrowth = ({ database }: StorageParts): JobDefinition =>
  defineJob({
    name: 'storage.count-growth',
    data: Type.Object({}),
    schedule: '* * * * *',
    handler: async () => void (await addGrowth(database)),
  });

/** Destroys what was in the trash for long enough, and forgets links whose time is over. */
const purgeTrash = ({ trash, database }: StorageServices): JobDefinition =>
  defineJob({
    name: 'storage.purge-trash',
    data: Type.Object({}),
    schedule: '*/15 * * * *',
    async handler(_data, { signal }) {
      for (let gone = BATCH; gone === BATCH && !signal.aborted; )
        gone = await trash.purgeExpired(BATCH);
      await purgeLinks(database);
    },
  });
