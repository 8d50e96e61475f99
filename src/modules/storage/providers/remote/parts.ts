/**
 * A body of any length on its way to a store that wants to know lengths beforehand. Memory does not grow with it: what
 * is small is kept, what is announced flows through, and the rest goes by parts through a file without a name.
 */
import type { FileHandle } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { Readable } from 'node:stream';
import { bytesOf, openNamelessFile } from '../../../../kernel/spool.ts';
import { diskErrorOf } from '../local/folders.ts';
import {
  type ObjectAttributes,
  type ObjectBody,
  type ObjectFacts,
  type PartTag,
  ProviderError,
} from '../provider.ts';
import type { RequestBody } from './transport.ts';

/** Bytes up to which a body is held in memory, so that it can be sent again. */
const HELD_BYTES = 1024 * 1024;
/** Bytes of a part; 10,000 parts are 160 GB. */
const PART_BYTES = 16 * 1024 * 1024;

export interface StoredWays {
  whole(body: RequestBody): Promise<ObjectFacts>;
  begin(): Promise<string>;
  part(uploadId: string, number: number, body: RequestBody): Promise<PartTag>;
  complete(uploadId: string, parts: readonly PartTag[]): Promise<ObjectFacts>;
  abort(uploadId: string): Promise<void>;
  /** Bytes that one request can carry. */
  readonly maxWhole: number;
}

/** Stores a body whole or not at all. A stream is read to its end or destroyed. */
export async function storeBody(
  body: ObjectBody,
  { size, after }: Pick<ObjectAttributes, 'size' | 'after'>,
  ways: StoredWays,
): Promise<ObjectFacts> {
  if (body instanceof Uint8Array) {
    await after;
    requireLength(body.length, size);
    return ways.whole({ bytes: body });
  }
  const source = body[Symbol.asyncIterator]() as AsyncIterator<Buffer>;
  try {
    const { chunks, ended, bytes } = await readUpTo(source, HELD_BYTES, size);
    await after;
    if (ended) {
      requireLength(bytes, size);
      return await ways.whole({ bytes: Buffer.concat(chunks) });
    }
    const rest = joined(chunks, source);
    if (size !== undefined && size <= ways.maxWhole)
      return await ways.whole({
        once: Readable.from(exactly(rest, size), { objectMode: false }),
        size,
      });
    return await inParts(rest, size, ways);
  } finally {
    body.destroy();
  }
}

async function readUpTo(source: AsyncIterator<Buffer>, limit: number, size: number | undefined) {
  const chunks: Buffer[] = [];
  let bytes = 0;
  while (bytes <= limit) {
    const next = await source.next();
    if (next.done) return { chunks, bytes, ended: true };
    chunks.push(next.value);
    bytes += next.value.length;
    if (size !== undefined && bytes > size) requireLength(bytes, size);
  }
  return { chunks, bytes, ended: false };
}

function requireLength(bytes: number, size: number | undefined): void {
  if (size !== undefined && bytes !== size)
    throw new ProviderError('LENGTH_MISMATCH', `The body has ${bytes} bytes or more, not ${size}`);
}

async function* joined(
  chunks: readonly Buffer[],
  source: AsyncIterator<Buffer>,
): AsyncGenerator<Buffer> {
  yield* chunks;
  for (let next = await source.next(); !next.done; next = await source.next()) yield next.value;
}

/**
 * The last chunk goes only when the end is known: a store that has all announced bytes takes the object, whatever
 * would have followed.
 */
export async function* exactly(
  source: AsyncIterable<Buffer>,
  size: number,
): AsyncGenerator<Buffer> {
  let held: Buffer | undefined;
  let bytes = 0;
  for await (const chunk of source) {
    bytes += chunk.length;
    if (bytes > size) requireLength(bytes, size);
    if (held) yield held;
    held = chunk;
  }
  requireLength(bytes, size);
  if (held) yield held;
}

async function inParts(
  source: AsyncIterator<Buffer>,
  size: number | undefined,
  ways: StoredWays,
): Promise<ObjectFacts> {
  const uploadId = await ways.begin();
  const file = await openSpool();
  try {
    const parts: PartTag[] = [];
    let bytes = 0;
    for (let filled = await fill(file, source); filled.bytes > 0; ) {
      bytes += filled.bytes;
      if (size !== undefined && bytes > size) requireLength(bytes, size);
      const { number, body } = { number: parts.length + 1, body: spooled(file, filled.bytes) };
      parts.push(await ways.part(uploadId, number, body));
      if (filled.ended) break;
      filled = await fill(file, source);
    }
    requireLength(bytes, size);
    return await ways.complete(uploadId, parts);
  } catch (error) {
    // What stays behind is taken away by the store's own rule for unfinished uploads.
    await ways.abort(uploadId).catch(() => undefined);
    throw error;
  } finally {
    await file.close();
  }
}

async function fill(
  file: FileHandle,
  source: AsyncIterator<Buffer>,
): Promise<{ readonly bytes: number; readonly ended: boolean }> {
  let bytes = 0;
  while (bytes < PART_BYTES) {
    const next = await source.next();
    if (next.done) return { bytes, ended: true };
    try {
      await file.write(next.value, 0, next.value.length, bytes);
    } catch (error) {
      throw diskErrorOf(error);
    }
    bytes += next.value.length;
  }
  return { bytes, ended: false };
}

/* Bytes that wait on the disk of this machine until they are enough for a part. */

/** The first `size` bytes of a spool, from the beginning each time. */
export const spooled = (file: FileHandle, size: number) => ({
  size,
  open: (): Readable =>
    Readable.from(
      bytesOf(file, size, () => new ProviderError('UNAVAILABLE', 'A part is shorter than written')),
      { objectMode: false },
    ),
});

export async function openSpool(): Promise<FileHandle> {
  try {
    return await openNamelessFile(tmpdir());
  } catch (error) {
    throw diskErrorOf(error);
  }
}
