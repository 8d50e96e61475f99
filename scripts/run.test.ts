import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import {
  chmod,
  copyFile,
  cp,
  mkdir,
  mkdtemp,
  readdir,
  readFile,
  rm,
  symlink,
  utimes,
  writeFile,
} from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { delimiter, dirname, join } from 'node:path';
import { text } from 'node:stream/consumers';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { isRunning } from '../test/support/processes.ts';
import { waitFor } from '../test/support/wait-for.ts';

let root = '';

/** A repository in miniature: the launcher, a lock file, and programs that tell what they got. */
beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), 'penstock-test-run-'));
  for (const folder of ['scripts', 'src', 'bin', 'node_modules/vitest'])
    await mkdir(join(root, folder), { recursive: true });
  for (const name of ['run.mjs', 'bundle.mjs'])
    await copyFile(join(import.meta.dirname, name), join(root, 'scripts', name));
  await cp(join(import.meta.dirname, 'supervisor'), join(root, 'scripts/supervisor'), {
    recursive: true,
  });
  const packages = {
    '': {},
    'node_modules/a': { version: '1.0.0' },
    'node_modules/b': { version: '2.0.0', dev: true },
  };
  await writeJson('package-lock.json', {
    packages: { ...packages, 'node_modules/other-machine': { version: '1.0.0', optional: true } },
  });
  await writeJson('node_modules/.package-lock.json', { packages });
  await program('src/main.ts', `console.log(JSON.stringify(process.argv.slice(2)));`);
  await program(
    'node_modules/vitest/vitest.mjs',
    `console.log('tested', ...process.argv.slice(2));`,
  );
  await writeFile(
    join(root, 'bin/npm'),
    `#!/bin/sh\necho "$@" >> ${root}/npm-calls\necho noise\n[ ! -e ${root}/broken ] || exit 1\n`,
  );
  await chmod(join(root, 'bin/npm'), 0o755);
});

afterEach(() => rm(root, { recursive: true, force: true }));

const writeJson = (path: string, value: unknown) =>
  writeFile(join(root, path), JSON.stringify(value));
const program = (path: string, source: string) => writeFile(join(root, path), source);
const npmCalls = () => readFile(join(root, 'npm-calls'), 'utf8').catch(() => '');

