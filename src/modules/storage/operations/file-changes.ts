/** Changes of files by users: small contents as base64, what is said about a file, copies, moves, deletions. */
import Type from 'typebox';
import {
  defineOperation,
  type Operation,
  standardLimit,
} from '../../../kernel/operations/operation.ts';
import { storageErrors } from '../errors.ts';
import { decodeBase64, oneChunk } from '../services/content.ts';
import { FileDocument, fileDocument } from '../services/documents.ts';
import type { StorageServices } from '../services/storage-services.ts';
import { scoped } from './files.ts';
import {
  changedFields,
  checksumField,
  FileParams,
  fileFields,
  newFileFields,
  patchOf,
  preferHeaders,
  requestOf,
  Success,
  wantsOverwrite,
} from './shapes.ts';
import { TRANSFER_MS, uploadErrors } from './uploads.ts';

const facts = { surface: 'client', limit: standardLimit } as const;

export const fileChangeOperations = (services: StorageServices): readonly Operation[] => [
  createWithData(services),
  updateWithData(services),
  visibility(services),
  copy(services),
  move(services),
  remove(services),
];

const Data = Type.String({ description: 'The content as base64' });
/** Base64 takes four bytes for three; the rest is room for the other fields. */
export const jsonLimit = ({ config }: Pick<StorageServices, 'config'>): number =>
  Math.ceil((config().limits.maxJsonDataSize * 4) / 3) + 65_536;
/** A request with such a body may use as much. */
export const jsonFacts = (services: StorageServices) => {
  const bodyLimit = jsonLimit(services);
  return { bodyLimit, account: { bytesIn: bodyLimit }, heavy: true } as const;
};

/** The bytes of base64 in JSON, as a body. */
export function bodyOf({ config }: StorageServices, base64: string) {
  const bytes = decodeBase64(base64, config().limits.maxJsonDataSize);
  return { source: oneChunk(bytes), size: bytes.length };
}

const createWithData = (services: StorageServices): Operation =>
  defineOperation({
    ...facts,
    ...jsonFacts(services),
    id: 'storage.file.create',
    access: 'user',
    method: 'POST',
    path: '/storage/file',
    input: {
      headers: preferHeaders,
      query: scoped,
      body: Type.Object({ data: Data, ...newFileFields, ...checksumField }),
    },
    output: FileDocument,
    errors: [storageErrors.INVALID_BASE64, ...uploadErrors],
    summary: 'Upload a small file as base64',
    async handler({ caller }, { headers, query, body: { data: base64, upsert, ...request } }) {
      const overwrite = wantsOverwrite(upsert, headers);
      const body = bodyOf(services, base64);
      const requested = { ...requestOf(request), ...query, overwrite };
      const file = await services.files.create(caller, requested, body);
      return fileDocument(file, services.links);
    },
  });

const updateWithData = (services: StorageServices): Operation =>
  defineOperation({
    ...facts,
    ...jsonFacts(services),
    id: 'storage.file.update',
    access: 'user',
    method: 'PATCH',
    path: '/storage/file/:id',
    input: {
      params: FileParams,
      query: scoped,
      body: Type.Object({ data: Type.Optional(Data), ...changedFields }),
    },
    output: FileDocument,
    errors: [storageErrors.INVALID_BASE64, storageErrors.FILE_NOT_FOUND, ...uploadErrors],
    summary: 'Change a file',
    description: 'Its content, or what is said about it, or both.',
    async handler({ caller }, { params, query, body: { data: base64, ...patch } }) {
      const body = base64 === undefined ? undefined : bodyOf(services, base64);
      const change = { ...patchOf(patch), ...query };
      const file = await services.files.update(caller, params.id, change, body);
      return fileDocument(file, services.links);
    },
  });

const visibility = (services: StorageServices): Operation =>
  defineOperation({
    ...facts,
    id: 'storage.file.visibility',
    access: 'user',
    method: 'PATCH',
    path: '/storage/file/:id/visibility',
    audit: true,
    input: {
      params: FileParams,
      query: scoped,
      body: Type.Object({ isPublic: Type.Boolean() }),
    },
    output: FileDocument,
    errors: [
      storageErrors.FILE_NOT_FOUND,
      storageErrors.FILE_ACCESS_DENIED,
      storageErrors.PRIVATE_IN_PUBLIC,
      storageErrors.UPLOAD_CLOSED,
    ],
    summary: 'Make a file public or private',
    handler: async ({ caller }, { params, query, body }) =>
      fileDocument(
        await services.files.update(caller, params.id, { ...body, ...query }),
        services.links,
      ),
  });

const copy = (services: StorageServices): Operation =>
  defineOperation({
    ...facts,
    id: 'storage.file.copy',
    access: 'user',
    method: 'POST',
    path: '/storage/file/:id/copy',
    deadlineMs: TRANSFER_MS,
    input: {
      params: FileParams,
      query: scoped,
      headers: preferHeaders,
      body: Type.Object(newFileFields),
    },
    output: FileDocument,
    errors: [
      storageErrors.FILE_NOT_FOUND,
      storageErrors.FILE_PENDING,
      storageErrors.FILE_EXAMINED,
      storageErrors.FILE_INFECTED,
      ...uploadErrors,
    ],
    summary: 'Copy a file',
    description:
      'Into the same folder unless another is named. The copy belongs to whoever makes it.',
    async handler({ caller }, { params, query, headers, body: { upsert, ...request } }) {
      const overwrite = wantsOverwrite(upsert, headers);
      const requested = { ...requestOf(request), ...query, overwrite };
      const made = await services.files.copy(caller, params.id, requested);
      return fileDocument(made, services.links);
    },
  });

const { name, folder, container } = fileFields;

const move = (services: StorageServices): Operation =>
  defineOperation({
    ...facts,
    id: 'storage.file.move',
    access: 'user',
    method: 'POST',
    path: '/storage/file/:id/move',
    deadlineMs: TRANSFER_MS,
    input: {
      params: FileParams,
      query: scoped,
      body: Type.Object({ name, folder, container }),
    },
    output: FileDocument,
    errors: [storageErrors.FILE_NOT_FOUND, ...uploadErrors],
    summary: 'Move or rename a file',
    description: 'At once for every reader. Within a container no bytes are touched.',
    handler: async ({ caller }, { params, query, body }) =>
      fileDocument(
        await services.files.update(caller, params.id, { ...body, ...query }),
        services.links,
      ),
  });

const remove = ({ files }: StorageServices): Operation =>
  defineOperation({
    ...facts,
    id: 'storage.file.remove',
    access: 'user',
    method: 'DELETE',
    path: '/storage/file/:id',
    audit: true,
    input: { params: FileParams, query: scoped },
    output: Success,
    errors: [
      storageErrors.FILE_NOT_FOUND,
      storageErrors.FILE_ACCESS_DENIED,
      storageErrors.FILE_IN_USE,
    ],
    summary: 'Delete a file',
    description: 'Into the trash, where there is one (trash.days).',
    async handler({ caller }, { params, query: { scope } }) {
      await files.remove(caller, params.id, scope);
      return { success: true, message: 'The file is deleted' } as const;
    },
  });
