/** Bytes of others on the disk of this machine, until they are all there: what must not wait for its sender begins then. */
import { randomUUID } from 'node:crypto';
import { type FileHandle, mkdir, open, unlink } from 'node:fs/promises';
import { join } from 'node:path';
import { codeOf } from './database/failures.ts';
import { errors } from './errors.ts';

/** A file without a name: it is gone with its handle, also when the process dies. */
export async function openNamelessFile(folder: string): Promise<FileHandle> {
  const path = join(folder, `part-${randomUUID()}`);
  const file = await open(path, 'wx+', 0o600);
  await unlink(path);
  return file;
}

const READ_BYTES = 256 * 1024;

/** The first `size` bytes of a file. Streams of the file system close theirs; here it is read again for every try. */
export async function* bytesOf(
  file: FileHandle,
  size: number,
  tooShort: () => Error = () => new Error('A spooled file is shorter than written'),
): AsyncGenerator<Buffer> {
  for (let at = 0; at < size; ) {
    const length = Math.min(READ_BYTES, size - at);
    const { buffer, bytesRead } = await file.read(Buffer.allocUnsafe(length), 0, length, at);
    if (bytesRead === 0) throw tooShort();
    at += bytesRead;
    yield buffer.subarray(0, bytesRead);
  }
}

/** Bytes that are kept in memory; what is more goes to the disk. */
const HELD_BYTES = 1024 * 1024;

export interface Spooled {
  readonly bytes: AsyncIterable<Buffer>;
  /** Gives the disk back. */
  close(): Promise<void>;
}

/** Reads to the end. The sender of the chunks bounds them. Throws STORAGE_FULL, and what reading throws. */
export async function spool(chunks: AsyncIterable<Buffer>, folder: string): Promise<Spooled> {
  const held: Buffer[] = [];
  let size = 0;
  let file: FileHandle | undefined;
  try {
    for await (const chunk of chunks) {
      held.push(chunk);
      size += chunk.length;
      if (!file && size <= HELD_BYTES) continue;
      file ??= await openIn(folder);
      for (const part of held.splice(0)) await file.appendFile(part);
    }
  } catch (error) {
    await file?.close();
    throw fullDisk.has(codeOf(error) ?? '') ? noRoom(error) : error;
  }
  return {
    bytes: file
      ? bytesOf(file, size)
      : (async function* () {
          yield* held;
        })(),
    close: async () => file?.close(),
  };
}

async function openIn(folder: string): Promise<FileHandle> {
  await mkdir(folder, { recursive: true });
  return openNamelessFile(folder);
}

const fullDisk: ReadonlySet<string> = new Set(['ENOSPC', 'EDQUOT', 'EFBIG']);

const noRoom = (cause: unknown) =>
  errors.STORAGE_FULL({
    message: 'There is no room left on the disk for what is sent: an operator must make some',
    retryAfter: 30,
    cause,
  });
