/**
 * The lock of a data folder: one process at a time works in it. A lock that a
 * killed process left behind is recognised and taken over.
 */
import { randomBytes } from 'node:crypto';
import { link, readFile, readlink, rename, rm, stat, utimes, writeFile } from 'node:fs/promises';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { StartError } from '../start-error.ts';

export interface FolderLock {
  release(): Promise<void>;
}

interface Holder {
  readonly pid: number;
  /** When the process started, in clock ticks since boot; with the pid it names a process for good. Linux only. */
  readonly startedAt: string | undefined;
  /** Machine, boot and process namespace in which the pid means something. */
  readonly place: string;
  readonly host: string;
  /** Tells this lock from an earlier one of the same process. */
  readonly id: string;
}

/** A holder in another container or on another machine shows that it lives by touching the file this often (ms). */
const HEARTBEAT_MS = 3_000;
/** Without a touch for this long (ms) it is dead. */
const SILENCE_MS = 10_000;
/**
 * Looked at for so long (ms) at least, however long ago it says that it was touched: the clock of the holder may be behind
 * ours, or have been set since.
 */
const MIN_LOOK_MS = 2 * HEARTBEAT_MS;
const ATTEMPTS = 20;

/** In whose name the folder is locked. */
export interface LockOwner {
  /** This process, or the supervisor of several that share the folder. */
  readonly pid: number;
  /** Told the lock's file when a supervisor owns it, who then removes it when the last of its processes has gone. */
  readonly onShared?: (file: string) => void;
}

/** @throws StartError that names the process which uses the folder. */
export async function lockFolder(
  folder: string,
  owner: LockOwner = { pid: process.pid },
): Promise<FolderLock> {
  const file = join(folder, 'lock');
  const self = await describeSelf(owner.pid);
  for (let attempt = 0; attempt < ATTEMPTS; attempt += 1) {
    if (await claim(file, self)) return hold(file, self, owner);
    const holder = await readHolder(file);
    if (holder === undefined) continue;
    if (owner.onShared && isSame(holder, self)) return hold(file, holder, owner);
    if (await isAlive(holder, self, file)) throw inUse(folder, holder, self);
    await discard(file, holder);
  }
  throw new StartError(
    `The data folder ${folder} cannot be locked: remove the file ${file} when no Penstock uses it`,
  );
}

function inUse(folder: string, holder: Holder, self: Holder): StartError {
  const who =
    holder.place === self.place
      ? `process ${holder.pid}`
      : `process ${holder.pid} on ${holder.host}`;
  return new StartError(
    `The data folder ${folder} is in use by ${who}: stop it, or set PENSTOCK_DATA_DIR to another folder`,
  );
}

/** Another process of the same supervisor made the lock. */
const isSame = (one: Holder, other: Holder): boolean =>
  one.pid === other.pid && one.startedAt === other.startedAt && one.place === other.place;

async function describeSelf(pid: number): Promise<Holder> {
  const [boot, namespace, startedAt] = await Promise.all([
    readFile('/proc/sys/kernel/random/boot_id', 'utf8').catch(() => ''),
    readlink('/proc/self/ns/pid').catch(() => ''),
    startOf(pid),
  ]);
  const host = hostname();
  return {
    pid,
    startedAt,
    place: [host, boot.trim(), namespace].join(' '),
    host,
    id: randomBytes(8).toString('hex'),
  };
}

/** Start time of a living process; `undefined` when it is gone or only waits to be reaped. */
async function startOf(pid: number): Promise<string | undefined> {
  const text = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => undefined);
  if (text === undefined) return undefined;
  // The name in parentheses may hold anything; the state is field 3, the start field 22.
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
  return fields[0] === 'Z' || fields[0] === 'X' ? undefined : fields[19];
}

/** Makes the lock file, whole, unless there is one. */
async function claim(file: string, self: Holder): Promise<boolean> {
  const draft = `${file}.${self.id}`;
  try {
    // A full disk leaves an empty one.
    await writeFile(draft, `${JSON.stringify(self)}\n`, { mode: 0o600 });
    await link(draft, file);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false;
    throw error;
  } finally {
    await rm(draft, { force: true });
  }
}

async function readHolder(file: string): Promise<Holder | undefined> {
  const text = await readFile(file, 'utf8').catch(() => undefined);
  if (text === undefined) return undefined;
  try {
    return JSON.parse(text) as Holder;
  } catch {
    // Cut off by a power loss.
    return { pid: 0, startedAt: undefined, place: '', host: 'unknown', id: '' };
  }
}

async function isAlive(holder: Holder, self: Holder, file: string): Promise<boolean> {
  if (holder.place !== self.place) return beats(file);
  if (holder.startedAt !== undefined) return (await startOf(holder.pid)) === holder.startedAt;
  try {
    process.kill(holder.pid, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}

/** Watches the lock of a process that cannot be seen from here until it was touched, or silent for long enough. */
async function beats(file: string): Promise<boolean> {
  const first = await touchedAt(file);
  if (first === 0) return false;
  // A time in the future is one of another clock, too.
  const silentMs = Math.max(0, Math.min(Date.now() - first, SILENCE_MS - MIN_LOOK_MS));
  const until = performance.now() + SILENCE_MS - silentMs;
  while (performance.now() < until) {
    await sleep(HEARTBEAT_MS / 10);
    if ((await touchedAt(file)) !== first) return true;
  }
  return false;
}

/** Ms since the epoch; 0 when the file is gone. */
const touchedAt = (file: string): Promise<number> =>
  stat(file).then(
    ({ mtimeMs }) => mtimeMs,
    () => 0,
  );

/** Removes the lock of a dead holder, unless somebody else has replaced it in the meantime. */
async function discard(file: string, holder: Holder): Promise<void> {
  const aside = `${file}.${randomBytes(8).toString('hex')}`;
  try {
    await rename(file, aside);
  } catch {
    return;
  }
  const taken = await readHolder(aside);
  if (taken?.id !== holder.id) await link(aside, file).catch(() => undefined);
  await rm(aside, { force: true });
}

function hold(file: string, self: Holder, { onShared }: LockOwner): FolderLock {
  onShared?.(file);
  const heart = setInterval(() => {
    const now = new Date();
    utimes(file, now, now).catch(() => undefined);
  }, HEARTBEAT_MS);
  heart.unref();
  return {
    async release() {
      clearInterval(heart);
      if (onShared) return;
      if ((await readHolder(file))?.id === self.id) await rm(file, { force: true });
    },
  };
}
