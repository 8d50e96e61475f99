/** Bytes on their way to the store: counted, hashed and bounded while they pass, never held. */
import { createHash, type Hash, hash as hashOf } from 'node:crypto';
import { storageErrors } from '../errors.ts';
import {
  type ByteSource,
  type ObjectBody,
  type ObjectPlace,
  ownPiece,
  type StorageProvider,
} from '../providers/provider.ts';

/** Bytes from the beginning of a content by which its type is known. */
export const HEAD_BYTES = 4_096;

/** Bytes up to which a content is held and stored as a whole. */
const WHOLE_BYTES = 128 * 1_024;

export interface Content {
  /** The first bytes, at least `HEAD_BYTES` where there are so many. */
  readonly head: Buffer;
  /** All of them, once; a short content as it is. Fails with what the source fails with, and with FILE_TOO_LARGE. */
  readonly body: ObjectBody;
  /** What has passed; complete when `body` has ended. */
  facts(): { readonly size: number; readonly checksum: string };
}

/**
 * Waits for the first bytes. `limit`: bytes. `checksum`: SHA-256 in hex, without which the body does not end well. Throws
 * what the source throws, FILE_TOO_LARGE and CHECKSUM_MISMATCH.
 */
export async function openContent(
  source: AsyncIterable<Buffer>,
  limit: number,
  checksum?: string,
): Promise<Content> {
  let hash: Hash | undefined;
  let size = 0;
  const count = (chunk: Buffer): Buffer => {
    size += chunk.length;
    if (size > limit) throw tooLarge(limit);
    hash?.update(chunk);
    return chunk;
  };
  const pieces = source[Symbol.asyncIterator]();
  const first: Buffer[] = [];
  let length = 0;
  try {
    while (length < WHOLE_BYTES) {
      const piece = await pieces.next();
      if (piece.done) return wholeContent(joined(first), checksum);
      first.push(count(piece.value));
      length += piece.value.length;
    }
  } catch (error) {
    // Not awaited: a source that hangs must not keep who has heard enough.
    pieces.return?.().catch(() => undefined);
    throw error;
  }
  const hashed = createHash('sha256');
  hash = hashed;
  for (const piece of first) hashed.update(piece);
  const checksumNow = (): string => hashed.copy().digest('hex');
  const end = (): void => requireChecksum(checksum, checksumNow);
  const body = new PassingBody(first, pieces, { count, end });
  return { head: headIn(first), body, facts: () => ({ size, checksum: checksumNow() }) };
}

/** Throws CHECKSUM_MISMATCH. */
function wholeContent(bytes: Buffer, said: string | undefined): Content {
  const facts = { size: bytes.length, checksum: hashOf('sha256', bytes, 'hex') };
  requireChecksum(said, () => facts.checksum);
  return { head: bytes, body: bytes, facts: () => facts };
}

const joined = (pieces: readonly Buffer[]): Buffer =>
  pieces.length === 1 && pieces[0] ? pieces[0] : Buffer.concat(pieces);

/** As many pieces as it takes, joined only where the first is too short. */
function headIn(pieces: readonly Buffer[]): Buffer {
  let length = 0;
  const end = pieces.findIndex((piece) => {
    length += piece.length;
    return length >= HEAD_BYTES;
  });
  return joined(end === -1 ? pieces : pieces.slice(0, end + 1));
}

/** Who hears of what passes, and may throw. */
interface Told {
  count(piece: Buffer): void;
  end(): void;
}

/** Hands pieces on as they are asked for: those that have come, then those that come. */
class PassingBody implements ByteSource, AsyncIterator<Buffer> {
  readonly #first: Buffer[];
  readonly #pieces: AsyncIterator<Buffer>;
  readonly #told: Told;
  #failure: Error | undefined;
  #reject: ((error: Error) => void) | undefined;

  constructor(first: readonly Buffer[], pieces: AsyncIterator<Buffer>, told: Told) {
    this.#first = [...first].reverse();
    this.#pieces = pieces;
    this.#told = told;
  }

  [Symbol.asyncIterator](): AsyncIterator<Buffer> {
    return this;
  }

  next(): Promise<IteratorResult<Buffer>> {
    return new Promise((resolve, reject) => {
      this.#reject = reject;
      if (this.#failure) return reject(this.#failure);
      const held = this.#first.pop();
      if (held) return resolve({ done: false, value: held });
      this.#pieces
        .next()
        .then((piece) => {
          if (piece.done) this.#told.end();
          else this.#told.count(piece.value);
          resolve(piece);
        })
        .catch(reject);
    });
  }

  async return(): Promise<IteratorResult<Buffer>> {
    this.destroy();
    return { done: true, value: undefined };
  }

  /** Not awaited: a source that hangs must not keep who has heard enough. */
  destroy(error: Error = new Error('The body was given up')): void {
    if (this.#failure) return;
    this.#failure = error;
    this.#reject?.(error);
    this.#pieces.return?.().catch(() => undefined);
  }
}

/** The pieces of a request, which nobody refers to but who takes them. */
export async function* ownPieces(source: AsyncIterable<Buffer>): AsyncGenerator<Buffer> {
  for await (const piece of source)
    yield piece.length === piece.buffer.byteLength ? ownPiece(piece) : piece;
}

export const tooLarge = (limit: number) =>
  storageErrors.FILE_TOO_LARGE({ message: `A file here may have at most ${limit} bytes` });

/** Throws CHECKSUM_MISMATCH where bytes are not what they were said to be. */
export function requireChecksum(said: string | undefined, is: () => string | undefined): void {
  if (said !== undefined && said.toLowerCase() !== is()) throw storageErrors.CHECKSUM_MISMATCH();
}

/** The bytes of base64 text, with or without padding. Throws INVALID_BASE64 and FILE_TOO_LARGE. */
export function decodeBase64(text: string, limit: number): Buffer {
  if (Math.floor((text.length * 3) / 4) > limit + 2) throw tooLarge(limit);
  const bare = text.endsWith('==')
    ? text.slice(0, -2)
    : text.endsWith('=')
      ? text.slice(0, -1)
      : text;
  const padded = bare.length !== text.length;
  const isWhole = bare.length % 4 !== 1 && (!padded || text.length % 4 === 0);
  if (!isWhole || !/^[A-Za-z0-9+/]*$/.test(bare))
    throw storageErrors.INVALID_BASE64({
      errors: [{ path: 'data', rule: 'base64', message: 'this is not base64' }],
    });
  const bytes = Buffer.from(bare, 'base64');
  if (bytes.length > limit) throw tooLarge(limit);
  return bytes;
}

export async function* oneChunk(bytes: Buffer): AsyncGenerator<Buffer> {
  if (bytes.length > 0) yield bytes;
}

/** The first bytes of an object, by which its type is known. `size`: bytes of the whole. */
export async function headOf(
  store: Pick<StorageProvider, 'get'>,
  place: ObjectPlace,
  size: number,
): Promise<Buffer> {
  if (size === 0) return Buffer.alloc(0);
  const chunks: Buffer[] = [];
  for await (const chunk of await store.get(place, { start: 0, end: HEAD_BYTES - 1 }))
    chunks.push(chunk as Buffer);
  return Buffer.concat(chunks);
}
