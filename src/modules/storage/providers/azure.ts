import { setTimeout as pause } from 'node:timers/promises';
import { createBlockUploads, partOf } from './azure/blocks.ts';
import { readConnectionString, signRequest, signSas } from './azure/sign.ts';
import {
  type ByteRange,
  discard,
  type ObjectAttributes,
  type ObjectFacts,
  type ObjectPlace,
  ProviderError,
  requireBucket,
  requirePlace,
  requirePrefix,
  type StorageProvider,
  type TransportLimits,
} from './provider.ts';
import {
  answeredText,
  bareEtag,
  listOf,
  nodeOf,
  parseXml,
  StoreRefusal,
  succeeded,
  textIn,
  unlessNotFound,
} from './remote/answers.ts';
import { storeBody } from './remote/parts.ts';
import {
  createTransport,
  type StoreAnswer,
  type StoreRequest,
  streamOf,
} from './remote/transport.ts';
import { encodeKey, encodePart } from './remote/xml-store.ts';

export interface AzureProviderOptions {
  /** As the portal shows it, with the key of the account. */
  readonly connectionString: string;
  readonly limits?: TransportLimits;
}

const API_VERSION = '2021-12-02';
const MAX_WHOLE_BYTES = 4_000 * 1024 ** 2;
const MAX_PAGE = 1000;
/** Milliseconds between looks at a copy that goes on by itself. */
const COPY_PAUSE_MS = 250;

type Sending = Partial<Pick<StoreRequest, 'headers' | 'body' | 'signal'>> & {
  readonly query?: Readonly<Record<string, string>>;
};
export type AzureSend = (
  method: string,
  place: Partial<ObjectPlace>,
  sending?: Sending,
) => Promise<StoreAnswer>;

/** Makes no call. @throws ProviderError REFUSED when the connection string is none */
export function createAzureProvider(options: AzureProviderOptions): StorageProvider {
  const account = readConnectionString(options.connectionString);
  const transport = createTransport(options.limits);
  const urlOf = ({ bucket, key }: Partial<ObjectPlace>, query: Sending['query'] = {}): URL => {
    const path = [bucket, key === undefined ? undefined : encodeKey(key)].filter(
      (part) => part !== undefined,
    );
    const url = new URL(`${account.endpoint}/${path.join('/')}`);
    url.search = Object.entries(query)
      .map((pair) => pair.map(encodePart).join('='))
      .join('&');
    return url;
  };
  const send: AzureSend = (method, place, { query, headers, ...sending } = {}) =>
    transport.send({
      method,
      url: urlOf(place, query),
      headers: { 'x-ms-version': API_VERSION, ...headers },
      sign: async (request) => signRequest(account, request),
      ...sending,
    });
  const sas = (place: ObjectPlace, options: Parameters<typeof signSas>[2]) => {
    requirePlace(place);
    const { query, expiresAt } = signSas(account, place, options);
    return { url: `${urlOf(place).href}?${query}`, expiresAt };
  };
  return {
    name: 'azure',
    // What comes is looked at when it is confirmed: the signature allows one new object and no more.
    capabilities: { signedRequests: true, signedLength: false, minimumPartSize: 1 },
    ...objectCalls(send, urlOf, account.key),
    ...bucketCalls(send),
    async signRead(place, { expiresInSeconds, disposition, contentType }) {
      const signed = sas(place, { permissions: 'r', expiresInSeconds, disposition, contentType });
      return { ...signed, method: 'GET', headers: {} };
    },
    async signWrite(place, { expiresInSeconds, contentType }) {
      const headers = { 'content-type': contentType, 'x-ms-blob-type': 'BlockBlob' };
      const signed = sas(place, { permissions: 'c', expiresInSeconds });
      return { ...signed, method: 'PUT', headers };
    },
    async probe() {
      const query = { comp: 'list', maxresults: '1' };
      (await succeeded(await send('GET', {}, { query }))).body.resume();
    },
    close: async () => transport.close(),
  };
}

type ObjectCalls = Pick<StorageProvider, 'put' | 'get' | 'head' | 'delete' | 'copy' | 'multipart'>;

function objectCalls(
  send: AzureSend,
  urlOf: (place: ObjectPlace) => URL,
  key: Buffer,
): ObjectCalls {
  const head = async (place: ObjectPlace): Promise<ObjectFacts | undefined> => {
    requirePlace(place);
    return unlessNotFound(factsOf(send, place), undefined);
  };
  const uploads = createBlockUploads({ send, key, factsOf: (place) => factsOf(send, place) });
  return {
    async put(place, body, attributes, signal) {
      try {
        requirePlace(place);
        return await storeBody(body, attributes, {
          maxWhole: MAX_WHOLE_BYTES,
          whole: (bytes) => putWhole(send, { place, attributes, signal }, bytes),
          begin: async () => uploads.begin(place, attributes),
          part: (uploadId, number, bytes) =>
            partOf(uploads, { place, uploadId, signal }, { number, body: bytes }),
          complete: (uploadId, parts) => uploads.complete(place, uploadId, parts),
          abort: (uploadId) => uploads.abort(place, uploadId),
        });
      } catch (error) {
        discard(body);
        throw signal?.aborted ? new ProviderError('ABORTED', 'Nobody waits for it') : error;
      }
    },
    async get(place, range, signal) {
      requirePlace(place);
      const answer = await send('GET', place, { headers: rangeHeader(range), signal });
      const { headers } = await succeeded(answer);
      if (range && headers['content-length'] === '0') {
        answer.body.resume();
        throw new ProviderError('OUT_OF_RANGE', `${place.key} is shorter`);
      }
      return streamOf(answer, signal);
    },
    head,
    async delete(place) {
      requirePlace(place);
      const gone = send('DELETE', place).then(succeeded);
      (await unlessNotFound(gone, undefined))?.body.resume();
    },
    async copy(from, to) {
      requirePlace(from);
      requirePlace(to);
      const headers = { 'x-ms-copy-source': urlOf(from).href };
      (await succeeded(await send('PUT', to, { headers }))).body.resume();
      return copied(send, to);
    },
    multipart: uploads,
  };
}

