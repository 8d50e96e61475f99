/** Sets of characters, by code point. */

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
