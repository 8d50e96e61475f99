/**
 * The pattern language of the schema language, written as a pattern of PostgreSQL. It is built anew from
 * the parsed pattern, so that nothing of the input reaches the other dialect, and every set of
 * characters means the same on both sides.
 */
import { LRUCache } from 'lru-cache';
import { type CharSet, wordCharacters } from '../../schema/pattern/char-set.ts';
import { sizeOf } from '../../schema/pattern/size.ts';
import { type Node, PatternFault, readPattern } from '../../schema/pattern/syntax.ts';
import { requireLight } from './pattern-weight.ts';

/** PostgreSQL's limit of `{m,n}`. */
const MAX_REPEAT = 255;

/** Applications ask with the same few patterns. */
const translated = new LRUCache<string, string>({ max: 500, maxSize: 4_000_000, sizeCalculation: (text) => text.length });

/** Throws `PatternFault`. */
export function postgresPattern(source: string): string {
  const known = translated.get(source);
  if (known !== undefined) return known;
  const node = readPattern(source);
  // Nothing is written out before it is known to be small.
  sizeOf(node);
  requireLight(node);
  const pattern = `***:${written(node)}`;
  translated.set(source, pattern);
  return pattern;
}

function written(node: Node): string {
  switch (node.kind) {
    case 'start':
      return '^';
    case 'end':
      return '$';
    case 'boundary':
      return BOUNDARY;
    case 'inside':
      return INSIDE;
    case 'set':
      return bracket(node.set);
    case 'sequence':
      return node.nodes.map(written).join('');
    case 'choice':
      return `(?:${node.nodes.map(written).join('|')})`;
    case 'repeat':
      return repeated(node);
  }
}

function repeated({ node, min, max }: Extract<Node, { readonly kind: 'repeat' }>): string {
  const unbounded = max === Number.POSITIVE_INFINITY;
  if (min > MAX_REPEAT || (!unbounded && max > MAX_REPEAT)) throw new PatternFault(`a repetition is at most ${MAX_REPEAT} here`);
  const bounds = unbounded ? `{${min},}` : `{${min},${max}}`;
  return `(?:${written(node)})${bounds}`;
}

/** PostgreSQL's text has no NUL, and nothing beyond Unicode. */
function bracket({ ranges, negated }: CharSet): string {
  const parts = ranges.filter(([, to]) => to > 0).map(([from, to]) => `${escaped(Math.max(1, from))}-${escaped(to)}`);
  if (parts.length > 0) return `[${negated ? '^' : ''}${parts.join('')}]`;
  // Every character, or none.
  return negated ? `[${escaped(1)}-${escaped(0x10ffff)}]` : `[^${escaped(1)}-${escaped(0x10ffff)}]`;
}

const escaped = (point: number): string => `\\U${point.toString(16).padStart(8, '0')}`;

/** PostgreSQL's own `\y` asks the locale what a letter is. */
const WORD = bracket(wordCharacters);
const BOUNDARY = `(?:(?<!${WORD})(?=${WORD})|(?<=${WORD})(?!${WORD}))`;
const INSIDE = `(?:(?<!${WORD})(?!${WORD})|(?<=${WORD})(?=${WORD}))`;
