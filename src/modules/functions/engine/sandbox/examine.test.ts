import { expect, it } from 'vitest';
import type { Source } from './compile.ts';
import { examine } from './examine.ts';
import { placesOf } from './typescript.ts';

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

it.each([
  ['interface A { a: string }\nconst x: number = ;\nreturn x', 2, 19],
  ['interface A { a: string }\nexport default (x: A) => {\n  const y: number = ;\n}', 3, 21],
  [
    'import type { C } from "./c";\nexport default async (ctx: C) => {\n  return ctx..db;\n}',
    3,
    14,
  ],
  ['enum A { B }\nexport default (a: A) => {\n  return a +;\n}', 3, 13],
  ['export default async (ctx: any) => {\n  if (ctx) {\n  return 1;\n}', 4, 2],
  ['const a: number = 1;\nif (a) {\n', 2, 9],
  ['const a: number = 1;\nexport default async (ctx: any) => { syntax error }', 2, 45],
])('names the place of what is wrong in TypeScript: %j', async (code, line, column) => {
  const { facts } = await examine(code, 'f.ts');
  expect(facts.error).toMatchObject({ name: 'SyntaxError', line, column });
});

it.each([
  ['const a=1;export default()=>a', 'module', 'javascript'],
  ['const a: number = 1; export default (): number => a', 'module', 'typescript'],
  ['var r=()=>5;export{r as default};', 'module', 'javascript'],
  ['const s = `\nexport default 1\n`; return s', 'body', 'javascript'],
  ['const s: string = `\nimport x\n`; return s', 'body', 'typescript'],
  ['\ufeffexport default () => 1', 'module', 'javascript'],
  ['return "export default"', 'body', 'javascript'],
])(
  'finds out the form of a text that looks like the other one: %j',
  async (code, form, language) => {
    const { facts } = await examine(code, 'f.js');
    expect(facts).toMatchObject({ form, language });
    expect(facts.error).toBeUndefined();
  },
);

it.each(['return 1 }) ; (async function(){ ', 'return 1; } }); ({ async body() { '])(
  'refuses a body that closes what stands around it: %j',
  async (code) => {
    const { facts } = await examine(code, 'f.js');
    expect(facts.error).toMatchObject({ name: 'SyntaxError', line: 1, column: expect.any(Number) });
  },
);

it('reads the map of a text once, however many lines ask for places', async () => {
  const { text } = await examine('enum A { B }\nthrow new Error(String(A.B))', 'f.ts');
  const source: Source = { code: text, form: 'body', file: 'f.ts', packages: {} };
  expect(placesOf(source)).toBeTypeOf('function');
  expect(placesOf(source)).toBe(placesOf(source));
});

it('says what it is that no parser reads', async () => {
  const { facts } = await examine(`return ${'('.repeat(50_000)}1${')'.repeat(50_000)}`, 'f.js');
  expect(facts.error?.message).toContain('nested too deeply');
  expect(facts.error?.line).toBeUndefined();
});
