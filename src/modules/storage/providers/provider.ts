/**
 * What the storage module asks of a place where bytes lie (specification storage.md 5.7). A provider keeps no
 * state between calls: every call names its bucket and key. Buckets and keys are chosen and checked by the
 * module; a provider still refuses what would leave its own root. Its errors are `ProviderError`s.
 */
import type { Readable } from 'node:stream';

export type ProviderName = 'local' | 'aws' | 'azure' | 'google' | 'aliyun';

/** Where an object lies: `key` is at most 1024 bytes of UTF-8, with `/` between its parts. */
export interface ObjectPlace {
  readonly bucket: string;
  readonly key: string;
}

/** What is kept beside the bytes. */
export interface ObjectAttributes {
  readonly contentType: string;
  /** Nothing has ever been at that key: what comes cannot replace anything. */
  readonly isNew?: boolean | undefined;
  /** Nothing has ever been at that key, and nobody looks there before this has ended: it need not appear as a whole. */
  readonly unseen?: boolean | undefined;
  /** Bytes, when they are known before the body was read. A body of another length is `LENGTH_MISMATCH`. */
  readonly size?: number | undefined;
  /**
   * What must have happened before anybody finds the object. A store that shows nothing before its last step may take the
   * bytes meanwhile. When it rejects, nothing is stored, and it comes through as it is.
   */
  readonly after?: Promise<unknown> | undefined;
}

export interface ObjectFacts {
  /** Bytes. */
  readonly size: number;
  /** None where the store keeps none (local): the module's document knows it. */
  readonly contentType: string | undefined;
  /** Opaque, changes with the bytes; without quotes. */
  readonly etag: string;
  readonly modifiedAt: Date;
}

/** Bytes `start` to `end`, both included. */
export interface ByteRange {
  readonly start: number;
  readonly end: number;
}

export interface SignedRead {
  readonly expiresInSeconds: number;
  /** Value of `Content-Disposition` in the answer. */
  readonly disposition?: string | undefined;
  readonly contentType?: string | undefined;
}

export interface SignedWrite {
  readonly expiresInSeconds: number;
  readonly contentType: string;
  /** Bytes; bound by the signature where the provider can (`capabilities.signedLength`). */
  readonly size?: number | undefined;
}

/** A request that somebody without credentials of the provider may make until it expires. */
export interface SignedRequest {
  readonly url: string;
  readonly method: 'GET' | 'PUT';
  /** Headers that the caller must send as they are. */
  readonly headers: Readonly<Record<string, string>>;
  readonly expiresAt: Date;
}

export interface ListedObject {
  readonly key: string;
  readonly size: number;
  readonly modifiedAt: Date;
}

export interface ObjectPage {
  readonly objects: readonly ListedObject[];
  /** Where the next page begins; none: this was the last one. */
  readonly cursor: string | undefined;
}

/** An upload in parts, for large and resumable ones. Parts count from 1; all but the last have at least `minimumPartSize`. */
export interface MultipartUpload {
  begin(place: ObjectPlace, attributes: ObjectAttributes): Promise<string>;
  /** Stores one part and answers its tag. Storing the same number again replaces it. */
  part(place: ObjectPlace, uploadId: string, part: UploadPart): Promise<string>;
  complete(place: ObjectPlace, uploadId: string, parts: readonly PartTag[]): Promise<ObjectFacts>;
  /** Forgets the parts. An unknown upload is no error. */
  abort(place: ObjectPlace, uploadId: string): Promise<void>;
}

export interface UploadPart {
  readonly number: number;
  readonly body: Readable;
  readonly size: number;
}

export interface PartTag {
  readonly number: number;
  readonly tag: string;
}

export interface ProviderCapabilities {
  /** Signed requests go to the provider itself; otherwise the platform carries the bytes. */
  readonly signedRequests: boolean;
  /** The signature binds the length of an upload. */
  readonly signedLength: boolean;
  /** Bytes. */
  readonly minimumPartSize: number;
}

/** Bytes that come one piece after the other, at the pace of who takes them; a `Readable` is one. */
export interface ByteSource extends AsyncIterable<Uint8Array> {
  /** Gives it up: whoever waits for a piece hears of it. */
  destroy(error?: Error): unknown;
}

/** Short ones as they are: they cost less than a stream. */
export type ObjectBody = ByteSource | Uint8Array;

/** Gives a body up that nobody reads to its end. */
export function discard(body: ObjectBody): void {
  if (!(body instanceof Uint8Array)) body.destroy();
}

/* Memory of pieces that only one place refers to, which can go before the collector finds it: large uploads make much. */

const owned = new WeakSet<Uint8Array>();

/** Says that nobody refers to the memory of a piece but who has the piece. */
export const ownPiece = <T extends Uint8Array>(piece: T): T => {
  owned.add(piece);
  return piece;
};

/** Called by who has written a piece that came from a body. The memory of pieces that others may refer to stays. */
export function freePiece(piece: Uint8Array): void {
  if (owned.delete(piece) && piece.buffer instanceof ArrayBuffer) piece.buffer.transfer(0);
}

/** Bytes of an object. */
export interface ReadPart {
  readonly bytes: Uint8Array;
  /** Called by who is done with them, and knows it: their memory is used again. */
  free?(): void;
}

