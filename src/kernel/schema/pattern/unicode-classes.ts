/**
 * `\p{...}`: general categories of Unicode by their short names, and scripts. Their characters are those that
 * this Node knows. Both engines get them as plain ranges, so that they cannot disagree about a character.
 */
import type { CharSet } from './char-set.ts';

const categories = [
  ...['L', 'Lu', 'Ll', 'Lt', 'Lm', 'Lo', 'M', 'Mn', 'Mc', 'Me', 'N', 'Nd', 'Nl', 'No', 'Z', 'Zs', 'Zl', 'Zp'],
  ...['P', 'Pc', 'Pd', 'Ps', 'Pe', 'Pi', 'Pf', 'Po', 'S', 'Sm', 'Sc', 'Sk', 'So'],
];
const scripts = [
  ...['Arabic', 'Armenian', 'Bengali', 'Bopomofo', 'Cyrillic', 'Devanagari', 'Ethiopic', 'Georgian', 'Greek', 'Gujarati', 'Gurmukhi'],
  ...['Han', 'Hangul', 'Hebrew', 'Hiragana', 'Kannada', 'Katakana', 'Khmer', 'Lao', 'Latin', 'Malayalam', 'Mongolian', 'Myanmar'],
  ...['Sinhala', 'Tamil', 'Telugu', 'Thai', 'Tibetan'],
];

/** How a name is spelled for the engine of this process. */
const properties: ReadonlyMap<string, string> = new Map([
  ...categories.map((name): readonly [string, string] => [name, name]),
  ...scripts.flatMap((name) =>
    [name, `Script=${name}`, `sc=${name}`].map((spelling): readonly [string, string] => [spelling, `Script=${name}`]),
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
    const last = run.codePointAt(run.length - (isLowSurrogate(run.charCodeAt(run.length - 1)) ? 2 : 1)) ?? first;
    // The text has a gap where the surrogates are: a run across it is two ranges.
    if (first < SURROGATES && last >= AFTER_SURROGATES) ranges.push([first, SURROGATES - 1], [AFTER_SURROGATES, last]);
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
