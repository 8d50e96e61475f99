/** Uploads that are continued, from their beginning to the file that they become. */
import type { Readable } from 'node:stream';
import { setTimeout as pause } from 'node:timers/promises';
import { type Caller, callerKey } from '../../../kernel/caller.ts';
import type { Queryable } from '../../../kernel/database/database.ts';
import { newId } from '../../../kernel/ids.ts';
import { offAccount } from '../../../kernel/request-account/request-account.ts';
import { storageErrors } from '../errors.ts';
import { containerByName } from '../queries/containers.ts';
import { type FileRow, fileById } from '../queries/files.ts';
import {
  bytesBeside,
  claimRoom,
  deleteResumable,
  finishResumable,
  holdResumable,
  insertResumable,
  lockResumable,
  lockRoomOf,
  type ResumableRow,
  resumableById,
  unlockResumable,
} from '../queries/resumable.ts';
import { insertUpload, takeUpload } from '../queries/uploads.ts';
import { headOf, tooLarge } from './content.ts';
import type { Contents } from './contents.ts';
import type { Files } from './files.ts';
import { keyOf } from './naming.ts';
import type { FileRequest, Placing } from './placing.ts';
import { boundedOwner, requireRoom, roomOf } from './quotas.ts';
import { enqueueRemoval } from './removing.ts';
import { createResumableBytes, type ResumableBytes, tailKeyOf } from './resumable-bytes.ts';
import { toScan } from './scanning.ts';
import { contentTypeOf } from './sniffing.ts';
import { onStore, type StorageParts } from './storage-parts.ts';

/** Seconds after which a lock falls to others when its holder says nothing; the holder says it is there every second. */
const LOCK_SECONDS = 8;
const HOLD_MS = 1_000;
/** Milliseconds for which a request waits for another that writes, and how often it looks. */
const WAIT_MS = 15_000;
const LOOK_MS = 150;
/** Seconds for which the objects of an upload outlive its own end, so that it is ended by its own job. */
const SLACK_SECONDS = 3_600;

/* What the protocol (tus) asks servers to say about themselves; its library is loaded by those who use it. */

export const TUS_VERSION = '1.0.0';
/** Beside `checksum`, which is ours. */
export const tusExtensions = [
  'creation',
  'creation-with-upload',
  'termination',
  'expiration',
] as const;
export const checksumAlgorithms = ['sha1', 'sha256', 'md5'] as const;

export interface NewResumable {
  readonly id: string;
  /** Bytes. */
  readonly size: number;
  readonly request: FileRequest;
  /** As the client wrote it. */
  readonly metadata: Readonly<Record<string, string | null>> | null;
}

export interface ResumableLock {
  readonly token: string;
  release(): Promise<void>;
}

export interface Resumable {
  /**
   * As `ResumableBytes.append`. Throws QUOTA_EXCEEDED where what has come for other uploads, or comes at this moment, leaves
   * no room for this one.
   */
  append(
    caller: Caller,
    row: ResumableRow,
    ...[token, source]: [token: string, source: Readable]
  ): Promise<number>;
  /** Throws what an upload of such a file would throw. */
  create(caller: Caller, upload: NewResumable): Promise<void>;
  /** The caller's own upload. Throws FILE_NOT_FOUND. */
  find(caller: Caller, id: string): Promise<ResumableRow>;
  /**
   * Waits until nobody else writes, on whatever node. `onRequested`: somebody waits for us, or our lock is lost. Throws
   * UPLOAD_BUSY.
   */
  lock(id: string, signal: AbortSignal, onRequested: () => void): Promise<ResumableLock>;
  /** Makes the file when all bytes are there; answers it, also when that was done before. The lock is held. */
  finish(caller: Caller, row: ResumableRow): Promise<FileRow | undefined>;
  /** Gives up what has come. The lock is held, or the time is over. */
  remove(row: ResumableRow): Promise<void>;
}

interface Dependencies {
  readonly contents: Contents;
  readonly files: Files;
  readonly placing: Placing;
}

export function createResumable(parts: StorageParts, dependencies: Dependencies): Resumable {
  const { database } = parts;
  const all: ResumableParts = { ...parts, ...dependencies, bytes: createResumableBytes(parts) };
  return {
    async append(caller, row, token, source) {
      await claimRoomBeside(all, caller, row, token);
      return all.bytes.append(row, token, source);
    },
    lock: (id, signal, onRequested) => takeLock(parts, id, { signal, onRequested }),
    create: (caller, upload) => create(all, caller, upload),
    async find(caller, id) {
      const row = await resumableById(database, id);
      if (!row || row.caller !== callerKey(caller)) throw storageErrors.FILE_NOT_FOUND();
      return row;
    },
    finish: (caller, row) => finish(all, caller, row),
    remove: (row) => dropRow(all, row),
  };
}

interface ResumableParts extends StorageParts, Dependencies {
  readonly bytes: ResumableBytes;
}

/**
 * What has come for an upload lies on the store, although it is no file yet: all that a user has begun needs room together,
 * or many uploads that never end would take as much as anybody likes. Throws QUOTA_EXCEEDED.
 */
async function requireRoomBeside(
  { config, database }: Pick<StorageParts, 'config'> & { readonly database: Queryable },
  caller: Caller,
  { id, size, request }: Sized,
): Promise<void> {
  const owner = boundedOwner({ config }, caller, request.scope);
  if (owner === null) return;
  const beside = await bytesBeside(database, { owner, caller: callerKey(caller), except: id });
  requireRoom(roomOf({ config }, owner, beside), size);
}

interface Sized extends Pick<ResumableRow, 'id' | 'size'> {
  readonly request: FileRequest;
}

