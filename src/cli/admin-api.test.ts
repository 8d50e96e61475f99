/** What the commands say to the admin surface, and to what is none. */
import { writeFile } from 'node:fs/promises';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { removeFolder, temporaryFolder } from '../../test/support/temporary-folder.ts';
import { addressOf } from './admin-api.ts';
import { state } from './state.ts';

let folder: string;
let file: string;
let answer: (request: IncomingMessage, response: ServerResponse) => void;
const seen: IncomingMessage[] = [];
const server = createServer((request, response) => {
  seen.push(request);
  answer(request, response);
});
beforeAll(async () => {
  folder = await temporaryFolder('admin-api');
  file = join(folder, 'state.json');
  await writeFile(file, '{"modules": {}}');
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
});
afterAll(async () => {
  server.close();
  await removeFolder(folder);
});
afterEach(() => void seen.splice(0));

const address = () => `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
const run = (args: readonly string[], environment: NodeJS.ProcessEnv = { MASTER_KEY: 'master' }) =>
  state(args, {
    environment: { PENSTOCK_URL: address(), ...environment },
    isSeen: false,
    print: () => undefined,
  });

describe('commands that call a platform', () => {
  it('go nowhere else with the credential', async () => {
    answer = (request, response) =>
      request.url?.startsWith('/elsewhere')
        ? response.end('{}')
        : response.writeHead(302, { location: '/elsewhere' }).end();
    await expect(run(['export', join(folder, 'out')])).rejects.toThrow(
      /leads elsewhere \(302, \/elsewhere\)/,
    );
    expect(seen.map(({ url }) => url)).not.toContain('/elsewhere');
  });

  it.each(['{}', '[]', 'null', '', '{"configs": {}, "modules": {}}'])(
    'say that %s is no answer of a platform',
    async (text) => {
      answer = (_request, response) => response.end(text);
      const wrong = /is --url the admin surface of the platform\?/;
      await expect(run(['plan', file])).rejects.toThrow(wrong);
      await expect(run(['export', join(folder, 'out')])).rejects.toThrow(wrong);
    },
  );

  it('show no secret that cannot be sent', async () => {
    for (const environment of [
      { PENSTOCK_TOKEN: 'cdt_one\ntwo' },
      { MASTER_KEY: 'schlüssel-日本' },
    ]) {
      const failure = (await run(['plan', file], environment).catch((error) => error)) as Error;
      expect(failure.message).toMatch(/cannot be sent in a header/);
      expect(`${failure.message} ${failure.cause}`).not.toMatch(/cdt_|two|schl/);
    }
    expect(seen).toEqual([]);
  });

  it('do not take the master key where the file with the token is empty', async () => {
    await writeFile(join(folder, 'token'), '\n');
    await expect(run(['plan', file, '--token-file', join(folder, 'token')])).rejects.toThrow(
      /token is empty/,
    );
    expect(seen).toEqual([]);
  });

  it('take an address without user, query and fragment; an empty one is none', () => {
    expect(addressOf('https://admin.example.com/panel/', {})).toBe(
      'https://admin.example.com/panel',
    );
    expect(addressOf(undefined, { PENSTOCK_URL: '' })).toBe('http://127.0.0.1:3030');
    expect(() => addressOf('http://ada:secret@localhost', {})).toThrow(/leave these out/);
    expect(() => addressOf('http://ada:secret@localhost', {})).not.toThrow(/secret@/);
    for (const wrong of [
      'localhost:3030',
      'https://a.example?x=1',
      'http://a.example/#x',
      'ftp://a',
    ])
      expect(() => addressOf(wrong, {})).toThrow(/is no address/);
  });
});

describe('options of another command', () => {
  it.each([
    ['apply', '--modules', 'database'],
    ['plan', '--types', 'schemas'],
    ['apply', '--keep-variables'],
    ['plan', '--yes'],
    ['plan', '--dry-run'],
    ['export', '--prune'],
    ['export', '--on-conflict', 'skip'],
    ['export', '--json'],
  ])('are refused: %s %s', async (command, ...options) => {
    await expect(run([command, file, ...options])).rejects.toThrow(
      new RegExp(`${options[0]} is an option of .*, not of ${command}`),
    );
    expect(seen).toEqual([]);
  });

  it('is told what a value may be', async () => {
    await expect(run(['plan', file, '--on-conflict', 'merge'])).rejects.toThrow(
      /--on-conflict is overwrite, skip, fail/,
    );
  });
});
