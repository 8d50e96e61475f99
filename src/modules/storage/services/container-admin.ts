/** What operators do with containers beyond making them. */
import type { Caller } from '../../../kernel/caller.ts';
import type { Queryable } from '../../../kernel/database/database.ts';
import { storageErrors } from '../errors.ts';
import { containerEvent } from '../events.ts';
import { mediaTypeOf } from '../names.ts';
import {
  type ContainerChange,
  type ContainerRow,
  containerById,
  deleteContainer,
  hasFiles,
  hasPrivateFiles,
  updateContainer,
} from '../queries/containers.ts';
import { addGrowth, releaseUsage } from '../queries/counters.ts';
import { deleteFolders } from '../queries/folders.ts';
import { forgetTrashOf, hasTrash } from '../queries/trash.ts';
import { uploadsIn } from '../queries/uploads.ts';
import { requireModuleOf } from './access.ts';
import { enqueueBucketRemoval, removeBucket } from './buckets.ts';
import type { Contents } from './contents.ts';
import type { Emptying } from './emptying.ts';
import type { Placing } from './placing.ts';
import { usageReleaseOf } from './quotas.ts';
import { existing, onStore, type StorageParts } from './storage-parts.ts';

export interface ContainerAdmin {
  /** Throws CONTAINER_NOT_FOUND, PRIVATE_IN_PUBLIC, INVALID_MIME. */
  update(caller: Caller, id: string, change: Partial<ContainerChange>): Promise<ContainerRow>;
  /** Throws CONTAINER_NOT_EMPTY without `force`; with it everything in it is deleted. */
  remove(caller: Caller, id: string, force: boolean): Promise<ContainerRow>;
}

interface Dependencies {
  readonly emptying: Emptying;
  readonly contents: Contents;
  readonly placing: Pick<Placing, 'forget'>;
}

export function createContainerAdmin(
  parts: StorageParts,
  { emptying, contents, placing }: Dependencies,
): ContainerAdmin {
  const { database, events, provider, log } = parts;

  /** The container stays locked until its bucket is gone, so that nobody makes one of its name meanwhile. */
  const removeEmpty = (caller: Caller, id: string, force: boolean): Promise<ContainerRow> =>
    database.transaction(async (transaction) => {
      const found = await containerById(transaction, id, true);
      const locked = existing(found, storageErrors.CONTAINER_NOT_FOUND);
      await addGrowth(transaction, locked.name);
      const container = (await containerById(transaction, id)) ?? locked;
      await requireEmptyContainer(transaction, container, { trashToo: !force });
      if ((await uploadsIn(transaction, container.bucket)) > 0)
        throw storageErrors.CONTAINER_NOT_EMPTY({
          message: 'Files are being uploaded into the container: try again when they have ended',
        });
      await deleteFolders(transaction, container.name, '');
      const gone = await forgetTrashOf(transaction, container.name);
      await releaseUsage(
        transaction,
        gone.map(({ owner, size: bytes, files }) => usageReleaseOf(parts, owner, { bytes, files })),
      );
      await deleteContainer(transaction, id);
      await events.emit(transaction, caller, containerEvent('delete', container));
      await onStore(log, async () => removeBucket(transaction, await provider(), container.bucket));
      await enqueueBucketRemoval(parts, transaction, container.bucket);
      return container;
    });

  return {
    update: (caller, id, change) =>
      database.transaction(async (transaction) => {
        const found = await containerById(transaction, id, true);
        const container = existing(found, storageErrors.CONTAINER_NOT_FOUND);
        requireModuleOf(caller, container.name);
        const next = { ...container, ...change };
        if (next.isPublic && (await hasPrivateFiles(transaction, container.name)))
          throw storageErrors.PRIVATE_IN_PUBLIC({ message: 'There are private files in it' });
        next.allowedMimeTypes?.forEach(requireTypePattern);
        // A quota counts all that is there.
        await addGrowth(transaction, container.name);
        const changed = await updateContainer(transaction, id, next);
        await events.emit(transaction, caller, containerEvent('update', container));
        return existing(changed, storageErrors.CONTAINER_NOT_FOUND);
      }),
    async remove(caller, id, force) {
      const found = await containerById(database, id);
      const { name, bucket } = existing(found, storageErrors.CONTAINER_NOT_FOUND);
      requireModuleOf(caller, name);
      if (force) await emptying.all(caller, { container: name }, { forGood: true });
      await contents.release(bucket);
      const gone = await removeEmpty(caller, id, force);
      placing.forget(name);
      return gone;
    },
  };
}

/** Throws CONTAINER_NOT_EMPTY. `trashToo`: files that could be brought back to it count as well. */
export async function requireEmptyContainer(
  database: Queryable,
  container: Pick<ContainerRow, 'name' | 'bucket'>,
  { trashToo }: { readonly trashToo: boolean },
): Promise<void> {
  const { name } = container;
  if (await hasFiles(database, container))
    throw storageErrors.CONTAINER_NOT_EMPTY({
      message: `There are files in ${name}: set force=true to delete them with it`,
    });
  if (trashToo && (await hasTrash(database, name)))
    throw storageErrors.CONTAINER_NOT_EMPTY({
      message: `Files of ${name} are in the trash: empty that first, or set force=true to lose them`,
    });
}

/** `image/png`, or `image/*` for all images. */
export function requireTypePattern(pattern: string): void {
  mediaTypeOf(pattern.endsWith('/*') ? `${pattern.slice(0, -1)}x` : pattern);
}
