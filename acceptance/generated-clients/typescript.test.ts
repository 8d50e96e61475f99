import { readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { createClient } from '@hey-api/openapi-ts';
import openapiTypescript, { astToString } from 'openapi-typescript';
import { generate } from 'orval';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import type { TestPlatform } from '../../test/support/platform.ts';
import { removeFolder } from '../../test/support/temporary-folder.ts';
import { clientFolder, compile, musicPlatform, runApp } from './music.ts';

let platform: TestPlatform;
let guide: string;
beforeAll(async () => {
  guide = await readFile(new URL('../../docs/guides/typed-clients.md', import.meta.url), 'utf8');
  platform = await musicPlatform();
});
afterAll(() => platform.close());

let folder: string;
beforeEach(async () => {
  folder = await clientFolder(['openapi-fetch', 'openapi-typescript-helpers']);
  const { body } = await platform.client.get('/swagger.json');
  await writeFile(inFolder('swagger.json'), JSON.stringify(body));
});
afterEach(() => removeFolder(folder));

const inFolder = (name: string): string => join(folder, name);

/** The code blocks of docs/guides/typed-clients.md of this kind, as one file. */
const ofGuide = (kind: string): string =>
  guide
    .split('```')
    .filter((block) => block.startsWith(`${kind}\n`))
    .map((block) => block.slice(kind.length + 1))
    .join('\n');

const inNode = '--noEmit --module nodenext --allowImportingTsExtensions';

/** Compiles the program of the guide beside what was generated, and runs it against the platform. */
async function compileAndRun(kind: string): Promise<unknown> {
  await writeFile(inFolder('app.ts'), ofGuide(kind));
  expect(await compile(folder, inNode)).toBe('');
  return runApp(folder, 'app.ts', platform.addresses.client);
}

/** Each program makes an album and a track, reads both in one list, changes the track and misses another. */
const printed = {
  name: 'River',
  title: 'Blue',
  seconds: 244,
  kind: 'song',
  named: expect.arrayContaining(['River']),
  code: 'RECORD_NOT_FOUND',
};

describe('clients generated from the description compile strictly, refuse what the platform would refuse, and run', () => {
  it('openapi-typescript with openapi-fetch', async () => {
    const types = await openapiTypescript(new URL(`file://${inFolder('swagger.json')}`));
    await writeFile(inFolder('api.ts'), astToString(types));
    expect(await compileAndRun('ts')).toEqual({ ...printed, long: expect.any(Number) });
  }, 60_000);

  it('Hey API', async () => {
    await createClient({
      input: inFolder('swagger.json'),
      output: { path: inFolder('api'), importFileExtension: '.ts' },
      plugins: ['@hey-api/client-fetch', '@hey-api/typescript', '@hey-api/sdk'],
      logs: { level: 'silent', file: false },
    });
    expect(await compileAndRun('ts hey-api')).toEqual(printed);
  }, 60_000);

  it('Orval', async () => {
    const settings = ofGuide('js orval').replaceAll(
      'http://127.0.0.1:3000',
      platform.addresses.client,
    );
    await writeFile(inFolder('orval.config.mjs'), settings);
    const log = vi.spyOn(console, 'log').mockImplementation(() => {});
    await generate(inFolder('orval.config.mjs'), folder).finally(() => log.mockRestore());
    expect(await compileAndRun('ts orval')).toEqual(printed);
  }, 60_000);
});