/**
 * The same, and from now on all of the upload counts for the others, until the lock that is held is given back. So
 * requests that run at once carry no more together than there is room for.
 */
async function claimRoomBeside(
  { database, config }: Pick<StorageParts, 'database' | 'config'>,
  caller: Caller,
  row: Sized,
  token: string,
): Promise<void> {
  const owner = boundedOwner({ config }, caller, row.request.scope);
  if (owner === null) return;
  await database.transaction(async (transaction) => {
    await lockRoomOf(transaction, owner);
    await requireRoomBeside({ config, database: transaction }, caller, row);
    await claimRoom(transaction, { id: row.id, token });
  });
}

async function create(
  { database, config, contents, placing }: ResumableParts,
  caller: Caller,
  { id, size, request, metadata }: NewResumable,
): Promise<void> {
  const placement = await placing.placeFree(caller, request);
  const limit = contents.limitOf(placement.container);
  if (size > limit) throw tooLarge(limit);
  await requireRoomBeside({ database, config }, caller, { id, size, request });
  const { bucket } = placement.container;
  const seconds = config().upload.pendingExpiry;
  const main = { id: newId(), objectKey: keyOf(id, 1) };
  const tail = { id: newId(), objectKey: tailKeyOf(main.objectKey) };
  await database.transaction(async (transaction) => {
    for (const upload of [main, tail])
      await insertUpload(transaction, {
        ...upload,
        fileId: id,
        kind: 'create',
        signed: false,
        bucket,
        generation: 1,
        size: null,
        mimeType: null,
        caller: callerKey(caller),
        expiresInSeconds: seconds + SLACK_SECONDS,
      });
    await insertResumable(transaction, {
      id,
      caller: callerKey(caller),
      uploadId: main.id,
      tailUploadId: tail.id,
      bucket,
      objectKey: main.objectKey,
      size,
      request: { ...request },
      metadata,
      expiresInSeconds: seconds,
    });
  });
}

async function finish(
  parts: ResumableParts,
  caller: Caller,
  row: ResumableRow,
): Promise<FileRow | undefined> {
  const { database } = parts;
  if (row.fileId !== null) return fileById(database, row.fileId);
  if (row.offset < row.size) return undefined;
  const file = await adopted(parts, caller, row);
  await finishResumable(database, row.id, file._id);
  await removeTail(parts, row);
  return file;
}

/** The bytes as a file. */
async function adopted(parts: ResumableParts, caller: Caller, row: ResumableRow): Promise<FileRow> {
  const { database, placing, files, bytes, provider, log } = parts;
  const facts = await bytes.complete(row);
  const request = row.request as FileRequest;
  const place = { bucket: row.bucket, key: row.objectKey };
  const placement = await placing.place(caller, request);
  const container =
    (await containerByName(database, placement.container.name)) ?? placement.container;
  const head = await onStore(log, async () => headOf(await provider(), place, row.size));
  try {
    const mimeType = await contentTypeOf(head, placement.name, request.mimeType, container);
    const { bucket, objectKey, size } = row;
    const upload = { id: row.uploadId, fileId: row.id, bucket, objectKey, generation: 1 };
    const etag = `${objectKey}-${facts.etag}`.replaceAll(/[^\w.~-]/g, '');
    const scan = toScan(parts);
    const content = { ...place, objectKey, size, mimeType, checksum: undefined, etag, scan };
    return await files.adopt(caller, { ...request, name: placement.name }, { upload, content });
  } catch (error) {
    // Somebody who died may have made it.
    const made = await fileById(database, row.id);
    if (made) return made;
    await dropRow(parts, row);
    throw error;
  }
}

async function dropRow(parts: ResumableParts, row: ResumableRow): Promise<void> {
  const { database, bytes, contents, log } = parts;
  if (row.fileId === null) {
    await bytes
      .abort(row)
      .catch((error: unknown) => log.warn({ err: error }, 'Parts of an upload are left behind'));
    await contents.abandon({
      upload: { ...row, id: row.uploadId, fileId: row.id, generation: 1 },
    });
  }
  await removeTail(parts, row);
  await deleteResumable(database, row.id);
}

const removeTail = (
  parts: StorageParts,
  { tailUploadId, bucket, objectKey }: ResumableRow,
): Promise<void> =>
  parts.database.transaction(async (transaction) => {
    const key = tailKeyOf(objectKey);
    if (await takeUpload(transaction, tailUploadId, key))
      await enqueueRemoval(parts, transaction, [{ bucket, key }]);
  });

async function takeLock(
  { database, log }: StorageParts,
  id: string,
  { signal, onRequested }: { readonly signal: AbortSignal; readonly onRequested: () => void },
): Promise<ResumableLock> {
  const lease = { token: newId(), seconds: LOCK_SECONDS };
  const run = <T>(work: () => Promise<T>): Promise<T> => offAccount(() => database.outside(work));
  const until = performance.now() + WAIT_MS;
  for (;;) {
    const held = await run(() => lockResumable(database, id, lease));
    if (held === undefined || held) break;
    if (performance.now() > until || signal.aborted) throw storageErrors.UPLOAD_BUSY();
    await pause(LOOK_MS);
  }
  const hold = setInterval(() => {
    run(() => holdResumable(database, id, lease)).then(
      (state) => {
        if (state !== 'held') onRequested();
      },
      (error: unknown) => log.warn({ err: error }, 'The lock of an upload could not be held'),
    );
  }, HOLD_MS).unref();
  return {
    token: lease.token,
    async release() {
      clearInterval(hold);
      await run(() => unlockResumable(database, id, lease.token));
    },
  };
}
