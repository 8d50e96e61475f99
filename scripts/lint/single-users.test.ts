import { expect, it } from 'vitest';
import { findSingleUsers, measureFile } from './single-users.ts';

const small = 'export const part = 1;\n';
const listed = (...files: readonly (readonly [string, string])[]): string[] =>
  findSingleUsers(files.map(([path, text]) => measureFile(path, text))).map(({ path }) => path);

it('lists a small file that one file beside it imports', () => {
  const user = "import { part } from './part.ts';\n";
  expect(listed(['src/a/part.ts', small], ['src/a/whole.ts', user])).toEqual(['src/a/part.ts']);
});

it.each([
  ['several use it', ['src/a/other.ts', "import { part } from './part.ts';\n"]],
  ['another folder uses it', ['src/b/other.ts', "import { part } from '../a/part.ts';\n"]],
] as const)('leaves it alone where %s', (_, other) => {
  const user = "import { part } from './part.ts';\n";
  expect(listed(['src/a/part.ts', small], ['src/a/whole.ts', user], other)).toEqual([]);
});

it.each([
  ['it is loaded when it is needed', 'src/a/part.ts', "await import('./part.ts');\n"],
  ['it runs in a thread', 'src/a/part.ts', "new Worker(new URL('part.ts', import.meta.url));\n"],
  ['its name is looked for', 'src/a/errors.ts', "import { part } from './errors.ts';\n"],
  [
    'both are too long',
    'src/a/part.ts',
    `import { part } from './part.ts';\n${'a();\n'.repeat(250)}`,
  ],
])('leaves it alone where %s', (_, path, user) => {
  expect(listed([path, small], ['src/a/whole.ts', user])).toEqual([]);
});
