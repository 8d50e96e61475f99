/**
 * The calls of object stores that speak S3's XML: Amazon, its many relatives, and Google under its own names. What
 * differs is who signs and how.
 */
import { Readable } from 'node:stream';
import {
  type ByteRange,
  discard,
  type ObjectAttributes,
  type ObjectFacts,
  type ObjectPlace,
  type PartTag,
  ProviderError,
  requirePartNumber,
  requirePlace,
  type StorageProvider,
} from '../provider.ts';
import {
  answeredText,
  bareEtag,
  nodeOf,
  parseXml,
  succeeded,
  textIn,
  unlessNotFound,
} from './answers.ts';
import { exactly, type StoredWays, storeBody } from './parts.ts';
import { type RequestBody, type StoreAnswer, streamOf, textOf } from './transport.ts';
import { bucketCalls, type Query, type Send, type XmlStore } from './xml-buckets.ts';

const COPIED_PART_BYTES = 1024 ** 3;

type XmlCalls = Omit<
  StorageProvider,
  'name' | 'capabilities' | 'signRead' | 'signWrite' | 'probe' | 'close'
>;

export function xmlCalls(store: XmlStore): XmlCalls {
  const send: Send = (method, { bucket, key }, { query = {}, headers, ...sending } = {}) => {
    const makesObject =
      key !== undefined &&
      (method === 'PUT' ? query.partNumber === undefined : query.uploads !== undefined);
    return store.transport.send({
      method,
      url: objectUrl(store, { bucket, key, query }),
      sign: store.sign,
      headers: { ...headers, ...(makesObject && store.storing) },
      ...sending,
    });
  };
  return { ...objectCalls(send, store), ...bucketCalls(send, store), multipart: multipartOf(send) };
}

/** The address of an object, every byte of its key written so that nobody reads it otherwise. */
export function objectUrl(
  store: Pick<XmlStore, 'address'>,
  {
    bucket,
    key = '',
    query = {},
  }: { bucket?: string | undefined; key?: string | undefined; query?: Query },
): URL {
  const url = store.address(bucket);
  url.pathname += encodeKey(key);
  url.search = Object.entries(query)
    .map(([name, value]) => `${encodePart(name)}=${encodePart(value)}`)
    .join('&');
  return url;
}

