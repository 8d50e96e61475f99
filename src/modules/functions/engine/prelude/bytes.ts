/** Bytes and texts: encodings, `Buffer`, and the part of web cryptography that signatures need. */
import { askProcess, defineGlobal } from './core.ts';

type Encoding = 'utf8' | 'utf-8' | 'base64' | 'base64url' | 'hex' | 'latin1' | 'binary' | 'ascii';

/** Code units of one call of `fromCharCode`. */
const chunkUnits = 8_192;

export function utf8Bytes(text: string): Uint8Array {
  const bytes = new Uint8Array(text.length * 3);
  let at = 0;
  for (const character of text) {
    let code = character.codePointAt(0) as number;
    if (code >= 0xd800 && code <= 0xdfff) code = 0xfffd;
    if (code < 0x80) bytes[at++] = code;
    else if (code < 0x800) {
      bytes[at++] = 0xc0 | (code >> 6);
      bytes[at++] = 0x80 | (code & 63);
    } else if (code < 0x10000) {
      bytes[at++] = 0xe0 | (code >> 12);
      bytes[at++] = 0x80 | ((code >> 6) & 63);
      bytes[at++] = 0x80 | (code & 63);
    } else {
      bytes[at++] = 0xf0 | (code >> 18);
      bytes[at++] = 0x80 | ((code >> 12) & 63);
      bytes[at++] = 0x80 | ((code >> 6) & 63);
      bytes[at++] = 0x80 | (code & 63);
    }
  }
  return bytes.slice(0, at);
}

/** Bytes that are no UTF-8 become U+FFFD. */
export function utf8Text(bytes: Uint8Array): string {
  let text = '';
  let units: number[] = [];
  for (let at = 0; at < bytes.length; ) {
    const [code, length] = codePointAt(bytes, at);
    at += length;
    if (code > 0xffff) units.push(0xd7c0 + (code >> 10), 0xdc00 + (code & 0x3ff));
    else units.push(code);
    if (units.length >= chunkUnits) {
      text += String.fromCharCode(...units);
      units = [];
    }
  }
  return text + String.fromCharCode(...units);
}

/** Bytes of the sequence that begins with this one; 0 where none does. */
function sequenceLength(first: number): number {
  if (first < 0x80) return 1;
  if (first < 0xc2 || first > 0xf4) return 0;
  return first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
}

const isWellFormed = (code: number, length: number): boolean => {
  if (length === 3) return code >= 0x800 && (code < 0xd800 || code > 0xdfff);
  return length !== 4 || (code >= 0x10000 && code <= 0x10ffff);
};

function codePointAt(bytes: Uint8Array, at: number): readonly [code: number, length: number] {
  const first = bytes[at] as number;
  const length = sequenceLength(first);
  if (length === 1) return [first, 1];
  if (length === 0 || at + length > bytes.length) return [0xfffd, 1];
  let code = first & (0x7f >> length);
  for (let next = at + 1; next < at + length; next++) {
    const byte = bytes[next] as number;
    if ((byte & 0xc0) !== 0x80) return [0xfffd, next - at];
    code = (code << 6) | (byte & 63);
  }
  return isWellFormed(code, length) ? [code, length] : [0xfffd, length];
}

const base64Signs = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/';
const base64Values = new Map([...base64Signs].map((sign, value) => [sign, value] as const));
base64Values.set('-', 62).set('_', 63);

export function base64Text(bytes: Uint8Array, url = false): string {
  let text = '';
  for (let at = 0; at < bytes.length; at += 3) {
    const [a = 0, b, c] = [bytes[at], bytes[at + 1], bytes[at + 2]];
    const bits = (a << 16) | ((b ?? 0) << 8) | (c ?? 0);
    text += (base64Signs[bits >> 18] as string) + base64Signs[(bits >> 12) & 63];
    text += b === undefined ? '=' : base64Signs[(bits >> 6) & 63];
    text += c === undefined ? '=' : base64Signs[bits & 63];
  }
  if (!url) return text;
  return text.replaceAll('=', '').replaceAll('+', '-').replaceAll('/', '_');
}

export function base64Bytes(text: string): Uint8Array {
  const bytes = new Uint8Array(Math.ceil((text.length * 3) / 4));
  let [bits, count, at] = [0, 0, 0];
  for (const sign of text) {
    const value = base64Values.get(sign);
    if (value === undefined) continue;
    bits = ((bits << 6) | value) & 0xffffff;
    count += 6;
    if (count >= 8) {
      count -= 8;
      bytes[at++] = (bits >> count) & 255;
    }
  }
  return bytes.slice(0, at);
}

function latin1Text(bytes: Uint8Array): string {
  let text = '';
  for (let at = 0; at < bytes.length; at += chunkUnits)
    text += String.fromCharCode(...bytes.subarray(at, at + chunkUnits));
  return text;
}

const latin1Bytes = (text: string): Uint8Array =>
  Uint8Array.from({ length: text.length }, (_none, at) => text.charCodeAt(at) & 255);

const hexText = (bytes: Uint8Array): string =>
  Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('');

function hexBytes(text: string): Uint8Array {
  const pairs = /^(?:[0-9a-fA-F]{2})*/.exec(text)?.[0] ?? '';
  return Uint8Array.from({ length: pairs.length / 2 }, (_none, at) =>
    Number.parseInt(pairs.slice(at * 2, at * 2 + 2), 16),
  );
}

function bytesOfText(text: string, encoding: Encoding = 'utf8'): Uint8Array {
  if (encoding === 'hex') return hexBytes(text);
  if (encoding === 'base64' || encoding === 'base64url') return base64Bytes(text);
  if (encoding === 'latin1' || encoding === 'binary' || encoding === 'ascii')
    return latin1Bytes(text);
  return utf8Bytes(text);
}

