/** Resumable uploads: tus 1.0.0 with creation, creation-with-upload, termination, expiration and checksum. */
import Type from 'typebox';
import {
  anyType,
  defineOperation,
  type Operation,
  Reply,
  standardLimit,
} from '../../../kernel/operations/operation.ts';
import type { BodyStream, OperationContext } from '../../../kernel/operations/operation-input.ts';
import { storageErrors } from '../errors.ts';
import { checksumAlgorithms, TUS_VERSION, tusExtensions } from '../services/resumable.ts';
import type { StorageServices } from '../services/storage-services.ts';
import type { TusRequest } from '../services/tus.ts';
import { FileParams } from './shapes.ts';
import { TRANSFER_MS, uploadErrors } from './uploads.ts';

/** Clients ask OPTIONS what they can rely on. */
const factsOf = ({ config }: StorageServices) =>
  ({
    surface: 'client',
    access: 'user',
    limit: standardLimit,
    output: Type.Unknown(),
    mcp: false,
    graphql: false,
    idempotency: false,
    optionsHeaders: {
      'tus-resumable': TUS_VERSION,
      'tus-version': TUS_VERSION,
      'tus-extension': [...tusExtensions, 'checksum'].join(','),
      'tus-checksum-algorithm': checksumAlgorithms.join(','),
      'tus-max-size': String(config().limits.maxFileSize),
    },
  }) as const;

const text = (description: string) => Type.Optional(Type.String({ maxLength: 8_192, description }));
const version = { 'tus-resumable': text('1.0.0') };
const chunk = {
  'content-length': text('Bytes of this request'),
  'content-type': text('application/offset+octet-stream'),
};
const tusErrors = [
  storageErrors.UPLOAD_INVALID,
  storageErrors.PROTOCOL_VERSION_UNSUPPORTED,
  storageErrors.FILE_NOT_FOUND,
  storageErrors.UPLOAD_GONE,
  storageErrors.UPLOAD_BUSY,
  storageErrors.UPLOAD_CONFLICT,
  ...uploadErrors.filter(({ code }) => code !== storageErrors.FILE_NOT_FOUND.code),
];
const otherStatuses = { 201: 'The upload has begun', 204: 'Done' };
/** The status of the protocol for a body that is not what its checksum says. */
const CHECKSUM_STATUS = 460;

export const resumableOperations = (services: StorageServices): readonly Operation[] => [
  begin(services),
  offset(services),
  append(services),
  end(services),
];

type Headers = Readonly<Record<string, string | undefined>>;

async function answer(
  services: StorageServices,
  { caller, signal }: OperationContext,
  request: Omit<TusRequest, 'signal'>,
): Promise<Reply> {
  // The protocol's library is for those who use it.
  const { answerTus } = await import('../services/tus.ts');
  const expiryMs = services.config().upload.pendingExpiry * 1_000;
  const { resumable } = services;
  const { status, headers } = await answerTus(
    { resumable, caller, expiryMs },
    { ...request, signal },
  );
  return Reply.empty(status, headers);
}

async function answerBody(
  services: StorageServices,
  context: OperationContext,
  request: Omit<TusRequest, 'signal' | 'body'> & {
    readonly body: BodyStream;
    readonly checksum: string | undefined;
  },
): Promise<Reply> {
  const { checksum, ...rest } = request;
  if (checksum === undefined) return answer(services, context, rest);
  const { checkedBody } = await import('../services/tus.ts');
  const checked = await checkedBody(request.body, checksum);
  if (!checked) return Reply.empty(CHECKSUM_STATUS, { 'tus-resumable': TUS_VERSION });
  try {
    return await answer(services, context, { ...rest, body: checked.body });
  } finally {
    await checked.close();
  }
}

const begin = (services: StorageServices): Operation =>
  defineOperation({
    ...factsOf(services),
    id: 'storage.resumable.create',
    method: 'POST',
    path: '/storage/resumable',
    bodyLimit: services.config().limits.maxFileSize,
    deadlineMs: TRANSFER_MS,
    otherStatuses,
    input: {
      headers: Type.Object({
        ...version,
        ...chunk,
        'upload-length': text('Bytes of the whole file'),
        'upload-metadata': text(
          'filename, filetype, folder, container, alias, isPublic and upsert, each with its value as base64',
        ),
        'upload-defer-length': text('Not taken: say the length'),
        'upload-concat': text('Not taken'),
        'upload-checksum': text('sha1, sha256 or md5 of this body, and its value as base64'),
      }),
      stream: { contentTypes: [anyType], description: 'The first bytes.', mayBeEmpty: true },
    },
    errors: tusErrors,
    summary: 'Begin an upload that can be continued',
    description:
      'tus 1.0.0. Answers the address of the upload; its last part is the id of the file.',
    async handler(context, { headers, stream }) {
      const { 'upload-checksum': checksum, 'content-type': type, ...rest } = headers;
      const isChunk = type === 'application/offset+octet-stream';
      const given: Headers = isChunk ? headers : rest;
      const request = { method: 'POST', headers: given } as const;
      if (!isChunk) return answer(services, context, request);
      return answerBody(services, context, { ...request, body: stream, checksum });
    },
  });

const offset = (services: StorageServices): Operation =>
  defineOperation({
    ...factsOf(services),
    id: 'storage.resumable.get',
    method: 'GET',
    path: '/storage/resumable/:id',
    input: { params: FileParams, headers: Type.Object(version) },
    errors: tusErrors,
    summary: 'Ask where an upload goes on',
    description: 'tus 1.0.0, as HEAD: `Upload-Offset`, `Upload-Length`.',
    handler: (context, { params: { id }, headers }) =>
      answer(services, context, { method: 'HEAD', id, headers }),
  });

const append = (services: StorageServices): Operation =>
  defineOperation({
    ...factsOf(services),
    id: 'storage.resumable.append',
    method: 'PATCH',
    path: '/storage/resumable/:id',
    bodyLimit: services.config().limits.maxFileSize,
    deadlineMs: TRANSFER_MS,
    otherStatuses: {
      ...otherStatuses,
      [CHECKSUM_STATUS]: 'The body is not what its checksum says',
    },
    input: {
      params: FileParams,
      headers: Type.Object({
        ...version,
        ...chunk,
        'upload-offset': text('Bytes that have come before these'),
        'upload-checksum': text('sha1, sha256 or md5 of this body, and its value as base64'),
      }),
      stream: {
        contentTypes: ['application/offset+octet-stream'],
        description: 'The next bytes.',
        mayBeEmpty: true,
      },
    },
    errors: tusErrors,
    summary: 'Continue an upload',
    description:
      'tus 1.0.0. What has come when the connection breaks is kept. The answer to the last bytes names the file in `X-File-Id`.',
    handler: (context, { params: { id }, headers, stream }) =>
      answerBody(services, context, {
        method: 'PATCH',
        id,
        headers,
        body: stream,
        checksum: headers['upload-checksum'],
      }),
  });

const end = (services: StorageServices): Operation =>
  defineOperation({
    ...factsOf(services),
    id: 'storage.resumable.remove',
    method: 'DELETE',
    path: '/storage/resumable/:id',
    otherStatuses,
    input: { params: FileParams, headers: Type.Object(version) },
    errors: tusErrors,
    summary: 'Give up an upload',
    handler: (context, { params: { id }, headers }) =>
      answer(services, context, { method: 'DELETE', id, headers }),
  });
