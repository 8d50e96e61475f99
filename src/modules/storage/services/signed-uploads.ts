/**
 * Uploads in two steps: an address is given out, and the bytes are sent to it by somebody who needs no credential. The
 * file is pending until they have come; one that has a content keeps it until then.
 */
import { type Caller, callerKey, system } from '../../../kernel/caller.ts';
import type { Transaction } from '../../../kernel/database/database.ts';
import { PenstockError } from '../../../kernel/errors.ts';
import { newId } from '../../../kernel/ids.ts';
import { storageErrors } from '../errors.ts';
import { fileEvent } from '../events.ts';
import { type ContainerRow, containerByName } from '../queries/containers.ts';
import {
  type FileRow,
  fileById,
  lockFile,
  nextGeneration,
  type StoredContent,
  setFailure,
} from '../queries/files.ts';
import {
  insertUpload,
  moveUpload,
  takeUpload,
  type UploadRow,
  uploadById,
} from '../queries/uploads.ts';
import { HEAD_BYTES, tooLarge } from './content.ts';
import { contentTypeOf } from './content-types.ts';
import { type Contents, keyOf } from './contents.ts';
import type { FilePatch } from './file-changes.ts';
import type { Files } from './files.ts';
import type { FileWish, Placing } from './placing.ts';
import { enqueueRemoval } from './removal.ts';
import { codeOfError, onStore, type StorageParts } from './storage-parts.ts';

/** Where bytes are to be sent. */
export interface UploadAddress {
  readonly url: string;
  readonly method: 'PUT';
  /** What the request must say. */
  readonly headers: Readonly<Record<string, string>>;
  readonly expiresAt: Date;
}

export interface SignedUpload {
  readonly file: FileRow;
  readonly address: UploadAddress;
}

export interface SentBody {
  readonly source: AsyncIterable<Buffer>;
  /** Bytes, where they were announced. */
  readonly length: number | undefined;
  /** Lower case, without parameters; empty where there is none. */
  readonly contentType: string;
  readonly signal: AbortSignal;
}

export interface SignedUploads {
  begin(caller: Caller, wish: FileWish, size: number): Promise<SignedUpload>;
  /** New bytes for a file that is there. What else is said about it holds at once. */
  beginAgain(caller: Caller, id: string, patch: FilePatch, size: number): Promise<SignedUpload>;
  /** Takes the bytes that are sent to an address of ours. Whoever comes here has a valid signature. */
  receive(fileId: string, uploadId: string, body: SentBody): Promise<FileRow>;
  /** Confirms that the bytes are there. Throws FILE_PENDING, and why they are refused. */
  complete(caller: Caller, id: string): Promise<FileRow>;
  /** The same for whoever reads, who is told nothing: the file as it is after a look at the store. */
  confirmed(file: FileRow): Promise<FileRow>;
  /** Ends an upload whose time is over: what has arrived counts, the rest goes. */
  expire(upload: UploadRow): Promise<'confirmed' | 'removed'>;
}

/** Content types that programs send when nobody has told them one. */
const unsaid = new Set(['', 'application/octet-stream', 'application/x-www-form-urlencoded']);

interface Dependencies {
  readonly contents: Contents;
  readonly placing: Placing;
  readonly files: Files;
}

