/** Bytes of a file on their way out: as a stream, or in pieces for those who only send them on. */
import { closeSync, createReadStream, fstat, fstatSync, read } from 'node:fs';
import { Readable } from 'node:stream';
import { promisify } from 'node:util';
import { LRUCache } from 'lru-cache';
import { REUSABLE_BYTES } from '../../../../kernel/operations/reply.ts';
import { type ByteRange, ProviderError, type ReadPart } from '../provider.ts';
import { codeOf, onDisk, openReal } from './folders.ts';

const readBytes = promisify(read);
const factsOf = promisify(fstat);

/** Bytes read ahead of a reader, and of one piece. */
const PIECE_BYTES = 256 * 1024;

/** The bytes at the reader's pace. Throws OUT_OF_RANGE, NOT_FOUND. */
export async function readStream(
  path: string,
  range: ByteRange | undefined,
  signal: AbortSignal | undefined,
): Promise<Readable> {
  const file = await openReal(path);
  try {
    const facts = await factsOf(file);
    if (!facts.isFile()) throw new ProviderError('NOT_FOUND', `${path} is no file`);
    if (range && range.start >= facts.size) throw shorter(path, facts.size);
    if (facts.size === 0) {
      closeSync(file);
      return Readable.from([]);
    }
    return createReadStream(path, {
      fd: file,
      start: range?.start ?? 0,
      // With its end known, a small content is one read of its own length.
      end: Math.min(range?.end ?? facts.size, facts.size - 1),
      highWaterMark: PIECE_BYTES,
      ...(signal && { signal }),
    });
  } catch (error) {
    closeSync(file);
    throw error;
  }
}

/* Files that are read now or were a moment ago: whoever looks at a film or a map asks for one part after the other. */

interface OpenFile {
  readonly number: number;
  readers: number;
  /** When the last reader left, as `performance.now()`. */
  leftAt: number;
  /** When it was known to have a name. */
  namedAt: number;
  /** Closed when nobody reads it any more. */
  isKept: boolean;
}

/** Milliseconds for which a file without readers stays open; its room on the disk may be taken for so long. */
const KEPT_MS = 2_000;
/** Between two looks at what has been kept for long enough. */
const MIN_PAUSE_MS = 100;
const MAX_KEPT = 256;
/** Other systems do not delete what is open. */
const keepsOpen = process.platform === 'linux';

/** Bytes of a small part, and where it begins. */
interface SmallPart {
  readonly start: number;
  readonly bytes: Uint8Array;
}

/** Bytes of what is kept of small parts, of one and of all together: to read them again costs more than to send them. */
const SMALL_PART_BYTES = 8 * 1024;
const ALL_SMALL_BYTES = 16 * 1024 * 1024;

