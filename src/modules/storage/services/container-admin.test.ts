/** Containers that are removed while others upload into them, or make them anew: no bucket stays behind, and none is missing. */
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import {
  bytesOf,
  openTestStorage,
  type TestStorage,
} from '../../../../test/support/storage-services.ts';
import { waitFor } from '../../../../test/support/wait-for.ts';
import { system } from '../../../kernel/caller.ts';
import type { StorageProvider } from '../providers/provider.ts';
import type { ContainerRow } from '../queries/containers.ts';
import { keyOf, placeOf } from './naming.ts';
import { createStorageServices, type StorageServices } from './storage-services.ts';

const operator = system('test');
const type = { contentType: 'text/plain' };

let storage: TestStorage;
let plain: StorageServices;
beforeAll(async () => {
  storage = await openTestStorage('removal');
  plain = servicesOn(storage.provider);
});
afterAll(() => storage?.close());

const servicesOn = (store: StorageProvider): StorageServices =>
  createStorageServices(storage.partsOf(storage.platform.kernel.database, store));

/** Work that begins when it is told to, and belongs to no transaction that runs then. */
function later<T>(work: () => Promise<T>): { begin(): void; readonly end: Promise<T> } {
  const { promise, resolve } = Promise.withResolvers<void>();
  return { begin: resolve, end: promise.then(work) };
}

/** The same store; one of its calls is another. */
const storeWith = (changes: Partial<StorageProvider>): StorageProvider =>
  Object.assign(Object.create(storage.provider) as StorageProvider, changes);

const newContainer = (): Promise<ContainerRow> =>
  plain.containers.create(operator, `c-${randomUUID()}`, false);
const upload = (services: StorageServices, container: string) =>
  services.files.create(storage.caller, { name: randomUUID(), container }, bytesOf('late'));
const codeOf = (work: Promise<unknown>): Promise<unknown> =>
  work.then(
    () => 'made',
    (error: { readonly code?: unknown }) => error.code,
  );
const isThere = (bucket: string): Promise<boolean> => storage.provider.bucketExists(bucket);
const isGone = (bucket: string): Promise<unknown> =>
  waitFor(async () => !(await isThere(bucket)), {
    timeoutMs: 60_000,
    what: 'the bucket to be gone',
  });

describe('the removal of a container', () => {
  it('takes the bucket along, although bytes come when it is about to go', async () => {
    const { _id, name, bucket } = await newContainer();
    const late = later(() => codeOf(upload(plain, name)));
    const removing = servicesOn(
      storeWith({
        async deleteBucket(asked) {
          late.begin();
          await waitFor(async () => (await storage.provider.list(bucket, '')).objects.length > 0);
          // And others whose upload has been given up already, before anybody has deleted them.
          const key = keyOf(randomUUID(), 1);
          await storage.provider.put({ bucket, key }, Buffer.from('given up'), type);
          await storage.provider.deleteBucket(asked);
        },
      }),
    );
    await removing.containerAdmin.remove(operator, _id, false);
    expect(await late.end).toBe('CONTAINER_NOT_FOUND');
    await isGone(bucket);
  });

  it('deletes no bytes that an upload has just brought, which may become a file of the next one', async () => {
    const name = storage
      .partsOf(storage.platform.kernel.database, storage.provider)
      .config().defaultContainer;
    // From now on the container is known for a moment, and looked at anew where it is another one.
    const first = await upload(plain, name);
    const { _id, bucket } = await plain.containers.resolve(operator, name);
    const late = later(() => upload(plain, name));
    const removing = servicesOn(
      storeWith({
        async list(asked, prefix, ...rest) {
          if (asked === bucket && prefix === '') {
            late.begin();
            await waitFor(async () =>
              (await storage.provider.list(asked, '')).objects.some(
                ({ key }) => key !== placeOf(first).key,
              ),
            );
          }
          return storage.provider.list(asked, prefix, ...rest);
        },
      }),
    );
    await removing.containerAdmin.remove(operator, _id, true);
    // The default container is there whenever somebody needs it.
    const file = await late.end;
    expect(file).toMatchObject({ container: name, state: 'ready' });
    expect(await storage.provider.head(placeOf(file))).toMatchObject({ size: file.size });
  });

  it('is what an upload hears of whose bytes find no bucket any more', async () => {
    const { _id, name, bucket } = await newContainer();
    const uploading = servicesOn(
      storeWith({
        async put(...given) {
          await plain.containerAdmin.remove(operator, _id, false).catch(() => undefined);
          await storage.provider.deleteBucket(bucket);
          return storage.provider.put(...given);
        },
      }),
    );
    // What is on its way keeps the container; so its bucket goes another way here, and the store is what fails.
    expect(await codeOf(upload(uploading, name))).toBe('PROVIDER_ERROR');
    const forgotten = (): Promise<{ readonly count: number }> =>
      storage.platform.kernel.database.query({
        text: 'delete from penstock.storage_uploads where bucket = $1',
        values: [bucket],
      });
    await forgotten();
    const removing = servicesOn(
      storeWith({
        async put(...given) {
          // It is noted while its bytes are on their way.
          await waitFor(async () => (await forgotten()).count > 0);
          await plain.containerAdmin.remove(operator, _id, false);
          return storage.provider.put(...given);
        },
      }),
    );
    expect(await codeOf(upload(removing, name))).toBe('CONTAINER_NOT_FOUND');
    expect(await isThere(bucket)).toBe(false);
  });

  it('leaves a container that is made meanwhile its bucket', async () => {
    const { _id, name, bucket } = await newContainer();
    expect(await codeOf(upload(plain, name))).toBe('made');
    const again = later(() => codeOf(plain.containers.create(operator, name, false)));
    const removing = servicesOn(
      storeWith({
        async deleteBucket(asked) {
          again.begin();
          await storage.provider.deleteBucket(asked);
        },
      }),
    );
    await removing.containerAdmin.remove(operator, _id, true);
    // It was refused before the removal, or waited for it.
    if ((await again.end) !== 'made') await plain.containers.create(operator, name, false);
    expect(await isThere(bucket)).toBe(true);
    expect(await codeOf(upload(plain, name))).toBe('made');
  });

  it('is not undone by an upload that finds the bucket missing just then', async () => {
    const { _id, name, bucket } = await newContainer();
    const removed = plain.containerAdmin.remove.bind(plain.containerAdmin, operator, _id, false);
    const uploading = servicesOn(
      storeWith({
        async bucketExists(asked) {
          await removed();
          return storage.provider.bucketExists(asked);
        },
      }),
    );
    expect(await codeOf(upload(uploading, name))).toBe('CONTAINER_NOT_FOUND');
    expect(await isThere(bucket)).toBe(false);
  });
});
