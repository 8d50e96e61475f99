/** What the cases share. */
import { createHash } from 'node:crypto';
import { Readable } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import { expect } from 'vitest';
import type { ByteRange, ObjectPlace, ProviderProblem, StorageProvider } from '../provider.ts';

export interface OpenedProvider {
  readonly provider: StorageProvider;
  close(): Promise<void>;
}

export interface ProviderTraits {
  /** Whether the store keeps a content type beside the bytes. */
  readonly keepsContentType: boolean;
  /** Beginnings of the names of cases that the test's server gets wrong although the real one does not. */
  readonly lacks?: readonly string[];
}

export interface Bench {
  readonly provider: StorageProvider;
  readonly traits: ProviderTraits;
  /** Declares a case, unless the test's server is known to fail it. */
  check(name: string, run: () => Promise<void>): void;
  /** Makes a bucket of its own for a case. */
  bucket(): Promise<string>;
}

export const bytes = (text: string): Readable => Readable.from([Buffer.from(text)]);
export const type = { contentType: 'application/octet-stream' };
export const digest = (data: Uint8Array): string => createHash('sha256').update(data).digest('hex');

export async function read(
  provider: StorageProvider,
  place: ObjectPlace,
  range?: ByteRange,
): Promise<Buffer> {
  return buffer(await provider.get(place, range));
}

export const refused = (problem: ProviderProblem) => expect.objectContaining({ problem });
