/**
 * The pattern language of `validate.pattern` and `$regex`: the regular part of JavaScript's regular expressions
 * with the flag `u`. Whatever would need backtracking (references, lookaround) is refused. Reading takes time in
 * proportion to the text; what the pattern grows to is resolved by size.ts before anything is built from it.
 */

import {
  type CharSet,
  classes,
  controls,
  covered,
  lineEnds,
  one,
  unicodeClass,
} from './character-classes.ts';

export type Node =
  | { readonly kind: 'set'; readonly set: CharSet }
  | { readonly kind: 'start' | 'end' | 'boundary' | 'inside' }
  | { readonly kind: 'sequence' | 'choice'; readonly nodes: readonly Node[] }
  | { readonly kind: 'repeat'; readonly node: Node; readonly min: number; readonly max: number };

/** A pattern that this language does not have. The message is shown to whoever wrote it. */
export class PatternError extends Error {}

/** UTF-16 units of a pattern. */
const MAX_SOURCE = 500;
const MAX_NESTING = 32;
/** `\\p{...}` in one pattern: each may stand for some hundred ranges. */
const MAX_CLASSES = 8;

/** Where the reader is. */
interface Cursor {
  readonly text: readonly string[];
  at: number;
  depth: number;
  /** `\\p{...}` so far. */
  classes: number;
}

/** Reads a pattern. Throws `PatternError`. */
export function readPattern(source: string): Node {
  if (source.length > MAX_SOURCE)
    throw new PatternError(`a pattern has at most ${MAX_SOURCE} characters`);
  const cursor: Cursor = { text: Array.from(source), at: 0, depth: 0, classes: 0 };
  const node = choice(cursor);
  if (cursor.at < cursor.text.length) refuse(cursor, 'there is a ) without its (');
  return node;
}

function refuse(cursor: Cursor, message: string): never {
  throw new PatternError(`${message} (at character ${cursor.at + 1} of the pattern)`);
}

const peek = (cursor: Cursor): string | undefined => cursor.text[cursor.at];
const rest = (cursor: Cursor, count: number): string =>
  cursor.text.slice(cursor.at, cursor.at + count).join('');

/** Moves past `token` when it is next. */
function eat(cursor: Cursor, token: string): boolean {
  if (rest(cursor, token.length) !== token) return false;
  cursor.at += token.length;
  return true;
}

function choice(cursor: Cursor): Node {
  if (++cursor.depth > MAX_NESTING) refuse(cursor, 'groups are nested too deeply');
  const nodes = [sequence(cursor)];
  while (eat(cursor, '|')) nodes.push(sequence(cursor));
  cursor.depth--;
  const [only] = nodes;
  return nodes.length === 1 && only ? only : { kind: 'choice', nodes };
}

function sequence(cursor: Cursor): Node {
  const nodes: Node[] = [];
  while (cursor.at < cursor.text.length && peek(cursor) !== '|' && peek(cursor) !== ')')
    nodes.push(quantified(cursor));
  return { kind: 'sequence', nodes };
}

const quantifiers: ReadonlyMap<string | undefined, { readonly min: number; readonly max: number }> =
  new Map([
    ['*', { min: 0, max: Number.POSITIVE_INFINITY }],
    ['+', { min: 1, max: Number.POSITIVE_INFINITY }],
    ['?', { min: 0, max: 1 }],
  ]);

/** What stands between characters. */
const isPlace = ({ kind }: Node): boolean =>
  kind === 'start' || kind === 'end' || kind === 'boundary' || kind === 'inside';

function quantified(cursor: Cursor): Node {
  const node = atom(cursor);
  const bounds = quantifier(cursor);
  if (!bounds) return node;
  if (isPlace(node)) refuse(cursor, '^, $, \\b and \\B cannot be repeated');
  // Greedy or not changes what is found first, never whether something is found.
  eat(cursor, '?');
  if (quantifiers.has(peek(cursor))) refuse(cursor, 'nothing to repeat');
  return { kind: 'repeat', node, ...bounds };
}

function quantifier(cursor: Cursor): { readonly min: number; readonly max: number } | undefined {
  const simple = quantifiers.get(peek(cursor));
  if (simple) {
    cursor.at++;
    return simple;
  }
  return peek(cursor) === '{' ? repetition(cursor) : undefined;
}

/** `{2}`, `{2,}` or `{2,5}`. */
function repetition(cursor: Cursor): { readonly min: number; readonly max: number } {
  const found =
    /^\{(\d{1,4})(,(\d{1,4})?)?\}/.exec(rest(cursor, 12)) ??
    refuse(cursor, '{ must be a repetition such as {2,5}, or be written \\{');
  cursor.at += found[0].length;
  const min = Number(found[1]);
  const upper = found[3] === undefined ? Number.POSITIVE_INFINITY : Number(found[3]);
  const max = found[2] === undefined ? min : upper;
  if (max < min) refuse(cursor, 'the bounds of a repetition are in the wrong order');
  return { min, max };
}

