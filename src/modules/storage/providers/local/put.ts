/** How bytes get to where readers of the local provider look for them: whole, and on the disk. */
import { randomUUID } from 'node:crypto';
import { type BigIntStats, constants } from 'node:fs';
import { copyFile, lstat, open, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import {
  discard,
  type ObjectAttributes,
  type ObjectBody,
  type ObjectFacts,
  type ObjectPlace,
  ProviderError,
  requirePlace,
} from '../provider.ts';
import {
  diskErrorOf,
  moveInto,
  type OpenFolder,
  onDisk,
  openFolder,
  removeEmptyFolders,
  requireReal,
  syncTogether,
  type Target,
} from './folders.ts';
import { pathOfKey } from './key-path.ts';
import type { OpenFiles } from './read.ts';
import {
  type OpenWritten,
  requireWaited,
  type Writing,
  type Written,
  writeFile,
  writeNewFile,
  writeOpen,
} from './write.ts';

export interface Disk {
  /** Without links. */
  readonly root: string;
  readonly temporary: string;
  readonly uploads: string;
  readonly reading: OpenFiles;
}

/** Paths that were asked for lately, by place: no part of one has a NUL. */
const paths = new Map<string, string>();
const MAX_PATHS = 2_000;

export function pathOf({ root }: Disk, place: ObjectPlace): string {
  const id = `${root}\0${place.bucket}\0${place.key}`;
  const known = paths.get(id);
  if (known !== undefined) return known;
  requirePlace(place);
  const path = join(root, place.bucket, pathOfKey(place.key));
  if (paths.size >= MAX_PATHS) paths.clear();
  paths.set(id, path);
  return path;
}

const targetOf = (disk: Disk, place: ObjectPlace): Target => ({
  bucket: join(disk.root, place.bucket),
  path: pathOf(disk, place),
});

/**
 * For a place that nobody looks at before the bytes are there: they are written where they stay. What a crash leaves half
 * written has no reader, and is deleted as all that arrived for nothing.
 */
export async function putUnseen(
  disk: Disk,
  place: ObjectPlace,
  body: ObjectBody,
  { after, ...writing }: Pick<ObjectAttributes, 'after'> & Writing,
): Promise<ObjectFacts> {
  try {
    requireWaited(writing);
    const target = targetOf(disk, place);
    await after;
    const also = () => syncTogether(target.bucket, dirname(target.path));
    return factsOf(await writeNewFile(target, body, { ...writing, also }));
  } catch (error) {
    discard(body);
    const { bucket, path } = targetOf(disk, place);
    await removeEmptyFolders(bucket, path);
    throw error;
  }
}

/**
 * The folder is made, and what must have happened before happens, while the bytes come. A new object gets its name before
 * the disk has its bytes, so that the disk is waited for once; one that replaces another must not lose that to a loss of power.
 */
export async function putWhole(
  disk: Disk,
  place: ObjectPlace,
  body: ObjectBody,
  { after, isNew = false, ...writing }: Pick<ObjectAttributes, 'after' | 'isNew'> & Writing,
): Promise<ObjectFacts> {
  const stopping = (error: unknown): never => {
    discard(body);
    throw error;
  };
  const target = async (): Promise<OpenFolder> => {
    const { bucket, path } = targetOf(disk, place);
    return openFolder(bucket, dirname(path));
  };
  const [folder, written, before] = await Promise.allSettled([
    onDisk(target).catch(stopping),
    writeNew(disk, body, (path) => writeOpen(path, body, writing)),
    Promise.resolve(after).catch(stopping),
  ]);
  const failed = [folder, before, written].find(({ status }) => status === 'rejected');
  try {
    if (!failed && folder.status === 'fulfilled' && written.status === 'fulfilled')
      return await publishOpen(disk, written.value, place, { opened: folder.value, isNew });
  } finally {
    if (written.status === 'fulfilled') written.value.close();
  }
  if (folder.status === 'fulfilled') {
    folder.value.close();
    await removeEmptyFolders(join(disk.root, place.bucket), pathOf(disk, place));
  }
  if (written.status === 'fulfilled') await rm(written.value.path, { force: true });
  throw failed?.status === 'rejected' ? failed.reason : undefined;
}

async function publishOpen(
  disk: Disk,
  written: OpenWritten,
  place: ObjectPlace,
  { opened, isNew }: { readonly opened: OpenFolder; readonly isNew: boolean },
): Promise<ObjectFacts> {
  const target = targetOf(disk, place);
  try {
    if (!isNew) await written.sync();
    await moveInto(target, written.path, { opened, ...(isNew && { sync: written.sync }) });
    if (!isNew) disk.reading.forget(target.path);
    return factsOf(written.facts);
  } catch (error) {
    await rm(written.path, { force: true });
    if (isNew) await rm(target.path, { force: true });
    throw diskErrorOf(error);
  }
}

export const writeTemporary = (disk: Disk, body: ObjectBody, writing: Writing): Promise<Written> =>
  writeNew(disk, body, async (path) => ({ path, facts: await writeFile(path, body, writing) }));

/** Whatever happens, no half file is left. */
async function writeNew<T>(
  disk: Disk,
  body: ObjectBody,
  write: (path: string) => Promise<T>,
): Promise<T> {
  const path = join(disk.temporary, randomUUID());
  try {
    return await write(path);
  } catch (error) {
    discard(body);
    await rm(path, { force: true });
    throw error;
  }
}

export async function publish(
  disk: Disk,
  { path, facts }: Written,
  place: ObjectPlace,
): Promise<ObjectFacts> {
  const target = targetOf(disk, place);
  try {
    await moveInto(target, path);
    disk.reading.forget(target.path);
    return factsOf(facts);
  } catch (error) {
    await rm(path, { force: true });
    throw diskErrorOf(error);
  }
}

export const factsOf = ({ ino, size, mtimeNs, mtime }: BigIntStats): ObjectFacts => ({
  size: Number(size),
  contentType: undefined,
  etag: [mtimeNs, size, ino].map((number) => number.toString(36)).join('-'),
  modifiedAt: mtime,
});

/** Shares the blocks where the file system can. */
export async function copyWhole(source: string, target: string): Promise<BigIntStats> {
  await requireReal(dirname(source));
  if (!(await lstat(source)).isFile()) throw new ProviderError('NOT_FOUND', `${source} is no file`);
  await copyFile(source, target, constants.COPYFILE_EXCL | constants.COPYFILE_FICLONE);
  const file = await open(target, 'r+');
  try {
    await file.sync();
    return await file.stat({ bigint: true });
  } finally {
    await file.close();
  }
}
