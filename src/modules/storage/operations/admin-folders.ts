/** Folders as operators see them. */
import Type from 'typebox';
import type { Caller } from '../../../kernel/caller.ts';
import {
  defineOperation,
  type Operation,
  standardLimit,
} from '../../../kernel/operations/operation.ts';
import { storageErrors } from '../errors.ts';
import type { FolderRow } from '../queries/folders.ts';
import { FolderDocument, folderDocument } from '../services/documents.ts';
import type { FolderFilter } from '../services/listing.ts';
import type { StorageServices } from '../services/storage-services.ts';
import { FileParams, filterFields, pageOf, taskId } from './shapes.ts';

const facts = { surface: 'admin', access: 'admin', limit: standardLimit } as const;

export const adminFolderOperations = (services: StorageServices): readonly Operation[] => [
  listFolders(services),
  createFolder(services),
  removeFolder(services),
];

export const folderFilter = {
  container: Type.Optional(Type.String({ maxLength: 100, description: 'Name of the container' })),
  parent: Type.Optional(
    Type.String({
      maxLength: 2_048,
      description: 'Folders directly in it; empty: the first level; absent: all levels',
    }),
  ),
  search: filterFields.search,
  sort: Type.Optional(
    Type.Array(Type.Enum(['name', '-name', 'createdAt', '-createdAt']), {
      maxItems: 2,
      description: 'What to order by; - in front: descending',
    }),
  ),
};

/** Folders with their documents in the form that clients get. */
export async function folderPage(
  { listing }: StorageServices,
  caller: Caller,
  filter: FolderFilter,
) {
  const { rows, count } = await listing.folders(caller, filter);
  return {
    folders: rows.map((row) => folderDocument(row as unknown as FolderRow)),
    folderCount: count,
  };
}

export const FolderList = Type.Object({
  folders: Type.Array(FolderDocument),
  folderCount: Type.Integer(),
});

const listFolders = (services: StorageServices): Operation =>
  defineOperation({
    ...facts,
    id: 'storage.folders.list',
    method: 'GET',
    path: '/storage/folders',
    input: { query: Type.Object({ ...pageOf(services), ...folderFilter }) },
    output: FolderList,
    errors: [storageErrors.INVALID_NAME],
    summary: 'List folders',
    handler: ({ caller }, { query }) => folderPage(services, caller, query),
  });

const createFolder = ({ folders }: StorageServices): Operation =>
  defineOperation({
    ...facts,
    id: 'storage.folders.create',
    method: 'POST',
    path: '/storage/folders',
    input: {
      body: Type.Object({
        name: Type.String({ maxLength: 2_048, description: 'Path: `a/b/` makes both levels' }),
        container: Type.String({ maxLength: 100, description: 'Made where it is missing' }),
        isPublic: Type.Optional(
          Type.Boolean({ description: 'Files that come into it are public' }),
        ),
      }),
    },
    output: FolderDocument,
    errors: [storageErrors.INVALID_NAME, storageErrors.FOLDER_EXISTS],
    summary: 'Make a folder',
    handler: async ({ caller }, { body }) => folderDocument(await folders.create(caller, body)),
  });

const removeFolder = ({ folders }: StorageServices): Operation =>
  defineOperation({
    ...facts,
    id: 'storage.folders.remove',
    method: 'DELETE',
    path: '/storage/folders/:id',
    deadlineMs: 300_000,
    input: {
      params: FileParams,
      query: Type.Object({
        recursive: Type.Optional(
          Type.Boolean({ default: true, description: 'False: 409 unless it is empty' }),
        ),
      }),
    },
    output: Type.Object({ result: Type.String(), task: Type.Optional(taskId) }),
    errors: [
      storageErrors.FOLDER_NOT_FOUND,
      storageErrors.FOLDER_NOT_EMPTY,
      storageErrors.FILE_IN_USE,
    ],
    summary: 'Delete a folder with all that is in it',
    description: 'With more than 5,000 files in it, it is done by a task.',
    async handler({ caller }, { params, query: { recursive = true } }) {
      const task = await folders.remove(caller, params.id, recursive);
      return { result: 'OK', ...(task && { task: task._id }) };
    },
  });
