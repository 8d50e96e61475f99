/** Folders: made by name, emptied in batches. They are documents only. */
import type { Caller } from '../../../kernel/caller.ts';
import { storageErrors } from '../errors.ts';
import { folderOf, ROOT } from '../names.ts';
import {
  containerByName,
  deleteFolders,
  type FolderRow,
  folderById,
  folderHasContents,
  insertFolders,
} from '../queries/containers.ts';
import { lockFilesUnder } from '../queries/files.ts';
import { authorOf } from './access.ts';
import type { Containers } from './containers.ts';
import type { Files } from './files.ts';
import type { StorageParts } from './storage-parts.ts';

/** Files that are deleted in one transaction. */
const BATCH = 500;

export interface Folders {
  find(id: string): Promise<FolderRow>;
  /** Makes a folder and those above it. Throws FOLDER_EXISTS where the deepest is there. */
  create(
    caller: Caller,
    wish: { readonly name: string; readonly container?: string; readonly isPublic?: boolean },
  ): Promise<FolderRow>;
  /** Throws FOLDER_NOT_EMPTY without `recursive`, and for the first file that the caller may not delete. */
  remove(caller: Caller, id: string, recursive: boolean): Promise<void>;
  /** Deletes the files under a prefix of folders (empty: all of the container), batch by batch. */
  empty(caller: Caller, container: string, prefix: string): Promise<number>;
}

export function createFolders(
  parts: StorageParts,
  { containers, files }: { readonly containers: Containers; readonly files: Files },
): Folders {
  const { database, access } = parts;
  const find = async (id: string): Promise<FolderRow> => {
    const folder = await folderById(database, id);
    if (!folder) throw storageErrors.FOLDER_NOT_FOUND();
    return folder;
  };

  const emptyBatch = (caller: Caller, container: string, prefix: string): Promise<number> =>
    database.transaction(async (transaction) => {
      const batch = await lockFilesUnder(transaction, container, prefix, BATCH);
      for (const file of batch) await access.require(caller, 'delete', file);
      if (batch.length > 0) await files.removeAll(transaction, caller, batch);
      return batch.length;
    });

  const empty = async (caller: Caller, container: string, prefix: string): Promise<number> => {
    let total = 0;
    for (let gone = BATCH; gone === BATCH; total += gone)
      gone = await emptyBatch(caller, container, prefix);
    return total;
  };

  return {
    find,
    empty,
    async create(caller, { name, container: containerName, isPublic }) {
      const folder = folderOf(name, 'name');
      if (folder === ROOT)
        throw storageErrors.INVALID_NAME({
          errors: [{ path: 'name', rule: 'name', message: 'must not be empty' }],
        });
      const container = await containers.resolve(caller, containerName, isPublic);
      await access.requireCreate(caller, container.name);
      const made = await insertFolders(database, {
        container: container.name,
        name: folder,
        isPublic: isPublic ?? container.isPublic,
        createdBy: authorOf(caller),
      });
      const deepest = made.find(({ name: one }) => one === folder);
      if (!deepest) throw storageErrors.FOLDER_EXISTS();
      return deepest;
    },
    async remove(caller, id, recursive) {
      const folder = await find(id);
      requireOwn(caller, folder);
      if (recursive) await empty(caller, folder.container, folder.name);
      await database.transaction(async (transaction) => {
        // Whoever adds a file here holds the container as well; its folder is made anew if need be.
        if (!(await containerByName(transaction, folder.container)))
          throw storageErrors.FOLDER_NOT_FOUND();
        if (!recursive && (await folderHasContents(transaction, folder)))
          throw storageErrors.FOLDER_NOT_EMPTY();
        if ((await deleteFolders(transaction, folder.container, folder.name)) === 0)
          throw storageErrors.FOLDER_NOT_FOUND();
      });
    },
  };
}

/** Users delete folders that they made; what is in them is asked about file by file. */
const requireOwn = (caller: Caller, { createdBy }: FolderRow): void => {
  if (caller.kind === 'user' && createdBy !== authorOf(caller))
    throw storageErrors.FILE_ACCESS_DENIED({ message: 'You may not delete this folder' });
};
