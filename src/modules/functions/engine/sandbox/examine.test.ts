import { expect, it } from 'vitest';
import { examine } from './examine.ts';

it.each([
  ['return {', 1, 9],
  ['const a = 1;\nreturn {\n\n', 2, 9],
  ['const a = 1;\nif (a) {\n  return 2;\n', 3, 12],
  ['return 1; }', 1, 12],
  ['return `abc', 1, 12],
])('names the end of the text when a body is not closed: %j', async (code, line, column) => {
  const { facts } = await examine(code, 'f.js');
  expect(facts.error).toEqual({
    ...{ name: 'SyntaxError', line, column },
    message: expect.stringContaining('Unexpected end of the code'),
  });
});

it('keeps the place of what is wrong within the text, and what the parser says of it', async () => {
  const { facts } = await examine("const a = 1;\nreturn 'abc", 'f.js');
  expect(facts.error).toMatchObject({ line: 2, column: 8, message: 'Invalid or unexpected token' });
});