export function createSignedUploads(
  parts: StorageParts,
  { contents, placing, files }: Dependencies,
): SignedUploads {
  const { database, access, config, log } = parts;
  const addresses = createAddresses(parts);
  const arrivals = createArrivals(parts, contents);

  const requireSize = (size: number, container: ContainerRow): void => {
    const limit = contents.limitOf(container);
    if (size > limit) throw tooLarge(limit);
  };

  const open = async (
    transaction: Transaction,
    caller: Caller,
    upload: Pick<UploadRow, 'id' | 'fileId' | 'bucket' | 'generation' | 'size' | 'mimeType'>,
  ): Promise<void> => {
    await insertUpload(transaction, {
      ...upload,
      kind: 'replace',
      signed: true,
      objectKey: keyOf(upload.fileId, upload.generation),
      caller: callerKey(caller),
      expiresInSeconds: Math.max(config().upload.pendingExpiry, config().upload.urlExpiry),
    });
  };

  const beginAgain: SignedUploads['beginAgain'] = async (caller, id, patch, size) => {
    const file = await files.update(caller, id, patch);
    const container = await containerByName(database, file.container);
    if (!container) throw storageErrors.CONTAINER_NOT_FOUND();
    requireSize(size, container);
    const uploadId = newId();
    const upload = await database.transaction(async (transaction) => {
      const generation = await nextGeneration(transaction, id, uploadId);
      if (generation === undefined) throw storageErrors.FILE_NOT_FOUND();
      const made = {
        id: uploadId,
        fileId: id,
        bucket: container.bucket,
        generation,
        size: size || null,
        mimeType: patch.mimeType ?? null,
      };
      await open(transaction, caller, made);
      return made;
    });
    return { file: await files.find(id), address: await addresses.of(upload) };
  };

  return {
    beginAgain,
    async begin(caller, wish, size) {
      const placement = await placing.place(caller, wish);
      const { container, mimeType } = placement;
      requireSize(size, container);
      if (mimeType) await contentTypeOf(Buffer.alloc(0), placement.name, mimeType, container);
      const [fileId, uploadId] = [newId(), newId()];
      const upload = {
        id: uploadId,
        fileId,
        bucket: container.bucket,
        generation: 1,
        size: size || null,
        mimeType: mimeType ?? null,
      };
      const placed = await database.transaction(async (transaction) => {
        const rest = { id: fileId, size, pendingUpload: uploadId };
        const done = await placing.insert(transaction, caller, placement, rest);
        if ('made' in done) await open(transaction, caller, upload);
        return done;
      });
      if ('there' in placed) return beginAgain(caller, placed.there._id, {}, size);
      return { file: placed.made, address: await addresses.of(upload) };
    },
    receive: arrivals.receive,
    async complete(caller, id) {
      const file = await files.find(id);
      await access.require(caller, 'edit', file);
      const upload = file.pendingUpload
        ? await uploadById(database, file.pendingUpload)
        : undefined;
      if (upload) return arrivals.confirm(upload, caller);
      if (file.generation > 0) return file;
      throw refusalOf(file);
    },
    async confirmed(file) {
      if (file.pendingUpload === null) return file;
      const upload = await uploadById(database, file.pendingUpload);
      if (!upload) return file;
      try {
        return await arrivals.confirm(upload, system('storage.first-read'));
      } catch (error) {
        if (!(error instanceof PenstockError)) throw error;
        log.debug({ err: error, file: file._id }, 'A signed upload is not there yet');
        return files.find(file._id);
      }
    },
    expire: arrivals.expire,
  };
}

/** Why a file without a content cannot be read. */
export const refusalOf = ({ failure }: FileRow): PenstockError =>
  failure === null
    ? storageErrors.FILE_PENDING()
    : storageErrors.FILE_PENDING({
        message: `What was sent for this file was refused (${failure}): send it again`,
      });

function createAddresses({ config, provider, links, log }: StorageParts) {
  return {
    async of(
      upload: Pick<UploadRow, 'id' | 'fileId' | 'bucket' | 'generation' | 'size' | 'mimeType'>,
    ): Promise<UploadAddress> {
      const { id, fileId, bucket, generation, size, mimeType } = upload;
      const headers: Record<string, string> = mimeType === null ? {} : { 'content-type': mimeType };
      const store = config().upload.direct ? await provider() : undefined;
      if (!store?.capabilities.signedRequests)
        return { ...links.writeUrl(fileId, id), method: 'PUT', headers };
      const signed = await onStore(log, () =>
        store.signWrite(
          { bucket, key: keyOf(fileId, generation) },
          {
            expiresInSeconds: config().upload.urlExpiry,
            contentType: mimeType ?? 'application/octet-stream',
            size: size ?? undefined,
          },
        ),
      );
      return {
        url: signed.url,
        method: 'PUT',
        headers: signed.headers,
        expiresAt: signed.expiresAt,
      };
    },
  };
}

