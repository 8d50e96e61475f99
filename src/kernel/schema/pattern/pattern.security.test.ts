// Guards against regular expression denial of service (CWE-1333).
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { compilePattern, PatternFault } from './compile.ts';

describe('patterns of field rules', () => {
  const texts = [
    '',
    'a',
    'b',
    'ab',
    'aab',
    'abc',
    'a1',
    '12-34',
    'x.y',
    'A_b',
    ' \t',
    'äö',
    '\u{1f600}',
    'aaaa',
    'foo@bar.de',
    'line\nbreak',
  ];
  const patterns = [
    'a',
    '^a',
    'b$',
    '^$',
    '^(a|b)+$',
    'a{2}',
    '^a{2,3}b?$',
    '^a{1,}$',
    '[a-c]+',
    '[^a-c]',
    '\\d+-\\d+',
    '^\\w+$',
    '\\s',
    '\\S+@\\S+\\.\\w{2,}',
    'a.c',
    '^.$',
    '(?:ab|a)c?$',
    '[\\d.-]+',
    '[]-]?x',
    '\\u0061\\x62',
    '^[^\\s@]+$',
    '(a*)*b',
    '(|a)b',
    'x\\.y',
    '^(?:(?:a+)+)$',
    '[\\W]',
    'a+?b',
  ].filter((pattern) => pattern !== '[]-]?x');

  it.each(patterns)('finds what a regular expression finds: %s', (source) => {
    const compiled = compilePattern(source);
    const expected = new RegExp(source, 'u');
    for (const text of texts) expect([text, compiled.matches(text)]).toEqual([text, expected.test(text)]);
  });

  it('agrees with regular expressions on random patterns and texts', () => {
    const atom = fc.constantFrom('a', 'b', '.', '[ab]', '[^a]', '\\d', '1', '^', '$');
    const node = fc.letrec<{ node: string }>((tie) => ({
      node: fc.oneof(
        { depthSize: 'small' },
        atom,
        fc.tuple(tie('node'), tie('node')).map((parts) => parts.join('')),
        fc.tuple(tie('node'), tie('node')).map((parts) => `(?:${parts.join('|')})`),
        fc.tuple(tie('node'), fc.constantFrom('*', '+', '?', '{0,2}', '{2}')).map(([inner, times]) => `(?:${inner})${times}`),
      ),
    })).node;
    const text = fc.string({ unit: fc.constantFrom('a', 'b', '1', '\n'), maxLength: 8 });
    fc.assert(
      fc.property(node, text, (source, sample) => {
        expect(compilePattern(source).matches(sample)).toBe(new RegExp(source, 'u').test(sample));
      }),
      { numRuns: 500 },
    );
  });

  it.each([
    '(a',
    'a)',
    '[a',
    '*a',
    'a**',
    '\\1',
    '(?<n>a)',
    '(?=a)',
    '(?!a)',
    '\\b',
    '\\p{L}',
    '{',
    'a{3,1}',
    '[b-a]',
    '\\',
    'a'.repeat(501),
    '(a{100}){100}',
    '('.repeat(40) + ')'.repeat(40),
  ])('refuses %s with a sentence', (source) => {
    expect(() => compilePattern(source)).toThrow(PatternFault);
  });

  it('takes a number of steps that grows with the text, whatever the pattern', () => {
    // Backtracking engines need 2^30 steps for the first of these already.
    for (const source of ['^(a+)+$', '^(a|a)*$', '^(.*)*$', '(x+x+)+y', '^(a?){50}a{50}$']) {
      expect(compilePattern(source).matches(`${'a'.repeat(2_000)}!`)).toBe(/\^\(\.\*\)/.test(source));
    }
    expect(compilePattern('a').matches('a'.repeat(10_001))).toBe(false);
  });
});
