/** Contents on their way out: whole or in part, at the reader's pace, as harmless as their type allows. */
import { Reply } from '../../../kernel/operations/operation.ts';
import type { OperationContext } from '../../../kernel/operations/operation-input.ts';
import type { BodyBytes } from '../../../kernel/operations/reply.ts';
import { storageErrors } from '../errors.ts';
import type { ByteRange, ObjectPlace, StorageProvider } from '../providers/provider.ts';
import { type FileRow, fileById } from '../queries/files.ts';
import { placeOf } from './naming.ts';
import { isMissingObject, publicError, type StorageParts } from './storage-parts.ts';

/* Which bytes of a content are asked for (RFC 9110 section 14). */

/**
 * The one range of a header; nothing where the whole is to be answered: no header, another unit, a malformed one, or
 * several ranges. Throws RANGE_NOT_SATISFIABLE.
 */
function rangeOf(header: string | undefined, size: number): ByteRange | undefined {
  const found = /^bytes=[ \t]*(\d{0,15})-(\d{0,15})[ \t]*$/i.exec(header ?? '');
  if (!found) return undefined;
  const [, first = '', last = ''] = found;
  if (first === '' && last === '') return undefined;
  if (first === '') {
    const length = Math.min(Number(last), size);
    if (length === 0) throw unsatisfiable(size);
    return { start: size - length, end: size - 1 };
  }
  const start = Number(first);
  const end = last === '' ? size - 1 : Math.min(Number(last), size - 1);
  if (last !== '' && Number(last) < start) return undefined;
  if (start >= size) throw unsatisfiable(size);
  return { start, end };
}

const unsatisfiable = (size: number) =>
  storageErrors.RANGE_NOT_SATISFIABLE({ headers: { 'content-range': `bytes */${size}` } });

/* How a browser is told what to do with a content: show it or keep it, and under which name (RFC 6266, RFC 8187). */

/** Types that browsers show without running anything in them. An allow-list: whatever is not here is only downloaded. */
const inlineTypes = new Set([
  'image/png',
  'image/jpeg',
  'image/gif',
  'image/webp',
  'image/avif',
  'image/bmp',
  'audio/mpeg',
  'audio/mp4',
  'audio/ogg',
  'audio/wav',
  'audio/webm',
  'audio/flac',
  'audio/aac',
  'video/mp4',
  'video/webm',
  'video/ogg',
  'video/quicktime',
  'text/plain',
  'application/pdf',
]);

const isInline = (mimeType: string): boolean => inlineTypes.has(mimeType);

