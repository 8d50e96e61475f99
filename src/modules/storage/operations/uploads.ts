/** Uploads of users: a form with the file in it, or in two steps by an address. Both stand at one path. */
import Type from 'typebox';
import { invalid } from '../../../kernel/errors.ts';
import {
  anyType,
  defineOperation,
  type Operation,
  Reply,
  standardLimit,
} from '../../../kernel/operations/operation.ts';
import type { BodyStream, OperationContext } from '../../../kernel/operations/operation-input.ts';
import { storageErrors } from '../errors.ts';
import { fileNameOf } from '../names.ts';
import type { FileRow } from '../queries/files.ts';
import { FileDocument, fileDocument } from '../services/documents.ts';
import { readForm } from '../services/multipart.ts';
import type { FileRequest } from '../services/placing.ts';
import type { SignedUpload } from '../services/signed-uploads.ts';
import type { StorageServices } from '../services/storage-services.ts';
import {
  checksumField,
  FileParams,
  fileFields,
  newFileFields,
  preferHeaders,
  requestOf,
  scopeField,
  wantsOverwrite,
} from './shapes.ts';

const facts = { surface: 'client', limit: standardLimit } as const;
/** Milliseconds: an upload may take as long as any request may. */
export const TRANSFER_MS = 3_600_000;
/** Bytes of a form beside those of its file. */
export const FORM_BYTES = 1_048_576;

/** What any upload may be refused for. */
export const uploadErrors = [
  storageErrors.INVALID_NAME,
  storageErrors.INVALID_MIME,
  storageErrors.PRIVATE_IN_PUBLIC,
  storageErrors.LENGTH_MISMATCH,
  storageErrors.CHECKSUM_MISMATCH,
  storageErrors.FILE_ACCESS_DENIED,
  storageErrors.CONTAINER_CREATION_DENIED,
  storageErrors.CONTAINER_NOT_FOUND,
  storageErrors.FILE_EXISTS,
  storageErrors.UPLOAD_CLOSED,
  storageErrors.FILE_TOO_LARGE,
  storageErrors.QUOTA_EXCEEDED,
  storageErrors.UNSUPPORTED_TYPE,
  storageErrors.PROVIDER_ERROR,
  storageErrors.PROVIDER_UNAVAILABLE,
];

/** A form that was taken, or an address to send bytes to. */
export const Signed = Type.Object({
  file: Type.Optional(FileDocument),
  url: Type.String({ description: 'Send the bytes there, or, of a form, where to read the file' }),
  id: Type.String({ format: 'uuid', description: 'Its id' }),
  name: Type.String(),
  size: Type.Integer({ description: 'Bytes', wide: true }),
  method: Type.Optional(Type.Literal('PUT')),
  headers: Type.Optional(Type.Record(Type.String(), Type.String())),
  expiresAt: Type.Optional(Type.String({ format: 'date-time' })),
});

const { metadata: _metadata, ...formFields } = newFileFields;
/** The fields of an upload as a form. */
export const Form = Type.Object({
  file: Type.String({ contentEncoding: 'binary', description: 'The one file' }),
  ...formFields,
  ...checksumField,
});

export const uploadOperations = (services: StorageServices): readonly Operation[] => [
  upload(services),
  uploadAgain(services),
  complete(services),
  receive(services),
];

