import { describe, expect, it } from 'vitest';
import { parseSourceFile } from './imports.ts';
import { checkNames, checkSizes, MAX_FUNCTION_LINES } from './shape.ts';

const messages = (path: string, text: string): string[] =>
  [checkNames, checkSizes]
    .flatMap((check) => check(parseSourceFile(path, text)))
    .map(({ message }) => message);

describe('retired words', () => {
  it.each([
    ['src/data/request-desk.ts', ''],
    ['src/data/records.ts', 'export const deskOf = 1;'],
    ['src/data/records.ts', 'interface Shown { readonly lingerMs: number }'],
    ['src/data/records.ts', 'const { clash } = conflicts;'],
    ['src/data/records.ts', 'const fileWish = wantedOf(isSettled, faulty);'],
    ['src/data/records.test-support.ts', 'class Follower { #census = 1; }'],
  ])('are refused in %s: %s', (path, text) => {
    expect(messages(path, text)).not.toEqual([]);
  });

  it('stay in codes that clients know, in texts and inside of other words', () => {
    const text =
      'throw errors.NOTHING_OWED({ message: "owed" }); const desktop = Promise.allSettled(insight);';
    expect(messages('src/modules/chat/rooms.ts', text)).toEqual([]);
  });
});

describe('the length of functions', () => {
  const lines = (count: number): string => 'work();\n'.repeat(count);

  it('counts a factory with its closures', () => {
    const text = `export function create() {\n${lines(20)}return { a: () => {\n${lines(40)}} };\n}`;
    expect(messages('src/host/a.ts', text)).toEqual([
      expect.stringContaining('create has 64 lines'),
    ]);
  });

  it('counts neither blank lines nor comments', () => {
    const comment = `/*\n${'why\n'.repeat(50)}*/\n// more\n\n\n`;
    const body = `${lines(MAX_FUNCTION_LINES - 2)}${comment}`;
    expect(messages('src/host/a.ts', `const run = () => {\n${body}}`)).toEqual([]);
    expect(messages('src/host/a.ts', `const run = () => {\n${body}more();\n}`)).toEqual([
      expect.stringContaining('run has 61 lines'),
    ]);
  });

  it('leaves tests alone', () => {
    expect(messages('src/host/a.test.ts', `it('x', () => {\n${lines(100)}});`)).toEqual([]);
  });
});
