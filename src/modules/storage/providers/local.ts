/** Files in a folder of this machine (specification storage.md 5.6): the provider that needs nothing else. */
import { randomUUID } from 'node:crypto';
import { type BigIntStats, constants } from 'node:fs';
import {
  copyFile,
  lstat,
  mkdir,
  open,
  readdir,
  realpath,
  rm,
  rmdir,
  unlink,
} from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import { codeOf, diskErrorOf, onDisk, unlessMissing } from './local/disk-errors.ts';
import {
  isFolder,
  moveInto,
  noBucket,
  type OpenFolder,
  openFolder,
  removeEmptyFolders,
  requireReal,
  syncFolder,
  type Target,
} from './local/folders.ts';
import { pathOfKey } from './local/key-path.ts';
import { listFolder } from './local/list.ts';
import { createLocalMultipart } from './local/multipart.ts';
import { readPieces, readStream } from './local/read.ts';
import {
  type OpenWritten,
  sweep,
  type Writing,
  type Written,
  writeFile,
  writeOpen,
} from './local/write.ts';
import { requireBucket, requirePlace, requirePrefix } from './place.ts';
import {
  discard,
  type ObjectAttributes,
  type ObjectBody,
  type ObjectFacts,
  type ObjectPlace,
  ProviderError,
  type StorageProvider,
} from './provider.ts';

export interface LocalProviderOptions {
  /** Folder of all buckets; made (mode 700) when it does not exist. */
  readonly root: string;
}

const MAX_PAGE = 1000;

/** Opens the folder and takes away what writes that died have left there. @throws ProviderError */
export async function createLocalProvider(options: LocalProviderOptions): Promise<StorageProvider> {
  const disk = await onDisk(() => openDisk(options.root));
  return {
    name: 'local',
    capabilities: { signedRequests: false, signedLength: false, minimumPartSize: 1 },
    ...objectCalls(disk),
    ...bucketCalls(disk),
    signRead: refuseToSign,
    signWrite: refuseToSign,
    multipart: createLocalMultipart({
      uploads: disk.uploads,
      writeTemporary: (body, writing) => writeTemporary(disk, body, writing),
      publish: (written, place) => publish(disk, written, place),
      requireBucket: (place) => requireBucketOf(disk, place),
    }),
    async probe() {
      await onDisk(async () => {
        const path = join(disk.temporary, randomUUID());
        await (await open(path, 'wx', 0o600)).close();
        await unlink(path);
      });
    },
    close: async () => undefined,
  };
}

interface Disk {
  /** Without links. */
  readonly root: string;
  readonly temporary: string;
  readonly uploads: string;
}

/** With the folders above it. The way of Node to make all at once never ends below `/proc`. */
async function makePath(folder: string): Promise<void> {
  const make = (): Promise<void> =>
    mkdir(folder, { mode: 0o700 }).catch((error: unknown) => {
      if (codeOf(error) !== 'EEXIST') throw error;
    });
  try {
    await make();
  } catch (error) {
    if (codeOf(error) !== 'ENOENT' || dirname(folder) === folder) throw error;
    await makePath(dirname(folder));
    await make();
  }
}

async function openDisk(folder: string): Promise<Disk> {
  await makePath(resolve(folder));
  const root = await realpath(resolve(folder));
  // No bucket's name begins with a dot.
  const [temporary, uploads] = [join(root, '.tmp'), join(root, '.uploads')];
  for (const path of [temporary, uploads]) await mkdir(path, { recursive: true, mode: 0o700 });
  await sweep(temporary, uploads);
  return { root, temporary, uploads };
}

function objectCalls(disk: Disk) {
  const calls: Pick<StorageProvider, 'put' | 'get' | 'pieces' | 'head' | 'delete' | 'copy'> = {
    put: (place, body, attributes, signal) =>
      putWhole(disk, place, body, { ...attributes, signal }),
    get: (place, range, signal) => onDisk(() => readStream(pathOf(disk, place), range, signal)),
    pieces: (place, range) => readPieces(pathOf(disk, place), range),
    async head(place) {
      const path = pathOf(disk, place);
      const facts = await unlessMissing(async () => {
        await requireReal(dirname(path));
        return lstat(path, { bigint: true });
      });
      return facts?.isFile() ? factsOf(facts) : undefined;
    },
    async delete(place) {
      const path = pathOf(disk, place);
      await unlessMissing(async () => {
        await requireReal(dirname(path));
        await unlink(path);
      });
      await removeEmptyFolders(join(disk.root, place.bucket), path);
    },
    async copy(from, to) {
      const source = pathOf(disk, from);
      await requireBucketOf(disk, to);
      const temporary = join(disk.temporary, randomUUID());
      try {
        const facts = await onDisk(() => copyWhole(source, temporary));
        return await publish(disk, { path: temporary, facts }, to);
      } catch (error) {
        await rm(temporary, { force: true });
        throw error;
      }
    },
  };
  return calls;
}

