/** Writes a backup file. It appears in its place whole or not at all. */
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { createReadStream } from 'node:fs';
import { type FileHandle, open, rename, rm, stat } from 'node:fs/promises';
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
  const temporary = `${path}.part`;
  const file = await open(temporary, 'w', 0o600).catch((cause) => {
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
      const facts = await stat(source).catch(ifAbsent);
      if (!facts) return false;
      await entry(name, facts.size, wholeFile(source, facts.size, onRead));
      return true;
    },
    async finish() {
      tar.finalize();
      await written;
      await rename(temporary, path);
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
async function syncFolder(path: string): Promise<void> {
  const folder = await open(path, 'r').catch(() => undefined);
  await folder?.sync().catch(() => undefined);
  await folder?.close();
}

function ifAbsent(error: NodeJS.ErrnoException): undefined {
  if (error.code !== 'ENOENT') throw error;
}

/** The first `size` bytes: a file may grow while it is read. */
async function* wholeFile(
  path: string,
  size: number,
  onRead: (bytes: number) => void,
): AsyncGenerator<Buffer> {
  if (size === 0) return;
  try {
    for await (const chunk of createReadStream(path, { end: size - 1 }) as AsyncIterable<Buffer>) {
      yield chunk;
      onRead(chunk.length);
    }
  } catch (cause) {
    const { code, message } = cause as NodeJS.ErrnoException;
    if (code === undefined) throw cause;
    throw new StartError(
      `${path} could not be read (${message}): a backup without it would not be whole`,
      { cause },
    );
  }
}
