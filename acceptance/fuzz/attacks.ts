/** What reviewers stopped the process with, and its relatives: small to send, dear to answer (CWE-400, CWE-1333). */
import fc from 'fast-check';

const nested = (levels: number, wrap: (inner: unknown) => unknown): unknown =>
  Array.from({ length: levels }).reduce<unknown>((inner) => wrap(inner), 'end');
const letters = (part: string, length = 8_190): string =>
  part.repeat(Math.ceil(length / part.length)).slice(0, length);

const patterns: readonly string[] = [
  '(?:(?:(?:){9999}){9999}){9999}',
  '(?:(?:){9999}){9999}',
  '(?:(?:(?:a?){99}){99}){99}',
  '(?:(?:|(?:^)){0,9}(?:$)*)+',
  '(.?.?.?.?.?.?.?.?.?){0,30}zz',
  '^(a+)+$',
  '(?:\\b|\\B|a){400}',
  '\\p{L}'.repeat(80),
  `${'('.repeat(200)}${')'.repeat(200)}`,
];

/** Long texts that expressions with two ways to read them take the square of. */
const longTexts: readonly string[] = [
  'a',
  'eyJ-',
  '://a:',
  '=(',
  ': "',
  ' ',
  '/',
  '0',
  '%',
  '-',
  "'",
  '{{',
  'e\u0301',
  '\ufdfa',
  ',',
  '[',
  '\t',
].map((part) => letters(part));

export const attackTexts: readonly string[] = [...patterns, ...longTexts];

export const attackValues: readonly unknown[] = [
  nested(60, (inner) => [inner]),
  nested(60, (inner) => ({ inner })),
  nested(2_000, (inner) => ({ inner })),
  nested(12, (inner) => ({
    $or: [inner, inner].slice(0, 1),
    $and: [{ a: { $regex: patterns[0] } }],
  })),
  Object.fromEntries(Array.from({ length: 5_000 }, (_, i) => [`key${i}`, i])),
  Array.from({ length: 20_000 }, () => []),
  Array.from({ length: 100 }, () => letters('a')),
  { $regex: patterns[0] },
  { $in: Array.from({ length: 5_000 }, (_, i) => i) },
  { $ilike: '%a'.repeat(4_000) },
  Array.from({ length: 10 }, () => ({ $ref: '0.data' })),
];

const attack: fc.Arbitrary<unknown> = fc.oneof(
  fc.constantFrom(...attackTexts),
  fc.constantFrom(...attackValues),
);

/** The value with something of the corpus in place of one of its parts, or of itself. */
export const attacked = (values: fc.Arbitrary<unknown>): fc.Arbitrary<unknown> =>
  fc.tuple(values, attack, fc.nat()).map(([value, bad, at]) => {
    const names =
      typeof value === 'object' && value !== null && !Array.isArray(value)
        ? Object.keys(value)
        : [];
    const name = names[at % Math.max(1, names.length)];
    return name === undefined ? bad : { ...(value as object), [name]: bad };
  });

/** Headers that something reads on every request. */
export const attackHeaders: fc.Arbitrary<Readonly<Record<string, string>>> = fc.oneof(
  { weight: 6, arbitrary: fc.constant({}) },
  {
    weight: 1,
    arbitrary: fc
      .constantFrom(...longTexts.filter((text) => /^[\t\x20-\x7e]*$/.test(text)))
      .map((text) => ({ 'user-agent': text })),
  },
  {
    weight: 1,
    arbitrary: fc.constant({
      cookie: letters('a=b;'),
      accept: letters('a/b;q=0.1,', 4_000),
      'if-match': letters('"1",', 2_000),
    }),
  },
);
