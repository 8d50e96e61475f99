/** Bytes of a file on their way out: as a stream, or in pieces for those who only send them on. */
import { closeSync, createReadStream, fstat, read } from 'node:fs';
import { Readable } from 'node:stream';
import { promisify } from 'node:util';
import { type ByteRange, ProviderError } from '../provider.ts';
import { codeOf, onDisk } from './disk-errors.ts';
import { openReal } from './folders.ts';

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

/* Memory of large pieces, used again: taken anew for each, it makes the collector look at everything there is. */

const spare: Buffer[] = [];
/** 8 MiB at most. */
const MAX_SPARE = 32;

const takeMemory = (length: number): Buffer =>
  length === PIECE_BYTES
    ? (spare.pop() ?? Buffer.allocUnsafeSlow(PIECE_BYTES))
    : Buffer.allocUnsafeSlow(length);

const giveMemory = (bytes: Buffer): void => {
  if (bytes.length === PIECE_BYTES && spare.length < MAX_SPARE) spare.push(bytes);
};

/**
 * One piece is read while the one before it is sent. What a piece holds is gone when the next one is asked for: who asks
 * has no use for it any more. Throws OUT_OF_RANGE, NOT_FOUND.
 */
export async function* readPieces(
  path: string,
  { start, end }: ByteRange,
): AsyncGenerator<Uint8Array> {
  const file = await onDisk(() => openReal(path));
  let reading: Promise<Buffer> | undefined;
  const begin = (at: number): Promise<Buffer> => {
    const next = readAt(file, path, { start: at, end: Math.min(end, at + PIECE_BYTES - 1) });
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
    closeSync(file);
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
