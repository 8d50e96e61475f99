/** Folders of the local provider: made when they are needed, gone when they are empty, and never links. */
import { lstat, mkdir, open, realpath, rename, rmdir } from 'node:fs/promises';
import { dirname, join, relative, sep } from 'node:path';
import { ProviderError } from '../provider.ts';
import { codeOf, unlessMissing } from './disk-errors.ts';

/** Deleting takes empty folders away, which may be just when somebody puts a file there. */
const ATTEMPTS = 20;

/** Refuses ways that lead through links, which could leave the root. Throws ENOENT as it comes. */
export async function requireReal(folder: string): Promise<void> {
  if ((await realpath(folder)) !== folder)
    throw new ProviderError('INVALID_PLACE', `${folder} is reached through a link`);
}

/**
 * Moves a finished file to where readers look for it, replacing what is there, so that it also outlives a loss of
 * power. `bucket` is the folder of a bucket, above `target`.
 */
export async function moveInto(bucket: string, temporary: string, target: string): Promise<void> {
  const folder = dirname(target);
  for (let attempt = 1; ; attempt++) {
    try {
      await requireReal(folder);
      await rename(temporary, target);
      return await syncFolder(folder);
    } catch (error) {
      if (codeOf(error) !== 'ENOENT' || attempt === ATTEMPTS) throw error;
      await makeFolders(bucket, folder);
    }
  }
}

/** Makes the folder of a file that is about to come. Throws what `moveInto` would refuse. */
export async function prepareFolder(bucket: string, folder: string): Promise<void> {
  try {
    if (folder === bucket && !(await isFolder(bucket))) throw noBucket(bucket);
    await requireReal(folder);
  } catch (error) {
    if (codeOf(error) !== 'ENOENT') throw error;
    await makeFolders(bucket, folder);
  }
}

export const noBucket = (bucket: string): ProviderError =>
  new ProviderError('NOT_FOUND', `There is no bucket ${bucket}`);

async function makeFolders(bucket: string, folder: string): Promise<void> {
  if (!(await isFolder(bucket))) throw noBucket(bucket);
  let parent = bucket;
  for (const name of relative(bucket, folder).split(sep)) {
    const next = join(parent, name);
    // Whoever deletes the last file of an empty folder takes it away again; then there is nothing to keep.
    if (await makeFolder(next)) await unlessMissing(() => syncFolder(parent));
    parent = next;
  }
}

/** Whether it was made just now. A folder that vanished again is left to the next attempt. */
async function makeFolder(path: string): Promise<boolean> {
  try {
    await mkdir(path, { mode: 0o700 });
    return true;
  } catch (error) {
    if (codeOf(error) === 'ENOENT') return false;
    if (codeOf(error) !== 'EEXIST') throw error;
    if ((await unlessMissing(() => lstat(path)))?.isDirectory() === false)
      throw new ProviderError('INVALID_PLACE', `${path} is no folder`);
    return false;
  }
}

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
  if (process.platform === 'win32') return;
  const folder = await open(path, 'r');
  try {
    await folder.sync();
  } finally {
    await folder.close();
  }
}