function launch(...args: string[]): ChildProcess & {
  readonly stdout: NodeJS.ReadableStream;
  readonly stderr: NodeJS.ReadableStream;
} {
  const env = { ...process.env, PATH: `${join(root, 'bin')}${delimiter}${process.env.PATH}` };
  const child = spawn(process.execPath, [join(root, 'scripts/run.mjs'), ...args], {
    env,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  return child as ReturnType<typeof launch>;
}

async function run(...args: string[]) {
  const child = launch(...args);
  const [stdout, stderr, [code]] = await Promise.all([
    text(child.stdout),
    text(child.stderr),
    once(child, 'close'),
  ]);
  return { stdout, stderr, code };
}

describe('dependencies', () => {
  it('does nothing when all that the lock file asks for is there', async () => {
    expect(await run('penstock', 'doctor', '--json')).toEqual({
      stdout: '["doctor","--json"]\n',
      stderr: '',
      code: 0,
    });
    expect(await npmCalls()).toBe('');
  });

  it('installs what is missing, those for development only where they are needed', async () => {
    await writeJson('node_modules/.package-lock.json', {
      packages: { 'node_modules/a': { version: '1.0.0' } },
    });
    expect((await run('start')).code).toBe(0);
    expect(await npmCalls()).toBe('');
    const { stdout, stderr } = await run('test', 'some.test.ts');
    expect(stdout).toBe('tested run some.test.ts\n');
    expect(stderr).toMatch(/^Installing the dependencies \.\.\.\nInstalled in \d+ s\n$/);
    expect(await npmCalls()).toMatch(/^ci --ignore-scripts (?!.*--omit)/);
  });

  it('installs again when the lock file has another version', async () => {
    await writeJson('node_modules/.package-lock.json', {
      packages: { 'node_modules/a': { version: '0.9.0' } },
    });
    await run('start');
    expect(await npmCalls()).toMatch(/^ci --ignore-scripts .*--omit=dev\n$/);
  });

  it('keeps the Node that came along only where this one is too old', async () => {
    const name = `node-${process.platform === 'win32' ? 'win' : process.platform}-${process.arch}`;
    const spare = join(root, 'node_modules', name, 'bin');
    await mkdir(spare, { recursive: true });
    await rm(join(root, 'node_modules/.package-lock.json'));
    await run('test');
    expect(existsSync(spare)).toBe(true);
    await run('start');
    expect(existsSync(spare)).toBe(false);
  });

  it('are not needed to say how it is used', async () => {
    await rm(join(root, 'node_modules/.package-lock.json'));
    await program('bin/help.txt', 'Usage\n');
    await writeJson('package.json', { version: '1.2.3' });
    for (const task of ['start', 'penstock']) {
      expect(await run(task, '--help')).toEqual({ stdout: 'Usage\n', stderr: '', code: 0 });
      expect((await run(task, '-v')).stdout).toBe('1.2.3\n');
    }
    expect(await npmCalls()).toBe('');
    // A command says it itself.
    expect((await run('penstock', 'state', '--help')).stdout).not.toContain('Usage\n');
  });

  it('shows what npm said when it fails', async () => {
    await rm(join(root, 'node_modules/.package-lock.json'));
    await program('broken', '');
    const { stderr, code } = await run('start');
    expect(stderr).toMatch(/npm ci .* failed:\nnoise\n$/);
    expect(code).toBe(1);
  });
});

describe('the bundle', () => {
  const made = () => readdir(join(root, 'node_modules/.cache/penstock-program'));
  const neighbour = (text: string) =>
    program('src/neighbour.ts', `export const said: string = '${text} ' + import.meta.url;`);
  const started = async () => JSON.parse((await run('start')).stdout) as [string, string];

  beforeEach(async () => {
    await symlink(
      join(import.meta.dirname, '../node_modules/rolldown'),
      join(root, 'node_modules/rolldown'),
    );
    await neighbour('first');
    const sandbox = 'src/modules/functions/engine/sandbox';
    await mkdir(join(root, sandbox), { recursive: true });
    await program(`${sandbox}/main.ts`, 'console.log(1);');
    await program(
      'src/main.ts',
      `import { said } from './neighbour.ts'; console.log(JSON.stringify([process.argv[1], said]));`,
    );
  });

  it('is what runs, made once for the sources as they are, each of which knows its own place', async () => {
    const [file, said] = await started();
    expect(file).toMatch(/penstock-program\/[0-9a-f]{16}\/main\.mjs$/);
    expect(said).toBe(`first file://${root}/src/neighbour.ts`);
    expect(existsSync(join(dirname(file), 'sandbox.mjs'))).toBe(true);
    expect((await started())[0]).toBe(file);
    expect(await made()).toHaveLength(1);
    await neighbour('second');
    const [next, saidNext] = await started();
    expect(saidNext).toMatch(/^second /);
    expect(next).not.toBe(file);
  });

  it('goes when nothing was started from it for a week', async () => {
    const [old = ''] = [(await started())[0]].map((file) => join(file, '..'));
    await neighbour('second');
    await started();
    expect(existsSync(old)).toBe(true);
    await utimes(old, new Date(), new Date(Date.now() - 8 * 24 * 3600 * 1000));
    await neighbour('third');
    await started();
    expect(existsSync(old)).toBe(false);
  });

  it('is left out where it cannot be made, which is told', async () => {
    await program('node_modules/.cache', 'in the way');
    const { stdout, stderr } = await run('start');
    expect(JSON.parse(stdout)[0]).toBe(join(root, 'src/main.ts'));
    expect(stderr).toMatch(
      /^The program starts from its sources, which takes longer: .*node_modules.\.cache.+\n$/,
    );
  });
});

it('names the tasks when it is given none', async () => {
  const { stderr, code } = await run();
  expect(stderr).toContain('Tasks: start,');
  expect(code).toBe(1);
});

describe('the end', () => {
  it('is that of the program', async () => {
    await program('src/main.ts', 'process.exit(7);');
    expect((await run('start')).code).toBe(7);
    await program('src/main.ts', `process.kill(process.pid, 'SIGKILL');`);
    expect((await run('start')).code).toBe(137);
  });

  it('comes by a signal, which the program hears from the supervisor', async () => {
    await program(
      'src/main.ts',
      `process.once('message', ({ type, signal }) => process.exit(type === 'stop' && signal === 'SIGTERM' ? 3 : 4)); console.log('up');`,
    );
    const child = launch('start');
    await once(child.stdout, 'data');
    child.kill('SIGTERM');
    expect(await once(child, 'exit')).toEqual([3, null]);
  });

  it('reaches the program when the launcher is killed', async () => {
    await program(
      'src/main.ts',
      `process.once('disconnect', () => process.exit()); setInterval(() => {}, 1000); console.log(process.pid);`,
    );
    const child = launch('start');
    const [pid] = await once(child.stdout, 'data');
    child.kill('SIGKILL');
    await waitFor(async () => !(await isRunning(Number(pid))), { what: 'the end of the program' });
  });
});
