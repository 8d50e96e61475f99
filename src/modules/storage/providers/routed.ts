/**
 * Several stores behind one: the name of a bucket says on which it lies (`s2@pictures`; those of the first store have no
 * mark). So a place stays right whatever the configuration says later.
 */
import type { ObjectPlace, StorageProvider } from './provider.ts';

const MARK = '@';

/** The name of a bucket with its store. */
export const markedBucket = (store: string, bucket: string): string =>
  store === '' ? bucket : `${store}${MARK}${bucket}`;

export const storeOfBucket = (bucket: string): string => {
  const at = bucket.indexOf(MARK);
  return at === -1 ? '' : bucket.slice(0, at);
};

/** Its name on the store. */
export const bareBucket = (bucket: string): string => bucket.slice(bucket.indexOf(MARK) + 1);

/** `open`: the store with an id. `current`: the one whose abilities count. */
export function createRoutedProvider(
  current: StorageProvider,
  open: (store: string) => Promise<StorageProvider>,
): StorageProvider {
  const at = async <T>(
    bucket: string,
    work: (store: StorageProvider, bare: string) => Promise<T>,
  ): Promise<T> => work(await open(storeOfBucket(bucket)), bareBucket(bucket));
  const on = <T>(
    { bucket, key }: ObjectPlace,
    work: (store: StorageProvider, place: ObjectPlace) => Promise<T>,
  ): Promise<T> => at(bucket, (store, bare) => work(store, { bucket: bare, key }));
  const { multipart } = current;
  return {
    name: current.name,
    capabilities: current.capabilities,
    put: (place, body, attributes, signal) =>
      on(place, (store, own) => store.put(own, body, attributes, signal)),
    get: (place, range, signal) => on(place, (store, own) => store.get(own, range, signal)),
    async *pieces({ bucket, key }, range, signal) {
      const store = await open(storeOfBucket(bucket));
      const place = { bucket: bareBucket(bucket), key };
      yield* store.pieces?.(place, range, signal) ?? (await store.get(place, range, signal));
    },
    part: (place, range) => on(place, async (store, own) => store.part?.(own, range)),
    head: (place) => on(place, (store, own) => store.head(own)),
    delete: (place) => on(place, (store, own) => store.delete(own)),
    copy: (from, to) =>
      storeOfBucket(from.bucket) === storeOfBucket(to.bucket)
        ? on(to, (store, own) => store.copy({ ...from, bucket: bareBucket(from.bucket) }, own))
        : carry(from, to, on),
    list: (bucket, ...rest) => at(bucket, (store, bare) => store.list(bare, ...rest)),
    createBucket: (bucket) => at(bucket, (store, bare) => store.createBucket(bare)),
    bucketExists: (bucket) => at(bucket, (store, bare) => store.bucketExists(bare)),
    deleteBucket: (bucket) => at(bucket, (store, bare) => store.deleteBucket(bare)),
    signRead: (place, options) => on(place, (store, own) => store.signRead(own, options)),
    signWrite: (place, options) => on(place, (store, own) => store.signWrite(own, options)),
    multipart: {
      ...multipart,
      begin: (place, attributes) =>
        on(place, (store, own) => store.multipart.begin(own, attributes)),
      part: (place, id, part) => on(place, (store, own) => store.multipart.part(own, id, part)),
      complete: (place, id, parts) =>
        on(place, (store, own) => store.multipart.complete(own, id, parts)),
      abort: (place, id) => on(place, (store, own) => store.multipart.abort(own, id)),
    },
    probe: () => current.probe(),
    close: () => current.close(),
  };
}

/** From one store to another, as a stream. */
async function carry(
  from: ObjectPlace,
  to: ObjectPlace,
  on: <T>(
    place: ObjectPlace,
    work: (store: StorageProvider, place: ObjectPlace) => Promise<T>,
  ) => Promise<T>,
) {
  const facts = await on(from, (store, own) => store.head(own));
  const body = await on(from, (store, own) => store.get(own));
  const contentType = facts?.contentType ?? 'application/octet-stream';
  return on(to, (store, own) => store.put(own, body, { contentType, size: facts?.size }));
}
