/**
 * What containers, folders and files may be called (specification storage.md 5.2). A name that is refused is never
 * mended: two names that a reader takes for one, or a path that means another place, would else be let in.
 */
import { storageErrors } from './errors.ts';

/** The folder of files that are in none. */
export const ROOT = '/';

/** Bytes of UTF-8. */
const MAX_SEGMENT = 255;
const MAX_PATH = 1_024;
const MAX_TYPE = 255;

const containerName = /^[a-z0-9][a-z0-9._-]{1,61}[a-z0-9]$/;

export const isContainerName = (text: string): boolean =>
  containerName.test(text) && !text.includes('..');

/** @throws INVALID_NAME */
export function containerOf(text: string): string {
  if (isContainerName(text)) return text;
  throw refused(
    'container',
    'write 3 to 63 lower case letters, digits, dots, hyphens and underscores, with a letter or digit at both ends',
  );
}

/** Why a text is no name of a file or of one level of folders. */
function problemOf(text: string): string | undefined {
  if (text === '') return 'must not be empty';
  if (text === '.' || text === '..') return 'must not be . or ..';
  if (/[/\\]/.test(text)) return 'must not contain slashes';
  if (!text.isWellFormed() || hasControls(text)) return 'must not contain control characters';
  if (text !== text.trim()) return 'must not begin or end with a space';
  if (Buffer.byteLength(text) > MAX_SEGMENT) return `must have at most ${MAX_SEGMENT} bytes`;
  if (text !== text.normalize('NFC')) return 'must be in the Unicode form NFC';
  if (climbsEncoded(text)) return 'must not contain percent-encoded dots or slashes';
  return undefined;
}

/** C0, C1, and signs that change the direction of text or end a line, so that a name reads as another one. */
function hasControls(text: string): boolean {
  for (const character of text) {
    const code = character.codePointAt(0) ?? 0;
    if (code < 0x20 || (code >= 0x7f && code <= 0x9f)) return true;
    if (code === 0x2028 || code === 0x2029 || code === 0xfeff) return true;
    if ((code >= 0x202a && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069)) return true;
  }
  return false;
}

/** `%2e%2e`, `%2F`, `%5c`, `%00`, and the same encoded once or more again (`%252e`). */
const climbsEncoded = (text: string): boolean => /%(?:25)*(?:2e|2f|5c|00)/i.test(text);

/** @throws INVALID_NAME */
export function fileNameOf(text: string, path = 'name'): string {
  const problem = problemOf(text);
  if (problem !== undefined) throw refused(path, problem);
  return text;
}

/**
 * A folder in its one form: `a/b/`, or `/` for the root. Slashes around it may be left out.
 * @throws INVALID_NAME
 */
export function folderOf(text: string, path = 'folder'): string {
  if (text === '' || text === ROOT) return ROOT;
  const from = text.startsWith('/') ? 1 : 0;
  const until = text.endsWith('/') ? text.length - 1 : text.length;
  const inner = text.slice(from, until);
  for (const segment of inner.split('/')) {
    const problem = problemOf(segment);
    if (problem !== undefined) throw refused(path, `each level ${problem}`);
  }
  if (Buffer.byteLength(inner) >= MAX_PATH)
    throw refused(path, `must have at most ${MAX_PATH} bytes`);
  return `${inner}/`;
}

/** Folder and name together. @throws INVALID_NAME */
export function requirePathLength(folder: string, name: string): void {
  const path = folder === ROOT ? name : folder + name;
  if (Buffer.byteLength(path) > MAX_PATH)
    throw refused('name', `with its folder it must have at most ${MAX_PATH} bytes`);
}

/** Every level down to a folder: `a/`, `a/b/` for `a/b/`; none for the root. */
export function levelsOf(folder: string): readonly string[] {
  if (folder === ROOT) return [];
  const segments = folder.slice(0, -1).split('/');
  return segments.map((_segment, i) => `${segments.slice(0, i + 1).join('/')}/`);
}

/** The folder above: `a/` for `a/b/`, `/` for `a/`. */
export function parentOf(folder: string): string {
  const cut = folder.lastIndexOf('/', folder.length - 2);
  return cut === -1 ? ROOT : folder.slice(0, cut + 1);
}

/** A display name: any text of one line. @throws INVALID_NAME */
export function aliasOf(text: string): string {
  if (text.isWellFormed() && !hasControls(text) && Buffer.byteLength(text) <= MAX_SEGMENT)
    return text;
  throw refused('alias', `write one line of at most ${MAX_SEGMENT} bytes`);
}

const token = '[a-z0-9][a-z0-9!#$&^_.+-]{0,126}';
const mediaType = new RegExp(`^${token}/${token}$`);

/** A media type in its one form, without parameters, which change nothing about how files are served. @throws INVALID_MIME */
export function mediaTypeOf(text: string): string {
  const type = text.length > MAX_TYPE ? '' : (text.split(';', 1)[0] ?? '').trim().toLowerCase();
  if (mediaType.test(type)) return type;
  throw storageErrors.INVALID_MIME({
    errors: [{ path: 'mimeType', rule: 'format', message: 'write a type like image/png' }],
  });
}

/** Bytes of JSON. */
const MAX_METADATA = 4_096;

/** What an app keeps with a file. @throws INVALID_NAME */
export function metadataOf(value: unknown): unknown {
  if (value === undefined || Buffer.byteLength(JSON.stringify(value)) <= MAX_METADATA) return value;
  throw refused('metadata', `must have at most ${MAX_METADATA} bytes of JSON`);
}

/** `report (3).pdf` for a base of `report`, an end of `.pdf` and 3. */
export const suffixed = ({ base, end }: NameParts, n: number): string => {
  const suffix = ` (${n})${end}`;
  return shortenedTo(base, MAX_SEGMENT - Buffer.byteLength(suffix)) + suffix;
};

export interface NameParts {
  readonly base: string;
  /** From its last dot on; empty where there is none, or only one at the beginning. */
  readonly end: string;
}

export function partsOf(name: string): NameParts {
  const dot = name.lastIndexOf('.');
  return dot <= 0 ? { base: name, end: '' } : { base: name.slice(0, dot), end: name.slice(dot) };
}

/** Whole characters, at most so many bytes. */
function shortenedTo(text: string, bytes: number): string {
  if (Buffer.byteLength(text) <= bytes) return text;
  let kept = '';
  let size = 0;
  for (const character of text) {
    size += Buffer.byteLength(character);
    if (size > bytes) break;
    kept += character;
  }
  return kept;
}

const refused = (path: string, message: string) =>
  storageErrors.INVALID_NAME({
    message: `${path}: ${message}`,
    errors: [{ path, rule: 'name', message }],
  });
