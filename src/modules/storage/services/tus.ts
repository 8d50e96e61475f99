/**
 * The protocol of resumable uploads (tus 1.0.0) by its reference server, on our own uploads. Each request has a server
 * of its own, which knows its caller: it is a handful of objects.
 */
import { createHash } from 'node:crypto';
import { Readable } from 'node:stream';
import { DataStore, Server, Upload } from '@tus/server';
import type { Caller } from '../../../kernel/caller.ts';
import type { ErrorFactory, PenstockError } from '../../../kernel/errors.ts';
import { newId } from '../../../kernel/ids.ts';
import { storageErrors } from '../errors.ts';
import { fileNameOf } from '../names.ts';
import { openSpool, spooled } from '../providers/remote/parts.ts';
import type { FileRow } from '../queries/files.ts';
import type { FileRequest } from './placing.ts';
import {
  checksumAlgorithms,
  type Resumable,
  type ResumableLock,
  TUS_VERSION,
  tusExtensions,
} from './resumable.ts';

const tusPath = '/storage/resumable';
/** Milliseconds in which a request that others wait for writes down what it has. */
const DRAIN_MS = 500;

export interface TusRequest {
  readonly method: 'POST' | 'HEAD' | 'PATCH' | 'DELETE';
  /** None: a new upload. */
  readonly id?: string | undefined;
  readonly headers: Readonly<Record<string, string | undefined>>;
  readonly body?: AsyncIterable<Buffer> | undefined;
  readonly signal: AbortSignal;
}

export interface TusAnswer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
}

export interface TusOptions {
  readonly resumable: Resumable;
  readonly caller: Caller;
  /** Milliseconds that an upload may take. */
  readonly expiryMs: number;
}

/** Headers of the protocol; others are the surface's own. */
const passed: ReadonlySet<string> = new Set([
  'tus-resumable',
  'upload-offset',
  'upload-length',
  'upload-metadata',
  'upload-expires',
  'location',
  'cache-control',
]);

const byStatus = new Map<number, ErrorFactory>([
  [404, storageErrors.FILE_NOT_FOUND],
  [409, storageErrors.UPLOAD_CONFLICT],
  [410, storageErrors.UPLOAD_GONE],
  [412, storageErrors.PROTOCOL_VERSION_UNSUPPORTED],
  [413, storageErrors.FILE_TOO_LARGE],
]);

/** Answers one request. Throws errors of the catalogue. */
export async function answerTus(options: TusOptions, request: TusRequest): Promise<TusAnswer> {
  if (request.headers['tus-resumable'] !== TUS_VERSION)
    throw storageErrors.PROTOCOL_VERSION_UNSUPPORTED({ headers: { 'tus-version': TUS_VERSION } });
  let failure: unknown;
  let finished: FileRow | undefined;
  const locks = new Map<string, ResumableLock>();
  const server = new Server({
    path: tusPath,
    relativeLocation: true,
    datastore: createStore(options, locks),
    lockDrainTimeout: DRAIN_MS,
    disableTerminationForFinishedUploads: true,
    namingFunction: () => newId(),
    locker: {
      newLock: (id) => ({
        async lock(signal, cancel) {
          const given = AbortSignal.any([signal, request.signal]);
          locks.set(id, await options.resumable.lock(id, given, () => void cancel()));
        },
        async unlock() {
          await locks.get(id)?.release();
          locks.delete(id);
        },
      }),
    },
    onResponseError(_request, error) {
      if (error instanceof Error) failure = error;
      return undefined;
    },
    async onUploadFinish(_request, { id }) {
      finished = await finish(options, id, request.signal);
      return {};
    },
  });
  const response = await server.handleWeb(webRequest(request) as never);
  if (failure !== undefined) throw failure;
  if (response.status >= 400) throw await refusal(response);
  const headers = Object.fromEntries([...response.headers].filter(([name]) => passed.has(name)));
  return {
    status: response.status,
    headers: { ...headers, ...(finished && { 'x-file-id': finished._id }) },
  };
}

async function finish(
  { resumable, caller }: TusOptions,
  id: string,
  signal: AbortSignal,
): Promise<FileRow | undefined> {
  const lock = await resumable.lock(id, signal, () => undefined);
  try {
    return await resumable.finish(caller, await resumable.find(caller, id));
  } finally {
    await lock.release();
  }
}