/** What becomes of bytes that were sent to an address. */
function createArrivals(parts: StorageParts, contents: Contents) {
  const { database, provider, events, log } = parts;

  const containerOfUpload = async (fileId: string) => {
    const file = await fileById(database, fileId);
    if (!file) throw storageErrors.FILE_NOT_FOUND();
    const container = await containerByName(database, file.container);
    if (!container) throw storageErrors.CONTAINER_NOT_FOUND();
    return { file, container };
  };

  const settle = (caller: Caller, upload: UploadRow, content: StoredContent): Promise<FileRow> =>
    database.transaction(async (transaction) => {
      const file = await lockFile(transaction, upload.fileId);
      if (!file) throw storageErrors.FILE_NOT_FOUND();
      // A reader has looked at the store while the bytes were sent, and was faster.
      if (file.objectKey === upload.objectKey) return file;
      return contents.replace(transaction, caller, file, { upload, content });
    });

  /** What was refused is deleted, and the file says why. */
  const refuse = (upload: UploadRow, error: unknown): Promise<void> =>
    database.transaction(async (transaction) => {
      if (!(await takeUpload(transaction, upload.id, upload.objectKey))) return;
      await setFailure(transaction, upload.fileId, upload.id, codeOfError(error));
      const place = { bucket: upload.bucket, key: upload.objectKey };
      await enqueueRemoval(parts, transaction, [place]);
    });

  /** The facts of an object that came to the store past us. Throws FILE_PENDING, and what is wrong with it. */
  const inspect = async (upload: UploadRow): Promise<StoredContent> => {
    const place = { bucket: upload.bucket, key: upload.objectKey };
    const store = await provider();
    const facts = await onStore(log, () => store.head(place));
    if (!facts) throw storageErrors.FILE_PENDING();
    const { file, container } = await containerOfUpload(upload.fileId);
    const limit = contents.limitOf(container);
    if (facts.size > limit) throw tooLarge(limit);
    if (upload.size !== null && upload.size !== facts.size) throw storageErrors.LENGTH_MISMATCH();
    const head =
      facts.size === 0 ? Buffer.alloc(0) : await onStore(log, () => headOf(store, place));
    const hint = upload.mimeType ?? facts.contentType;
    const mimeType = await contentTypeOf(head, file.name, hint, container);
    return {
      bucket: upload.bucket,
      objectKey: upload.objectKey,
      size: facts.size,
      mimeType,
      checksum: undefined,
      etag: `${upload.objectKey}-${facts.etag}`.replaceAll(/[^\w.~-]/g, ''),
    };
  };

  const confirm = async (upload: UploadRow, caller: Caller): Promise<FileRow> => {
    let content: StoredContent;
    try {
      content = await inspect(upload);
    } catch (error) {
      const isVerdict = error instanceof PenstockError && error.status >= 400 && error.status < 500;
      if (isVerdict && error.code !== storageErrors.FILE_PENDING.code) await refuse(upload, error);
      throw error;
    }
    return settle(caller, upload, content);
  };

  return {
    confirm,
    async receive(fileId: string, uploadId: string, body: SentBody): Promise<FileRow> {
      const known = await uploadById(database, uploadId);
      if (!known || known.fileId !== fileId) throw storageErrors.UPLOAD_CLOSED();
      const { file, container } = await containerOfUpload(fileId);
      requireAnnounced(known, body);
      const upload = await database.transaction(async (transaction) => {
        const generation = await nextGeneration(transaction, fileId, undefined);
        const place = { objectKey: keyOf(fileId, generation ?? 0), generation: generation ?? 0 };
        const moved = generation && (await moveUpload(transaction, uploadId, place));
        if (!moved) throw storageErrors.UPLOAD_CLOSED();
        return moved;
      });
      const place = { bucket: upload.bucket, key: upload.objectKey };
      const hint = upload.mimeType ?? (unsaid.has(body.contentType) ? undefined : body.contentType);
      const size = upload.size ?? body.length;
      const stored = await contents.store(
        place,
        { container, name: file.name, mimeType: hint, size, signal: body.signal },
        body.source,
      );
      try {
        return await settle(system('storage.signed-upload'), upload, stored);
      } catch (error) {
        // The address still works; these bytes are not wanted whatever comes of it.
        await database.outside(() =>
          database.transaction((transaction) => enqueueRemoval(parts, transaction, [place])),
        );
        throw error;
      }
    },
    async expire(upload: UploadRow): Promise<'confirmed' | 'removed'> {
      if (upload.signed) {
        try {
          await confirm(upload, system('storage.expire-uploads'));
          return 'confirmed';
        } catch (error) {
          if (!(error instanceof PenstockError) || error.status >= 500) throw error;
        }
      }
      await database.transaction(async (transaction) => {
        if (!(await takeUpload(transaction, upload.id, upload.objectKey))) return;
        const place = { bucket: upload.bucket, key: upload.objectKey };
        await enqueueRemoval(parts, transaction, [place]);
        await dropPending(transaction, upload);
      });
      return 'removed';
    },
  };

  /** A file that never had a content goes with its upload. */
  async function dropPending(transaction: Transaction, upload: UploadRow): Promise<void> {
    const file = await lockFile(transaction, upload.fileId);
    if (!file || file.generation > 0 || file.pendingUpload !== upload.id) {
      if (file) await setFailure(transaction, file._id, upload.id, 'UPLOAD_CLOSED');
      return;
    }
    await transaction.query({
      text: 'delete from "app"."File" where "_id" = $1::uuid',
      values: [file._id],
    });
    await events.emit(transaction, system('storage.expire-uploads'), fileEvent('delete', file));
  }
}

/** What the address was given out for, and what is sent to it. */
function requireAnnounced({ size, mimeType }: UploadRow, body: SentBody): void {
  if (size !== null && body.length !== undefined && body.length !== size)
    throw storageErrors.LENGTH_MISMATCH({ message: `This address is for ${size} bytes` });
  if (mimeType !== null && !unsaid.has(body.contentType) && body.contentType !== mimeType)
    throw storageErrors.INVALID_MIME({ message: `This address is for ${mimeType}` });
}

async function headOf(
  store: Awaited<ReturnType<StorageParts['provider']>>,
  place: { readonly bucket: string; readonly key: string },
): Promise<Buffer> {
  const chunks: Buffer[] = [];
  const range = { start: 0, end: HEAD_BYTES - 1 };
  for await (const chunk of await store.get(place, range)) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks);
}
