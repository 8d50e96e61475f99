/**
 * Runs the tasks of this repository on any machine with Node 18 or newer and
 * npm: installs the dependencies when they are not those of the lock file,
 * brings the right Node, then runs the real command. Has no dependencies itself.
 *
 * Usage: node scripts/run.mjs <task> [arguments of the task]
 */
import { spawn } from 'node:child_process';
import { existsSync, readFileSync, realpathSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { constants } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { findProgram } from './bundle.mjs';
import { leaveFirstProcess } from './supervisor/first-process.mjs';
import { memoryEnvironment, platformFlags } from './supervisor/memory.mjs';
import { supervise } from './supervisor/supervise.mjs';

const root = fileURLToPath(new URL('..', import.meta.url));
const inRoot = (path) => join(root, path);

/** The oldest Node that runs our TypeScript as it is. */
const nodeMajor = 24;

/**
 * What can be run. `dev`: needs the development dependencies. `tied`: ends when this process ends.
 * `here`: works in the folder of the caller instead of the repository. `env`: what it is told unless it is set outside.
 */
const tasks = new Map([
  ['start', { script: 'src/main.ts', args: ['start'], tied: true }],
  ['penstock', { script: 'src/main.ts', tied: true, here: true }],
  ['test', { script: 'node_modules/vitest/vitest.mjs', args: ['run'], dev: true }],
  [
    'test:large',
    {
      script: 'node_modules/vitest/vitest.mjs',
      args: ['run', 'acceptance/storage/resumable-nodes.test.ts'],
      env: { RESUMABLE_MEGABYTES: '2048' },
      dev: true,
    },
  ],
  ['lint', { script: 'scripts/lint.mjs', dev: true }],
  [
    'format',
    { script: 'node_modules/@biomejs/biome/bin/biome', args: ['check', '--write'], dev: true },
  ],
  ['bench', { script: 'bench/run.ts', dev: true }],
  ['bench:authorization', { script: 'bench/authorization/run.ts', dev: true }],
  ['bench:events', { script: 'bench/events/run.ts', dev: true }],
  ['bench:mcp', { script: 'bench/mcp/run.ts', dev: true }],
  ['bench:search', { script: 'bench/search/run.ts', dev: true }],
  ['bench:neighbours', { script: 'bench/search/neighbours.ts', dev: true }],
  ['bench:communications', { script: 'bench/communications/run.ts', dev: true }],
  ['bench:authentication', { script: 'bench/authentication/run.ts', dev: true }],
  ['bench:storage', { script: 'bench/storage/run.ts', dev: true }],
  ['bench:functions', { script: 'bench/functions/run.ts', dev: true }],
  ['bench:realtime', { script: 'bench/realtime/run.ts', dev: true }],
  ['example', { script: 'examples/music-store/run.ts' }],
  ['coverage', { script: 'acceptance/coverage.ts', dev: true }],
  ['picture', { script: 'acceptance/picture.ts', dev: true }],
  ['nemesis', { script: 'acceptance/nemesis/run.ts', dev: true }],
  ['conformance', { script: 'acceptance/conformance.ts', dev: true }],
]);

const say = (text) => process.stderr.write(`${text}\n`);

function readJson(path) {
  try {
    return JSON.parse(readFileSync(inRoot(path), 'utf8'));
  } catch {
    return undefined;
  }
}

/** Whether what is installed (by npm's own record of it) has all that the lock file asks for. */
function isInstalled(withDev) {
  const locked = readJson('package-lock.json')?.packages ?? {};
  const present = readJson('node_modules/.package-lock.json')?.packages;
  if (!present) return false;
  return Object.entries(locked).every(([path, { version, dev, devOptional, optional, peer }]) => {
    // npm itself decides which optional packages suit this machine.
    if (path === '' || optional || peer || devOptional || (dev && !withDev)) return true;
    return present[path]?.version === version;
  });
}

/** Lines of a failed npm that are shown: the reason is at the top, its manual follows. */
const npmLines = 20;

/** Runs npm or npx and answers what it printed; all of that is shown only when it fails. */
function npm(program, args) {
  const child = spawn(program, args, {
    cwd: root,
    stdio: ['ignore', 'pipe', 'pipe'],
    shell: process.platform === 'win32',
  });
  let printed = '';
  let output = '';
  child.stdout.on('data', (chunk) => (printed += chunk));
  for (const stream of [child.stdout, child.stderr])
    stream.on('data', (chunk) => (output += chunk));
  return new Promise((resolve, reject) => {
    const said = () => output.trim().split('\n').slice(0, npmLines).join('\n');
    child.once('error', (error) =>
      reject(new Error(`${program} could not be started (${error.message}): install npm`)),
    );
    child.once('close', (code) =>
      code === 0
        ? resolve(printed.trim())
        : reject(new Error(`${program} ${args.join(' ')} failed:\n${said()}`)),
    );
  });
}

async function install(withDev) {
  if (isInstalled(withDev)) return;
  const begin = Date.now();
  say(`Installing the dependencies${withDev ? '' : ' (without those for development)'} ...`);
  // No package needs its install script; the lock file says what is fetched.
  await npm('npm', [
    'ci',
    '--ignore-scripts',
    '--no-audit',
    '--no-fund',
    '--loglevel=error',
    ...(withDev ? [] : ['--omit=dev']),
  ]);
  if (!withDev) await dropSpareNode();
  say(`Installed in ${Math.round((Date.now() - begin) / 1000)} s`);
}

const isFitting = () => Number(process.versions.node.split('.')[0]) >= nodeMajor;
const nodePackage = `node-${process.platform === 'win32' ? 'win' : process.platform}-${process.arch}`;

/** Where another Node is new enough, the one that the lock file brings is 190 MB for nothing. */
const dropSpareNode = async () =>
  isFitting() &&
  !process.execPath.startsWith(inRoot('node_modules')) &&
  rm(inRoot(`node_modules/${nodePackage}`), { recursive: true, force: true });

/** A Node that is new enough: this one, the installed one, or one from npm's cache. */
async function findNode() {
  if (isFitting()) return process.execPath;
  const program = inRoot(
    `node_modules/${nodePackage}/bin/node${process.platform === 'win32' ? '.exe' : ''}`,
  );
  if (existsSync(program)) return program;
  say(`Fetching Node ${nodeMajor} ...`);
  // Only its path is asked for: the program itself is our own child, so that signals and the channel reach it.
  return npm('npx', ['-y', '-p', `${nodePackage}@${nodeMajor}`, 'node', '-p', 'process.execPath']);
}

/** Whether the platform itself is meant, and not its help or another command. */
const startsPlatform = ([command = 'start', ...rest]) => command === 'start' && rest.length === 0;

/** Compiled code is kept between starts. What is set outside wins. */
const platformEnvironment = () => ({
  ...memoryEnvironment,
  NODE_COMPILE_CACHE: inRoot('node_modules/.cache/penstock-compile'),
  ...process.env,
});

/** Runs the program to its end, passes signals on, and answers its exit code (128 + n when a signal ended it). */
async function runProgram(program, { script, args = [], env = {}, tied, here }, extra) {
  const cwd = here ? process.cwd() : root;
  const isPlatform = tied && startsPlatform([...args, ...extra]);
  if (isPlatform) leaveFirstProcess();
  const file = tied ? await findProgram(program, inRoot(script), say) : inRoot(script);
  if (isPlatform)
    return supervise({
      program,
      flags: platformFlags,
      args: [file, 'start'],
      cwd,
      env: platformEnvironment(),
    });
  const child = spawn(program, [file, ...args, ...extra], {
    cwd,
    stdio: tied ? ['inherit', 'inherit', 'inherit', 'ipc'] : 'inherit',
    env: tied ? platformEnvironment() : { ...env, ...process.env },
  });
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) {
    process.on(signal, () => {
      // A terminal sends Ctrl-C to the child as well. A tied child knows that two at once are one.
      if (tied || signal !== 'SIGINT' || !process.stdin.isTTY) child.kill(signal);
    });
  }
  return new Promise((resolve, reject) => {
    child.once('error', (error) =>
      reject(new Error(`${program} could not be started: ${error.message}`)),
    );
    child.once('exit', (code, signal) =>
      resolve(signal ? 128 + (constants.signals[signal] ?? 0) : (code ?? 1)),
    );
  });
}

