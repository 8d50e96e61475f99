/** Names that no provider takes, whoever asks: the module has its own, stricter rules (specification storage.md 5.2). */
import { type ObjectPlace, ProviderError } from './provider.ts';

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
