/** Files as operators see them. */
import Type from 'typebox';
import {
  defineOperation,
  type Operation,
  Reply,
  standardLimit,
} from '../../../kernel/operations/operation.ts';
import { storageErrors } from '../errors.ts';
import { FileDocument, FileList, fileDocument, filePage } from '../services/documents.ts';
import type { FileFilter } from '../services/listing.ts';
import type { StorageServices } from '../services/storage-services.ts';
import { bodyOf, jsonFacts } from './file-changes.ts';
import { contentErrors, readable, withContent } from './files.ts';
import {
  changedFields,
  checksumField,
  cursorFields,
  FileParams,
  fileFields,
  filterFields,
  newFileFields,
  pageOf,
  patchOf,
  preferHeaders,
  requestOf,
  Success,
  wantsOverwrite,
} from './shapes.ts';
import {
  FORM_BYTES,
  Form,
  Signed,
  signedAnswer,
  TRANSFER_MS,
  uploadErrors,
  uploadedForm,
} from './uploads.ts';

const facts = { surface: 'admin', access: 'admin', limit: standardLimit } as const;

export const adminFileOperations = (services: StorageServices): readonly Operation[] => [
  list(services),
  get(services),
  create(services),
  upload(services),
  update(services),
  uploadAgain(services),
  remove(services),
  url(services),
  data(services),
];

const NO_OWNER = 'none';
const OwnedBy = Type.Optional(
  Type.String({
    maxLength: 300,
    pattern: `^(?:[^:]{1,100}:.{1,199}|${NO_OWNER})$`,
    description: '`Type:id`, such as `User:<id>`; `none`: files that belong to nobody',
  }),
);

const list = (services: StorageServices): Operation =>
  defineOperation({
    ...facts,
    id: 'storage.files.list',
    method: 'GET',
    path: '/storage/files',
    heavy: true,
    input: {
      query: Type.Object({
        ...pageOf(services),
        ...cursorFields,
        ...filterFields,
        ownedBy: OwnedBy,
      }),
    },
    output: FileList,
    errors: [storageErrors.INVALID_NAME],
    summary: 'List files',
    description: 'Of a container without a folder: those that are in none.',
    async handler({ caller }, { query }) {
      const folder = query.folder ?? (query.container === undefined ? undefined : '/');
      const { ownedBy, ...rest } = query;
      const owner = ownedBy === NO_OWNER ? null : ownedBy;
      const filter: FileFilter = { ...rest, folder, owner };
      return filePage(await services.listing.files(caller, filter), services.links);
    },
  });

const get = (services: StorageServices): Operation =>
  defineOperation({
    ...facts,
    id: 'storage.files.get',
    method: 'GET',
    path: '/storage/files/:id',
    input: { params: FileParams },
    output: FileDocument,
    errors: [storageErrors.FILE_NOT_FOUND],
    summary: 'Read what is known about a file',
    handler: async ({ caller }, { params }) =>
      fileDocument(await readable(services, caller, params), services.links),
  });

const Data = Type.String({ description: 'The content as base64' });

const create = (services: StorageServices): Operation =>
  defineOperation({
    ...facts,
    ...jsonFacts(services),
    id: 'storage.files.create',
    method: 'POST',
    path: '/storage/files',
    auditChanges: ({ body }) => withoutData(body),
    input: {
      headers: preferHeaders,
      body: Type.Object({ data: Data, ...newFileFields, ...checksumField }),
    },
    output: FileDocument,
    errors: [storageErrors.INVALID_BASE64, ...uploadErrors],
    summary: 'Upload a small file as base64',
    async handler({ caller }, { headers, body: { data: base64, upsert, ...request } }) {
      const overwrite = wantsOverwrite(upsert, headers);
      const body = bodyOf(services, base64);
      return fileDocument(
        await services.files.create(caller, { ...requestOf(request), overwrite }, body),
        services.links,
      );
    },
  });

/** The audit log says what was sent: not the bytes, and of what the app keeps with a file the names. */
function withoutData(body: unknown): unknown {
  if (typeof body !== 'object' || body === null) return body;
  const { data: _data, metadata, ...rest } = body as Record<string, unknown>;
  return typeof metadata === 'object' && metadata !== null
    ? { ...rest, metadata: Object.keys(metadata) }
    : rest;
}