/** Any view of bytes, or a text as UTF-8. */
export function viewOf(data: unknown): Uint8Array {
  if (typeof data === 'string') return utf8Bytes(data);
  if (data instanceof ArrayBuffer) return new Uint8Array(data);
  if (ArrayBuffer.isView(data))
    return new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
  throw new TypeError('Bytes or a text are needed here');
}

/** The part of Node's class that most code uses. */
class SandboxBuffer extends Uint8Array {
  static alloc(size: number): SandboxBuffer {
    return new SandboxBuffer(size);
  }
  static override from(data: unknown, encoding?: unknown): SandboxBuffer {
    const bytes =
      typeof data === 'string'
        ? bytesOfText(data, encoding as Encoding | undefined)
        : Array.isArray(data)
          ? Uint8Array.of(...(data as number[]))
          : viewOf(data);
    const made = new SandboxBuffer(bytes.length);
    made.set(bytes);
    return made;
  }
  static concat(parts: readonly Uint8Array[]): SandboxBuffer {
    const made = new SandboxBuffer(parts.reduce((sum, part) => sum + part.length, 0));
    let at = 0;
    for (const part of parts) {
      made.set(part, at);
      at += part.length;
    }
    return made;
  }
  static byteLength(text: string, encoding?: Encoding): number {
    return bytesOfText(text, encoding).length;
  }
  static isBuffer(value: unknown): boolean {
    return value instanceof SandboxBuffer;
  }
  equals(other: Uint8Array): boolean {
    return sameBytes(this, other);
  }
  override toString(encoding: Encoding = 'utf8'): string {
    if (encoding === 'hex') return hexText(this);
    if (encoding === 'base64' || encoding === 'base64url')
      return base64Text(this, encoding === 'base64url');
    return encoding === 'utf8' || encoding === 'utf-8' ? utf8Text(this) : latin1Text(this);
  }
  toJSON(): unknown {
    return { type: 'Buffer', data: [...this] };
  }
}

/** In a time that does not depend on where they differ. */
function sameBytes(left: unknown, right: unknown): boolean {
  const [a, b] = [viewOf(left), viewOf(right)];
  if (a.length !== b.length) return false;
  let difference = 0;
  for (let at = 0; at < a.length; at++) difference |= (a[at] as number) ^ (b[at] as number);
  return difference === 0;
}

defineGlobal('Buffer', SandboxBuffer);
defineGlobal('atob', (text: string) => latin1Text(base64Bytes(String(text))));
defineGlobal('btoa', (text: string) => {
  if (/[^\0-\xff]/.test(String(text)))
    throw new TypeError('btoa takes characters up to U+00FF: encode the text as UTF-8 first');
  return base64Text(latin1Bytes(String(text)));
});
defineGlobal(
  'TextEncoder',
  class TextEncoder {
    readonly encoding = 'utf-8';
    encode(text = ''): Uint8Array {
      return utf8Bytes(String(text));
    }
  },
);
defineGlobal(
  'TextDecoder',
  class TextDecoder {
    readonly encoding = 'utf-8';
    decode(bytes?: unknown): string {
      return bytes === undefined ? '' : utf8Text(viewOf(bytes));
    }
  },
);

/* Web cryptography: random values, digests and HMAC. The sandbox process computes them. */

interface HmacKey {
  readonly type: 'secret';
  readonly algorithm: { readonly name: 'HMAC'; readonly hash: { readonly name: string } };
}

const rawKeys = new WeakMap<object, string>();
const nameOfAlgorithm = (given: unknown): string =>
  String(typeof given === 'object' && given ? (given as { name?: unknown }).name : given);
const bytesAsked = (name: string, value: Readonly<Record<string, unknown>>): Uint8Array =>
  base64Bytes(askProcess(name, value) as string);
const bufferOf = (bytes: Uint8Array): ArrayBuffer => bytes.slice().buffer as ArrayBuffer;

function importHmacKey(format: string, data: unknown, algorithm: unknown): HmacKey {
  if (format !== 'raw' || nameOfAlgorithm(algorithm).toUpperCase() !== 'HMAC')
    throw new TypeError('Only raw HMAC keys can be imported');
  const hash = nameOfAlgorithm((algorithm as { hash?: unknown }).hash);
  const key: HmacKey = { type: 'secret', algorithm: { name: 'HMAC', hash: { name: hash } } };
  rawKeys.set(key, base64Text(viewOf(data)));
  return key;
}

function hmacOf(key: HmacKey, data: unknown): Uint8Array {
  const raw = rawKeys.get(key);
  if (raw === undefined) throw new TypeError('This is no key that was imported');
  const hash = key.algorithm.hash.name;
  return bytesAsked('hmac', { hash, key: raw, data: base64Text(viewOf(data)) });
}

const subtle = {
  digest: async (algorithm: unknown, data: unknown) =>
    bufferOf(
      bytesAsked('digest', { hash: nameOfAlgorithm(algorithm), data: base64Text(viewOf(data)) }),
    ),
  importKey: async (format: string, data: unknown, algorithm: unknown) =>
    importHmacKey(format, data, algorithm),
  sign: async (_algorithm: unknown, key: HmacKey, data: unknown) => bufferOf(hmacOf(key, data)),
  verify: async (_algorithm: unknown, key: HmacKey, signature: unknown, data: unknown) =>
    sameBytes(hmacOf(key, data), signature),
};

defineGlobal('crypto', {
  subtle,
  randomUUID: () => askProcess('uuid', null),
  getRandomValues(view: ArrayBufferView) {
    const bytes = viewOf(view);
    bytes.set(bytesAsked('random', { bytes: bytes.length }));
    return view;
  },
  timingSafeEqual: sameBytes,
});
