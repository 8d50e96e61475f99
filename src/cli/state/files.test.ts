import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { removeFolder, temporaryFolder } from '../../../test/support/temporary-folder.ts';
import { readStateFiles, writeStateFiles } from './files.ts';

let folder = '';
beforeAll(async () => {
  folder = await temporaryFolder('state-files');
});
afterAll(() => removeFolder(folder));

const none = { values: {}, source: 'the environment', secrets: {} };

it.each([
  ['an anchor that holds itself', 'modules: &all { database: *all }'],
  ['an object without an end in a list', 'modules: { database: { schemas: &all [1, *all] } }'],
])('refuses %s and names the file', async (_what, text) => {
  const file = join(folder, 'state.yaml');
  await writeFile(file, text);
  await expect(readStateFiles(file, none)).rejects.toMatchObject({
    name: 'StartError',
    message: expect.stringContaining(`${file} is not valid`),
  });
});

it('takes an alias for a part that stands elsewhere', async () => {
  const file = join(folder, 'good.yaml');
  await writeFile(file, 'a: &a { x: 1 }\nb: *a\n');
  expect(await readStateFiles(file, none)).toEqual({ a: { x: 1 }, b: { x: 1 } });
});

it.each([
  { configs: { modules: { '../outside': {} } }, modules: {} },
  { configs: { modules: {} }, modules: { '..': { outside: [] } } },
  { configs: { modules: {} }, modules: { database: { '../../outside': [] } } },
])('writes nothing outside of its folder, whatever the platform says: %j', async (exported) => {
  const target = join(folder, 'exported');
  await expect(writeStateFiles(target, { exported })).rejects.toThrow('is no name for a file');
});
