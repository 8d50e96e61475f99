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
import { Readable } from 'node:stream';
import { codeOf, diskErrorOf, onDisk, unlessMissing } from './local/disk-errors.ts';
import {
  isFolder,
  moveInto,
  noBucket,
  prepareFolder,
  removeEmptyFolders,
  requireReal,
  syncFolder,
} from './local/folders.ts';
import { pathOfKey } from './local/key-path.ts';
import { listFolder } from './local/list.ts';
import { createLocalMultipart } from './local/multipart.ts';
import { sweep, type Writing, writeFile } from './local/write.ts';
import { requireBucket, requirePlace, requirePrefix } from './place.ts';
import {
  type ByteRange,
  type ObjectFacts,
  type ObjectPlace,
  ProviderError,
  type StorageProvider,
} from './provider.ts';

export interface LocalProviderOptions {
  /** Folder of all buckets; made (mode 700) when it does not exist. */
  readonly root: string;
}

/** Bytes read ahead of a reader. */
const READ_AHEAD_BYTES = 256 * 1024;
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
      publish: (temporary, place) => publish(disk, temporary, place),
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

async function openDisk(folder: string): Promise<Disk> {
  await mkdir(resolve(folder), { recursive: true, mode: 0o700 });
  const root = await realpath(resolve(folder));
  // No bucket's name begins with a dot.
  const [temporary, uploads] = [join(root, '.tmp'), join(root, '.uploads')];
  for (const path of [temporary, uploads]) await mkdir(path, { recursive: true, mode: 0o700 });
  await sweep(temporary, uploads);
  return { root, temporary, uploads };
}

function objectCalls(disk: Disk) {
  const calls: Pick<StorageProvider, 'put' | 'get' | 'head' | 'delete' | 'copy'> = {
    put: (place, body, { size }, signal) => putWhole(disk, place, body, { size, signal }),
    get: (place, range, signal) => onDisk(() => readFile(pathOf(disk, place), range, signal)),
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
        await onDisk(() => copyWhole(source, temporary));
      } catch (error) {
        await rm(temporary, { force: true });
        throw error;
      }
      return publish(disk, temporary, to);
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

/** The folder is made and on the disk while the bytes come. */
async function putWhole(
  disk: Disk,
  place: ObjectPlace,
  body: Readable,
  writing: Writing,
): Promise<ObjectFacts> {
  const folderReady = async (): Promise<void> => {
    try {
      await prepareFolder(join(disk.root, place.bucket), dirname(pathOf(disk, place)));
    } catch (error) {
      body.destroy();
      throw diskErrorOf(error);
    }
  };
  const [folder, written] = await Promise.allSettled([
    folderReady(),
    writeTemporary(disk, body, writing),
  ]);
  if (folder.status === 'rejected') {
    if (written.status === 'fulfilled') await rm(written.value, { force: true });
    throw folder.reason;
  }
  if (written.status === 'fulfilled') return publish(disk, written.value, place);
  await removeEmptyFolders(join(disk.root, place.bucket), pathOf(disk, place));
  throw written.reason;
}

/** Whatever happens, no half file is left. */
async function writeTemporary(disk: Disk, body: Readable, writing: Writing): Promise<string> {
  const path = join(disk.temporary, randomUUID());
  try {
    await writeFile(path, body, writing);
    return path;
  } catch (error) {
    body.destroy();
    await rm(path, { force: true });
    throw error;
  }
}

async function publish(disk: Disk, temporary: string, place: ObjectPlace): Promise<ObjectFacts> {
  try {
    const facts = await lstat(temporary, { bigint: true });
    await moveInto(join(disk.root, place.bucket), temporary, pathOf(disk, place));
    return factsOf(facts);
  } catch (error) {
    await rm(temporary, { force: true });
    throw diskErrorOf(error);
  }
}

const factsOf = ({ ino, size, mtimeNs, mtime }: BigIntStats): ObjectFacts => ({
  size: Number(size),
  contentType: undefined,
  etag: [mtimeNs, size, ino].map((number) => number.toString(36)).join('-'),
  modifiedAt: mtime,
});

async function readFile(
  path: string,
  range: ByteRange | undefined,
  signal: AbortSignal | undefined,
): Promise<Readable> {
  await requireReal(dirname(path));
  const file = await open(path, constants.O_RDONLY | constants.O_NOFOLLOW);
  try {
    const facts = await file.stat();
    if (!facts.isFile()) throw new ProviderError('NOT_FOUND', `${path} is no file`);
    if (range && range.start >= facts.size)
      throw new ProviderError('OUT_OF_RANGE', `${path} has ${facts.size} bytes`);
    if (facts.size === 0) {
      await file.close();
      return Readable.from([]);
    }
    return file.createReadStream({
      start: range?.start ?? 0,
      // With its end known, a small content is one read of its own length.
      end: Math.min(range?.end ?? facts.size, facts.size - 1),
      highWaterMark: READ_AHEAD_BYTES,
      ...(signal && { signal }),
    });
  } catch (error) {
    await file.close();
    throw error;
  }
}

/** Shares the blocks where the file system can. */
async function copyWhole(source: string, target: string): Promise<void> {
  await requireReal(dirname(source));
  if (!(await lstat(source)).isFile()) throw new ProviderError('NOT_FOUND', `${source} is no file`);
  await copyFile(source, target, constants.COPYFILE_EXCL | constants.COPYFILE_FICLONE);
  const file = await open(target, 'r+');
  try {
    await file.sync();
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
