/**
 * How bytes become the content of a file. Whatever writes to the store first commits a row that names the place
 * (`storage_uploads`); the row goes in the transaction that makes the bytes the content. Wherever a process dies, the
 * bytes are either the content of a file or named by a row or a job that deletes them, and never both.
 */
import { AsyncLocalStorage } from 'node:async_hooks';
import { type Caller, callerKey } from '../../../kernel/caller.ts';
import type { Transaction } from '../../../kernel/database/database.ts';
import { newId } from '../../../kernel/ids.ts';
import { offAccount } from '../../../kernel/request-account/request-account.ts';
import { storageErrors } from '../errors.ts';
import { fileEvent } from '../events.ts';
import { discard, type ObjectPlace } from '../providers/provider.ts';
import type { ContainerRow, Growth } from '../queries/containers.ts';
import { nextGeneration, setContent } from '../queries/file-writes.ts';
import type { FileRow, StoredContent } from '../queries/files.ts';
import {
  insertUpload,
  insertUploads,
  takeAndCount,
  takeUpload,
  type UploadKind,
  type UploadRow,
} from '../queries/uploads.ts';
import { enqueueChecksum } from './checksums.ts';
import { type Content, openContent } from './content.ts';
import { keyOf, placeOf } from './places.ts';
import { enqueueRemoval } from './removal.ts';
import { enqueueScan, toScan } from './scanning.ts';
import { contentTypeOf } from './sniffing.ts';
import { existing, onStore, type StorageParts } from './storage-parts.ts';

/** Seconds in which a request that brings bytes itself has ended, whatever became of it. */
const REQUEST_SECONDS = 2 * 3_600;

/** Bytes on the store that are no content yet. */
export interface ArrivedContent {
  readonly upload: Pick<UploadRow, 'id' | 'bucket' | 'objectKey' | 'generation' | 'fileId'>;
  readonly content: StoredContent;
}

export interface ExpectedContent {
  readonly fileId: string;
  readonly kind: UploadKind;
  readonly container: Pick<ContainerRow, 'bucket' | 'maxFileSize' | 'allowedMimeTypes'>;
  /** By which, with the bytes themselves, the type is known. */
  readonly name: string;
  readonly mimeType: string | undefined;
  /** Bytes, where they were announced. */
  readonly size?: number | undefined;
  readonly signal?: AbortSignal | undefined;
}

export interface Contents {
  /** Bytes that one file here may have. */
  limitOf(container: Pick<ContainerRow, 'maxFileSize'>): number;
  /** Stores a body. What fails leaves nothing behind. */
  receive(
    caller: Caller,
    expected: ExpectedContent,
    source: AsyncIterable<Buffer>,
  ): Promise<ArrivedContent>;
  /** Stores a copy of what lies elsewhere on the store. */
  copy(
    caller: Caller,
    expected: Pick<ExpectedContent, 'fileId' | 'kind'> & { readonly bucket: string },
    from: StoredContent,
  ): Promise<ArrivedContent>;
  /** Writes a body to a place that an upload names already, or will when `named` has resolved. */
  store(
    place: ObjectPlace,
    expected: Omit<ExpectedContent, 'fileId' | 'kind'>,
    source: AsyncIterable<Buffer>,
    named?: Promise<unknown>,
  ): Promise<StoredContent>;
  /** Gives up what has arrived, also when the request is over. */
  abandon(arrived: Pick<ArrivedContent, 'upload'>): Promise<void>;
  /** Makes what has arrived the content of a locked file; the content before it is deleted. Throws UPLOAD_CLOSED, QUOTA_EXCEEDED. */
  replace(
    transaction: Transaction,
    caller: Caller,
    file: FileRow,
    arrived: ArrivedContent & { readonly generation?: number },
  ): Promise<FileRow>;
}

/** Commits rows that name places, whatever transaction the request runs in. */
type NameUpload = (upload: Omit<UploadRow, 'expiresAt'>) => Promise<void>;

