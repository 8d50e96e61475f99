/** What earlier processes left behind when they died in the middle of a write. */
import { lstat, readdir, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { unlessMissing } from './disk-errors.ts';

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
