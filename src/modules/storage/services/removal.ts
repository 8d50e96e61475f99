/** Bytes that nothing refers to any more: they are deleted by a job that exists exactly when the change does. */
import Type from 'typebox';
import type { Queryable } from '../../../kernel/database/database.ts';
import { defineJob, type JobDefinition } from '../../../kernel/jobs/jobs.ts';
import type { ObjectPlace, StorageProvider } from '../providers/provider.ts';
import { knownObjects } from '../queries/files.ts';
import { renditionPrefix } from './places.ts';
import type { StorageParts } from './storage-parts.ts';

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
  const { objects } = await store.list(bucket, renditionPrefix(key));
  for (const rendition of objects) await store.delete({ bucket, key: rendition.key });
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
