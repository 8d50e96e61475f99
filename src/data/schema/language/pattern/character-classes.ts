/**
 * `\p{...}`: general categories of Unicode by their short names, and scripts. Their characters are those that
 * this Node knows. Both engines get them as plain ranges, so that they cannot disagree about a character.
 */
/* Sets of characters, by code point. */

/** Inclusive code point ranges. */
export interface CharSet {
  readonly ranges: readonly (readonly [number, number])[];
  readonly negated: boolean;
}

const digit: CharSet['ranges'] = [[48, 57]];
const word: CharSet['ranges'] = [...digit, [65, 90], [95, 95], [97, 122]];
/** What `\w` and `\b` take for a word: ASCII, as in JavaScript. */
export const wordCharacters: CharSet = { ranges: word, negated: false };
const space: CharSet['ranges'] = [
  [9, 13],
  [32, 32],
  [160, 160],
  [5760, 5760],
  [8192, 8202],
  [8232, 8233],
  [8239, 8239],
  [8287, 8287],
  [12288, 12288],
  [65279, 65279],
];
export const lineEnds: CharSet['ranges'] = [
  [10, 10],
  [13, 13],
  [8232, 8233],
];
/** What `\\d`, `\\w` and their like stand for. */
export const classes: ReadonlyMap<string, CharSet> = new Map([
  ['d', { ranges: digit, negated: false }],
  ['D', { ranges: digit, negated: true }],
  ['w', { ranges: word, negated: false }],
  ['W', { ranges: word, negated: true }],
  ['s', { ranges: space, negated: false }],
  ['S', { ranges: space, negated: true }],
]);
/** `\\t` and its like. */
export const controls: ReadonlyMap<string, number> = new Map([
  ['t', 9],
  ['n', 10],
  ['v', 11],
  ['f', 12],
  ['r', 13],
]);

/** The set of one character. */
export const one = (point: number): CharSet => ({ ranges: [[point, point]], negated: false });

/** The ranges that a set covers, with negation worked out. */
export function covered({ ranges, negated }: CharSet): CharSet['ranges'] {
  if (!negated) return ranges;
  const gaps: [number, number][] = [];
  let next = 0;
  for (const [from, to] of [...ranges].sort((a, b) => a[0] - b[0])) {
    if (from > next) gaps.push([next, from - 1]);
    next = Math.max(next, to + 1);
  }
  gaps.push([next, 0x10ffff]);
  return gaps;
}

const categories = [
  ...[
    'L',
    'Lu',
    'Ll',
    'Lt',
    'Lm',
    'Lo',
    'M',
    'Mn',
    'Mc',
    'Me',
    'N',
    'Nd',
    'Nl',
    'No',
    'Z',
    'Zs',
    'Zl',
    'Zp',
  ],
  ...['P', 'Pc', 'Pd', 'Ps', 'Pe', 'Pi', 'Pf', 'Po', 'S', 'Sm', 'Sc', 'Sk', 'So'],
];
const scripts = [
  ...[
    'Arabic',
    'Armenian',
    'Bengali',
    'Bopomofo',
    'Cyrillic',
    'Devanagari',
    'Ethiopic',
    'Georgian',
    'Greek',
    'Gujarati',
    'Gurmukhi',
  ],
  ...[
    'Han',
    'Hangul',
    'Hebrew',
    'Hiragana',
    'Kannada',
    'Katakana',
    'Khmer',
    'Lao',
    'Latin',
    'Malayalam',
    'Mongolian',
    'Myanmar',
  ],
  ...['Sinhala', 'Tamil', 'Telugu', 'Thai', 'Tibetan'],
];

/** How a name is spelled for the engine of this process. */
const properties: ReadonlyMap<string, string> = new Map([
  ...categories.map((name): readonly [string, string] => [name, name]),
  ...scripts.flatMap((name) =>
    [name, `Script=${name}`, `sc=${name}`].map((spelling): readonly [string, string] => [
      spelling,
      `Script=${name}`,
    ]),
  ),
]);

/** Planes 0 to 3 hold every letter, digit, mark and sign that Unicode has assigned. */
const LAST = 0x3ffff;
const [SURROGATES, AFTER_SURROGATES] = [0xd800, 0xe000];
const CHUNK = 0x1000;

function everyCharacter(): string {
  let text = '';
  for (let from = 0; from <= LAST; from += CHUNK) {
    if (from >= SURROGATES && from < AFTER_SURROGATES) continue;
    text += String.fromCodePoint(...Array.from({ length: CHUNK }, (_, i) => from + i));
  }
  return text;
}

/** Some milliseconds for the first, one or two for each further one, once in the life of the process. */
const known = new Map<string, CharSet['ranges']>();
let characters: string | undefined;

const isLowSurrogate = (unit: number): boolean => unit >= 0xdc00 && unit <= 0xdfff;

function runsOf(property: string): CharSet['ranges'] {
  characters ??= everyCharacter();
  const ranges: (readonly [number, number])[] = [];
  for (const [run] of characters.matchAll(new RegExp(`\\p{${property}}+`, 'gu'))) {
    const first = run.codePointAt(0) ?? 0;
    const last =
      run.codePointAt(run.length - (isLowSurrogate(run.charCodeAt(run.length - 1)) ? 2 : 1)) ??
      first;
    // The text has a gap where the surrogates are: a run across it is two ranges.
    if (first < SURROGATES && last >= AFTER_SURROGATES)
      ranges.push([first, SURROGATES - 1], [AFTER_SURROGATES, last]);
    else ranges.push([first, last]);
  }
  return ranges;
}

/** What `\p{name}` stands for; nothing when there is no such class here. */
export function unicodeClass(name: string): CharSet | undefined {
  const property = properties.get(name);
  if (property === undefined) return undefined;
  const ranges = known.get(property) ?? runsOf(property);
  known.set(property, ranges);
  return { ranges, negated: false };
}
