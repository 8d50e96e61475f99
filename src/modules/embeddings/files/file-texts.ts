/** Texts of files that records hold: read once for each content, in a process, within bounds. */
import { LRUCache } from 'lru-cache';
import { PenstockError } from '../../../kernel/errors.ts';
import type { Logger } from '../../../kernel/telemetry/logger.ts';
import { storable } from '../../../kernel/text.ts';
import { createProcessLink, type WorkerLink } from '../../../kernel/threads/worker-link.ts';
import type { ModuleFile, ModuleFiles, StorageService } from '../../storage/index.ts';
import type { EmbeddingsConfig } from '../config.ts';
import type { EmbeddingMeasures } from '../measure.ts';
import type { BoundedInput } from './extract-process.ts';
import type { FileKind } from './extract-thread.ts';

export interface FileTexts {
  /** Empty for files that are gone, of another kind, too large, or that cannot be read. Throws while the store is away. */
  of(id: string): Promise<string>;
  /** Whether there are files at all now. */
  areThere(): boolean;
  /** The record of a file as clients see files. */
  view(record: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>>;
  close(): Promise<void>;
}

interface FileTextParts {
  readonly config: () => EmbeddingsConfig;
  readonly measures: Pick<EmbeddingMeasures, 'files'>;
  readonly log: Logger;
  /** Nothing while the module is off. */
  readonly storage: () => StorageService | undefined;
}

const IDLE_MS = 60_000;
const HEAP_MEGABYTES = 512;
const MAX_MEGABYTES = 1_000;
/** Characters of a file that are looked at, and of all that are remembered. */
const MAX_TEXT = 200_000;
const MAX_REMEMBERED = 20_000_000;

const docx = 'application/vnd.openxmlformats-officedocument.wordprocessingml.document';
const kinds: ReadonlyMap<string, FileKind> = new Map([
  ['application/pdf', 'pdf'],
  [docx, 'docx'],
  ['text/html', 'html'],
  ['application/xhtml+xml', 'html'],
  ['application/json', 'text'],
]);

const kindOf = (mimeType: string | null): FileKind | undefined => {
  const bare = mimeType?.split(';', 1)[0]?.trim().toLowerCase() ?? '';
  return kinds.get(bare) ?? (bare.startsWith('text/') ? 'text' : undefined);
};

/** The content as a whole; nothing when it is gone meanwhile, or another one is in its place. Throws while the store is away. */
async function bytesOf(
  files: ModuleFiles,
  { id, size }: Pick<ModuleFile, 'id' | 'size'>,
): Promise<Uint8Array | undefined> {
  const bytes = new Uint8Array(size);
  let length = 0;
  try {
    for await (const chunk of await files.read(id, new AbortController().signal)) {
      if (length + chunk.length > size) return undefined;
      bytes.set(chunk, length);
      length += chunk.length;
    }
  } catch (error) {
    if (error instanceof PenstockError && error.status < 500) return undefined;
    throw error;
  }
  return length === size ? bytes : undefined;
}

/** Milliseconds that every file has, and in which a failure is none that keeps others waiting. */
const MIN_MS = 1_000;
/** Milliseconds after which an owner's files have all of their time again, and owners that are remembered. */
const FORGOTTEN_MS = 600_000;
const MAX_OWNERS = 10_000;

/**
 * How long files may take. Files are read one after the other, so whoever has one that took its time for nothing has half
 * as much for the next: their files wait for each other, and keep others waiting less and less.
 */
function createPatience() {
  const halvings = new LRUCache<string, number>({
    maxSize: MAX_OWNERS,
    sizeCalculation: () => 1,
    ttl: FORGOTTEN_MS,
  });
  return {
    msFor: (owner: string | null, usual: number): number =>
      Math.max(MIN_MS, usual / 2 ** ((owner !== null && halvings.get(owner)) || 0)),
    failed(owner: string | null, tookMs: number): void {
      if (owner !== null && tookMs >= MIN_MS) halvings.set(owner, (halvings.get(owner) ?? 0) + 1);
    },
  };
}

/** Reads a text in the process, which ends when that takes too long. */
const createExtractor = ({ config, measures, log }: FileTextParts, reader: WorkerLink) => {
  const patience = createPatience();
  return async (
    { id, owner }: Pick<ModuleFile, 'id' | 'owner'>,
    input: BoundedInput,
  ): Promise<string> => {
    const allowedMs = patience.msFor(owner, config().files.extractTimeoutMs);
    const began = performance.now();
    const timer = setTimeout(() => void reader.close(), allowedMs);
    try {
      return storable(await reader.call<string>('extract', input));
    } catch (error) {
      // Broken, hostile or too slow: what cannot be read is not found, and everything else goes on.
      const message = error instanceof Error ? error.message : String(error);
      patience.failed(owner, performance.now() - began);
      log.warn(
        { file: id, kind: input.kind, allowedMs, reason: message },
        'No text could be read from a file',
      );
      measures.files.inc({ result: 'failed' });
      // What it took, the process gives back when it ends.
      await reader.close();
      return '';
    } finally {
      clearTimeout(timer);
    }
  };
};

export function createFileTexts(parts: FileTextParts): FileTexts {
  const { config, measures } = parts;
  const known = new LRUCache<string, string>({
    maxSize: MAX_REMEMBERED,
    sizeCalculation: (text) => text.length + 1,
  });
  const reader = createProcessLink({
    file: new URL('extract-process.ts', import.meta.url),
    idleMs: IDLE_MS,
    heapMegabytes: HEAP_MEGABYTES,
  });
  /** One file after the other, so that whoever takes too long takes nobody else along. */
  let last: Promise<unknown> = Promise.resolve();

  const extract = createExtractor(parts, reader);
  /** The text of a content, read when nobody has read it yet. */
  const textOf = async (
    files: ModuleFiles,
    { id, size, checksum, owner }: ModuleFile,
    kind: FileKind,
  ): Promise<string> => {
    const key = checksum === null ? undefined : `${kind}:${size}:${checksum}`;
    const remembered = key && known.get(key);
    if (remembered !== undefined) return remembered;
    const bytes = await bytesOf(files, { id, size });
    if (!bytes) return '';
    const input = { kind, bytes, length: MAX_TEXT, maxMegabytes: MAX_MEGABYTES };
    const turn = last.then(() => extract({ id, owner }, input));
    last = turn;
    const text = await turn;
    if (text !== '') measures.files.inc({ result: 'extracted' });
    if (key) known.set(key, text);
    return text;
  };

  return {
    async of(id) {
      const files = parts.storage()?.files;
      const file = await files?.find(id);
      if (!files || !file || file.withheld) return '';
      const isLarge = file.size > config().files.maxMegabytes * 1_000_000;
      const kind = isLarge ? undefined : kindOf(file.mimeType);
      if (kind) return textOf(files, file, kind);
      measures.files.inc({ result: 'skipped' });
      return '';
    },
    areThere: () => parts.storage() !== undefined,
    view: (record) => parts.storage()?.view(record) ?? record,
    close: () => reader.close(),
  };
}
