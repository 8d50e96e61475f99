/**
 * TypeScript becomes what runs. Types become spaces, so that every line and column stays. Enums, namespaces and properties
 * among parameters are code: then the text is written anew, and carries a map at its end back to what was written.
 */
import { SourceMap, stripTypeScriptTypes } from 'node:module';
import type { SourceForm, UserError } from '../protocol.ts';
import { BODY_HEAD, BODY_TAIL, type Source } from './compile.ts';

/** Where something of the text that runs stands in the source as it was written; lines and columns from 1. */
export type PlaceOf = (line: number, column: number) => readonly [line: number, column: number];

const mapWord = '//# sourceMappingURL=data:application/json;base64,';

/** What the parser says of texts. With anything else it has broken down, as it does where a text is nested deeply. */
const refusals: ReadonlySet<unknown> = new Set([
  'ERR_INVALID_TYPESCRIPT_SYNTAX',
  'ERR_UNSUPPORTED_TYPESCRIPT_SYNTAX',
]);

let isBroken = false;

/** The parser has broken down once: its memory is not as it was, and it may take no text for good any more. */
export const isParserBroken = (): boolean => isBroken;

/** The parser had broken down before it was asked. */
export class NoParser extends Error {}

function strip(text: string, options?: Parameters<typeof stripTypeScriptTypes>[1]): string {
  if (isBroken) throw new NoParser();
  try {
    return stripTypeScriptTypes(text, options);
  } catch (error) {
    if (refusals.has((error as { code?: unknown }).code)) throw error;
    isBroken = true;
    throw new RangeError('The code is nested too deeply');
  }
}

/** Throws for what is no TypeScript, `RangeError` for what no parser reads, and `NoParser`. */
export function withoutTypes(code: string, form: SourceForm): string {
  const isBody = form === 'body';
  const whole = isBody ? BODY_HEAD + code + BODY_TAIL : code;
  try {
    const text = strip(whole);
    return isBody ? text.slice(BODY_HEAD.length, text.length - BODY_TAIL.length) : text;
  } catch (error) {
    if ((error as { code?: unknown }).code !== 'ERR_UNSUPPORTED_TYPESCRIPT_SYNTAX') throw error;
    return rewritten(whole, isBody);
  }
}

function rewritten(whole: string, isBody: boolean): string {
  const text = strip(whole, { mode: 'transform', sourceMap: true });
  if (!isBody) return text;
  // The head is a line of its own, and the tail the last one before the map.
  const begin = text.indexOf('\n') + 1;
  const mapAt = text.lastIndexOf(mapWord);
  return `${text.slice(begin, text.lastIndexOf('})', mapAt))}\n${text.slice(mapAt)}`;
}

/** Line, a few lines of the text, and a mark under the place: how the parser begins its stack. */
const parserPlace = /^[^\n]{0,200}:(\d{1,9})\n(?:[^\n]*\n){1,2}?( *)\^/;
const parserLine = /^[^\n]{0,200}:(\d{1,9})\n/;
/** It came to the end; `Expected ';', '}' or <eof>` is said of what is too much before it. */
const endWords = /got '<eof>'|^Unexpected eof/;

/** What the parser says, with its place in the source as it was written. */
export function errorOfTypeScript(error: unknown, form: SourceForm): UserError {
  const { name, message, stack = '' } = error as Error;
  if (name === 'RangeError') return { name, message };
  const head = stack.slice(0, 10_000);
  const [, line, indent] = parserPlace.exec(head) ?? [];
  const at = Number(line ?? parserLine.exec(head)?.[1]) - (form === 'body' ? 1 : 0);
  if (endWords.test(message))
    return { name: 'SyntaxError', message, line: Number.MAX_SAFE_INTEGER };
  return {
    ...{ name: 'SyntaxError', message: message.slice(0, 400) },
    ...(at >= 1 && { line: at, column: (indent?.length ?? 0) + 1 }),
  };
}

/** Maps that are kept: to read one of 500 KB takes 80 ms, and code that logs stacks asks for each line. */
const MAX_READ = 4;
const read = new Map<Source, PlaceOf | undefined>();

export function placesOf(source: Source): PlaceOf | undefined {
  if (!read.has(source)) read.set(source, placesIn(source.code, source.form));
  const [oldest] = read.keys();
  if (read.size > MAX_READ && oldest) read.delete(oldest);
  return read.get(source);
}

/** Of a text that carries its map; otherwise everything stands where it was written. */
function placesIn(text: string, form: SourceForm): PlaceOf | undefined {
  const at = text.lastIndexOf(mapWord);
  if (at < 0) return undefined;
  const json = Buffer.from(text.slice(at + mapWord.length), 'base64').toString('utf8');
  const map = readMap(json);
  if (!map) return undefined;
  const headLines = form === 'body' ? 1 : 0;
  return (line, column) => {
    const found = map.findEntry(line - 1 + headLines, column - 1);
    if (!('originalLine' in found)) return [line, column];
    return [found.originalLine + 1 - headLines, found.originalColumn + 1];
  };
}

/** Nothing keeps authors from a comment that looks like a map. */
function readMap(json: string): SourceMap | undefined {
  try {
    return new SourceMap(JSON.parse(json) as ConstructorParameters<typeof SourceMap>[0]);
  } catch {
    return undefined;
  }
}