export const encodePart = (text: string): string =>
  encodeURIComponent(text).replace(
    /[!'()*]/g,
    (char) => `%${char.charCodeAt(0).toString(16).toUpperCase()}`,
  );
export const encodeKey = (key: string): string => key.split('/').map(encodePart).join('/');

function objectCalls(send: Send, { prefix, maxWholeBytes }: XmlStore) {
  const head = async (place: ObjectPlace): Promise<ObjectFacts | undefined> => {
    requirePlace(place);
    const answer = await unlessNotFound(send('HEAD', place).then(succeeded), undefined);
    answer?.body.resume();
    return answer && factsOf(answer);
  };
  const calls: Pick<StorageProvider, 'put' | 'get' | 'head' | 'delete' | 'copy'> = {
    async put(place, body, attributes, signal) {
      try {
        requirePlace(place);
        return await storeBody(
          body,
          attributes,
          waysOf(send, { place, attributes, signal, maxWholeBytes }),
        );
      } catch (error) {
        discard(body);
        throw signal?.aborted ? new ProviderError('ABORTED', 'Nobody waits for it') : error;
      }
    },
    async get(place, range, signal) {
      requirePlace(place);
      const answer = await succeeded(
        await send('GET', place, { headers: rangeHeader(range), signal }),
      );
      return streamOf(answer, signal);
    },
    head,
    async delete(place) {
      requirePlace(place);
      const answer = await unlessNotFound(send('DELETE', place).then(succeeded), undefined);
      answer?.body.resume();
    },
    async copy(from, to) {
      requirePlace(to);
      const source = await head(from);
      if (!source) throw new ProviderError('NOT_FOUND', `There is no ${from.key}`);
      const header = { [`${prefix}copy-source`]: `/${from.bucket}/${encodeKey(from.key)}` };
      if (source.size > maxWholeBytes) return copyInParts(send, to, { source, header, prefix });
      const text = await answeredText(await send('PUT', to, { headers: header }));
      return { ...source, etag: etagIn(text), modifiedAt: new Date() };
    },
  };
  return calls;
}

const rangeHeader = (range: ByteRange | undefined): Record<string, string> =>
  range ? { range: `bytes=${range.start}-${range.end}` } : {};

const factsOf = ({ headers }: StoreAnswer): ObjectFacts => ({
  size: Number(headers['content-length'] ?? 0),
  contentType: headers['content-type'],
  etag: bareEtag(headers.etag),
  modifiedAt: new Date(headers['last-modified'] ?? 0),
});

const etagIn = (text: string): string => {
  const [root] = Object.values(parseXml(text))
    .map(nodeOf)
    .filter(({ ETag }) => ETag !== undefined);
  return bareEtag(textIn(root?.ETag));
};

interface Storing {
  readonly place: ObjectPlace;
  readonly attributes: ObjectAttributes;
  readonly signal: AbortSignal | undefined;
  readonly maxWholeBytes: number;
}

function waysOf(send: Send, { place, attributes, signal, maxWholeBytes }: Storing): StoredWays {
  const headers = { 'content-type': attributes.contentType };
  return {
    maxWhole: maxWholeBytes,
    async whole(body) {
      const answer = await succeeded(await send('PUT', place, { headers, body, signal }));
      await textOf(answer);
      const size = 'bytes' in body ? body.bytes.byteLength : (body.size ?? 0);
      return {
        size,
        contentType: attributes.contentType,
        etag: bareEtag(answer.headers.etag),
        modifiedAt: new Date(),
      };
    },
    begin: () => begin(send, place, attributes),
    part: (uploadId, number, body) => putPart(send, { place, uploadId, signal }, { number, body }),
    complete: (uploadId, parts) => complete(send, { place, uploadId }, parts),
    abort: (uploadId) => abort(send, { place, uploadId }),
  };
}

interface Upload {
  readonly place: ObjectPlace;
  readonly uploadId: string;
  readonly signal?: AbortSignal | undefined;
}

async function begin(
  send: Send,
  place: ObjectPlace,
  { contentType }: ObjectAttributes,
): Promise<string> {
  requirePlace(place);
  const text = await answeredText(
    await send('POST', place, { query: { uploads: '' }, headers: { 'content-type': contentType } }),
  );
  return textIn(nodeOf(parseXml(text).InitiateMultipartUploadResult).UploadId);
}

async function putPart(
  send: Send,
  { place, uploadId, signal }: Upload,
  { number, body }: { readonly number: number; readonly body: RequestBody },
): Promise<PartTag> {
  requirePlace(place);
  requirePartNumber(number);
  const query = { partNumber: String(number), uploadId };
  const answer = await succeeded(await send('PUT', place, { query, body, signal }));
  answer.body.resume();
  return { number, tag: bareEtag(answer.headers.etag) };
}

async function complete(
  send: Send,
  { place, uploadId }: Upload,
  parts: readonly PartTag[],
): Promise<ObjectFacts> {
  requirePlace(place);
  const list = parts
    .map(
      ({ number, tag }) =>
        `<Part><PartNumber>${number}</PartNumber><ETag>"${xmlText(tag)}"</ETag></Part>`,
    )
    .join('');
  const bytes = Buffer.from(`<CompleteMultipartUpload>${list}</CompleteMultipartUpload>`);
  const headers = { 'content-type': 'application/xml' };
  await answeredText(await send('POST', place, { query: { uploadId }, body: { bytes }, headers }));
  const answer = await succeeded(await send('HEAD', place));
  answer.body.resume();
  return factsOf(answer);
}

const xmlText = (text: string): string =>
  text.replace(/[<>&"']/g, (char) => `&#${char.charCodeAt(0)};`);

async function abort(send: Send, { place, uploadId }: Upload): Promise<void> {
  requirePlace(place);
  const gone = send('DELETE', place, { query: { uploadId } }).then(succeeded);
  (await unlessNotFound(gone, undefined))?.body.resume();
}

async function copyInParts(
  send: Send,
  to: ObjectPlace,
  {
    source,
    header,
    prefix,
  }: { source: ObjectFacts; header: Record<string, string>; prefix: string },
): Promise<ObjectFacts> {
  const uploadId = await begin(send, to, {
    contentType: source.contentType ?? 'application/octet-stream',
  });
  try {
    const parts: PartTag[] = [];
    for (let start = 0; start < source.size; start += COPIED_PART_BYTES) {
      const end = Math.min(start + COPIED_PART_BYTES, source.size) - 1;
      const number = parts.length + 1;
      const answer = await send('PUT', to, {
        query: { partNumber: String(number), uploadId },
        headers: { ...header, [`${prefix}copy-source-range`]: `bytes=${start}-${end}` },
      });
      parts.push({ number, tag: etagIn(await answeredText(answer)) });
    }
    return await complete(send, { place: to, uploadId }, parts);
  } catch (error) {
    await abort(send, { place: to, uploadId }).catch(() => undefined);
    throw error;
  }
}

function multipartOf(send: Send): StorageProvider['multipart'] {
  return {
    begin: (place, attributes) => begin(send, place, attributes),
    async part(place, uploadId, { number, body, size }) {
      const once = Readable.from(exactly(body, size), { objectMode: false });
      try {
        return (await putPart(send, { place, uploadId }, { number, body: { once, size } })).tag;
      } finally {
        body.destroy();
      }
    },
    complete: (place, uploadId, parts) => complete(send, { place, uploadId }, parts),
    abort: (place, uploadId) => abort(send, { place, uploadId }),
  };
}
