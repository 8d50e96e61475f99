/** Bytes on their way to a file: written whole under a temporary name, on the disk before anybody sees them. */
import {
  type BigIntStats,
  closeSync,
  constants,
  fdatasync,
  fstatSync,
  fsync,
  open,
  write as writeOnce,
  writev,
} from 'node:fs';
import { lstat, readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { type ByteSource, freePiece, type ObjectBody, ProviderError } from '../provider.ts';
import { createReal, onDisk, type Target, unlessMissing } from './folders.ts';

const openFile = promisify(open);
const syncFile = promisify(fsync);
const syncBytes = promisify(fdatasync);
const writeBytes = promisify(writeOnce);
const writeChunks = promisify(writev);

export interface Writing {
  /** Bytes announced; a body of another length is `LENGTH_MISMATCH`. */
  readonly size?: number | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** A file that is written whole, and not yet where anybody looks. */
export interface Written {
  readonly path: string;
  readonly facts: BigIntStats;
}

const aborted = (cause?: unknown) => new ProviderError('ABORTED', 'Nobody waits for it', { cause });

/** A file that is written whole and still open: the disk may not have it yet. */
export interface OpenWritten extends Written {
  /** Waits for the disk. */
  sync(): Promise<void>;
  close(): void;
}

/** Writes a body and waits for the disk; answers what it is there. What the body itself throws comes through as it is. */
export async function writeFile(
  path: string,
  body: ObjectBody,
  writing: Writing,
): Promise<BigIntStats> {
  const written = await writeOpen(path, body, writing);
  try {
    await written.sync();
    return written.facts;
  } finally {
    written.close();
  }
}

/** The same, without waiting for the disk. */
export async function writeOpen(
  path: string,
  body: ObjectBody,
  writing: Writing,
): Promise<OpenWritten> {
  requireWaited(writing);
  const how = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW;
  const file = await onDisk(() => openFile(path, how, 0o600));
  try {
    const written =
      body instanceof Uint8Array
        ? await writeWhole(file, body)
        : await writeStream(file, body, writing);
    requireLength(written, writing);
    const facts = fstatSync(file, { bigint: true });
    return {
      path,
      facts,
      sync: () => onDisk(() => syncFile(file)),
      // It is on the disk, or given up: closing waits for nothing.
      close: () => closeSync(file),
    };
  } catch (error) {
    closeSync(file);
    throw error;
  }
}

/** Flags of a file whose bytes are on the disk when they are written; none where the system has to be asked. */
const writesThrough = process.platform === 'linux' ? constants.O_DSYNC : 0;

/**
 * Writes a body to a new file and waits for the disk; answers what it is there. `also` begins when the file is there, and is
 * waited for too. What fails leaves nothing; what the body itself throws comes through as it is.
 */
export async function writeNewFile(
  target: Target,
  body: ObjectBody,
  { also, ...writing }: Writing & { also(): Promise<void> },
): Promise<BigIntStats> {
  const isWhole = body instanceof Uint8Array;
  const file = await onDisk(() => createReal(target, isWhole ? writesThrough : 0));
  const write = async (): Promise<void> => {
    const written = isWhole ? await writeWhole(file, body) : await writeStream(file, body, writing);
    requireLength(written, writing);
    if (!isWhole || !writesThrough) await onDisk(() => syncFile(file));
  };
  try {
    // Both are waited for: the number of a closed file may be another file's.
    const ends = await Promise.allSettled([write(), onDisk(also)]);
    for (const end of ends) if (end.status === 'rejected') throw end.reason;
    return fstatSync(file, { bigint: true });
  } catch (error) {
    await rm(target.path, { force: true });
    throw error;
  } finally {
    closeSync(file);
  }
}

async function writeWhole(file: number, bytes: Uint8Array): Promise<number> {
  for (let at = 0; at < bytes.length; ) {
    const { bytesWritten } = await onDisk(() => writeBytes(file, bytes, at));
    at += bytesWritten;
  }
  return bytes.length;
}

/* Streams: a batch is written while the next one comes. */

/** Bytes of all batches of all streams together, and of one at most and at least. */
const ALL_BATCHES = 24 * 1024 * 1024;
const LARGEST_BATCH = 512 * 1024;
const SMALLEST_BATCH = 64 * 1024;
/** Streams that are written now; each of them has two batches. */
let streams = 0;

const batchBytes = (): number =>
  Math.max(SMALLEST_BATCH, Math.min(LARGEST_BATCH, ALL_BATCHES / (2 * streams)));

/** Bytes after which the disk is asked to begin: what waits for the end of a large body is little then. */
const FLUSH_BYTES = 16 * 1024 * 1024;
/** The system has few threads for files: so many of them at most wait for the disk before the end of a body. */
const MAX_FLUSHES = 1;
let flushes = 0;

async function writeStream(
  file: number,
  body: ByteSource,
  { size, signal }: Writing,
): Promise<number> {
  const writer = new BatchWriter(file, size);
  const stop = (): void => void body.destroy(aborted());
  signal?.addEventListener('abort', stop, { once: true });
  streams += 1;
  try {
    for await (const chunk of body) if (writer.take(chunk)) await writer.next();
    return await writer.end();
  } catch (error) {
    throw signal?.aborted ? aborted(error) : error;
  } finally {
    streams -= 1;
    signal?.removeEventListener('abort', stop);
    // The number of a closed file may be another file's before the system writes.
    await writer.idle();
  }
}

class BatchWriter {
  readonly #file: number;
  readonly #size: number | undefined;
  #batch: Uint8Array[] = [];
  #waiting = 0;
  #taken = 0;
  #unflushed = 0;
  #writing: Promise<void> = Promise.resolve();
  #flushing: Promise<void> = Promise.resolve();

  constructor(file: number, size: number | undefined) {
    this.#file = file;
    this.#size = size;
  }

  /** True when `next` is to be waited for before more is taken. */
  take(chunk: Uint8Array): boolean {
    this.#batch.push(chunk);
    this.#waiting += chunk.length;
    this.#taken += chunk.length;
    if (this.#size !== undefined && this.#taken > this.#size)
      throw otherLength(this.#taken, this.#size);
    return this.#waiting >= batchBytes();
  }

  /** Begins to write what has come, when what came before is written. */
  async next(): Promise<void> {
    await this.#writing;
    const batch = this.#batch;
    this.#unflushed += this.#waiting;
    [this.#batch, this.#waiting] = [[], 0];
    this.#writing = writeBatch(this.#file, batch);
    // Heard of by who waits for it.
    this.#writing.catch(() => undefined);
    if (this.#unflushed >= FLUSH_BYTES && flushes < MAX_FLUSHES) this.#flush();
  }

  #flush(): void {
    this.#unflushed = 0;
    flushes += 1;
    const flushed = this.#flushing.then(() => onDisk(() => syncBytes(this.#file)));
    this.#flushing = flushed.finally(() => {
      flushes -= 1;
    });
    this.#flushing.catch(() => undefined);
  }

  /** Bytes that are written. */
  async end(): Promise<number> {
    await this.next();
    await this.#writing;
    await this.#flushing;
    return this.#taken;
  }

  async idle(): Promise<void> {
    await Promise.allSettled([this.#writing, this.#flushing]);
  }
}

async function writeBatch(file: number, batch: readonly Uint8Array[]): Promise<void> {
  for (let rest = batch; rest.length > 0; ) {
    const { bytesWritten } = await onDisk(() => writeChunks(file, rest));
    rest = withoutFirst(rest, bytesWritten);
  }
  for (const piece of batch) freePiece(piece);
}

/** A disk may take less than it was given. */
function withoutFirst(chunks: readonly Uint8Array[], count: number): Uint8Array[] {
  const rest: Uint8Array[] = [];
  let skip = count;
  for (const chunk of chunks) {
    if (skip < chunk.length) rest.push(chunk.subarray(skip));
    skip = Math.max(0, skip - chunk.length);
  }
  return rest;
}

/** Throws ABORTED. */
export function requireWaited({ signal }: Writing): void {
  if (signal?.aborted) throw aborted();
}

/** Throws LENGTH_MISMATCH. */
function requireLength(written: number, { size }: Writing): void {
  if (size !== undefined && written !== size) throw otherLength(written, size);
}

const otherLength = (is: number, announced: number): ProviderError =>
  new ProviderError(
    'LENGTH_MISMATCH',
    `The body has ${is} bytes or more, ${announced} were announced`,
  );

/* What earlier processes left behind when they died in the middle of a write. */

/** Milliseconds. A file that is being written changes; other nodes may share the folder. */
const TEMPORARY_AGE_MS = 24 * 3_600_000;
/** Milliseconds. Uploads in parts are ended by who began them; these are beyond every expiry. */
const UPLOAD_AGE_MS = 30 * 24 * 3_600_000;

/** Removes what nobody writes to any more. */
export async function sweep(temporary: string, uploads: string, now = Date.now()): Promise<void> {
  await removeOlder(temporary, now - TEMPORARY_AGE_MS);
  await removeOlder(uploads, now - UPLOAD_AGE_MS);
}

async function removeOlder(folder: string, limit: number): Promise<void> {
  for (const name of await readdir(folder)) {
    const path = join(folder, name);
    const facts = await unlessMissing(() => lstat(path));
    if (facts && facts.mtimeMs < limit) await rm(path, { recursive: true, force: true });
  }
}
