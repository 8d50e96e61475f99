/** Reads a backup file: once to prove it, and again to use it. */
import { createHash } from 'node:crypto';
import { createReadStream } from 'node:fs';
import { stat } from 'node:fs/promises';
import { pipeline } from 'node:stream/promises';
import { createGunzip } from 'node:zlib';
import { extract } from 'tar-stream';
import { StartError } from '../kernel/start-error.ts';
import {
  FORMAT,
  type Header,
  headerName,
  isHeader,
  isManifest,
  isStructure,
  MAX_TEXT,
  type Manifest,
  manifestName,
  type Progress,
  type Structure,
  structureName,
} from './format.ts';

export interface ArchiveEntry {
  readonly name: string;
  readonly size: number;
  readonly content: AsyncIterable<Buffer>;
}

/** A backup in which every byte is as it was written. */
export interface ProvenArchive {
  readonly header: Header;
  readonly structure: Structure;
  readonly manifest: Manifest;
  /**
   * Everything but header and manifest, in order. Each entry must be read before the next. Throws StartError for a file
   * that is another one by now: whoever uses what comes must be able to undo it until the end.
   */
  read(): AsyncGenerator<ArchiveEntry>;
}

/**
 * Reads the whole file and compares it with its manifest.
 * @throws StartError when it is no backup, of a newer version, cut off or altered.
 */
export async function proveArchive(path: string, onProgress: Progress): Promise<ProvenArchive> {
  const total = await sizeOf(path);
  const texts = new Map<string, Buffer>();
  const seen: Manifest['entries'] = [];
  const onRead = (done: number): void => onProgress({ what: 'checking the file', done, total });
  for await (const entry of entriesOf(path, onRead)) {
    const kept = [headerName, structureName, manifestName].includes(entry.name);
    const { sha256, size, content } = await digest(entry, kept);
    if (content) texts.set(entry.name, content);
    if (seen.length === 0) checkHeader(path, texts.get(headerName));
    seen.push({ name: entry.name, size, sha256 });
  }
  const header = json(texts.get(headerName));
  const manifest = json(texts.get(manifestName));
  const structure = json(texts.get(structureName));
  if (!isHeader.Check(header)) throw noBackup(path);
  if (!isManifest.Check(manifest) || !isStructure.Check(structure))
    throw damaged(path, 'its list of contents is missing: the file was cut off');
  compare(path, seen, manifest);
  return { header, manifest, structure, read: () => contentOf(path, seen) };
}

async function* contentOf(path: string, proven: Manifest['entries']): AsyncGenerator<ArchiveEntry> {
  let index = 0;
  for await (const entry of entriesOf(path)) {
    const expected = proven[index++];
    if (entry.name !== expected?.name) throw exchanged(path);
    const content = sameContent(path, entry.content, expected.sha256);
    if (entry.name !== headerName && entry.name !== manifestName) yield { ...entry, content };
    else for await (const _piece of content);
  }
  if (index !== proven.length) throw exchanged(path);
}

async function* sameContent(
  path: string,
  content: AsyncIterable<Buffer>,
  sha256: string,
): AsyncGenerator<Buffer> {
  const hash = createHash('sha256');
  for await (const piece of content) {
    hash.update(piece);
    yield piece;
  }
  if (hash.digest('hex') !== sha256) throw exchanged(path);
}

const exchanged = (path: string): StartError =>
  new StartError(`${path} was changed while it was read: nothing was changed; begin again`);

async function sizeOf(path: string): Promise<number> {
  const facts = await stat(path).catch((cause: NodeJS.ErrnoException) => {
    throw new StartError(`${path} cannot be read (${cause.code ?? cause.message})`, { cause });
  });
  if (!facts.isFile()) throw noBackup(path);
  return facts.size;
}

/** `onRead` is told how many bytes of the file have been read so far. */
async function* entriesOf(
  path: string,
  onRead?: (bytes: number) => void,
): AsyncGenerator<ArchiveEntry> {
  const tar = extract();
  const file = createReadStream(path);
  const onPiece = onRead && ((): void => onRead(file.bytesRead));
  const read = pipeline(file, createGunzip(), tar);
  // Told by the loop below.
  read.catch(() => undefined);
  try {
    for await (const entry of tar)
      yield {
        name: entry.header.name,
        size: entry.header.size ?? 0,
        content: wholeContent(path, entry as AsyncIterable<Buffer>, onPiece),
      };
    await read;
  } catch (cause) {
    throw damaged(path, cause instanceof Error ? cause.message : String(cause), cause);
  }
}

/** A problem of the file that shows while an entry is read. */
async function* wholeContent(
  path: string,
  content: AsyncIterable<Buffer>,
  onPiece?: () => void,
): AsyncGenerator<Buffer> {
  try {
    for await (const piece of content) {
      yield piece;
      onPiece?.();
    }
  } catch (cause) {
    throw damaged(path, cause instanceof Error ? cause.message : String(cause), cause);
  }
}

interface Digest {
  readonly sha256: string;
  readonly size: number;
  readonly content: Buffer | undefined;
}

async function digest({ content }: ArchiveEntry, keep: boolean): Promise<Digest> {
  const hash = createHash('sha256');
  const kept: Buffer[] = [];
  let size = 0;
  for await (const chunk of content) {
    hash.update(chunk);
    size += chunk.length;
    if (keep && size <= MAX_TEXT) kept.push(chunk);
  }
  return { sha256: hash.digest('hex'), size, content: keep ? Buffer.concat(kept) : undefined };
}

function checkHeader(path: string, text: Buffer | undefined): void {
  const header = json(text);
  if (!isHeader.Check(header)) throw noBackup(path);
  if (header.penstockBackup > FORMAT) {
    throw new StartError(
      `${path} was made by Penstock ${header.version}, in a form that this version does not know: use that version or newer`,
    );
  }
}

/** The manifest is the last entry and names all others, in order. */
function compare(path: string, seen: Manifest['entries'], { entries, format }: Manifest): void {
  if (format > FORMAT) throw noBackup(path);
  const others = seen.filter(({ name }) => name !== manifestName);
  if (seen.at(-1)?.name !== manifestName || others.length !== seen.length - 1)
    throw damaged(path, 'its list of contents is not at its end');
  if (others.length !== entries.length)
    throw damaged(path, `it holds ${others.length} parts, not ${entries.length}`);
  for (const [index, { name, sha256 }] of entries.entries()) {
    const found = others[index];
    if (found?.name !== name || found.sha256 !== sha256)
      throw damaged(path, `${name} is not as it was written`);
  }
}

function json(text: Buffer | undefined): unknown {
  try {
    return JSON.parse(text?.toString('utf8') ?? '');
  } catch {
    return undefined;
  }
}

const noBackup = (path: string): StartError =>
  new StartError(`${path} is not a backup made by penstock backup`);

function damaged(path: string, why: string, cause?: unknown): StartError {
  if (cause instanceof StartError) return cause;
  return new StartError(
    `The backup ${path} is damaged (${why}): nothing was changed; use another one`,
    cause === undefined ? undefined : { cause },
  );
}
