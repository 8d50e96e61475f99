/**
 * Files as they were read a moment ago, for those who read contents: films, maps and pictures are asked for part by part,
 * and by many. What a file is and who may read it is decided by what stands here, so it goes when the transaction that
 * changes a file commits, on every node and before whoever changed it is answered (`Cache`); a node in doubt reads the
 * database (docs/decisions/041).
 */
import type { Kernel } from '../../../host/kernel.ts';
import type { Transaction } from '../../../kernel/database/database.ts';
import { createFileWrites, type FileWrites } from '../queries/file-writes.ts';
import { type FileRow, fileById } from '../queries/files.ts';

export interface KnownFiles {
  /** Without a promise where it is known. Inside of a transaction always as the database has it. */
  find(id: string): FileRow | undefined | Promise<FileRow | undefined>;
  /** They change, or go, in this transaction. All changes of files say so. */
  changing(transaction: Transaction, ids: readonly string[]): void;
}

interface FilesInMemory {
  readonly knownFiles: KnownFiles;
  readonly fileWrites: FileWrites;
}

/** Milliseconds. The answer to a commit may be lost with its connection: then nobody is told of what it changed. */
const KEPT_MS = 2_000;
const MAX_KEPT = 2_000;
/** As the database writes ids: changes are told under that one. */
const asKept = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

/** They belong to the process, also while the module is switched off and on. */
const opened = new WeakMap<object, FilesInMemory>();

/** What of the kernel they are made of. */
export type FilesKernel = Pick<Kernel, 'database' | 'caches'>;

export function filesInMemory(kernel: FilesKernel): FilesInMemory {
  const known = opened.get(kernel.caches);
  if (known) return known;
  const made = createFilesInMemory(kernel);
  opened.set(kernel.caches, made);
  return made;
}

function createFilesInMemory({ database, caches }: FilesKernel): FilesInMemory {
  const cache = caches.create<FileRow>({
    name: 'storage.files',
    maxEntries: MAX_KEPT,
    ttlMs: KEPT_MS,
  });
  const changing: KnownFiles['changing'] = (transaction, ids) => {
    if (ids.length > 0) transaction.afterCommit(() => cache.invalidate(ids), { alsoInDoubt: true });
  };
  return {
    fileWrites: createFileWrites(changing),
    knownFiles: {
      changing,
      find(asked) {
        const id = asked.toLowerCase();
        if (database.inTransaction() || !asKept.test(id)) return fileById(database, asked);
        return cache.get(id) ?? cache.load(id, () => fileById(database, id));
      },
    },
  };
}