const upload = (services: StorageServices): Operation =>
  defineOperation({
    ...facts,
    id: 'storage.upload.create',
    access: 'user',
    method: 'POST',
    path: '/storage/upload',
    deadlineMs: TRANSFER_MS,
    input: {
      headers: preferHeaders,
      query: Type.Object(scopeField),
      body: Type.Object({
        ...newFileFields,
        size: Type.Optional(
          Type.Integer({ minimum: 0, default: 0, description: 'Bytes; 0: not known yet' }),
        ),
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
    description:
      'As `multipart/form-data` the file itself: its part is called `file`, fields may stand anywhere. As JSON it answers an address to which the bytes are sent with PUT and without a credential.',
    async handler(context, { headers, query: { scope }, body, stream }) {
      if (stream) return uploadedForm(services, context, { stream, headers, scope });
      const { upsert, size = 0, ...request } = body ?? {};
      const overwrite = wantsOverwrite(upsert, headers);
      const signed = await services.signedUploads.begin(
        context.caller,
        { ...requestOf(request), scope, overwrite },
        size,
      );
      return signedAnswer(services, signed);
    },
  });

/** Takes the one file of a form. Throws UPLOAD_INVALID and whatever uploads are refused for. */
export async function uploadedForm(
  { files, links }: StorageServices,
  { caller, signal }: OperationContext,
  {
    stream,
    headers,
    scope,
  }: { stream: BodyStream; headers: { prefer?: string }; scope?: string | undefined },
) {
  const { result: file } = await readForm(stream, ({ fileName, mimeType, body, fields }) => {
    const request = (): FileRequest => ({
      ...requestOfForm(fields, headers),
      scope,
      name: fields.get('name') || sanitized(fileName),
      mimeType: fields.get('mimeType') || mimeType,
    });
    const before = JSON.stringify([...fields]);
    const atEnd = () => (JSON.stringify([...fields]) === before ? undefined : request());
    const { length: atMost } = stream;
    return files.create(caller, request(), { source: body, atMost, signal }, atEnd);
  });
  return {
    id: file._id,
    name: file.name,
    size: file.size,
    url: file.isPublic ? links.publicUrl(file) : links.askUrl(file._id),
  };
}

const booleans = new Map([
  ['true', true],
  ['1', true],
  ['false', false],
  ['0', false],
]);

/** The fields of a form. Throws 400 for a switch that is none. */
function requestOfForm(
  fields: ReadonlyMap<string, string>,
  headers: { prefer?: string },
): FileRequest {
  const flag = (name: string): boolean | undefined => {
    const text = fields.get(name);
    if (text === undefined || text === '') return undefined;
    const value = booleans.get(text);
    if (value === undefined) throw invalid(name, 'type', 'must be true or false');
    return value;
  };
  return {
    alias: fields.get('alias'),
    expiresAt: timeOf(fields.get('expiresAt')),
    folder: fields.get('folder'),
    container: fields.get('container'),
    checksum: checksumOf(fields.get('checksum')),
    isPublic: flag('isPublic'),
    overwrite: wantsOverwrite(flag('upsert'), headers),
  };
}

/** Throws 400 for a checksum that is none. */
function checksumOf(text: string | undefined): string | undefined {
  if (!text) return undefined;
  if (!/^[0-9a-f]{64}$/i.test(text)) throw invalid('checksum', 'format', 'must be SHA-256 in hex');
  return text;
}

/** SHA-256 in hex of what a request says its content is (RFC 9530); other algorithms are passed over. Throws 400. */
function digestOf(header: string | undefined): string | undefined {
  const said = header?.split(',').find((one) => one.trim().startsWith('sha-256='));
  if (said === undefined) return undefined;
  const [, base64] = /^sha-256=:([A-Za-z0-9+/]{43}=):$/.exec(said.trim()) ?? [];
  if (base64 === undefined) throw invalid('content-digest', 'format', 'must be sha-256=:<base64>:');
  return Buffer.from(base64, 'base64').toString('hex');
}

/** Throws 400 for a time that is none. */
function timeOf(text: string | undefined): Date | undefined {
  if (!text) return undefined;
  const at = new Date(text);
  // Also of years that the database cannot write.
  const year = at.getUTCFullYear();
  if (!(year >= 1 && year <= 9_999)) throw invalid('expiresAt', 'format', 'must be a time');
  return at;
}

/** The name that a file has on the machine of its sender, in the form that names have here. */
const sanitized = (fileName: string): string => fileNameOf(fileName.normalize('NFC').trim());

/** A begun upload as an answer. */
export function signedAnswer({ links }: StorageServices, { file, address }: SignedUpload) {
  return {
    file: fileDocument(file, links),
    id: file._id,
    name: file.name,
    size: file.size,
    url: address.url,
    method: address.method,
    headers: { ...address.headers },
    expiresAt: address.expiresAt.toISOString(),
  };
}

const uploadAgain = (services: StorageServices): Operation =>
  defineOperation({
    ...facts,
    id: 'storage.upload.update',
    access: 'user',
    method: 'PATCH',
    path: '/storage/upload/:id',
    input: {
      params: FileParams,
      query: Type.Object(scopeField),
      body: Type.Object({
        ...fileFields,
        size: Type.Optional(Type.Integer({ minimum: 0, default: 0 })),
      }),
    },
    output: Signed,
    errors: [storageErrors.FILE_NOT_FOUND, ...uploadErrors],
    summary: 'Get an address for new content of a file',
    description:
      'The file keeps its content until the new one has arrived. What else is said holds at once.',
    async handler({ caller }, { params, query: { scope }, body: { size = 0, ...said } }) {
      const { signedUploads } = services;
      const patch = { ...said, scope };
      return signedAnswer(services, await signedUploads.beginAgain(caller, params.id, patch, size));
    },
  });

const complete = ({ signedUploads, links }: StorageServices): Operation =>
  defineOperation({
    ...facts,
    id: 'storage.upload.complete',
    access: 'user',
    method: 'POST',
    path: '/storage/upload/:id/complete',
    input: { params: FileParams, query: Type.Object(scopeField) },
    output: FileDocument,
    errors: [storageErrors.FILE_NOT_FOUND, storageErrors.FILE_PENDING, ...uploadErrors],
    summary: 'Confirm an upload',
    description:
      'Looks whether the bytes have arrived and stores their real size and type. Whoever reads the file first causes the same.',
    handler: async ({ caller }, { params, query: { scope } }) =>
      fileDocument(await signedUploads.complete(caller, params.id, scope), links),
  });

const receive = ({ signedUploads, links, config }: StorageServices): Operation =>
  defineOperation({
    ...facts,
    id: 'storage.blob.put',
    access: 'public',
    method: 'PUT',
    path: '/storage/blob/:id',
    bodyLimit: config().limits.maxFileSize,
    deadlineMs: TRANSFER_MS,
    anyApp: true,
    input: {
      params: FileParams,
      query: Type.Object({
        upload: Type.String({ format: 'uuid' }),
        expires: Type.Integer({ minimum: 0, maximum: 100_000_000_000 }),
        sig: Type.String({ maxLength: 128 }),
      }),
      headers: Type.Object({
        'content-digest': Type.Optional(
          Type.String({
            maxLength: 1_024,
            description:
              'What the content is, such as `sha-256=:<base64>:`: anything else is refused',
          }),
        ),
      }),
      stream: { contentTypes: [anyType], description: 'The bytes.', mayBeEmpty: true },
    },
    output: Type.Object({ success: Type.Literal(true), size: Type.Integer({ wide: true }) }),
    errors: [storageErrors.SIGNATURE_INVALID, storageErrors.FILE_NOT_FOUND, ...uploadErrors],
    summary: 'Send the bytes of a file to a signed address',
    async handler({ signal }, { params, headers, query, stream }) {
      const { upload: uploadId, expires, sig } = query;
      links.checkWrite({ fileId: params.id, uploadId, expires }, sig);
      const { length, contentType } = stream;
      const checksum = digestOf(headers['content-digest']);
      const body = { source: stream, length, contentType, checksum, signal };
      const file: FileRow = await signedUploads.receive(params.id, uploadId, body);
      return Reply.value({ success: true, size: file.size }, { etag: `"${file.etag}"` });
    },
  });
