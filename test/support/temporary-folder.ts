import { mkdtemp, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { inject } from 'vitest';

/** A new folder inside that of the test run, which removes what a test leaves behind. */
export function temporaryFolder(purpose: string): Promise<string> {
  return mkdtemp(join(inject('runFolder'), `${purpose}-`));
}

/** Removes a folder into which a server may still write its last words. */
export async function removeFolder(folder: string): Promise<void> {
  await rm(folder, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 });
}
