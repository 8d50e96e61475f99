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
import { confirmedFile, rightTo } from '../services/confirmed-reads.ts';
import { FileDocument, FileList, fileDocument, filePage } from '../services/documents.ts';
import { servable } from '../services/scanning.ts';
import { refusalOf } from '../services/signed-uploads.ts';
import type { StorageServices } from '../services/storage-services.ts';
import {
  cursorFields,
  FileParams,
  filterFields,
  LegacyFileParams,
  pageOf,
  scopeField,
} from './shapes.ts';
import { TRANSFER_MS } from './uploads.ts';

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
  storageErrors.FILE_EXAMINED,
  storageErrors.FILE_INFECTED,
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
  own(services),
];

/** A file that the caller may read, as it is after a look whether a new content has arrived. */
export const readable = (
  services: StorageServices,
  caller: Caller,
  { id, ...asked }: AskedFile,
): Promise<FileRow> =>
  confirmedFile({
    find: () => services.files.find(id),
    settle: services.signedUploads.confirmed,
    ...rightTo(services, caller, { action: 'read', ...asked }),
  });

interface AskedFile {
  readonly id: string;
  readonly scope?: string | undefined;
}

/** The same, for a caller who may read what is in it. */
export async function readableContent(
  services: StorageServices,
  caller: Caller,
  { id, ...asked }: AskedFile,
): Promise<FileRow> {
  const file = await confirmedFile({
    find: () => services.files.findKnown(id),
    settle: services.signedUploads.confirmed,
    ...rightTo(services, caller, { action: 'content', ...asked }),
  });
  return withContent(services, file);
}

/** A file with a content that may be given out. Throws FILE_PENDING, FILE_EXAMINED, FILE_INFECTED. */
export function withContent({ config }: Pick<StorageServices, 'config'>, file: FileRow): FileRow {
  if (file.generation === 0) throw refusalOf(file);
  return servable(config(), file);
}

export const scoped = Type.Object(scopeField);

const metadata = (services: StorageServices): Operation =>
  defineOperation({
    ...facts,
    id: 'storage.file.get',
    access: 'optionalUser',
    method: 'GET',
    path: '/storage/file/:id',
    input: { params: FileParams, query: scoped },
    output: FileDocument,
    errors: readErrors,
    summary: 'Read what is known about a file',
    handler: async ({ caller }, { params, query }) =>
      fileDocument(await readable(services, caller, { ...params, ...query }), services.links),
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
    input: { params: FileParams, query: scoped },
    output: Type.Object({ data: Type.String({ description: 'The content as base64' }) }),
    errors: [...readErrors, ...contentErrors, storageErrors.FILE_TOO_LARGE],
    audit: services.config().audit.downloads,
    summary: 'Read a small file as base64',
    description: 'For servers that work on the bytes. To show a file, use its address.',
    handler: async ({ caller }, { params, query }) => {
      const file = await readableContent(services, caller, { ...params, ...query });
      const bytes = await services.delivery.bytes(file, services.config().limits.maxJsonDataSize);
      return { data: bytes.toString('base64') };
    },
  });

const UrlQuery = Type.Object({
  redirect: Type.Optional(Type.Boolean({ description: '302 to the address' })),
  download: Type.Optional(Type.Boolean({ description: 'To be kept, not shown' })),
  ...scopeField,
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
    async handler({ caller }, { params, query: { redirect = false, download = false, scope } }) {
      const file = await readableContent(services, caller, { ...params, scope });
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
    input: { params: LegacyFileParams, query: scoped, headers: rangeHeaders },
    output: Type.String({ contentMediaType: 'application/octet-stream' }),
    streams: binary,
    otherStatuses: { 206: 'a part of it', 304: 'you have it' },
    errors: [...readErrors, ...contentErrors],
    audit: services.config().audit.downloads,
    summary: 'Download a file',
    async handler(context, { params, query, headers }) {
      const { caller } = context;
      const file = await readableContent(services, caller, { id: params.fileId, ...query });
      const { range, 'if-range': ifRange } = headers;
      return services.delivery.reply(file, { range, ifRange, download: true, context });
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
    audit: services.config().audit.downloads,
    summary: 'Read the content of a file by its address',
    description:
      'Public files need no signature. A private file without one and no file are the same here.',
    async handler(context, { params: { id }, query, headers }) {
      const { expires = 0, sig, download = false } = query;
      const { files, links, signedUploads, delivery } = services;
      if (sig !== undefined) links.checkRead({ fileId: id, expires, download }, sig);
      const found = await files.findKnown(id);
      if (sig === undefined && !found.isPublic) throw storageErrors.FILE_NOT_FOUND();
      const current = await signedUploads.confirmed(found);
      // What has come meanwhile may be of a file that is public no longer.
      if (sig === undefined && !current.isPublic) throw storageErrors.FILE_NOT_FOUND();
      const file = withContent(services, current);
      const { range, 'if-range': ifRange } = headers;
      return delivery.reply(file, { range, ifRange, download, context });
    },
  });

const own = (services: StorageServices): Operation =>
  defineOperation({
    ...facts,
    id: 'storage.file.list',
    access: 'user',
    method: 'GET',
    path: '/storage/files',
    heavy: true,
    input: {
      query: Type.Object({
        ...pageOf(services),
        ...cursorFields,
        ...filterFields,
        ...scopeField,
        of: Type.Optional(
          Type.Enum(['own', 'readable'], {
            description:
              'Those that you (or the scope) own, unless given, or all that you may read',
          }),
        ),
      }),
    },
    output: FileList,
    errors: [storageErrors.INVALID_NAME],
    summary: 'List your files',
    async handler({ caller }, { query: { of = 'own', ...filter } }) {
      const { listing, links } = services;
      const list = of === 'own' ? listing.own : listing.files;
      return filePage(await list(caller, filter), links);
    },
  });