/**
 * What the command line answers before anything is installed, under any Node: its help, which a test holds against
 * what the program says, and its version.
 */
function answerOf(name, extra) {
  if (name !== 'penstock' && name !== 'start') return undefined;
  const asks = (...options) => extra.some((one) => options.includes(one));
  // Commands say themselves how they are used.
  const isCommand = name === 'penstock' && extra[0] !== 'start' && !extra[0]?.startsWith('-');
  if (asks('--help', '-h') && isCommand) return undefined;
  if (asks('--help', '-h')) return readFileSync(inRoot('bin/help.txt'), 'utf8');
  return asks('--version', '-v') ? `${readJson('package.json').version}\n` : undefined;
}

/** Does the task and ends this process with its exit code. */
export async function runTask(name, extra) {
  const task = tasks.get(name);
  if (!task) {
    say(`There is no task "${name ?? ''}". Tasks: ${[...tasks.keys()].join(', ')}`);
    process.exit(1);
  }
  const answer = answerOf(name, extra);
  if (answer !== undefined) {
    process.stdout.write(answer);
    return;
  }
  try {
    await install(Boolean(task.dev));
    process.exit(await runProgram(await findNode(), task, extra));
  } catch (error) {
    say(error.message);
    process.exit(1);
  }
}

if (process.argv[1] && realpathSync(process.argv[1]) === fileURLToPath(import.meta.url)) {
  await runTask(process.argv[2], process.argv.slice(3));
}
