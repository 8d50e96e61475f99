/** Contents that lie on another store than the configured one are brought there, one after the other, while they are served. */
import { countElsewhere, filesElsewhere, trashElsewhere } from '../queries/stores.ts';
import type { Containers } from './containers.ts';
import { createContentMoves } from './content-moves.ts';
import type { Contents } from './contents.ts';
import type { StorageParts } from './storage-parts.ts';
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
