/** What a server that ran before on this folder may have left behind. */
import { readdir, readFile, rm, stat } from 'node:fs/promises';
import { basename, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { StartError } from '../../start-error.ts';
import { LIFELINE } from './lifeline.ts';

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
export async function settlePreviousServer(folder: string): Promise<void> {
  const started = Date.now();
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
    if (state === 'gone' || (state === 'zombie' && Date.now() - started > ZOMBIE_PATIENCE_MS && !(await anyoneIn(folder)))) {
      await rm(join(folder, 'postmaster.pid'), { force: true });
      return removeSocketFolder(socketFolder);
    }
    if (state === 'unknown') return;
    if (state === 'orphan' && !told) {
      told = true;
      process.kill(pid, 'SIGINT');
    }
    if (Date.now() - started > PATIENCE_MS) {
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
  if (size === 0 && process.platform === 'linux' && !(await anyoneIn(folder))) await rm(file, { force: true });
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
  const [theirs, ours] = await Promise.all([stat(`/proc/${pid}/cwd`).catch(() => undefined), stat(folder)]);
  return theirs !== undefined && theirs.ino === ours.ino && theirs.dev === ours.dev;
}

/** True while any process, such as a backend that outlived its postmaster, works in the folder. */
async function anyoneIn(folder: string): Promise<boolean> {
  const pids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name));
  return (await Promise.all(pids.map((pid) => worksIn(pid, folder)))).includes(true);
}