/** Those that come while one statement is on its way go with the next: each commit waits for the disk. */
function createNaming({ database }: StorageParts): NameUpload {
  const outside = AsyncLocalStorage.snapshot();
  type Waiting = PromiseWithResolvers<void> & { readonly upload: Omit<UploadRow, 'expiresAt'> };
  let waiting: Waiting[] = [];
  let running = false;
  const run = async (): Promise<void> => {
    running = true;
    while (waiting.length > 0) {
      const some = waiting;
      waiting = [];
      const uploads = some.map(({ upload }) => upload);
      const failed = await insertUploads(database, uploads, REQUEST_SECONDS).then(
        () => undefined,
        (error: unknown) => ({ error }),
      );
      for (const { resolve, reject } of some)
        if (failed) reject(failed.error);
        else resolve();
    }
    running = false;
  };
  return (upload) => {
    const named = Promise.withResolvers<void>();
    waiting.push({ ...named, upload });
    if (!running) void outside(run);
    return named.promise;
  };
}

interface ContentParts extends StorageParts {
  readonly name: NameUpload;
}

export function createContents(shared: StorageParts): Contents {
  const parts: ContentParts = { ...shared, name: createNaming(shared) };
  const abandon: Contents['abandon'] = ({ upload }) => giveUp(parts, upload);
  const store: Contents['store'] = (place, expected, source, named) =>
    storeBody(parts, place, { ...expected, named }, source);
  return {
    limitOf: (container) => limitOf(parts, container),
    abandon,
    store,
    async receive(caller, expected, source) {
      const { fileId, kind, container } = expected;
      const { upload, named } = await begin(parts, caller, {
        fileId,
        kind,
        bucket: container.bucket,
      });
      try {
        const place = { bucket: upload.bucket, key: upload.objectKey };
        return { upload, content: await store(place, expected, source, named) };
      } catch (error) {
        await named.catch(() => undefined);
        await abandon({ upload });
        throw error;
      }
    },
    async copy(caller, { fileId, kind, bucket }, from) {
      const { upload, named } = await begin(parts, caller, { fileId, kind, bucket });
      await named;
      try {
        await onStore(parts.log, async () =>
          (await parts.provider()).copy(
            { bucket: from.bucket, key: from.objectKey },
            { bucket, key: upload.objectKey },
          ),
        );
        const content = { ...from, bucket, objectKey: upload.objectKey };
        return { upload, content };
      } catch (error) {
        await abandon({ upload });
        throw error;
      }
    },
    replace: (transaction, caller, file, arrived) =>
      replaceContent(parts, { transaction, caller, file }, arrived),
  };
}

const limitOf = (
  { config }: StorageParts,
  { maxFileSize }: Pick<ContainerRow, 'maxFileSize'>,
): number => Math.min(config().limits.maxFileSize, maxFileSize ?? Number.POSITIVE_INFINITY);

/**
 * Names the place of what is coming, committed at once whatever transaction the request runs in. `named`: it is; nothing
 * may be found at the place before. A new file has its place without asking.
 */
async function begin(
  { database, name }: ContentParts,
  caller: Caller,
  { fileId, kind, bucket }: { fileId: string; kind: UploadKind; bucket: string },
): Promise<{ readonly upload: Omit<UploadRow, 'expiresAt'>; readonly named: Promise<unknown> }> {
  const uploadOf = (generation: number): Omit<UploadRow, 'expiresAt'> => ({
    id: newId(),
    fileId,
    kind,
    signed: false,
    bucket,
    objectKey: keyOf(fileId, generation),
    generation,
    size: null,
    mimeType: null,
    caller: callerKey(caller),
  });
  if (kind === 'create') {
    const upload = uploadOf(1);
    const named = name(upload);
    // Whoever waits for it hears of a failure, and whoever gives up before has another reason.
    named.catch(() => undefined);
    return { upload, named };
  }
  const upload = await database.outside(() =>
    database.transaction(async (transaction) => {
      const generation = await nextGeneration(transaction, fileId, undefined);
      if (generation === undefined) throw storageErrors.FILE_NOT_FOUND();
      const made = uploadOf(generation);
      await insertUpload(transaction, { ...made, expiresInSeconds: REQUEST_SECONDS });
      return made;
    }),
  );
  return { upload, named: Promise.resolve() };
}

