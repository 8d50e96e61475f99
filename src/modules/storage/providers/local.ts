/** Files in a folder of this machine (specification storage.md 5.6): the provider that needs nothing else. */
import { randomUUID } from 'node:crypto';
import { lstat, mkdir, open, readdir, realpath, rm, rmdir, unlink } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import {
  codeOf,
  isFolder,
  noBucket,
  onDisk,
  removeEmptyFolders,
  requireReal,
  syncFolder,
  unlessMissing,
} from './local/folders.ts';
import { listFolder } from './local/list.ts';
import { createLocalMultipart } from './local/multipart.ts';
import {
  copyWhole,
  type Disk,
  factsOf,
  pathOf,
  publish,
  putUnseen,
  putWhole,
  writeTemporary,
} from './local/put.ts';
import { OpenFiles, readPart, readPieces, readStream } from './local/read.ts';
import { sweep } from './local/write.ts';
import {
  type ObjectPlace,
  ProviderError,
  requireBucket,
  requirePlace,
  requirePrefix,
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
    close: async () => disk.reading.close(),
  };
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
  return { root, temporary, uploads, reading: new OpenFiles() };
}

function objectCalls(disk: Disk) {
  const calls: Pick<
    StorageProvider,
    'put' | 'get' | 'pieces' | 'part' | 'head' | 'delete' | 'copy'
  > = {
    put: (place, body, { contentType: _none, unseen, ...attributes }, signal) =>
      unseen
        ? putUnseen(disk, place, body, { ...attributes, signal })
        : putWhole(disk, place, body, { ...attributes, signal }),
    get: (place, range, signal) => onDisk(() => readStream(pathOf(disk, place), range, signal)),
    pieces: (place, range) => readPieces(disk.reading, pathOf(disk, place), range),
    part: (place, range) => readPart(disk.reading, pathOf(disk, place), range),
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
      disk.reading.forget(path);
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

async function requireBucketOf(disk: Disk, place: ObjectPlace): Promise<void> {
  requirePlace(place);
  if (!(await isFolder(join(disk.root, place.bucket)))) throw noBucket(place.bucket);
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
