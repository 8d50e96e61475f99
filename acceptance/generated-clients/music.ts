/** What the generated clients are written against: two schemas with a relation, a custom endpoint, and a folder to compile in. */
import { execFile } from 'node:child_process';
import { mkdir, symlink, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import {
  compare,
  createEndpointBench,
  input,
  location,
  operation,
} from '../../test/support/endpoints.ts';
import { createTestPlatform, type TestPlatform } from '../../test/support/platform.ts';
import { temporaryFolder } from '../../test/support/temporary-folder.ts';

const run = promisify(execFile);
const compiler = fileURLToPath(new URL('../../node_modules/typescript/bin/tsc', import.meta.url));
const crud = { enabled: true };
const conduitOptions = {
  cms: {
    enabled: true,
    crudOperations: { create: crud, read: crud, update: crud, delete: crud },
  },
};

/** Albums, tracks of them, and the endpoint `tracksByKind`; anybody may read and write. */
export async function musicPlatform(): Promise<TestPlatform> {
  const platform = await createTestPlatform();
  await platform.createSchema({
    name: 'Album',
    fields: { title: { type: 'String', required: true } },
    conduitOptions,
  });
  const { _id: track } = await platform.createSchema({
    name: 'Track',
    fields: {
      name: { type: 'String', required: true },
      kind: { type: 'String', enum: ['song', 'speech'], default: 'song' },
      seconds: 'Number',
      album: { type: 'Relation', model: 'Album', required: true },
    },
    conduitOptions: {
      cms: {
        ...conduitOptions.cms,
        query: { enabled: true, fields: ['name', 'kind', 'seconds', 'album', 'album.title'] },
      },
    },
  });
  await createEndpointBench(platform).endpoint('tracksByKind', {
    operation: operation.get,
    selectedSchema: track,
    inputs: [input('kind', 'String', location.query)],
    query: compare('kind', 0, ['Input', 'kind']),
  });
  return platform;
}

/** A package of modules, with these of our packages. */
export async function clientFolder(packages: readonly string[]): Promise<string> {
  const folder = await temporaryFolder('client');
  await writeFile(join(folder, 'package.json'), '{"type":"module"}');
  await mkdir(join(folder, 'node_modules', '@types'), { recursive: true });
  for (const name of [...packages, '@types/node'])
    await symlink(packageFolder(name), join(folder, 'node_modules', name));
  return folder;
}

const packageFolder = (name: string): string =>
  dirname(fileURLToPath(import.meta.resolve(`${name}/package.json`)));

const strictly = '--strict --noUncheckedIndexedAccess --target es2024 --types node';

/** What the compiler has to say about `app.ts` and what it imports: nothing, unless something does not fit. */
export async function compile(folder: string, options: string): Promise<string> {
  const flags = `${strictly} ${options}`.split(' ');
  const compiled = await run(process.execPath, [compiler, ...flags, 'app.ts'], {
    cwd: folder,
  }).catch((error: { stdout: string }) => error);
  return compiled.stdout;
}

/** What the program prints, as JSON. */
export async function runApp(folder: string, file: string, origin: string): Promise<unknown> {
  const { stdout } = await run(process.execPath, [file, origin], { cwd: folder });
  return JSON.parse(stdout);
}