export interface StorageProvider {
  readonly name: ProviderName;
  readonly capabilities: ProviderCapabilities;
  /**
   * Whole or not at all: readers see the old object or the new one. A body that fails leaves nothing, and what it
   * throws comes through as it is. A stream is read to its end or destroyed, whatever happens.
   */
  put(
    place: ObjectPlace,
    body: ObjectBody,
    attributes: ObjectAttributes,
    signal?: AbortSignal,
  ): Promise<ObjectFacts>;
  /**
   * The bytes as a stream at the reader's pace; `NOT_FOUND` before the first byte. A range that begins behind the last
   * byte is `OUT_OF_RANGE`, one that ends there or later is cut. Who stops reading destroys the stream.
   */
  get(place: ObjectPlace, range?: ByteRange, signal?: AbortSignal): Promise<Readable>;
  /**
   * The same bytes without a stream around them, for those who send them on at once: what a piece holds is gone when the
   * next one is asked for. Absent where that saves nothing.
   * An object that ends before the range does fails with `OUT_OF_RANGE`.
   */
  pieces?(place: ObjectPlace, range: ByteRange, signal?: AbortSignal): AsyncGenerator<Uint8Array>;
  /** The same bytes in one piece, for few of them. Absent where that saves nothing; `undefined`: so it is for this place. */
  part?(place: ObjectPlace, range: ByteRange): Promise<ReadPart | undefined>;
  head(place: ObjectPlace): Promise<ObjectFacts | undefined>;
  /** A missing object is no error. */
  delete(place: ObjectPlace): Promise<void>;
  /** Within the provider, without carrying the bytes where it can. */
  copy(from: ObjectPlace, to: ObjectPlace): Promise<ObjectFacts>;
  /** Objects whose key begins with `prefix`, by key, at most `limit` (1000) a page. */
  list(bucket: string, prefix: string, cursor?: string, limit?: number): Promise<ObjectPage>;
  /** An existing bucket of ours is no error. */
  createBucket(bucket: string): Promise<void>;
  bucketExists(bucket: string): Promise<boolean>;
  /** `NOT_EMPTY` while objects are in it; a missing one is no error. */
  deleteBucket(bucket: string): Promise<void>;
  /** Both refuse (`REFUSED`) without `capabilities.signedRequests`: the platform signs addresses of its own then. */
  signRead(place: ObjectPlace, options: SignedRead): Promise<SignedRequest>;
  signWrite(place: ObjectPlace, options: SignedWrite): Promise<SignedRequest>;
  readonly multipart: MultipartUpload;
  /** Whether the provider answers and the credentials hold; throws `UNAVAILABLE` or `REFUSED` with the reason. */
  probe(): Promise<void>;
  close(): Promise<void>;
}

/** What is waited for from a store outside. */
export interface TransportLimits {
  /** Milliseconds until a connection stands. */
  readonly connectMs: number;
  /** Milliseconds in which nothing moves, in either direction, while we wait for the store. */
  readonly idleMs: number;
  /** How often a request is sent at most. */
  readonly attempts: number;
}

export const usualLimits: TransportLimits = { connectMs: 10_000, idleMs: 30_000, attempts: 4 };

export type ProviderProblem =
  | 'NOT_FOUND'
  | 'NOT_EMPTY'
  | 'LENGTH_MISMATCH'
  | 'OUT_OF_RANGE'
  | 'INVALID_PLACE'
  | 'NO_SPACE'
  | 'REFUSED'
  | 'UNAVAILABLE'
  | 'ABORTED';

/** Why a provider did not do it. The message is for the log: it may hold what the provider said. */
export class ProviderError extends Error {
  readonly problem: ProviderProblem;

  constructor(problem: ProviderProblem, message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'ProviderError';
    this.problem = problem;
  }
}

/* Names that no provider takes, whoever asks: the module has its own, stricter rules (specification storage.md 5.2). */

/** Bytes of UTF-8: the limit of every store we know. */
const MAX_KEY_BYTES = 1024;
const bucketName = /^[a-z0-9][a-z0-9._-]{1,61}[a-z0-9]$/;

/** @throws ProviderError INVALID_PLACE */
export function requirePlace({ bucket, key }: ObjectPlace): void {
  requireBucket(bucket);
  if (key === '' || !isKeyText(key) || key.split('/').some(isMisleading))
    throw new ProviderError('INVALID_PLACE', `${JSON.stringify(key)} is no key of an object`);
}

/** @throws ProviderError INVALID_PLACE */
export function requireBucket(bucket: string): void {
  if (!bucketName.test(bucket) || bucket.includes('..'))
    throw new ProviderError('INVALID_PLACE', `${JSON.stringify(bucket)} is no name of a bucket`);
}

/**
 * What a list may be asked for: the beginning of a key, which may end anywhere.
 * @throws ProviderError INVALID_PLACE
 */
export function requirePrefix(bucket: string, prefix: string): void {
  requireBucket(bucket);
  const folders = prefix.split('/').slice(0, -1);
  if (!isKeyText(prefix) || folders.some(isMisleading))
    throw new ProviderError('INVALID_PLACE', `${JSON.stringify(prefix)} begins no key`);
}

/** The most parts that every store takes. */
const MAX_PARTS = 10_000;

/** @throws ProviderError INVALID_PLACE */
export function requirePartNumber(number: number): void {
  if (!Number.isInteger(number) || number < 1 || number > MAX_PARTS)
    throw new ProviderError('INVALID_PLACE', `Parts count from 1 to ${MAX_PARTS}, not ${number}`);
}

/** Some stores take a backslash for a slash. */
const isKeyText = (text: string): boolean =>
  text.isWellFormed() && !/[\0\\]/.test(text) && Buffer.byteLength(text) <= MAX_KEY_BYTES;

/** Empty parts and dots mean something else to file systems, proxies and URL parsers. */
const isMisleading = (part: string): boolean => part === '' || part === '.' || part === '..';