async function refusal(response: Response): Promise<PenstockError> {
  const factory = byStatus.get(response.status) ?? storageErrors.UPLOAD_INVALID;
  return factory({
    message: (await response.text()).trim() || factory.message,
    headers: { 'tus-resumable': TUS_VERSION },
  });
}

function webRequest({ method, id, headers, body }: TusRequest): Request {
  const given = Object.entries(headers).filter(([, value]) => value !== undefined);
  return new Request(`http://localhost${tusPath}${id === undefined ? '' : `/${id}`}`, {
    method,
    headers: Object.fromEntries(given) as Record<string, string>,
    ...(body && { body: Readable.toWeb(Readable.from(body)) as never, duplex: 'half' }),
  });
}

function createStore(
  { resumable, caller, expiryMs }: TusOptions,
  locks: ReadonlyMap<string, ResumableLock>,
): DataStore {
  return Object.assign(new DataStore(), {
    extensions: [...tusExtensions],
    getExpiration: () => expiryMs,
    async create(upload: Upload): Promise<Upload> {
      const metadata = upload.metadata ?? null;
      const size = upload.size ?? 0;
      const fileRequest = requestOf(new Map(Object.entries(metadata ?? {})));
      await resumable.create(caller, { id: upload.id, size, request: fileRequest, metadata });
      upload.creation_date = new Date().toISOString();
      return upload;
    },
    async getUpload(id: string): Promise<Upload> {
      const row = await resumable.find(caller, id);
      // Whoever wrote the last byte died before there was a file.
      if (row.offset === row.size && row.fileId === null && locks.has(id))
        await resumable.finish(caller, row);
      return new Upload({
        id,
        size: row.size,
        offset: row.offset,
        ...(row.metadata && { metadata: { ...row.metadata } }),
        creation_date: row.createdAt.toISOString(),
      });
    },
    async write(source: Readable, id: string): Promise<number> {
      const row = await resumable.find(caller, id);
      const token = locks.get(id)?.token ?? '';
      return resumable.append(caller, row, token, source);
    },
    async remove(id: string): Promise<void> {
      await resumable.remove(await resumable.find(caller, id));
    },
  });
}

/** What the metadata of an upload say about its file; the usual names of clients among them. */
function requestOf(metadata: ReadonlyMap<string, string | null>): FileRequest {
  const text = (...names: readonly string[]): string | undefined =>
    names
      .map((name) => metadata.get(name))
      .find((value) => value !== undefined && value !== null && value !== '') ?? undefined;
  const flag = (name: string): boolean | undefined => {
    const value = metadata.get(name);
    if (value === undefined || value === null) return undefined;
    if (value === 'true' || value === 'false') return value === 'true';
    throw storageErrors.UPLOAD_INVALID({
      message: `Upload-Metadata: ${name} is true or false`,
      errors: [{ path: `Upload-Metadata.${name}`, rule: 'type', message: 'must be true or false' }],
    });
  };
  const given = text('filename');
  return {
    name: text('name') ?? (given && fileNameOf(given.normalize('NFC').trim())),
    alias: text('alias'),
    folder: text('folder'),
    container: text('container'),
    mimeType: text('mimeType', 'filetype', 'type'),
    isPublic: flag('isPublic'),
    overwrite: flag('upsert'),
  };
}

const algorithms: ReadonlySet<string> = new Set(checksumAlgorithms);

/**
 * The body of a request that says its checksum (`Upload-Checksum`): read as a whole and compared before any of it counts.
 * Undefined: it is another one. Throws UPLOAD_INVALID.
 */
export async function checkedBody(
  body: AsyncIterable<Buffer>,
  header: string,
): Promise<{ readonly body: Readable; close(): Promise<void> } | undefined> {
  const [algorithm = '', digest] = header.split(' ', 2);
  if (!algorithms.has(algorithm) || digest === undefined)
    throw storageErrors.UPLOAD_INVALID({
      message: 'Upload-Checksum: write sha1, sha256 or md5 and base64',
    });
  const hash = createHash(algorithm);
  const file = await openSpool();
  let size = 0;
  try {
    for await (const chunk of body) {
      hash.update(chunk);
      await file.write(chunk, 0, chunk.length, size);
      size += chunk.length;
    }
    if (hash.digest('base64') === digest)
      return { body: spooled(file, size).open(), close: () => file.close() };
  } catch (error) {
    await file.close();
    throw error;
  }
  await file.close();
  return undefined;
}
