import { describe, expect, it } from 'vitest';
import { regexesOf } from './regexes.ts';

const textsOf = (source: string) =>
  regexesOf('a.ts', source).found.map(({ pattern, flags }) => `/${pattern}/${flags}`);

describe('the regular expressions of a file', () => {
  it('are its literals, wherever they stand', () => {
    expect(textsOf('const a = /x+/gi;\nf({ b: [/y/u] });')).toEqual(['/x+/gi', '/y/u']);
    expect(regexesOf('a.ts', '\n\nconst a = /x/;').found[0]).toMatchObject({
      path: 'a.ts',
      line: 3,
    });
  });

  it('are those that are made from constants', () => {
    expect(
      textsOf(
        `const name = String.raw\`\\w+\`; const all = \`(\${name})\`; new RegExp(\`^\${all}\\\\.\${name}$\`, 'g'); RegExp('a')`,
      ),
    ).toEqual(['/^(\\w+)\\.\\w+$/g', '/a/']);
  });

  it('are not those that are made at run time', () => {
    const { found, made } = regexesOf(
      'a.ts',
      `const f = (text: string) =>\n  new RegExp(text);\nlet x = 'a'; RegExp(x);`,
    );
    expect(found).toEqual([]);
    expect(made).toEqual(['a.ts:2', 'a.ts:3']);
  });
});