function bucketCalls({ root }: Disk) {
  const folderOf = (bucket: string): string => {
    requireBucket(bucket);
    return join(root, bucket);
  };
  const calls: Pick<StorageProvider, 'list' | 'createBucket' | 'bucketExists' | 'deleteBucket'> = {
    async list(bucket, prefix, cursor, limit = MAX_PAGE) {
      requirePrefix(bucket, prefix);
      const folder = folderOf(bucket);
      if (!(await isFolder(folder))) throw noBucket(bucket);
      return onDisk(() => listFolder(folder, prefix, { cursor, limit: Math.min(limit, MAX_PAGE) }));
    },
    async createBucket(bucket) {
      const folder = folderOf(bucket);
      await onDisk(async () => {
        await mkdir(folder, { recursive: true, mode: 0o700 });
        await requireReal(folder);
        await syncFolder(root);
      });
    },
    bucketExists: async (bucket) => isFolder(folderOf(bucket)),
    async deleteBucket(bucket) {
      const folder = folderOf(bucket);
      if (!(await isFolder(folder))) return;
      const { objects } = await onDisk(() =>
        listFolder(folder, '', { cursor: undefined, limit: 1 }),
      );
      if (objects.length > 0) throw new ProviderError('NOT_EMPTY', `${bucket} holds objects`);
      await onDisk(() => removeFolders(folder));
    },
  };
  return calls;
}

function pathOf(disk: Disk, place: ObjectPlace): string {
  requirePlace(place);
  return join(disk.root, place.bucket, pathOfKey(place.key));
}

async function requireBucketOf(disk: Disk, place: ObjectPlace): Promise<void> {
  requirePlace(place);
  if (!(await isFolder(join(disk.root, place.bucket)))) throw noBucket(place.bucket);
}

const targetOf = (disk: Disk, place: ObjectPlace): Target => ({
  bucket: join(disk.root, place.bucket),
  path: pathOf(disk, place),
});

/**
 * The folder is made, and what must have happened before happens, while the bytes come. A new object gets its name before
 * the disk has its bytes, so that the disk is waited for once; one that replaces another must not lose that to a loss of power.
 */
async function putWhole(
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
    return factsOf(written.facts);
  } catch (error) {
    await rm(written.path, { force: true });
    if (isNew) await rm(target.path, { force: true });
    throw diskErrorOf(error);
  }
}

const writeTemporary = (disk: Disk, body: ObjectBody, writing: Writing): Promise<Written> =>
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

async function publish(
  disk: Disk,
  { path, facts }: Written,
  place: ObjectPlace,
): Promise<ObjectFacts> {
  try {
    await moveInto(targetOf(disk, place), path);
    return factsOf(facts);
  } catch (error) {
    await rm(path, { force: true });
    throw diskErrorOf(error);
  }
}

const factsOf = ({ ino, size, mtimeNs, mtime }: BigIntStats): ObjectFacts => ({
  size: Number(size),
  contentType: undefined,
  etag: [mtimeNs, size, ino].map((number) => number.toString(36)).join('-'),
  modifiedAt: mtime,
});

/** Shares the blocks where the file system can. */
async function copyWhole(source: string, target: string): Promise<BigIntStats> {
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

/**
 * Only folders: a file that came in meanwhile makes it fail. Whoever deletes an object meanwhile takes its empty folders
 * away too: what is gone is as it should be.
 */
async function removeFolders(folder: string): Promise<void> {
  const entries = await unlessMissing(() => readdir(folder, { withFileTypes: true }));
  for (const entry of entries ?? [])
    if (entry.isDirectory()) await removeFolders(join(folder, entry.name));
  await rmdir(folder).catch((error: unknown) => {
    if (codeOf(error) !== 'ENOENT') throw error;
  });
}

async function refuseToSign(): Promise<never> {
  throw new ProviderError('REFUSED', 'Files of this machine have no addresses of their own');
}
