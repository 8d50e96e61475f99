/** Makes a new database cluster. It appears in its place whole or not at all. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chown, mkdtemp, readdir, readFile, rename, rm } from 'node:fs/promises';
import { basename, dirname, join } from 'node:path';
import { text } from 'node:stream/consumers';
import { StartError } from '../../start-error.ts';
import type { Logger } from '../../telemetry/logger.ts';
import type { ServerBinaries, ServerIdentity } from './binaries.ts';
import { dataFolderArgument, serverEnvironment } from './server-settings.ts';

/** The superuser of the embedded server; only who can enter the socket's folder can log in. */
export const SUPERUSER = 'penstock';

/** Major version of the cluster in `folder`; `undefined` when there is none. */
export const clusterVersion = (folder: string): Promise<string | undefined> =>
  readFile(join(folder, 'PG_VERSION'), 'utf8').then(
    (content) => content.trim(),
    () => undefined,
  );

/**
 * Runs initdb. Its files are not yet safe on the disk when this returns: call `syncCluster`.
 * @throws StartError with what initdb said.
 */
export async function initialiseCluster(
  folder: string,
  binaries: ServerBinaries,
  identity: ServerIdentity,
): Promise<void> {
  await removeHalfMade(folder);
  const building = await mkdtemp(`${folder}${HALF_MADE}`);
  if (identity.uid !== undefined && identity.gid !== undefined)
    await chown(building, identity.uid, identity.gid);
  const options = [
    `--username=${SUPERUSER}`,
    '--auth=trust',
    '--encoding=UTF8',
    // The built-in provider behaves the same on every operating system and never changes the order of an index.
    '--locale=C',
    '--locale-provider=builtin',
    '--builtin-locale=C.UTF-8',
    '--no-sync',
    '--no-instructions',
  ];
  try {
    await initdb(building, options, { binaries, identity }).catch((error: unknown) => {
      if (!isNamelessUser(error)) throw error;
      return initdbAsNobody(building, options, { binaries, identity });
    });
  } catch (cause) {
    await rm(building, { recursive: true, force: true });
    const reason = cause instanceof Error ? cause.message : String(cause);
    const advice = /No space/.test(reason)
      ? 'free some space, or set PENSTOCK_DATA_DIR to a folder on a larger disk'
      : 'set DATABASE_URL to use a PostgreSQL server instead';
    throw new StartError(`The embedded PostgreSQL could not be set up (${reason}): ${advice}`, {
      cause,
    });
  }
  await rename(building, folder);
}

/** Follows the folder's name while its cluster is being made. */
const HALF_MADE = '.new-';

async function removeHalfMade(folder: string): Promise<void> {
  const siblings = await readdir(dirname(folder));
  const left = siblings.filter((name) => name.startsWith(`${basename(folder)}${HALF_MADE}`));
  await Promise.all(
    left.map((name) => rm(join(dirname(folder), name), { recursive: true, force: true })),
  );
}

const isNamelessUser = (error: unknown): boolean =>
  error instanceof Error && /could not look up effective user ID/.test(error.message);

/** A user of ours, seen from inside, that every password file has an entry for. */
const asNobody = ['--user', '--map-user=65534', '--map-group=65534'];

/**
 * initdb wants a name for its user, which a container started with a bare number (`docker run --user 4242`, OpenShift)
 * does not have. In a namespace of its own the same user is called nobody; the files belong to the number all the same.
 */
async function initdbAsNobody(
  folder: string,
  options: readonly string[],
  programs: Programs,
): Promise<void> {
  try {
    await initdb(folder, options, { ...programs, wrapper: ['unshare', ...asNobody] });
  } catch (cause) {
    throw new Error(
      `the user ${process.getuid?.() ?? ''} has no name in /etc/passwd, which the first start needs, and this system allows no user namespace: start once as a user with a name, or add the line "penstock:x:${process.getuid?.() ?? 0}:0::/:/bin/false" to the image's /etc/passwd`,
      { cause },
    );
  }
}

interface Programs {
  readonly binaries: ServerBinaries;
  readonly identity: ServerIdentity;
  /** Runs initdb through this command. */
  readonly wrapper?: readonly string[];
}

/** Runs initdb in `folder`; rejects with what it complained about first. */
async function initdb(
  folder: string,
  options: readonly string[],
  { binaries, identity, wrapper = [] }: Programs,
) {
  const [program = binaries.initdb, ...args] = [
    ...wrapper,
    binaries.initdb,
    '-D',
    dataFolderArgument(folder),
    ...options,
  ];
  const child = spawn(program, args, {
    cwd: folder,
    ...identity,
    env: serverEnvironment(),
    stdio: ['ignore', 'ignore', 'pipe'],
    // Out of reach of the terminal's Ctrl-C, which is for us.
    detached: true,
  });
  const exit = once(child, 'exit');
  const [complaints, [code]] = await Promise.all([text(child.stderr), exit]);
  if (code !== 0) throw new Error(complaintIn(complaints) ?? `initdb ended with ${code}`);
}

/** It says what is wrong, and then how it cleans up. */
function complaintIn(text: string): string | undefined {
  const lines = text.trim().split('\n');
  const complaint =
    lines.find((line) => /\b(FATAL|PANIC|error|could not|cannot|denied|No space)\b/.test(line)) ??
    lines.at(-1);
  return complaint?.replace(/^.*?(FATAL|PANIC|initdb: error): +/, '') || undefined;
}

/** Brings all files of a new cluster to the disk, while the server already works on it. */
export async function syncCluster(
  folder: string,
  programs: { binaries: ServerBinaries; identity: ServerIdentity },
  log: Logger,
): Promise<void> {
  try {
    await initdb(folder, ['--sync-only'], programs);
  } catch (error) {
    log.warn({ err: error }, 'The new database could not be synced to the disk');
  }
}
