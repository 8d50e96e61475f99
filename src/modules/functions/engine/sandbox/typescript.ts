/**
 * TypeScript becomes what runs. Types become spaces, so that every line and column stays. Enums, namespaces and properties
 * among parameters are code: then the text is written anew, and carries a map at its end back to what was written.
 */
import { SourceMap, stripTypeScriptTypes } from 'node:module';
import type { SourceForm, UserError } from '../protocol.ts';
import { BODY_HEAD, BODY_TAIL } from './compile.ts';

/** Where something of the text that runs stands in the source as it was written; lines and columns from 1. */
export type PlaceOf = (line: number, column: number) => readonly [line: number, column: number];

const mapWord = '//# sourceMappingURL=data:application/json;base64,';

/** Throws for what is no TypeScript. */
export function withoutTypes(code: string, form: SourceForm): string {
  const isBody = form === 'body';
  const whole = isBody ? BODY_HEAD + code + BODY_TAIL : code;
  try {
    const text = stripTypeScriptTypes(whole);
    return isBody ? text.slice(BODY_HEAD.length, text.length - BODY_TAIL.length) : text;
  } catch (error) {
    if ((error as { code?: unknown }).code !== 'ERR_UNSUPPORTED_TYPESCRIPT_SYNTAX') throw error;
    return rewritten(whole, isBody);
  }
}

function rewritten(whole: string, isBody: boolean): string {
  const text = stripTypeScriptTypes(whole, { mode: 'transform', sourceMap: true });
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
  const { message, stack = '' } = error as Error;
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

/** Of a text that carries its map; otherwise everything stands where it was written. */
export function placesIn(text: string, form: SourceForm): PlaceOf | undefined {
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