function atom(cursor: Cursor): Node {
  const char = peek(cursor) ?? '';
  cursor.at++;
  switch (char) {
    case '^':
      return { kind: 'start' };
    case '$':
      return { kind: 'end' };
    case '.':
      return { kind: 'set', set: { ranges: lineEnds, negated: true } };
    case '(':
      return group(cursor);
    case '[':
      return { kind: 'set', set: bracket(cursor) };
    case '\\':
      if (eat(cursor, 'b')) return { kind: 'boundary' };
      if (eat(cursor, 'B')) return { kind: 'inside' };
      return { kind: 'set', set: escaped(cursor) };
    default:
      if ('*+?{}]'.includes(char)) refuse(cursor, `write \\${char} for the character itself`);
      return { kind: 'set', set: one(char.codePointAt(0) ?? 0) };
  }
}

function group(cursor: Cursor): Node {
  if (!eat(cursor, '?:') && peek(cursor) === '?') {
    refuse(cursor, 'only plain groups ( ) and (?: ) are supported: no lookaround, no named groups');
  }
  const inner = choice(cursor);
  if (!eat(cursor, ')')) refuse(cursor, 'a group is not closed');
  return inner;
}

function escaped(cursor: Cursor): CharSet {
  const char = peek(cursor) ?? refuse(cursor, 'the pattern ends in a backslash');
  cursor.at++;
  const known = classes.get(char);
  if (known) return known;
  const control = controls.get(char);
  if (control !== undefined) return one(control);
  if (char === 'p' || char === 'P') return property(cursor, char === 'P');
  if (char === 'x' || char === 'u') return one(codePoint(cursor, char));
  if (/[A-Za-z0-9]/.test(char)) refuse(cursor, `\\${char} is not supported`);
  return one(char.codePointAt(0) ?? 0);
}

function property(cursor: Cursor, negated: boolean): CharSet {
  const found =
    /^\{([A-Za-z=]{1,24})\}/.exec(rest(cursor, 26)) ??
    refuse(cursor, '\\p needs the name of a class, such as \\p{L}');
  if (++cursor.classes > MAX_CLASSES)
    refuse(cursor, `a pattern has at most ${MAX_CLASSES} of \\p{...}`);
  const set =
    unicodeClass(found[1] ?? '') ??
    refuse(cursor, `there is no class ${found[0]}: use a general category such as L, or a script`);
  cursor.at += found[0].length;
  return { ...set, negated };
}

function codePoint(cursor: Cursor, kind: 'x' | 'u'): number {
  const form = kind === 'x' ? /^([0-9a-f]{2})/i : /^(?:([0-9a-f]{4})|\{([0-9a-f]{1,6})\})/i;
  const found =
    form.exec(rest(cursor, 8)) ??
    refuse(cursor, `\\${kind} needs ${kind === 'x' ? 'two' : 'four'} hexadecimal digits`);
  cursor.at += found[0].length;
  const point = Number.parseInt(found[1] ?? found[2] ?? '', 16);
  return point > 0x10ffff ? refuse(cursor, 'there is no such character') : point;
}

function bracket(cursor: Cursor): CharSet {
  const negated = eat(cursor, '^');
  const ranges: (readonly [number, number])[] = [];
  while (peek(cursor) !== ']') {
    const from = member(cursor);
    const next = cursor.text[cursor.at + 1];
    if (peek(cursor) === '-' && next !== ']' && next !== undefined) {
      cursor.at++;
      ranges.push(span(cursor, from, member(cursor)));
    } else ranges.push(...covered(from));
  }
  cursor.at++;
  return { ranges, negated };
}

function span(cursor: Cursor, from: CharSet, to: CharSet): readonly [number, number] {
  const single = (set: CharSet): number | undefined => {
    const [range] = set.ranges;
    return !set.negated && set.ranges.length === 1 && range && range[0] === range[1]
      ? range[0]
      : undefined;
  };
  const low = single(from) ?? refuse(cursor, 'a range needs a character on both sides');
  const high = single(to) ?? refuse(cursor, 'a range needs a character on both sides');
  return low > high ? refuse(cursor, 'a range is in the wrong order') : [low, high];
}

function member(cursor: Cursor): CharSet {
  const char = peek(cursor) ?? refuse(cursor, 'a character class is not closed');
  if (char === '\\') {
    cursor.at++;
    return escaped(cursor);
  }
  cursor.at++;
  return one(char.codePointAt(0) ?? 0);
}
