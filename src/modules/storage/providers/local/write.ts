/** Bytes on their way to a file: written whole under a temporary name, on the disk before anybody sees them. */
import { close, constants, fsync, open, writev } from 'node:fs';
import { lstat, readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { type Readable, Writable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { promisify } from 'node:util';
import { ProviderError } from '../provider.ts';
import { onDisk, unlessMissing } from './disk-errors.ts';

const openFile = promisify(open);
const syncFile = promisify(fsync);
const writeChunks = promisify(writev);
const closeFile = promisify(close);

/** Bytes that wait for the disk. */
const BUFFERED_BYTES = 1024 * 1024;

export interface Writing {
  /** Bytes announced; a body of another length is `LENGTH_MISMATCH`. */
  readonly size?: number | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** Writes a body and waits for the disk; answers its bytes. What the body itself throws comes through as it is. */
export async function writeFile(
  path: string,
  body: Readable,
  { size, signal }: Writing,
): Promise<number> {
  const how = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW;
  const file = await onDisk(() => openFile(path, how, 0o600));
  const target = fileWriter(file, size);
  try {
    await pipeline(body, target.writable, signal ? { signal } : {});
    const written = target.written();
    if (size !== undefined && written !== size) throw otherLength(written, size);
    await onDisk(() => syncFile(file));
    return written;
  } catch (error) {
    if (!signal?.aborted) throw error;
    throw new ProviderError('ABORTED', 'Nobody waits for it', { cause: error });
  } finally {
    // The number of a closed file may be another file's before the system writes.
    await target.idle();
    await closeFile(file);
  }
}

function fileWriter(file: number, size: number | undefined) {
  let written = 0;
  let writing: Promise<void> = Promise.resolve();
  const write = async (chunks: readonly Buffer[]): Promise<void> => {
    const bytes = chunks.reduce((sum, { length }) => sum + length, 0);
    if (size !== undefined && written + bytes > size) throw otherLength(written + bytes, size);
    for (let rest = chunks; rest.length > 0; ) {
      const { bytesWritten } = await onDisk(() => writeChunks(file, rest));
      written += bytesWritten;
      rest = withoutFirst(rest, bytesWritten);
    }
  };
  const start = (chunks: readonly Buffer[], done: (error?: Error | null) => void): void => {
    writing = write(chunks).then(() => done(), done);
  };
  const writable = new Writable({
    highWaterMark: BUFFERED_BYTES,
    write: (chunk: Buffer, _encoding, done) => start([chunk], done),
    writev: (chunks, done) =>
      start(
        chunks.map(({ chunk }) => chunk as Buffer),
        done,
      ),
  });
  return { writable, written: () => written, idle: () => writing };
}

/** A disk may take less than it was given. */
function withoutFirst(chunks: readonly Buffer[], count: number): Buffer[] {
  const rest: Buffer[] = [];
  let skip = count;
  for (const chunk of chunks) {
    if (skip < chunk.length) rest.push(chunk.subarray(skip));
    skip = Math.max(0, skip - chunk.length);
  }
  return rest;
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
