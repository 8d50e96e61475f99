import { execFile } from 'node:child_process';
import { cp } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { removeFolder, temporaryFolder } from '../test/support/temporary-folder.ts';
import { version } from './kernel/version.ts';

interface Outcome {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs the command line to its end. */
function penstock(
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
): Promise<Outcome> {
  return new Promise((resolve) => {
    execFile(
      process.execPath,
      [join(import.meta.dirname, 'main.ts'), ...args],
      { env: { ...process.env, ...env } },
      (error, stdout, stderr) => resolve({ code: Number(error?.code ?? 0), stdout, stderr }),
    );
  });
}

it('says how it is used in the words of the file that the launcher prints', async () => {
  const { stdout } = await penstock(['--help']);
  await expect(stdout).toMatchFileSnapshot('../bin/help.txt');
});

it('says how it is used before anything is installed', async () => {
  const clone = await temporaryFolder('clone');
  const root = join(import.meta.dirname, '..');
  for (const part of ['bin', 'scripts', 'src', 'package.json', 'package-lock.json'])
    await cp(join(root, part), join(clone, part), { recursive: true });
  const { stdout, stderr } = await new Promise<{ stdout: string; stderr: string }>((resolve) =>
    execFile(
      process.execPath,
      [join(clone, 'bin/penstock.mjs'), '--help'],
      (_error, stdout, stderr) => resolve({ stdout, stderr }),
    ),
  );
  expect(stderr).toBe('');
  expect(stdout).toContain('Usage: penstock');
  await removeFolder(clone);
});

it('tells its version and how it is used', async () => {
  expect(await penstock(['--version'])).toEqual({ code: 0, stdout: `${version}\n`, stderr: '' });
  const help = await penstock(['start', '--help']);
  expect(help).toMatchObject({ code: 0, stderr: '' });
  expect(help.stdout).toMatch(/start +runs the platform/);
  expect(help.stdout).toMatch(/ADMIN_HTTP_PORT +Port of the admin surface \[3030\]/);
});

it.each(['backup', 'restore', 'state', 'functions', 'doctor', 'test'])(
  'tells how the command "%s" is used',
  async (name) => {
    const { stdout, stderr, code } = await penstock([name, '--help']);
    expect({ stderr, code }).toEqual({ stderr: '', code: 0 });
    expect(stdout).toMatch(new RegExp(`^Usage: penstock (${name}|backup) `));
    expect(stdout).toMatch(/docs\/(guides|operations)\/[a-z-]+\.md/);
  },
);

it.each([
  [['strat'], {}, 'There is no command "strat": see penstock --help\n'],
  [['start', '--fast'], {}, '"start" knows no argument "--fast": see penstock --help\n'],
  [['start'], { ADMIN_HTTP_PORT: 'abc' }, 'ADMIN_HTTP_PORT must be a port number, got "abc"\n'],
  [
    [],
    { MASTER_KEY: 'M4ST3RK3Y', NODE_ENV: 'production' },
    'MASTER_KEY is a published default that everybody knows: set another one, or none, and one is made; where the platform has run with this one, set a new one and this one as MASTER_KEY_PREVIOUS\n',
  ],
  [
    [],
    { MASTER_KEY: 'short', HOST: '0.0.0.0' },
    'MASTER_KEY is shorter than 16 characters, and HOST=0.0.0.0 lets other machines call (NODE_ENV=development allows it nevertheless): set another one, or none, and one is made; where the platform has run with this one, set a new one and this one as MASTER_KEY_PREVIOUS\n',
  ],
])('refuses %j with %j in one line', async (args, env, stderr) => {
  expect(await penstock(args, env as Record<string, string>)).toEqual({
    code: 1,
    stdout: '',
    stderr,
  });
});
