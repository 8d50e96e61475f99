/** Writes a backup file. It appears in its place whole or not at all. */
import { createHash, randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { type FileHandle, link, open, rename, rm, stat } from 'node:fs/promises';
import { dirname } from 'node:path';
import type { Writable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { createGzip } from 'node:zlib';
import { type Pack, pack } from 'tar-stream';
import { StartError } from '../kernel/start-error.ts';
import type { Manifest } from './format.ts';

/** Between speed and size: about 60 MB/s. */
const COMPRESSION = 4;

export interface ArchiveWriter {
  add(name: string, content: Buffer): Promise<void>;
  /** Adds a file as it is now; answers false when it went away before it could be read. `onRead` is told the bytes of each piece. */
  addFile(name: string, path: string, onRead: (bytes: number) => void): Promise<boolean>;
  /** What was added so far. */
  readonly entries: Manifest['entries'];
  /** Safe on the disk, under its name, when it resolves. */
  finish(): Promise<void>;
  /** Removes what was written. */
  abandon(): Promise<void>;
}

type Chunks = AsyncIterable<Buffer> | Iterable<Buffer>;

/** @throws StartError when the file cannot be made there, as do all its functions when it cannot be written. */
export async function createArchiveWriter(path: string): Promise<ArchiveWriter> {
  // A name of its own: two that are made at once under one name would write into each other.
  const temporary = `${path}.${randomBytes(4).toString('hex')}.part`;
  const file = await open(temporary, 'wx', 0o600).catch((cause) => {
    throw notWritten(path, cause);
  });
  const tar = pack();
  const entries: Manifest['entries'] = [];
  const written = writeAll(tar, file, path);
  const failed = written.then(() => undefined);
  // Whoever adds next is told; this keeps a failure in between from ending the process.
  failed.catch(() => undefined);

  const entry = async (name: string, size: number, chunks: Chunks): Promise<void> => {
    try {
      if (!tar.destroyed) await writeEntry(name, size, chunks);
    } finally {
      // What broke the whole says more than that this part could not be written.
      if (tar.destroyed) await written;
    }
  };
  const writeEntry = async (name: string, size: number, chunks: Chunks): Promise<void> => {
    const hash = createHash('sha256');
    const sink = tar.entry({ name, size, mode: 0o600, mtime: new Date() }) as unknown as Writable;
    // Told through `failed`; nobody may listen at that moment.
    sink.on('error', () => undefined);
    let length = 0;
    for await (const chunk of chunks) {
      hash.update(chunk);
      length += chunk.length;
      if (!sink.write(chunk)) await Promise.race([once(sink, 'drain'), failed]);
    }
    if (length !== size)
      throw new StartError(`${name} became shorter while it was read: make the backup again`);
    sink.end();
    await Promise.race([once(sink, 'finish'), failed]);
    entries.push({ name, size, sha256: hash.digest('hex') });
  };

  return {
    entries,
    add: (name, content) => entry(name, content.length, [content]),
    async addFile(name, source, onRead) {
      const content = await openUnlessGone(source);
      if (!content) return false;
      try {
        const { size } = await content.stat();
        await entry(name, size, wholeFile({ path: source, content, size }, onRead));
      } finally {
        await content.close();
      }
      return true;
    },
    async finish() {
      tar.finalize();
      await written;
      await giveName(temporary, path);
      await syncFolder(dirname(path));
    },
    async abandon() {
      tar.destroy(new Error('The backup was abandoned'));
      await written.catch(() => undefined);
      await rm(temporary, { force: true });
    },
  };
}

/** Until the compressed archive is on the disk. */
const writeAll = (tar: Pack, file: FileHandle, path: string): Promise<void> =>
  pipeline(tar, createGzip({ level: COMPRESSION }), file.createWriteStream({ flush: true })).catch(
    (cause: NodeJS.ErrnoException) => {
      throw notWritten(path, cause);
    },
  );

const whys: Readonly<Record<string, string>> = {
  ENOENT: 'its folder does not exist: make it',
  ENOTDIR: 'its folder is a file: choose another name',
  EACCES: 'this user may not write there: choose another folder',
  EPERM: 'this user may not write there: choose another folder',
  EROFS: 'the disk is read-only: choose another folder',
  EISDIR: 'a folder has this name: choose another name',
  ENOSPC: 'the disk is full: free some space, or choose another disk',
  EDQUOT: 'the quota of this user is used up: free some space, or choose another disk',
};

function notWritten(path: string, cause: NodeJS.ErrnoException): StartError {
  return new StartError(
    `${path} could not be written, and nothing of it is left: ${whys[cause.code ?? ''] ?? cause.message}`,
    { cause },
  );
}

/** The new name is safe as well, where the system can say so. */
export async function syncFolder(path: string): Promise<void> {
  const folder = await open(path, 'r').catch(() => undefined);
  await folder?.sync().catch(() => undefined);
  await folder?.close();
}

/** @throws StartError when something has that name by now: a backup overwrites nothing. */
async function giveName(temporary: string, path: string): Promise<void> {
  try {
    await link(temporary, path);
  } catch (cause) {
    // Some file systems have no second names.
    if (!(await stat(path).catch(() => undefined))) return rename(temporary, path);
    throw new StartError(
      `${path} was made by somebody else meanwhile: nothing of this backup is left; choose another name`,
      { cause },
    );
  }
  await rm(temporary, { force: true });
}

const openUnlessGone = (path: string): Promise<FileHandle | undefined> =>
  open(path).catch((cause) => {
    if (cause.code !== 'ENOENT') throw notRead(path, cause);
    return undefined;
  });

const notRead = (path: string, cause: Error): StartError =>
  new StartError(
    `${path} could not be read (${cause.message}): a backup without it would not be whole`,
    { cause },
  );

interface OpenFile {
  readonly path: string;
  readonly content: FileHandle;
  readonly size: number;
}

/** The first `size` bytes: a file may grow while it is read. */
async function* wholeFile(
  { path, content, size }: OpenFile,
  onRead: (bytes: number) => void,
): AsyncGenerator<Buffer> {
  if (size === 0) return;
  const chunks = content.createReadStream({ end: size - 1, autoClose: false });
  try {
    for await (const chunk of chunks as AsyncIterable<Buffer>) {
      yield chunk;
      onRead(chunk.length);
    }
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code === undefined) throw cause;
    throw notRead(path, cause as Error);
  }
}
