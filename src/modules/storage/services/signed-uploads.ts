/**
 * Uploads in two steps: an address is given out, and the bytes are sent to it by somebody who needs no credential. The
 * file is pending until they have come; one that has a content keeps it until then.
 */
import { type Caller, callerKey, system } from '../../../kernel/caller.ts';
import type { Transaction } from '../../../kernel/database/database.ts';
import { PenstockError } from '../../../kernel/errors.ts';
import { isId, newId } from '../../../kernel/ids.ts';
import { storageErrors } from '../errors.ts';
import { type ContainerRow, containerByName } from '../queries/containers.ts';
import type { FileRow } from '../queries/files.ts';
import { insertUpload, type UploadRow, uploadById } from '../queries/uploads.ts';
import { tooLarge } from './content.ts';
import type { Contents } from './contents.ts';
import type { FilePatch } from './file-changes.ts';
import type { Files } from './files.ts';
import { keyOf } from './naming.ts';
import type { FileRequest, Placing } from './placing.ts';
import { requireRoomOf } from './quotas.ts';
import { contentTypeOf } from './sniffing.ts';
import { onStore, type StorageParts } from './storage-parts.ts';
import { createArrivals, type SentBody } from './upload-arrivals.ts';

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

export interface SignedUploads {
  begin(caller: Caller, request: FileRequest, size: number): Promise<SignedUpload>;
  /** New bytes for a file that is there. What else is said about it holds at once. */
  beginAgain(caller: Caller, id: string, patch: FilePatch, size: number): Promise<SignedUpload>;
  /** Takes the bytes that are sent to an address of ours. Whoever comes here has a valid signature. */
  receive(fileId: string, uploadId: string, body: SentBody): Promise<FileRow>;
  /** Confirms that the bytes are there. Throws FILE_PENDING, and why they are refused. */
  complete(caller: Caller, id: string, scope?: string): Promise<FileRow>;
  /** The same for whoever reads, who is told nothing: the file as it is after a look at the store. */
  confirmed(file: FileRow): Promise<FileRow>;
  /** Ends an upload whose time is over: what has arrived counts, the rest goes. */
  expire(upload: UploadRow): Promise<'confirmed' | 'removed'>;
}

interface Dependencies {
  readonly contents: Contents;
  readonly placing: Placing;
  readonly files: Files;
}

export function createSignedUploads(
  parts: StorageParts,
  { contents, placing, files }: Dependencies,
): SignedUploads {
  const { database, access, log } = parts;
  const arrivals = createArrivals(parts, contents);
  return {
    ...createUploadOpening(parts, { contents, placing, files }),
    receive: arrivals.receive,
    async complete(caller, id, scope) {
      const file = await files.find(id);
      await access.require(caller, 'edit', file, scope);
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

type OpenedUpload = Pick<
  UploadRow,
  'id' | 'fileId' | 'bucket' | 'generation' | 'size' | 'mimeType'
>;

/** Gives addresses out. */
function createUploadOpening(
  parts: StorageParts,
  { contents, placing, files }: Dependencies,
): Pick<SignedUploads, 'begin' | 'beginAgain'> {
  const { database } = parts;
  const addresses = createAddresses(parts);

  const beginAgain: SignedUploads['beginAgain'] = async (caller, id, patch, size) => {
    await requireAnnounced(parts, { contents, files }, caller, { id, patch, size });
    const file = await files.update(caller, id, patch);
    const container = await containerByName(database, file.container);
    if (!container) throw storageErrors.CONTAINER_NOT_FOUND();
    const uploadId = newId();
    const upload = await database.transaction(async (transaction) => {
      const generation = await parts.fileWrites.nextGeneration(transaction, id, uploadId);
      if (generation === undefined) throw storageErrors.FILE_NOT_FOUND();
      const made = {
        id: uploadId,
        fileId: id,
        bucket: container.bucket,
        generation,
        size: size || null,
        mimeType: patch.mimeType ?? null,
      };
      await noteOpened(parts, transaction, caller, { ...made, scope: patch.scope ?? null });
      return made;
    });
    return { file: await files.find(id), address: await addresses.of(upload) };
  };

  return {
    beginAgain,
    async begin(caller, request, size) {
      const placement = await placing.place(caller, request);
      const { container, mimeType } = placement;
      requireSize(contents, size, container);
      if (!placement.overwrite) await requireRoomOf(parts, placement.owner, size);
      if (mimeType) await contentTypeOf(Buffer.alloc(0), placement.name, mimeType, container);
      const { scope } = request;
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
        if ('made' in done)
          await noteOpened(parts, transaction, caller, { ...upload, scope: scope ?? null });
        return done;
      });
      if ('there' in placed) return beginAgain(caller, placed.there._id, { scope }, size);
      return { file: placed.made, address: await addresses.of(upload) };
    },
  };
}

/** Whether such bytes can come at all, before anything of the file is changed. Throws FILE_TOO_LARGE, QUOTA_EXCEEDED, 403, 404. */
async function requireAnnounced(
  parts: StorageParts,
  { contents, files }: Pick<Dependencies, 'contents' | 'files'>,
  caller: Caller,
  { id, patch, size }: { readonly id: string; readonly patch: FilePatch; readonly size: number },
): Promise<void> {
  if (size === 0) return;
  const file = await files.find(id);
  await parts.access.require(caller, 'edit', file, patch.scope);
  const container = await containerByName(parts.database, patch.container ?? file.container);
  if (container) requireSize(contents, size, container);
  const had = file.generation > 0 ? file.size : 0;
  await requireRoomOf(parts, file.owner, Math.max(0, size - had));
}

function requireSize(contents: Contents, size: number, container: ContainerRow): void {
  const limit = contents.limitOf(container);
  if (size > limit) throw tooLarge(limit);
}

const noteOpened = (
  { config }: StorageParts,
  transaction: Transaction,
  caller: Caller,
  upload: OpenedUpload & Pick<UploadRow, 'scope'>,
): Promise<unknown> =>
  insertUpload(transaction, {
    ...upload,
    kind: 'replace',
    signed: true,
    objectKey: keyOf(upload.fileId, upload.generation),
    caller: callerKey(caller),
    sessionId: caller.kind === 'user' && isId(caller.sessionId) ? caller.sessionId : null,
    expiresInSeconds: Math.max(config().upload.pendingExpiry, config().upload.urlExpiry),
  });

/** Why a file without a content cannot be read. */
export const refusalOf = ({ failure }: FileRow): PenstockError =>
  failure === null
    ? storageErrors.FILE_PENDING()
    : storageErrors.FILE_PENDING({
        message: `What was sent for this file was refused (${failure}): send it again`,
      });

function createAddresses({ config, provider, links, log }: StorageParts) {
  return {
    async of(upload: OpenedUpload): Promise<UploadAddress> {
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
