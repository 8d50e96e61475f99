/** Files as users and visitors ask for them. */
import Type from 'typebox';
import type { Caller } from '../../../kernel/caller.ts';
import {
  defineOperation,
  type Operation,
  Reply,
  standardLimit,
} from '../../../kernel/operations/operation.ts';
import { storageErrors } from '../errors.ts';
import type { FileRow } from '../queries/files.ts';
import { decodeBase64, oneChunk } from '../services/content.ts';
import { FileDocument, fileDocument, filePage } from '../services/documents.ts';
import { refusalOf } from '../services/signed-uploads.ts';
import type { StorageServices } from '../services/storage-services.ts';
import {
  FileParams,
  fileFields,
  filterFields,
  LegacyFileParams,
  newFileFields,
  pageOf,
  preferHeaders,
  Success,
  wantsOverwrite,
} from './shapes.ts';
import { TRANSFER_MS, uploadErrors } from './uploads.ts';

const facts = { surface: 'client', limit: standardLimit } as const;

export const binary = { 'application/octet-stream': 'The content, with its own type' } as const;
export const rangeHeaders = Type.Object({
  range: Type.Optional(Type.String({ maxLength: 200, description: 'bytes=0-99' })),
  'if-range': Type.Optional(Type.String({ maxLength: 200 })),
});

const readErrors = [
  storageErrors.FILE_NOT_PUBLIC,
  storageErrors.FILE_ACCESS_DENIED,
  storageErrors.FILE_NOT_FOUND,
  storageErrors.FILE_PENDING,
];
export const contentErrors = [
  storageErrors.RANGE_NOT_SATISFIABLE,
  storageErrors.PROVIDER_ERROR,
  storageErrors.PROVIDER_UNAVAILABLE,
];

export const fileOperations = (services: StorageServices): readonly Operation[] => [
  metadata(services),
  data(services),
  fileUrl(services),
  download(services),
  publicUrl(services),
  blob(services),
  createWithData(services),
  updateWithData(services),
  visibility(services),
  copy(services),
  move(services),
  own(services),
  remove(services),
];

/** A file that the caller may read, as it is after a look whether a new content has arrived. */
export async function readable(
  { files, access, signedUploads }: StorageServices,
  caller: Caller,
  id: string,
): Promise<FileRow> {
  const file = await files.find(id);
  await access.require(caller, 'read', file);
  return signedUploads.confirmed(file);
}

/** The same, with a content. Throws FILE_PENDING. */
export function withContent(file: FileRow): FileRow {
  if (file.generation === 0) throw refusalOf(file);
  return file;
}

const metadata = (services: StorageServices): Operation =>
  defineOperation({
    ...facts,
    id: 'storage.file.get',
    access: 'optionalUser',
    method: 'GET',
    path: '/storage/file/:id',
    input: { params: FileParams },
    output: FileDocument,
    errors: readErrors,
    summary: 'Read what is known about a file',
    handler: async ({ caller }, { params }) =>
      fileDocument(await readable(services, caller, params.id), services.links),
  });

const data = (services: StorageServices): Operation =>
  defineOperation({
    ...facts,
    id: 'storage.file.data',
    access: 'user',
    method: 'GET',
    path: '/storage/file/data/:id',
    heavy: true,
    account: { bytesOut: 128 * 1_048_576 },
    input: { params: FileParams },
    output: Type.Object({ data: Type.String({ description: 'The content as base64' }) }),
    errors: [...readErrors, ...contentErrors, storageErrors.FILE_TOO_LARGE],
    summary: 'Read a small file as base64',
    description: 'For servers that work on the bytes. To show a file, use its address.',
    handler: async ({ caller }, { params }) => {
      const file = withContent(await readable(services, caller, params.id));
      const bytes = await services.delivery.bytes(file, services.config().limits.maxJsonDataSize);
      return { data: bytes.toString('base64') };
    },
  });

const UrlQuery = Type.Object({
  redirect: Type.Optional(Type.Boolean({ description: '302 to the address' })),
  download: Type.Optional(Type.Boolean({ description: 'To be kept, not shown' })),
});

