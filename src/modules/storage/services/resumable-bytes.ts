/**
 * The bytes of an upload that is continued: parts of one size on the store, and what is too little for a part in an
 * object of its own. What is written down as arrived is on the store, whoever dies.
 */
import type { FileHandle } from 'node:fs/promises';
import { Readable } from 'node:stream';
import { offAccount } from '../../../kernel/request-account/request-account.ts';
import { storageErrors } from '../errors.ts';
import type { ObjectFacts, StorageProvider } from '../providers/provider.ts';
import { openSpool, spooled } from '../providers/remote/parts.ts';
import { noteResumable, type ResumableRow, type ResumableState } from '../queries/resumable.ts';
import { onStoreOf } from './containers.ts';
import { isMissingObject, type StorageParts } from './storage-parts.ts';

/** Bytes of every part but the last; some stores want them alike. 10,000 parts are 80 GB. */
const PART_BYTES = 8 * 1_048_576;
const UNTYPED = { contentType: 'application/octet-stream' };

export const tailKeyOf = (objectKey: string): string => `${objectKey}.tail`;

export interface ResumableBytes {
  /** Appends what comes, until it ends or breaks; answers the new offset. `token` proves the lock. Throws UPLOAD_BUSY when it was lost. */
  append(row: ResumableRow, token: string, source: Readable): Promise<number>;
  /** Makes one object of all that has come; may be repeated. */
  complete(row: ResumableRow): Promise<ObjectFacts>;
  /** Gives up what is not an object yet. */
  abort(row: ResumableRow): Promise<void>;
}

export function createResumableBytes(parts: StorageParts): ResumableBytes {
  const { database, provider } = parts;
  const note = async (row: ResumableRow, token: string, state: ResumableState): Promise<void> => {
    const noted = await offAccount(() =>
      database.outside(() => noteResumable(database, { id: row.id, token }, state)),
    );
    if (!noted) throw storageErrors.UPLOAD_BUSY();
  };

  const complete = async (row: ResumableRow): Promise<ObjectFacts> => {
    const store = await provider();
    const place = placeOf(row);
    if (row.size === 0) return store.put(place, Readable.from([]), { ...UNTYPED, size: 0 });
    const made = row.multipart === null ? undefined : await completed(store, row, row.multipart);
    const facts = made ?? (await store.head(place));
    if (facts?.size === row.size) return facts;
    throw storageErrors.UPLOAD_GONE();
  };

  const append = async (row: ResumableRow, token: string, source: Readable): Promise<number> => {
    const store = await provider();
    const file = await openSpool();
    let state: ResumableState = row;
    const onPart = async (bytes: number): Promise<void> => {
      state = await storePart(store, { row, state }, { file, bytes });
      await note(row, token, state);
    };
    try {
      const waiting = row.tail > 0 ? await readTail(store, row, file) : 0;
      const { left, arrived, broken } = await fill(file, waiting, { source, onPart });
      // What has come before a break is kept.
      if (arrived && left > 0) {
        state = await storeRest(store, { row, state }, { file, bytes: left });
        await note(row, token, state);
      }
      if (broken !== undefined) throw broken;
      return state.offset;
    } finally {
      await file.close();
    }
  };

  return {
    append: (row, token, source) => onStoreOf(parts, row.bucket, () => append(row, token, source)),
    complete: (row) => onStoreOf(parts, row.bucket, () => complete(row)),
    async abort(row) {
      if (row.multipart === null) return;
      await (await provider()).multipart.abort(placeOf(row), row.multipart);
    },
  };
}

const storePart = async (
  store: StorageProvider,
  { row, state }: { readonly row: ResumableRow; readonly state: ResumableState },
  { file, bytes }: { readonly file: FileHandle; readonly bytes: number },
): Promise<ResumableState> => {
  const place = placeOf(row);
  const multipart = state.multipart ?? (await store.multipart.begin(place, UNTYPED));
  const number = state.parts.length + 1;
  const body = spooled(file, bytes).open();
  const tag = await store.multipart.part(place, multipart, { number, body, size: bytes });
  const offset = state.offset - state.tail + bytes;
  return { multipart, parts: [...state.parts, { number, tag }], tail: 0, offset };
};

/** What is left when the request ends: the last part, the whole of a small file, or bytes that wait for more. */
const storeRest = async (
  store: StorageProvider,
  { row, state }: { readonly row: ResumableRow; readonly state: ResumableState },
  rest: { readonly file: FileHandle; readonly bytes: number },
): Promise<ResumableState> => {
  const offset = state.offset - state.tail + rest.bytes;
  const isLast = offset === row.size;
  if (isLast && state.parts.length > 0) return storePart(store, { row, state }, rest);
  const place = isLast ? placeOf(row) : tailPlaceOf(row);
  const body = spooled(rest.file, rest.bytes).open();
  await store.put(place, body, { ...UNTYPED, size: rest.bytes });
  return { ...state, offset, tail: isLast ? 0 : rest.bytes };
};

/** Somebody who died may have stored a longer one, which begins with the same bytes. */
const wholeTail = ({ tail }: ResumableRow) => ({ start: 0, end: tail - 1 });

const placeOf = ({ bucket, objectKey }: ResumableRow) => ({ bucket, key: objectKey });
const tailPlaceOf = ({ bucket, objectKey }: ResumableRow) => ({
  bucket,
  key: tailKeyOf(objectKey),
});

/** Undefined: somebody who died may have done it. */
async function completed(
  store: StorageProvider,
  row: ResumableRow,
  multipart: string,
): Promise<ObjectFacts | undefined> {
  try {
    return await store.multipart.complete(placeOf(row), multipart, row.parts);
  } catch (error) {
    if (isMissingObject(error)) return undefined;
    throw error;
  }
}

async function readTail(
  store: StorageProvider,
  row: ResumableRow,
  file: FileHandle,
): Promise<number> {
  let bytes = 0;
  for await (const chunk of await store.get(tailPlaceOf(row), wholeTail(row)))
    bytes += await write(file, chunk as Buffer, bytes);
  return bytes;
}

interface Filling {
  readonly source: Readable;
  /** The file holds a part. */
  readonly onPart: (bytes: number) => Promise<void>;
}

/** Writes what comes into the file, part after part. `left`: bytes that it holds in the end. */
async function fill(file: FileHandle, waiting: number, { source, onPart }: Filling) {
  let left = waiting;
  let arrived = false;
  try {
    for await (const piece of source) {
      for (let chunk = piece as Buffer; chunk.length > 0; ) {
        arrived = true;
        const taken = chunk.subarray(0, PART_BYTES - left);
        left += await write(file, taken, left);
        chunk = chunk.subarray(taken.length);
        if (left < PART_BYTES) continue;
        await onPart(left);
        left = 0;
      }
    }
    return { left, arrived, broken: undefined };
  } catch (broken) {
    return { left, arrived, broken };
  }
}

async function write(file: FileHandle, bytes: Buffer, at: number): Promise<number> {
  await file.write(bytes, 0, bytes.length, at);
  return bytes.length;
}
