/** What becomes of bytes that were sent to an address, or came to the store past us. */
import { type Caller, system } from '../../../kernel/caller.ts';
import type { Transaction } from '../../../kernel/database/database.ts';
import { PenstockError } from '../../../kernel/errors.ts';
import { storageErrors } from '../errors.ts';
import { containerByName } from '../queries/containers.ts';
import { type FileRow, fileById, lockFile, type StoredContent } from '../queries/files.ts';
import { moveUpload, takeUpload, type UploadRow, uploadById } from '../queries/uploads.ts';
import { headOf, ownPieces, tooLarge } from './content.ts';
import type { Contents } from './contents.ts';
import { makerMay, sessionGoesOn } from './makers.ts';
import { keyOf } from './naming.ts';
import { createRemoveAll, enqueueRemoval } from './removing.ts';
import { toScan } from './scanning.ts';
import { contentTypeOf } from './sniffing.ts';
import { codeOfError, onStore, type StorageParts } from './storage-parts.ts';

export interface SentBody {
  readonly source: AsyncIterable<Buffer>;
  /** Bytes, where they were announced. */
  readonly length: number | undefined;
  /** Lower case, without parameters; empty where there is none. */
  readonly contentType: string;
  /** SHA-256 in hex that it must have. */
  readonly checksum?: string | undefined;
  readonly signal: AbortSignal;
}

/** Content types that programs send when nobody has told them one. */
const unspecified = new Set(['', 'application/octet-stream', 'application/x-www-form-urlencoded']);

export interface Arrivals {
  /** Takes what is in the store as the content. Throws FILE_PENDING, and what is wrong with it. */
  confirm(upload: UploadRow, caller: Caller): Promise<FileRow>;
  /** Takes the bytes that are sent to an address of ours. */
  receive(fileId: string, uploadId: string, body: SentBody): Promise<FileRow>;
  /** Ends an upload whose time is over: what has arrived counts, the rest goes. */
  expire(upload: UploadRow): Promise<'confirmed' | 'removed'>;
}

interface ArrivalParts extends StorageParts {
  readonly contents: Contents;
}

export const createArrivals = (parts: StorageParts, contents: Contents): Arrivals => {
  const arrival: ArrivalParts = { ...parts, contents };
  return {
    confirm: (upload, caller) => confirm(arrival, upload, caller),
    receive: (fileId, uploadId, body) => receive(arrival, { fileId, uploadId }, body),
    expire: (upload) => expire(arrival, upload),
  };
};

async function containerOfUpload({ database }: StorageParts, fileId: string) {
  const file = await fileById(database, fileId);
  if (!file) throw storageErrors.FILE_NOT_FOUND();
  const container = await containerByName(database, file.container);
  if (!container) throw storageErrors.CONTAINER_NOT_FOUND();
  return { file, container };
}

/**
 * An address needs no credential: it takes what whoever asked for it may still send. Whoever confirms an upload by
 * themselves stands for it. Throws UPLOAD_CLOSED.
 */
async function requireMaker(
  parts: StorageParts,
  { caller, scope }: UploadRow,
  file: FileRow,
): Promise<void> {
  const userId = userOfKey(caller);
  if (userId === undefined || (await makerMay(parts, { userId, scope }, file, ['edit']))) return;
  throw storageErrors.UPLOAD_CLOSED({
    message: 'Whoever began this upload may not change the file any more',
  });
}

/** An address that was given out in a session ends with it. Throws UPLOAD_CLOSED. */
async function requireSession(
  parts: StorageParts,
  transaction: Transaction,
  { caller, sessionId }: UploadRow,
): Promise<void> {
  const userId = userOfKey(caller);
  if (userId === undefined || sessionId === null) return;
  if (await sessionGoesOn(parts, transaction, { userId, sessionId })) return;
  throw storageErrors.UPLOAD_CLOSED({
    message: 'The session in which this upload was begun has ended',
  });
}

/** Of `callerKey`, which also names an operator who acts as the user. */
const userOfKey = (key: string): string | undefined => /^user:([^ ]+)/.exec(key)?.[1];

const takeContent = (
  { database, contents }: ArrivalParts,
  caller: Caller,
  upload: UploadRow,
  content: StoredContent,
): Promise<FileRow> =>
  database.transaction(async (transaction) => {
    const file = await lockFile(transaction, upload.fileId);
    if (!file) throw storageErrors.FILE_NOT_FOUND();
    // A reader has looked at the store while the bytes were sent, and was faster.
    if (file.objectKey === upload.objectKey) return file;
    return contents.replace(transaction, caller, file, { upload, content });
  });

/** What was refused is deleted, and the file says why. */
const refuse = (parts: ArrivalParts, upload: UploadRow, error: unknown): Promise<void> =>
  parts.database.transaction(async (transaction) => {
    if (!(await takeUpload(transaction, upload.id, upload.objectKey))) return;
    await parts.fileWrites.setFailure(transaction, upload.fileId, upload.id, codeOfError(error));
    const place = { bucket: upload.bucket, key: upload.objectKey };
    await enqueueRemoval(parts, transaction, [place]);
  });

