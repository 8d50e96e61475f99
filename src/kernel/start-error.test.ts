import { writeFile } from 'node:fs/promises';
import { expect, it } from 'vitest';
import { explainFailure, StartError } from './start-error.ts';

const explained = (error: unknown): string => explainFailure(error, { withStack: false });

it('says in one line what the operator can mend, and asks for a report of the rest', () => {
  expect(explained(new StartError('Do this'))).toBe('Do this');
  expect(explained(new TypeError('x is undefined'))).toContain('this is a bug, please report it');
});

it.each([
  [import.meta.dirname, `${import.meta.dirname} cannot be used: it is a folder (EISDIR)`],
  [
    `${import.meta.filename}/below`,
    `${import.meta.filename}/below cannot be used: what stands above it is no folder (ENOTDIR)`,
  ],
])('takes what the system says of a file for no bug: %s', async (path, sentence) => {
  const error = await writeFile(path, 'x').catch((failure: unknown) => failure);
  expect(explained(error)).toBe(sentence);
});

it('knows a disk without room also where no file is named', () => {
  expect(explained(Object.assign(new Error('write'), { code: 'ENOSPC' }))).toContain('no room');
});
