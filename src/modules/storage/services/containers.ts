/** Containers and folders: what files stand in. */
import { type Caller, callerKey, system } from '../../../kernel/caller.ts';
import type { Queryable } from '../../../kernel/database/database.ts';
import { storageErrors } from '../errors.ts';
import { containerEvent } from '../events.ts';
import { containerOf, ROOT } from '../names.ts';
import type { StorageProvider } from '../providers/provider.ts';
import { storeOfBucket } from '../providers/routed.ts';
import {
  type ContainerRow,
  containerByName,
  holdContainer,
  insertContainer,
  isBucketInUse,
  lockBucket,
} from '../queries/containers.ts';
import { insertFolders } from '../queries/folders.ts';
import { turnBucket } from '../queries/stores.ts';
import { authorOf } from './access.ts';
import { isMissingObject, onStore, type StorageParts } from './storage-parts.ts';

/* Buckets of containers on the store that is configured. */

/**
 * Runs something on the store that writes into the bucket of a container. Throws errors of the catalogue; CONTAINER_NOT_FOUND
 * where the bucket has gone, or is just going, with its container: that is no failure of the store.
 */
export function onStoreOf<T>(
  { database, log }: Pick<StorageParts, 'database' | 'log'>,
  bucket: string,
  work: () => Promise<T>,
): Promise<T> {
  return onStore(log, async () => {
    try {
      return await work();
    } catch (error) {
      if (isMissingObject(error) && !(await isBucketInUse(database, bucket)))
        throw storageErrors.CONTAINER_NOT_FOUND({ cause: error });
      throw error;
    }
  });
}

/** Gives a container a bucket on the store where it has none there, and answers it with that bucket. */
type WithBucket = (container: ContainerRow) => Promise<ContainerRow>;

function createWithBucket(parts: StorageParts): WithBucket {
  const { database, provider, bucketOf, log } = parts;

  /**
   * Makes it, and the container's, while nobody removes either. Who turns the container to it holds it alone from the
   * beginning: of two uploads that share it, each would wait for the other to let go, again with each further try.
   */
  const make = ({ name, bucket: from }: ContainerRow, bucket: string): Promise<void> =>
    database.outside(() =>
      database.transaction(async (transaction) => {
        const isHeld = await holdContainer(transaction, name, from !== bucket);
        if (!isHeld) throw storageErrors.CONTAINER_NOT_FOUND();
        await makeBucket(parts, transaction, bucket);
        // What comes from now on lies on the store that is configured; what is there stays until it is brought over.
        if (from !== bucket) await turnBucket(transaction, { name, from, to: bucket });
      }),
    );

  /** Buckets that were seen, by store: a new disk or another store has none of them yet. */
  const seen = new WeakMap<StorageProvider, Set<string>>();
  return async (container) => {
    const { name, bucket: from } = container;
    const isHere = storeOfBucket(from) === (await parts.storeId());
    const bucket = isHere ? from : await onStore(log, () => bucketOf(name));
    const store = await onStore(log, provider);
    const known = seen.get(store) ?? new Set();
    seen.set(store, known);
    if (isHere && known.has(bucket)) return container;
    const isThere = isHere && (await onStore(log, () => store.bucketExists(bucket)));
    if (!isThere) await make(container, bucket);
    known.add(bucket);
    return { ...container, bucket };
  };
}

/** Its container is locked, or is being made. */
async function makeBucket(
  { provider, log }: StorageParts,
  transaction: Queryable,
  bucket: string,
): Promise<void> {
  await lockBucket(transaction, bucket);
  await onStore(log, async () => (await provider()).createBucket(bucket));
}

export interface Containers {
  /**
   * The container of that name, or the default one. Makes one that is not there where the caller may. `seen`: as it was
   * just found. Throws INVALID_NAME, CONTAINER_CREATION_DENIED.
   */
  resolve(
    caller: Caller,
    name: string | undefined,
    isPublic?: boolean,
    seen?: ContainerRow,
  ): Promise<ContainerRow>;
  /** The default container, with a bucket on the store, also when that is a new one. */
  ensureDefault(): Promise<void>;
  /** Throws CONTAINER_EXISTS. */
  create(caller: Caller, name: string, isPublic: boolean): Promise<ContainerRow>;
}

export function createContainers(parts: StorageParts): Containers {
  const { database, events, bucketOf, config, log, access } = parts;
  const withBucket = createWithBucket(parts);

  /**
   * Whoever removes one of the same name is waited for: its bucket is gone then, and this is a new one. A bucket without a
   * container is found again; a container without its bucket, which takes no files, is never committed.
   */
  const make = async (
    caller: Caller,
    name: string,
    isPublic: boolean,
  ): Promise<ContainerRow | undefined> => {
    const bucket = await onStore(log, () => bucketOf(name));
    return database.outside(() =>
      database.transaction(async (transaction) => {
        const row = await insertContainer(transaction, {
          name,
          isPublic,
          bucket,
          createdBy: authorOf(caller),
        });
        if (!row) return undefined;
        await makeBucket(parts, transaction, bucket);
        await events.emit(transaction, caller, containerEvent('create', row));
        return row;
      }),
    );
  };

  const mayCreate = (caller: Caller, name: string): boolean =>
    caller.kind === 'admin' ||
    caller.kind === 'system' ||
    name === config().defaultContainer ||
    config().allowContainerCreation;

  const resolve: Containers['resolve'] = async (
    caller,
    name = config().defaultContainer,
    isPublic = false,
    seen = undefined,
  ) => {
    containerOf(name);
    const known = seen ?? (await containerByName(database, name));
    if (known) return withBucket(known);
    if (!mayCreate(caller, name)) throw storageErrors.CONTAINER_CREATION_DENIED();
    // Else one of a module would be there, public perhaps, before its file is refused.
    access.requireCreate(caller, name);
    const isDefault = name === config().defaultContainer;
    const made = await make(caller, name, isDefault ? false : isPublic);
    const found = made ?? (await containerByName(database, name));
    if (!found) throw storageErrors.CONTAINER_NOT_FOUND();
    return found;
  };

  return {
    resolve,
    ensureDefault: async () => void (await resolve(system('storage.start'), undefined)),
    async create(caller, name, isPublic) {
      containerOf(name);
      access.requireCreate(caller, name);
      if (await containerByName(database, name)) throw storageErrors.CONTAINER_EXISTS();
      const made = await make(caller, name, isPublic);
      if (!made) throw storageErrors.CONTAINER_EXISTS();
      log.info({ container: name, caller: callerKey(caller) }, 'A container was made');
      return made;
    },
  };
}

/** Makes the folder of a file, and those above it, where they are missing. */
export async function ensureFolders(
  transaction: Queryable,
  caller: Caller,
  { container, folder }: { readonly container: ContainerRow; readonly folder: string },
): Promise<void> {
  if (folder === ROOT) return;
  await insertFolders(transaction, {
    container: container.name,
    name: folder,
    isPublic: container.isPublic,
    createdBy: authorOf(caller),
  });
}
