/** What code asks its sandbox process for and gets at once, because it needs no platform: addresses, digests, random values. */
import { createHash, createHmac, randomBytes, randomUUID } from 'node:crypto';
import { type AskedUrl, urlOf } from './addresses.ts';

interface Asked extends AskedUrl {
  readonly hash?: string;
  readonly data?: string;
  readonly key?: string;
  readonly bytes?: number;
}

const hashNames: ReadonlyMap<string, string> = new Map([
  ['SHA-1', 'sha1'],
  ['SHA-256', 'sha256'],
  ['SHA-384', 'sha384'],
  ['SHA-512', 'sha512'],
]);

/** Characters of what is asked at once: the runs beside wait meanwhile. */
const MAX_ASKED = 8_000_000;

/** A text that begins with `!` is an error. */
export function answerAtOnce(name: string, text: string): string {
  if (text.length > MAX_ASKED) return `!More than ${MAX_ASKED} characters at once`;
  try {
    return JSON.stringify(answerOf(name, (JSON.parse(text) ?? {}) as Asked));
  } catch (error) {
    return `!${error instanceof Error ? error.message : 'failed'}`;
  }
}

function answerOf(name: string, asked: Asked): unknown {
  if (name === 'url') return urlOf(asked);
  if (name === 'uuid') return randomUUID();
  if (name === 'random') {
    const bytes = Number(asked.bytes);
    if (!(bytes >= 0 && bytes <= 65_536)) throw new Error('At most 65,536 random bytes at once');
    return randomBytes(bytes).toString('base64');
  }
  const hash = hashNames.get(String(asked.hash).toUpperCase());
  if (hash === undefined) throw new Error('The digest must be SHA-1, SHA-256, SHA-384 or SHA-512');
  const data = Buffer.from(String(asked.data), 'base64');
  if (name === 'digest') return createHash(hash).update(data).digest('base64');
  if (name !== 'hmac') throw new Error('There is no such call');
  const key = Buffer.from(String(asked.key), 'base64');
  return createHmac(hash, key).update(data).digest('base64');
}
