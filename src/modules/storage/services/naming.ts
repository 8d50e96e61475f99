/**
 * Rows that name the places of uploads, committed before anything may be found there (contents.ts). A commit waits for the
 * disk, so uploads that come at once share one, which also names places for the next of them: those do not wait at all.
 */
import { AsyncLocalStorage } from 'node:async_hooks';
import type { Database } from '../../../kernel/database/database.ts';
import { newId } from '../../../kernel/ids.ts';
import { storageErrors } from '../errors.ts';
import type { ObjectPlace } from '../providers/provider.ts';
import type { FileRow, StoredContent } from '../queries/files.ts';
import { deleteUploads, insertUploads, type NewUpload } from '../queries/uploads.ts';

/** Seconds in which a request that brings bytes itself has ended, whatever became of it. */
export const REQUEST_SECONDS = 2 * 3_600;
/** Seconds that a row lives; a spare one is used or given back long before its last two hours. */
const ROW_SECONDS = REQUEST_SECONDS + 3_600;

/** Places for uploads to come, of one bucket. */
const MAX_SPARES = 32;
/** When there are fewer, more are asked for. */
const FEW_SPARES = 4;
/** Milliseconds without an upload after which spare places are given back. */
const IDLE_MS = 1_000;

/** A place, and when it is named; nothing may be found there before. */
export interface NamedPlace {
  readonly upload: NewUpload;
  readonly named: Promise<unknown>;
}

export interface Naming {
  /** Names a place for a new file, whatever transaction the request runs in. */
  begin(bucket: string, caller: string): NamedPlace;
  /** Gives back what nobody uses. */
  release(bucket: string): Promise<void>;
}

const placeIn = (bucket: string, caller: string): NewUpload => {
  const fileId = newId();
  return {
    id: newId(),
    fileId,
    kind: 'create',
    signed: false,
    bucket,
    objectKey: keyOf(fileId, 1),
    generation: 1,
    size: null,
    mimeType: null,
    caller,
  };
};

interface Waiting extends PromiseWithResolvers<void> {
  readonly upload: NewUpload;
}

/** Of one bucket. */
class Places {
  readonly #database: Database;
  readonly #bucket: string;
  #waiting: Waiting[] = [];
  #spare: NewUpload[] = [];
  /** Taken since places were named last. */
  #used = 0;
  #naming = false;
  #idle: NodeJS.Timeout | undefined;

  constructor(database: Database, bucket: string) {
    this.#database = database;
    this.#bucket = bucket;
  }

  take(caller: string): NamedPlace {
    this.#used += 1;
    this.#idle?.refresh();
    // The oldest: none of them is kept for long.
    const spare = this.#spare.shift();
    if (spare) {
      if (this.#spare.length < FEW_SPARES && !this.#naming) void this.#name(caller);
      return { upload: spare, named: Promise.resolve() };
    }
    const upload = placeIn(this.#bucket, caller);
    const one: Waiting = { ...Promise.withResolvers<void>(), upload };
    // Whoever waits for it hears of a failure, and whoever gives up before has another reason.
    one.promise.catch(() => undefined);
    this.#waiting.push(one);
    if (!this.#naming) void this.#name(caller);
    return { upload, named: one.promise };
  }

  async release(): Promise<void> {
    const ids = this.#spare.map(({ id }) => id);
    this.#spare = [];
    clearTimeout(this.#idle);
    this.#idle = undefined;
    if (ids.length > 0) await deleteUploads(this.#database, ids);
  }

  /** Those that come while one statement is on its way go with the next. Somebody who is alone names no place but their own. */
  async #name(caller: string): Promise<void> {
    this.#naming = true;
    for (;;) {
      const some = this.#waiting;
      // Twice as many as since the last time, so that they suffice while more are named.
      const target = this.#used <= 1 ? 0 : Math.min(MAX_SPARES, 2 * this.#used);
      const length = Math.max(0, target - this.#spare.length);
      const spare = Array.from({ length }, () => placeIn(this.#bucket, caller));
      const uploads = [...some.map(({ upload }) => upload), ...spare];
      if (uploads.length === 0) break;
      [this.#waiting, this.#used] = [[], 0];
      const failed = await insertUploads(this.#database, uploads, ROW_SECONDS).then(
        () => undefined,
        (error: unknown) => ({ error }),
      );
      for (const { resolve, reject } of some)
        if (failed) reject(failed.error);
        else resolve();
      if (!failed && spare.length > 0) this.#keep(spare);
      if (this.#waiting.length === 0) break;
    }
    this.#naming = false;
  }

  #keep(spare: readonly NewUpload[]): void {
    this.#spare.push(...spare);
    // A row that stays behind ends with its time.
    this.#idle ??= setTimeout(() => void this.release().catch(() => undefined), IDLE_MS).unref();
  }
}

/** Made once for each process. */
export function createNaming(database: Database): Naming {
  const outside = AsyncLocalStorage.snapshot();
  const buckets = new Map<string, Places>();
  return {
    begin(bucket, caller) {
      const places = buckets.get(bucket) ?? new Places(database, bucket);
      buckets.set(bucket, places);
      return outside(() => places.take(caller));
    },
    release: async (bucket) => outside(() => buckets.get(bucket)?.release()),
  };
}

/* Where contents lie on the store, and what their keys look like. */

/**
 * Never used twice. Two levels of folders keep each of them small on a disk; 256 in all, so that a young store does not
 * make two for every file. They follow the time in the id, with a new one every quarter of a second: what comes at once
 * stands in one folder, and the disk is waited for once for the names in it.
 */
export const keyOf = (fileId: string, generation: number): string =>
  `${fileId.slice(10, 11)}/${fileId.slice(9, 10)}/${fileId}~${generation}`;

const ownKey = /^[0-9a-f]{1,2}\/[0-9a-f]{1,2}\/[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}~\d+$/;
/** The content that an object is, or was made of; undefined for what is not ours. */
export function contentKeyOf(key: string): string | undefined {
  const source = sourceOfRendition(key) ?? key;
  return ownKey.test(source) ? source : undefined;
}

/** Where the current content of a file lies. Throws FILE_PENDING where there is none. */
export function placeOf({ bucket, objectKey }: FileRow): ObjectPlace {
  if (bucket === null || objectKey === null) throw storageErrors.FILE_PENDING();
  return { bucket, key: objectKey };
}

/** The current content of a file. Throws FILE_PENDING where there is none. */
export const contentOf = (file: FileRow): StoredContent => {
  const { bucket, key } = placeOf(file);
  return {
    bucket,
    objectKey: key,
    size: file.size,
    mimeType: file.mimeType ?? 'application/octet-stream',
    checksum: file.checksum ?? undefined,
    etag: file.etag ?? key,
    scan: file.scan,
  };
};

/* Where renditions lie: in the bucket of their source, under its key. */

/** No file lies below it: their keys begin with an id. */
const PREFIX = '.renditions/';

/** Beginning of the keys of all renditions of one content. */
export const renditionPrefix = (objectKey: string): string => `${PREFIX}${objectKey}/`;

/** The key of the content that a rendition was made of; undefined for other keys. */
function sourceOfRendition(key: string): string | undefined {
  if (!key.startsWith(PREFIX)) return undefined;
  return key.slice(PREFIX.length, key.lastIndexOf('/'));
}
