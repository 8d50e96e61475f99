/**
 * Ties the server's life to ours. A small shell stands between: it holds one
 * end of a pipe from us, and when that closes for whatever reason (also kill -9)
 * it shuts the server down cleanly and removes the socket's folder.
 */

import { readdir, readFile, rm, stat } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { StartError } from '../../start-error.ts';
import type { ServerIdentity } from './binaries.ts';
import type { ServerStart } from './keeper.ts';
import { serverEnvironment } from './server-settings.ts';

/** Marks our shells in the list of processes. */
const LIFELINE = 'penstock-lifeline';

/**
 * $1 is the socket's folder, the rest the server's command line. Signals to the shell and its helper
 * mean nothing, so that who signals the whole service (systemd does) does not end the database before us.
 */
const script = `
trap '' TERM INT HUP
sockets=$1; shift
exec 3<&0
"$@" </dev/null 3<&- &
server=$!
{ cat <&3 >/dev/null; kill -INT $server 2>/dev/null; } &
watcher=$!
exec 3<&-
wait $server; status=$?
while kill -0 $server 2>/dev/null; do wait $server; status=$?; done
kill -KILL $watcher 2>/dev/null
rm -rf "$sockets" 2>/dev/null
exit $status
`;

interface LifelineOptions {
  readonly command: readonly string[];
  readonly socketFolder: string;
  /** Working directory: the data folder. */
  readonly cwd: string;
  readonly identity: ServerIdentity;
  readonly logFile: string;
}

/** How the server is started. Closing the shell's stdin stops it: new connections are refused, open ones ended, all is written. */
export const withLifeline = ({
  command,
  socketFolder,
  cwd,
  identity,
  logFile,
}: LifelineOptions): ServerStart => ({
  shell: '/bin/sh',
  args: ['-c', script, LIFELINE, socketFolder, ...command],
  cwd,
  env: serverEnvironment(),
  ...identity,
  logFile,
  socketFolder,
});

/* What a server that ran before on this folder may have left behind. */

/** A server on its way out, or one that waits to be reaped, gets this many ms. */
const PATIENCE_MS = 10_000;
/** A process that ended but was not reaped: after this many ms we believe that nobody will. */
const ZOMBIE_PATIENCE_MS = 3_000;
const POLL_MS = 25;

/**
 * Waits until no earlier server works on `folder`: one that is shutting down, or one that lost its
 * lifeline and is told to stop. Removes a pid file that would block the start for no reason.
 * @throws StartError when the server of another running Penstock uses the folder.
 */
export async function waitForPreviousServer(folder: string): Promise<void> {
  const started = performance.now();
  let told = false;
  let socketFolder: string | undefined;
  for (;;) {
    const recorded = await recordedServer(folder);
    if (recorded === undefined) {
      await removeEmptyPidFile(folder);
      return removeSocketFolder(socketFolder);
    }
    const { pid } = recorded;
    socketFolder = recorded.socketFolder;
    const state = await stateOf(pid, folder);
    if (
      state === 'gone' ||
      (state === 'zombie' &&
        performance.now() - started > ZOMBIE_PATIENCE_MS &&
        !(await anyoneIn(folder)))
    ) {
      await rm(join(folder, 'postmaster.pid'), { force: true });
      return removeSocketFolder(socketFolder);
    }
    if (state === 'unknown') return;
    if (state === 'orphan' && !told) {
      told = true;
      process.kill(pid, 'SIGINT');
    }
    if (performance.now() - started > PATIENCE_MS) {
      throw new StartError(
        `The database in ${folder} is in use by the PostgreSQL process ${pid}: stop the Penstock that started it, or choose another PENSTOCK_DATA_DIR`,
      );
    }
    await sleep(POLL_MS);
  }
}

/** A power cut in the moment of a start leaves it empty, and the server then waits for hands. The data folder's lock is ours. */
async function removeEmptyPidFile(folder: string): Promise<void> {
  const file = join(folder, 'postmaster.pid');
  const size = await stat(file).then(
    (facts) => facts.size,
    () => undefined,
  );
  if (size === 0 && process.platform === 'linux' && !(await anyoneIn(folder)))
    await rm(file, { force: true });
}

interface RecordedServer {
  readonly pid: number;
  readonly socketFolder: string | undefined;
}

/** What the server wrote about itself (PostgreSQL manual, "postmaster.pid"): its process first, its socket's folder in the fifth line. */
async function recordedServer(folder: string): Promise<RecordedServer | undefined> {
  const text = await readFile(join(folder, 'postmaster.pid'), 'utf8').catch(() => '');
  const lines = text.split('\n');
  const pid = Number.parseInt(lines[0] ?? '', 10);
  return Number.isInteger(pid) && pid > 0 ? { pid, socketFolder: lines[4]?.trim() } : undefined;
}

/** Nobody was left to remove it when server and lifeline were killed. Only a folder that we named is touched. */
async function removeSocketFolder(path: string | undefined): Promise<void> {
  if (path !== undefined && /^penstock-\w{6}$/.test(basename(path)))
    await rm(path, { recursive: true, force: true }).catch(() => undefined);
}

type ServerState = 'gone' | 'zombie' | 'orphan' | 'running' | 'unknown';

async function stateOf(pid: number, folder: string): Promise<ServerState> {
  // Without /proc PostgreSQL decides for itself.
  if (process.platform !== 'linux') return 'unknown';
  const facts = await processFacts(pid);
  if (!facts) return 'gone';
  if (facts.state === 'Z') return 'zombie';
  // The number may belong to another program by now.
  if (!(await worksIn(pid, folder))) return 'gone';
  const parent = await readFile(`/proc/${facts.parent}/cmdline`, 'utf8').catch(() => '');
  return parent.includes(LIFELINE) ? 'running' : 'orphan';
}

async function processFacts(pid: number): Promise<{ state: string; parent: number } | undefined> {
  const text = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => undefined);
  if (text === undefined) return undefined;
  // The name, in parentheses, may hold anything.
  const [state = '', parent = ''] = text.slice(text.lastIndexOf(')') + 2).split(' ');
  return { state, parent: Number(parent) };
}

async function worksIn(pid: number | string, folder: string): Promise<boolean> {
  const [theirs, ours] = await Promise.all([
    stat(`/proc/${pid}/cwd`).catch(() => undefined),
    stat(folder),
  ]);
  return theirs !== undefined && theirs.ino === ours.ino && theirs.dev === ours.dev;
}

/** True while any process, such as a backend that outlived its postmaster, works in the folder. */
async function anyoneIn(folder: string): Promise<boolean> {
  const pids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name));
  return (await Promise.all(pids.map((pid) => worksIn(pid, folder)))).includes(true);
}
