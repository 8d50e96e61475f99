/**
 * How bytes become the content of a file. Whatever writes to the store first commits a row that names the place
 * (`storage_uploads`); the row goes in the transaction that makes the bytes the content. Wherever a process dies, the
 * bytes are either the content of a file or named by a row or a job that deletes them, and never both.
 */
import { type Caller, callerKey } from '../../../kernel/caller.ts';
import type { Transaction } from '../../../kernel/database/database.ts';
import { newId } from '../../../kernel/ids.ts';
import { storageErrors } from '../errors.ts';
import { fileEvent } from '../events.ts';
import { discard, type ObjectPlace } from '../providers/provider.ts';
import type { ContainerRow } from '../queries/containers.ts';
import type { Growth } from '../queries/counters.ts';
import { type FileRow, knownObjects, type StoredContent } from '../queries/files.ts';
import { insertUpload, takeAndCount, type UploadKind, type UploadRow } from '../queries/uploads.ts';
import { createAbandonUpload } from './abandoned-uploads.ts';
import { onStoreOf } from './containers.ts';
import { type Content, openContent, tooLarge } from './content.ts';
import {
  createNaming,
  keyOf,
  type NamedPlace,
  type Naming,
  placeOf,
  REQUEST_SECONDS,
} from './naming.ts';
import { chargeOf, requireCounted } from './quotas.ts';
import { enqueueRemoval } from './removing.ts';
import { enqueueChecksum, enqueueScan, toScan } from './scanning.ts';
import { contentTypeOf, requireAllowed } from './sniffing.ts';
import { existing, isMissingObject, type StorageParts } from './storage-parts.ts';

/** Bytes on the store that are no content yet. */
export interface ArrivedContent {
  readonly upload: Pick<UploadRow, 'id' | 'bucket' | 'objectKey' | 'generation' | 'fileId'>;
  readonly content: StoredContent;
}

/** Of a file that is there, or of a new one, whose id is given with its place. */
export type ComingContent =
  | { readonly kind: 'create' }
  | { readonly kind: Exclude<UploadKind, 'create'>; readonly fileId: string };

export interface ExpectedContent {
  readonly container: Pick<ContainerRow, 'bucket' | 'maxFileSize' | 'allowedMimeTypes'>;
  /** By which, with the bytes themselves, the type is known. */
  readonly name: string;
  readonly mimeType: string | undefined;
  /** Bytes, where they were announced. */
  readonly size?: number | undefined;
  /** SHA-256 in hex; other bytes are never at the place. */
  readonly checksum?: string | undefined;
  /** Nobody looks at the place before the bytes are there: it is that of no signed upload. */
  readonly unseen?: boolean | undefined;
  readonly signal?: AbortSignal | undefined;
}