const giveUp = (parts: StorageParts, upload: ArrivedContent['upload']): Promise<void> =>
  offAccount(() =>
    parts.database.outside(() =>
      parts.database.transaction(async (transaction) => {
        const taken = await takeUpload(transaction, upload.id, upload.objectKey);
        if (!taken) return;
        await enqueueRemoval(parts, transaction, [
          { bucket: upload.bucket, key: upload.objectKey },
        ]);
      }),
    ),
  ).catch((error: unknown) =>
    parts.log.warn(
      { err: error, upload: upload.id },
      'An upload is given up when its time is over',
    ),
  );

async function storeBody(
  parts: StorageParts,
  place: ObjectPlace,
  expected: Omit<ExpectedContent, 'fileId' | 'kind'> & {
    readonly named: Promise<unknown> | undefined;
  },
  source: AsyncIterable<Buffer>,
): Promise<StoredContent> {
  const { container, name, mimeType, size, signal, named } = expected;
  const began = performance.now();
  const opened = await openContent(source, limitOf(parts, container));
  const contentType = await contentTypeOf(opened.head, name, mimeType, container);
  const facts = await onStore(parts.log, async () =>
    (await parts.provider()).put(place, opened.body, { contentType, size, after: named }, signal),
  ).finally(() => discard(opened.body));
  parts.measures.upload((performance.now() - began) / 1_000);
  return storedContent(place, opened, { contentType, size: facts.size, scan: toScan(parts) });
}

interface Replacement {
  readonly transaction: Transaction;
  readonly caller: Caller;
  readonly file: FileRow;
}

async function replaceContent(
  parts: StorageParts,
  { transaction, caller, file }: Replacement,
  {
    upload,
    content,
    generation = upload.generation,
  }: ArrivedContent & { readonly generation?: number },
): Promise<FileRow> {
  if (generation <= file.generation) throw storageErrors.UPLOAD_CLOSED();
  const had = file.generation > 0;
  const changed = existing(
    await setContent(transaction, file._id, { ...content, generation }),
    storageErrors.FILE_NOT_FOUND,
  );
  if (had) await enqueueRemoval(parts, transaction, [placeOf(file)]);
  await parts.events.emit(transaction, caller, fileEvent(had ? 'update' : 'create', changed));
  await parts.events.emit(transaction, caller, fileEvent('ready', changed));
  await enqueueScan(parts, transaction, changed);
  await enqueueChecksum(parts, transaction, changed);
  const grown = { bytes: content.size - (had ? file.size : 0), files: had ? 0 : 1 };
  await takeCounted(transaction, upload, { container: file.container, ...grown });
  return changed;
}

/**
 * Ends an upload and counts what it brought. The last statement of its transaction: all changes of a container with a
 * quota wait for each other from here on. Throws UPLOAD_CLOSED, QUOTA_EXCEEDED.
 */
export async function takeCounted(
  transaction: Transaction,
  { id, objectKey }: ArrivedContent['upload'],
  grown: Growth,
): Promise<void> {
  const { taken, counted } = await takeAndCount(transaction, { id, objectKey }, grown);
  if (!taken) throw storageErrors.UPLOAD_CLOSED();
  if (!counted) throw storageErrors.QUOTA_EXCEEDED();
}

function storedContent(
  { bucket, key }: ObjectPlace,
  opened: Content,
  { contentType, ...rest }: { readonly contentType: string } & Pick<StoredContent, 'size' | 'scan'>,
): StoredContent {
  const { checksum } = opened.facts();
  const etag = etagOf(checksum);
  return { ...rest, bucket, objectKey: key, mimeType: contentType, checksum, etag };
}

/** The same content has the same tag, wherever it lies. */
export const etagOf = (checksum: string): string => checksum.slice(0, 32);