const fileUrl = (services: StorageServices): Operation =>
  defineOperation({
    ...facts,
    id: 'storage.file.url',
    access: 'optionalUser',
    method: 'GET',
    path: '/storage/getFileUrl/:id',
    input: { params: FileParams, query: UrlQuery },
    output: Type.Object({ result: Type.String() }),
    otherStatuses: { 302: 'with `redirect`' },
    errors: readErrors,
    summary: 'Get an address of the content',
    description: 'Of a private file it works for a while and for whoever has it.',
    async handler({ caller }, { params, query: { redirect = false, download = false } }) {
      const file = withContent(await readable(services, caller, params.id));
      const url = services.links.readUrl(file, download);
      return redirect ? Reply.redirect(url) : { result: url };
    },
  });

const download = (services: StorageServices): Operation =>
  defineOperation({
    ...facts,
    id: 'storage.file.download',
    access: 'user',
    method: 'GET',
    path: '/storage/download/:fileId',
    legacy: true,
    deadlineMs: TRANSFER_MS,
    input: { params: LegacyFileParams, headers: rangeHeaders },
    output: Type.String({ contentMediaType: 'application/octet-stream' }),
    streams: binary,
    otherStatuses: { 206: 'a part of it', 304: 'you have it' },
    errors: [...readErrors, ...contentErrors],
    summary: 'Download a file',
    async handler({ caller, signal }, { params, headers }) {
      const file = withContent(await readable(services, caller, params.fileId));
      const { range, 'if-range': ifRange } = headers;
      return services.delivery.reply(file, { range, ifRange, download: true, signal });
    },
  });

const publicUrl = ({ files, links }: StorageServices): Operation =>
  defineOperation({
    ...facts,
    id: 'storage.file.publicUrl',
    access: 'public',
    method: 'GET',
    path: '/storage/getUrl/:fileId',
    legacy: true,
    input: {
      params: LegacyFileParams,
      query: Type.Object({ redirect: Type.Optional(Type.Boolean()) }),
    },
    output: Type.Object({ result: Type.String(), url: Type.String() }),
    otherStatuses: { 302: 'with `redirect`' },
    errors: [storageErrors.FILE_NOT_FOUND],
    summary: 'Get the lasting address of a public file',
    description: 'A private file and none are the same here.',
    async handler(_context, { params, query: { redirect = false } }) {
      const file = await files.find(params.fileId);
      if (!file.isPublic) throw storageErrors.FILE_NOT_FOUND();
      const url = links.publicUrl(file);
      return redirect ? Reply.redirect(url) : { result: url, url };
    },
  });

