/** Buckets of stores with S3's XML, and what lies in them. */
import {
  type ListedObject,
  type ObjectPlace,
  requireBucket,
  requirePrefix,
  type StorageProvider,
} from '../provider.ts';
import {
  answeredText,
  listOf,
  nodeOf,
  parseXml,
  StoreRefusal,
  succeeded,
  textIn,
  unlessNotFound,
} from './answers.ts';
import type { StoreAnswer, StoreRequest, Transport } from './transport.ts';

const MAX_PAGE = 1000;

export function bucketCalls(send: Send, { creation }: Pick<XmlStore, 'creation'>) {
  const calls: Pick<StorageProvider, 'list' | 'createBucket' | 'bucketExists' | 'deleteBucket'> = {
    async list(bucket, prefix, cursor, limit = MAX_PAGE) {
      requirePrefix(bucket, prefix);
      const query = {
        'list-type': '2',
        'encoding-type': 'url',
        'max-keys': String(Math.min(limit, MAX_PAGE)),
        prefix,
        ...(cursor !== undefined && { 'continuation-token': cursor }),
      };
      const text = await answeredText(await send('GET', { bucket }, { query }));
      const page = nodeOf(parseXml(text).ListBucketResult);
      const encoded = textIn(page.EncodingType) === 'url';
      return {
        objects: listOf(page.Contents).map((entry) => listedObject(nodeOf(entry), encoded)),
        cursor:
          textIn(page.IsTruncated) === 'true' ? textIn(page.NextContinuationToken) : undefined,
      };
    },
    async createBucket(bucket) {
      requireBucket(bucket);
      const body = { bytes: Buffer.from(creation.body) };
      try {
        const answer = await send('PUT', { bucket }, { headers: creation.headers, body });
        (await succeeded(answer)).body.resume();
      } catch (error) {
        if (!(error instanceof StoreRefusal) || !takenCodes.has(error.code)) throw error;
        // It may be somebody else's: then looking at it is refused.
        if (!(await calls.bucketExists(bucket))) throw error;
      }
    },
    async bucketExists(bucket) {
      requireBucket(bucket);
      const answer = await unlessNotFound(send('HEAD', { bucket }).then(succeeded), undefined);
      answer?.body.resume();
      return answer !== undefined;
    },
    async deleteBucket(bucket) {
      requireBucket(bucket);
      const answer = await unlessNotFound(send('DELETE', { bucket }).then(succeeded), undefined);
      answer?.body.resume();
    },
  };
  return calls;
}

const takenCodes: ReadonlySet<string> = new Set(['BucketAlreadyOwnedByYou', 'BucketAlreadyExists']);

function listedObject(entry: Readonly<Record<string, unknown>>, encoded: boolean): ListedObject {
  const key = textIn(entry.Key);
  return {
    key: encoded ? decodeURIComponent(key.replaceAll('+', ' ')) : key,
    size: Number(entry.Size),
    modifiedAt: new Date(textIn(entry.LastModified)),
  };
}

/* How a request of a store with S3's XML is made: what differs between stores, and what every call says. */

export interface XmlStore {
  readonly transport: Transport;
  /** Address of a bucket, ending in `/`; without one that of the service. */
  address(bucket?: string): URL;
  readonly sign: NonNullable<StoreRequest['sign']>;
  /** Beginning of the store's own headers. */
  readonly prefix: 'x-amz-' | 'x-goog-';
  /** What goes with each request that makes an object, such as how the store shall encrypt it. */
  readonly storing: Readonly<Record<string, string>>;
  /** Bytes that one request may carry or copy. */
  readonly maxWholeBytes: number;
  /** What making a bucket takes. */
  readonly creation: { readonly body: string; readonly headers: Readonly<Record<string, string>> };
}

export type Query = Readonly<Record<string, string>>;
export type Sending = Partial<Pick<StoreRequest, 'headers' | 'body' | 'signal'>> & {
  readonly query?: Query;
};
export type Send = (
  method: string,
  place: Partial<ObjectPlace>,
  sending?: Sending,
) => Promise<StoreAnswer>;
