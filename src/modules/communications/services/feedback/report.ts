/** What providers report about messages, in one form. */
import { createHmac, timingSafeEqual } from 'node:crypto';
import { messageErrors } from '../../errors.ts';
import { words } from '../providers/outcome.ts';

export interface Report {
  /** The provider's own name for the report. */
  readonly eventId: string;
  readonly kind:
    | 'processed'
    | 'deferred'
    | 'sent'
    | 'delivered'
    | 'opened'
    | 'clicked'
    | 'bounced'
    | 'complained'
    | 'unsubscribed'
    | 'failed';
  /** Our id, where the provider hands it back. */
  readonly messageId?: string | undefined;
  readonly providerId?: string | undefined;
  readonly recipient?: string | undefined;
  readonly detail?: string | undefined;
  /** The address will never take anything: a bounce for good, an opt-out of the number. */
  readonly permanent?: boolean | undefined;
  /** The provider never hands back our id: what is not known yet is looked at again. */
  readonly waits?: boolean | undefined;
  /** In place of what follows from the kind. */
  readonly reason?: string | undefined;
}

/** A request of a provider, as it came. */
export interface HookRequest {
  readonly raw: Buffer;
  /** Lower case names. */
  readonly headers: Readonly<Record<string, string | undefined>>;
  /** Public address that it was sent to, with the query. */
  readonly url: string;
  readonly query: Readonly<Record<string, string | undefined>>;
}

/** What came in one request. `nonce`: a token of its signature that is good once. */
export interface Reports {
  readonly reports: readonly Report[];
  readonly nonce?: string | undefined;
}

/** Reads a request, and believes it only with its signature. Throws WEBHOOK_REFUSED. */
export type ReadReports = (request: HookRequest) => Promise<Reports> | Reports;

export const refuseHook = (message: string): never => {
  throw messageErrors.WEBHOOK_REFUSED({ message });
};

/** The key that signatures are checked with. */
export function requireKey(key: string): string {
  if (key === '') refuseHook('No key is set that the signature could be checked with');
  return key;
}

export function hmac(
  algorithm: 'sha1' | 'sha256',
  key: string,
  encoding: 'hex' | 'base64',
  ...parts: readonly (string | Buffer)[]
): string {
  const digest = createHmac(algorithm, key);
  for (const part of parts) digest.update(part);
  return digest.digest(encoding);
}

/** Throws unless the signature is the one that the key makes. */
export function requireSame(given: string | undefined, expected: string): void {
  const [a, b] = [Buffer.from(given ?? ''), Buffer.from(expected)];
  if (a.length !== b.length || !timingSafeEqual(a, b))
    refuseHook('The signature does not belong to this request');
}

/** The body as JSON; anything else is refused. */
export function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return refuseHook('The body is not JSON');
  }
}

export const formOf = (raw: Buffer): ReadonlyMap<string, string> =>
  new Map(new URLSearchParams(raw.toString('utf8')));

/** Name and value of each field in the order of the names, as some providers sign them. */
export const sortedFields = (form: ReadonlyMap<string, string>): string =>
  [...form]
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .flat()
    .join('');

export const said = (...parts: readonly (string | undefined)[]): string | undefined => {
  const text = parts.filter((part) => part !== undefined && part !== '').join(' ');
  return text === '' ? undefined : words(text);
};

const uuid = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;

/** Our id, if it is one. */
export const ownId = (text: string | undefined): string | undefined =>
  text !== undefined && uuid.test(text) ? text.toLowerCase() : undefined;

/** Whether a time (seconds since the epoch) is near enough for a signature to count. */
export const isFresh = (seconds: number): boolean =>
  Number.isFinite(seconds) && Math.abs(Date.now() / 1000 - seconds) < 7 * 24 * 3600;
