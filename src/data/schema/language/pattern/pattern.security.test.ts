// Guards against regular expression denial of service (CWE-1333).
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { onAccount, RequestAccount } from '../../../../kernel/request-account/request-account.ts';
import { postgresPattern } from '../../../records/filter/postgres-pattern.ts';
import { compilePattern } from './compile.ts';
import { PatternError } from './syntax.ts';

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
    '\\u0061\\x62',
    '^[^\\s@]+$',
    '(a*)*b',
    '(|a)b',
    'x\\.y',
    '^(?:(?:a+)+)$',
    '[\\W]',
    'a+?b',
    '\\p{L}+',
    '^[\\p{Lu}\\d]',
    '[^\\p{L}\\s]',
    '\\P{L}',
    '\\p{Script=Latin}{2}',
    '\\bb',
    'a\\b',
    '\\Bb',
    '[]a',
    '[^]b',
  ];

  it.each(patterns)('finds what a regular expression finds: %s', (source) => {
    const compiled = compilePattern(source);
    const expected = new RegExp(source, 'u');
    for (const text of texts)
      expect([text, compiled.matches(text)]).toEqual([text, expected.test(text)]);
  });

  it('agrees with regular expressions on random patterns and texts', () => {
    const atom = fc.constantFrom(
      'a',
      'b',
      '.',
      '[ab]',
      '[^a]',
      '\\d',
      '1',
      '^',
      '$',
      '\\b',
      '\\B',
      '\\p{L}',
      '[^\\p{Lu}a]',
    );
    const node = fc.letrec<{ node: string }>((tie) => ({
      node: fc.oneof(
        { depthSize: 'small' },
        atom,
        fc.tuple(tie('node'), tie('node')).map((parts) => parts.join('')),
        fc.tuple(tie('node'), tie('node')).map((parts) => `(?:${parts.join('|')})`),
        fc
          .tuple(tie('node'), fc.constantFrom('*', '+', '?', '{0,2}', '{2}'))
          .map(([inner, times]) => `(?:${inner})${times}`),
      ),
    })).node;
    const text = fc.string({
      unit: fc.constantFrom('a', 'b', '1', '\n', 'Ä', ' ', '☃'),
      maxLength: 8,
    });
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
    '\\b+',
    '\\p{Nonsense}',
    '\\p{__proto__}',
    '\\p',
    '\\p{L}'.repeat(9),
    '(?:(?:(?:){9999}){9999}){9999}',
    '(?:(?:){9999}){9999}',
    '(?:(?:){9999}){3}',
    '(?:^|$){9999}',
    '(?:(?:a{9999}){9999}){9999}',
    '{',
    'a{3,1}',
    '[b-a]',
    '\\',
    'a'.repeat(501),
    '(a{100}){100}',
    '('.repeat(40) + ')'.repeat(40),
  ])('refuses %s with a sentence', (source) => {
    expect(() => compilePattern(source)).toThrow(PatternError);
  });

  it('takes a number of steps that grows with the text, whatever the pattern', () => {
    // Backtracking engines need 2^30 steps for the first of these already.
    for (const source of ['^(a+)+$', '^(a|a)*$', '^(.*)*$', '(x+x+)+y', '^(a?){50}a{50}$']) {
      expect(compilePattern(source).matches(`${'a'.repeat(2_000)}!`)).toBe(
        /\^\(\.\*\)/.test(source),
      );
    }
    expect(compilePattern('a').matches('a'.repeat(10_001))).toBe(false);
  });

  it('looks at shorter texts where the pattern is larger', () => {
    const large = compilePattern('(?:a|b){200}');
    expect(large.maxText).toBeLessThan(compilePattern('ab').maxText);
    expect(large.matches('a'.repeat(large.maxText))).toBe(true);
    expect(large.matches('a'.repeat(large.maxText + 1))).toBe(false);
  });

  it('compiles or refuses any 500 characters with bounded work, for both engines', () => {
    const hostile = fc.oneof(
      fc.string({ maxLength: 500 }),
      fc.string({ unit: fc.constantFrom(...'(:?)[^]{}|*+9,\\pPLbBduxw-a.$'), maxLength: 500 }),
      // Nested repetitions of anything, empty groups among them.
      fc
        .tuple(
          fc.constantFrom('', 'a', '^', '(?:)', '\\p{L}', '[^]', '|'),
          fc.array(fc.constantFrom('{9999}', '{999}', '{2,}', '*', '?', '{0,31}')),
        )
        .map(([inner, marks]) =>
          marks.reduce<string>((text, mark) => `(?:${text})${mark}`, inner).slice(0, 500),
        ),
    );
    const outcome = (work: () => unknown): unknown => {
      try {
        return work();
      } catch (error) {
        if (error instanceof PatternError) return error;
        throw error;
      }
    };
    fc.assert(
      fc.property(hostile, (source) => {
        const begin = process.cpuUsage();
        const compiled = outcome(() => compilePattern(source));
        outcome(() => postgresPattern(source));
        if (!(compiled instanceof PatternError)) Object(compiled).matches('ab1'.repeat(600));
        const { user, system } = process.cpuUsage(begin);
        // The hand-written compiler needed minutes; microseconds of the processor, so that a busy machine fails nothing.
        expect(user + system).toBeLessThan(1_500_000);
      }),
      { numRuns: 2_000 },
    );
  });

  it('ends a request that makes automata work for all its text', () => {
    const pattern = compilePattern('^(?:a|b)*a(?:a|b){60}$');
    const account = new RequestAccount({
      milliseconds: 30_000,
      bytesIn: 1_000,
      bytesOut: 1_000,
      statements: 1,
      lockedRows: 1,
      outboundCalls: 1,
    });
    const matchOften = (times: number) =>
      onAccount(account, () =>
        Array.from({ length: times }, () => pattern.matches('ab'.repeat(50))),
      );
    expect(() => matchOften(2)).not.toThrow();
    expect(() => matchOften(1_000)).toThrow(expect.objectContaining({ status: 400 }));
    // The platform's own work has no budget.
    expect(Array.from({ length: 1_000 }, () => pattern.matches('ab')).length).toBe(1_000);
  });
});
