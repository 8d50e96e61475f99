/** Folders of the local provider: made when they are needed, gone when they are empty, and never links. */
import { closeSync, constants, fsync, open as openAny, readlinkSync } from 'node:fs';
import { lstat, mkdir, open, realpath, rename, rmdir, unlink } from 'node:fs/promises';
import { dirname } from 'node:path';
import { promisify } from 'node:util';
import { ProviderError, type ProviderProblem } from '../provider.ts';

const openFile = promisify(openAny);
const syncFile = promisify(fsync);

/** Windows opens no folders, and knows no syncing of them. */
const opensFolders = process.platform !== 'win32';
/** The system says by which way an open file was reached. */
const namesOpenFiles = process.platform === 'linux';

/** Deleting takes empty folders away, which may be just when somebody puts a file there. */
const ATTEMPTS = 20;

/** Refuses ways that lead through links, which could leave the root. Throws ENOENT as it comes. */
export async function requireReal(folder: string): Promise<void> {
  if ((await realpath(folder)) !== folder) throw throughLink(folder);
}

const throughLink = (path: string): ProviderError =>
  new ProviderError('INVALID_PLACE', `${path} is reached through a link`);

/**
 * Opens what lies at a path, by which no link may lead; answers its number, to be closed with `closeSync`. Throws what
 * the system says, and INVALID_PLACE.
 */
export async function openReal(path: string, flags = 0): Promise<number> {
  const file = await openFile(path, constants.O_RDONLY | constants.O_NOFOLLOW | flags);
  try {
    if (!isAt(file, path)) await requireReal(dirname(path));
    return file;
  } catch (error) {
    closeSync(file);
    throw error;
  }
}

/**
 * Makes a file that is not there, in a folder that is made where it is missing; answers its number, to be closed with
 * `closeSync`. No link leads there. Throws what the system says, NOT_FOUND without the bucket, and INVALID_PLACE.
 */
export async function createReal({ bucket, path }: Target, flags: number): Promise<number> {
  const folder = dirname(path);
  for (let attempt = 1; ; attempt++) {
    try {
      const how = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW;
      const file = await openFile(path, how | flags, 0o600);
      if (isAt(file, path) || (await realpath(folder).catch(nothing)) === folder) return file;
      closeSync(file);
      await unlink(path);
      throw throughLink(folder);
    } catch (error) {
      if (codeOf(error) !== 'ENOENT' || attempt === ATTEMPTS) throw error;
      (await openFolder(bucket, folder)).close();
    }
  }
}

/** Asks the system, not the disk. False: it does not tell. */
function isAt(file: number, path: string): boolean {
  if (!namesOpenFiles) return false;
  try {
    return readlinkSync(`/proc/self/fd/${file}`) === path;
  } catch {
    return false;
  }
}

/** A folder that files are about to be moved into. */
export interface OpenFolder {
  /** Makes the names in it outlive a loss of power. */
  sync(): Promise<void>;
  close(): void;
}

/** Opens a folder below a bucket, made with those above it where it is missing. Throws NOT_FOUND without the bucket, INVALID_PLACE. */
export async function openFolder(bucket: string, folder: string): Promise<OpenFolder> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await openExisting(folder);
    } catch (error) {
      const missing = codeOf(error) === 'ENOENT';
      if (folder === bucket && (missing || isNoFolder(error))) throw noBucket(bucket);
      if (isNoFolder(error)) throw throughLink(folder);
      if (!missing || attempt === ATTEMPTS) throw error;
      await makeFolder(bucket, folder);
    }
  }
}

async function openExisting(folder: string): Promise<OpenFolder> {
  if (!opensFolders) {
    if (!(await lstat(folder)).isDirectory()) throw throughLink(folder);
    await requireReal(folder);
    return { sync: async () => undefined, close: () => undefined };
  }
  const file = await openReal(folder, constants.O_DIRECTORY);
  return { sync: () => syncFile(file), close: () => closeSync(file) };
}

/** Folders whose next sync has not begun: what has come into them until it does is part of it. */
const comingSyncs = new Map<string, Promise<void>>();
/** Folders that the disk is waited for. */
const runningSyncs = new Map<string, Promise<unknown>>();

/** Makes the names in a folder outlive a loss of power. Those who ask at once wait for the disk together. */
export function syncTogether(bucket: string, folder: string): Promise<void> {
  const coming = comingSyncs.get(folder);
  if (coming) return coming;
  const sync = async (): Promise<void> => {
    await runningSyncs.get(folder);
    const opened = await openFolder(bucket, folder).finally(() => comingSyncs.delete(folder));
    const synced = opened.sync().finally(() => opened.close());
    const ended = synced.then(nothing, nothing).then(() => {
      if (runningSyncs.get(folder) === ended) runningSyncs.delete(folder);
    });
    runningSyncs.set(folder, ended);
    return synced;
  };
  const next = sync();
  comingSyncs.set(folder, next);
  return next;
}

