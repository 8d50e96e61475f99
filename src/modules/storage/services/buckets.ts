/** Buckets of containers on the store that is configured. */
import type { StorageProvider } from '../providers/provider.ts';
import { storeOfBucket } from '../providers/routed.ts';
import type { ContainerRow } from '../queries/containers.ts';
import { turnBucket } from '../queries/stores.ts';
import { onStore, type StorageParts } from './storage-parts.ts';

/** Gives a container a bucket on the store where it has none there, and answers it with that bucket. */
type WithBucket = (container: ContainerRow) => Promise<ContainerRow>;

export function createWithBucket(parts: StorageParts): WithBucket {
  const { database, provider, bucketOf, log } = parts;

  /** Buckets that were seen, by store: a new disk or another store has none of them yet. */
  const seen = new WeakMap<StorageProvider, Set<string>>();
  return async (container) => {
    const { name, bucket: from } = container;
    const isHere = storeOfBucket(from) === (await parts.storeId());
    const bucket = isHere ? from : await onStore(log, () => bucketOf(name));
    await onStore(log, async () => {
      const store = await provider();
      const known = seen.get(store) ?? new Set();
      seen.set(store, known);
      if (known.has(bucket)) return;
      if (!(await store.bucketExists(bucket))) await store.createBucket(bucket);
      known.add(bucket);
    });
    // What comes from now on lies on the store that is configured; what is there stays until it is brought over.
    if (!isHere) await database.outside(() => turnBucket(database, { name, from, to: bucket }));
    return { ...container, bucket };
  };
}
