/** Bytes on their way to a file: written whole under a temporary name, on the disk before anybody sees them. */
import {
  type BigIntStats,
  closeSync,
  constants,
  fstatSync,
  fsync,
  open,
  write as writeOnce,
  writev,
} from 'node:fs';
import { lstat, readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { Writable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { promisify } from 'node:util';
import { type ObjectBody, ProviderError } from '../provider.ts';
import { onDisk, unlessMissing } from './disk-errors.ts';

const openFile = promisify(open);
const syncFile = promisify(fsync);
const writeBytes = promisify(writeOnce);
const writeChunks = promisify(writev);

/** Bytes that wait for the disk. */
const BUFFERED_BYTES = 1024 * 1024;

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

/** Writes a body and waits for the disk; answers what it is there. What the body itself throws comes through as it is. */
export async function writeFile(
  path: string,
  body: ObjectBody,
  writing: Writing,
): Promise<BigIntStats> {
  if (writing.signal?.aborted) throw aborted();
  const how = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW;
  const file = await onDisk(() => openFile(path, how, 0o600));
  try {
    const written =
      body instanceof Uint8Array
        ? await writeWhole(file, body)
        : await writeStream(file, body, writing);
    const { size } = writing;
    if (size !== undefined && written !== size) throw otherLength(written, size);
    await onDisk(() => syncFile(file));
    return fstatSync(file, { bigint: true });
  } finally {
    // It is on the disk, or given up: closing waits for nothing.
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

async function writeStream(
  file: number,
  body: Exclude<ObjectBody, Uint8Array>,
  { size, signal }: Writing,
): Promise<number> {
  const target = fileWriter(file, size);
  try {
    await pipeline(body, target.writable, signal ? { signal } : {});
    return target.written();
  } catch (error) {
    throw signal?.aborted ? aborted(error) : error;
  } finally {
    // The number of a closed file may be another file's before the system writes.
    await target.idle();
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
