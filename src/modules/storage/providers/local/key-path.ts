/**
 * Where an object of the local provider lies: every part of its key is a folder, so that a prefix can be listed
 * without looking at everything else. File systems differ in what names they keep apart (case, Unicode forms,
 * 255 bytes), so a name is written in a form that all of them keep, and a long one is spread over several folders.
 *
 * A name begins with what it is: `f-` a file, `d-` a folder of the key, `c-` the first 80 bytes of a longer part.
 */
import { join } from 'node:path';

/** Written out, 80 bytes are at most 240 characters. */
const CHUNK_BYTES = 80;

/** Path below the bucket's folder. */
export function pathOfKey(key: string): string {
  const parts = key.split('/');
  const name = parts.pop() ?? '';
  return join(...parts.flatMap((part) => namesOf('d', part)), ...namesOf('f', name));
}

/** Path below the bucket's folder of what a prefix names whole: the folder of `a/b/` for `a/b/ph`. */
export function folderOfPrefix(prefix: string): string {
  const folders = prefix.split('/').slice(0, -1);
  return join('.', ...folders.flatMap((part) => namesOf('d', part)));
}

/** Printable ASCII, in which a sign is a byte. */
const ascii = /^[ -~]*$/;
/** What is written out, but for dots that do not end a name. */
const special = /[^a-z0-9_-]/g;

function namesOf(kind: 'd' | 'f', part: string): string[] {
  if (part.length < CHUNK_BYTES && ascii.test(part))
    return [
      `${kind}-${part.replace(special, (sign, at) => writtenByte(sign.charCodeAt(0), at === part.length - 1))}`,
    ];
  const names: string[] = [];
  let rest = Buffer.from(part);
  for (; rest.length >= CHUNK_BYTES; rest = rest.subarray(CHUNK_BYTES))
    names.push(`c-${written(rest.subarray(0, CHUNK_BYTES))}`);
  return [...names, `${kind}-${written(rest)}`];
}

/** A name as bytes to compare keys by, one character per byte: what follows `parent` in the keys below it. */
export interface EntryName {
  readonly isFile: boolean;
  readonly key: string;
}

/** Undefined: not ours. `parent` and the answered key hold one character per byte (latin1). */
export function readEntryName(parent: string, name: string): EntryName | undefined {
  const bytes = unwritten(name.slice(2));
  if (bytes === undefined) return undefined;
  if (name.startsWith('f-')) return { isFile: true, key: parent + bytes };
  if (name.startsWith('d-')) return { isFile: false, key: `${parent}${bytes}/` };
  return name.startsWith('c-') ? { isFile: false, key: parent + bytes } : undefined;
}

/** The order of keys is that of their bytes, which JavaScript's order of texts is not. */
export const bytesOfKey = (key: string): string => Buffer.from(key).toString('latin1');
export const keyOfBytes = (bytes: string): string => Buffer.from(bytes, 'latin1').toString();

const isPlain = (byte: number): boolean =>
  (byte >= 0x61 && byte <= 0x7a) ||
  (byte >= 0x30 && byte <= 0x39) ||
  byte === 0x2d ||
  byte === 0x5f;

function written(bytes: Uint8Array): string {
  let text = '';
  bytes.forEach((byte, at) => {
    text += writtenByte(byte, at === bytes.length - 1);
  });
  return text;
}

function writtenByte(byte: number, isLast: boolean): string {
  // A dot at the end of a name is lost on Windows.
  const plain = isPlain(byte) || (byte === 0x2e && !isLast);
  return plain ? String.fromCharCode(byte) : `%${byte.toString(16).padStart(2, '0')}`;
}

function unwritten(text: string): string | undefined {
  if (!/^(?:[a-z0-9._-]|%[0-9a-f]{2})*$/.test(text)) return undefined;
  return text.replace(/%([0-9a-f]{2})/g, (_, hex: string) =>
    String.fromCharCode(Number.parseInt(hex, 16)),
  );
}