const nothing = (): void => undefined;

const isNoFolder = (error: unknown): boolean =>
  codeOf(error) === 'ENOTDIR' || codeOf(error) === 'ELOOP';

/** In the folder above it, which is known to be real while it is open. */
async function makeFolder(bucket: string, folder: string): Promise<void> {
  const parent = await openFolder(bucket, dirname(folder));
  try {
    await mkdir(folder, { mode: 0o700 });
    await parent.sync();
  } catch (error) {
    // Somebody else was faster; or whoever deletes the last file took the folder above away: then it is made again.
    if (codeOf(error) !== 'EEXIST' && codeOf(error) !== 'ENOENT') throw error;
  } finally {
    parent.close();
  }
}

/** Where a finished file goes. */
export interface Target {
  /** Folder of the bucket, above `path`. */
  readonly bucket: string;
  readonly path: string;
}

interface Moving {
  /** Its folder, where that is open already; it is closed. */
  readonly opened?: OpenFolder;
  /** What the disk needs beside the name; both are waited for together, which costs no more than one of them. */
  readonly sync?: () => Promise<void>;
}

/** Moves a finished file to where readers look for it, replacing what is there, so that it also outlives a loss of power. */
export async function moveInto(
  { bucket, path }: Target,
  temporary: string,
  { opened, sync }: Moving = {},
): Promise<void> {
  let folder = opened;
  for (let attempt = 1; ; attempt++) {
    folder ??= await openFolder(bucket, dirname(path));
    try {
      await rename(temporary, path);
      // Both are waited for: the number of a closed file may be another file's.
      const ends = await Promise.allSettled([folder.sync(), sync?.()]);
      for (const end of ends) if (end.status === 'rejected') throw end.reason;
      return;
    } catch (error) {
      if (codeOf(error) !== 'ENOENT' || attempt === ATTEMPTS) throw error;
    } finally {
      folder.close();
      folder = undefined;
    }
  }
}

export const noBucket = (bucket: string): ProviderError =>
  new ProviderError('NOT_FOUND', `There is no bucket ${bucket}`);

/** A link to a folder is none. */
export async function isFolder(path: string): Promise<boolean> {
  return (await unlessMissing(() => lstat(path)))?.isDirectory() ?? false;
}

/** Takes away the folders between a deleted file and its bucket that hold nothing any more. */
export async function removeEmptyFolders(bucket: string, file: string): Promise<void> {
  for (let folder = dirname(file); folder !== bucket; folder = dirname(folder)) {
    try {
      await rmdir(folder);
    } catch (error) {
      if (codeOf(error) === 'ENOENT') continue;
      return;
    }
  }
}

/** Names in a folder are on the disk once the folder is. Windows knows no such thing. */
export async function syncFolder(path: string): Promise<void> {
  if (!opensFolders) return;
  const folder = await open(path, 'r');
  try {
    await folder.sync();
  } finally {
    await folder.close();
  }
}

/* What the operating system says, in the words of providers. */

const problems = new Map<string, ProviderProblem>([
  ['ENOENT', 'NOT_FOUND'],
  ['ENOTDIR', 'NOT_FOUND'],
  ['ENOTEMPTY', 'NOT_EMPTY'],
  ['ENOSPC', 'NO_SPACE'],
  ['EDQUOT', 'NO_SPACE'],
  ['EFBIG', 'NO_SPACE'],
  ['EACCES', 'REFUSED'],
  ['EPERM', 'REFUSED'],
  ['EROFS', 'REFUSED'],
  ['ELOOP', 'INVALID_PLACE'],
  ['ENAMETOOLONG', 'INVALID_PLACE'],
  ['ABORT_ERR', 'ABORTED'],
]);

export const codeOf = (error: unknown): string | undefined =>
  error instanceof Error && 'code' in error && typeof error.code === 'string'
    ? error.code
    : undefined;

/** Errors without a meaning of their own (EIO, EMFILE, ...) are `UNAVAILABLE`: another try may work. */
export function diskErrorOf(error: unknown): ProviderError {
  if (error instanceof ProviderError) return error;
  const message = error instanceof Error ? error.message : String(error);
  return new ProviderError(problems.get(codeOf(error) ?? '') ?? 'UNAVAILABLE', message, {
    cause: error,
  });
}

/** Runs work on files; what fails is a `ProviderError`. */
export async function onDisk<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    throw diskErrorOf(error);
  }
}

/** Runs work for which a missing file is an answer of its own. */
export async function unlessMissing<T>(work: () => Promise<T>): Promise<T | undefined> {
  try {
    return await work();
  } catch (error) {
    const code = codeOf(error);
    if (code === 'ENOENT' || code === 'ENOTDIR') return undefined;
    throw diskErrorOf(error);
  }
}