/** The facts of an object that came to the store past us. Throws FILE_PENDING, and what is wrong with it. */
async function inspect(parts: ArrivalParts, upload: UploadRow): Promise<StoredContent> {
  const { provider, contents, log } = parts;
  const place = { bucket: upload.bucket, key: upload.objectKey };
  const store = await provider();
  const facts = await onStore(log, () => store.head(place));
  if (!facts) throw storageErrors.FILE_PENDING();
  const { file, container } = await containerOfUpload(parts, upload.fileId);
  const limit = contents.limitOf(container);
  if (facts.size > limit) throw tooLarge(limit);
  if (upload.size !== null && upload.size !== facts.size) throw storageErrors.LENGTH_MISMATCH();
  const head = await onStore(log, () => headOf(store, place, facts.size));
  const hint = upload.mimeType ?? facts.contentType;
  const mimeType = await contentTypeOf(head, file.name, hint, container);
  return {
    bucket: upload.bucket,
    objectKey: upload.objectKey,
    size: facts.size,
    mimeType,
    checksum: undefined,
    etag: `${upload.objectKey}-${facts.etag}`.replaceAll(/[^\w.~-]/g, ''),
    scan: toScan(parts),
  };
}

async function confirm(parts: ArrivalParts, upload: UploadRow, caller: Caller): Promise<FileRow> {
  if (caller.kind === 'system')
    await requireMaker(parts, upload, (await containerOfUpload(parts, upload.fileId)).file);
  let content: StoredContent;
  try {
    content = await inspect(parts, upload);
  } catch (error) {
    const isVerdict = error instanceof PenstockError && error.status >= 400 && error.status < 500;
    if (isVerdict && error.code !== storageErrors.FILE_PENDING.code)
      await refuse(parts, upload, error);
    throw error;
  }
  return takeContent(parts, caller, upload, content);
}

async function receive(
  parts: ArrivalParts,
  { fileId, uploadId }: { readonly fileId: string; readonly uploadId: string },
  body: SentBody,
): Promise<FileRow> {
  const { database, contents } = parts;
  const known = await uploadById(database, uploadId);
  if (!known || known.fileId !== fileId) throw storageErrors.UPLOAD_CLOSED();
  const { file, container } = await containerOfUpload(parts, fileId);
  requireAnnounced(known, body);
  await requireMaker(parts, known, file);
  const upload = await database.transaction(async (transaction) => {
    await requireSession(parts, transaction, known);
    const generation = await parts.fileWrites.nextGeneration(transaction, fileId);
    const place = { objectKey: keyOf(fileId, generation ?? 0), generation: generation ?? 0 };
    const moved = generation && (await moveUpload(transaction, uploadId, place));
    if (!moved) throw storageErrors.UPLOAD_CLOSED();
    return moved;
  });
  const place = { bucket: upload.bucket, key: upload.objectKey };
  const hint =
    upload.mimeType ?? (unspecified.has(body.contentType) ? undefined : body.contentType);
  const size = upload.size ?? body.length;
  const stored = await contents.store(
    place,
    {
      container,
      name: file.name,
      mimeType: hint,
      size,
      checksum: body.checksum,
      signal: body.signal,
    },
    ownPieces(body.source),
  );
  try {
    return await takeContent(parts, system('storage.signed-upload'), upload, stored);
  } catch (error) {
    // The address still works; nobody needs these bytes whatever comes of it.
    await database.outside(() =>
      database.transaction((transaction) => enqueueRemoval(parts, transaction, [place])),
    );
    throw error;
  }
}

async function expire(parts: ArrivalParts, upload: UploadRow): Promise<'confirmed' | 'removed'> {
  if (upload.signed) {
    try {
      await confirm(parts, upload, system('storage.expire-uploads'));
      return 'confirmed';
    } catch (error) {
      if (!(error instanceof PenstockError) || error.status >= 500) throw error;
    }
  }
  await parts.database.transaction(async (transaction) => {
    if (!(await takeUpload(transaction, upload.id, upload.objectKey))) return;
    const place = { bucket: upload.bucket, key: upload.objectKey };
    await enqueueRemoval(parts, transaction, [place]);
    await dropPending(parts, transaction, upload);
  });
  return 'removed';
}

/** A file that never had a content goes with its upload. */
async function dropPending(
  parts: ArrivalParts,
  transaction: Transaction,
  upload: UploadRow,
): Promise<void> {
  const file = await lockFile(transaction, upload.fileId);
  if (!file) return;
  const fail = () => parts.fileWrites.setFailure(transaction, file._id, upload.id, 'UPLOAD_CLOSED');
  if (file.generation > 0 || file.pendingUpload !== upload.id) return void (await fail());
  const removeAll = createRemoveAll(parts);
  try {
    await parts.database.part((inner) =>
      removeAll(inner, system('storage.expire-uploads'), [file]),
    );
  } catch (error) {
    // A record holds it: it stays, and says why there is nothing in it.
    if (!(error instanceof PenstockError) || error.code !== storageErrors.FILE_IN_USE.code)
      throw error;
    await fail();
  }
}

/** What the address was given out for, and what is sent to it. */
function requireAnnounced({ size, mimeType }: UploadRow, body: SentBody): void {
  if (size !== null && body.length !== undefined && body.length !== size)
    throw storageErrors.LENGTH_MISMATCH({ message: `This address is for ${size} bytes` });
  if (mimeType !== null && !unspecified.has(body.contentType) && body.contentType !== mimeType)
    throw storageErrors.INVALID_MIME({ message: `This address is for ${mimeType}` });
}
