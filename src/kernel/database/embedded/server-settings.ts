/** How the embedded server is configured. Everything is given at start: nothing is written into its folder. */
import { chown, mkdir, mkdtemp, readFile, rename, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import type { ServerIdentity } from './binaries.ts';

/** For a platform on a small machine; see the PostgreSQL manual, chapter "Server Configuration". */
const tuning: Readonly<Record<string, string>> = {
  shared_buffers: '128MB',
  effective_cache_size: '512MB',
  work_mem: '8MB',
  maintenance_work_mem: '64MB',
  // Short statements only: compiling them costs more than it saves.
  jit: 'off',
  random_page_cost: '1.1',
  max_wal_size: '1GB',
  checkpoint_timeout: '15min',
  max_wal_senders: '0',
  max_locks_per_transaction: '128',
  huge_pages: 'off',
  timezone: 'UTC',
  log_timezone: 'UTC',
  log_line_prefix: '%m [%p] ',
  // Failing statements reach the platform; in the log they would show personal data.
  log_min_messages: 'log',
};

/** Connections that the server takes, unless more are asked for. */
const MIN_CONNECTIONS = 100;

/** Arguments of `postgres`: one unix socket in a private folder, no network at all. */
export function serverArguments(
  dataFolder: string,
  socketFolder: string,
  connections = 0,
): string[] {
  const settings = {
    ...tuning,
    max_connections: String(Math.max(MIN_CONNECTIONS, connections)),
    listen_addresses: '',
    unix_socket_directories: socketFolder,
    unix_socket_permissions: '0700',
    port: String(SOCKET_PORT),
  };
  return [
    '-D',
    dataFolderArgument(dataFolder),
    ...Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`]),
  ];
}

/** Part of the socket's file name. */
export const SOCKET_PORT = 5432;

/**
 * How a data folder is named to PostgreSQL. On Linux programs run inside the folder and call it by
 * their own working directory, so that the unprivileged server needs no way through the folders above it.
 */
export const dataFolderArgument = (folder: string): string =>
  process.platform === 'linux' ? '/proc/self/cwd' : folder;

/** Nothing of our environment (PG* variables, locale, secrets) reaches the server. */
export const serverEnvironment = (): NodeJS.ProcessEnv => ({
  PATH: process.env.PATH ?? '/usr/bin:/bin',
  LC_ALL: 'C',
});

/* The private folder of the server's socket: whoever can enter it can log in. */

/** Longest path of a unix socket, in bytes, on the strictest platform (macOS: 104 with the end mark). */
const LONGEST_SOCKET_PATH = 103;

/** Makes the folder, with a short path: a new one, or `existing` again, where others look for a restarted server. */
export async function makeSocketFolder(
  { uid, gid }: ServerIdentity,
  existing: string | undefined,
): Promise<string> {
  let folder = existing;
  if (folder === undefined) {
    const fits =
      Buffer.byteLength(join(tmpdir(), 'penstock-XXXXXX', `.s.PGSQL.${SOCKET_PORT}.lock`)) <=
      LONGEST_SOCKET_PATH;
    folder = await mkdtemp(join(fits ? tmpdir() : '/tmp', 'penstock-'));
  } else {
    await rm(folder, { recursive: true, force: true });
    await mkdir(folder, { mode: 0o700 });
  }
  if (uid !== undefined && gid !== undefined) await chown(folder, uid, gid);
  return folder;
}

/* The log that the embedded server writes, and what it says about a start that failed. */

const LARGEST_LOG_BYTES = 5_000_000;
/** What the server tells everybody who asks too early, us included. */
const polite =
  /the database system is (starting up|shutting down|not yet accepting connections|in recovery mode)/;
const complaint = /FATAL|PANIC|error|not found|cannot|could not|denied/i;

const sizeOf = (file: string): Promise<number> =>
  stat(file).then(
    ({ size }) => size,
    () => 0,
  );

/** Makes room for the log, which starts anew when it has become large. Answers where the next start begins in it (bytes). */
export async function prepareLog(file: string): Promise<number> {
  await mkdir(dirname(file), { recursive: true, mode: 0o700 });
  const size = await sizeOf(file);
  if (size <= LARGEST_LOG_BYTES) return size;
  await rename(file, `${file}.1`);
  return 0;
}

/** Whether the server said since `start` (bytes) that it repairs what an unclean stop has left. */
export async function isRecovering(file: string, start: number): Promise<boolean> {
  const text = await readFile(file).catch(() => Buffer.alloc(0));
  return text.subarray(start).includes('automatic recovery in progress');
}

/** Why the server gave up, in its own words, since `start` (bytes): a PANIC or FATAL goes before all that followed from it. */
export async function reasonIn(file: string, start: number): Promise<string> {
  const text = await readFile(file).catch(() => Buffer.alloc(0));
  const lines = text.subarray(start).toString().trim().split('\n');
  const told = lines.filter((line) => complaint.test(line) && !polite.test(line));
  const worst =
    told.find((line) => /PANIC/.test(line)) ??
    told.find((line) => /FATAL/.test(line)) ??
    told.at(-1) ??
    lines.at(-1);
  return `${worst?.replace(/^.*?(FATAL|PANIC): +/, '') || 'it said nothing'} (log: ${file})`;
}