const blob = (services: StorageServices): Operation =>
  defineOperation({
    ...facts,
    id: 'storage.blob.get',
    access: 'public',
    method: 'GET',
    path: '/storage/blob/:id',
    deadlineMs: TRANSFER_MS,
    anyApp: true,
    input: {
      params: FileParams,
      query: Type.Object({
        expires: Type.Optional(Type.Integer({ minimum: 0, maximum: 100_000_000_000 })),
        sig: Type.Optional(Type.String({ maxLength: 128 })),
        download: Type.Optional(Type.Boolean()),
      }),
      headers: rangeHeaders,
    },
    output: Type.String({ contentMediaType: 'application/octet-stream' }),
    streams: binary,
    otherStatuses: { 206: 'a part of it', 304: 'you have it' },
    errors: [
      storageErrors.SIGNATURE_INVALID,
      storageErrors.FILE_NOT_FOUND,
      storageErrors.FILE_PENDING,
      ...contentErrors,
    ],
    summary: 'Read the content of a file by its address',
    description:
      'Public files need no signature. A private file without one and no file are the same here.',
    async handler({ signal }, { params: { id }, query, headers }) {
      const { expires = 0, sig, download = false } = query;
      const { files, links, signedUploads, delivery } = services;
      if (sig !== undefined) links.checkRead({ fileId: id, expires, download }, sig);
      const found = await files.find(id);
      if (sig === undefined && !found.isPublic) throw storageErrors.FILE_NOT_FOUND();
      const file = withContent(await signedUploads.confirmed(found));
      const { range, 'if-range': ifRange } = headers;
      return delivery.reply(file, { range, ifRange, download, signal });
    },
  });

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
    input: { headers: preferHeaders, body: Type.Object({ data: Data, ...newFileFields }) },
    output: FileDocument,
    errors: [storageErrors.INVALID_BASE64, ...uploadErrors],
    summary: 'Upload a small file as base64',
    async handler({ caller }, { headers, body: { data: base64, upsert, ...wish } }) {
      const overwrite = wantsOverwrite(upsert, headers);
      const body = bodyOf(services, base64);
      const file = await services.files.create(caller, { ...wish, overwrite }, body);
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
      body: Type.Object({ data: Type.Optional(Data), ...fileFields }),
    },
    output: FileDocument,
    errors: [storageErrors.INVALID_BASE64, storageErrors.FILE_NOT_FOUND, ...uploadErrors],
    summary: 'Change a file',
    description: 'Its content, or what is said about it, or both.',
    async handler({ caller }, { params, body: { data: base64, ...patch } }) {
      const body = base64 === undefined ? undefined : bodyOf(services, base64);
      const file = await services.files.update(caller, params.id, patch, body);
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
    input: { params: FileParams, body: Type.Object({ isPublic: Type.Boolean() }) },
    output: FileDocument,
    errors: [
      storageErrors.FILE_NOT_FOUND,
      storageErrors.FILE_ACCESS_DENIED,
      storageErrors.PRIVATE_IN_PUBLIC,
    ],
    summary: 'Make a file public or private',
    handler: async ({ caller }, { params, body }) =>
      fileDocument(await services.files.update(caller, params.id, body), services.links),
  });

const copy = (services: StorageServices): Operation =>
  defineOperation({
    ...facts,
    id: 'storage.file.copy',
    access: 'user',
    method: 'POST',
    path: '/storage/file/:id/copy',
    deadlineMs: TRANSFER_MS,
    input: { params: FileParams, headers: preferHeaders, body: Type.Object(newFileFields) },
    output: FileDocument,
    errors: [storageErrors.FILE_NOT_FOUND, storageErrors.FILE_PENDING, ...uploadErrors],
    summary: 'Copy a file',
    description:
      'Into the same folder unless another is named. The copy belongs to whoever makes it.',
    async handler({ caller }, { params, headers, body: { upsert, ...wish } }) {
      const overwrite = wantsOverwrite(upsert, headers);
      const made = await services.files.copy(caller, params.id, { ...wish, overwrite });
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
    input: { params: FileParams, body: Type.Object({ name, folder, container }) },
    output: FileDocument,
    errors: [storageErrors.FILE_NOT_FOUND, ...uploadErrors],
    summary: 'Move or rename a file',
    description: 'At once for every reader. Within a container no bytes are touched.',
    handler: async ({ caller }, { params, body }) =>
      fileDocument(await services.files.update(caller, params.id, body), services.links),
  });

const own = (services: StorageServices): Operation =>
  defineOperation({
    ...facts,
    id: 'storage.file.list',
    access: 'user',
    method: 'GET',
    path: '/storage/files',
    heavy: true,
    input: { query: Type.Object({ ...pageOf(services), ...filterFields }) },
    output: Type.Object({ files: Type.Array(FileDocument), filesCount: Type.Integer() }),
    errors: [storageErrors.INVALID_NAME],
    summary: 'List your own files',
    handler: async ({ caller }, { query }) =>
      filePage(await services.listing.own(caller, query), services.links),
  });

const remove = ({ files }: StorageServices): Operation =>
  defineOperation({
    ...facts,
    id: 'storage.file.remove',
    access: 'user',
    method: 'DELETE',
    path: '/storage/file/:id',
    audit: true,
    input: { params: FileParams },
    output: Success,
    errors: [storageErrors.FILE_NOT_FOUND, storageErrors.FILE_ACCESS_DENIED],
    summary: 'Delete a file',
    async handler({ caller }, { params }) {
      await files.remove(caller, params.id);
      return { success: true, message: 'The file is deleted' } as const;
    },
  });
