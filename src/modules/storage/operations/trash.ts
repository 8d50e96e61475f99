/** The trash, for users and operators alike. */
import Type from 'typebox';
import {
  defineOperation,
  type Operation,
  standardLimit,
} from '../../../kernel/operations/operation.ts';
import { storageErrors } from '../errors.ts';
import type { TrashedFile } from '../queries/trash.ts';
import { FileDocument, fileDocument } from '../services/documents.ts';
import type { StorageServices } from '../services/storage-services.ts';
import { FileParams, pageOf, Success } from './shapes.ts';

const client = { surface: 'client', access: 'user', limit: standardLimit } as const;
const admin = { surface: 'admin', access: 'admin', limit: standardLimit } as const;
type Facts = typeof client | typeof admin;

const time = Type.String({ format: 'date-time' });
const Trashed = Type.Object({
  _id: Type.String({ format: 'uuid' }),
  name: Type.String(),
  folder: Type.String(),
  container: Type.String(),
  size: Type.Integer({ description: 'Bytes' }),
  mimeType: Type.Union([Type.String(), Type.Null()]),
  owner: Type.Union([Type.String(), Type.Null()]),
  deletedBy: Type.String(),
  deletedAt: time,
  expiresAt: Type.String({ format: 'date-time', description: 'When it is gone for good' }),
});

const trashedDocument = ({ bucket: _b, objectKey: _k, rest: _rest, ...file }: TrashedFile) => ({
  ...file,
  deletedAt: file.deletedAt.toISOString(),
  expiresAt: file.expiresAt.toISOString(),
});

export const trashOperations = (services: StorageServices): readonly Operation[] =>
  [client, admin].flatMap((facts) => [
    list(services, facts),
    restore(services, facts),
    remove(services, facts),
  ]);

const idOf = ({ surface }: Facts, what: string): string =>
  surface === 'client' ? `storage.trash.${what}` : `storage.adminTrash.${what}`;

const list = (services: StorageServices, facts: Facts): Operation =>
  defineOperation({
    ...facts,
    id: idOf(facts, 'list'),
    method: 'GET',
    path: '/storage/trash',
    input: {
      query: Type.Object({
        ...pageOf(services),
        container: Type.Optional(
          Type.String({ maxLength: 100, description: 'Name of the container' }),
        ),
      }),
    },
    output: Type.Object({ files: Type.Array(Trashed), filesCount: Type.Integer() }),
    summary: 'List deleted files that can be brought back',
    async handler({ caller }, { query }) {
      const { rows, count } = await services.trash.list(caller, query);
      return { files: rows.map(trashedDocument), filesCount: count };
    },
  });

const restore = ({ trash, links }: StorageServices, facts: Facts): Operation =>
  defineOperation({
    ...facts,
    id: idOf(facts, 'restore'),
    method: 'POST',
    path: '/storage/trash/:id/restore',
    audit: true,
    input: {
      params: FileParams,
      body: Type.Object({
        name: Type.Optional(
          Type.String({ maxLength: 1_024, description: 'Where the old one is taken meanwhile' }),
        ),
      }),
    },
    output: FileDocument,
    errors: [
      storageErrors.TRASHED_FILE_NOT_FOUND,
      storageErrors.CONTAINER_NOT_FOUND,
      storageErrors.INVALID_NAME,
      storageErrors.PRIVATE_IN_PUBLIC,
      storageErrors.FILE_EXISTS,
      storageErrors.QUOTA_EXCEEDED,
    ],
    summary: 'Bring a deleted file back',
    description: 'To its folder, with its id and its owner; it is shared with nobody any more.',
    handler: async ({ caller }, { params, body }) =>
      fileDocument(await trash.restore(caller, params.id, body.name), links),
  });

const remove = ({ trash }: StorageServices, facts: Facts): Operation =>
  defineOperation({
    ...facts,
    id: idOf(facts, 'remove'),
    method: 'DELETE',
    path: '/storage/trash/:id',
    audit: true,
    input: { params: FileParams },
    output: Success,
    errors: [storageErrors.TRASHED_FILE_NOT_FOUND],
    summary: 'Delete a file for good',
    async handler({ caller }, { params }) {
      await trash.remove(caller, params.id);
      return { success: true, message: 'The file is gone for good' } as const;
    },
  });
