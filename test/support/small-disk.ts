/** A disk that can be filled: a file system of a given size in memory. */
import { execFile } from 'node:child_process';
import { open, rm, statfs } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';

const run = promisify(execFile);
const CHUNK_BYTES = 4 * 2 ** 20;

export interface SmallDisk {
  /** Takes all room that is left, but for `leaveBytes`. */
  fill(leaveBytes?: number): Promise<void>;
  /** Gives it back. */
  free(): Promise<void>;
  unmount(): Promise<void>;
}

/** Mounts it over an empty folder. `undefined` where that is not allowed: it takes root on Linux. */
export async function mountSmallDisk(
  folder: string,
  megabytes: number,
): Promise<SmallDisk | undefined> {
  if (process.getuid?.() !== 0 || process.platform !== 'linux') return undefined;
  const options = `size=${megabytes}m,mode=755`;
  const isMounted = await run('mount', ['-t', 'tmpfs', '-o', options, 'tmpfs', folder]).then(
    () => true,
    () => false,
  );
  if (!isMounted) return undefined;
  const filler = join(folder, 'filler');
  return {
    async fill(leaveBytes = 0) {
      const { bavail, bsize } = await statfs(folder);
      await writeZeros(filler, bavail * bsize - leaveBytes);
    },
    free: () => rm(filler, { force: true }),
    unmount: async () => void (await run('umount', ['-l', folder])),
  };
}

/** As many bytes as fit, `bytes` at most. */
async function writeZeros(path: string, bytes: number): Promise<void> {
  const file = await open(path, 'w');
  const zeros = Buffer.alloc(CHUNK_BYTES);
  try {
    for (let left = bytes; left > 0; left -= CHUNK_BYTES)
      await file.write(zeros, 0, Math.min(left, CHUNK_BYTES));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOSPC') throw error;
  } finally {
    await file.close();
  }
}
