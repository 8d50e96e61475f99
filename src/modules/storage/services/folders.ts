/** Folders: made by name, emptied in batches. They are documents only. */
import type { Caller } from '../../../kernel/caller.ts';
import type { Database } from '../../../kernel/database/database.ts';
import { storageErrors } from '../errors.ts';
import { folderOf, ROOT } from '../names.ts';
import { containerByName } from '../queries/containers.ts';
import {
  deleteFolders,
  type FolderRow,
  folderById,
  folderHasContents,
  hasFilesBelow,
  insertFolders,
  placesAround,
} from '../queries/folders.ts';
import type { TaskRow } from '../queries/tasks.ts';
import { authorOf, isModuleContainer, isOperator, requireModuleOf } from './access.ts';
import type { Containers } from './containers.ts';
import type { Emptying } from './emptying.ts';
import type { StorageParts } from './storage-parts.ts';
import type { Tasks } from './tasks.ts';

export interface Folders {
  find(id: string): Promise<FolderRow>;
  /**
   * The folder, and whether the caller sees every folder in it or only public and own ones. Throws FOLDER_NOT_FOUND
   * where they may read neither it nor a file that is directly in it.
   */
  look(
    caller: Caller,
    id: string,
    hasReadableFile: (folder: FolderRow) => Promise<boolean>,
  ): Promise<{ readonly folder: FolderRow; readonly all: boolean }>;
  /** Makes a folder and those above it. Throws FOLDER_EXISTS where the deepest is there. */
  create(
    caller: Caller,
    request: { readonly name: string; readonly container?: string; readonly isPublic?: boolean },
  ): Promise<FolderRow>;
  /**
   * Throws FOLDER_NOT_EMPTY without `recursive`, and FILE_ACCESS_DENIED when there are files that the caller may not delete.
   * A large folder is deleted by a task, which is answered.
   */
  remove(caller: Caller, id: string, recursive: boolean): Promise<TaskRow | undefined>;
  /** Deletes the documents of a folder that has become empty. Throws FOLDER_NOT_EMPTY. */
  drop(id: string): Promise<void>;
}

export function createFolders(
  parts: StorageParts,
  {
    containers,
    emptying,
    startTask,
  }: {
    readonly containers: Containers;
    readonly emptying: Emptying;
    readonly startTask: Tasks['start'];
  },
): Folders {
  const { database, access } = parts;
  const find = async (id: string): Promise<FolderRow> => {
    const folder = await folderById(database, id);
    if (!folder) throw storageErrors.FOLDER_NOT_FOUND();
    return folder;
  };

  return {
    find,
    look: async (caller, id, hasReadableFile) =>
      look(parts, caller, await find(id), hasReadableFile),
    async create(caller, { name, container: containerName, isPublic }) {
      const folder = folderOf(name, 'name');
      if (folder === ROOT)
        throw storageErrors.INVALID_NAME({
          errors: [{ path: 'name', rule: 'name', message: 'must not be empty' }],
        });
      const container = await containers.resolve(caller, containerName, isPublic);
      access.requireCreate(caller, container.name);
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
    drop: (id) => drop(database, id),
    async remove(caller, id, recursive) {
      const folder = await find(id);
      requireModuleOf(caller, folder.container);
      await requireOwn(parts, caller, folder);
      if (!recursive && (await folderHasContents(database, folder)))
        throw storageErrors.FOLDER_NOT_EMPTY();
      await emptying.requireDeletable(caller, { folderId: id });
      if (await emptying.isLarge({ folderId: id })) {
        const userId = caller.kind === 'user' ? caller.userId : null;
        return (await startTask(caller, 'removeFolder', { folderId: id, userId })).task;
      }
      await emptying.all(caller, { folderId: id });
      await drop(database, id);
      return undefined;
    },
  };
}

async function look(
  parts: StorageParts,
  caller: Caller,
  folder: FolderRow,
  hasReadableFile: (folder: FolderRow) => Promise<boolean>,
): ReturnType<Folders['look']> {
  const all = await readsPlace(parts, caller, folder);
  const isOpen = all || (folder.isPublic && !isModuleContainer(folder.container));
  if (!isOpen && !(await hasReadableFile(folder))) throw storageErrors.FOLDER_NOT_FOUND();
  return { folder, all };
}

/** Like the files in it: by who made it, by relations, or as private files are read without relations. */
async function readsPlace(
  { access, database, config }: StorageParts,
  caller: Caller,
  { _id, createdBy, container }: FolderRow,
): Promise<boolean> {
  if (isOperator(caller)) return true;
  if (isModuleContainer(container)) return false;
  if (createdBy === authorOf(caller)) return true;
  if (config().authorization.enabled)
    return access.granted(caller, 'read', await placesAround(database, _id));
  return config().access.privateRead === 'authenticated';
}

/** Users delete folders that they made, or have a right to delete; what is in them is asked about by itself. */
async function requireOwn(
  { access, database }: StorageParts,
  caller: Caller,
  { _id, createdBy }: FolderRow,
): Promise<void> {
  if (caller.kind !== 'user' || createdBy === authorOf(caller)) return;
  if (await access.granted(caller, 'delete', await placesAround(database, _id))) return;
  throw storageErrors.FILE_ACCESS_DENIED({ message: 'You may not delete this folder' });
}

const drop = (database: Database, id: string): Promise<void> =>
  database.transaction(async (transaction) => {
    const folder = await folderById(transaction, id);
    // Whoever adds a file here holds the container as well; its folder is made again if need be.
    if (!folder || !(await containerByName(transaction, folder.container)))
      throw storageErrors.FOLDER_NOT_FOUND();
    if (await hasFilesBelow(transaction, id)) throw storageErrors.FOLDER_NOT_EMPTY();
    if ((await deleteFolders(transaction, folder.container, folder.name)) === 0)
      throw storageErrors.FOLDER_NOT_FOUND();
  });
