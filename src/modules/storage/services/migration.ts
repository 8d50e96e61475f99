/** Contents that lie on another store than the configured one are brought there, one after the other, while they are served. */
import { system } from '../../../kernel/caller.ts';
import { storageErrors } from '../errors.ts';
import { fileById, lockFile } from '../queries/files.ts';
import {
  countElsewhere,
  filesElsewhere,
  moveTrashed,
  type TrashedPlace,
  trashElsewhere,
} from '../queries/stores.ts';
import type { Containers } from './containers.ts';
import type { Contents } from './contents.ts';
import { createSettleMove } from './file-changes.ts';
import { contentOf } from './naming.ts';
import { enqueueRemoval } from './removing.ts';
import { existing, onStore, type StorageParts } from './storage-parts.ts';
import type { TaskWork } from './tasks.ts';

interface MigrationReport {
  /** What was to be brought over when it began. */
  files: number;
  bytes: number;
  moved: number;
  movedBytes: number;
  /** Files that could not be brought over; the first of them by id. */
  failed: number;
  failures: string[];
}

const PAGE = 50;
const EXAMPLES = 100;
const FIRST = '00000000-0000-0000-0000-000000000000';

export function createMigration(
  parts: StorageParts,
  dependencies: { readonly containers: Containers; readonly contents: Contents },
): TaskWork {
  const { database, log } = parts;
  const { moveFile, moveTrashed } = createContentMoves(parts, dependencies);

  const moveCounted = async (id: string, report: MigrationReport): Promise<void> => {
    try {
      report.movedBytes += await moveFile(id);
      report.moved += 1;
    } catch (error) {
      log.warn({ err: error, file: id }, 'A file could not be brought to the other store');
      report.failed += 1;
      if (report.failures.length < EXAMPLES) report.failures.push(id);
    }
  };

  /** A page of it. Answers whether nothing is left. */
  const moveTrash = async (store: string, isOver: () => boolean): Promise<boolean> => {
    for (const trashed of await trashElsewhere(database, { store, limit: PAGE })) {
      if (isOver()) return false;
      await moveTrashed(trashed);
    }
    return (await trashElsewhere(database, { store, limit: 1 })).length === 0;
  };

  return async (task, until, signal) => {
    const store = await parts.storeId();
    const report = await reportOf(parts, task.progress as Partial<MigrationReport>, store);
    let after = typeof task.position?.after === 'string' ? task.position.after : FIRST;
    const isOver = (): boolean => performance.now() > until || signal.aborted;
    const at = (isDone: boolean) => ({
      progress: { ...report },
      position: isDone ? null : { after },
    });
    for (let ids = [after]; ids.length > 0; ) {
      ids = [...(await filesElsewhere(database, { store, after, limit: PAGE }))];
      for (const id of ids) {
        if (isOver()) return at(false);
        await moveCounted(id, report);
        after = id;
      }
    }
    return at(await moveTrash(store, isOver));
  };
}

async function reportOf(
  { database }: StorageParts,
  before: Partial<MigrationReport>,
  store: string,
): Promise<MigrationReport> {
  if (before.files !== undefined)
    return {
      moved: 0,
      movedBytes: 0,
      failed: 0,
      bytes: 0,
      files: 0,
      ...before,
      failures: [...(before.failures ?? [])],
    };
  const { files, bytes } = await countElsewhere(database, store);
  return { files, bytes, moved: 0, movedBytes: 0, failed: 0, failures: [] };
}

/* One content, of a file or in the trash. */

interface ContentMoves {
  /** Answers the bytes that were moved. */
  moveFile(id: string): Promise<number>;
  moveTrashed(trashed: TrashedPlace): Promise<void>;
}

const caller = system('storage.migrate');

function createContentMoves(
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
