/** Brings one content, of a file or in the trash, to the store that is configured. */
import { system } from '../../../kernel/caller.ts';
import { storageErrors } from '../errors.ts';
import { fileById, lockFile } from '../queries/files.ts';
import { moveTrashed, type TrashedPlace } from '../queries/stores.ts';
import type { Containers } from './containers.ts';
import type { Contents } from './contents.ts';
import { createSettleMove } from './file-changes.ts';
import { contentOf } from './places.ts';
import { enqueueRemoval } from './removal.ts';
import { existing, onStore, type StorageParts } from './storage-parts.ts';

interface ContentMoves {
  /** Answers the bytes that were moved. */
  moveFile(id: string): Promise<number>;
  moveTrashed(trashed: TrashedPlace): Promise<void>;
}

const caller = system('storage.migrate');

export function createContentMoves(
  parts: StorageParts,
  { containers, contents }: { readonly containers: Containers; readonly contents: Contents },
): ContentMoves {
  const { database, log } = parts;
  const settle = createSettleMove(parts);

  return {
    async moveFile(id) {
      const file = await fileById(database, id);
      if (!file?.bucket) return 0;
      const { bucket } = await containers.resolve(caller, file.container);
      if (bucket === file.bucket) return 0;
      const to = { fileId: id, kind: 'move', bucket } as const;
      const arrived = await contents.copy(caller, to, contentOf(file));
      try {
        await database.transaction(async (transaction) => {
          const now = existing(await lockFile(transaction, id), storageErrors.FILE_NOT_FOUND);
          // New bytes have come meanwhile: they lie where they should.
          if (now.objectKey !== file.objectKey) throw storageErrors.UPLOAD_CLOSED();
          await settle(transaction, caller, now, arrived);
        });
      } catch (error) {
        await contents.abandon(arrived);
        throw error;
      }
      return file.size;
    },
    async moveTrashed(trashed) {
      const { bucket } = await containers.resolve(caller, trashed.container);
      const from = { bucket: trashed.bucket, key: trashed.objectKey };
      const to = { bucket, key: trashed.objectKey };
      await onStore(log, async () => (await parts.provider()).copy(from, to));
      await database.transaction(async (transaction) => {
        const moved = await moveTrashed(transaction, trashed, bucket);
        await enqueueRemoval(parts, transaction, [moved ? from : to]);
      });
    },
  };
}
