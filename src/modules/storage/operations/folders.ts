/** Folders of users (the 0.16 line). */
import Type from 'typebox';
import {
  defineOperation,
  type Operation,
  standardLimit,
} from '../../../kernel/operations/operation.ts';
import { readWhile } from '../../../kernel/read-while.ts';
import { storageErrors } from '../errors.ts';
import type { FolderRow } from '../queries/folders.ts';
import { FileDocument, FolderDocument, filePage, folderDocument } from '../services/documents.ts';
import type { ListPage } from '../services/listing.ts';
import type { StorageServices } from '../services/storage-services.ts';
import { pageOf, Success, taskId } from './shapes.ts';

const facts = { surface: 'client', access: 'user', limit: standardLimit, legacy: true } as const;
const FolderParams = Type.Object({ folderId: Type.String({ format: 'uuid' }) });

export const folderOperations = (services: StorageServices): readonly Operation[] => [
  create(services),
  contents(services),
  remove(services),
];

const create = ({ folders }: StorageServices): Operation =>
  defineOperation({
    ...facts,
    id: 'storage.folder.create',
    method: 'POST',
    path: '/storage/folder',
    input: {
      body: Type.Object({
        name: Type.String({
          minLength: 1,
          maxLength: 2_048,
          description: 'Path: `a/b` makes both',
        }),
        isPublic: Type.Optional(Type.Boolean()),
        container: Type.Optional(
          Type.String({ maxLength: 100, description: 'Name of the container' }),
        ),
      }),
    },
    output: FolderDocument,
    errors: [
      storageErrors.INVALID_NAME,
      storageErrors.CONTAINER_CREATION_DENIED,
      storageErrors.FOLDER_EXISTS,
    ],
    summary: 'Make a folder',
    handler: async ({ caller }, { body }) => folderDocument(await folders.create(caller, body)),
  });

const contents = (services: StorageServices): Operation =>
  defineOperation({
    ...facts,
    id: 'storage.folder.contents',
    method: 'GET',
    path: '/storage/folder/:folderId',
    heavy: true,
    input: { params: FolderParams, query: Type.Object(pageOf(services)) },
    output: Type.Object({
      folder: FolderDocument,
      folders: Type.Array(FolderDocument),
      files: Type.Array(FileDocument),
      foldersCount: Type.Integer(),
      filesCount: Type.Integer(),
    }),
    errors: [storageErrors.FOLDER_NOT_FOUND],
    summary: 'List what is in a folder',
    description:
      'Its folders, and the files that you may read. Both lists are paged alike. Without a right to read the folder itself, you see it when it is public or a file directly in it is yours to read, and of its folders those that are public or yours.',
    async handler({ caller }, { params, query }) {
      const { folders, listing } = services;
      const filesIn = ({ container, name }: FolderRow, page: ListPage) =>
        listing.files(caller, { ...page, container, folder: name });
      const look = () =>
        folders.look(caller, params.folderId, async (one) => {
          const { rows } = await filesIn(one, { skip: 0, limit: 1, count: 'none' });
          return rows.length > 0;
        });
      const [folder, inside, files] = await readWhile(
        look,
        async ({ folder: one, all }) => {
          const place = { container: one.container, parent: one.name };
          return Promise.all([
            one,
            listing.folders(caller, { ...query, ...place, openTo: all ? undefined : caller }),
            filesIn(one, { ...query, sort: ['name'] }),
          ]);
        },
        (before, now) => before.all === now.all,
      );
      return {
        folder: folderDocument(folder),
        folders: inside.rows.map((row) => folderDocument(row as never)),
        foldersCount: inside.count,
        filesCount: 0,
        ...filePage(files, services.links),
      };
    },
  });

const remove = ({ folders }: StorageServices): Operation =>
  defineOperation({
    ...facts,
    id: 'storage.folder.remove',
    method: 'DELETE',
    path: '/storage/folder/:folderId',
    audit: true,
    deadlineMs: 300_000,
    input: {
      params: FolderParams,
      query: Type.Object({
        recursive: Type.Optional(
          Type.Boolean({ description: 'With all that is in it, as far as you may delete it' }),
        ),
      }),
    },
    output: Type.Object({ ...Success.properties, task: Type.Optional(taskId) }),
    errors: [
      storageErrors.FOLDER_NOT_FOUND,
      storageErrors.FOLDER_NOT_EMPTY,
      storageErrors.FILE_ACCESS_DENIED,
      storageErrors.FILE_IN_USE,
    ],
    summary: 'Delete a folder',
    description: 'With more than 5,000 files in it, it is done in the background.',
    async handler({ caller }, { params, query: { recursive = false } }) {
      const task = await folders.remove(caller, params.folderId, recursive);
      return task
        ? ({ success: true, message: 'The folder is being deleted', task: task._id } as const)
        : ({ success: true, message: 'The folder is deleted' } as const);
    },
  });
