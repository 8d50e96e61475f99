/** How a request of a store with S3's XML is made: what differs between stores, and what every call says. */
import type { ObjectPlace } from '../provider.ts';
import type { StoreAnswer, StoreRequest, Transport } from './transport.ts';

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
