/**
 * The pattern language of the schema language, written as a pattern of PostgreSQL. It is built anew from
 * the parsed pattern, so that nothing of the input reaches the other dialect, and every set of
 * characters means the same on both sides.
 */
import { LRUCache } from 'lru-cache';
import { type CharSet, wordCharacters } from '../../schema/language/pattern/character-classes.ts';
import { sizeOf } from '../../schema/language/pattern/compile.ts';
import { type Node, PatternError, readPattern } from '../../schema/language/pattern/syntax.ts';

/*
 * What PostgreSQL would have to do before it looks at the first text. It writes repetitions out, and then joins every
 * two places between which nothing has to stand: time and memory grow with the square of the parts that may be
 * missing, and faster with assertions (`^`, `$`, `\b`) among them. Measured on PostgreSQL 18: 200 such parts in a row
 * take 130 ms, 500 take a second; 120 repeated boundaries take five seconds; a loop of assertions takes minutes.
 */

const MAX_SKIPS = 150;
/** Each becomes two lookarounds. */
const MAX_BOUNDARIES = 8;
const MAX_REPEATED_ASSERTIONS = 8;

interface Weight {
  /** Parts that may be missing, written out. */
  readonly skips: number;
  /** `\b` and `\B`, written out. */
  readonly boundaries: number;
  readonly assertions: number;
  /** Assertions within repetitions, written out. */
  readonly repeated: number;
  /** True when it can be found without any character. */
  readonly empty: boolean;
}

const nothing: Weight = { skips: 0, boundaries: 0, assertions: 0, repeated: 0, empty: true };

/** Throws `PatternError`. */
function requireLight(root: Node): void {
  const { skips, boundaries, repeated: repeatedWeight } = weighed(root);
  if (skips > MAX_SKIPS)
    throw new PatternError(
      'the pattern has too many parts that may be missing: use smaller repetitions of them',
    );
  if (boundaries > MAX_BOUNDARIES)
    throw new PatternError(
      `the pattern has more than ${MAX_BOUNDARIES} of \\b and \\B, repetitions included`,
    );
  if (repeatedWeight > MAX_REPEATED_ASSERTIONS)
    throw new PatternError('^, $, \\b and \\B are repeated too often here');
}

function weighed(node: Node): Weight {
  switch (node.kind) {
    case 'set':
      return { ...nothing, empty: false };
    case 'start':
    case 'end':
      return { ...nothing, skips: 2, assertions: 1 };
    case 'boundary':
    case 'inside':
      return { ...nothing, skips: 2, assertions: 1, boundaries: 1 };
    case 'sequence':
      return together(node.nodes, (parts) => parts.every(({ empty }) => empty));
    case 'choice':
      return together(node.nodes, (parts) => parts.some(({ empty }) => empty));
    case 'repeat':
      return repeatedWeight(weighed(node.node), node);
  }
}

function together(nodes: readonly Node[], empty: (parts: readonly Weight[]) => boolean): Weight {
  const parts = nodes.map(weighed);
  const sum = (of: (part: Weight) => number): number =>
    parts.reduce((all, part) => all + of(part), 0);
  return {
    skips: sum(({ skips }) => skips),
    boundaries: sum(({ boundaries }) => boundaries),
    assertions: sum(({ assertions }) => assertions),
    repeated: sum((part) => part.repeated),
    empty: empty(parts),
  };
}

function repeatedWeight(
  once: Weight,
  { min, max }: { readonly min: number; readonly max: number },
): Weight {
  const unbounded = max === Number.POSITIVE_INFINITY;
  if (unbounded && once.empty && once.assertions > 0) {
    throw new PatternError(
      '^, $, \\b and \\B cannot be repeated together with what may be missing',
    );
  }
  const copies = unbounded ? min + 1 : max;
  // `x{0,n}` is written as one inside the other, which leaves a single way around all of them.
  const around = once.empty ? copies * Math.max(1, once.skips) : copies * once.skips;
  return {
    skips: around + (min === 0 ? 1 : 0),
    boundaries: copies * once.boundaries,
    assertions: copies * once.assertions,
    repeated: copies * once.assertions,
    empty: min === 0 || once.empty,
  };
}

/** PostgreSQL's limit of `{m,n}`. */
const MAX_REPEAT = 255;

/** Applications ask with the same few patterns. */
const translated = new LRUCache<string, string>({
  max: 500,
  maxSize: 4_000_000,
  sizeCalculation: (text) => text.length,
});

/** Throws `PatternError`. */
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
  if (min > MAX_REPEAT || (!unbounded && max > MAX_REPEAT))
    throw new PatternError(`a repetition is at most ${MAX_REPEAT} here`);
  const bounds = unbounded ? `{${min},}` : `{${min},${max}}`;
  return `(?:${written(node)})${bounds}`;
}

/** PostgreSQL's text has no NUL, and nothing beyond Unicode. */
function bracket({ ranges, negated }: CharSet): string {
  const parts = ranges
    .filter(([, to]) => to > 0)
    .map(([from, to]) => `${escaped(Math.max(1, from))}-${escaped(to)}`);
  if (parts.length > 0) return `[${negated ? '^' : ''}${parts.join('')}]`;
  // Every character, or none.
  return negated ? `[${escaped(1)}-${escaped(0x10ffff)}]` : `[^${escaped(1)}-${escaped(0x10ffff)}]`;
}

const escaped = (point: number): string => `\\U${point.toString(16).padStart(8, '0')}`;

/** PostgreSQL's own `\y` asks the locale what a letter is. */
const WORD = bracket(wordCharacters);
const BOUNDARY = `(?:(?<!${WORD})(?=${WORD})|(?<=${WORD})(?!${WORD}))`;
const INSIDE = `(?:(?<!${WORD})(?!${WORD})|(?<=${WORD})(?=${WORD}))`;