const upload = (services: StorageServices): Operation =>
  defineOperation({
    ...facts,
    id: 'storage.files.upload',
    method: 'POST',
    path: '/storage/files/upload',
    deadlineMs: TRANSFER_MS,
    auditAtEnd: true,
    input: {
      headers: preferHeaders,
      body: Type.Object({
        ...newFileFields,
        size: Type.Optional(Type.Integer({ minimum: 0, default: 0, description: 'Bytes' })),
      }),
      stream: {
        contentTypes: ['multipart/form-data'],
        description: 'A form with one file.',
        limit: services.config().limits.maxFileSize + FORM_BYTES,
        schema: Form,
      },
    },
    output: Signed,
    errors: [storageErrors.UPLOAD_INVALID, ...uploadErrors],
    summary: 'Upload a file',
    async handler(context, { headers, body, stream }) {
      if (stream) return uploadedForm(services, context, { stream, headers });
      const { upsert, size = 0, ...request } = body ?? {};
      const overwrite = wantsOverwrite(upsert, headers);
      const { signedUploads } = services;
      return signedAnswer(
        services,
        await signedUploads.begin(context.caller, { ...requestOf(request), overwrite }, size),
      );
    },
  });

const update = (services: StorageServices): Operation =>
  defineOperation({
    ...facts,
    ...jsonFacts(services),
    id: 'storage.files.update',
    method: 'PATCH',
    path: '/storage/files/:id',
    auditChanges: ({ body }) => withoutData(body),
    input: {
      params: FileParams,
      body: Type.Object({
        data: Type.Optional(Data),
        ...changedFields,
        isPublic: Type.Optional(Type.Boolean({ description: 'Anybody may read it' })),
      }),
    },
    output: FileDocument,
    errors: [storageErrors.INVALID_BASE64, storageErrors.FILE_NOT_FOUND, ...uploadErrors],
    summary: 'Change a file',
    async handler({ caller }, { params, body: { data: base64, ...patch } }) {
      const body = base64 === undefined ? undefined : bodyOf(services, base64);
      return fileDocument(
        await services.files.update(caller, params.id, patchOf(patch), body),
        services.links,
      );
    },
  });

const uploadAgain = (services: StorageServices): Operation =>
  defineOperation({
    ...facts,
    id: 'storage.files.uploadAgain',
    method: 'PATCH',
    path: '/storage/files/upload/:id',
    input: {
      params: FileParams,
      body: Type.Object({
        ...fileFields,
        size: Type.Optional(Type.Integer({ minimum: 0, default: 0, description: 'Bytes' })),
      }),
    },
    output: Signed,
    errors: [storageErrors.FILE_NOT_FOUND, ...uploadErrors],
    summary: 'Get an address for new content of a file',
    async handler({ caller }, { params, body: { size = 0, ...patch } }) {
      const { signedUploads } = services;
      return signedAnswer(services, await signedUploads.beginAgain(caller, params.id, patch, size));
    },
  });

const remove = ({ files }: StorageServices): Operation =>
  defineOperation({
    ...facts,
    id: 'storage.files.remove',
    method: 'DELETE',
    path: '/storage/files/:id',
    input: { params: FileParams },
    output: Success,
    errors: [storageErrors.FILE_NOT_FOUND, storageErrors.FILE_IN_USE],
    summary: 'Delete a file',
    async handler({ caller }, { params }) {
      await files.remove(caller, params.id);
      return { success: true, message: 'The file is deleted' } as const;
    },
  });

const url = (services: StorageServices): Operation =>
  defineOperation({
    ...facts,
    id: 'storage.files.url',
    method: 'GET',
    path: '/storage/files/:id/url',
    input: {
      params: FileParams,
      query: Type.Object({
        redirect: Type.Optional(
          Type.Boolean({ description: 'Answer with a redirect to the address' }),
        ),
        download: Type.Optional(
          Type.Boolean({ description: 'Browsers save it instead of showing it' }),
        ),
      }),
    },
    output: Type.Object({ result: Type.String(), url: Type.String() }),
    otherStatuses: { 302: 'with `redirect`' },
    errors: [storageErrors.FILE_NOT_FOUND, storageErrors.FILE_PENDING],
    summary: 'Get an address of the content',
    async handler({ caller }, { params, query: { redirect = false, download = false } }) {
      const file = withContent(services, await readable(services, caller, params));
      const address = services.links.readUrl(file, download);
      return redirect ? Reply.redirect(address) : { result: address, url: address };
    },
  });

const data = (services: StorageServices): Operation =>
  defineOperation({
    ...facts,
    id: 'storage.files.data',
    method: 'GET',
    path: '/storage/files/:id/data',
    heavy: true,
    account: { bytesOut: 128 * 1_048_576 },
    input: { params: FileParams },
    output: Type.Object({ data: Data }),
    errors: [
      storageErrors.FILE_NOT_FOUND,
      storageErrors.FILE_PENDING,
      storageErrors.FILE_TOO_LARGE,
      ...contentErrors,
    ],
    summary: 'Read a small file as base64',
    async handler({ caller }, { params }) {
      const file = withContent(services, await readable(services, caller, params));
      const bytes = await services.delivery.bytes(file, services.config().limits.maxJsonDataSize);
      return { data: bytes.toString('base64') };
    },
  });