export interface Contents {
  /** Throws FILE_TOO_LARGE and UNSUPPORTED_TYPE for what has arrived and a container does not take. */
  requireFit(
    container: Pick<ContainerRow, 'maxFileSize' | 'allowedMimeTypes'>,
    content: Pick<StoredContent, 'size' | 'mimeType'>,
  ): void;
  /** Bytes that one file here may have. */
  limitOf(container: Pick<ContainerRow, 'maxFileSize'>): number;
  /** Stores a body. What fails leaves nothing behind. */
  receive(
    caller: Caller,
    expected: ExpectedContent & ComingContent,
    source: AsyncIterable<Buffer>,
  ): Promise<ArrivedContent>;
  /** Stores a copy of what lies elsewhere on the store. */
  copy(
    caller: Caller,
    expected: ComingContent & { readonly bucket: string },
    from: StoredContent,
  ): Promise<ArrivedContent>;
  /** Writes a body to a place that an upload names already, or will when `named` has resolved. */
  store(
    place: ObjectPlace,
    expected: ExpectedContent,
    source: AsyncIterable<Buffer>,
    named?: Promise<unknown>,
  ): Promise<StoredContent>;
  /** Ends what stands ready for uploads to come in a bucket. */
  release(bucket: string): Promise<void>;
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

interface ContentParts extends StorageParts {
  readonly naming: Naming;
}

export function createContents(shared: StorageParts): Contents {
  const parts: ContentParts = { ...shared, naming: createNaming(shared.database) };
  const giveUp = createAbandonUpload(shared);
  const abandon: Contents['abandon'] = ({ upload }) => giveUp(upload);
  const store: Contents['store'] = (place, expected, source, named) =>
    storeBody(parts, place, { ...expected, named }, source);
  return {
    limitOf: (container) => limitOf(parts, container),
    requireFit(container, { size, mimeType }) {
      const limit = limitOf(parts, container);
      if (size > limit) throw tooLarge(limit);
      requireAllowed(mimeType, container);
    },
    abandon,
    release: parts.naming.release,
    store,
    async receive(caller, expected, source) {
      const { bucket } = expected.container;
      const { upload, named } = await begin(parts, caller, { ...expected, bucket });
      try {
        const place = { bucket: upload.bucket, key: upload.objectKey };
        const content = await store(place, { ...expected, unseen: true }, source, named);
        return { upload, content };
      } catch (error) {
        await named.catch(() => undefined);
        await abandon({ upload });
        throw error;
      }
    },
    async copy(caller, expected, from) {
      const { bucket } = expected;
      const { upload, named } = await begin(parts, caller, expected);
      await named;
      try {
        await onStoreOf(parts, bucket, () =>
          copyObject(parts, from, { bucket, key: upload.objectKey }),
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

/** Names the place of what is coming, committed at once whatever transaction the request runs in. */
async function begin(
  { database, fileWrites, naming }: ContentParts,
  caller: Caller,
  coming: ComingContent & { readonly bucket: string },
): Promise<NamedPlace> {
  const { kind, bucket } = coming;
  if (kind === 'create') return naming.begin(bucket, callerKey(caller));
  const { fileId } = coming;
  const upload = await database.outside(() =>
    database.transaction(async (transaction) => {
      const generation = await fileWrites.nextGeneration(transaction, fileId);
      if (generation === undefined) throw storageErrors.FILE_NOT_FOUND();
      const made = {
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
      };
      await insertUpload(transaction, { ...made, expiresInSeconds: REQUEST_SECONDS });
      return made;
    }),
  );
  return { upload, named: Promise.resolve() };
}

/** Throws UPLOAD_CLOSED where the content was replaced or deleted since it was looked at: that is no failure of the store. */
async function copyObject(
  { provider, database }: StorageParts,
  { bucket, objectKey: key }: StoredContent,
  to: ObjectPlace,
): Promise<void> {
  try {
    await (await provider()).copy({ bucket, key }, to);
  } catch (error) {
    if (!isMissingObject(error) || (await knownObjects(database, bucket, [key])).has(key))
      throw error;
    throw storageErrors.UPLOAD_CLOSED({
      message: 'The file was changed or deleted meanwhile: try again',
      cause: error,
    });
  }
}

async function storeBody(
  parts: StorageParts,
  place: ObjectPlace,
  expected: ExpectedContent & {
    readonly named: Promise<unknown> | undefined;
  },
  source: AsyncIterable<Buffer>,
): Promise<StoredContent> {
  const { container, name, mimeType, size, signal, named, unseen } = expected;
  const began = performance.now();
  const limit = limitOf(parts, container);
  const opened = await openContent(source, limit, expected.checksum);
  const contentType = await contentTypeOf(opened.head, name, mimeType, container);
  const facts = await onStoreOf(parts, place.bucket, async () =>
    (await parts.provider()).put(
      place,
      opened.body,
      { contentType, size, after: named, isNew: true, unseen },
      signal,
    ),
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
    await parts.fileWrites.setContent(transaction, file._id, { ...content, generation }),
    storageErrors.FILE_NOT_FOUND,
  );
  if (had) await enqueueRemoval(parts, transaction, [placeOf(file)]);
  await parts.events.emit(transaction, caller, fileEvent(had ? 'update' : 'create', changed));
  await parts.events.emit(transaction, caller, fileEvent('ready', changed));
  await enqueueScan(parts, transaction, changed);
  await enqueueChecksum(parts, transaction, changed);
  await takeCounted(transaction, upload, {
    container: file.container,
    bytes: content.size - (had ? file.size : 0),
    files: had ? 0 : 1,
    charge: chargeOf(parts, file.owner),
  });
  return changed;
}

/**
 * Ends an upload and counts what it brought. The last statement of its transaction: all changes of a container or an owner
 * with a quota wait for each other from here on. Throws UPLOAD_CLOSED, QUOTA_EXCEEDED.
 */
export async function takeCounted(
  transaction: Transaction,
  { id, objectKey }: ArrivedContent['upload'],
  grown: Growth,
): Promise<void> {
  const result = await takeAndCount(transaction, { id, objectKey }, grown);
  if (result === 'gone') throw storageErrors.UPLOAD_CLOSED();
  requireCounted(result);
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
