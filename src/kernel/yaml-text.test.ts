import fc from 'fast-check';
import { expect, it } from 'vitest';
import { parse } from 'yaml';
import { yamlText } from './yaml-text.ts';

const text = fc.oneof(
  fc.string({ unit: 'grapheme' }),
  fc.string({ unit: fc.constantFrom(' ', '\n', '\t') }),
  fc.string({ unit: fc.constantFrom('a', ' ', '\n', '\t', ':', '#', '-', '"', '\u2028', '\r') }),
);

it('is read as the value that was written, whatever texts consist of', () => {
  const { any } = fc.letrec((tie) => ({
    any: fc.oneof(
      { depthSize: 'small' },
      text,
      fc.jsonValue({ maxDepth: 1 }),
      fc.array(tie('any'), { maxLength: 3 }),
      fc.dictionary(text, tie('any'), { maxKeys: 3 }),
    ),
  }));
  const examples = [[[' \n']], ['\n a'], [[{ a: { b: ['\n \n', ' \t\n'] } }]]] as [unknown][];
  fc.assert(
    fc.property(any, (value) => {
      expect(JSON.stringify(parse(yamlText(value)))).toBe(JSON.stringify(value));
    }),
    { numRuns: 1_000, examples },
  );
});

it('writes lines as lines, and what is the same twice', () => {
  const same = { b: 1 };
  const long = 'word '.repeat(40).trim();
  expect(yamlText({ code: 'one\ntwo\n', long, x: same, y: same })).toBe(
    `code: |\n  one\n  two\nlong: ${long}\nx:\n  b: 1\ny:\n  b: 1\n`,
  );
});
