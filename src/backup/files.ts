/** The local files that a backup takes along. */
import type { Dirent } from 'node:fs';
import { readdir, stat } from 'node:fs/promises';
import { join, relative, sep } from 'node:path';
import { StartError } from '../kernel/start-error.ts';

export interface FoundFile {
  /** Path below the folder, with `/`. */
  readonly name: string;
  readonly path: string;
  readonly size: number;
}

/**
 * Every file below the folder, by name. Links are not followed: they may lead anywhere, and are named with what else is no file.
 * @throws StartError when a folder cannot be read: files would be missing, and nobody would know.
 */
export async function findFiles(folder: string): Promise<{ readonly found: readonly FoundFile[]; readonly noFiles: readonly string[] }> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true }).catch((cause) => noEntries(folder, cause));
  const found: FoundFile[] = [];
  const noFiles: string[] = [];
  for (const entry of entries) {
    if (entry.isDirectory()) continue;
    const path = join(entry.parentPath, entry.name);
    const name = relative(folder, path).split(sep).join('/');
    if (!entry.isFile()) noFiles.push(name);
    else found.push({ name, path, size: (await stat(path).catch(() => undefined))?.size ?? 0 });
  }
  return { found: found.sort((a, b) => (a.name < b.name ? -1 : 1)), noFiles: noFiles.sort() };
}

function noEntries(folder: string, cause: NodeJS.ErrnoException): Dirent[] {
  if (cause.code === 'ENOENT' && cause.path === folder) return [];
  throw new StartError(
    `The files in ${cause.path ?? folder} cannot be read (${cause.code ?? cause.message}): a backup without them would not be whole`,
    {
      cause,
    },
  );
}