/** The value of `Content-Disposition`. Old readers get a name in ASCII, the others the real one. */
function dispositionOf(kind: 'inline' | 'attachment', display: string): string {
  const name = savedAs(display);
  const ascii = name.normalize('NFKD').replaceAll(/[^\x20-\x7e]|["\\%]/g, '_');
  const plain = `${kind}; filename="${ascii}"`;
  if (ascii === name) return plain;
  return `${plain}; filename*=UTF-8''${encoded(name)}`;
}

/** A display name may be any text; what a program writes a file as is no way to another folder (CWE-22). */
const savedAs = (display: string): string => {
  const name = display.replaceAll(/[/\\]/g, '_').trim();
  return ['', '.', '..'].includes(name) ? '_' : name;
};

const encoded = (text: string): string =>
  encodeURIComponent(text.toWellFormed()).replaceAll(
    /['()*]/g,
    (character) => `%${character.charCodeAt(0).toString(16).toUpperCase()}`,
  );

/** How a content is asked for. */
export interface ReadRequest {
  /** The `Range` header. */
  readonly range?: string | undefined;
  readonly ifRange?: string | undefined;
  /** To be kept, whatever its type. */
  readonly download: boolean;
  /** Of the request; made when it is asked for. */
  readonly context: Pick<OperationContext, 'signal'>;
}

export interface Delivery {
  /** The content as an answer with ETag, length, ranges and the headers of its type. The caller may read the file. */
  reply(file: FileRow, request: ReadRequest): Reply;
  /** The content piece by piece, at the reader's pace. Throws FILE_NOT_FOUND. */
  stream(file: FileRow, signal: AbortSignal): AsyncIterable<Uint8Array>;
  /** The content as a whole. Throws FILE_TOO_LARGE. */
  bytes(file: FileRow, limit: number): Promise<Buffer>;
}

/** Up to so many bytes are read and sent in one piece. */
const PART_BYTES = 256 * 1_024;

async function collected(pieces: AsyncIterable<Uint8Array>): Promise<BodyBytes> {
  const all: Uint8Array[] = [];
  // What a piece holds may be gone when the next one is asked for.
  for await (const piece of pieces) all.push(Uint8Array.from(piece));
  return { bytes: Buffer.concat(all) };
}

/** Nothing in a content is run, framed or loaded from elsewhere, also when somebody opens it as a page. */
const harmless = { 'content-security-policy': "default-src 'none'; sandbox" };

/**
 * Does `work` where the content lies. One that was replaced after we read where that is, is gone from there: then the new
 * one lies elsewhere, if it is the same.
 */
async function atContent<T>(
  { database, provider, log }: StorageParts,
  file: FileRow,
  work: (store: StorageProvider, place: ObjectPlace) => Promise<T>,
): Promise<T> {
  const place = placeOf(file);
  const store = await provider();
  try {
    return await work(store, place);
  } catch (error) {
    if (!isMissingObject(error)) throw publicError(error, log);
    const now = await fileById(database, file._id);
    if (!now) throw storageErrors.FILE_NOT_FOUND();
    // Another content does not fit the length that was announced; the same bytes at another place do.
    if (now.objectKey === place.key || now.etag !== file.etag) throw publicError(error, log);
    return work(store, placeOf(now)).catch((again: unknown) => {
      throw publicError(again, log);
    });
  }
}

/** Reading, begun so that a missing object is known; without a stream where the store can. */
const begun = (
  parts: StorageParts,
  file: FileRow,
  ...[range, signal]: readonly [ByteRange | undefined, AbortSignal]
) =>
  atContent(parts, file, async (store, place) => {
    const iterator: AsyncIterator<Uint8Array> =
      store.pieces && file.size > 0
        ? store.pieces(place, range ?? { start: 0, end: file.size - 1 }, signal)
        : (await store.get(place, range, signal))[Symbol.asyncIterator]();
    return { first: await iterator.next(), iterator };
  });

/** At the reader's pace. */
async function* pieces(
  parts: StorageParts,
  file: FileRow,
  ...[range, signal]: readonly [ByteRange | undefined, AbortSignal]
): AsyncGenerator<Uint8Array> {
  const began = performance.now();
  const { first, iterator } = await begun(parts, file, range, signal);
  let left = range ? range.end - range.start + 1 : file.size;
  try {
    for (let piece = first; !piece.done; piece = await iterator.next()) {
      left -= piece.value.length;
      // Whoever has all of it does not ask for more.
      if (left === 0) parts.measures.download((performance.now() - began) / 1_000);
      yield piece.value;
    }
  } catch (error) {
    throw publicError(error, parts.log);
  } finally {
    await iterator.return?.();
  }
}

/** In one piece, where the store can; a stream is put together. */
async function bytesOf(
  parts: StorageParts,
  file: FileRow,
  ...[range, context]: readonly [ByteRange, ReadRequest['context']]
): Promise<BodyBytes> {
  const began = performance.now();
  const part = await atContent(parts, file, async (store, place) => store.part?.(place, range));
  if (!part) return collected(pieces(parts, file, range, context.signal));
  parts.measures.download((performance.now() - began) / 1_000);
  return part;
}

export function createDelivery(parts: StorageParts): Delivery {
  const { log } = parts;

  const opened = (file: FileRow, range: ByteRange | undefined, signal?: AbortSignal) =>
    atContent(parts, file, (store, place) => store.get(place, range, signal));

  return {
    async *stream(file, signal) {
      try {
        yield* await opened(file, undefined, signal);
      } catch (error) {
        throw publicError(error, log);
      }
    },
    reply(file, { range: header, ifRange, download, context }) {
      placeOf(file);
      const range = isCurrent(file, ifRange) ? rangeOf(header, file.size) : undefined;
      const length = range ? range.end - range.start + 1 : file.size;
      const status = range ? 206 : 200;
      const headers = {
        ...headersOf(file, download),
        'content-length': String(length),
        ...(range && { 'content-range': `bytes ${range.start}-${range.end}/${file.size}` }),
      };
      const type = typeOf(file);
      if (length > PART_BYTES || length === 0)
        return Reply.stream(type, pieces(parts, file, range, context.signal), headers, status);
      const { start } = range ?? { start: 0 };
      const part = { start, end: start + length - 1 };
      return Reply.bytes(type, () => bytesOf(parts, file, part, context), headers, status);
    },
    async bytes(file, limit) {
      if (file.size > limit)
        throw storageErrors.FILE_TOO_LARGE({
          message: `As base64 a file may have at most ${limit} bytes: use its link`,
        });
      const chunks: Buffer[] = [];
      for await (const chunk of await opened(file, undefined)) chunks.push(chunk as Buffer);
      return Buffer.concat(chunks);
    },
  };
}

const typeOf = ({ mimeType }: FileRow): string => {
  const type = mimeType ?? 'application/octet-stream';
  return type === 'text/plain' ? 'text/plain; charset=utf-8' : type;
};

/** Made once for a file that is read part by part: one that changes is another row (known-files.ts). */
const knownHeaders = new WeakMap<FileRow, Map<boolean, Readonly<Record<string, string>>>>();

function headersOf(file: FileRow, download: boolean): Readonly<Record<string, string>> {
  const known = knownHeaders.get(file) ?? new Map<boolean, Readonly<Record<string, string>>>();
  knownHeaders.set(file, known);
  const headers = known.get(download) ?? newHeaders(file, download);
  known.set(download, headers);
  return headers;
}

const newHeaders = (file: FileRow, download: boolean): Readonly<Record<string, string>> => ({
  ...harmless,
  etag: `"${file.etag ?? file.objectKey}"`,
  'last-modified': file.updatedAt.toUTCString(),
  'accept-ranges': 'bytes',
  'cache-control': `${file.isPublic ? 'public' : 'private'}, max-age=0, must-revalidate`,
  ...(file.isPublic && { 'cross-origin-resource-policy': 'cross-origin' }),
  'content-disposition': dispositionOf(
    download || !isInline(file.mimeType ?? '') ? 'attachment' : 'inline',
    file.alias || file.name,
  ),
});

/** Whether `If-Range` still means this content: the same strong tag, or the same time (RFC 9110 13.1.5). */
const isCurrent = (file: FileRow, condition: string | undefined): boolean =>
  condition === undefined ||
  condition === `"${file.etag ?? file.objectKey}"` ||
  condition === file.updatedAt.toUTCString();