const rangeHeader = (range: ByteRange | undefined): Record<string, string> =>
  range ? { 'x-ms-range': `bytes=${range.start}-${range.end}` } : {};

interface Storing {
  readonly place: ObjectPlace;
  readonly attributes: ObjectAttributes;
  readonly signal: AbortSignal | undefined;
}

async function putWhole(
  send: AzureSend,
  { place, attributes, signal }: Storing,
  body: NonNullable<StoreRequest['body']>,
): Promise<ObjectFacts> {
  const headers = { 'content-type': attributes.contentType, 'x-ms-blob-type': 'BlockBlob' };
  const answer = await succeeded(await send('PUT', place, { headers, body, signal }));
  answer.body.resume();
  return {
    size: 'bytes' in body ? body.bytes.byteLength : (body.size ?? 0),
    contentType: attributes.contentType,
    etag: bareEtag(answer.headers.etag),
    modifiedAt: new Date(answer.headers['last-modified'] ?? Date.now()),
  };
}

async function factsOf(send: AzureSend, place: ObjectPlace): Promise<ObjectFacts> {
  const { headers, body } = await succeeded(await send('HEAD', place));
  body.resume();
  return {
    size: Number(headers['content-length'] ?? 0),
    contentType: headers['content-type'],
    etag: bareEtag(headers.etag),
    modifiedAt: new Date(headers['last-modified'] ?? 0),
  };
}

/** Large copies go on after the answer. */
async function copied(send: AzureSend, to: ObjectPlace): Promise<ObjectFacts> {
  for (;;) {
    const { headers, body } = await succeeded(await send('HEAD', to));
    body.resume();
    const status = headers['x-ms-copy-status'];
    if (status === 'failed' || status === 'aborted')
      throw new ProviderError('UNAVAILABLE', `The copy ${status}`);
    if (status !== 'pending') return factsOf(send, to);
    await pause(COPY_PAUSE_MS);
  }
}

function bucketCalls(send: AzureSend) {
  const container = { restype: 'container' };
  const calls: Pick<StorageProvider, 'list' | 'createBucket' | 'bucketExists' | 'deleteBucket'> = {
    async list(bucket, prefix, cursor, limit = MAX_PAGE) {
      requirePrefix(bucket, prefix);
      const query = {
        ...container,
        comp: 'list',
        maxresults: String(Math.min(limit, MAX_PAGE)),
        ...(prefix !== '' && { prefix }),
        ...(cursor !== undefined && { marker: cursor }),
      };
      const text = await answeredText(await send('GET', { bucket }, { query }));
      const page = nodeOf(parseXml(text).EnumerationResults);
      const blobs = listOf(nodeOf(page.Blobs).Blob).map(nodeOf);
      return {
        objects: blobs.map((blob) => {
          const facts = nodeOf(blob.Properties);
          return {
            key: textIn(blob.Name),
            size: Number(textIn(facts['Content-Length'])),
            modifiedAt: new Date(textIn(facts['Last-Modified'])),
          };
        }),
        cursor: textIn(page.NextMarker) || undefined,
      };
    },
    async createBucket(bucket) {
      requireBucket(bucket);
      try {
        (await succeeded(await send('PUT', { bucket }, { query: container }))).body.resume();
      } catch (error) {
        if (!(error instanceof StoreRefusal && error.code === 'ContainerAlreadyExists'))
          throw error;
      }
    },
    async bucketExists(bucket) {
      requireBucket(bucket);
      const asked = send('HEAD', { bucket }, { query: container }).then(succeeded);
      const answer = await unlessNotFound(asked, undefined);
      answer?.body.resume();
      return answer !== undefined;
    },
    async deleteBucket(bucket) {
      requireBucket(bucket);
      // The store itself would take everything with it.
      const page = await unlessNotFound(calls.list(bucket, '', undefined, 1), undefined);
      if (page && page.objects.length > 0)
        throw new ProviderError('NOT_EMPTY', `${bucket} holds objects`);
      const gone = send('DELETE', { bucket }, { query: container }).then(succeeded);
      (await unlessNotFound(gone, undefined))?.body.resume();
    },
  };
  return calls;
}
