/** Bytes that wait on the disk of this machine until they are enough for a part. */
import { randomUUID } from 'node:crypto';
import { type FileHandle, open, unlink } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import { diskErrorOf } from './local/disk-errors.ts';
import { ProviderError } from './provider.ts';

const READ_BYTES = 256 * 1024;

/** The first `size` bytes of a spool, from the beginning each time. */
export const spooled = (file: FileHandle, size: number) => ({
  size,
  open: (): Readable => Readable.from(bytesOf(file, size), { objectMode: false }),
});

/** Streams of the file system close their file; here it is read again for every try. */
async function* bytesOf(file: FileHandle, size: number): AsyncGenerator<Buffer> {
  for (let at = 0; at < size; ) {
    const length = Math.min(READ_BYTES, size - at);
    const { buffer, bytesRead } = await file.read(Buffer.allocUnsafe(length), 0, length, at);
    if (bytesRead === 0) throw new ProviderError('UNAVAILABLE', 'A part is shorter than written');
    at += bytesRead;
    yield buffer.subarray(0, bytesRead);
  }
}

/** A file that is gone with its handle, also when the process dies. */
export async function openSpool(): Promise<FileHandle> {
  const path = join(tmpdir(), `part-${randomUUID()}`);
  try {
    const file = await open(path, 'wx+', 0o600);
    await unlink(path);
    return file;
  } catch (error) {
    throw diskErrorOf(error);
  }
}