export class OpenFiles {
  readonly #kept = new Map<string, OpenFile>();
  /** The part of each file that was read last. */
  readonly #small = new LRUCache<string, SmallPart>({
    maxSize: ALL_SMALL_BYTES,
    sizeCalculation: ({ bytes }) => bytes.length,
    ttl: KEPT_MS,
    ttlResolution: MIN_PAUSE_MS,
  });
  #sweep: NodeJS.Timeout | undefined;
  #isClosed = false;

  /** Opens a file, or joins those who read it. One that was deleted or replaced is opened anew. */
  take(path: string): OpenFile | Promise<OpenFile> {
    const known = this.#kept.get(path);
    if (known) {
      known.readers += 1;
      if (isNamed(known)) return known;
      this.#drop(path, known);
      this.release(known);
    }
    return this.#takeNew(path);
  }

  async #takeNew(path: string): Promise<OpenFile> {
    const number = await this.#open(path);
    const isKept = keepsOpen && !this.#isClosed && !this.#kept.has(path) && this.#hasRoom();
    const file = { number, readers: 1, leftAt: 0, namedAt: performance.now(), isKept };
    if (isKept) this.#kept.set(path, file);
    return file;
  }

  /** Bytes that were read a moment ago. */
  known(path: string, { start, end }: ByteRange): Uint8Array | undefined {
    if (end - start >= SMALL_PART_BYTES) return undefined;
    const part = this.#small.get(path);
    if (!part || start < part.start || end >= part.start + part.bytes.length) return undefined;
    return part.bytes.subarray(start - part.start, end - part.start + 1);
  }

  keep(path: string, start: number, bytes: Uint8Array): void {
    if (keepsOpen && !this.#isClosed && bytes.length <= SMALL_PART_BYTES)
      this.#small.set(path, { start, bytes });
  }

  release(file: OpenFile): void {
    file.readers -= 1;
    file.leftAt = performance.now();
    if (file.readers > 0) return;
    if (file.isKept) this.#sweepIn(KEPT_MS);
    else closeSync(file.number);
  }

  /** What was deleted or replaced holds its room on the disk no longer than somebody reads it. */
  forget(path: string): void {
    this.#small.delete(path);
    const file = this.#kept.get(path);
    if (file) this.#drop(path, file);
  }

  /** Those that are being read end with their readers. */
  close(): void {
    this.#isClosed = true;
    clearTimeout(this.#sweep);
    this.#small.clear();
    for (const [path, file] of [...this.#kept]) this.#drop(path, file);
  }

  /** Files that nobody reads must not be why another cannot be opened. */
  async #open(path: string): Promise<number> {
    try {
      return await onDisk(() => openReal(path));
    } catch (error) {
      if (!isOutOfNumbers(error) || this.#kept.size === 0) throw error;
      this.#closeOld(0);
      return onDisk(() => openReal(path));
    }
  }

  #hasRoom(): boolean {
    if (this.#kept.size >= MAX_KEPT) this.#closeOld(0);
    return this.#kept.size < MAX_KEPT;
  }

  #closeOld(age: number): void {
    clearTimeout(this.#sweep);
    this.#sweep = undefined;
    const now = performance.now();
    let oldest = Number.POSITIVE_INFINITY;
    for (const [path, file] of [...this.#kept])
      if (file.readers > 0) continue;
      else if (file.leftAt <= now - age) this.#drop(path, file);
      else oldest = Math.min(oldest, file.leftAt);
    if (oldest <= now) this.#sweepIn(Math.max(MIN_PAUSE_MS, oldest + KEPT_MS - now));
  }

  #sweepIn(ms: number): void {
    this.#sweep ??= setTimeout(() => this.#closeOld(KEPT_MS), ms).unref();
  }

  #drop(path: string, file: OpenFile): void {
    this.#kept.delete(path);
    file.isKept = false;
    if (file.readers === 0) closeSync(file.number);
  }
}

/** Milliseconds for which a file that had a name is taken to have it: only another process can have taken it away. */
const NAMED_MS = 50;

function isNamed(file: OpenFile): boolean {
  const now = performance.now();
  if (now - file.namedAt < NAMED_MS) return true;
  file.namedAt = now;
  return hasName(file.number);
}

/** Where the file system does not tell (a share that went away), it is asked by opening the file anew. */
function hasName(file: number): boolean {
  try {
    return fstatSync(file).nlink > 0;
  } catch {
    return false;
  }
}

const isOutOfNumbers = (error: unknown): boolean =>
  error instanceof ProviderError && ['EMFILE', 'ENFILE'].includes(codeOf(error.cause) ?? '');

/* Memory of large pieces, used again: taken anew for each, it makes the collector look at everything there is. */

/** By length: those of long contents, and those of the parts that readers ask for most. 10 MiB at most. */
const spare = new Map<number, Buffer[]>([
  [PIECE_BYTES, []],
  [REUSABLE_BYTES, []],
]);
const MAX_SPARE = 32;
/** Below it pieces share memory that Node takes for several. */
const SMALL_BYTES = 4 * 1024;

const takeMemory = (length: number): Buffer =>
  length < SMALL_BYTES
    ? Buffer.allocUnsafe(length)
    : (spare.get(length)?.pop() ?? Buffer.allocUnsafeSlow(length));

const giveMemory = (bytes: Buffer): void => {
  const some = spare.get(bytes.length);
  if (some && some.length < MAX_SPARE) some.push(bytes);
};

/**
 * One piece is read while the one before it is sent. What a piece holds is gone when the next one is asked for: who asks
 * has no use for it any more. Throws OUT_OF_RANGE, NOT_FOUND.
 */
export async function* readPieces(
  files: OpenFiles,
  path: string,
  { start, end }: ByteRange,
): AsyncGenerator<Uint8Array> {
  const file = await files.take(path);
  let reading: Promise<Buffer> | undefined;
  const begin = (at: number): Promise<Buffer> => {
    const next = readAt(file.number, path, { start: at, end: Math.min(end, at + PIECE_BYTES - 1) });
    // Who stops between two pieces hears nothing of the one that is read ahead.
    next.catch(() => undefined);
    reading = next;
    return next;
  };
  try {
    let next = begin(start);
    for (let at = start; at <= end; ) {
      const piece = await next;
      at += piece.length;
      if (at <= end) next = begin(at);
      yield piece;
      // Not where the reader stops early: then nobody knows what is still being sent of it.
      giveMemory(piece);
    }
  } finally {
    // The number of a closed file may be another file's before the system reads.
    await reading?.catch(() => undefined);
    files.release(file);
  }
}

/** The same in one piece. */
export async function readPart(
  files: OpenFiles,
  path: string,
  range: ByteRange,
): Promise<ReadPart> {
  const known = files.known(path, range);
  if (known) return { bytes: known };
  const taken = files.take(path);
  const file = taken instanceof Promise ? await taken : taken;
  try {
    const bytes = await readAt(file.number, path, range);
    if (bytes.length >= REUSABLE_BYTES) return { bytes, free: () => giveMemory(bytes) };
    files.keep(path, range.start, bytes);
    return { bytes };
  } finally {
    files.release(file);
  }
}

async function readAt(file: number, path: string, { start, end }: ByteRange): Promise<Buffer> {
  const bytes = takeMemory(end - start + 1);
  for (let filled = 0; filled < bytes.length; ) {
    const { bytesRead } = await onDisk(() =>
      readBytes(file, bytes, filled, bytes.length - filled, start + filled),
    ).catch(noFile);
    if (bytesRead === 0) throw shorter(path, start + filled);
    filled += bytesRead;
  }
  return bytes;
}

function noFile(error: unknown): never {
  const isFolder = error instanceof ProviderError && codeOf(error.cause) === 'EISDIR';
  throw isFolder ? new ProviderError('NOT_FOUND', error.message, { cause: error }) : error;
}

const shorter = (path: string, size: number): ProviderError =>
  new ProviderError('OUT_OF_RANGE', `${path} has ${size} bytes`);
