/**
 * Which type a content has, by its first bytes: what a sender says is a hint where the bytes leave it open, and nothing
 * where they do not. Markup that a browser would run is found also where it is called something else (WHATWG, "MIME
 * Sniffing"; CWE-434).
 */
import { isAscii } from 'node:buffer';
import { storageErrors } from '../errors.ts';
import { mediaTypeOf } from '../names.ts';
import type { ContainerRow } from '../queries/containers.ts';

/** Bytes that are looked at. */
const LOOKED_AT = 4_096;
const UNKNOWN = 'application/octet-stream';

/** Types that only the end of a name tells apart, all of them text. */
const byEnding = new Map([
  ['txt', 'text/plain'],
  ['csv', 'text/csv'],
  ['md', 'text/markdown'],
  ['css', 'text/css'],
  ['js', 'text/javascript'],
  ['mjs', 'text/javascript'],
  ['json', 'application/json'],
  ['yaml', 'application/yaml'],
  ['yml', 'application/yaml'],
  ['xml', 'application/xml'],
  ['html', 'text/html'],
  ['htm', 'text/html'],
  ['svg', 'image/svg+xml'],
]);

/** What the first bytes look like, where more than one type begins so, and the beginnings of the types that do. */
const families = new Map<string, readonly string[]>([
  [
    'application/zip',
    [
      'application/vnd.openxmlformats-officedocument.',
      'application/vnd.oasis.opendocument.',
      'application/epub+zip',
      'application/java-archive',
      'application/vnd.android.package-archive',
      'application/x-zip',
    ],
  ],
  ['application/x-cfb', ['application/msword', 'application/vnd.ms-', 'application/x-msi']],
  ['application/gzip', ['application/x-gzip', 'application/x-tar', 'application/x-compressed-tar']],
  ['application/xml', ['text/xml', 'application/']],
  ['video/mp4', ['audio/mp4', 'audio/x-m4a']],
  ['video/webm', ['audio/webm']],
  ['audio/ogg', ['video/ogg', 'application/ogg']],
]);

/** Types that are known by their bytes: whoever says them without those is wrong. */
const provable = /^(?:image|audio|video|font)\/|^application\/(?:pdf|zip|gzip|x-gzip)$/;
const textual =
  /^text\/|^application\/(?:[\w.-]+\+)?(?:json|xml|yaml|javascript|x-ndjson|sql|toml|graphql)$|^message\//;

/**
 * The media type of a content, lower case and without parameters.
 * @param firstBytes as many as there are, at most 4,096 of them count
 * @param hint what the sender says; throws INVALID_MIME when it is no type
 */
export async function sniffContentType(
  firstBytes: Uint8Array,
  name: string,
  hint: string | undefined,
): Promise<string> {
  const said = hint === undefined || hint === '' ? undefined : mediaTypeOf(hint);
  const declared = said === UNKNOWN ? undefined : said;
  const ending = byEnding.get(name.slice(name.lastIndexOf('.') + 1).toLowerCase());
  const head = firstBytes.subarray(0, LOOKED_AT);
  if (head.length === 0) return declared ?? ending ?? UNKNOWN;
  const text = textOf(head);
  if (text !== undefined) return textType(text, declared ?? ending);
  // Known by its bytes; the library is large, and most platforms keep few files.
  const { fileTypeFromBuffer } = await import('file-type');
  const found = (await fileTypeFromBuffer(head))?.mime.split(';', 1)[0];
  if (found !== undefined) return isOfFamily(found, declared) ? declared : found;
  return declared === undefined || provable.test(declared) || textual.test(declared)
    ? UNKNOWN
    : declared;
}

function isOfFamily(found: string, declared: string | undefined): declared is string {
  return (
    declared !== undefined && (families.get(found) ?? []).some((type) => declared.startsWith(type))
  );
}

/** The beginning as text; undefined where it is none. A character that is cut off at the end counts. */
function textOf(head: Uint8Array): string | undefined {
  if (isAscii(head)) {
    const text = Buffer.from(head.buffer, head.byteOffset, head.length).toString('latin1');
    return hasControls(text) ? undefined : text;
  }
  const encoding = encodingOf(head);
  try {
    const text = new TextDecoder(encoding, { fatal: true }).decode(head, { stream: true });
    return hasControls(text) ? undefined : text;
  } catch {
    return undefined;
  }
}

function encodingOf([first, second]: Uint8Array): string {
  if (first === 0xff && second === 0xfe) return 'utf-16le';
  return first === 0xfe && second === 0xff ? 'utf-16be' : 'utf-8';
}

/** Signs that no text has: all of C0 but tab, line ends, form feed and escape. */
function hasControls(text: string): boolean {
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (code < 0x20 && !(code >= 9 && code <= 13) && code !== 0x1b) return true;
  }
  return false;
}

/** Elements by which a page may begin. */
const pageStart =
  /^<(?:!doctype html|html|head|body|script|iframe|style|title|h1|div|font|table|a|b|br|p|meta|link|img|form|object|embed)(?=[\s/>]|$)/i;

function textType(text: string, declared: string | undefined): string {
  const markup = afterProlog(text);
  if (/^<svg(?=[\s/>:]|$)/i.test(markup) || /^<!doctype svg/i.test(markup)) return 'image/svg+xml';
  if (pageStart.test(markup)) return declared === 'application/xhtml+xml' ? declared : 'text/html';
  if (text.startsWith('%PDF-')) return 'application/pdf';
  if (text.trimStart().startsWith('<?xml'))
    return declared !== undefined && textual.test(declared) ? declared : 'application/xml';
  return declared !== undefined && textual.test(declared) ? declared : 'text/plain';
}

/** What comes after spaces, comments and the XML declaration: those may stand before any page. */
function afterProlog(text: string): string {
  let rest = text.trimStart();
  for (;;) {
    const end = rest.startsWith('<!--') ? '-->' : rest.startsWith('<?') ? '?>' : undefined;
    if (end === undefined) return rest;
    const at = rest.indexOf(end);
    if (at < 0) return rest;
    rest = rest.slice(at + end.length).trimStart();
  }
}

/* Whether the container takes it. */

type Allowing = Pick<ContainerRow, 'allowedMimeTypes'>;

/** Throws UNSUPPORTED_TYPE. */
export async function contentTypeOf(
  head: Buffer,
  name: string,
  hint: string | undefined,
  container: Allowing,
): Promise<string> {
  const type = await sniffContentType(head, name, hint);
  requireAllowed(type, container);
  return type;
}

/** Throws UNSUPPORTED_TYPE. */
export function requireAllowed(type: string, { allowedMimeTypes }: Allowing): void {
  if (allowedMimeTypes === null || allowedMimeTypes.some((one) => covers(one, type))) return;
  throw storageErrors.UNSUPPORTED_TYPE({ message: `The container does not take ${type}` });
}

/** `image/*` covers all images. */
const covers = (pattern: string, type: string): boolean =>
  pattern === '*/*' ||
  pattern === type ||
  (pattern.endsWith('/*') && type.startsWith(pattern.slice(0, -1)));
