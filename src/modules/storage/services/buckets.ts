/**
 * Buckets of containers that are removed. Uploads may come to the very end: their bytes are theirs as long as a row names
 * them, and what is left goes as soon as nobody needs it any more.
 */
import Type from 'typebox';
import type { Queryable } from '../../../kernel/database/database.ts';
import { defineJob, type JobDefinition } from '../../../kernel/jobs/jobs.ts';
import { ProviderError, type StorageProvider } from '../providers/provider.ts';
import { lockBucket, usesOfBucket } from '../queries/containers.ts';
import { knownObjects } from '../queries/files.ts';
import { contentKeyOf } from './naming.ts';
import type { StorageParts } from './storage-parts.ts';

/**
 * Removes a bucket with all that is ours in it and that nothing refers to. One with objects of others stays. Answers whether
 * something of ours is left: bytes that came meanwhile.
 */
export async function removeBucket(
  database: Queryable,
  store: StorageProvider,
  bucket: string,
): Promise<boolean> {
  if (!(await store.bucketExists(bucket))) return false;
  for await (const keys of ownKeys(store, bucket)) {
    // Of an upload that was faster than us: it may still become a file, where a container of that name is made anew.
    const known = await knownObjects(database, bucket, keys.map(sourceOf));
    for (const key of keys) if (!known.has(sourceOf(key))) await store.delete({ bucket, key });
  }
  if (await deleteEmpty(store, bucket)) return false;
  for await (const keys of ownKeys(store, bucket)) if (keys.length > 0) return true;
  return false;
}

const sourceOf = (key: string): string => contentKeyOf(key) ?? key;

/** Page by page. */
async function* ownKeys(store: StorageProvider, bucket: string): AsyncGenerator<readonly string[]> {
  let cursor: string | undefined;
  do {
    const page = await store.list(bucket, '', cursor);
    yield page.objects.map(({ key }) => key).filter((key) => contentKeyOf(key) !== undefined);
    cursor = page.cursor;
  } while (cursor !== undefined);
}

/** False where objects are in it. */
async function deleteEmpty(store: StorageProvider, bucket: string): Promise<boolean> {
  try {
    await store.deleteBucket(bucket);
    return true;
  } catch (error) {
    if (error instanceof ProviderError && error.problem === 'NOT_EMPTY') return false;
    throw error;
  }
}

const bucketJob = 'storage.remove-bucket';
/** Attempts over about a day and a half, while the store cannot be asked. */
const RETRIES = 40;
/** Seconds after a removal; twice as many before each further look, up to the longest pause. */
const FIRST_LOOK_SECONDS = 2;
const LONGEST_PAUSE_SECONDS = 60;

/** Looks at a bucket once more after the transaction that removes its container. */
export const enqueueBucketRemoval = (
  { jobs }: Pick<StorageParts, 'jobs'>,
  transaction: Queryable,
  bucket: string,
): Promise<unknown> =>
  jobs.enqueue(bucketJob, { bucket }, { transaction, startAfterSeconds: FIRST_LOOK_SECONDS });

/** Who comes to a bucket after this finds none: only who makes a container makes its bucket. */
export const createBucketRemovalJob = ({
  provider,
  database,
  jobs,
}: Pick<StorageParts, 'provider' | 'database' | 'jobs'>): JobDefinition =>
  defineJob({
    name: bucketJob,
    data: Type.Object({
      bucket: Type.String(),
      pause: Type.Optional(Type.Integer({ minimum: 1, description: 'Seconds before this look' })),
    }),
    retries: RETRIES,
    async handler({ bucket, pause = FIRST_LOOK_SECONDS }) {
      const store = await provider();
      const isAwaited = await database.transaction(async (transaction) => {
        await lockBucket(transaction, bucket);
        const uses = await usesOfBucket(transaction, bucket);
        if (uses.length === 0) return removeBucket(transaction, store, bucket);
        // Files of another container go with theirs; uploads end by themselves.
        return uses.includes('upload') && !uses.includes('container');
      });
      const next = Math.min(LONGEST_PAUSE_SECONDS, 2 * pause);
      if (isAwaited)
        await jobs.enqueue(bucketJob, { bucket, pause: next }, { startAfterSeconds: next });
    },
  });
